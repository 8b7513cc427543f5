/* charset.h - Sets of Unicode characters, and their UTF-8 as an expression. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_CHARSET_H
#define SL_ENGINE_CHOOSE_GRAMMAR_CHARSET_H
#include "engine/choose/grammar/expr.h"

enum { SL_LAST_CHARACTER = 0x10FFFF };

/* Pairs of first and last character, in any order until normalised. */
typedef struct {
    sl_word_list pairs;
} sl_charset;
bool sl_charset_add(const sl_allocator *allocator, sl_charset *set, uint32_t first, uint32_t last);
bool sl_charset_add_set(const sl_allocator *allocator, sl_charset *set, const sl_charset *other);
/* Sorts, and joins ranges that touch. */
void sl_charset_normalise(sl_charset *set);
/* Every other character. */
bool sl_charset_complement(const sl_allocator *allocator, sl_charset *set);
/* Adds the other case of ASCII letters. */
bool sl_charset_fold(const sl_allocator *allocator, sl_charset *set);
void sl_charset_free(const sl_allocator *allocator, sl_charset *set);
/* The UTF-8 of one character of the set; surrogates are left out. */
sl_expr sl_charset_expr(sl_expr_pool *pool, sl_charset *set);
/* Any character; any text. */
sl_expr sl_charset_any(sl_expr_pool *pool);
sl_expr sl_charset_text(sl_expr_pool *pool);
#endif
