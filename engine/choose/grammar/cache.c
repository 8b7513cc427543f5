/* cache.c - Compiled grammars by their texts. */
#include "engine/choose/grammar/cache.h"
#include <string.h>
#include <xxhash.h>

typedef struct {
    sl_grammar *grammar;
    char *text;
    size_t bytes;
    uint64_t hash, used;
    sl_grammar_kind kind;
    uint32_t whitespace;
    bool compact, closed, ordered;
} entry;

struct sl_grammar_cache {
    entry *entries;
    uint32_t capacity;
    uint64_t clock;
};

sl_grammar_cache *sl_grammar_cache_make(uint32_t capacity) {
    sl_grammar_cache *cache = sl_allocate(NULL, sizeof *cache, _Alignof(sl_grammar_cache));
    if (!cache) return NULL;
    cache->capacity = capacity;
    cache->entries = sl_allocate(NULL, capacity * sizeof(entry), _Alignof(entry));
    if (cache->entries) return cache;
    sl_grammar_cache_free(cache);
    return NULL;
}

static void clear(entry *e) {
    sl_grammar_release(e->grammar);
    sl_release(NULL, e->text, e->bytes + 1, 1);
    *e = (entry){0};
}

void sl_grammar_cache_free(sl_grammar_cache *cache) {
    if (!cache) return;
    for (uint32_t i = 0; cache->entries && i < cache->capacity; i++) clear(&cache->entries[i]);
    sl_release(NULL, cache->entries, cache->capacity * sizeof(entry), _Alignof(entry));
    sl_release(NULL, cache, sizeof *cache, _Alignof(sl_grammar_cache));
}

static bool same(const entry *a, const entry *b) {
    return a->grammar && a->hash == b->hash && a->kind == b->kind && a->bytes == b->bytes &&
           a->whitespace == b->whitespace && a->compact == b->compact && a->closed == b->closed &&
           a->ordered == b->ordered && (!a->bytes || memcmp(a->text, b->text, a->bytes) == 0);
}

/* A grammar that cannot be kept is still given. */
static void keep(sl_grammar_cache *cache, entry *made) {
    entry *oldest = &cache->entries[0];
    for (uint32_t i = 1; i < cache->capacity; i++)
        if (cache->entries[i].used < oldest->used) oldest = &cache->entries[i];
    char *copy = sl_allocate(NULL, made->bytes + 1, 1);
    if (!copy) return;
    if (made->bytes) memcpy(copy, made->text, made->bytes);
    made->text = copy;
    made->used = ++cache->clock;
    clear(oldest);
    *oldest = *made;
    sl_grammar_take(made->grammar);
}

sl_status sl_grammar_cache_get(sl_grammar_cache *cache, sl_grammar_kind kind, const char *text,
                               size_t bytes, const sl_grammar_options *options, sl_grammar **out,
                               sl_error *err) {
    entry wanted = {.text = (char *)(uintptr_t)text,
                    .bytes = bytes,
                    .hash = XXH64(text, bytes, 0),
                    .kind = kind,
                    .whitespace = options->whitespace,
                    .compact = options->compact != 0,
                    .closed = options->closed != 0,
                    .ordered = options->ordered != 0};
    for (uint32_t i = 0; i < cache->capacity; i++) {
        entry *e = &cache->entries[i];
        if (!same(e, &wanted)) continue;
        e->used = ++cache->clock;
        sl_grammar_take(e->grammar);
        *out = e->grammar;
        return SL_OK;
    }
    SL_TRY(sl_grammar_build(kind, text, bytes, options, &wanted.grammar, err));
    *out = wanted.grammar;
    keep(cache, &wanted);
    return SL_OK;
}
