#include "engine/session/kv_pages.h"
#include <assert.h>
#include <string.h>

struct sl_kv_pages {
    sl_kv_pages_options options;
    sl_kv_reclaim_fn *reclaim; /* NULL: none */
    void *reclaim_ctx;
    uint32_t free_count;
    uint64_t copies;
    uint32_t *references; /* [count] */
    int32_t *free;        /* [count]: the first free_count, of which the last is taken next */
    int32_t *tables;      /* [slots][most] */
    uint32_t *used;       /* [slots]: pages of each table */
};

static int32_t *table_of(const sl_kv_pages *pages, uint32_t slot) {
    return pages->tables + (size_t)slot * pages->options.most;
}

static void *room(const sl_kv_pages *pages, size_t count) {
    return sl_resize(pages->options.allocator, NULL, 0, count * sizeof(int32_t), sizeof(int32_t));
}

static void leave(const sl_kv_pages *pages, void *array, size_t count) {
    sl_release(pages->options.allocator, array, count * sizeof(int32_t), sizeof(int32_t));
}

static bool allocate(sl_kv_pages *pages) {
    const sl_kv_pages_options *o = &pages->options;
    pages->references = room(pages, o->count);
    pages->free = room(pages, o->count);
    pages->tables = room(pages, (size_t)o->slots * o->most);
    pages->used = room(pages, o->slots);
    return pages->references && pages->free && pages->tables && pages->used;
}

sl_status sl_kv_pages_create(const sl_kv_pages_options *options, sl_kv_pages **out, sl_error *err) {
    sl_kv_pages *pages = sl_allocate(options->allocator, sizeof *pages, _Alignof(sl_kv_pages));
    if (!pages) return sl_no_memory(err, "the pages of the KV cache", sizeof *pages);
    pages->options = *options;
    if (!allocate(pages)) {
        sl_kv_pages_destroy(pages);
        return sl_no_memory(err, "the pages of the KV cache", options->count * sizeof(int32_t));
    }
    memset(pages->references, 0, options->count * sizeof *pages->references);
    memset(pages->used, 0, options->slots * sizeof *pages->used);
    /* The first pages are taken first, and again: others stay untouched memory. */
    for (uint32_t i = 0; i < options->count; i++)
        pages->free[i] = (int32_t)(options->count - 1 - i);
    pages->free_count = options->count;
    *out = pages;
    return SL_OK;
}

void sl_kv_pages_destroy(sl_kv_pages *pages) {
    if (!pages) return;
    const sl_kv_pages_options o = pages->options;
    leave(pages, pages->references, o.count);
    leave(pages, pages->free, o.count);
    leave(pages, pages->tables, (size_t)o.slots * o.most);
    leave(pages, pages->used, o.slots);
    sl_release(o.allocator, pages, sizeof *pages, _Alignof(sl_kv_pages));
}

void sl_kv_pages_set_reclaim(sl_kv_pages *pages, sl_kv_reclaim_fn *reclaim, void *ctx) {
    pages->reclaim = reclaim;
    pages->reclaim_ctx = ctx;
}

/* ---- references ---- */

uint32_t sl_kv_pages_references(const sl_kv_pages *pages, int32_t page) {
    return pages->references[page];
}

void sl_kv_pages_retain(sl_kv_pages *pages, int32_t page) {
    assert(pages->references[page] > 0);
    pages->references[page]++;
}

void sl_kv_pages_release(sl_kv_pages *pages, int32_t page) {
    assert(pages->references[page] > 0);
    if (--pages->references[page] == 0) pages->free[pages->free_count++] = page;
}

/* Whether a page is free, perhaps after others have given up some. */
static bool has_free(sl_kv_pages *pages) {
    while (pages->free_count == 0)
        if (!pages->reclaim || !pages->reclaim(pages->reclaim_ctx)) return false;
    return true;
}

/* A free page, with one reference. */
static sl_status take(sl_kv_pages *pages, int32_t *out, sl_error *err) {
    if (!has_free(pages))
        return sl_fail(err, SL_NO_MEMORY,
                       "the KV cache is full: all %u pages of %d tokens are in use; close or "
                       "shorten sessions, or open the model with more KV memory",
                       pages->options.count, SL_KV_PAGE);
    *out = pages->free[--pages->free_count];
    pages->references[*out] = 1;
    return SL_OK;
}

/* ---- sequences ---- */

const int32_t *sl_kv_pages_of(const sl_kv_pages *pages, uint32_t slot, uint32_t *out_count) {
    if (out_count) *out_count = pages->used[slot];
    return table_of(pages, slot);
}

/* Page `index` of a sequence becomes a new one, with the bytes of the old one if `copies`. */
static sl_status replace(sl_kv_pages *pages, int32_t *page, bool copies, sl_error *err) {
    const sl_kv_pages_options *o = &pages->options;
    int32_t fresh;
    if (!has_free(pages) && pages->references[*page] == 1) return SL_OK; /* its own by now */
    SL_TRY(take(pages, &fresh, err));
    const sl_status status = copies ? o->copy(o->ctx, *page, fresh, err) : SL_OK;
    if (status == SL_OK) {
        const int32_t old = *page;
        *page = fresh;
        fresh = old;
        pages->copies += copies;
    }
    sl_kv_pages_release(pages, fresh);
    return status;
}

sl_status sl_kv_pages_write(sl_kv_pages *pages, uint32_t slot, uint64_t from, uint64_t to,
                            sl_error *err) {
    const sl_kv_pages_options *o = &pages->options;
    if (slot >= o->slots || to > (uint64_t)o->most * SL_KV_PAGE)
        return sl_fail(err, SL_INVALID,
                       "position %llu of sequence %u, there are %u sequences of %llu positions",
                       (unsigned long long)to, slot, o->slots,
                       (unsigned long long)o->most * SL_KV_PAGE);
    int32_t *table = table_of(pages, slot);
    uint32_t *used = &pages->used[slot];
    for (uint64_t i = from / SL_KV_PAGE; i < *used && i * SL_KV_PAGE < to; i++)
        if (pages->references[table[i]] > 1)
            SL_TRY(replace(pages, &table[i], from > i * SL_KV_PAGE, err));
    while ((uint64_t)*used * SL_KV_PAGE < to) {
        SL_TRY(take(pages, &table[*used], err));
        ++*used;
    }
    return SL_OK;
}

void sl_kv_pages_truncate(sl_kv_pages *pages, uint32_t slot, uint64_t positions) {
    const int32_t *table = table_of(pages, slot);
    uint32_t *used = &pages->used[slot];
    while (*used > (uint64_t)sl_kv_page_count((int64_t)positions))
        sl_kv_pages_release(pages, table[--*used]);
}

void sl_kv_pages_share(sl_kv_pages *pages, uint32_t from, uint32_t to, uint64_t positions) {
    const int32_t *table = table_of(pages, from);
    const uint32_t count = (uint32_t)sl_kv_page_count((int64_t)positions);
    assert(count <= pages->used[from]);
    for (uint32_t i = 0; i < count; i++) sl_kv_pages_adopt(pages, to, i, table[i]);
    sl_kv_pages_truncate(pages, to, positions);
}

void sl_kv_pages_adopt(sl_kv_pages *pages, uint32_t slot, uint32_t index, int32_t page) {
    int32_t *table = table_of(pages, slot);
    assert(index <= pages->used[slot] && index < pages->options.most);
    sl_kv_pages_retain(pages, page);
    if (index < pages->used[slot])
        sl_kv_pages_release(pages, table[index]);
    else
        pages->used[slot]++;
    table[index] = page;
}

sl_kv_pages_stats sl_kv_pages_describe(const sl_kv_pages *pages) {
    return (sl_kv_pages_stats){pages->options.count, pages->free_count, pages->copies};
}
