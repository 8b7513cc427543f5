/* pool.h - Named device memory: a pool holds the buffers that programs are bound to.
 *
 * Buffers are zeroed and aligned, or borrowed (mapped weights, caches of a session).  Uploads and
 * downloads may be shorter than the buffer (they touch its first bytes), never longer. */
#ifndef SL_RUNTIME_POOL_H
#define SL_RUNTIME_POOL_H
#include "base/memory.h"
#include "core/ids.h"
#include <stdbool.h>

typedef struct sl_pool sl_pool;
typedef struct {
    const char *label;
    uint64_t bytes, alignment;
    bool persistent, borrowed;
} sl_pool_buffer;

SL_CHECKED sl_status sl_pool_create(const sl_allocator *allocator, sl_pool **out, sl_error *err);
void sl_pool_destroy(sl_pool *pool); /* borrowed memory stays */
/* Zeroed.  alignment: a power of two up to 2 MiB.  Transient buffers go with sl_pool_reset. */
SL_CHECKED sl_status sl_pool_add(sl_pool *pool, const sl_pool_buffer *what, sl_buffer_id *out,
                                 sl_error *err);
/* Stays until the pool is destroyed. */
SL_CHECKED sl_status sl_pool_borrow(sl_pool *pool, const char *label, void *data, uint64_t bytes,
                                    sl_buffer_id *out, sl_error *err);
SL_CHECKED sl_status sl_pool_upload(sl_pool *pool, sl_buffer_id id, uint64_t at, const void *from,
                                    uint64_t bytes, sl_error *err);
SL_CHECKED sl_status sl_pool_download(const sl_pool *pool, sl_buffer_id id, void *into,
                                      uint64_t bytes, sl_error *err);
void *sl_pool_data(const sl_pool *pool, sl_buffer_id id); /* NULL for ids that are gone */
/* Valid until a buffer is added or the pool is reset; NULL for ids that are gone. */
const sl_pool_buffer *sl_pool_info(const sl_pool *pool, sl_buffer_id id);
/* Releases transient buffers; their ids are never used again. */
void sl_pool_reset(sl_pool *pool);
uint32_t sl_pool_count(const sl_pool *pool); /* physical buffers, borrowed ones too */
uint64_t sl_pool_bytes(const sl_pool *pool); /* owned */
#endif
