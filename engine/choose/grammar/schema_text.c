/* schema_text.c - Strings: length, pattern, format. */
#include "engine/choose/grammar/charset.h"
#include "engine/choose/grammar/regex.h"
#include "engine/choose/grammar/schema_internal.h"
#include <math.h>
#include <string.h>

enum { MAX_COUNT = 1 << 24 };

static const struct {
    const char *name, *expression;
} formats[] = {
#define SL_FORMAT(name, expression) {name, expression},
#include "engine/choose/grammar/formats.def"
#undef SL_FORMAT
};
/* Formats of the standard that have no expression here. */
static const char *const other_formats[] = {"idn-email",     "idn-hostname", "iri",
                                            "iri-reference", "uri-template", "regex"};

sl_status sl_schema_pattern(compiler *c, const json_t *schema, const char *keyword,
                            const char *text, size_t bytes, sl_expr *out) {
    const uint64_t key = (uint64_t)(uintptr_t)text;
    sl_error problem = {0};
    uint32_t known;
    if (sl_word_map_find(&c->patterns, key, &known)) {
        *out = known;
        return SL_OK;
    }
    const sl_status status = sl_regex_parse(c->pool, text, bytes, SL_REGEX_SEARCH, out, &problem);
    if (status == SL_NO_MEMORY) return sl_no_memory(c->err, "a regular expression", bytes);
    if (status != SL_OK) return sl_schema_refuse(c, schema, keyword, problem.message);
    if (!sl_word_map_set(c->allocator, &c->patterns, key, *out))
        return sl_no_memory(c->err, "a regular expression", bytes);
    return SL_OK;
}

sl_status sl_schema_format(compiler *c, const json_t *schema, sl_expr *out, bool *known) {
    const char *name = json_string_value(json_object_get(schema, "format"));
    *known = false;
    if (!name) return SL_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        uint32_t found;
        const char *text = formats[i].expression;
        const uint64_t key = (uint64_t)(uintptr_t)text;
        if (strcmp(name, formats[i].name) != 0) continue;
        *known = true;
        if (sl_word_map_find(&c->patterns, key, &found)) {
            *out = found;
            return SL_OK;
        }
        SL_TRY(sl_regex_parse(c->pool, text, strlen(text), SL_REGEX_WHOLE, out, c->err));
        return sl_word_map_set(c->allocator, &c->patterns, key, *out)
                   ? SL_OK
                   : sl_no_memory(c->err, "a regular expression", 0);
    }
    for (size_t i = 0; i < sizeof other_formats / sizeof *other_formats; i++)
        if (strcmp(name, other_formats[i]) == 0)
            return sl_schema_refuse(c, schema, "format", "this format is not supported");
    return SL_OK;
}

sl_status sl_schema_count(compiler *c, const json_t *schema, const char *keyword, uint32_t *out,
                          bool *found) {
    const json_t *value = json_object_get(schema, keyword);
    const double number = json_number_value(value);
    *found = value != NULL;
    if (!value) return SL_OK;
    if (!json_is_number(value) || number < 0 || floor(number) != number)
        return sl_schema_refuse(c, schema, keyword, "not a count");
    if (number > MAX_COUNT) return sl_schema_refuse(c, schema, keyword, "a count over 16777216");
    *out = (uint32_t)number;
    return SL_OK;
}

static sl_status lengths(compiler *c, const json_t *s, sl_expr *out, bool *found) {
    uint32_t min = 0, max = SL_EXPR_UNBOUNDED;
    bool has_min, has_max;
    SL_TRY(sl_schema_count(c, s, "minLength", &min, &has_min));
    SL_TRY(sl_schema_count(c, s, "maxLength", &max, &has_max));
    *found = min > 0 || has_max;
    if (!*found) return SL_OK;
    *out = min > max ? SL_EXPR_NONE : sl_expr_repeat(c->pool, sl_charset_any(c->pool), min, max);
    return SL_OK;
}

static sl_status add_schema(compiler *c, const json_t *s, sl_expr *all) {
    const json_t *pattern = json_object_get(s, "pattern");
    bool found;
    sl_expr e = SL_EXPR_ALL;
    SL_TRY(lengths(c, s, &e, &found));
    if (found) *all = sl_expr_and(c->pool, *all, e);
    if (pattern) {
        if (!json_is_string(pattern)) return sl_schema_refuse(c, s, "pattern", "not a text");
        SL_TRY(sl_schema_pattern(c, s, "pattern", json_string_value(pattern),
                                 json_string_length(pattern), &e));
        *all = sl_expr_and(c->pool, *all, e);
    }
    SL_TRY(sl_schema_format(c, s, &e, &found));
    if (found) *all = sl_expr_and(c->pool, *all, e);
    return SL_OK;
}

static void add_not_values(compiler *c, const json_t *s, const char *keyword, sl_expr *all) {
    const json_t *values = json_object_get(s, keyword);
    const bool only = keyword[0] == 'c';
    for (size_t i = 0; i < (only ? 1 : json_array_size(values)); i++) {
        const json_t *value = only ? values : json_array_get(values, i);
        if (!json_is_string(value)) continue;
        const sl_expr e =
            sl_expr_literal(c->pool, json_string_value(value), json_string_length(value));
        *all = sl_expr_and(c->pool, *all, sl_expr_not(c->pool, e));
    }
}

static sl_status add_denied(compiler *c, const fact *f, sl_expr *all) {
    const json_t *value = json_object_get(f->schema, f->name);
    sl_expr e = SL_EXPR_ALL;
    uint32_t count = 0;
    bool found;
    if (strcmp(f->name, "pattern") == 0 && json_is_string(value)) {
        SL_TRY(sl_schema_pattern(c, f->schema, "pattern", json_string_value(value),
                                 json_string_length(value), &e));
        *all = sl_expr_and(c->pool, *all, sl_expr_not(c->pool, e));
    } else if (strcmp(f->name, "minLength") == 0) {
        SL_TRY(sl_schema_count(c, f->schema, "minLength", &count, &found));
        e = count ? sl_expr_repeat(c->pool, sl_charset_any(c->pool), 0, count - 1) : SL_EXPR_NONE;
        *all = sl_expr_and(c->pool, *all, e);
    } else if (strcmp(f->name, "maxLength") == 0) {
        SL_TRY(sl_schema_count(c, f->schema, "maxLength", &count, &found));
        e = sl_expr_repeat(c->pool, sl_charset_any(c->pool), count + 1, SL_EXPR_UNBOUNDED);
        *all = sl_expr_and(c->pool, *all, e);
    } else if (strcmp(f->name, "enum") == 0 || strcmp(f->name, "const") == 0) {
        add_not_values(c, f->schema, f->name, all);
    }
    return SL_OK;
}

sl_status sl_schema_string(compiler *c, const alternative *a, sl_expr *out, bool *plain) {
    *out = SL_EXPR_ALL;
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind == FACT_SCHEMA) SL_TRY(add_schema(c, f->schema, out));
        if (f->kind == FACT_NOT_KEYWORD) SL_TRY(add_denied(c, f, out));
    }
    *plain = *out == SL_EXPR_ALL;
    *out = sl_expr_and(c->pool, *out, sl_charset_text(c->pool));
    return SL_OK;
}
