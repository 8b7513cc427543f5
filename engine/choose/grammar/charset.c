/* charset.c - Sets of characters, and their UTF-8. */
#include "engine/choose/grammar/charset.h"
#include <stdlib.h>

bool sl_charset_add(const sl_allocator *allocator, sl_charset *set, uint32_t first, uint32_t last) {
    return sl_word_list_append(allocator, &set->pairs, (uint32_t[]){first, last}, 2);
}

bool sl_charset_add_set(const sl_allocator *allocator, sl_charset *set, const sl_charset *other) {
    return sl_word_list_append(allocator, &set->pairs, other->pairs.words, other->pairs.count);
}

static int by_first(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void sl_charset_normalise(sl_charset *set) {
    uint32_t *w = set->pairs.words;
    size_t kept = 0;
    if (!set->pairs.count) return;
    qsort(w, set->pairs.count / 2, 2 * sizeof *w, by_first);
    for (size_t i = 0; i < set->pairs.count; i += 2) {
        if (kept && w[i] <= w[kept - 1] + 1) {
            if (w[i + 1] > w[kept - 1]) w[kept - 1] = w[i + 1];
            continue;
        }
        w[kept] = w[i];
        w[kept + 1] = w[i + 1];
        kept += 2;
    }
    set->pairs.count = kept;
}

bool sl_charset_complement(const sl_allocator *allocator, sl_charset *set) {
    sl_charset out = {{0}};
    uint32_t next = 0;
    bool fine = true;
    sl_charset_normalise(set);
    for (size_t i = 0; fine && i < set->pairs.count; i += 2) {
        if (set->pairs.words[i] > next)
            fine = sl_charset_add(allocator, &out, next, set->pairs.words[i] - 1);
        next = set->pairs.words[i + 1] + 1;
    }
    if (fine && next <= SL_LAST_CHARACTER)
        fine = sl_charset_add(allocator, &out, next, SL_LAST_CHARACTER);
    sl_charset_free(allocator, set);
    *set = out;
    return fine;
}

bool sl_charset_fold(const sl_allocator *allocator, sl_charset *set) {
    const size_t count = set->pairs.count;
    for (size_t i = 0; i < count; i += 2) {
        for (uint32_t c = 'A'; c <= 'Z'; c++) {
            const uint32_t first = set->pairs.words[i], last = set->pairs.words[i + 1];
            const bool upper = first <= c && c <= last;
            const bool lower = first <= c + 32 && c + 32 <= last;
            if (upper != lower &&
                !sl_charset_add(allocator, set, upper ? c + 32 : c, upper ? c + 32 : c))
                return false;
        }
    }
    return true;
}

void sl_charset_free(const sl_allocator *allocator, sl_charset *set) {
    sl_word_list_free(allocator, &set->pairs);
}

static unsigned utf8_length(uint32_t c) {
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static void utf8_bytes(uint32_t c, unsigned length, unsigned char out[4]) {
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (unsigned i = length; i-- > 1; c >>= 6) out[i] = (unsigned char)(0x80 | (c & 0x3F));
    out[0] = (unsigned char)(lead[length] | c);
}

/* Texts of one length between two, byte by byte. */
static sl_expr between(sl_expr_pool *pool, const unsigned char *first, const unsigned char *last,
                       unsigned length) {
    static const unsigned char low[] = {0x80, 0x80, 0x80}, high[] = {0xBF, 0xBF, 0xBF};
    sl_byte_set set = {0};
    sl_expr made = SL_EXPR_NONE;
    unsigned from = first[0], to = last[0];
    if (length == 1) {
        sl_byte_set_add(&set, from, to);
        return sl_expr_bytes(pool, &set);
    }
    if (from == to)
        return sl_expr_concat(pool, sl_expr_byte(pool, from),
                              between(pool, first + 1, last + 1, length - 1));
    bool starts = true, ends = true;
    for (unsigned i = 1; i < length; i++) {
        starts &= first[i] == 0x80;
        ends &= last[i] == 0xBF;
    }
    if (!starts) {
        made = sl_expr_concat(pool, sl_expr_byte(pool, from++),
                              between(pool, first + 1, high, length - 1));
    }
    if (!ends) {
        made = sl_expr_or(pool, made,
                          sl_expr_concat(pool, sl_expr_byte(pool, to--),
                                         between(pool, low, last + 1, length - 1)));
    }
    if (from > to) return made;
    sl_byte_set_add(&set, from, to);
    const sl_expr rest = between(pool, low, high, length - 1);
    return sl_expr_or(pool, made, sl_expr_concat(pool, sl_expr_bytes(pool, &set), rest));
}

static sl_expr range_expr(sl_expr_pool *pool, uint32_t first, uint32_t last) {
    static const uint32_t ends[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF, SL_LAST_CHARACTER};
    sl_expr made = SL_EXPR_NONE;
    for (unsigned i = 0; i < 6 && first <= last; i++) {
        unsigned char a[4], b[4];
        const uint32_t end = last < ends[i] ? last : ends[i];
        if (first > end) continue;
        const unsigned length = utf8_length(first);
        utf8_bytes(first, length, a);
        utf8_bytes(end, length, b);
        if (i != 3) made = sl_expr_or(pool, made, between(pool, a, b, length));
        first = end + 1;
    }
    return made;
}

sl_expr sl_charset_expr(sl_expr_pool *pool, sl_charset *set) {
    sl_word_list parts = {0};
    sl_charset_normalise(set);
    for (size_t i = 0; i < set->pairs.count; i += 2) {
        const sl_expr e = range_expr(pool, set->pairs.words[i], set->pairs.words[i + 1]);
        if (sl_word_list_add(pool->allocator, &parts, e)) continue;
        pool->status = SL_NO_MEMORY;
        break;
    }
    const sl_expr made = sl_expr_or_all(pool, parts.words, parts.count);
    sl_word_list_free(pool->allocator, &parts);
    return made;
}

sl_expr sl_charset_any(sl_expr_pool *pool) {
    return range_expr(pool, 0, SL_LAST_CHARACTER);
}

sl_expr sl_charset_text(sl_expr_pool *pool) {
    return sl_expr_star(pool, sl_charset_any(pool));
}
