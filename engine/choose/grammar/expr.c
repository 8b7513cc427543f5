/* expr.c - The pool of expressions, and how they are made. */
#include "engine/choose/grammar/expr_nodes.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_WORK = 1 << 25 }; /* about half a second */

sl_expr sl_expr_fail(sl_expr_pool *pool, sl_status status) {
    if (pool->status == SL_OK) pool->status = status;
    return SL_EXPR_NONE;
}

sl_status sl_expr_pool_check(const sl_expr_pool *pool, sl_error *err) {
    if (pool->status == SL_OK) return SL_OK;
    if (pool->status == SL_NO_MEMORY)
        return sl_no_memory(err, "a grammar", pool->nodes.words.count * sizeof(uint32_t));
    if (pool->work == 0)
        return sl_fail(
            err, SL_UNSUPPORTED,
            "grammar: its expressions take more than %d steps to look through, the limit",
            MAX_WORK);
    return sl_fail(err, SL_UNSUPPORTED,
                   "grammar: its expressions take more than %zu words, the limit", pool->limit);
}

static uint32_t marks_of(const sl_expr_pool *pool, const uint32_t *w, size_t count) {
    bool nullable = false, sure = true, finite = false;
    switch (w[0]) {
    case KIND_NONE:
        sure = false;
        finite = true;
        break;
    case KIND_EMPTY:
        nullable = finite = true;
        break;
    case KIND_BYTES:
    case KIND_LITERAL:
        finite = true;
        break;
    case KIND_CONCAT:
        nullable = sl_expr_nullable(pool, w[1]) && sl_expr_nullable(pool, w[2]);
        sure = sl_expr_sure(pool, w[1]) && sl_expr_sure(pool, w[2]);
        finite = sl_expr_finite(pool, w[1]) && sl_expr_finite(pool, w[2]);
        break;
    case KIND_OR:
        sure = false;
        finite = true;
        for (size_t i = 1; i < count; i++) {
            finite &= sl_expr_finite(pool, w[i]);
            nullable |= sl_expr_nullable(pool, w[i]);
            sure |= sl_expr_sure(pool, w[i]);
        }
        break;
    case KIND_AND:
        nullable = true;
        for (size_t i = 1; i < count; i++) nullable &= sl_expr_nullable(pool, w[i]);
        sure = nullable;
        break;
    case KIND_NOT:
        sure = nullable = !sl_expr_nullable(pool, w[1]);
        break;
    case KIND_REPEAT:
        nullable = w[2] == 0;
        sure = nullable || sl_expr_sure(pool, w[1]);
        finite = w[3] != SL_EXPR_UNBOUNDED && sl_expr_finite(pool, w[1]);
        break;
    default:
        sure = nullable = sl_leaf_nullable(w);
        break;
    }
    return (nullable ? MARK_NULLABLE : 0) | (sure || nullable ? MARK_ALIVE : 0) |
           (finite ? MARK_FINITE : 0);
}

sl_expr sl_expr_put(sl_expr_pool *pool, const uint32_t *words, size_t count) {
    if (pool->status != SL_OK) return SL_EXPR_NONE;
    const uint32_t known = sl_word_table_count(&pool->nodes);
    const uint32_t id = sl_word_table_put(pool->allocator, &pool->nodes, words, count);
    if (id == UINT32_MAX) return sl_expr_fail(pool, SL_NO_MEMORY);
    if (id < known) return id;
    size_t kept;
    const uint32_t *own = sl_word_table_get(&pool->nodes, id, &kept);
    if (!sl_word_list_add(pool->allocator, &pool->marks, marks_of(pool, own, kept))) {
        pool->nodes.starts.count--; /* its slot is unused, as the pool has failed */
        return sl_expr_fail(pool, SL_NO_MEMORY);
    }
    if (pool->nodes.words.count + 2 * pool->derived.count > pool->limit)
        return sl_expr_fail(pool, SL_UNSUPPORTED);
    return id;
}

sl_status sl_expr_pool_init(sl_expr_pool *pool, const sl_allocator *allocator, size_t limit,
                            sl_error *err) {
    static const uint32_t none[] = {KIND_NONE}, empty[] = {KIND_EMPTY},
                          all[] = {KIND_NOT, SL_EXPR_NONE};
    *pool = (sl_expr_pool){.allocator = allocator, .limit = limit, .work = MAX_WORK};
    (void)sl_expr_put(pool, none, 1);
    (void)sl_expr_put(pool, empty, 1);
    (void)sl_expr_put(pool, all, 2);
    return sl_expr_pool_check(pool, err);
}

void sl_expr_pool_deinit(sl_expr_pool *pool) {
    sl_word_table_free(pool->allocator, &pool->nodes);
    sl_word_list_free(pool->allocator, &pool->marks);
    sl_word_list_free(pool->allocator, &pool->bytes);
    sl_word_map_free(pool->allocator, &pool->derived);
}

sl_status sl_expr_pool_copy(const sl_expr_pool *from, size_t limit, sl_expr_pool *to,
                            sl_error *err) {
    *to = (sl_expr_pool){.allocator = from->allocator, .limit = limit, .work = UINT64_MAX};
    if (sl_word_table_copy(from->allocator, &from->nodes, &to->nodes) &&
        sl_word_list_copy(from->allocator, &from->marks, &to->marks) &&
        sl_word_list_copy(from->allocator, &from->bytes, &to->bytes))
        return SL_OK;
    sl_expr_pool_deinit(to);
    return sl_no_memory(err, "a grammar", from->nodes.words.count * sizeof(uint32_t));
}

bool sl_expr_nullable(const sl_expr_pool *pool, sl_expr e) {
    return pool->marks.words[e] & MARK_NULLABLE;
}

bool sl_expr_finite(const sl_expr_pool *pool, sl_expr e) {
    return pool->marks.words[e] & MARK_FINITE;
}

bool sl_expr_spacious(const sl_expr_pool *pool, sl_expr e, sl_expr all) {
    size_t count, inner;
    bool found = false;
    if (e == all) return true;
    const uint32_t *w = sl_word_table_get(&pool->nodes, e, &count);
    if (w[0] != KIND_AND) return false;
    for (size_t i = 1; i < count; i++) {
        const uint32_t *part = sl_word_table_get(&pool->nodes, w[i], &inner);
        found |= w[i] == all;
        if (w[i] != all && (part[0] != KIND_NOT || !sl_expr_finite(pool, part[1]))) return false;
    }
    return found;
}

bool sl_expr_sure(const sl_expr_pool *pool, sl_expr e) {
    return pool->marks.words[e] & MARK_ALIVE;
}

sl_expr sl_expr_bytes(sl_expr_pool *pool, const sl_byte_set *set) {
    uint32_t words[9] = {KIND_BYTES};
    for (unsigned i = 0; i < 4; i++) {
        words[1 + 2 * i] = (uint32_t)set->bits[i];
        words[2 + 2 * i] = (uint32_t)(set->bits[i] >> 32);
    }
    if (!(set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3])) return SL_EXPR_NONE;
    return sl_expr_put(pool, words, 9);
}

sl_byte_set sl_expr_set(const uint32_t *words) {
    sl_byte_set set;
    for (unsigned i = 0; i < 4; i++)
        set.bits[i] = words[1 + 2 * i] | (uint64_t)words[2 + 2 * i] << 32;
    return set;
}

sl_expr sl_expr_byte(sl_expr_pool *pool, unsigned byte) {
    sl_byte_set set = {0};
    sl_byte_set_add(&set, byte, byte);
    return sl_expr_bytes(pool, &set);
}

sl_expr sl_expr_literal(sl_expr_pool *pool, const char *text, size_t bytes) {
    const uint32_t start = (uint32_t)pool->bytes.count;
    if (!bytes) return SL_EXPR_EMPTY;
    if (bytes > pool->limit) return sl_expr_fail(pool, SL_UNSUPPORTED);
    for (size_t i = 0; i < bytes; i++)
        if (!sl_word_list_add(pool->allocator, &pool->bytes, (unsigned char)text[i]))
            return sl_expr_fail(pool, SL_NO_MEMORY);
    return sl_expr_put(pool, (uint32_t[]){KIND_LITERAL, start, (uint32_t)bytes}, 3);
}

sl_expr sl_expr_concat(sl_expr_pool *pool, sl_expr a, sl_expr b) {
    /* To the right: (x y) b becomes x (y b).  The parts of a are collected, as there may be many.
     */
    sl_word_list parts = {0};
    size_t count;
    if (a == SL_EXPR_NONE || b == SL_EXPR_NONE) return SL_EXPR_NONE;
    if (a == SL_EXPR_EMPTY) return b;
    if (b == SL_EXPR_EMPTY) return a;
    const uint32_t *w = sl_word_table_get(&pool->nodes, a, &count);
    while (w[0] == KIND_CONCAT) {
        if (!sl_word_list_add(pool->allocator, &parts, w[1])) goto failed;
        a = w[2];
        w = sl_word_table_get(&pool->nodes, a, &count);
    }
    sl_expr made = sl_expr_put(pool, (uint32_t[]){KIND_CONCAT, a, b}, 3);
    while (parts.count)
        made = sl_expr_put(pool, (uint32_t[]){KIND_CONCAT, parts.words[--parts.count], made}, 3);
    sl_word_list_free(pool->allocator, &parts);
    return pool->status == SL_OK ? made : SL_EXPR_NONE;
failed:
    sl_word_list_free(pool->allocator, &parts);
    return sl_expr_fail(pool, SL_NO_MEMORY);
}

static int by_number(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Adds e, or its parts if it is of the same kind; sets of bytes are combined in *set. */
static bool gather(sl_expr_pool *pool, uint32_t kind, sl_expr e, sl_word_list *list,
                   sl_byte_set *set, bool *has_set) {
    size_t count;
    const uint32_t *w = sl_word_table_get(&pool->nodes, e, &count);
    if (w[0] == KIND_BYTES) {
        const sl_byte_set own = sl_expr_set(w);
        for (unsigned i = 0; i < 4; i++)
            set->bits[i] = kind == KIND_OR || !*has_set ? set->bits[i] | own.bits[i]
                                                        : set->bits[i] & own.bits[i];
        *has_set = true;
        return true;
    }
    if (w[0] != kind) return sl_word_list_add(pool->allocator, list, e);
    for (size_t i = 1; i < count; i++) {
        w = sl_word_table_get(&pool->nodes, e, &count);
        if (!gather(pool, kind, w[i], list, set, has_set)) return false;
    }
    return true;
}

/* The sorted list without duplicates and without the neutral element; false: zero decides. */
static bool tidy(sl_word_list *list, sl_expr neutral, sl_expr zero) {
    size_t kept = 1;
    qsort(list->words + 1, list->count - 1, sizeof *list->words, by_number);
    for (size_t i = 1; i < list->count; i++) {
        const sl_expr e = list->words[i];
        if (e == zero) return false;
        if (e == neutral || (kept > 1 && list->words[kept - 1] == e)) continue;
        list->words[kept++] = e;
    }
    list->count = kept;
    return true;
}

static sl_expr combine(sl_expr_pool *pool, uint32_t kind, const uint32_t *given, size_t count) {
    const bool or = kind == KIND_OR;
    const sl_expr neutral = or ? SL_EXPR_NONE : SL_EXPR_ALL;
    const sl_expr zero = or ? SL_EXPR_ALL : SL_EXPR_NONE;
    sl_word_list list = {0};
    sl_byte_set set = {0};
    bool has_set = false, fine = sl_word_list_add(pool->allocator, &list, kind);
    sl_expr made = zero;
    for (size_t i = 0; fine && i < count; i++)
        fine = gather(pool, kind, given[i], &list, &set, &has_set);
    if (fine && has_set) fine = sl_word_list_add(pool->allocator, &list, sl_expr_bytes(pool, &set));
    if (!fine)
        (void)sl_expr_fail(pool, SL_NO_MEMORY);
    else if (tidy(&list, neutral, zero))
        made = list.count == 1   ? neutral
               : list.count == 2 ? list.words[1]
                                 : sl_expr_put(pool, list.words, list.count);
    sl_word_list_free(pool->allocator, &list);
    return pool->status == SL_OK ? made : SL_EXPR_NONE;
}

sl_expr sl_expr_or(sl_expr_pool *pool, sl_expr a, sl_expr b) {
    if (a == b || b == SL_EXPR_NONE) return a;
    if (a == SL_EXPR_NONE) return b;
    return combine(pool, KIND_OR, (uint32_t[]){a, b}, 2);
}

sl_expr sl_expr_or_all(sl_expr_pool *pool, const uint32_t *list, size_t count) {
    return combine(pool, KIND_OR, list, count);
}

sl_expr sl_expr_and(sl_expr_pool *pool, sl_expr a, sl_expr b) {
    if (a == b) return a;
    return combine(pool, KIND_AND, (uint32_t[]){a, b}, 2);
}

sl_expr sl_expr_and_all(sl_expr_pool *pool, const uint32_t *list, size_t count) {
    return combine(pool, KIND_AND, list, count);
}

sl_expr sl_expr_not(sl_expr_pool *pool, sl_expr a) {
    size_t count;
    const uint32_t *w = sl_word_table_get(&pool->nodes, a, &count);
    return w[0] == KIND_NOT ? w[1] : sl_expr_put(pool, (uint32_t[]){KIND_NOT, a}, 2);
}

sl_expr sl_expr_repeat(sl_expr_pool *pool, sl_expr a, uint32_t min, uint32_t max) {
    size_t count;
    if (max == 0 || a == SL_EXPR_EMPTY) return SL_EXPR_EMPTY;
    if (a == SL_EXPR_NONE) return min ? SL_EXPR_NONE : SL_EXPR_EMPTY;
    if (sl_expr_nullable(pool, a)) min = 0;
    if (min == 1 && max == 1) return a;
    if (min == 0 && max == 1) return sl_expr_or(pool, SL_EXPR_EMPTY, a);
    const uint32_t *w = sl_word_table_get(&pool->nodes, a, &count);
    if (w[0] == KIND_REPEAT && w[2] == 0 && w[3] == SL_EXPR_UNBOUNDED && min <= 1) return a;
    return sl_expr_put(pool, (uint32_t[]){KIND_REPEAT, a, min, max}, 4);
}

bool sl_expr_first(const sl_expr_pool *pool, sl_expr e, unsigned *byte) {
    size_t count;
    const uint32_t *w = sl_word_table_get(&pool->nodes, e, &count);
    if (w[0] == KIND_CONCAT) w = sl_word_table_get(&pool->nodes, w[1], &count);
    if (w[0] != KIND_LITERAL) return false;
    *byte = pool->bytes.words[w[1]];
    return true;
}
