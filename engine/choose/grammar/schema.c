/* schema.c - Compiles a JSON schema: one rule per set of terms. */
#include "engine/choose/grammar/schema.h"
#include "engine/choose/grammar/charset.h"
#include "engine/choose/grammar/regex.h"
#include "engine/choose/grammar/schema_internal.h"
#include <string.h>

enum { MAX_BYTES = 16 << 20, MAX_RULES = 100000 };

sl_status sl_schema_rule(compiler *c, uint32_t set, uint32_t *out) {
    if (!c->rules.words[set]) {
        if (c->automaton->rule_count > MAX_RULES)
            return sl_fail(c->err, SL_UNSUPPORTED, "JSON schema: more than %d rules", MAX_RULES);
        c->rules.words[set] = sl_automaton_rule(c->automaton) + 1;
        SL_TRY(sl_automaton_check(c->automaton, c->err));
        if (!sl_word_list_add(c->allocator, &c->queue, set))
            return sl_no_memory(c->err, "a JSON schema", c->queue.count);
    }
    *out = c->rules.words[set] - 1;
    return SL_OK;
}

static sl_status emit_string(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    sl_expr e;
    bool plain;
    SL_TRY(sl_schema_string(c, a, &e, &plain));
    const uint32_t open = sl_automaton_state(c->automaton);
    sl_automaton_text(c->automaton, from, sl_expr_byte(c->pool, '"'), open);
    if (plain)
        sl_automaton_text(c->automaton, open, c->free_string, to);
    else
        sl_automaton_edge(c->automaton, SL_EDGE_STRING, open, e, to);
    return SL_OK;
}

static void emit_word(compiler *c, const char *word, uint32_t from, uint32_t to) {
    sl_automaton_text(c->automaton, from, sl_expr_literal(c->pool, word, strlen(word)), to);
}

/* A number that only its type restricts. */
static bool is_any_number(const alternative *a) {
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind == FACT_NOT_KEYWORD) return false;
        if (f->kind == FACT_SCHEMA &&
            (json_object_get(f->schema, "minimum") || json_object_get(f->schema, "maximum") ||
             json_object_get(f->schema, "exclusiveMinimum") ||
             json_object_get(f->schema, "exclusiveMaximum") ||
             json_object_get(f->schema, "multipleOf")))
            return false;
    }
    return true;
}

static sl_status emit_number(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    sl_expr e = a->types & TYPE_FRACTION ? c->number : c->integral;
    if (!(a->types & TYPE_INTEGRAL) || !is_any_number(a)) SL_TRY(sl_schema_number(c, a, &e));
    sl_automaton_text(c->automaton, from, e, to);
    return SL_OK;
}

static sl_status emit_boolean(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    for (int i = 0; i < 2; i++) {
        bool denied = false;
        for (const fact *f = a->facts; f; f = f->next) {
            bool holds = false;
            if (f->kind != FACT_NOT_KEYWORD) continue;
            SL_TRY(sl_schema_keyword_holds(c, i ? json_true() : json_false(), f->schema, f->name,
                                           &holds));
            denied |= holds;
        }
        if (!denied) emit_word(c, i ? "true" : "false", from, to);
    }
    return SL_OK;
}

static sl_status emit_null(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    for (const fact *f = a->facts; f; f = f->next) {
        bool holds = false;
        if (f->kind != FACT_NOT_KEYWORD) continue;
        SL_TRY(sl_schema_keyword_holds(c, json_null(), f->schema, f->name, &holds));
        if (holds) return SL_OK;
    }
    emit_word(c, "null", from, to);
    return SL_OK;
}

static sl_status emit(compiler *c, const alternative *a, uint32_t from, uint32_t to) {
    if (sl_schema_enumerated(a)) return sl_schema_emit_values(c, a, from, to);
    if (a->types & TYPE_NULL) SL_TRY(emit_null(c, a, from, to));
    if (a->types & TYPE_BOOLEAN) SL_TRY(emit_boolean(c, a, from, to));
    if (a->types & TYPE_STRING) SL_TRY(emit_string(c, a, from, to));
    if (a->types & TYPE_NUMBER) SL_TRY(emit_number(c, a, from, to));
    if (a->types & TYPE_OBJECT) SL_TRY(sl_schema_emit_object(c, a, from, to));
    if (a->types & TYPE_ARRAY) SL_TRY(sl_schema_emit_array(c, a, from, to));
    return SL_OK;
}

static sl_status build_rule(compiler *c, uint32_t set) {
    const uint32_t rule = c->rules.words[set] - 1;
    const uint32_t start = c->automaton->rules[rule].start, end = c->automaton->rules[rule].end;
    alternative *found;
    SL_TRY(sl_schema_expand(c, set, &found));
    for (; found; found = found->next) SL_TRY(emit(c, found, start, end));
    return sl_automaton_check(c->automaton, c->err);
}

static sl_status prepare(compiler *c) {
    static const char line[] = "\\r?\\n", blank[] = "[ \\t]", lead[] = "\\n{0,2}";
    sl_expr indent, newline;
    static const char rest[] =
        "([^\"\\\\\\x00-\\x1F]|\\\\([\"\\\\/bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|"
        "[dD][0-7][0-9a-fA-F]{2}|[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2})))*\"";
    static const char number[] = "-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?";
    const char *integral = c->old_integers ? "-?(0|[1-9]\\d*)" : "-?(0|[1-9]\\d*)(\\.0)?";
    SL_TRY(sl_regex_parse(c->pool, line, sizeof line - 1, SL_REGEX_WHOLE, &newline, c->err));
    SL_TRY(sl_regex_parse(c->pool, blank, sizeof blank - 1, SL_REGEX_WHOLE, &indent, c->err));
    SL_TRY(sl_regex_parse(c->pool, lead, sizeof lead - 1, SL_REGEX_WHOLE, &c->leading, c->err));
    indent = sl_expr_repeat(c->pool, indent, 0, c->options.whitespace);
    c->whitespace = sl_expr_or(c->pool, sl_expr_concat(c->pool, newline, indent),
                               sl_expr_optional(c->pool, sl_expr_byte(c->pool, ' ')));
    if (!c->options.whitespace) c->whitespace = c->leading = SL_EXPR_EMPTY;
    SL_TRY(sl_regex_parse(c->pool, number, sizeof number - 1, SL_REGEX_WHOLE, &c->number, c->err));
    SL_TRY(
        sl_regex_parse(c->pool, integral, strlen(integral), SL_REGEX_WHOLE, &c->integral, c->err));
    return sl_regex_parse(c->pool, rest, sizeof rest - 1, SL_REGEX_WHOLE, &c->free_string, c->err);
}

static void read_draft(compiler *c) {
    const char *draft = json_string_value(json_object_get(c->root, "$schema"));
    if (!draft) return;
    const bool d3 = strstr(draft, "draft-03") != NULL, d4 = strstr(draft, "draft-04") != NULL;
    const bool d6 = strstr(draft, "draft-06") != NULL, d7 = strstr(draft, "draft-07") != NULL;
    c->old_integers = d3 || d4;
    c->old_references = d3 || d4 || d6 || d7;
    c->old_items = c->old_references || strstr(draft, "2019-09") != NULL;
}

static sl_status compile(compiler *c, uint32_t *out_rule) {
    uint32_t set, inner;
    read_draft(c);
    SL_TRY(prepare(c));
    SL_TRY(sl_schema_collect(c));
    SL_TRY(sl_schema_put_set(c, &(term){c->root, false}, 1, &set));
    SL_TRY(sl_schema_rule(c, set, &inner));
    *out_rule = sl_automaton_rule(c->automaton);
    const uint32_t begun = sl_automaton_state(c->automaton);
    SL_TRY(sl_automaton_check(c->automaton, c->err));
    const sl_rule *outer = &c->automaton->rules[*out_rule];
    sl_automaton_text(c->automaton, outer->start, c->leading, begun);
    sl_automaton_edge(c->automaton, SL_EDGE_CALL, begun, inner, outer->end);
    while (c->queue.count) SL_TRY(build_rule(c, c->queue.words[--c->queue.count]));
    return SL_OK;
}

sl_status sl_schema_compile(const char *text, size_t bytes, const sl_schema_options *options,
                            sl_automaton *automaton, uint32_t *out_rule, sl_error *err) {
    json_error_t problem;
    compiler c = {.options = *options,
                  .automaton = automaton,
                  .pool = &automaton->pool,
                  .allocator = automaton->pool.allocator,
                  .err = err};
    if (bytes > MAX_BYTES)
        return sl_fail(err, SL_UNSUPPORTED, "JSON schema: %zu bytes, at most %d are supported",
                       bytes, MAX_BYTES);
    json_t *root = json_loadb(text, bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &problem);
    if (!root)
        return sl_fail(err, SL_FORMAT, "JSON schema, byte %d: %s", problem.position, problem.text);
    c.root = root;
    sl_error own = {0};
    if (!err) c.err = &own;
    sl_arena_init(&c.arena, c.allocator);
    const sl_status status = compile(&c, out_rule);
    json_decref(root);
    sl_arena_deinit(&c.arena);
    sl_word_table_free(c.allocator, &c.sets);
    sl_word_list_free(c.allocator, &c.rules);
    sl_word_list_free(c.allocator, &c.queue);
    sl_word_map_free(c.allocator, &c.patterns);
    return status;
}
