#include "runtime/pool.h"
#include <string.h>

enum { MAX_ALIGNMENT = 2 << 20, FIRST_CAPACITY = 16 };

typedef struct {
    uint32_t id;
    sl_pool_buffer info; /* the label is our copy */
    void *data;
} entry;

struct sl_pool {
    const sl_allocator *allocator;
    entry *entries; /* by ascending id */
    uint32_t count, capacity, next_id;
    uint64_t owned_bytes;
};

sl_status sl_pool_create(const sl_allocator *allocator, sl_pool **out, sl_error *err) {
    sl_pool *pool = sl_allocate(allocator, sizeof *pool, _Alignof(sl_pool));
    if (!pool) return sl_no_memory(err, "a pool", sizeof *pool);
    pool->allocator = allocator;
    *out = pool;
    return SL_OK;
}

static void release(sl_pool *pool, entry *e) {
    sl_release(pool->allocator, (char *)(uintptr_t)e->info.label, strlen(e->info.label) + 1, 1);
    if (e->info.borrowed) return;
    sl_release(pool->allocator, e->data, e->info.bytes, e->info.alignment);
    pool->owned_bytes -= e->info.bytes;
}

void sl_pool_destroy(sl_pool *pool) {
    if (!pool) return;
    for (uint32_t i = 0; i < pool->count; i++) release(pool, &pool->entries[i]);
    sl_release(pool->allocator, pool->entries, pool->capacity * sizeof(entry), _Alignof(entry));
    sl_release(pool->allocator, pool, sizeof *pool, _Alignof(sl_pool));
}

void sl_pool_reset(sl_pool *pool) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pool->count; i++)
        if (pool->entries[i].info.persistent)
            pool->entries[kept++] = pool->entries[i];
        else
            release(pool, &pool->entries[i]);
    pool->count = kept;
}

static sl_status make_room(sl_pool *pool, sl_error *err) {
    if (pool->next_id == UINT32_MAX)
        return sl_fail(err, SL_INVALID, "a pool has given out all its %u ids", UINT32_MAX);
    if (pool->count < pool->capacity) return SL_OK;
    const uint32_t capacity = pool->capacity ? 2 * pool->capacity : FIRST_CAPACITY;
    entry *entries = sl_resize(pool->allocator, pool->entries, pool->capacity * sizeof(entry),
                               capacity * sizeof(entry), _Alignof(entry));
    if (!entries) return sl_no_memory(err, "the table of a pool", capacity * sizeof(entry));
    pool->entries = entries;
    pool->capacity = capacity;
    return SL_OK;
}

/* data is owned from here on unless info says it is borrowed, also when this fails. */
static sl_status insert(sl_pool *pool, const sl_pool_buffer *info, void *data, sl_buffer_id *out,
                        sl_error *err) {
    const size_t label_bytes = strlen(info->label) + 1;
    char *label = NULL;
    sl_status status = make_room(pool, err);
    if (status == SL_OK) {
        label = sl_allocate(pool->allocator, label_bytes, 1);
        if (!label) status = sl_no_memory(err, "a label", label_bytes);
    }
    if (status != SL_OK) {
        if (!info->borrowed) sl_release(pool->allocator, data, info->bytes, info->alignment);
        return status;
    }
    memcpy(label, info->label, label_bytes);
    entry *e = &pool->entries[pool->count++];
    *e = (entry){pool->next_id++, *info, data};
    e->info.label = label;
    if (!info->borrowed) pool->owned_bytes += info->bytes;
    *out = (sl_buffer_id){e->id};
    return SL_OK;
}

sl_status sl_pool_add(sl_pool *pool, const sl_pool_buffer *what, sl_buffer_id *out, sl_error *err) {
    sl_pool_buffer info = *what;
    if (!info.label) info.label = "unnamed";
    if (info.borrowed)
        return sl_fail(err, SL_INVALID, "'%s' is borrowed: give its memory to sl_pool_borrow",
                       info.label);
    if (info.bytes == 0 || info.bytes > SIZE_MAX / 2)
        return sl_fail(err, SL_INVALID, "'%s': a buffer of %llu bytes", info.label,
                       (unsigned long long)info.bytes);
    if (info.alignment == 0 || info.alignment > MAX_ALIGNMENT ||
        (info.alignment & (info.alignment - 1)) != 0)
        return sl_fail(err, SL_INVALID, "'%s': alignment %llu, a power of two up to %d wanted",
                       info.label, (unsigned long long)info.alignment, MAX_ALIGNMENT);
    void *data = sl_allocate(pool->allocator, info.bytes, info.alignment);
    if (!data) return sl_no_memory(err, info.label, info.bytes);
    return insert(pool, &info, data, out, err);
}

sl_status sl_pool_borrow(sl_pool *pool, const char *label, void *data, uint64_t bytes,
                         sl_buffer_id *out, sl_error *err) {
    const sl_pool_buffer info = {.label = label ? label : "unnamed",
                                 .bytes = bytes,
                                 .alignment = 1,
                                 .persistent = true,
                                 .borrowed = true};
    if (!data) return sl_fail(err, SL_INVALID, "'%s' is borrowed from no memory", info.label);
    return insert(pool, &info, data, out, err);
}

static entry *find(const sl_pool *pool, sl_buffer_id id) {
    uint32_t low = 0, high = pool->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (pool->entries[middle].id < id.v)
            low = middle + 1;
        else
            high = middle;
    }
    return low < pool->count && pool->entries[low].id == id.v ? &pool->entries[low] : NULL;
}

static sl_status find_range(const sl_pool *pool, sl_buffer_id id, uint64_t at, uint64_t bytes,
                            entry **out, sl_error *err) {
    entry *e = find(pool, id);
    if (!e) return sl_fail(err, SL_INVALID, "buffer %u is not in this pool", id.v);
    if (at > e->info.bytes || bytes > e->info.bytes - at)
        return sl_fail(err, SL_INVALID, "'%s': %llu bytes at %llu, it has %llu", e->info.label,
                       (unsigned long long)bytes, (unsigned long long)at,
                       (unsigned long long)e->info.bytes);
    *out = e;
    return SL_OK;
}

sl_status sl_pool_upload(sl_pool *pool, sl_buffer_id id, uint64_t at, const void *from,
                         uint64_t bytes, sl_error *err) {
    entry *e = NULL;
    SL_TRY(find_range(pool, id, at, bytes, &e, err));
    if (bytes > 0) memcpy((char *)e->data + at, from, bytes);
    return SL_OK;
}

sl_status sl_pool_download(const sl_pool *pool, sl_buffer_id id, void *into, uint64_t bytes,
                           sl_error *err) {
    entry *e = NULL;
    SL_TRY(find_range(pool, id, 0, bytes, &e, err));
    if (bytes > 0) memcpy(into, e->data, bytes);
    return SL_OK;
}

void *sl_pool_data(const sl_pool *pool, sl_buffer_id id) {
    const entry *e = find(pool, id);
    return e ? e->data : NULL;
}

const sl_pool_buffer *sl_pool_info(const sl_pool *pool, sl_buffer_id id) {
    const entry *e = find(pool, id);
    return e ? &e->info : NULL;
}

uint32_t sl_pool_count(const sl_pool *pool) {
    return pool->count;
}
uint64_t sl_pool_bytes(const sl_pool *pool) {
    return pool->owned_bytes;
}
