/* schema_array.c - Arrays: their items and how many there are. */
#include "engine/choose/grammar/schema_internal.h"
#include <string.h>

enum { MAX_UNROLLED = 20000 };

/* The schemas for the first items, one each; NULL: none. */
static const json_t *prefix_of(const compiler *c, const json_t *s) {
    const json_t *items = json_object_get(s, "items");
    const json_t *prefix = json_object_get(s, "prefixItems");
    if (c->old_items && json_is_array(items)) return items;
    if (json_is_array(items) && !prefix) return items;
    return prefix;
}

static const json_t *rest_of(const compiler *c, const json_t *s) {
    const json_t *items = json_object_get(s, "items");
    (void)c;
    return json_is_array(items) ? json_object_get(s, "additionalItems") : items;
}

static sl_status check(compiler *c, const json_t *s) {
    const json_t *prefix = prefix_of(c, s);
    bool found;
    uint32_t least = 1;
    SL_TRY(sl_schema_count(c, s, "minContains", &least, &found));
    if (prefix && !json_is_array(prefix))
        return sl_schema_refuse(c, s, "prefixItems", "not an array");
    if (json_object_get(s, "contains") && (least || json_object_get(s, "maxContains")))
        return sl_schema_refuse(c, s, "contains", "this keyword is not supported");
    return SL_OK;
}

sl_status sl_schema_item_counts(compiler *c, const alternative *a, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = SL_EXPR_UNBOUNDED;
    for (const fact *f = a->facts; f; f = f->next) {
        uint32_t least = 0, most = SL_EXPR_UNBOUNDED;
        bool found;
        if (f->kind == FACT_SCHEMA) {
            SL_TRY(sl_schema_count(c, f->schema, "minItems", &least, &found));
            SL_TRY(sl_schema_count(c, f->schema, "maxItems", &most, &found));
        } else if (f->kind == FACT_NOT_KEYWORD && strcmp(f->name, "minItems") == 0) {
            SL_TRY(sl_schema_count(c, f->schema, "minItems", &most, &found));
            if (most-- == 0) least = most = 1, *max = 0;
        } else if (f->kind == FACT_NOT_KEYWORD && strcmp(f->name, "maxItems") == 0) {
            SL_TRY(sl_schema_count(c, f->schema, "maxItems", &least, &found));
            least++;
        }
        if (least > *min) *min = least;
        if (most < *max) *max = most;
    }
    return SL_OK;
}

sl_status sl_schema_item_set(compiler *c, const alternative *a, size_t index, uint32_t *out) {
    size_t count = 0;
    for (const fact *f = a->facts; f; f = f->next) count++;
    term *terms = SL_ARENA_NEW_ARRAY(&c->arena, term, count + 1);
    if (!terms) return sl_no_memory(c->err, "a JSON schema", count);
    count = 0;
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind != FACT_SCHEMA) continue;
        const json_t *item = json_array_get(prefix_of(c, f->schema), index);
        if (!item) item = rest_of(c, f->schema);
        if (item && !json_is_object(item) && !json_is_boolean(item))
            return sl_schema_refuse(c, f->schema, "items", "no schema");
        if (item) terms[count++] = (term){item, false};
    }
    return sl_schema_put_set(c, terms, count, out);
}

static sl_status check_facts(compiler *c, const alternative *a, uint32_t max, size_t *prefix) {
    *prefix = 0;
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind == FACT_NOT_KEYWORD && (f->name[0] == 'c' || f->name[0] == 'e')) {
            const json_t *value = json_object_get(f->schema, f->name);
            bool arrays = json_is_array(value) && f->name[0] == 'c';
            for (size_t i = 0; f->name[1] == 'n' && i < json_array_size(value); i++)
                arrays |= json_is_array(json_array_get(value, i));
            if (arrays)
                return sl_schema_refuse(c, f->schema, f->name,
                                        "arrays among its values cannot be negated");
        }
        if (f->kind != FACT_SCHEMA) continue;
        SL_TRY(check(c, f->schema));
        if (json_is_true(json_object_get(f->schema, "uniqueItems")) && max > 1)
            return sl_schema_refuse(c, f->schema, "uniqueItems", "this keyword is not supported");
        const size_t count = json_array_size(prefix_of(c, f->schema));
        if (count > *prefix) *prefix = count;
    }
    return SL_OK;
}

sl_status sl_schema_emit_array(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    sl_automaton *m = c->automaton;
    uint32_t min = 0, max = 0, set = 0, rule = 0;
    size_t prefix = 0;
    SL_TRY(sl_schema_item_counts(c, a, &min, &max));
    if (min > max) return SL_OK;
    SL_TRY(check_facts(c, a, max, &prefix));
    const bool open = max == SL_EXPR_UNBOUNDED;
    const size_t count = !open ? max : prefix > min ? prefix : min;
    if (count > MAX_UNROLLED)
        return sl_schema_refuse(c, a->facts ? a->facts->schema : NULL,
                                open ? "minItems" : "maxItems",
                                "more than 20000 items are not supported");
    const uint32_t opened = sl_automaton_state(m), close = sl_automaton_state(m);
    const sl_expr bracket = sl_expr_byte(c->pool, '['), end = sl_expr_byte(c->pool, ']');
    const sl_expr comma = sl_expr_concat(c->pool, sl_expr_byte(c->pool, ','), c->whitespace);
    sl_automaton_text(m, from, sl_expr_concat(c->pool, bracket, c->whitespace), opened);
    sl_automaton_text(m, close, end, to);
    if (min == 0) sl_automaton_skip(m, opened, close);
    uint32_t before = opened;
    for (size_t i = 0; i < count + open; i++) {
        const uint32_t after = sl_automaton_state(m), next = sl_automaton_state(m);
        SL_TRY(sl_schema_item_set(c, a, i < prefix ? i : prefix, &set));
        SL_TRY(sl_schema_rule(c, set, &rule));
        sl_automaton_edge(m, SL_EDGE_CALL, before, rule, after);
        sl_automaton_text(m, after, comma, next);
        if (i + 1 >= min) sl_automaton_text(m, after, c->whitespace, close);
        if (i == count) sl_automaton_edge(m, SL_EDGE_CALL, next, rule, after); /* any number */
        before = next;
    }
    return sl_automaton_check(m, c->err);
}
