/* regex.c - Regular expressions as text, by recursive descent.
 *
 * Anchors are characters of their own (SL_EXPR_BEGIN_BYTE, SL_EXPR_END_BYTE): a pattern is made for
 * texts between these two characters, which are then taken off again. */
#include "engine/choose/grammar/regex.h"
#include "base/utf8.h"
#include "engine/choose/grammar/charset.h"
#include <string.h>

enum { MAX_NESTING = 200, MAX_REPEAT = 100000 };

typedef struct {
    sl_expr_pool *pool;
    const char *text;
    size_t bytes, at;
    unsigned nesting;
    sl_regex_mode mode;
    bool fold;     /* (?i: ASCII letters match in both cases */
    bool looks;    /* there is a lookahead */
    sl_expr after; /* what may follow a match */
    sl_error *err;
} parser;

/* A part of a pattern, and how often it can meet an anchor at most (0, 1 or 2 for more). */
typedef struct {
    sl_expr expr;
    unsigned begins, ends;
    bool looks; /* it has a lookahead, and goes on to the end of the text */
} part;

static sl_status refuse(const parser *p, sl_status status, const char *what) {
    return sl_fail(p->err, status, "regular expression, byte %zu: %s", p->at, what);
}

static bool more(const parser *p) {
    return p->at < p->bytes;
}
static bool next_is(const parser *p, const char *word) {
    const size_t length = strlen(word);
    return p->bytes - p->at >= length && memcmp(p->text + p->at, word, length) == 0;
}
static bool take(parser *p, const char *word) {
    if (!next_is(p, word)) return false;
    p->at += strlen(word);
    return true;
}

static sl_status take_character(parser *p, uint32_t *out) {
    const size_t length = sl_utf8_decode((sl_slice){p->text + p->at, p->bytes - p->at}, out);
    if (!length) return refuse(p, SL_FORMAT, "this is not UTF-8");
    p->at += length;
    return SL_OK;
}

static sl_status take_hex(parser *p, unsigned digits, uint32_t *out) {
    *out = 0;
    for (unsigned i = 0; i < digits; i++, p->at++) {
        const char c = more(p) ? p->text[p->at] : 0;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return refuse(p, SL_FORMAT, "a hexadecimal digit is missing");
        *out = *out * 16 + (uint32_t)digit;
    }
    return SL_OK;
}

static sl_status take_unicode_escape(parser *p, uint32_t *out) {
    if (take(p, "{")) {
        *out = 0;
        while (more(p) && p->text[p->at] != '}') {
            uint32_t digit;
            SL_TRY(take_hex(p, 1, &digit));
            *out = *out * 16 + digit;
            if (*out > SL_LAST_CHARACTER) return refuse(p, SL_FORMAT, "no such character");
        }
        return take(p, "}") ? SL_OK : refuse(p, SL_FORMAT, "'}' is missing");
    }
    SL_TRY(take_hex(p, 4, out));
    if (*out >= 0xD800 && *out < 0xDC00 && take(p, "\\u")) {
        uint32_t low;
        SL_TRY(take_hex(p, 4, &low));
        if (low < 0xDC00 || low > 0xDFFF) return refuse(p, SL_FORMAT, "half a surrogate pair");
        *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    }
    return SL_OK;
}

static const uint32_t digit_ranges[] = {'0', '9'};
static const uint32_t word_ranges[] = {'0', '9', 'A', 'Z', '_', '_', 'a', 'z'};
static const uint32_t space_ranges[] = {9,      13,     ' ',    ' ',    0xA0,   0xA0,   0x1680,
                                        0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x202F,
                                        0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF};
static const uint32_t line_ranges[] = {'\n', '\n', '\r', '\r', 0x2028, 0x2029};

static sl_status add_ranges(const parser *p, sl_charset *set, const uint32_t *ranges, size_t count,
                            bool negated) {
    const sl_allocator *allocator = p->pool->allocator;
    sl_charset own = {{0}};
    bool fine = sl_word_list_append(allocator, &own.pairs, ranges, count);
    if (fine && negated) fine = sl_charset_complement(allocator, &own);
    fine = fine && sl_charset_add_set(allocator, set, &own);
    sl_charset_free(allocator, &own);
    return fine ? SL_OK : sl_no_memory(p->err, "a set of characters", count);
}
#define RANGES(table) table, sizeof(table) / sizeof(table)[0]

/* After a backslash, in a set or not: a class of characters. */
static sl_status take_class(parser *p, sl_charset *set, bool *found) {
    *found = true;
    if (!more(p)) return refuse(p, SL_FORMAT, "nothing follows the backslash");
    switch (p->text[p->at++]) {
    case 'd':
        return add_ranges(p, set, RANGES(digit_ranges), false);
    case 'D':
        return add_ranges(p, set, RANGES(digit_ranges), true);
    case 'w':
        return add_ranges(p, set, RANGES(word_ranges), false);
    case 'W':
        return add_ranges(p, set, RANGES(word_ranges), true);
    case 's':
        return add_ranges(p, set, RANGES(space_ranges), false);
    case 'S':
        return add_ranges(p, set, RANGES(space_ranges), true);
    case 'p':
    case 'P':
        return refuse(p, SL_UNSUPPORTED, "\\p and \\P are not supported");
    default:
        p->at--;
        *found = false;
        return SL_OK;
    }
}

/* After a backslash: one character. */
static sl_status take_escape(parser *p, uint32_t *out) {
    static const char names[] = "nrtfv0", values[] = "\n\r\t\f\v";
    const char c = p->text[p->at];
    const char *name = c ? strchr(names, c) : NULL;
    if (c == '0' && p->at + 1 < p->bytes && p->text[p->at + 1] >= '0' && p->text[p->at + 1] <= '9')
        return refuse(p, SL_UNSUPPORTED, "octal escapes are not supported");
    if (name) {
        p->at++;
        *out = (unsigned char)values[name - names];
        return SL_OK;
    }
    if (take(p, "x")) return take_hex(p, 2, out);
    if (take(p, "u")) return take_unicode_escape(p, out);
    if (take(p, "c")) {
        const char letter = more(p) ? p->text[p->at++] : 0;
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
            return refuse(p, SL_FORMAT, "\\c needs a letter");
        *out = (uint32_t)letter & 31;
        return SL_OK;
    }
    if ((c >= '1' && c <= '9') || c == 'k')
        return refuse(p, SL_UNSUPPORTED, "backreferences are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        p->at++;
        return refuse(p, c == 'b' || c == 'B' ? SL_UNSUPPORTED : SL_FORMAT,
                      c == 'b' || c == 'B' ? "\\b and \\B are not supported"
                                           : "this letter means nothing after a backslash");
    }
    return take_character(p, out);
}

/* One character of a set, or a class (then *single is false). */
static sl_status take_member(parser *p, sl_charset *set, uint32_t *out, bool *single) {
    bool class = false;
    *single = true;
    if (!take(p, "\\")) return take_character(p, out);
    SL_TRY(take_class(p, set, &class));
    *single = !class;
    if (class) return SL_OK;
    if (take(p, "b")) {
        *out = '\b';
        return SL_OK;
    }
    return take_escape(p, out);
}

static sl_status take_members(parser *p, sl_charset *set) {
    while (more(p) && !next_is(p, "]")) {
        uint32_t first, last;
        bool single, pair;
        SL_TRY(take_member(p, set, &first, &single));
        if (!single) continue;
        last = first;
        if (next_is(p, "-") && p->at + 1 < p->bytes && p->text[p->at + 1] != ']') {
            p->at++;
            SL_TRY(take_member(p, set, &last, &pair));
            if (!pair && !sl_charset_add(p->pool->allocator, set, '-', '-'))
                return sl_no_memory(p->err, "a set of characters", 0);
            if (!pair) last = first;
        }
        if (last < first) return refuse(p, SL_FORMAT, "the range is reversed");
        if (!sl_charset_add(p->pool->allocator, set, first, last))
            return sl_no_memory(p->err, "a set of characters", 0);
    }
    return take(p, "]") ? SL_OK : refuse(p, SL_FORMAT, "']' is missing");
}

static sl_status finish_set(parser *p, sl_charset *set, bool negated, part *out) {
    const sl_allocator *allocator = p->pool->allocator;
    if ((p->fold && !sl_charset_fold(allocator, set)) ||
        (negated && !sl_charset_complement(allocator, set)))
        return sl_no_memory(p->err, "a set of characters", 0);
    *out = (part){.expr = sl_charset_expr(p->pool, set)};
    return SL_OK;
}

static sl_status take_set(parser *p, part *out) {
    sl_charset set = {{0}};
    const bool negated = take(p, "^");
    sl_status status = take_members(p, &set);
    if (status == SL_OK) status = finish_set(p, &set, negated, out);
    sl_charset_free(p->pool->allocator, &set);
    return status;
}

/* A class, an escape, '.', or the character itself. */
static sl_status take_one(parser *p, part *out) {
    sl_charset set = {{0}};
    uint32_t c = 0;
    bool class = false;
    sl_status status = SL_OK;
    if (take(p, ".")) {
        status = add_ranges(p, &set, RANGES(line_ranges), true);
        class = true;
    } else if (take(p, "\\")) {
        SL_TRY_ELSE(done, take_class(p, &set, &class));
        if (!class) SL_TRY_ELSE(done, take_escape(p, &c));
    } else {
        SL_TRY_ELSE(done, take_character(p, &c));
    }
    if (status == SL_OK && !class && !sl_charset_add(p->pool->allocator, &set, c, c))
        status = sl_no_memory(p->err, "a set of characters", 0);
    if (status == SL_OK) status = finish_set(p, &set, false, out);
done:
    sl_charset_free(p->pool->allocator, &set);
    return status;
}

static sl_status take_alternatives(parser *p, part *out);

static sl_status skip_group_name(parser *p) {
    while (more(p) && p->text[p->at] != '>') p->at++;
    return take(p, ">") ? SL_OK : refuse(p, SL_FORMAT, "'>' is missing");
}

static sl_status take_group(parser *p, part *out) {
    const bool fold = p->fold;
    if (take(p, "?")) {
        if (next_is(p, "<=") || next_is(p, "<!"))
            return refuse(p, SL_UNSUPPORTED, "lookbehind is not supported");
        if (take(p, "i:"))
            p->fold = true;
        else if (take(p, "P<") || take(p, "<"))
            SL_TRY(skip_group_name(p));
        else if (!take(p, ":"))
            return refuse(p, SL_UNSUPPORTED, "this kind of group is not supported");
    }
    SL_TRY(take_alternatives(p, out));
    p->fold = fold;
    return take(p, ")") ? SL_OK : refuse(p, SL_FORMAT, "')' is missing");
}

static sl_status take_atom(parser *p, part *out) {
    *out = (part){.expr = SL_EXPR_EMPTY};
    if (take(p, "(")) return take_group(p, out);
    if (take(p, "[")) return take_set(p, out);
    if (take(p, "^")) {
        *out = (part){.expr = sl_expr_byte(p->pool, SL_EXPR_BEGIN_BYTE), .begins = 1};
        return SL_OK;
    }
    if (take(p, "$")) {
        *out = (part){.expr = sl_expr_byte(p->pool, SL_EXPR_END_BYTE), .ends = 1};
        return SL_OK;
    }
    if (next_is(p, "*") || next_is(p, "+") || next_is(p, "?"))
        return refuse(p, SL_FORMAT, "there is nothing to repeat");
    return take_one(p, out);
}

static bool take_number(parser *p, uint32_t *out) {
    const size_t start = p->at;
    uint64_t value = 0;
    while (more(p) && p->text[p->at] >= '0' && p->text[p->at] <= '9') {
        if (value <= MAX_REPEAT) value = value * 10 + (uint64_t)(p->text[p->at] - '0');
        p->at++;
    }
    *out = (uint32_t)(value > MAX_REPEAT ? MAX_REPEAT + 1 : value);
    return p->at > start;
}

/* {m}, {m,} or {m,n}; anything else is the character '{'. */
static bool take_bounds(parser *p, uint32_t *min, uint32_t *max) {
    const size_t start = p->at;
    if (take(p, "{") && take_number(p, min)) {
        *max = *min;
        if (take(p, ",") && !take_number(p, max)) *max = SL_EXPR_UNBOUNDED;
        if (take(p, "}")) return true;
    }
    p->at = start;
    return false;
}

static sl_status take_quantified(parser *p, part *out) {
    uint32_t min = 1, max = 1;
    SL_TRY(take_atom(p, out));
    for (;;) {
        if (take(p, "*"))
            min = 0, max = SL_EXPR_UNBOUNDED;
        else if (take(p, "+"))
            min = 1, max = SL_EXPR_UNBOUNDED;
        else if (take(p, "?"))
            min = 0, max = 1;
        else if (!next_is(p, "{") || !take_bounds(p, &min, &max))
            return SL_OK;
        (void)take(p, "?");
        if (min > MAX_REPEAT || (max > MAX_REPEAT && max != SL_EXPR_UNBOUNDED))
            return refuse(p, SL_UNSUPPORTED, "a repetition of more than 100000 times");
        if (min > max) return refuse(p, SL_FORMAT, "the repetition ends before it begins");
        if ((out->begins || out->ends) && max > 1)
            return refuse(p, SL_UNSUPPORTED, "repeated anchors are not supported");
        out->expr = sl_expr_repeat(p->pool, out->expr, min, max);
    }
}

static sl_status take_sequence(parser *p, part *out);

/* (?=x) and (?!x) before the rest of a branch, which must be the rest of the pattern. */
static sl_status take_lookahead(parser *p, bool negated, part *out) {
    part condition, rest;
    const bool outermost = p->nesting == 1;
    SL_TRY(take_alternatives(p, &condition));
    if (!take(p, ")")) return refuse(p, SL_FORMAT, "')' is missing");
    if (!outermost) return refuse(p, SL_UNSUPPORTED, "lookahead inside a group is not supported");
    SL_TRY(take_sequence(p, &rest));
    const sl_expr ahead = sl_expr_concat(p->pool, condition.expr, SL_EXPR_ALL);
    const sl_expr after = rest.looks ? rest.expr : sl_expr_concat(p->pool, rest.expr, p->after);
    out->expr = sl_expr_and(p->pool, negated ? sl_expr_not(p->pool, ahead) : ahead, after);
    out->begins = rest.begins + condition.begins;
    out->ends = rest.ends;
    out->looks = p->looks = true;
    return SL_OK;
}

static sl_status take_sequence(parser *p, part *out) {
    *out = (part){.expr = SL_EXPR_EMPTY};
    sl_word_list parts = {0};
    sl_status status = SL_OK;
    while (more(p) && !next_is(p, "|") && !next_is(p, ")")) {
        part item = {0};
        const bool positive = take(p, "(?=");
        if (positive || take(p, "(?!"))
            SL_TRY_ELSE(done, take_lookahead(p, !positive, &item));
        else
            SL_TRY_ELSE(done, take_quantified(p, &item));
        out->begins += item.begins;
        out->ends += item.ends;
        out->looks |= item.looks;
        if (sl_word_list_add(p->pool->allocator, &parts, item.expr)) continue;
        status = sl_no_memory(p->err, "a regular expression", parts.count);
        goto done;
    }
    if (out->begins > 1 || out->ends > 1) {
        status = refuse(p, SL_UNSUPPORTED, "two anchors in a row are not supported");
        goto done;
    }
    while (parts.count) out->expr = sl_expr_concat(p->pool, parts.words[--parts.count], out->expr);
done:
    sl_word_list_free(p->pool->allocator, &parts);
    return status;
}

static sl_status take_alternatives(parser *p, part *out) {
    sl_word_list parts = {0};
    sl_status status = SL_OK;
    *out = (part){.expr = SL_EXPR_NONE};
    if (++p->nesting > MAX_NESTING) return refuse(p, SL_UNSUPPORTED, "groups are nested too deep");
    do {
        part branch;
        SL_TRY_ELSE(done, take_sequence(p, &branch));
        if (p->nesting == 1 && !branch.looks)
            branch.expr = sl_expr_concat(p->pool, branch.expr, p->after);
        if (!sl_word_list_add(p->pool->allocator, &parts, branch.expr)) {
            status = sl_no_memory(p->err, "a regular expression", parts.count);
            goto done;
        }
        if (branch.begins > out->begins) out->begins = branch.begins;
        if (branch.ends > out->ends) out->ends = branch.ends;
    } while (take(p, "|"));
    out->expr = sl_expr_or_all(p->pool, parts.words, parts.count);
    p->nesting--;
done:
    sl_word_list_free(p->pool->allocator, &parts);
    return status;
}

sl_status sl_regex_parse(sl_expr_pool *pool, const char *text, size_t bytes, sl_regex_mode mode,
                         sl_expr *out, sl_error *err) {
    parser p = {.pool = pool, .text = text, .bytes = bytes, .mode = mode, .err = err};
    part whole;
    sl_byte_set anchors = {0};
    sl_expr before = sl_expr_optional(pool, sl_expr_byte(pool, SL_EXPR_BEGIN_BYTE));
    p.after = sl_expr_optional(pool, sl_expr_byte(pool, SL_EXPR_END_BYTE));
    if (mode == SL_REGEX_SEARCH) {
        sl_byte_set_add(&anchors, SL_EXPR_BEGIN_BYTE, SL_EXPR_END_BYTE);
        before = p.after = sl_expr_star(
            pool, sl_expr_or(pool, sl_charset_any(pool), sl_expr_bytes(pool, &anchors)));
    }
    SL_TRY(take_alternatives(&p, &whole));
    if (more(&p)) return refuse(&p, SL_FORMAT, "')' without '('");
    *out = sl_expr_unanchored(pool, sl_expr_concat(pool, before, whole.expr));
    if (p.looks) *out = sl_expr_and(pool, *out, sl_charset_text(pool));
    return sl_expr_pool_check(pool, err);
}
