/* schema_object.c - Objects: their properties, and others between them. */
#include "engine/choose/grammar/charset.h"
#include "engine/choose/grammar/schema_internal.h"
#include <string.h>

enum { MAX_PATTERNS = 8 };

typedef struct {
    const char *name;
    uint32_t set, rule;
    bool required;
} property;

/* Names that the schema does not list, and the terms for their values. */
typedef struct {
    sl_expr names;
    uint32_t rule;
    bool plain; /* every string is such a name */
} others;

typedef struct {
    property *properties;
    size_t count;
    others *others;
    size_t other_count;
    uint32_t min, max;
    sl_expr names; /* what propertyNames allows */
    bool any_name;
} plan;

bool sl_schema_requires(const alternative *a, const char *name) {
    const json_t *item;
    size_t index;
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind == FACT_REQUIRED && strcmp(f->name, name) == 0) return true;
        if (f->kind != FACT_SCHEMA) continue;
        json_array_foreach(json_object_get(f->schema, "required"), index, item) {
            const char *text = json_string_value(item);
            if (text && strcmp(text, name) == 0) return true;
        }
    }
    return false;
}

bool sl_schema_forbids(const alternative *a, const char *name) {
    for (const fact *f = a->facts; f; f = f->next)
        if (f->kind == FACT_FORBIDDEN && strcmp(f->name, name) == 0) return true;
    return false;
}

static size_t term_room(const alternative *a) {
    size_t count = 1;
    for (const fact *f = a->facts; f; f = f->next)
        count += 2 + json_object_size(json_object_get(f->schema, "patternProperties"));
    return count;
}

static const json_t *additional_of(const compiler *c, const json_t *s) {
    const json_t *own = json_object_get(s, "additionalProperties");
    const bool is_object = json_object_get(s, "properties") || json_object_get(s, "required");
    if (own || !c->options.closed_by_default || !is_object) return own;
    return json_false();
}

sl_status sl_schema_property_set(compiler *c, const alternative *a, const char *name,
                                 uint32_t *out) {
    term *terms = SL_ARENA_NEW_ARRAY(&c->arena, term, term_room(a));
    size_t count = 0;
    if (!terms) return sl_no_memory(c->err, "a JSON schema", 0);
    for (const fact *f = a->facts; f; f = f->next) {
        const json_t *s = f->schema, *value;
        const char *key;
        if (f->kind == FACT_PROPERTY && strcmp(f->name, name) == 0)
            terms[count++] = (term){s, true};
        if (f->kind != FACT_SCHEMA) continue;
        const json_t *own = json_object_get(json_object_get(s, "properties"), name);
        bool matched = own != NULL;
        if (own) terms[count++] = (term){own, false};
        json_object_foreach((json_t *)(uintptr_t)json_object_get(s, "patternProperties"), key,
                            value) {
            sl_expr e;
            SL_TRY(sl_schema_pattern(c, s, "patternProperties", key, strlen(key), &e));
            if (!sl_expr_matches(c->pool, e, name, strlen(name))) continue;
            terms[count++] = (term){value, false};
            matched = true;
        }
        const json_t *rest = additional_of(c, s);
        if (!matched && rest) terms[count++] = (term){rest, false};
    }
    for (size_t i = 0; i < count; i++)
        if (!json_is_object(terms[i].schema) && !json_is_boolean(terms[i].schema))
            return sl_schema_refuse(c, terms[i].schema, "", "neither an object nor a boolean");
    return sl_schema_put_set(c, terms, count, out);
}

/* The names that propertyNames allows, in all schemas of the alternative. */
static sl_status find_names(compiler *c, const alternative *a, plan *p) {
    p->any_name = true;
    p->names = SL_EXPR_ALL;
    for (const fact *f = a->facts; f; f = f->next) {
        const json_t *names = json_object_get(f->schema, "propertyNames");
        alternative *found;
        uint32_t set;
        sl_expr all = SL_EXPR_NONE;
        if (f->kind != FACT_SCHEMA || !names || json_is_true(names)) continue;
        SL_TRY(sl_schema_put_set(c, &(term){names, false}, 1, &set));
        SL_TRY(sl_schema_expand(c, set, &found));
        for (; found; found = found->next) {
            sl_expr e;
            bool plain;
            const json_t *values = sl_schema_enumerated(found), *item;
            size_t index;
            if (!(found->types & TYPE_STRING)) continue;
            SL_TRY(sl_schema_string(c, found, &e, &plain));
            if (values) {
                const json_t *only = json_object_get(values, "const");
                sl_expr listed = SL_EXPR_NONE;
                if (only && json_is_string(only))
                    listed =
                        sl_expr_literal(c->pool, json_string_value(only), json_string_length(only));
                json_array_foreach(json_object_get(values, "enum"), index,
                                   item) if (!only && json_is_string(item)) listed =
                    sl_expr_or(c->pool, listed,
                               sl_expr_literal(c->pool, json_string_value(item),
                                               json_string_length(item)));
                e = sl_expr_and(c->pool, e, listed);
            }
            all = sl_expr_or(c->pool, all, e);
        }
        p->names = sl_expr_and(c->pool, p->names, all);
        p->any_name = false;
    }
    return sl_expr_pool_check(c->pool, c->err);
}

static sl_status add_property(compiler *c, const alternative *a, plan *p, const char *name,
                              json_t *seen) {
    if (!name || json_object_get(seen, name)) return SL_OK;
    if (json_object_set_new(seen, name, json_true()))
        return sl_no_memory(c->err, "a JSON schema", 0);
    property *own = &p->properties[p->count++];
    *own = (property){.name = name, .required = sl_schema_requires(a, name)};
    if (sl_schema_forbids(a, name) || !sl_expr_matches(c->pool, p->names, name, strlen(name))) {
        const term never = {json_false(), false};
        return sl_schema_put_set(c, &never, 1, &own->set);
    }
    return sl_schema_property_set(c, a, name, &own->set);
}

static sl_status list_properties(compiler *c, const alternative *a, plan *p, json_t *seen) {
    const char *key;
    const json_t *value;
    size_t room = 1, index, count = 0;
    for (const fact *f = a->facts; f; f = f->next, count++)
        room += 1 + json_object_size(json_object_get(f->schema, "properties")) +
                json_array_size(json_object_get(f->schema, "required"));
    p->properties = SL_ARENA_NEW_ARRAY(&c->arena, property, room);
    const fact **facts = SL_ARENA_NEW_ARRAY(&c->arena, const fact *, count + 1);
    if (!p->properties || !facts || !seen) return sl_no_memory(c->err, "a JSON schema", room);
    size_t at = count;
    for (const fact *f = a->facts; f; f = f->next) facts[--at] = f; /* the first fact first */
    for (size_t i = 0; i < count; i++) {
        if (facts[i]->kind != FACT_SCHEMA) continue;
        const json_t *own = json_object_get(facts[i]->schema, "properties");
        if (own && !json_is_object(own))
            return sl_schema_refuse(c, facts[i]->schema, "properties", "not an object");
        json_object_foreach((json_t *)(uintptr_t)own, key, value)
            SL_TRY(add_property(c, a, p, key, seen));
    }
    for (size_t i = 0; i < count; i++) {
        if (facts[i]->kind == FACT_REQUIRED || facts[i]->kind == FACT_FORBIDDEN ||
            facts[i]->kind == FACT_PROPERTY)
            SL_TRY(add_property(c, a, p, facts[i]->name, seen));
        if (facts[i]->kind != FACT_SCHEMA) continue;
        json_array_foreach(json_object_get(facts[i]->schema, "required"), index, value)
            SL_TRY(add_property(c, a, p, json_string_value(value), seen));
    }
    return SL_OK;
}

/* A pattern of patternProperties. */
typedef struct {
    const json_t *owner, *schema;
    sl_expr names;
} pattern;

/* Names that match exactly the patterns in `chosen`. */
static sl_status add_others(compiler *c, const alternative *a, plan *p, const pattern *patterns,
                            size_t pattern_count, unsigned chosen) {
    term *terms = SL_ARENA_NEW_ARRAY(&c->arena, term, term_room(a));
    size_t count = 0;
    others *own = &p->others[p->other_count];
    uint32_t set;
    *own = (others){.names = p->names, .plain = p->any_name && !pattern_count && !p->count};
    if (!terms) return sl_no_memory(c->err, "a JSON schema", 0);
    for (size_t i = 0; i < pattern_count; i++) {
        const bool matches = chosen >> i & 1;
        if (matches) terms[count++] = (term){patterns[i].schema, false};
        own->names =
            sl_expr_and(c->pool, own->names,
                        matches ? patterns[i].names : sl_expr_not(c->pool, patterns[i].names));
    }
    for (const fact *f = a->facts; f; f = f->next) {
        bool matched = false;
        for (size_t i = 0; i < pattern_count; i++)
            matched |= (chosen >> i & 1) && patterns[i].owner == f->schema;
        const json_t *rest = f->kind == FACT_SCHEMA ? additional_of(c, f->schema) : NULL;
        if (matched || !rest) continue;
        if (json_is_false(rest)) return SL_OK;
        terms[count++] = (term){rest, false};
    }
    own->names = sl_expr_and(c->pool, own->names, sl_charset_text(c->pool));
    if (!own->plain && !sl_expr_alive(c->pool, own->names))
        return sl_expr_pool_check(c->pool, c->err);
    SL_TRY(sl_schema_put_set(c, terms, count, &set));
    SL_TRY(sl_schema_rule(c, set, &own->rule));
    p->other_count++;
    return SL_OK;
}

static sl_status list_others(compiler *c, const alternative *a, plan *p) {
    pattern patterns[MAX_PATTERNS];
    size_t count = 0;
    const char *key;
    const json_t *value;
    uint32_t *known = SL_ARENA_NEW_ARRAY(&c->arena, uint32_t, p->count + 1);
    if (!known) return sl_no_memory(c->err, "a JSON schema", p->count);
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind != FACT_SCHEMA) continue;
        const json_t *own = json_object_get(f->schema, "patternProperties");
        json_object_foreach((json_t *)(uintptr_t)own, key, value) {
            if (count == MAX_PATTERNS)
                return sl_schema_refuse(c, f->schema, "patternProperties",
                                        "more than 8 patterns for one object");
            patterns[count] = (pattern){f->schema, value, SL_EXPR_NONE};
            SL_TRY(sl_schema_pattern(c, f->schema, "patternProperties", key, strlen(key),
                                     &patterns[count++].names));
        }
    }
    p->others = SL_ARENA_NEW_ARRAY(&c->arena, others, (size_t)1 << count);
    if (!p->others) return sl_no_memory(c->err, "a JSON schema", count);
    for (size_t i = 0; i < p->count; i++)
        known[i] = sl_expr_literal(c->pool, p->properties[i].name, strlen(p->properties[i].name));
    const sl_expr named = sl_expr_or_all(c->pool, known, p->count);
    const sl_expr all_names = p->names;
    if (p->count) p->names = sl_expr_and(c->pool, p->names, sl_expr_not(c->pool, named));
    for (unsigned chosen = 0; chosen < 1U << count; chosen++)
        SL_TRY(add_others(c, a, p, patterns, count, chosen));
    p->names = all_names;
    return SL_OK;
}

static sl_status find_counts(compiler *c, const alternative *a, plan *p) {
    p->max = SL_EXPR_UNBOUNDED;
    for (const fact *f = a->facts; f; f = f->next) {
        uint32_t least = 0, most = SL_EXPR_UNBOUNDED;
        bool found;
        if (f->kind == FACT_SCHEMA) {
            SL_TRY(sl_schema_count(c, f->schema, "minProperties", &least, &found));
            SL_TRY(sl_schema_count(c, f->schema, "maxProperties", &most, &found));
        } else if (f->kind == FACT_NOT_KEYWORD && strcmp(f->name, "minProperties") == 0) {
            SL_TRY(sl_schema_count(c, f->schema, "minProperties", &most, &found));
            if (most-- == 0) p->max = 0, p->min = 1;
        } else if (f->kind == FACT_NOT_KEYWORD && strcmp(f->name, "maxProperties") == 0) {
            SL_TRY(sl_schema_count(c, f->schema, "maxProperties", &least, &found));
            least++;
        }
        if (least > p->min) p->min = least;
        if (most < p->max) p->max = most;
    }
    return SL_OK;
}

static sl_status check_denied_values(compiler *c, const alternative *a) {
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind != FACT_NOT_KEYWORD) continue;
        const json_t *value = json_object_get(f->schema, f->name);
        bool objects = strcmp(f->name, "const") == 0 && json_is_object(value);
        for (size_t i = 0; strcmp(f->name, "enum") == 0 && i < json_array_size(value); i++)
            objects |= json_is_object(json_array_get(value, i));
        if (objects)
            return sl_schema_refuse(c, f->schema, f->name,
                                    "objects among its values cannot be negated");
    }
    return SL_OK;
}

static sl_status make_plan(compiler *c, const alternative *a, plan *p) {
    json_t *seen = json_object();
    *p = (plan){0};
    sl_status status = find_names(c, a, p);
    if (status == SL_OK) status = list_properties(c, a, p, seen);
    json_decref(seen);
    SL_TRY(status);
    return find_counts(c, a, p);
}

/* Properties that the schema does not name. */
static void emit_others(compiler *c, const plan *p, const collection_places *x) {
    sl_automaton *m = c->automaton;
    const uint32_t from = sl_automaton_state(m);
    if (p->other_count) sl_automaton_edge(m, SL_EDGE_OTHER, x->next, x->collection, from);
    for (size_t i = 0; i < p->other_count; i++) {
        const others *o = &p->others[i];
        const uint32_t name = sl_automaton_state(m), value = sl_automaton_state(m);
        const uint32_t quoted = sl_automaton_state(m);
        sl_automaton_text(m, from, sl_expr_byte(c->pool, '"'), name);
        if (o->plain)
            sl_automaton_text(m, name, c->free_string, quoted);
        else
            sl_automaton_edge(m, SL_EDGE_STRING, name, o->names, quoted);
        sl_automaton_text(m, quoted, sl_schema_colon(c), value);
        sl_automaton_edge(m, SL_EDGE_CALL, value, o->rule, x->written);
    }
}

/* Other properties may repeat a name, so several of them do not make a number certain. */
static sl_status check_counts(compiler *c, const alternative *a, plan *p) {
    uint32_t required = 0;
    const json_t *where = NULL;
    for (size_t i = 0; i < p->count; i++) required += p->properties[i].required;
    if (p->min <= required) p->min = 0;
    for (const fact *f = a->facts; f; f = f->next)
        if (f->kind == FACT_SCHEMA && json_object_get(f->schema, "minProperties"))
            where = f->schema;
    if (p->min > 1 && p->other_count)
        return sl_schema_refuse(c, where, "minProperties",
                                "more than 1 is not supported where names are open");
    return SL_OK;
}

sl_status sl_schema_emit_object(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    sl_automaton *m = c->automaton;
    plan p;
    SL_TRY(check_denied_values(c, a));
    SL_TRY(make_plan(c, a, &p));
    if (p.min > p.max) return SL_OK;
    for (size_t i = 0; i < p.count; i++)
        SL_TRY(sl_schema_rule(c, p.properties[i].set, &p.properties[i].rule));
    SL_TRY(list_others(c, a, &p));
    SL_TRY(check_counts(c, a, &p));
    const sl_collection all = {.min = p.min, .max = p.max, .ordered = c->options.ordered};
    collection_places x = sl_schema_open_collection(c, &all, "{}", from, to);
    for (size_t i = 0; i < p.count; i++) {
        const property *own = &p.properties[i];
        uint32_t value;
        SL_TRY(sl_schema_name_member(c, &x, own->name, own->required, &value));
        sl_automaton_edge(m, SL_EDGE_CALL, value, own->rule, x.written);
    }
    emit_others(c, &p, &x);
    return sl_automaton_check(m, c->err);
}

sl_status sl_schema_empty_object(compiler *c, const alternative *a, unsigned depth, bool *out) {
    plan p;
    *out = false;
    SL_TRY(make_plan(c, a, &p));
    if (p.min > p.max) *out = true;
    for (size_t i = 0; i < p.count && !*out && depth; i++)
        if (p.properties[i].required)
            SL_TRY(sl_schema_empty(c, p.properties[i].set, depth - 1, out));
    return SL_OK;
}
