/* expr_nodes.h - What nodes of a pool look like; for the files that make and derive them. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_EXPR_NODES_H
#define SL_ENGINE_CHOOSE_GRAMMAR_EXPR_NODES_H
#include "engine/choose/grammar/expr.h"

/* The first word of a node, and what follows it. */
enum {
    KIND_NONE,
    KIND_EMPTY,
    KIND_BYTES,    /* 8 words: 256 bits */
    KIND_LITERAL,  /* offset in pool->bytes, length */
    KIND_CONCAT,   /* first, rest; first is no KIND_CONCAT */
    KIND_OR,       /* two or more expressions, sorted */
    KIND_AND,      /* the same */
    KIND_NOT,      /* expression */
    KIND_REPEAT,   /* expression, min, max */
    KIND_COMPARED, /* offset of the bound in pool->bytes, its integer and fraction digits,
                    * comparison, phase (0: integer, 1: fraction), digits read, order so far */
    KIND_MULTIPLE, /* divisor, shift, remainder, phase, fraction digits that still count */
};
enum {
    MARK_NULLABLE = 1,
    MARK_ALIVE = 2,
    MARK_DEAD = 4,
    MARK_FINITE = 8,
};

sl_expr sl_expr_put(sl_expr_pool *pool, const uint32_t *words, size_t count);
sl_expr sl_expr_fail(sl_expr_pool *pool, sl_status status);
/* Known to have a text. */
bool sl_expr_sure(const sl_expr_pool *pool, sl_expr e);
sl_byte_set sl_expr_set(const uint32_t *words);
sl_expr sl_expr_and_all(sl_expr_pool *pool, const uint32_t *list, size_t count);
/* Of KIND_COMPARED and KIND_MULTIPLE. */
bool sl_leaf_nullable(const uint32_t *words);
/* words: a copy. */
sl_expr sl_leaf_derive(sl_expr_pool *pool, const uint32_t *words, unsigned byte);
#endif
