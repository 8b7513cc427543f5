/* cache.h - Compiled grammars by their texts; the one that was not used for longest is forgotten.
 */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_CACHE_H
#define SL_ENGINE_CHOOSE_GRAMMAR_CACHE_H
#include "engine/choose/grammar/grammar.h"

sl_grammar_cache *sl_grammar_cache_make(uint32_t capacity);
void sl_grammar_cache_free(sl_grammar_cache *cache);
/* Errors are not kept. */
SL_CHECKED sl_status sl_grammar_cache_get(sl_grammar_cache *cache, sl_grammar_kind kind,
                                          const char *text, size_t bytes,
                                          const sl_grammar_options *options, sl_grammar **out,
                                          sl_error *err);
#endif
