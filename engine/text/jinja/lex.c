/* lex.c - Lexer.  White space outside of tags has three rules: a '-' inside a tag's border removes
 * all white space on that side; a block or comment alone on its line loses the indentation before
 * it (lstrip_blocks) and the newline after it (trim_blocks); a '+' keeps both. */
#include "engine/text/jinja/lex.h"
#include "engine/text/jinja/utf8.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    jinja_place place;
    sl_arena *arena;
    jinja_text source;
    size_t at;
    bool line_start; /* the last tag was followed by a newline */
    jinja_token *tokens;
    size_t count, capacity;
} lexer;

static sl_status push(lexer *lex, jinja_token_kind kind, jinja_text text) {
    if (lex->count == lex->capacity) {
        const size_t capacity = lex->capacity ? lex->capacity * 2 : 64;
        jinja_token *grown = SL_ARENA_NEW_ARRAY(lex->arena, jinja_token, capacity);
        if (!grown) return sl_no_memory(lex->place.err, "template tokens", capacity);
        if (lex->count) memcpy(grown, lex->tokens, lex->count * sizeof *grown);
        lex->tokens = grown;
        lex->capacity = capacity;
    }
    lex->tokens[lex->count++] = (jinja_token){.kind = kind, .line = lex->place.line, .text = text};
    return SL_OK;
}

static bool ahead(const lexer *lex, const char *text) {
    const size_t bytes = strlen(text);
    return lex->source.bytes - lex->at >= bytes &&
           memcmp(lex->source.data + lex->at, text, bytes) == 0;
}

static char peek(const lexer *lex, size_t offset) {
    return lex->at + offset < lex->source.bytes ? lex->source.data[lex->at + offset] : '\0';
}

/* Advances to the byte at `end`, counting lines. */
static void advance_to(lexer *lex, size_t end) {
    for (; lex->at < end; lex->at++) lex->place.line += lex->source.data[lex->at] == '\n';
}

static void skip_spaces(lexer *lex) {
    const jinja_text rest = {lex->source.data + lex->at, lex->source.bytes - lex->at};
    advance_to(lex, lex->at + (rest.bytes - sl_jinja_strip_left(rest).bytes));
}

/* Called after the end of a tag; `sign` is the character before it. */
static void finish_tag(lexer *lex, char sign, bool trims_newline) {
    if (sign == '-') {
        skip_spaces(lex);
    } else if (sign != '+' && trims_newline && peek(lex, 0) == '\n') {
        advance_to(lex, lex->at + 1);
    }
    lex->line_start = lex->at > 0 && lex->source.data[lex->at - 1] == '\n';
}

/* The text before a tag, with white space removed as the tag requires. */
static jinja_text before_tag(const lexer *lex, jinja_text text, char sign, bool strips_indent) {
    if (sign == '-') return sl_jinja_strip_right(text);
    if (sign == '+' || !strips_indent) return text;
    const char *newline = text.bytes ? memrchr(text.data, '\n', text.bytes) : NULL;
    if (!newline && !lex->line_start) return text;
    const size_t start = newline ? (size_t)(newline - text.data) + 1 : 0;
    const jinja_text line = {text.data + start, text.bytes - start};
    if (sl_jinja_strip_left(line).bytes == 0) text.bytes = start;
    return text;
}

static sl_status push_data(lexer *lex, jinja_text text) {
    return text.bytes ? push(lex, JINJA_TOKEN_DATA, text) : SL_OK;
}

static size_t find(const lexer *lex, size_t from, const char *text) {
    const char *hit = memmem(lex->source.data + from, lex->source.bytes - from, text, strlen(text));
    return hit ? (size_t)(hit - lex->source.data) : lex->source.bytes;
}

/* {# ... #}, after the opening. */
static sl_status lex_comment(lexer *lex) {
    const size_t end = find(lex, lex->at, "#}");
    if (end == lex->source.bytes) return JINJA_REJECT(lex, "a comment is not closed");
    const char sign = end > lex->at ? lex->source.data[end - 1] : '\0';
    advance_to(lex, end + 2);
    finish_tag(lex, sign, true);
    return SL_OK;
}

/* If `name` and the end of the tag follow, with optional white space: the offset of the end, and
 * its sign; else 0. */
static size_t match_raw_tag(const lexer *lex, size_t from, const char *name, char *out_sign) {
    const jinja_text source = lex->source;
    jinja_text rest = {source.data + from, source.bytes - from};
    rest = sl_jinja_strip_left(rest);
    const size_t bytes = strlen(name);
    if (rest.bytes < bytes || memcmp(rest.data, name, bytes) != 0) return 0;
    rest = sl_jinja_strip_left((jinja_text){rest.data + bytes, rest.bytes - bytes});
    *out_sign = '\0';
    if (rest.bytes && (rest.data[0] == '-' || rest.data[0] == '+')) {
        *out_sign = rest.data[0];
        rest = (jinja_text){rest.data + 1, rest.bytes - 1};
    }
    if (rest.bytes < 2 || memcmp(rest.data, "%}", 2) != 0) return 0;
    return (size_t)(rest.data - source.data) + 2;
}

/* The text up to {% endraw %}, after {% raw %}. */
static sl_status lex_raw(lexer *lex) {
    const size_t start = lex->at;
    for (size_t tag = find(lex, start, "{%"); tag < lex->source.bytes;
         tag = find(lex, tag + 2, "{%")) {
        const char open = tag + 2 < lex->source.bytes ? lex->source.data[tag + 2] : '\0';
        const bool is_sign = open == '-' || open == '+';
        char close;
        const size_t end = match_raw_tag(lex, tag + 2 + is_sign, "endraw", &close);
        if (end == 0) continue;
        const jinja_text text = {lex->source.data + start, tag - start};
        SL_TRY(push_data(lex, before_tag(lex, text, open, true)));
        advance_to(lex, end);
        finish_tag(lex, close, true);
        return SL_OK;
    }
    return JINJA_REJECT(lex, "a raw block is not closed");
}

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f') return (c | 32) - 'a' + 10;
    return -1;
}

/* \x41, \u0041, \U00000041: the digits at *in, which is advanced past them. */
static sl_status hex_escape(lexer *lex, const char **in, const char *end, char **out) {
    const char kind = *(*in)++;
    const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    uint32_t character = 0;
    for (int i = 0; i < digits; i++) {
        const int digit = *in < end ? hex_digit(**in) : -1;
        if (digit < 0) return JINJA_REJECT(lex, "\\%c wants %d hex digits", kind, digits);
        character = character << 4 | (uint32_t)digit;
        ++*in;
    }
    if (character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF))
        return JINJA_REJECT(lex, "\\%c%x is not a character", kind, character);
    *out += sl_utf8_encode(character, *out);
    return SL_OK;
}

/* One escape sequence, after the backslash. */
static sl_status lex_escape(lexer *lex, const char **in, const char *end, char **out) {
    static const char letters[] = "abfnrtv\\'\"", meaning[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = **in;
    if (c == 'x' || c == 'u' || c == 'U') return hex_escape(lex, in, end, out);
    if (c >= '0' && c <= '7') {
        uint32_t character = 0;
        for (int i = 0; i < 3 && *in < end && **in >= '0' && **in <= '7'; i++)
            character = character * 8 + (uint32_t)(*(*in)++ - '0');
        *out += sl_utf8_encode(character, *out);
        return SL_OK;
    }
    ++*in;
    const char *known = strchr(letters, c);
    if (c != '\0' && known) {
        *(*out)++ = meaning[known - letters];
        /* An escaped newline is dropped; unknown escapes are kept as written. */
    } else if (c != '\n') {
        *(*out)++ = '\\';
        *(*out)++ = c;
    }
    return SL_OK;
}

static sl_status lex_string(lexer *lex) {
    const char quote = peek(lex, 0);
    size_t end = lex->at + 1;
    while (end < lex->source.bytes && lex->source.data[end] != quote)
        end += lex->source.data[end] == '\\' ? 2 : 1;
    if (end >= lex->source.bytes) return JINJA_REJECT(lex, "a string is not closed");
    const char *in = lex->source.data + lex->at + 1, *stop = lex->source.data + end;
    /* An escape is never shorter than the character that it represents. */
    char *text = sl_arena_alloc(lex->arena, (size_t)(stop - in) + 1, 1), *out = text;
    if (!text) return sl_no_memory(lex->place.err, "template string", (uint64_t)(stop - in) + 1);
    while (in < stop) {
        if (*in != '\\') {
            *out++ = *in++;
            continue;
        }
        in++;
        SL_TRY(lex_escape(lex, &in, stop, &out));
    }
    SL_TRY(push(lex, JINJA_TOKEN_STRING, (jinja_text){text, (size_t)(out - text)}));
    advance_to(lex, end + 1);
    return SL_OK;
}

/* Copies the number at the cursor without underscores; false if it does not fit. */
static bool copy_number(lexer *lex, size_t end, char *out, size_t capacity) {
    size_t bytes = 0;
    for (size_t i = lex->at; i < end; i++) {
        if (lex->source.data[i] == '_') continue;
        if (bytes + 1 == capacity) return false;
        out[bytes++] = lex->source.data[i];
    }
    out[bytes] = '\0';
    return true;
}

static size_t skip_digits(const lexer *lex, size_t at) {
    while (at < lex->source.bytes &&
           (is_digit(lex->source.data[at]) || lex->source.data[at] == '_'))
        at++;
    return at;
}

/* The end of a float whose integer part ends at `end`; `end` if it is an integer. */
static size_t float_end(const lexer *lex, size_t end) {
    const char *data = lex->source.data;
    const size_t bytes = lex->source.bytes;
    if (end + 1 < bytes && data[end] == '.' && is_digit(data[end + 1]))
        end = skip_digits(lex, end + 1);
    if (end + 1 < bytes && (data[end] | 32) == 'e') {
        const bool sign = data[end + 1] == '-' || data[end + 1] == '+';
        if (end + 1 + sign < bytes && is_digit(data[end + 1 + sign]))
            end = skip_digits(lex, end + 1 + sign);
    }
    return end;
}

static sl_status lex_number(lexer *lex) {
    int base = 10;
    const char prefix = (char)(peek(lex, 1) | 32);
    if (peek(lex, 0) == '0' && (prefix == 'x' || prefix == 'o' || prefix == 'b'))
        base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : 2;
    if (base != 10) lex->at += 2;
    size_t end = lex->at;
    if (base == 10) {
        end = skip_digits(lex, end);
    } else {
        while (end < lex->source.bytes && (hex_digit(lex->source.data[end]) >= 0)) end++;
    }
    const jinja_token *last = lex->count ? &lex->tokens[lex->count - 1] : NULL;
    const bool after_dot = last && last->kind == JINJA_TOKEN_OPERATOR && last->text.data[0] == '.';
    const size_t real_end = base == 10 && !after_dot ? float_end(lex, end) : end;
    char digits[128];
    char *rest = digits;
    if (!copy_number(lex, real_end, digits, sizeof digits) || !digits[0])
        return JINJA_REJECT(lex, "a number cannot be read");
    const jinja_text text = {lex->source.data + lex->at, real_end - lex->at};
    const bool real = real_end > end;
    SL_TRY(push(lex, real ? JINJA_TOKEN_FLOAT : JINJA_TOKEN_INTEGER, text));
    jinja_value *value = &lex->tokens[lex->count - 1].value;
    errno = 0;
    if (real) {
        *value = (jinja_value){.kind = JINJA_FLOAT, .real = strtod(digits, &rest)};
    } else {
        *value = (jinja_value){.kind = JINJA_INTEGER, .integer = strtoll(digits, &rest, base)};
        if (errno) return JINJA_REJECT(lex, "%s is beyond 64 bits", digits);
    }
    if (*rest) return JINJA_REJECT(lex, "a number cannot be read: %s", digits);
    lex->at = real_end;
    return SL_OK;
}

static sl_status lex_operator(lexer *lex) {
    static const char *const operators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                            "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!ahead(lex, operators[i])) continue;
        const size_t bytes = strlen(operators[i]);
        lex->at += bytes;
        return push(lex, JINJA_TOKEN_OPERATOR, (jinja_text){operators[i], bytes});
    }
    return JINJA_REJECT(lex, "unexpected character '%c' in a tag", peek(lex, 0));
}

static sl_status lex_token(lexer *lex) {
    const char c = peek(lex, 0);
    if (c == '"' || c == '\'') return lex_string(lex);
    if (is_digit(c)) return lex_number(lex);
    if (!is_name_byte(c)) return lex_operator(lex);
    const size_t start = lex->at;
    while (lex->at < lex->source.bytes && is_name_byte(lex->source.data[lex->at])) lex->at++;
    const jinja_text name = {lex->source.data + start, lex->at - start};
    return push(lex, JINJA_TOKEN_NAME, name);
}

/* The inside of {{ }} or {% %} and its end.  Inside brackets the end marker is read as operators,
 * as in {{ {'a': {}} }}. */
static sl_status lex_tag(lexer *lex, bool is_output) {
    const char *end = is_output ? "}}" : "%}";
    size_t open = 0;
    while (skip_spaces(lex), lex->at < lex->source.bytes) {
        const char sign = peek(lex, 0);
        const bool signed_end = (sign == '-' || (sign == '+' && !is_output)) &&
                                peek(lex, 1) == end[0] && peek(lex, 2) == end[1];
        if (open == 0 && (signed_end || ahead(lex, end))) {
            SL_TRY(push(lex, is_output ? JINJA_TOKEN_OUTPUT_END : JINJA_TOKEN_BLOCK_END,
                        (jinja_text){end, 2}));
            advance_to(lex, lex->at + 2 + signed_end);
            finish_tag(lex, signed_end ? sign : '\0', !is_output);
            return SL_OK;
        }
        SL_TRY(lex_token(lex));
        const jinja_token *last = &lex->tokens[lex->count - 1];
        if (last->kind != JINJA_TOKEN_OPERATOR) continue;
        if (strchr("([{", last->text.data[0])) open++;
        if (strchr(")]}", last->text.data[0])) {
            if (open == 0) return JINJA_REJECT(lex, "'%c' closes nothing", last->text.data[0]);
            open--;
        }
    }
    return JINJA_REJECT(lex, "a tag is not closed, wanted '%s'", end);
}

static sl_status lex_document(lexer *lex) {
    while (lex->at < lex->source.bytes) {
        const size_t start = lex->at;
        size_t tag = start;
        do {
            tag = find(lex, tag, "{");
            if (tag == lex->source.bytes) break;
            const char next = tag + 1 < lex->source.bytes ? lex->source.data[tag + 1] : '\0';
            if (next == '{' || next == '%' || next == '#') break;
            tag++;
        } while (true);
        const jinja_text text = {lex->source.data + start, tag - start};
        if (tag == lex->source.bytes) return push_data(lex, text);
        const char kind = lex->source.data[tag + 1];
        const char sign = tag + 2 < lex->source.bytes ? lex->source.data[tag + 2] : '\0';
        const bool is_sign = sign == '-' || sign == '+';
        SL_TRY(push_data(lex, before_tag(lex, text, sign, kind != '{')));
        advance_to(lex, tag + 2 + is_sign);
        lex->line_start = false;
        char close;
        size_t raw;
        if (kind == '#') {
            lex->at -= is_sign; /* "{#-#}": the sign may belong to the end as well */
            SL_TRY(lex_comment(lex));
        } else if (kind == '%' && (raw = match_raw_tag(lex, lex->at, "raw", &close)) != 0 &&
                   close != '+') {
            advance_to(lex, raw);
            finish_tag(lex, close, false);
            SL_TRY(lex_raw(lex));
        } else {
            const bool output = kind == '{';
            SL_TRY(push(lex, output ? JINJA_TOKEN_OUTPUT_BEGIN : JINJA_TOKEN_BLOCK_BEGIN,
                        (jinja_text){lex->source.data + tag, 2}));
            SL_TRY(lex_tag(lex, output));
        }
    }
    return SL_OK;
}

/* "\r
 * " and "\r" become "
 * "; one newline at the end is removed. */
static sl_status normalise(lexer *lex, jinja_text source) {
    char *copy = sl_arena_alloc(lex->arena, source.bytes + 1, 1);
    if (!copy) return sl_no_memory(lex->place.err, "template text", source.bytes + 1);
    size_t bytes = 0;
    for (size_t i = 0; i < source.bytes; i++) {
        const char c = source.data[i];
        if (c == '\n' && i > 0 && source.data[i - 1] == '\r') continue;
        copy[bytes++] = c == '\r' ? '\n' : c;
    }
    if (bytes && copy[bytes - 1] == '\n') bytes--;
    lex->source = (jinja_text){copy, bytes};
    return SL_OK;
}

sl_status sl_jinja_lex(jinja_text source, sl_arena *arena, jinja_token **out, sl_error *err) {
    lexer lex = {.place = {err, 1}, .arena = arena, .line_start = true};
    SL_TRY(normalise(&lex, source));
    SL_TRY(lex_document(&lex));
    SL_TRY(push(&lex, JINJA_TOKEN_END, JINJA_TEXT("the end of the template")));
    *out = lex.tokens;
    return SL_OK;
}
