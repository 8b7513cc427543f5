/* schema_values.c - Values that a schema lists: enum and const. */
#include "engine/choose/grammar/schema_internal.h"
#include "engine/formats/json.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 200 };

const json_t *sl_schema_enumerated(const alternative *a) {
    for (const fact *f = a->facts; f; f = f->next)
        if (f->kind == FACT_SCHEMA &&
            (json_object_get(f->schema, "const") || json_object_get(f->schema, "enum")))
            return f->schema;
    return NULL;
}

static sl_status holds_all(compiler *c, const alternative *a, const json_t *value, bool *out) {
    *out = (sl_schema_type_of(value) & a->types) != 0;
    for (const fact *f = a->facts; f && *out; f = f->next) {
        const bool object = json_is_object(value);
        switch (f->kind) {
        case FACT_SCHEMA:
            SL_TRY(sl_schema_keyword_holds(c, value, f->schema, NULL, out));
            break;
        case FACT_NOT_KEYWORD:
            SL_TRY(sl_schema_keyword_holds(c, value, f->schema, f->name, out));
            *out = !*out;
            break;
        case FACT_REQUIRED:
            *out = !object || json_object_get(value, f->name);
            break;
        case FACT_FORBIDDEN:
            *out = !object || !json_object_get(value, f->name);
            break;
        case FACT_PROPERTY:
            if (!object || !json_object_get(value, f->name)) break;
            SL_TRY(sl_schema_holds(c, json_object_get(value, f->name), f->schema, out));
            *out = !*out;
            break;
        case FACT_DENIED:
            break;
        }
    }
    return SL_OK;
}

static sl_status dump(compiler *c, const json_t *value, char **out) {
    char *text = sl_json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT);
    *out = text ? sl_arena_copy_text(&c->arena, text, strlen(text)) : NULL;
    free(text);
    return *out ? SL_OK : sl_no_memory(c->err, "a JSON schema", 0);
}

static sl_status emit_value(compiler *c, const json_t *value, uint32_t from, uint32_t to,
                            unsigned depth);

static sl_status emit_list(compiler *c, const json_t *value, uint32_t from, uint32_t to,
                           unsigned depth) {
    sl_automaton *m = c->automaton;
    sl_expr before = sl_expr_byte(c->pool, '[');
    const json_t *item;
    size_t index;
    json_array_foreach(value, index, item) {
        const uint32_t start = sl_automaton_state(m), end = sl_automaton_state(m);
        sl_automaton_text(m, from, sl_expr_concat(c->pool, before, c->whitespace), start);
        SL_TRY(emit_value(c, item, start, end, depth + 1));
        before = sl_expr_byte(c->pool, ',');
        from = end;
    }
    const uint32_t closed = sl_automaton_state(m);
    if (json_array_size(value)) before = SL_EXPR_EMPTY;
    sl_automaton_text(m, from, sl_expr_concat(c->pool, before, c->whitespace), closed);
    sl_automaton_text(m, closed, sl_expr_byte(c->pool, ']'), to);
    return SL_OK;
}

static sl_status emit_members(compiler *c, const json_t *value, uint32_t from, uint32_t to,
                              unsigned depth) {
    const uint32_t count = (uint32_t)json_object_size(value);
    const sl_collection all = {.max = SL_EXPR_UNBOUNDED, .ordered = c->options.ordered};
    const collection_places x = sl_schema_open_collection(c, &all, "{}", from, to);
    uint32_t *starts = SL_ARENA_NEW_ARRAY(&c->arena, uint32_t, count + 1), i = 0;
    const json_t *item;
    const char *key;
    if (!starts) return sl_no_memory(c->err, "a JSON schema", count);
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
        SL_TRY(sl_schema_name_member(c, &x, key, true, &starts[i++]));
    i = 0;
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
        SL_TRY(emit_value(c, item, starts[i++], x.written, depth + 1));
    return SL_OK;
}

static sl_status emit_value(compiler *c, const json_t *value, uint32_t from, uint32_t to,
                            unsigned depth) {
    char *text;
    sl_expr e;
    if (depth > MAX_DEPTH)
        return sl_fail(c->err, SL_UNSUPPORTED, "JSON schema: a value nested over %d deep",
                       MAX_DEPTH);
    if (json_is_array(value)) return emit_list(c, value, from, to, depth);
    if (json_is_object(value)) {
        /* A rule of its own, as there is one frame at a time in a rule. */
        const uint32_t rule = sl_automaton_rule(c->automaton);
        SL_TRY(sl_automaton_check(c->automaton, c->err));
        sl_automaton_edge(c->automaton, SL_EDGE_CALL, from, rule, to);
        return emit_members(c, value, c->automaton->rules[rule].start,
                            c->automaton->rules[rule].end, depth);
    }
    if (json_is_number(value)) {
        SL_TRY(sl_schema_equal(c, value, false, &e));
    } else {
        SL_TRY(dump(c, value, &text));
        e = sl_expr_literal(c->pool, text, strlen(text));
    }
    sl_automaton_text(c->automaton, from, e, to);
    return SL_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

sl_status sl_schema_emit_values(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    const json_t *s = sl_schema_enumerated(a);
    const json_t *only = json_object_get(s, "const"), *list = json_object_get(s, "enum");
    const size_t count = only ? 1 : json_array_size(list);
    if (!only && !json_is_array(list)) return sl_schema_refuse(c, s, "enum", "not an array");
    char **words = SL_ARENA_NEW_ARRAY(&c->arena, char *, count + 1);
    size_t texts = 0, unique = 0;
    if (!words) return sl_no_memory(c->err, "a JSON schema", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = only ? only : json_array_get(list, i);
        bool holds;
        SL_TRY(holds_all(c, a, value, &holds));
        if (!holds) continue;
        if (json_is_string(value))
            SL_TRY(dump(c, value, &words[texts++]));
        else
            SL_TRY(emit_value(c, value, from, to, 0));
    }
    if (texts > 1) qsort(words, texts, sizeof *words, by_text);
    for (size_t i = 0; i < texts; i++)
        if (!unique || strcmp(words[unique - 1], words[i]) != 0) words[unique++] = words[i];
    sl_automaton_words(c->automaton, from, (const char *const *)words, unique, to);
    return sl_automaton_check(c->automaton, c->err);
}
