/* json_parse.c - A parser of JSON texts (RFC 8259) that makes jansson's values.
 *
 * jansson's own parser ignores that the buffer of its lexer could not grow, and then aborts or
 * loses characters; here every failed allocation is an error. */
#include "base/memory.h"
#include "base/utf8.h"
#include "engine/formats/json.h"
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 2048 };

typedef struct {
    sl_slice all;
    size_t at;
    unsigned flags;
    uint32_t depth;
    char *scratch; /* for strings with escapes, and numbers; as long as the longest of them */
    size_t scratch_bytes;
    sl_json_problem *problem;
} parser;

static json_t *parse_value(parser *p);

static bool refuse(parser *p, const char *text) {
    if (!p->problem->text) *p->problem = (sl_json_problem){.position = p->at, .text = text};
    return false;
}

static bool no_memory(parser *p) {
    (void)refuse(p, "out of memory");
    p->problem->no_memory = true;
    return false;
}

/* value, or NULL after recording that there was no memory for it. */
static json_t *made(parser *p, json_t *value) {
    if (!value) (void)no_memory(p);
    return value;
}

/* The next byte, -1 at the end. */
static int peek(const parser *p) {
    return p->at < p->all.bytes ? (unsigned char)p->all.text[p->at] : -1;
}

static int peek_token(parser *p) {
    while (p->at < p->all.bytes && p->all.text[p->at] && strchr(" \t\n\r", p->all.text[p->at]))
        p->at++;
    return peek(p);
}

static bool accept(parser *p, int byte) {
    if (peek_token(p) != byte) return false;
    p->at++;
    return true;
}

static bool reserve_scratch(parser *p, size_t bytes) {
    if (bytes <= p->scratch_bytes) return true;
    char *larger = realloc(p->scratch, bytes);
    if (!larger) return no_memory(p);
    p->scratch = larger;
    p->scratch_bytes = bytes;
    return true;
}

/* ---- strings ---- */

static bool read_hex(parser *p, uint32_t *out) {
    static const char digits[] = "0123456789abcdefABCDEF";
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const int byte = peek(p);
        const char *digit = byte > 0 ? strchr(digits, byte) : NULL;
        if (!digit) return refuse(p, "\\u needs four hexadecimal digits");
        const uint32_t value = (uint32_t)(digit - digits);
        *out = *out * 16 + (value < 16 ? value : value - 6);
        p->at++;
    }
    return true;
}

/* What follows \u; a character beyond 16 bits takes two escapes. */
static bool read_unicode(parser *p, uint32_t *out) {
    uint32_t low;
    if (!read_hex(p, out)) return false;
    if (*out == 0 && !(p->flags & SL_JSON_ALLOW_NUL)) return refuse(p, "\\u0000 is not supported");
    if (*out < 0xD800 || *out > 0xDFFF) return true;
    if (*out > 0xDBFF || p->all.bytes - p->at < 2 || memcmp(p->all.text + p->at, "\\u", 2) != 0)
        return refuse(p, "half of a surrogate pair");
    p->at += 2;
    if (!read_hex(p, &low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return refuse(p, "half of a surrogate pair");
    *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

static bool read_escape(parser *p, char **to) {
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    uint32_t character;
    const int byte = peek(p);
    const char *name = byte > 0 ? strchr(names, byte) : NULL;
    if (!name && byte != 'u') return refuse(p, "unknown escape");
    p->at++;
    if (name) {
        *(*to)++ = bytes[name - names];
        return true;
    }
    if (!read_unicode(p, &character)) return false;
    *to += sl_utf8_encode(character, *to);
    return true;
}

/* Where the string that begins at p->at ends: the position of its quote. */
static bool find_end(parser *p, size_t *out, bool *escaped) {
    size_t at = p->at;
    *escaped = false;
    while (at < p->all.bytes && p->all.text[at] != '"') {
        if ((unsigned char)p->all.text[at] < ' ') {
            p->at = at;
            return refuse(p, "control character in a string");
        }
        if (p->all.text[at] == '\\') {
            *escaped = true;
            at++;
        }
        at++;
    }
    if (at >= p->all.bytes) return refuse(p, "a string without end");
    *out = at;
    return true;
}

/* The string after a quote; its bytes are in the text or in the scratch memory. */
static bool read_string(parser *p, sl_slice *out) {
    size_t end = 0;
    bool escaped;
    if (!find_end(p, &end, &escaped)) return false;
    const sl_slice raw = sl_slice_part(p->all, p->at, end);
    const size_t valid = sl_utf8_valid_bytes(raw);
    if (valid != raw.bytes) {
        p->at += valid;
        return refuse(p, "not UTF-8");
    }
    *out = raw;
    if (escaped) {
        if (!reserve_scratch(p, raw.bytes)) return false; /* an escape is never longer decoded */
        char *to = p->scratch;
        while (p->at < end) {
            const char byte = p->all.text[p->at++];
            if (byte != '\\')
                *to++ = byte;
            else if (!read_escape(p, &to))
                return false;
        }
        *out = (sl_slice){p->scratch, (size_t)(to - p->scratch)};
    }
    p->at = end + 1;
    return true;
}

static json_t *parse_string(parser *p) {
    sl_slice text;
    p->at++;
    if (!read_string(p, &text)) return NULL;
    return made(p, json_stringn_nocheck(text.text, text.bytes));
}

/* ---- numbers ---- */

static bool skip_digits(parser *p) {
    const size_t start = p->at;
    while (peek(p) >= '0' && peek(p) <= '9') p->at++;
    return p->at > start || refuse(p, "a digit wanted");
}

/* Moves past a number; *out_real is whether it has a fraction or an exponent. */
static bool skip_number(parser *p, bool *out_real) {
    *out_real = false;
    if (peek(p) == '-') p->at++;
    if (peek(p) == '0')
        p->at++;
    else if (!skip_digits(p))
        return false;
    if (peek(p) == '.') {
        p->at++;
        *out_real = true;
        if (!skip_digits(p)) return false;
    }
    if (peek(p) != 'e' && peek(p) != 'E') return true;
    p->at++;
    *out_real = true;
    if (peek(p) == '+' || peek(p) == '-') p->at++;
    return skip_digits(p);
}

/* strtod reads the decimal point of the locale. */
static bool copy_number(parser *p, sl_slice number) {
    const char *point = localeconv()->decimal_point;
    const size_t point_bytes = strlen(point);
    if (!reserve_scratch(p, number.bytes + point_bytes + 1)) return false;
    char *to = p->scratch;
    for (size_t i = 0; i < number.bytes; i++) {
        if (number.text[i] == '.') {
            memcpy(to, point, point_bytes);
            to += point_bytes;
        } else {
            *to++ = number.text[i];
        }
    }
    *to = '\0';
    return true;
}

static json_t *parse_number(parser *p) {
    const size_t start = p->at;
    bool real;
    if (!skip_number(p, &real) || !copy_number(p, sl_slice_part(p->all, start, p->at))) return NULL;
    errno = 0;
    if (real || p->flags & SL_JSON_ALL_REAL) {
        const double value = strtod(p->scratch, NULL);
        if (value - value == 0) return made(p, json_real(value));
    } else {
        const long long value = strtoll(p->scratch, NULL, 10);
        if (errno == 0) return made(p, json_integer(value));
    }
    p->at = start;
    (void)refuse(p, "a number out of range");
    return NULL;
}

/* ---- the rest ---- */

static bool parse_item(parser *p, json_t *array) {
    json_t *value = parse_value(p);
    if (!value) return false;
    return json_array_append_new(array, value) == 0 || no_memory(p);
}

static bool parse_items(parser *p, json_t *array) {
    p->at++;
    if (accept(p, ']')) return true;
    do
        if (!parse_item(p, array)) return false;
    while (accept(p, ','));
    return accept(p, ']') || refuse(p, "',' or ']' wanted");
}

static bool parse_pair(parser *p, json_t *object) {
    sl_slice key = {"", 0};
    const size_t start = p->at;
    if (!accept(p, '"')) return refuse(p, "a key wanted");
    if (!read_string(p, &key)) return false;
    if (memchr(key.text, 0, key.bytes)) return refuse(p, "a key with \\u0000");
    char *name = malloc(key.bytes + 1);
    if (!name) return no_memory(p);
    if (key.bytes) memcpy(name, key.text, key.bytes);
    name[key.bytes] = '\0';
    bool done = false;
    if (p->flags & SL_JSON_UNIQUE_KEYS && json_object_get(object, name)) {
        p->at = start;
        (void)refuse(p, "a duplicate key");
    } else if (!accept(p, ':')) {
        (void)refuse(p, "':' wanted");
    } else {
        json_t *value = parse_value(p);
        done = value && (json_object_set_new_nocheck(object, name, value) == 0 || no_memory(p));
    }
    free(name);
    return done;
}

static bool parse_pairs(parser *p, json_t *object) {
    p->at++;
    if (accept(p, '}')) return true;
    do
        if (!parse_pair(p, object)) return false;
    while (accept(p, ','));
    return accept(p, '}') || refuse(p, "',' or '}' wanted");
}

static json_t *parse_nest(parser *p, bool is_object) {
    if (p->depth == MAX_DEPTH) {
        (void)refuse(p, "nested too deeply");
        return NULL;
    }
    json_t *nest = made(p, is_object ? json_object() : json_array());
    if (!nest) return NULL;
    p->depth++;
    const bool done = is_object ? parse_pairs(p, nest) : parse_items(p, nest);
    p->depth--;
    if (done) return nest;
    json_decref(nest);
    return NULL;
}

static json_t *parse_word(parser *p) {
    static const struct {
        const char *text;
        json_t *(*value)(void);
    } words[] = {{"true", json_true}, {"false", json_false}, {"null", json_null}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t bytes = strlen(words[i].text);
        if (p->all.bytes - p->at < bytes || memcmp(p->all.text + p->at, words[i].text, bytes) != 0)
            continue;
        p->at += bytes;
        return words[i].value();
    }
    (void)refuse(p, "a value wanted");
    return NULL;
}

static json_t *parse_value(parser *p) {
    const int first = peek_token(p);
    if (first == '{' || first == '[') return parse_nest(p, first == '{');
    if (first == '"') return parse_string(p);
    if (first == '-' || (first >= '0' && first <= '9')) return parse_number(p);
    return parse_word(p);
}

json_t *sl_json_parse(const char *text, size_t bytes, unsigned flags, sl_json_problem *problem) {
    *problem = (sl_json_problem){0};
    parser p = {.all = {text, bytes}, .flags = flags, .problem = problem};
    json_t *root = NULL;
    const int first = peek_token(&p);
    if (first == '{' || first == '[')
        root = parse_nest(&p, first == '{');
    else
        (void)refuse(&p, "'{' or '[' wanted");
    if (root && peek_token(&p) >= 0) {
        (void)refuse(&p, "the end of the text wanted");
        json_decref(root);
        root = NULL;
    }
    free(p.scratch);
    return root;
}
