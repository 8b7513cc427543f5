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
    const char *name, *why; /* why: "dtype F64 is not supported" */
    const char *dtype;      /* the file's name of the type; NULL if the reader does not know it */
    sl_dims shape;          /* rank 0 if it has too many dims or none */
    uint64_t offset, bytes; /* from the start of the file */
} sl_safetensors_skipped;

typedef struct {
    sl_safetensor *tensors; /* in order of offset */
    sl_safetensors_skipped *skipped;
    uint32_t count, skipped_count;
} sl_safetensors_header;

/* The file format's name of a type: "BF16"; NULL if there is none. */
const char *sl_safetensors_name(sl_dtype dtype);

/* Parses the header at the start of a file of file_bytes bytes; `start` holds its first start_bytes
 * (at least 8 + header length).  Everything is checked: length, JSON, dtype, shape against byte
 * count, ranges inside the file, no overlap.  Results live in the arena.  `what` names the file in
 * messages.
 *
 * F32, F16, BF16, I32, U8 and BOOL become sluice's types of those names.  Tensors of other types
 * (I64, F64, F8...), empty ones and those with too many dims are not errors: they are listed in
 * `skipped` with the reason, for the message if one is needed. */
SL_CHECKED sl_status sl_safetensors_parse(const char *what, const void *start, size_t start_bytes,
                                          uint64_t file_bytes, sl_arena *arena,
                                          sl_safetensors_header *out, sl_error *err);

typedef struct {
    const char *name;
    sl_type type;
    const void *data;
} sl_safetensors_item;
/* Writes a file under a temporary name and renames it; on failure nothing is left behind.
 * Larger elements come first, so that every tensor is aligned to its element size. */
SL_CHECKED sl_status sl_safetensors_write(const char *path, const sl_safetensors_item *items,
                                          uint32_t count, sl_error *err);
#endif
