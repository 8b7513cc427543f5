/* schema_internal.h - What the files of the schema compiler share.
 *
 * A term says that a schema holds, or that it does not.  A set of terms has a number and becomes
 * one rule.  It is expanded to alternatives, each a conjunction of facts without choices. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_SCHEMA_INTERNAL_H
#define SL_ENGINE_CHOOSE_GRAMMAR_SCHEMA_INTERNAL_H
#include "engine/choose/grammar/schema.h"
#include <jansson.h>

enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_STRING = 4,
    TYPE_INTEGRAL = 8,  /* numbers without a fraction */
    TYPE_FRACTION = 16, /* numbers with one */
    TYPE_OBJECT = 32,
    TYPE_ARRAY = 64,
    TYPE_NUMBER = TYPE_INTEGRAL | TYPE_FRACTION,
    TYPE_ALL = 127,
};

typedef enum {
    FACT_SCHEMA,      /* all keywords of the schema, except those that are choices or references */
    FACT_DENIED,      /* the schema does not hold: already expanded */
    FACT_NOT_KEYWORD, /* one keyword of the schema does not hold */
    FACT_REQUIRED,    /* property name is there */
    FACT_FORBIDDEN,   /* it is not */
    FACT_PROPERTY,    /* the value of property name does not satisfy the schema */
} fact_kind;
typedef struct fact {
    fact_kind kind;
    const json_t *schema;
    const char *name; /* of a property or a keyword */
    const struct fact *next;
} fact;

typedef struct alternative {
    uint32_t types;
    const fact *facts;
    struct alternative *next;
} alternative;

typedef struct pending pending; /* what has yet to be expanded (schema_expand.c) */

typedef struct compiler {
    const json_t *root;
    sl_schema_options options;
    sl_automaton *automaton;
    sl_expr_pool *pool;
    const sl_allocator *allocator;
    sl_arena arena;
    sl_error *err;
    bool old_references;        /* up to draft 7: what stands beside $ref is ignored */
    bool old_integers;          /* up to draft 4: 1.0 is no integer */
    bool old_items;             /* up to 2019-09: items may be an array */
    sl_word_table sets;         /* terms, two words each, sorted */
    sl_word_list rules;         /* per set: rule + 1 */
    sl_word_list queue;         /* sets whose rules have yet to be built */
    struct resource *resources; /* schemas with an $id or an anchor */
    sl_word_map patterns;       /* address of a pattern to its expression */
    uint32_t work;              /* alternatives expanded so far */
    unsigned depth;
    sl_expr whitespace, leading, free_string, number, integral;
} compiler;

/* Fails with the JSON pointer of the keyword; where may be NULL. */
SL_CHECKED sl_status sl_schema_refuse(compiler *c, const json_t *where, const char *keyword,
                                      const char *why);

/* schema_refs.c */
SL_CHECKED sl_status sl_schema_collect(compiler *c);
SL_CHECKED sl_status sl_schema_resolve(compiler *c, const json_t *schema, const json_t **out);

/* schema_expand.c */
typedef struct {
    const json_t *schema;
    bool denied;
} term;
SL_CHECKED sl_status sl_schema_put_set(compiler *c, const term *terms, size_t count, uint32_t *out);
SL_CHECKED sl_status sl_schema_expand(compiler *c, uint32_t set, alternative **out);
/* Whether nothing satisfies the set, as far as that is easily seen. */
SL_CHECKED sl_status sl_schema_empty(compiler *c, uint32_t set, unsigned depth, bool *out);
SL_CHECKED sl_status sl_schema_empty_alternative(compiler *c, const alternative *a, unsigned depth,
                                                 bool *out);
/* Whether the alternative names its values: that schema, or NULL. */
const json_t *sl_schema_enumerated(const alternative *a);

/* schema_text.c, schema_number.c: the texts of an alternative; *plain: all strings. */
SL_CHECKED sl_status sl_schema_string(compiler *c, const alternative *a, sl_expr *out, bool *plain);
SL_CHECKED sl_status sl_schema_pattern(compiler *c, const json_t *schema, const char *keyword,
                                       const char *text, size_t bytes, sl_expr *out);
SL_CHECKED sl_status sl_schema_format(compiler *c, const json_t *schema, sl_expr *out, bool *known);
/* Reads a non-negative integer keyword; false if it is not there. */
SL_CHECKED sl_status sl_schema_count(compiler *c, const json_t *schema, const char *keyword,
                                     uint32_t *out, bool *found);
SL_CHECKED sl_status sl_schema_number(compiler *c, const alternative *a, sl_expr *out);
/* The texts of a number: all that mean it, or those that are worth writing. */
SL_CHECKED sl_status sl_schema_equal(compiler *c, const json_t *value, bool all, sl_expr *out);

/* schema_collection.c: between `from` and `to`, brackets; then its members, before any other
 * collection is opened. */
typedef struct {
    uint32_t collection;
    uint32_t next;    /* where a member or another is expected */
    uint32_t written; /* where it has been written */
} collection_places;
collection_places sl_schema_open_collection(compiler *c, const sl_collection *given,
                                            const char brackets[2], uint32_t from, uint32_t to);
/* The state after the name, whose value leads to x->written. */
uint32_t sl_schema_member(compiler *c, const collection_places *x, sl_expr name, bool required);
SL_CHECKED sl_status sl_schema_name_member(compiler *c, const collection_places *x,
                                           const char *name, bool required, uint32_t *out);
sl_expr sl_schema_colon(compiler *c);

/* schema_object.c, schema_array.c, schema_values.c */
SL_CHECKED sl_status sl_schema_emit_object(compiler *c, const alternative *a, uint32_t from,
                                           uint32_t to);
SL_CHECKED sl_status sl_schema_emit_array(compiler *c, const alternative *a, uint32_t from,
                                          uint32_t to);
SL_CHECKED sl_status sl_schema_emit_values(compiler *c, const alternative *a, uint32_t from,
                                           uint32_t to);
/* The terms for the value of a property, or for item number index. */
SL_CHECKED sl_status sl_schema_property_set(compiler *c, const alternative *a, const char *name,
                                            uint32_t *out);
SL_CHECKED sl_status sl_schema_item_set(compiler *c, const alternative *a, size_t index,
                                        uint32_t *out);
SL_CHECKED sl_status sl_schema_item_counts(compiler *c, const alternative *a, uint32_t *min,
                                           uint32_t *max);
bool sl_schema_requires(const alternative *a, const char *name);
bool sl_schema_forbids(const alternative *a, const char *name);
SL_CHECKED sl_status sl_schema_empty_object(compiler *c, const alternative *a, unsigned depth,
                                            bool *out);

/* schema.c: the rule of a set, which is built later if it is new. */
SL_CHECKED sl_status sl_schema_rule(compiler *c, uint32_t set, uint32_t *out);

/* schema_check.c: whether a value satisfies a schema. */
SL_CHECKED sl_status sl_schema_holds(compiler *c, const json_t *value, const json_t *schema,
                                     bool *out);
SL_CHECKED sl_status sl_schema_keyword_holds(compiler *c, const json_t *value, const json_t *schema,
                                             const char *keyword, bool *out);
uint32_t sl_schema_type_of(const json_t *value);
SL_CHECKED sl_status sl_schema_types(compiler *c, const json_t *schema, uint32_t *out);
#endif
