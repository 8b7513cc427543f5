/* load.h - Reads resident weights at disk speed into memory with huge pages. */
#ifndef SL_ENGINE_MODELS_LOAD_H
#define SL_ENGINE_MODELS_LOAD_H
#include "engine/formats/source.h"
#include "io/reader.h"
#include "sluice/sluice.h"

typedef struct sl_load_block sl_load_block;
typedef struct {
    sl_source *source;             /* borrowed */
    sl_reader *reader;             /* borrowed, of the source's files; nobody else uses it */
    const sl_allocator *allocator; /* borrowed */
    sl_progress_fn *progress;      /* or NULL */
    void *progress_ctx;
    uint64_t loaded_bytes, total_bytes; /* total: for the progress */
    sl_load_block *newest;
} sl_load;

void sl_load_deinit(sl_load *load); /* releases all loaded weights; a zeroed struct is allowed */
/* Fails when bytes do not match their checksum, when they cannot be read, or with SL_CANCELLED when
 * progress says so. */
SL_CHECKED sl_status sl_load_tensor(sl_load *load, const sl_tensor_entry *entry, const void **out,
                                    sl_error *err);
#endif
