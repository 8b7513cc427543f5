/* gbnf.c - Grammars in the GBNF syntax: rules of texts, sets of characters, names, groups,
 * alternatives and repetitions, with comments from '#'. */
#include "base/utf8.h"
#include "engine/choose/grammar/charset.h"
#include "engine/choose/grammar/grammar.h"
#include <string.h>

enum { MAX_NESTING = 100, MAX_REPEAT = 2000, MAX_NAME = 100 };

typedef struct named {
    const char *name;
    size_t bytes;
    uint32_t rule;
    bool defined;
    struct named *next;
} named;

typedef struct {
    sl_automaton *a;
    const char *text;
    size_t bytes, at;
    unsigned nesting;
    named *rules;
    sl_arena arena;
    sl_error *err;
} parser;

static sl_status refuse(const parser *p, sl_status status, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < p->at && i < p->bytes; i++) line += p->text[i] == '\n';
    return sl_fail(p->err, status, "grammar, line %zu: %s", line, what);
}

static bool more(const parser *p) {
    return p->at < p->bytes;
}
static char peek(const parser *p) {
    return more(p) ? p->text[p->at] : 0;
}
static bool take(parser *p, char c) {
    if (!more(p) || p->text[p->at] != c) return false;
    p->at++;
    return true;
}

static void skip_blank(parser *p, bool lines) {
    while (more(p)) {
        const char c = p->text[p->at];
        if (c == '#')
            while (more(p) && p->text[p->at] != '\n' && p->text[p->at] != '\r') p->at++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            p->at++;
        else
            return;
    }
}

static bool name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static sl_status take_name(parser *p, sl_slice *out) {
    const size_t start = p->at;
    while (more(p) && name_character(p->text[p->at])) p->at++;
    *out = (sl_slice){p->text + start, p->at - start};
    if (!out->bytes) return refuse(p, SL_FORMAT, "wanted the name of a rule");
    if (out->bytes > MAX_NAME) return refuse(p, SL_UNSUPPORTED, "a name of more than 100 bytes");
    return SL_OK;
}

static sl_status find_rule(parser *p, sl_slice name, named **out) {
    for (named *n = p->rules; n; n = n->next) {
        if (n->bytes != name.bytes || memcmp(n->name, name.text, name.bytes) != 0) continue;
        *out = n;
        return SL_OK;
    }
    named *made = SL_ARENA_NEW(&p->arena, named);
    if (!made) return sl_no_memory(p->err, "a grammar", sizeof *made);
    *made = (named){name.text, name.bytes, sl_automaton_rule(p->a), false, p->rules};
    p->rules = *out = made;
    return sl_automaton_check(p->a, p->err);
}

static sl_status take_hex(parser *p, unsigned digits, uint32_t *out) {
    *out = 0;
    for (unsigned i = 0; i < digits; i++, p->at++) {
        const char c = peek(p);
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return refuse(p, SL_FORMAT, "a hexadecimal digit is missing");
        *out = *out * 16 + (uint32_t)digit;
    }
    return *out > SL_LAST_CHARACTER ? refuse(p, SL_FORMAT, "there is no such character") : SL_OK;
}

static sl_status take_character(parser *p, uint32_t *out) {
    if (!take(p, '\\')) {
        const size_t length = sl_utf8_decode((sl_slice){p->text + p->at, p->bytes - p->at}, out);
        if (!length) return refuse(p, SL_FORMAT, "this is not UTF-8, or the text ends");
        p->at += length;
        return SL_OK;
    }
    const char c = peek(p);
    p->at++;
    switch (c) {
    case 'x':
        return take_hex(p, 2, out);
    case 'u':
        return take_hex(p, 4, out);
    case 'U':
        return take_hex(p, 8, out);
    case 't':
        *out = '\t';
        return SL_OK;
    case 'r':
        *out = '\r';
        return SL_OK;
    case 'n':
        *out = '\n';
        return SL_OK;
    case '\\':
    case '"':
    case '[':
    case ']':
        *out = (unsigned char)c;
        return SL_OK;
    default:
        p->at--;
        return refuse(p, SL_FORMAT, "this escape is not known");
    }
}

static sl_status take_literal(parser *p, uint32_t from, uint32_t to) {
    sl_word_list parts = {0};
    sl_status status = SL_OK;
    sl_expr e = SL_EXPR_EMPTY;
    while (more(p) && peek(p) != '"') {
        uint32_t c;
        char bytes[4];
        SL_TRY_ELSE(done, take_character(p, &c));
        const size_t count = sl_utf8_encode(c, bytes);
        if (!sl_word_list_add(p->a->pool.allocator, &parts,
                              sl_expr_literal(&p->a->pool, bytes, count))) {
            status = sl_no_memory(p->err, "a grammar", parts.count);
            goto done;
        }
    }
    if (!take(p, '"')) {
        status = refuse(p, SL_FORMAT, "'\"' is missing");
        goto done;
    }
    while (parts.count) e = sl_expr_concat(&p->a->pool, parts.words[--parts.count], e);
    sl_automaton_text(p->a, from, e, to);
done:
    sl_word_list_free(p->a->pool.allocator, &parts);
    return status;
}

static sl_status take_members(parser *p, sl_charset *set) {
    while (more(p) && peek(p) != ']') {
        uint32_t first = 0, last = 0;
        SL_TRY(take_character(p, &first));
        last = first;
        if (peek(p) == '-' && p->at + 1 < p->bytes && p->text[p->at + 1] != ']') {
            p->at++;
            SL_TRY(take_character(p, &last));
        }
        if (last < first) return refuse(p, SL_FORMAT, "the range is reversed");
        if (!sl_charset_add(p->a->pool.allocator, set, first, last))
            return sl_no_memory(p->err, "a grammar", 0);
    }
    return take(p, ']') ? SL_OK : refuse(p, SL_FORMAT, "']' is missing");
}

static sl_status take_set(parser *p, uint32_t from, uint32_t to) {
    sl_charset set = {{0}};
    const bool negated = take(p, '^');
    sl_status status = take_members(p, &set);
    if (status == SL_OK && negated && !sl_charset_complement(p->a->pool.allocator, &set))
        status = sl_no_memory(p->err, "a grammar", 0);
    if (status == SL_OK) sl_automaton_text(p->a, from, sl_charset_expr(&p->a->pool, &set), to);
    sl_charset_free(p->a->pool.allocator, &set);
    return status;
}

static sl_status take_alternatives(parser *p, uint32_t from, uint32_t to, bool nested);

static sl_status take_item(parser *p, uint32_t from, uint32_t to) {
    sl_slice name;
    named *rule;
    if (take(p, '"')) return take_literal(p, from, to);
    if (take(p, '[')) return take_set(p, from, to);
    if (take(p, '.')) {
        sl_automaton_text(p->a, from, sl_charset_any(&p->a->pool), to);
        return SL_OK;
    }
    if (take(p, '(')) {
        SL_TRY(take_alternatives(p, from, to, true));
        skip_blank(p, true);
        return take(p, ')') ? SL_OK : refuse(p, SL_FORMAT, "')' is missing");
    }
    SL_TRY(take_name(p, &name));
    SL_TRY(find_rule(p, name, &rule));
    sl_automaton_edge(p->a, SL_EDGE_CALL, from, rule->rule, to);
    return SL_OK;
}

static sl_status take_number(parser *p, uint32_t *out) {
    const size_t start = p->at;
    *out = 0;
    while (peek(p) >= '0' && peek(p) <= '9') {
        *out = *out * 10 + (uint32_t)(peek(p) - '0');
        if (*out > MAX_REPEAT)
            return refuse(p, SL_UNSUPPORTED, "a repetition of more than 2000 times");
        p->at++;
    }
    return p->at > start ? SL_OK : refuse(p, SL_FORMAT, "a number is missing");
}

/* The repetition behind an item; *some: there is one. */
static sl_status take_repetition(parser *p, uint32_t *min, uint32_t *max, bool *some) {
    *some = true;
    *min = 0;
    *max = SL_EXPR_UNBOUNDED;
    if (take(p, '*')) return SL_OK;
    if (take(p, '+')) {
        *min = 1;
        return SL_OK;
    }
    if (take(p, '?')) {
        *max = 1;
        return SL_OK;
    }
    *some = take(p, '{');
    if (!*some) return SL_OK;
    skip_blank(p, true);
    if (peek(p) != ',') SL_TRY(take_number(p, min));
    skip_blank(p, true);
    *max = *min;
    if (take(p, ',')) {
        skip_blank(p, true);
        *max = SL_EXPR_UNBOUNDED;
        if (peek(p) != '}') SL_TRY(take_number(p, max));
        skip_blank(p, true);
    }
    if (!take(p, '}')) return refuse(p, SL_FORMAT, "'}' is missing");
    return *min > *max ? refuse(p, SL_FORMAT, "the repetition ends before it begins") : SL_OK;
}

/* min to max calls of the rule. */
static void repeat(parser *p, uint32_t rule, uint32_t min, uint32_t max, uint32_t from,
                   uint32_t to) {
    sl_automaton *a = p->a;
    const uint32_t count = max == SL_EXPR_UNBOUNDED ? min : max;
    uint32_t before = sl_automaton_state(a);
    sl_automaton_skip(a, from, before);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t after = sl_automaton_state(a);
        if (i >= min) sl_automaton_skip(a, before, to);
        sl_automaton_edge(a, SL_EDGE_CALL, before, rule, after);
        before = after;
    }
    sl_automaton_skip(a, before, to);
    if (max == SL_EXPR_UNBOUNDED) sl_automaton_edge(a, SL_EDGE_CALL, before, rule, before);
}

static sl_status take_repeated(parser *p, uint32_t from, uint32_t to) {
    uint32_t min, max;
    bool some;
    /* The item is a rule of its own, as it is not known yet how often it is called. */
    const uint32_t rule = sl_automaton_rule(p->a);
    SL_TRY(sl_automaton_check(p->a, p->err));
    SL_TRY(take_item(p, p->a->rules[rule].start, p->a->rules[rule].end));
    SL_TRY(take_repetition(p, &min, &max, &some));
    if (!some) {
        sl_automaton_edge(p->a, SL_EDGE_CALL, from, rule, to);
        return SL_OK;
    }
    repeat(p, rule, min, max, from, to);
    return sl_automaton_check(p->a, p->err);
}

static bool sequence_ends(const parser *p) {
    const char c = peek(p);
    return !more(p) || c == '|' || c == ')' || c == '\n' || c == '\r';
}

static sl_status take_alternatives(parser *p, uint32_t from, uint32_t to, bool nested) {
    if (++p->nesting > MAX_NESTING) return refuse(p, SL_UNSUPPORTED, "groups are nested too deep");
    do {
        uint32_t before = sl_automaton_state(p->a);
        sl_automaton_skip(p->a, from, before);
        for (skip_blank(p, true); !sequence_ends(p); skip_blank(p, nested)) {
            const uint32_t after = sl_automaton_state(p->a);
            SL_TRY(take_repeated(p, before, after));
            before = after;
        }
        sl_automaton_skip(p->a, before, to);
        if (!nested) { /* a '|' may begin the next line */
            const size_t line = p->at;
            skip_blank(p, true);
            if (peek(p) != '|') p->at = line;
        }
    } while (take(p, '|'));
    p->nesting--;
    return sl_automaton_check(p->a, p->err);
}

static sl_status take_rule(parser *p) {
    sl_slice name;
    named *rule;
    SL_TRY(take_name(p, &name));
    SL_TRY(find_rule(p, name, &rule));
    skip_blank(p, false);
    if (p->bytes - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0)
        return refuse(p, SL_FORMAT, "wanted '::=' after the name of a rule");
    p->at += 3;
    if (rule->defined) return refuse(p, SL_FORMAT, "this rule is defined twice");
    rule->defined = true;
    SL_TRY(take_alternatives(p, p->a->rules[rule->rule].start, p->a->rules[rule->rule].end, false));
    skip_blank(p, false);
    if (more(p) && peek(p) != '\n' && peek(p) != '\r')
        return refuse(p, SL_FORMAT, "wanted the end of the line");
    return SL_OK;
}

static sl_status take_rules(parser *p, uint32_t *out_rule) {
    named *root;
    for (skip_blank(p, true); more(p); skip_blank(p, true)) SL_TRY(take_rule(p));
    SL_TRY(find_rule(p, (sl_slice){"root", 4}, &root));
    *out_rule = root->rule;
    for (const named *n = p->rules; n; n = n->next)
        if (!n->defined)
            return sl_fail(p->err, SL_FORMAT, "grammar: rule '%.*s' is missing", (int)n->bytes,
                           n->name);
    return SL_OK;
}

sl_status sl_gbnf_compile(const char *text, size_t bytes, sl_automaton *automaton,
                          uint32_t *out_rule, sl_error *err) {
    parser p = {.a = automaton, .text = text, .bytes = bytes, .err = err};
    sl_arena_init(&p.arena, automaton->pool.allocator);
    const sl_status status = take_rules(&p, out_rule);
    sl_arena_deinit(&p.arena);
    return status;
}
