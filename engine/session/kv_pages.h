/* kv_pages.h - The pages of the KV cache (core/kv.h): which are free, and which each sequence has.
 *
 * A page is used by as many tables and other owners (the prefix tree) as it has references.  A page
 * with several is never written: a sequence that appends to one gets a copy (copy on write), so
 * that sequences share what they have in common. */
#ifndef SL_ENGINE_SESSION_KV_PAGES_H
#define SL_ENGINE_SESSION_KV_PAGES_H
#include "base/memory.h"
#include "core/kv.h"

typedef struct sl_kv_pages sl_kv_pages;

typedef struct {
    uint32_t count;       /* of the cache */
    uint32_t slots, most; /* sequences, and pages of each at most */
    sl_status (*copy)(void *ctx, int32_t from, int32_t to, sl_error *err); /* of a page's bytes */
    void *ctx;
    const sl_allocator *allocator;
} sl_kv_pages_options;
SL_CHECKED sl_status sl_kv_pages_create(const sl_kv_pages_options *options, sl_kv_pages **out,
                                        sl_error *err);
void sl_kv_pages_destroy(sl_kv_pages *pages); /* NULL is allowed */

/* Is called when no page is free: gives up a reference or more, perhaps the last one of a page;
 * false if there is nothing to give up. */
typedef bool sl_kv_reclaim_fn(void *ctx);
void sl_kv_pages_set_reclaim(sl_kv_pages *pages, sl_kv_reclaim_fn *reclaim, void *ctx);

/* The pages of a sequence in order; there is room for `most`. */
const int32_t *sl_kv_pages_of(const sl_kv_pages *pages, uint32_t slot, uint32_t *out_count);
/* Makes positions [from, to) of a sequence writable: takes free pages, and copies the page that
 * `from` is in where others use it too.  What pages beyond `from` held is lost. */
SL_CHECKED sl_status sl_kv_pages_write(sl_kv_pages *pages, uint32_t slot, uint64_t from,
                                       uint64_t to, sl_error *err);
/* Gives up what a sequence has beyond its first positions. */
void sl_kv_pages_truncate(sl_kv_pages *pages, uint32_t slot, uint64_t positions);
/* The sequence consists of the first positions of another one, in the same pages. */
void sl_kv_pages_share(sl_kv_pages *pages, uint32_t from, uint32_t to, uint64_t positions);
/* Page `index` of a sequence, which has all before it, is this one. */
void sl_kv_pages_adopt(sl_kv_pages *pages, uint32_t slot, uint32_t index, int32_t page);

/* References of other owners, and how many there are. */
uint32_t sl_kv_pages_references(const sl_kv_pages *pages, int32_t page);
void sl_kv_pages_retain(sl_kv_pages *pages, int32_t page);
void sl_kv_pages_release(sl_kv_pages *pages, int32_t page);

typedef struct {
    uint32_t count, free;
    uint64_t copies; /* of pages, since the beginning */
} sl_kv_pages_stats;
sl_kv_pages_stats sl_kv_pages_describe(const sl_kv_pages *pages);
#endif
