/* schema.h - JSON schemas as grammars of JSON texts.
 *
 * A schema is either kept exactly or refused with the JSON pointer of the keyword. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_SCHEMA_H
#define SL_ENGINE_CHOOSE_GRAMMAR_SCHEMA_H
#include "engine/choose/grammar/automaton.h"

typedef struct {
    uint32_t whitespace;    /* indentation of a line at most; 0: no whitespace at all */
    bool ordered;           /* properties come in the order of the schema, others between them */
    bool closed_by_default; /* additionalProperties is false where a schema does not say */
} sl_schema_options;
/* Adds a rule for the texts of the schema. */
SL_CHECKED sl_status sl_schema_compile(const char *text, size_t bytes,
                                       const sl_schema_options *options, sl_automaton *automaton,
                                       uint32_t *out_rule, sl_error *err);
#endif
