/* expr_derive.c - Derivatives, which expressions have a text, and classes of bytes. */
#include "engine/choose/grammar/expr_nodes.h"
#include <string.h>

enum { MAX_DEPTH = 2000, SET_WORK = 16 /* what dividing classes by a set counts for */ };

/* False when the work of the pool is used up. */
static bool spend(sl_expr_pool *pool, uint64_t work) {
    pool->work -= work < pool->work ? work : pool->work;
    if (pool->work) return true;
    (void)sl_expr_fail(pool, SL_UNSUPPORTED);
    return false;
}

static sl_expr derive_list(sl_expr_pool *pool, sl_expr e, unsigned byte) {
    size_t count;
    const uint32_t *w = sl_word_table_get(&pool->nodes, e, &count);
    const bool or = w[0] == KIND_OR;
    sl_word_list list = {0};
    if (!spend(pool, count)) return SL_EXPR_NONE;
    for (size_t i = 1; i < count; i++) {
        w = sl_word_table_get(&pool->nodes, e, &count); /* the pool may have moved */
        const sl_expr d = sl_expr_derive(pool, w[i], byte);
        if (! or &&d == SL_EXPR_NONE) {
            sl_word_list_free(pool->allocator, &list);
            return SL_EXPR_NONE;
        }
        if (or &&d == SL_EXPR_NONE) continue;
        if (sl_word_list_add(pool->allocator, &list, d)) continue;
        sl_word_list_free(pool->allocator, &list);
        return sl_expr_fail(pool, SL_NO_MEMORY);
    }
    const sl_expr made = or ? sl_expr_or_all(pool, list.words, list.count)
                            : sl_expr_and_all(pool, list.words, list.count);
    sl_word_list_free(pool->allocator, &list);
    return made;
}

static sl_expr derive(sl_expr_pool *pool, sl_expr e, unsigned byte) {
    uint32_t w[9] = {0};
    size_t count;
    const uint32_t *own = sl_word_table_get(&pool->nodes, e, &count);
    memcpy(w, own, (count < 9 ? count : 9) * sizeof *w);
    switch (w[0]) {
    case KIND_NONE:
    case KIND_EMPTY:
        return SL_EXPR_NONE;
    case KIND_BYTES: {
        const sl_byte_set set = sl_expr_set(w);
        return sl_byte_set_has(&set, byte) ? SL_EXPR_EMPTY : SL_EXPR_NONE;
    }
    case KIND_LITERAL:
        if (pool->bytes.words[w[1]] != byte) return SL_EXPR_NONE;
        if (w[2] == 1) return SL_EXPR_EMPTY;
        return sl_expr_put(pool, (uint32_t[]){KIND_LITERAL, w[1] + 1, w[2] - 1}, 3);
    case KIND_CONCAT: {
        const sl_expr first = sl_expr_concat(pool, sl_expr_derive(pool, w[1], byte), w[2]);
        if (!sl_expr_nullable(pool, w[1])) return first;
        return sl_expr_or(pool, first, sl_expr_derive(pool, w[2], byte));
    }
    case KIND_OR:
    case KIND_AND:
        return derive_list(pool, e, byte);
    case KIND_NOT:
        return sl_expr_not(pool, sl_expr_derive(pool, w[1], byte));
    case KIND_REPEAT: {
        const uint32_t max = w[3] == SL_EXPR_UNBOUNDED ? w[3] : w[3] - 1;
        const sl_expr first = sl_expr_derive(pool, w[1], byte);
        if (first == SL_EXPR_NONE) return first;
        return sl_expr_concat(pool, first, sl_expr_repeat(pool, w[1], w[2] ? w[2] - 1 : 0, max));
    }
    default:
        return sl_leaf_derive(pool, w, byte);
    }
}

sl_expr sl_expr_derive(sl_expr_pool *pool, sl_expr e, unsigned byte) {
    const uint64_t key = (uint64_t)e << 8 | byte; /* never 0 for what is looked up */
    uint32_t known;
    unsigned first;
    if (e <= SL_EXPR_EMPTY) return SL_EXPR_NONE;
    if (e == SL_EXPR_ALL) return e;
    if (sl_expr_first(pool, e, &first) && first != byte) return SL_EXPR_NONE;
    if (sl_word_map_find(&pool->derived, key, &known)) return known;
    if (pool->depth > MAX_DEPTH) return sl_expr_fail(pool, SL_UNSUPPORTED);
    if (!spend(pool, 1)) return SL_EXPR_NONE;
    pool->depth++;
    const sl_expr made = derive(pool, e, byte);
    pool->depth--;
    if (pool->status != SL_OK) return SL_EXPR_NONE;
    if (!sl_word_map_set(pool->allocator, &pool->derived, key, made))
        return sl_expr_fail(pool, SL_NO_MEMORY);
    return made;
}

bool sl_expr_matches(sl_expr_pool *pool, sl_expr e, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes && e != SL_EXPR_NONE; i++)
        e = sl_expr_derive(pool, e, (unsigned char)text[i]);
    return sl_expr_nullable(pool, e);
}

void sl_byte_set_split(const sl_byte_set *set, uint16_t classes[256], unsigned *count) {
    uint16_t inside[257];
    uint8_t has_out[257] = {0};
    memset(inside, 0xFF, sizeof inside);
    for (unsigned b = 0; b < 256; b++)
        if (!sl_byte_set_has(set, b)) has_out[classes[b]] = 1;
    for (unsigned b = 0; b < 256; b++) {
        const uint16_t class = classes[b];
        if (!sl_byte_set_has(set, b) || !has_out[class]) continue;
        if (inside[class] == 0xFFFF) inside[class] = (uint16_t)(*count)++;
        classes[b] = inside[class];
    }
}

static void split_byte(unsigned byte, uint16_t classes[256], unsigned *count) {
    sl_byte_set set = {0};
    sl_byte_set_add(&set, byte, byte);
    sl_byte_set_split(&set, classes, count);
}

void sl_expr_split(sl_expr_pool *pool, sl_expr e, bool whole, uint16_t classes[256],
                   unsigned *count) {
    size_t words;
    const uint32_t *w = sl_word_table_get(&pool->nodes, e, &words);
    if (++pool->depth > MAX_DEPTH) (void)sl_expr_fail(pool, SL_UNSUPPORTED);
    const bool divides = w[0] != KIND_NONE && w[0] != KIND_EMPTY;
    if (pool->status != SL_OK || *count >= 256 || !spend(pool, divides ? SET_WORK : 1)) {
        pool->depth--;
        return;
    }
    switch (w[0]) {
    case KIND_NONE:
    case KIND_EMPTY:
        break;
    case KIND_BYTES: {
        const sl_byte_set set = sl_expr_set(w);
        sl_byte_set_split(&set, classes, count);
        break;
    }
    case KIND_LITERAL:
        for (uint32_t i = 0; i < (whole ? w[2] : 1); i++)
            split_byte(pool->bytes.words[w[1] + i], classes, count);
        break;
    case KIND_CONCAT: {
        sl_expr rest = e;
        while (w[0] == KIND_CONCAT) {
            const sl_expr first = w[1];
            rest = w[2];
            sl_expr_split(pool, first, whole, classes, count);
            if (!whole && !sl_expr_nullable(pool, first)) rest = SL_EXPR_EMPTY;
            w = sl_word_table_get(&pool->nodes, rest, &words);
        }
        sl_expr_split(pool, rest, whole, classes, count);
        break;
    }
    case KIND_OR:
    case KIND_AND:
        for (size_t i = 1; i < words; i++) sl_expr_split(pool, w[i], whole, classes, count);
        break;
    case KIND_NOT:
    case KIND_REPEAT:
        sl_expr_split(pool, w[1], whole, classes, count);
        break;
    default:
        split_byte('.', classes, count);
        for (unsigned d = '0'; d <= '9'; d++) split_byte(d, classes, count);
    }
    pool->depth--;
}

/* A search for a text of e among its derivatives. */
typedef struct {
    sl_word_list found, from; /* expressions, and the index of the one they were derived from */
    sl_word_map seen;
} search;

static bool visit(sl_expr_pool *pool, search *s, sl_expr e, uint32_t from) {
    uint32_t known;
    if (e == SL_EXPR_NONE || pool->marks.words[e] & MARK_DEAD ||
        sl_word_map_find(&s->seen, (uint64_t)e + 1, &known))
        return true;
    return sl_word_map_set(pool->allocator, &s->seen, (uint64_t)e + 1, 1) &&
           sl_word_list_add(pool->allocator, &s->found, e) &&
           sl_word_list_add(pool->allocator, &s->from, from);
}

static bool derive_all(sl_expr_pool *pool, search *s, uint32_t index) {
    uint16_t classes[256] = {0};
    unsigned count = 1;
    uint64_t done[5] = {0};
    const sl_expr e = s->found.words[index];
    sl_expr_split(pool, e, false, classes, &count);
    for (unsigned b = 0; b < 256; b++) {
        const uint16_t class = classes[b];
        if (done[class >> 6] >> (class & 63) & 1) continue;
        done[class >> 6] |= UINT64_C(1) << (class & 63);
        if (!visit(pool, s, sl_expr_derive(pool, e, b), index)) return false;
        if (pool->status != SL_OK) return false;
    }
    return true;
}

static bool search_text(sl_expr_pool *pool, search *s, sl_expr e) {
    if (!visit(pool, s, e, 0)) return false;
    for (uint32_t i = 0; i < s->found.count; i++) {
        if (pool->marks.words[s->found.words[i]] & MARK_ALIVE) {
            for (uint32_t k = i; k; k = s->from.words[k])
                pool->marks.words[s->found.words[k]] |= MARK_ALIVE;
            pool->marks.words[e] |= MARK_ALIVE;
            return true;
        }
        if (!derive_all(pool, s, i)) return false;
    }
    for (size_t i = 0; i < s->found.count; i++) pool->marks.words[s->found.words[i]] |= MARK_DEAD;
    return true;
}

bool sl_expr_alive(sl_expr_pool *pool, sl_expr e) {
    size_t count;
    while (!(pool->marks.words[e] & (MARK_ALIVE | MARK_DEAD))) {
        const uint32_t *w = sl_word_table_get(&pool->nodes, e, &count);
        if (w[0] != KIND_CONCAT) break;
        const sl_expr rest = w[2];
        if (!sl_expr_alive(pool, w[1])) return false;
        e = rest;
    }
    if (e == SL_EXPR_NONE || pool->marks.words[e] & MARK_DEAD) return false;
    if (pool->marks.words[e] & MARK_ALIVE) return true;
    search s = {0};
    if (!search_text(pool, &s, e)) (void)sl_expr_fail(pool, SL_NO_MEMORY);
    sl_word_list_free(pool->allocator, &s.found);
    sl_word_list_free(pool->allocator, &s.from);
    sl_word_map_free(pool->allocator, &s.seen);
    return pool->status == SL_OK && pool->marks.words[e] & MARK_ALIVE;
}
