/* safetensors.h - The safetensors container: a JSON header and raw little-endian tensors. */
#ifndef SL_ENGINE_FORMATS_SAFETENSORS_H
#define SL_ENGINE_FORMATS_SAFETENSORS_H
#include "base/memory.h"
#include "core/type.h"

typedef struct {
    const char *name;
    sl_type type;
    uint64_t offset, bytes; /* from the start of the file */
} sl_safetensor;

typedef struct {
    sl_safetensor *tensors; /* in order of offset */
    uint32_t count;
} sl_safetensors_header;

/* Parses the header found at the start of a file of file_bytes bytes; `start` holds its first
 * start_bytes (at least 8 + header length).  Everything is checked: length, JSON, dtype, shape
 * against byte count, ranges inside the file, no overlap.  Results live in arena.  what names the
 * file in messages.  Tensors of types sluice has no dtype for (I64, F64, F8...) are kept out of
 * the list unless they would be needed: their names come back in skipped. */
SL_CHECKED sl_status sl_safetensors_parse(const char *what, const void *start, size_t start_bytes,
                                          uint64_t file_bytes, sl_arena *arena,
                                          sl_safetensors_header *out, sl_error *err);

typedef struct {
    const char *name;
    sl_type type;
    const void *data;
} sl_safetensors_item;
/* Writes a file under a temporary name and renames it; on failure nothing is left behind. */
SL_CHECKED sl_status sl_safetensors_write(const char *path, const sl_safetensors_item *items,
                                          uint32_t count, sl_error *err);
#endif
