/* schema_number.c - Numbers: bounds and multiples.
 *
 * A number with a bound other than 0 or with multipleOf is written without an exponent: every
 * value has such a form. */
#include "engine/choose/grammar/regex.h"
#include "engine/choose/grammar/schema_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIGITS = 700 };

/* A decimal number as text: digits, or digits '.' digits without zeros at the end. */
typedef struct {
    bool negative, zero;
    char magnitude[MAX_DIGITS + 8];
} decimal;

/* The shortest text that means the same double. */
static void real_text(double value, char out[40]) {
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, 40, "%.*e", digits - 1, value);
        if (strtod(out, NULL) == value) return;
    }
}

static void from_real(double value, decimal *out) {
    char text[40], digits[24] = "";
    size_t count = 0, used = 0;
    real_text(fabs(value), text);
    const char *exponent = strchr(text, 'e');
    for (const char *p = text; p < exponent; p++)
        if (*p != '.') digits[count++] = *p;
    const int point = atoi(exponent + 1) + 1; /* digits before the point; may be negative */
    while (count > 1 && digits[count - 1] == '0') count--;
    if (point <= 0) {
        out->magnitude[used++] = '0';
        out->magnitude[used++] = '.';
        for (int i = point; i < 0 && used < MAX_DIGITS; i++) out->magnitude[used++] = '0';
    }
    for (size_t i = 0; i < count && used < MAX_DIGITS; i++) {
        if (point > 0 && i == (size_t)point) out->magnitude[used++] = '.';
        out->magnitude[used++] = digits[i];
    }
    for (int i = (int)count; i < point && used < MAX_DIGITS; i++) out->magnitude[used++] = '0';
    out->magnitude[used] = 0;
    out->negative = value < 0;
    out->zero = value == 0;
    if (out->zero) memcpy(out->magnitude, "0", 2);
}

static sl_status take_decimal(compiler *c, const json_t *schema, const char *keyword,
                              const json_t *value, decimal *out) {
    if (json_is_integer(value)) {
        const json_int_t i = json_integer_value(value);
        const unsigned long long size = i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i;
        *out = (decimal){.negative = i < 0, .zero = i == 0};
        (void)snprintf(out->magnitude, sizeof out->magnitude, "%llu", size);
        return SL_OK;
    }
    if (!json_is_real(value)) return sl_schema_refuse(c, schema, keyword, "not a number");
    from_real(json_real_value(value), out);
    return SL_OK;
}

/* Unsigned numbers on one side of the magnitude. */
static sl_expr magnitudes(compiler *c, sl_comparison comparison, const decimal *bound) {
    return sl_expr_compared(c->pool, comparison, bound->magnitude);
}

static sl_status regex(compiler *c, const char *text, sl_expr *out) {
    return sl_regex_parse(c->pool, text, strlen(text), SL_REGEX_WHOLE, out, c->err);
}

#define MANTISSA "(0|[1-9]\\d*)(\\.\\d+)?"
#define POWER    "([eE][+-]?\\d+)?"

/* Numbers on one side of 0, exponents included. */
static sl_status beside_zero(compiler *c, sl_comparison comparison, sl_expr *out) {
    switch (comparison) {
    case SL_AT_LEAST:
        return regex(c, MANTISSA POWER "|-0(\\.0+)?" POWER, out);
    case SL_AT_MOST:
        return regex(c, "-" MANTISSA POWER "|0(\\.0+)?" POWER, out);
    case SL_ABOVE:
        return regex(c, "(0\\.0*[1-9]\\d*|[1-9]\\d*(\\.\\d+)?)" POWER, out);
    case SL_BELOW:
        return regex(c, "-(0\\.0*[1-9]\\d*|[1-9]\\d*(\\.\\d+)?)" POWER, out);
    }
    return SL_OK;
}

static sl_status beside(compiler *c, sl_comparison comparison, const decimal *bound, sl_expr *out) {
    static const sl_comparison mirrored[] = {[SL_BELOW] = SL_ABOVE,
                                             [SL_AT_MOST] = SL_AT_LEAST,
                                             [SL_ABOVE] = SL_BELOW,
                                             [SL_AT_LEAST] = SL_AT_MOST};
    const bool up = comparison >= SL_ABOVE;
    const sl_expr minus = sl_expr_byte(c->pool, '-');
    sl_expr all = 0;
    if (bound->zero) return beside_zero(c, comparison, out);
    SL_TRY(regex(c, "[0-9.]+", &all));
    const sl_expr own = magnitudes(c, bound->negative ? mirrored[comparison] : comparison, bound);
    /* Numbers of the sign of the bound are compared; those of the other sign all pass, or none. */
    const sl_expr same = bound->negative ? sl_expr_concat(c->pool, minus, own) : own;
    const sl_expr other = bound->negative ? all : sl_expr_concat(c->pool, minus, all);
    *out = up == bound->negative ? sl_expr_or(c->pool, same, other) : same;
    return sl_expr_pool_check(c->pool, c->err);
}

static sl_status add_bound(compiler *c, const fact *f, const char *keyword, sl_comparison side,
                           sl_expr *all, bool *exponents) {
    decimal bound = {0};
    sl_expr e = 0;
    SL_TRY(take_decimal(c, f->schema, keyword, json_object_get(f->schema, keyword), &bound));
    SL_TRY(beside(c, side, &bound, &e));
    *exponents &= bound.zero;
    *all = sl_expr_and(c->pool, *all, e);
    return SL_OK;
}

static sl_status multiples(compiler *c, const json_t *s, sl_expr *out) {
    decimal step = {0};
    uint64_t divisor = 0;
    uint32_t shift = 0;
    SL_TRY(take_decimal(c, s, "multipleOf", json_object_get(s, "multipleOf"), &step));
    if (step.zero || step.negative) return sl_schema_refuse(c, s, "multipleOf", "not positive");
    const char *point = strchr(step.magnitude, '.');
    if (point) shift = (uint32_t)strlen(point + 1);
    for (const char *p = step.magnitude; *p && divisor <= UINT32_MAX; p++)
        if (*p != '.') divisor = divisor * 10 + (uint64_t)(*p - '0');
    if (divisor > 100000 || shift > 20)
        return sl_schema_refuse(c, s, "multipleOf", "more than 100000 remainders, the limit");
    const sl_expr sign = sl_expr_optional(c->pool, sl_expr_byte(c->pool, '-'));
    *out = sl_expr_concat(c->pool, sign, sl_expr_multiple(c->pool, (uint32_t)divisor, shift));
    return SL_OK;
}

/* Draft 4: "exclusiveMinimum": true changes the meaning of "minimum". */
static bool is_exclusive(const json_t *s, const char *keyword) {
    return json_is_true(json_object_get(s, keyword));
}

static sl_status add_schema(compiler *c, const fact *f, sl_expr *all, bool *exponents) {
    const json_t *s = f->schema;
    sl_expr e = 0;
    if (json_object_get(s, "minimum"))
        SL_TRY(add_bound(c, f, "minimum",
                         is_exclusive(s, "exclusiveMinimum") ? SL_ABOVE : SL_AT_LEAST, all,
                         exponents));
    if (json_object_get(s, "maximum"))
        SL_TRY(add_bound(c, f, "maximum",
                         is_exclusive(s, "exclusiveMaximum") ? SL_BELOW : SL_AT_MOST, all,
                         exponents));
    const json_t *above = json_object_get(s, "exclusiveMinimum");
    const json_t *below = json_object_get(s, "exclusiveMaximum");
    if (above && !json_is_boolean(above))
        SL_TRY(add_bound(c, f, "exclusiveMinimum", SL_ABOVE, all, exponents));
    if (below && !json_is_boolean(below))
        SL_TRY(add_bound(c, f, "exclusiveMaximum", SL_BELOW, all, exponents));
    if (json_object_get(s, "multipleOf")) {
        SL_TRY(multiples(c, s, &e));
        *all = sl_expr_and(c->pool, *all, e);
        *exponents = false;
    }
    return SL_OK;
}

static sl_status add_not_values(compiler *c, const fact *f, sl_expr *all, bool *exponents) {
    const json_t *values = json_object_get(f->schema, f->name);
    const bool only = f->name[0] == 'c';
    for (size_t i = 0; i < (only ? 1 : json_array_size(values)); i++) {
        const json_t *value = only ? values : json_array_get(values, i);
        sl_expr e = 0;
        if (!json_is_number(value)) continue;
        SL_TRY(sl_schema_equal(c, value, true, &e));
        *all = sl_expr_and(c->pool, *all, sl_expr_not(c->pool, e));
        *exponents = false;
    }
    return SL_OK;
}

static sl_status add_denied(compiler *c, const fact *f, sl_expr *all, bool *exponents) {
    const json_t *s = f->schema;
    sl_expr e = 0;
    if (strcmp(f->name, "enum") == 0 || strcmp(f->name, "const") == 0)
        return add_not_values(c, f, all, exponents);
    if (strcmp(f->name, "multipleOf") == 0) {
        SL_TRY(multiples(c, s, &e));
        *all = sl_expr_and(c->pool, *all, sl_expr_not(c->pool, e));
        *exponents = false;
        return SL_OK;
    }
    if (json_is_boolean(json_object_get(s, f->name)) ||
        ((strcmp(f->name, "minimum") == 0 && is_exclusive(s, "exclusiveMinimum")) ||
         (strcmp(f->name, "maximum") == 0 && is_exclusive(s, "exclusiveMaximum"))))
        return sl_schema_refuse(c, s, f->name, "this form cannot be negated (not, oneOf, if)");
    if (strcmp(f->name, "minimum") == 0) return add_bound(c, f, f->name, SL_BELOW, all, exponents);
    if (strcmp(f->name, "maximum") == 0) return add_bound(c, f, f->name, SL_ABOVE, all, exponents);
    if (strcmp(f->name, "exclusiveMinimum") == 0)
        return add_bound(c, f, f->name, SL_AT_MOST, all, exponents);
    if (strcmp(f->name, "exclusiveMaximum") == 0)
        return add_bound(c, f, f->name, SL_AT_LEAST, all, exponents);
    return SL_OK;
}

sl_status sl_schema_number(compiler *c, const alternative *a, sl_expr *out) {
    bool exponents = true;
    sl_expr form = 0, integral = 0;
    *out = SL_EXPR_ALL;
    for (const fact *f = a->facts; f; f = f->next) {
        if (f->kind == FACT_SCHEMA) SL_TRY(add_schema(c, f, out, &exponents));
        if (f->kind == FACT_NOT_KEYWORD) SL_TRY(add_denied(c, f, out, &exponents));
    }
    SL_TRY(regex(c, c->old_integers ? "-?(0|[1-9]\\d*)" : "-?(0|[1-9]\\d*)(\\.0)?", &integral));
    if (!(a->types & TYPE_FRACTION)) {
        form = integral;
    } else if (!(a->types & TYPE_INTEGRAL)) {
        SL_TRY(regex(c, "-?(0|[1-9]\\d*)\\.\\d*[1-9]\\d*", &form));
    } else {
        SL_TRY(regex(c, exponents ? "-?" MANTISSA POWER : "-?" MANTISSA, &form));
    }
    *out = sl_expr_and(c->pool, *out, form);
    return sl_expr_pool_check(c->pool, c->err);
}

/* The texts of one number: 1, 1.0, 1.00. */
sl_status sl_schema_equal(compiler *c, const json_t *value, bool all, sl_expr *out) {
    decimal d = {0};
    sl_expr zeros = 0;
    SL_TRY(take_decimal(c, NULL, "const", value, &d));
    const bool fraction = strchr(d.magnitude, '.') != NULL;
    const char *more = all ? (fraction ? "0*" : "(\\.0+)?") : (fraction ? "" : "(\\.0)?");
    SL_TRY(regex(c, more, &zeros));
    const sl_expr digits = sl_expr_literal(c->pool, d.magnitude, strlen(d.magnitude));
    const sl_expr minus = sl_expr_byte(c->pool, '-');
    *out = sl_expr_concat(c->pool, digits, zeros);
    if (d.zero) *out = sl_expr_concat(c->pool, sl_expr_optional(c->pool, minus), *out);
    if (d.negative) *out = sl_expr_concat(c->pool, minus, *out);
    return sl_expr_pool_check(c->pool, c->err);
}
