/* cursor.c - Reading a text form: words, names, numbers; what is wrong, and where. */
#include "compiler/cursor.h"
#include "core/codec.h"
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sl_cursor_explain(const sl_cursor *c, const char *where, const char *format, ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    size_t line = 1, column = 1;
    for (const char *p = c->text; p < where; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    (void)!sl_fail(c->err, SL_FORMAT, "line %zu, column %zu: %s", line, column, message);
}

static void skip_blank(sl_cursor *c) {
    while (c->at < c->end && (isspace((unsigned char)*c->at) || *c->at == '#')) {
        if (*c->at == '#')
            while (c->at < c->end && *c->at != '\n') c->at++;
        else
            c->at++;
    }
}

char sl_cursor_peek(sl_cursor *c) {
    skip_blank(c);
    return c->at < c->end ? *c->at : 0;
}

bool sl_cursor_accept(sl_cursor *c, char wanted) {
    if (sl_cursor_peek(c) != wanted || c->at == c->end) return false;
    c->at++;
    return true;
}

sl_status sl_cursor_unexpected(sl_cursor *c, const char *wanted) {
    skip_blank(c);
    if (c->at == c->end) return FAIL_AT(c, c->at, "expected %s, found the end of the text", wanted);
    const unsigned char found = (unsigned char)*c->at;
    if (!isprint(found)) return FAIL_AT(c, c->at, "expected %s, found byte 0x%02x", wanted, found);
    return FAIL_AT(c, c->at, "expected %s, found '%c'", wanted, found);
}

sl_status sl_cursor_expect(sl_cursor *c, char wanted) {
    if (sl_cursor_accept(c, wanted)) return SL_OK;
    const char text[] = {'\'', wanted, '\'', 0};
    return sl_cursor_unexpected(c, text);
}

/* ---- Words, names and numbers ---- */

bool sl_starts_word(char c) {
    return isalpha((unsigned char)c) || c == '_';
}

sl_status sl_cursor_word(sl_cursor *c, const char *what, sl_slice *out) {
    const char first = sl_cursor_peek(c);
    *out = (sl_slice){c->at, 0};
    if (!sl_starts_word(first)) return sl_cursor_unexpected(c, what);
    while (c->at < c->end && (isalnum((unsigned char)*c->at) || *c->at == '_' || *c->at == '.'))
        c->at++;
    out->bytes = (size_t)(c->at - out->at);
    return SL_OK;
}

bool sl_slice_is(sl_slice word, const char *text) {
    return word.bytes == strlen(text) && memcmp(word.at, text, word.bytes) == 0;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What follows a backslash: one of " \ or xNN; never NUL. */
static sl_status read_escape(sl_cursor *c, char *out) {
    const char *start = c->at;
    const size_t left = (size_t)(c->end - c->at);
    if (left >= 1 && (*c->at == '"' || *c->at == '\\')) {
        *out = *c->at++;
        return SL_OK;
    }
    if (left >= 3 && *c->at == 'x' && hex_digit(c->at[1]) >= 0 && hex_digit(c->at[2]) >= 0) {
        *out = (char)(hex_digit(c->at[1]) * 16 + hex_digit(c->at[2]));
        c->at += 3;
        if (*out) return SL_OK;
    }
    return FAIL_AT(c, start, "expected \\\", \\\\ or \\x01 to \\xff in a string");
}

sl_status sl_cursor_quoted(sl_cursor *c, sl_arena *arena, const char *what, char **out) {
    if (sl_cursor_peek(c) != '"') return sl_cursor_unexpected(c, what);
    const char *start = c->at++, *close = c->at;
    while (close < c->end && *close != '"') close += *close == '\\' && c->end - close > 1 ? 2 : 1;
    char *text = sl_arena_alloc(arena, (size_t)(close - start) + 1, 1);
    if (!text) return sl_no_memory(c->err, "a string", (uint64_t)(close - start));
    for (size_t n = 0; c->at < c->end && *c->at != '"'; n++) {
        if (*c->at == 0) return FAIL_AT(c, c->at, "a string cannot hold a zero byte");
        text[n] = *c->at++;
        if (text[n] == '\\') SL_TRY(read_escape(c, &text[n]));
    }
    if (c->at == c->end) return FAIL_AT(c, start, "this string is not closed");
    c->at++;
    *out = text;
    return SL_OK;
}

enum { MAX_NUMBER = 63 };
sl_status sl_cursor_number(sl_cursor *c, sl_slice *out) {
    (void)sl_cursor_peek(c);
    out->at = c->at;
    while (c->at < c->end &&
           (isalnum((unsigned char)*c->at) || (*c->at && strchr("+-.:_", *c->at))))
        c->at++;
    out->bytes = (size_t)(c->at - out->at);
    if (out->bytes == 0) return sl_cursor_unexpected(c, "a number");
    if (out->bytes > MAX_NUMBER) return FAIL_AT(c, out->at, "a number of %zu digits", out->bytes);
    return SL_OK;
}

sl_status sl_slice_integer(const sl_cursor *c, sl_slice number, int64_t least, int64_t most,
                           int64_t *out) {
    const bool negative = number.at[0] == '-';
    int64_t value = 0; /* with its sign from the start: the least one has no opposite */
    bool fits = number.bytes > (negative ? 1u : 0u);
    for (size_t i = negative; fits && i < number.bytes; i++) {
        const int digit = number.at[i] - '0';
        fits = digit >= 0 && digit <= 9 && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, negative ? -digit : digit, &value);
    }
    *out = value;
    if (fits && *out >= least && *out <= most) return SL_OK;
    return FAIL_AT(c, number.at, "expected an integer from %lld to %lld, found '%.*s'",
                   (long long)least, (long long)most, (int)number.bytes, number.at);
}

sl_status sl_slice_unsigned(const sl_cursor *c, sl_slice number, uint64_t *out) {
    bool fits = number.bytes > 0;
    *out = 0;
    for (size_t i = 0; fits && i < number.bytes; i++) {
        const char digit = number.at[i];
        fits = digit >= '0' && digit <= '9' && !__builtin_mul_overflow(*out, 10u, out) &&
               !__builtin_add_overflow(*out, (uint64_t)(digit - '0'), out);
    }
    if (fits) return SL_OK;
    return FAIL_AT(c, number.at, "expected an integer from 0 to %llu, found '%.*s'",
                   (unsigned long long)UINT64_MAX, (int)number.bytes, number.at);
}

/* The bits of a NaN, written as "nan:" and at most `digits` hexadecimal digits. */
static bool to_wide_nan_bits(sl_slice number, size_t digits, uint64_t *out) {
    if (number.bytes < 5 || number.bytes > 4 + digits || memcmp(number.at, "nan:", 4) != 0)
        return false;
    *out = 0;
    for (size_t i = 4; i < number.bytes; i++) {
        if (hex_digit(number.at[i]) < 0) return false;
        *out = *out * 16 + (uint64_t)hex_digit(number.at[i]);
    }
    return true;
}

static bool to_nan_bits(sl_slice number, uint32_t *out) {
    uint64_t bits = 0;
    const bool found = to_wide_nan_bits(number, 8, &bits);
    *out = (uint32_t)bits;
    return found;
}

sl_status sl_slice_double(const sl_cursor *c, sl_slice number, double *out) {
    uint64_t bits;
    if (to_wide_nan_bits(number, 16, &bits)) {
        memcpy(out, &bits, sizeof bits);
        if (isnan(*out)) return SL_OK;
        return FAIL_AT(c, number.at, "these are not the bits of a NaN");
    }
    char text[MAX_NUMBER + 1] = {0}, *stop = text;
    memcpy(text, number.at, number.bytes);
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return sl_no_memory(c->err, "a locale", 0);
    *out = strtod_l(text, &stop, plain);
    freelocale(plain);
    if (*stop == 0 && (!isinf(*out) || strstr(text, "inf"))) return SL_OK;
    return FAIL_AT(c, number.at, "expected a number that fits f64, found '%s'", text);
}

sl_status sl_slice_float(const sl_cursor *c, sl_slice number, float *out) {
    uint32_t bits;
    if (to_nan_bits(number, &bits)) {
        memcpy(out, &bits, sizeof bits);
        if (isnan(*out)) return SL_OK;
        return FAIL_AT(c, number.at, "these are not the bits of a NaN");
    }
    char text[MAX_NUMBER + 1] = {0}, *stop = text;
    memcpy(text, number.at, number.bytes);
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return sl_no_memory(c->err, "a locale", 0);
    *out = strtof_l(text, &stop, plain);
    freelocale(plain);
    if (*stop == 0 && (!isinf(*out) || strstr(text, "inf"))) return SL_OK;
    return FAIL_AT(c, number.at, "expected a number that fits f32, found '%s'", text);
}

/* f16 or bf16. */
sl_status sl_slice_half(const sl_cursor *c, sl_slice number, sl_dtype dtype, uint16_t *out) {
    const bool is_f16 = dtype == SL_DTYPE_f16;
    float value;
    uint32_t bits;
    if (to_nan_bits(number, &bits) && bits <= UINT16_MAX) {
        *out = (uint16_t)bits;
        if (isnan(is_f16 ? sl_f32_from_f16(*out) : sl_f32_from_bf16(*out))) return SL_OK;
    }
    SL_TRY(sl_slice_float(c, number, &value));
    *out = is_f16 ? sl_f16_from_f32(value) : sl_bf16_from_f32(value);
    return SL_OK;
}
