/* grammar.h - Grammars of every kind, compiled: immutable, and shared by threads.
 *
 * Compiled grammars and the cache of them count their users. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_GRAMMAR_H
#define SL_ENGINE_CHOOSE_GRAMMAR_GRAMMAR_H
#include "engine/choose/grammar/automaton.h"
#include "sluice/grammar.h"

SL_CHECKED sl_status sl_grammar_build(sl_grammar_kind kind, const char *text, size_t bytes,
                                      const sl_grammar_options *options, sl_grammar **out,
                                      sl_error *err);
SL_CHECKED sl_status sl_grammar_build_tags(const sl_grammar_tag *tags, size_t count,
                                           const char *trigger, const sl_grammar_options *options,
                                           sl_grammar **out, sl_error *err);
void sl_grammar_take(sl_grammar *grammar);
void sl_grammar_release(sl_grammar *grammar);
const sl_automaton *sl_grammar_automaton(const sl_grammar *grammar);

/* gbnf.c, grammar.c: add a rule for the texts of a grammar. */
SL_CHECKED sl_status sl_gbnf_compile(const char *text, size_t bytes, sl_automaton *automaton,
                                     uint32_t *out_rule, sl_error *err);
#endif
