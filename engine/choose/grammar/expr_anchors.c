/* expr_anchors.c - Takes the bytes that stand for the beginning and the end of the text off again.
 *
 * Neither byte occurs a second time, so what would need it has no text. */
#include "engine/choose/grammar/expr_nodes.h"
#include <string.h>

enum { MAX_DEPTH = 4000 };

typedef enum {
    WITHOUT, /* the texts of e without an anchor byte */
    ENDING,  /* the texts w without an anchor byte for which e has w and the end byte */
} part_of;

static sl_expr rebuild(sl_expr_pool *pool, sl_expr e, part_of part);

static sl_expr rebuild_list(sl_expr_pool *pool, sl_expr e, part_of part) {
    size_t count;
    const uint32_t *w = sl_word_table_get(&pool->nodes, e, &count);
    const bool or = w[0] == KIND_OR;
    sl_word_list list = {0};
    for (size_t i = 1; i < count; i++) {
        w = sl_word_table_get(&pool->nodes, e, &count);
        if (sl_word_list_add(pool->allocator, &list, rebuild(pool, w[i], part))) continue;
        (void)sl_expr_fail(pool, SL_NO_MEMORY);
        break;
    }
    const sl_expr made = or ? sl_expr_or_all(pool, list.words, list.count)
                            : sl_expr_and_all(pool, list.words, list.count);
    sl_word_list_free(pool->allocator, &list);
    return made;
}

static sl_expr rebuild_repeat(sl_expr_pool *pool, const uint32_t *w, part_of part) {
    const sl_expr inner = rebuild(pool, w[1], WITHOUT);
    if (part == WITHOUT) return sl_expr_repeat(pool, inner, w[2], w[3]);
    const uint32_t max = w[3] == SL_EXPR_UNBOUNDED ? w[3] : w[3] - 1;
    return sl_expr_concat(pool, sl_expr_repeat(pool, inner, w[2] ? w[2] - 1 : 0, max),
                          rebuild(pool, w[1], ENDING));
}

static sl_expr rebuild_concat(sl_expr_pool *pool, const uint32_t *w, part_of part) {
    const sl_expr first = rebuild(pool, w[1], WITHOUT);
    const sl_expr both = sl_expr_concat(pool, first, rebuild(pool, w[2], part));
    if (part == WITHOUT || !sl_expr_nullable(pool, w[2])) return both;
    return sl_expr_or(pool, both, rebuild(pool, w[1], ENDING));
}

static sl_expr rebuild(sl_expr_pool *pool, sl_expr e, part_of part) {
    uint32_t w[9] = {0};
    size_t count;
    const uint32_t *own = sl_word_table_get(&pool->nodes, e, &count);
    sl_expr made = e;
    memcpy(w, own, (count < 9 ? count : 9) * sizeof *w);
    if (e == SL_EXPR_ALL) return e;
    if (pool->depth > MAX_DEPTH) return sl_expr_fail(pool, SL_UNSUPPORTED);
    pool->depth++;
    switch (w[0]) {
    case KIND_BYTES: {
        sl_byte_set set = sl_expr_set(w);
        const bool ends = sl_byte_set_has(&set, SL_EXPR_END_BYTE);
        set.bits[3] &= ~(UINT64_C(3) << 62);
        made = part == WITHOUT ? sl_expr_bytes(pool, &set) : ends ? SL_EXPR_EMPTY : SL_EXPR_NONE;
        break;
    }
    case KIND_CONCAT:
        made = rebuild_concat(pool, w, part);
        break;
    case KIND_OR:
    case KIND_AND:
        made = rebuild_list(pool, e, part);
        break;
    case KIND_NOT:
        made = sl_expr_not(pool, rebuild(pool, w[1], part));
        break;
    case KIND_REPEAT:
        made = rebuild_repeat(pool, w, part);
        break;
    default:
        made = part == WITHOUT ? e : SL_EXPR_NONE;
    }
    pool->depth--;
    return made;
}

sl_expr sl_expr_unanchored(sl_expr_pool *pool, sl_expr a) {
    return rebuild(pool, sl_expr_derive(pool, a, SL_EXPR_BEGIN_BYTE), ENDING);
}
