/* parse.c - Parser for statements. */
#include "engine/text/jinja/parse.h"
#include <string.h>

static bool text_is(jinja_text text, const char *literal) {
    return text.bytes == strlen(literal) && memcmp(text.data, literal, text.bytes) == 0;
}
static bool at(const jinja_parser *parser, jinja_token_kind kind, const char *text) {
    return parser->token->kind == kind && text_is(parser->token->text, text);
}
void sl_jinja_advance(jinja_parser *parser) {
    parser->token++;
    parser->place.line = parser->token->line;
}
static bool skip(jinja_parser *parser, bool found) {
    if (found) sl_jinja_advance(parser);
    return found;
}

bool sl_jinja_at_operator(const jinja_parser *parser, const char *text) {
    return at(parser, JINJA_TOKEN_OPERATOR, text);
}
bool sl_jinja_at_name(const jinja_parser *parser, const char *text) {
    return at(parser, JINJA_TOKEN_NAME, text);
}
bool sl_jinja_skip_operator(jinja_parser *parser, const char *text) {
    return skip(parser, sl_jinja_at_operator(parser, text));
}
bool sl_jinja_skip_name(jinja_parser *parser, const char *text) {
    return skip(parser, sl_jinja_at_name(parser, text));
}

sl_status sl_jinja_unexpected(const jinja_parser *parser, const char *wanted) {
    return JINJA_REJECT(parser, "found '%.*s', wanted %s", JINJA_SHOW(parser->token->text), wanted);
}

sl_status sl_jinja_expect_operator(jinja_parser *parser, const char *text) {
    return sl_jinja_skip_operator(parser, text) ? SL_OK : sl_jinja_unexpected(parser, text);
}

sl_status sl_jinja_expect_name(jinja_parser *parser, jinja_text *out) {
    if (parser->token->kind != JINJA_TOKEN_NAME) return sl_jinja_unexpected(parser, "a name");
    *out = parser->token->text;
    sl_jinja_advance(parser);
    return SL_OK;
}

sl_status sl_jinja_node_new(jinja_parser *parser, jinja_node_kind kind, jinja_node **out) {
    *out = SL_ARENA_NEW(parser->arena, jinja_node);
    if (!*out) return sl_no_memory(parser->place.err, "template node", sizeof **out);
    (*out)->kind = kind;
    (*out)->line = parser->token->line;
    return SL_OK;
}

sl_status sl_jinja_enter(jinja_parser *parser) {
    if (++parser->nesting <= JINJA_MAX_NESTING) return SL_OK;
    return JINJA_REJECT(parser, "nested deeper than %d", JINJA_MAX_NESTING);
}

static sl_status expect_block_end(jinja_parser *parser) {
    return skip(parser, parser->token->kind == JINJA_TOKEN_BLOCK_END)
               ? SL_OK
               : sl_jinja_unexpected(parser, "the end of the tag");
}

static sl_status parse_body(jinja_parser *parser, const char *const *ends, jinja_node **out);

/* "%}", the statements up to `end`, and the name of that tag; its "%}" is not consumed. */
static sl_status parse_block(jinja_parser *parser, const char *end, jinja_node **out) {
    const char *const ends[] = {end, NULL};
    SL_TRY(expect_block_end(parser));
    SL_TRY(parse_body(parser, ends, out));
    sl_jinja_advance(parser);
    return SL_OK;
}

static sl_status parse_if(jinja_parser *parser, jinja_node **out) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    jinja_node **where = out;
    do {
        jinja_node *node;
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_IF, &node));
        *where = node;
        where = &node->otherwise;
        SL_TRY(sl_jinja_parse_tuple(parser, false, &node->first));
        SL_TRY(expect_block_end(parser));
        SL_TRY(parse_body(parser, ends, &node->body));
    } while (sl_jinja_skip_name(parser, "elif"));
    if (sl_jinja_skip_name(parser, "else")) return parse_block(parser, "endif", where);
    sl_jinja_advance(parser);
    return SL_OK;
}

/* A name, with `attributes` also name.attribute, or a parenthesised list of them. */
static sl_status parse_target_item(jinja_parser *parser, bool attributes, jinja_node **out) {
    SL_TRY(sl_jinja_parse_primary(parser, out));
    if (attributes && (*out)->kind == JINJA_NODE_NAME && sl_jinja_skip_operator(parser, ".")) {
        jinja_node *object = *out;
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_ATTRIBUTE, out));
        (*out)->first = object;
        SL_TRY(sl_jinja_expect_name(parser, &(*out)->text));
    }
    return SL_OK;
}

static bool assignable(const jinja_node *node) {
    if (node->kind == JINJA_NODE_NAME || node->kind == JINJA_NODE_ATTRIBUTE) return true;
    if (node->kind != JINJA_NODE_TUPLE || !node->list) return false;
    for (const jinja_node *item = node->list; item; item = item->next)
        if (!assignable(item)) return false;
    return true;
}

static sl_status parse_target(jinja_parser *parser, bool attributes, jinja_node **out) {
    jinja_node *item;
    SL_TRY(parse_target_item(parser, attributes, &item));
    *out = item;
    if (sl_jinja_at_operator(parser, ",")) {
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_TUPLE, out));
        (*out)->list = item;
        while (sl_jinja_skip_operator(parser, ",")) {
            if (sl_jinja_at_name(parser, "in") || sl_jinja_at_operator(parser, "=")) break;
            SL_TRY(parse_target_item(parser, attributes, &item->next));
            item = item->next;
        }
    }
    if (assignable(*out)) return SL_OK;
    return JINJA_REJECT(parser, "cannot assign to this expression");
}

static sl_status parse_for(jinja_parser *parser, jinja_node **out) {
    static const char *const ends[] = {"else", "endfor", NULL};
    jinja_node *node;
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_FOR, &node));
    *out = node;
    SL_TRY(parse_target(parser, false, &node->first));
    if (!sl_jinja_skip_name(parser, "in")) return sl_jinja_unexpected(parser, "in");
    SL_TRY(sl_jinja_parse_tuple(parser, false, &node->second));
    if (sl_jinja_skip_name(parser, "if")) SL_TRY(sl_jinja_parse_expression(parser, &node->third));
    node->recursive = sl_jinja_skip_name(parser, "recursive");
    SL_TRY(expect_block_end(parser));
    parser->loops++;
    SL_TRY(parse_body(parser, ends, &node->body));
    parser->loops--;
    if (sl_jinja_skip_name(parser, "else")) return parse_block(parser, "endfor", &node->otherwise);
    sl_jinja_advance(parser);
    return SL_OK;
}

/* The body of a block form, with the filters that follow the target or the tag name. */
static sl_status parse_filtered_body(jinja_parser *parser, const char *end, bool pipe_first,
                                     jinja_node **out) {
    jinja_node *body, *value;
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_BODY, &body));
    value = body;
    if (!pipe_first || sl_jinja_skip_operator(parser, "|"))
        SL_TRY(sl_jinja_parse_filters(parser, &value));
    const uint32_t loops = parser->loops;
    parser->loops = 0;
    SL_TRY(parse_block(parser, end, &body->body));
    parser->loops = loops;
    *out = value;
    return SL_OK;
}

static sl_status parse_set(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_SET, out));
    SL_TRY(parse_target(parser, true, &(*out)->first));
    if (sl_jinja_skip_operator(parser, "="))
        return sl_jinja_parse_tuple(parser, true, &(*out)->second);
    return parse_filtered_body(parser, "endset", true, &(*out)->second);
}

static sl_status parse_filter(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_OUTPUT, out));
    return parse_filtered_body(parser, "endfilter", false, &(*out)->first);
}

/* {% generation %} marks the model's answer; it has no effect on rendering. */
static sl_status parse_generation(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_OUTPUT, out));
    return parse_filtered_body(parser, "endgeneration", true, &(*out)->first);
}

/* The parameters (a, b=1) of a macro or call block. */
static sl_status parse_parameters(jinja_parser *parser, jinja_node **where) {
    bool defaults = false;
    SL_TRY(sl_jinja_expect_operator(parser, "("));
    while (!sl_jinja_skip_operator(parser, ")")) {
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_ARGUMENT, where));
        SL_TRY(sl_jinja_expect_name(parser, &(*where)->text));
        if (sl_jinja_skip_operator(parser, "=")) {
            SL_TRY(sl_jinja_parse_expression(parser, &(*where)->first));
            defaults = true;
        } else if (defaults) {
            return JINJA_REJECT(parser, "parameter '%.*s' wants a default as well",
                                JINJA_SHOW((*where)->text));
        }
        where = &(*where)->next;
        if (!sl_jinja_at_operator(parser, ")")) SL_TRY(sl_jinja_expect_operator(parser, ","));
    }
    return SL_OK;
}

/* The body of a macro: break and continue cannot leave loops around it. */
static sl_status parse_macro_body(jinja_parser *parser, const char *end, jinja_node *macro) {
    jinja_node *outer = parser->macro;
    const uint32_t loops = parser->loops;
    parser->macro = macro;
    parser->loops = 0;
    SL_TRY(parse_block(parser, end, &macro->body));
    parser->macro = outer;
    parser->loops = loops;
    return SL_OK;
}

static sl_status parse_macro(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_MACRO, out));
    SL_TRY(sl_jinja_expect_name(parser, &(*out)->text));
    SL_TRY(parse_parameters(parser, &(*out)->list));
    return parse_macro_body(parser, "endmacro", *out);
}

static sl_status parse_call(jinja_parser *parser, jinja_node **out) {
    jinja_node *node, *macro;
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_CALL_BLOCK, &node));
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_MACRO, &macro));
    *out = node;
    node->second = macro;
    macro->text = JINJA_TEXT("caller");
    if (sl_jinja_at_operator(parser, "(")) SL_TRY(parse_parameters(parser, &macro->list));
    SL_TRY(sl_jinja_parse_expression(parser, &node->first));
    if (node->first->kind != JINJA_NODE_CALL) return sl_jinja_unexpected(parser, "a call");
    return parse_macro_body(parser, "endcall", macro);
}

static sl_status parse_with(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_WITH, out));
    jinja_node **where = &(*out)->list;
    while (parser->token->kind != JINJA_TOKEN_BLOCK_END) {
        if ((*out)->list) SL_TRY(sl_jinja_expect_operator(parser, ","));
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_ARGUMENT, where));
        SL_TRY(sl_jinja_expect_name(parser, &(*where)->text));
        SL_TRY(sl_jinja_expect_operator(parser, "="));
        SL_TRY(sl_jinja_parse_expression(parser, &(*where)->first));
        where = &(*where)->next;
    }
    return parse_block(parser, "endwith", &(*out)->body);
}

static sl_status parse_jump(jinja_parser *parser, jinja_node_kind kind, jinja_node **out) {
    if (parser->loops == 0) return JINJA_REJECT(parser, "break or continue out of a loop");
    return sl_jinja_node_new(parser, kind, out);
}
static sl_status parse_break(jinja_parser *parser, jinja_node **out) {
    return parse_jump(parser, JINJA_NODE_BREAK, out);
}
static sl_status parse_continue(jinja_parser *parser, jinja_node **out) {
    return parse_jump(parser, JINJA_NODE_CONTINUE, out);
}

/* Parses a statement, after "{%". */
static sl_status parse_statement(jinja_parser *parser, jinja_node **out) {
    static const struct {
        const char *name;
        sl_status (*parse)(jinja_parser *parser, jinja_node **out);
    } statements[] = {
        {"if", parse_if},       {"for", parse_for},
        {"set", parse_set},     {"macro", parse_macro},
        {"call", parse_call},   {"filter", parse_filter},
        {"with", parse_with},   {"generation", parse_generation},
        {"break", parse_break}, {"continue", parse_continue},
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!sl_jinja_skip_name(parser, statements[i].name)) continue;
        SL_TRY(statements[i].parse(parser, out));
        return expect_block_end(parser);
    }
    return JINJA_REJECT(parser, "unknown or misplaced tag '%.*s'", JINJA_SHOW(parser->token->text));
}

static bool at_any_name(const jinja_parser *parser, const char *const *names) {
    for (; names && *names; names++)
        if (sl_jinja_at_name(parser, *names)) return true;
    return false;
}

static sl_status parse_output(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_OUTPUT, out));
    SL_TRY(sl_jinja_parse_tuple(parser, true, &(*out)->first));
    if (skip(parser, parser->token->kind == JINJA_TOKEN_OUTPUT_END)) return SL_OK;
    return sl_jinja_unexpected(parser, "}}");
}

/* Statements up to one of the tags in `ends` (NULL: the end of the template), which becomes the
 * current token. */
static sl_status parse_body(jinja_parser *parser, const char *const *ends, jinja_node **out) {
    SL_TRY(sl_jinja_enter(parser));
    for (jinja_node **where = out;;) {
        const jinja_token *token = parser->token;
        if (token->kind == JINJA_TOKEN_END) {
            if (!ends) break;
            return sl_jinja_unexpected(parser, ends[0]);
        }
        sl_jinja_advance(parser);
        if (token->kind == JINJA_TOKEN_DATA) {
            SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_TEXT, where));
            (*where)->text = token->text;
        } else if (token->kind == JINJA_TOKEN_OUTPUT_BEGIN) {
            SL_TRY(parse_output(parser, where));
        } else {
            if (at_any_name(parser, ends)) break;
            SL_TRY(parse_statement(parser, where));
        }
        where = &(*where)->next;
    }
    sl_jinja_leave(parser);
    return SL_OK;
}

sl_status sl_jinja_parse(jinja_text source, sl_arena *arena, jinja_node **out_body, sl_error *err) {
    jinja_token *tokens;
    SL_TRY(sl_jinja_lex(source, arena, &tokens, err));
    jinja_parser parser = {.place = {err, tokens->line}, .arena = arena, .token = tokens};
    *out_body = NULL;
    return parse_body(&parser, NULL, out_body);
}
