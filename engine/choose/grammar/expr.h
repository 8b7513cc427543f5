/* expr.h - Regular expressions over bytes and their derivatives.
 *
 * An expression is a number in a pool; equal expressions have the same number.  The derivative of
 * an expression by a byte is the language of what may follow that byte.  Intersection and
 * complement are ordinary expressions, so that limits on length, patterns and excluded words can be
 * combined exactly.  A pool that runs out of memory or of its limit says so in `status`, and all
 * results are then SL_EXPR_NONE. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_EXPR_H
#define SL_ENGINE_CHOOSE_GRAMMAR_EXPR_H
#include "engine/choose/grammar/words.h"

typedef uint32_t sl_expr;
enum {
    SL_EXPR_NONE = 0,  /* no text at all */
    SL_EXPR_EMPTY = 1, /* the empty text */
    SL_EXPR_ALL = 2,   /* every sequence of bytes */
};
#define SL_EXPR_UNBOUNDED UINT32_MAX
/* Stand for the beginning and the end of the text in patterns; no UTF-8 text has these bytes. */
enum { SL_EXPR_BEGIN_BYTE = 0xFE, SL_EXPR_END_BYTE = 0xFF };

typedef struct {
    uint64_t bits[4];
} sl_byte_set;
static inline void sl_byte_set_add(sl_byte_set *set, unsigned first, unsigned last) {
    for (unsigned b = first; b <= last; b++) set->bits[b >> 6] |= UINT64_C(1) << (b & 63);
}
static inline bool sl_byte_set_has(const sl_byte_set *set, unsigned b) {
    return set->bits[b >> 6] >> (b & 63) & 1;
}

typedef struct {
    const sl_allocator *allocator;
    sl_word_table nodes; /* kind and operands */
    sl_word_list marks;  /* per node: what is known of it */
    sl_word_list bytes;  /* of literals, one per word */
    sl_word_map derived; /* (expression, byte) to derivative */
    size_t limit;        /* words that nodes may take */
    uint64_t work;       /* nodes that derivatives and searches may still look at */
    sl_status status;    /* SL_OK, SL_NO_MEMORY, or SL_UNSUPPORTED: a limit was reached */
    unsigned depth;      /* of the running recursion */
} sl_expr_pool;

SL_CHECKED sl_status sl_expr_pool_init(sl_expr_pool *pool, const sl_allocator *allocator,
                                       size_t limit, sl_error *err);
void sl_expr_pool_deinit(sl_expr_pool *pool);
/* Another pool in which all numbers mean the same; its work is not limited. */
SL_CHECKED sl_status sl_expr_pool_copy(const sl_expr_pool *from, size_t limit, sl_expr_pool *to,
                                       sl_error *err);
/* The status of the pool as an error. */
SL_CHECKED sl_status sl_expr_pool_check(const sl_expr_pool *pool, sl_error *err);

sl_expr sl_expr_bytes(sl_expr_pool *pool, const sl_byte_set *set);
sl_expr sl_expr_byte(sl_expr_pool *pool, unsigned byte);
sl_expr sl_expr_literal(sl_expr_pool *pool, const char *text, size_t bytes);
sl_expr sl_expr_concat(sl_expr_pool *pool, sl_expr a, sl_expr b);
sl_expr sl_expr_or(sl_expr_pool *pool, sl_expr a, sl_expr b);
sl_expr sl_expr_or_all(sl_expr_pool *pool, const uint32_t *list, size_t count);
sl_expr sl_expr_and(sl_expr_pool *pool, sl_expr a, sl_expr b);
sl_expr sl_expr_not(sl_expr_pool *pool, sl_expr a);
/* max may be SL_EXPR_UNBOUNDED. */
sl_expr sl_expr_repeat(sl_expr_pool *pool, sl_expr a, uint32_t min, uint32_t max);
static inline sl_expr sl_expr_optional(sl_expr_pool *pool, sl_expr a) {
    return sl_expr_or(pool, SL_EXPR_EMPTY, a);
}
static inline sl_expr sl_expr_star(sl_expr_pool *pool, sl_expr a) {
    return sl_expr_repeat(pool, a, 0, SL_EXPR_UNBOUNDED);
}
/* The texts which, between SL_EXPR_BEGIN_BYTE and SL_EXPR_END_BYTE, are texts of a. */
sl_expr sl_expr_unanchored(sl_expr_pool *pool, sl_expr a);

/* Unsigned decimal numbers (no leading zeros are assumed) compared with a bound of the same form:
 * digits, or digits '.' digits without zeros at the end. */
typedef enum { SL_BELOW, SL_AT_MOST, SL_ABOVE, SL_AT_LEAST } sl_comparison;
sl_expr sl_expr_compared(sl_expr_pool *pool, sl_comparison comparison, const char *bound);
/* Unsigned decimal numbers which times 10^shift are multiples of the divisor (not 0). */
sl_expr sl_expr_multiple(sl_expr_pool *pool, uint32_t divisor, uint32_t shift);

bool sl_expr_nullable(const sl_expr_pool *pool, sl_expr e);
sl_expr sl_expr_derive(sl_expr_pool *pool, sl_expr e, unsigned byte);
/* Whether there is any text of e. */
bool sl_expr_alive(sl_expr_pool *pool, sl_expr e);
/* Whether the text is one of e. */
bool sl_expr_matches(sl_expr_pool *pool, sl_expr e, const char *text, size_t bytes);
/* Whether e is a literal, and its first byte; for a quick rejection of derivatives. */
bool sl_expr_first(const sl_expr_pool *pool, sl_expr e, unsigned *byte);
/* Whether there are finitely many texts of e, as far as its form shows. */
bool sl_expr_finite(const sl_expr_pool *pool, sl_expr e);
/* Whether every text of `all` can be continued to one of e, as far as the form of e shows: e is
 * `all`, or `all` without finitely many texts. */
bool sl_expr_spacious(const sl_expr_pool *pool, sl_expr e, sl_expr all);
/* Splits classes[256] so that all bytes of a class have the same derivative of e.  `whole`: of all
 * expressions that e is made of, not only those at its beginning.  count: classes so far. */
void sl_expr_split(sl_expr_pool *pool, sl_expr e, bool whole, uint16_t classes[256],
                   unsigned *count);
/* Splits classes by a set of bytes. */
void sl_byte_set_split(const sl_byte_set *set, uint16_t classes[256], unsigned *count);
#endif
