/* expression.c - Parser for expressions, lowest precedence first. */
#include "engine/text/jinja/parse.h"
#include <string.h>

typedef sl_status parse_function(jinja_parser *parser, jinja_node **out);
typedef struct {
    const char *text;
    jinja_op op;
} operator_row;

static const operator_row *find_operator(const jinja_parser *parser, const operator_row *rows) {
    for (; rows->text; rows++)
        if (sl_jinja_at_operator(parser, rows->text)) return rows;
    return NULL;
}

static sl_status new_binary(jinja_parser *parser, jinja_node_kind kind, jinja_node *first,
                            jinja_node **out) {
    SL_TRY(sl_jinja_node_new(parser, kind, out));
    (*out)->first = first;
    return SL_OK;
}

/* operand (op operand)*, left-associative. */
static sl_status parse_left(jinja_parser *parser, const operator_row *rows, parse_function *operand,
                            jinja_node **out) {
    SL_TRY(operand(parser, out));
    for (const operator_row *row; (row = find_operator(parser, rows)) != NULL;) {
        jinja_node *node;
        SL_TRY(new_binary(parser, JINJA_NODE_BINARY, *out, &node));
        node->op = row->op;
        *out = node;
        (void)sl_jinja_skip_operator(parser, row->text);
        SL_TRY(operand(parser, &node->second));
    }
    return SL_OK;
}

/* Adjacent string literals are concatenated. */
static sl_status parse_string(jinja_parser *parser, jinja_node *node) {
    jinja_text text = parser->token->text;
    while (sl_jinja_advance(parser), parser->token->kind == JINJA_TOKEN_STRING) {
        const jinja_text more = parser->token->text;
        char *joined = sl_arena_alloc(parser->arena, text.bytes + more.bytes + 1, 1);
        if (!joined) return sl_no_memory(parser->place.err, "template string", text.bytes);
        memcpy(joined, text.data, text.bytes);
        memcpy(joined + text.bytes, more.data, more.bytes);
        text = (jinja_text){joined, text.bytes + more.bytes};
    }
    node->value = (jinja_value){.kind = JINJA_STRING, .text = text};
    return SL_OK;
}

static void parse_name(jinja_parser *parser, jinja_node *node) {
    static const struct {
        const char *name;
        jinja_value value;
    } constants[] = {
        {"true", {.kind = JINJA_BOOL, .boolean = true}},
        {"True", {.kind = JINJA_BOOL, .boolean = true}},
        {"false", {.kind = JINJA_BOOL, .boolean = false}},
        {"False", {.kind = JINJA_BOOL, .boolean = false}},
        {"none", {.kind = JINJA_NONE}},
        {"None", {.kind = JINJA_NONE}},
    };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (!sl_jinja_skip_name(parser, constants[i].name)) continue;
        node->value = constants[i].value;
        return;
    }
    if (parser->macro) {
        if (sl_jinja_at_name(parser, "varargs")) parser->macro->takes_varargs = true;
        if (sl_jinja_at_name(parser, "kwargs")) parser->macro->takes_kwargs = true;
    }
    node->kind = JINJA_NODE_NAME;
    node->text = parser->token->text;
    sl_jinja_advance(parser);
}

/* Parses one expression to **where and advances *where to the link of the next. */
static sl_status parse_item(jinja_parser *parser, jinja_node ***where) {
    jinja_node *item = NULL;
    SL_TRY(sl_jinja_parse_expression(parser, &item));
    **where = item;
    *where = &item->next;
    return SL_OK;
}

/* Items up to the closing bracket; in a dict, keys and values alternate. */
static sl_status parse_items(jinja_parser *parser, const char *close, jinja_node *node) {
    jinja_node **where = &node->list;
    for (bool first = true; !sl_jinja_skip_operator(parser, close); first = false) {
        if (!first) {
            SL_TRY(sl_jinja_expect_operator(parser, ","));
            if (sl_jinja_skip_operator(parser, close)) break;
        }
        SL_TRY(parse_item(parser, &where));
        if (node->kind != JINJA_NODE_DICT) continue;
        SL_TRY(sl_jinja_expect_operator(parser, ":"));
        SL_TRY(parse_item(parser, &where));
    }
    return SL_OK;
}

static sl_status parse_parenthesis(jinja_parser *parser, jinja_node **out) {
    if (sl_jinja_skip_operator(parser, ")"))
        return sl_jinja_node_new(parser, JINJA_NODE_TUPLE, out);
    SL_TRY(sl_jinja_parse_tuple(parser, true, out));
    return sl_jinja_expect_operator(parser, ")");
}

sl_status sl_jinja_parse_primary(jinja_parser *parser, jinja_node **out) {
    if (sl_jinja_skip_operator(parser, "(")) {
        SL_TRY(sl_jinja_enter(parser));
        SL_TRY(parse_parenthesis(parser, out));
        sl_jinja_leave(parser);
        return SL_OK;
    }
    jinja_node *node;
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_CONSTANT, &node));
    *out = node;
    switch (parser->token->kind) {
    case JINJA_TOKEN_NAME:
        parse_name(parser, node);
        return SL_OK;
    case JINJA_TOKEN_STRING:
        return parse_string(parser, node);
    case JINJA_TOKEN_INTEGER:
    case JINJA_TOKEN_FLOAT:
        node->value = parser->token->value;
        sl_jinja_advance(parser);
        return SL_OK;
    default:
        break;
    }
    if (sl_jinja_skip_operator(parser, "[")) {
        node->kind = JINJA_NODE_LIST;
        return parse_items(parser, "]", node);
    }
    if (!sl_jinja_skip_operator(parser, "{")) return sl_jinja_unexpected(parser, "an expression");
    node->kind = JINJA_NODE_DICT;
    return parse_items(parser, "}", node);
}

static bool at_slice_end(const jinja_parser *parser) {
    return sl_jinja_at_operator(parser, "]") || sl_jinja_at_operator(parser, ":");
}

/* index] or start:stop:step], after the opening bracket. */
static sl_status parse_subscript(jinja_parser *parser, jinja_node *node) {
    jinja_node *bounds[3];
    size_t given = 0;
    for (size_t i = 0; i < 3; i++) {
        if (at_slice_end(parser)) {
            SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_CONSTANT, &bounds[i]));
            bounds[i]->value = (jinja_value){.kind = JINJA_NONE};
        } else {
            SL_TRY(sl_jinja_parse_expression(parser, &bounds[i]));
            given++;
        }
        if (i == 0 && given && !sl_jinja_at_operator(parser, ":")) {
            node->kind = JINJA_NODE_ITEM;
            node->second = bounds[0];
            return sl_jinja_expect_operator(parser, "]");
        }
        if (i == 0) SL_TRY(sl_jinja_expect_operator(parser, ":"));
        if (i == 1) (void)sl_jinja_skip_operator(parser, ":");
    }
    node->kind = JINJA_NODE_SLICE;
    node->list = bounds[0];
    bounds[0]->next = bounds[1];
    bounds[1]->next = bounds[2];
    return sl_jinja_expect_operator(parser, "]");
}

sl_status sl_jinja_parse_arguments(jinja_parser *parser, jinja_node **where) {
    bool keywords = false;
    *where = NULL;
    while (!sl_jinja_skip_operator(parser, ")")) {
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_ARGUMENT, where));
        const jinja_token *next = parser->token;
        if (next->kind == JINJA_TOKEN_NAME && next[1].kind == JINJA_TOKEN_OPERATOR &&
            next[1].text.bytes == 1 && next[1].text.data[0] == '=') {
            (*where)->text = next->text;
            sl_jinja_advance(parser);
            sl_jinja_advance(parser);
            keywords = true;
        } else if (sl_jinja_skip_operator(parser, "**")) {
            (*where)->takes_kwargs = keywords = true;
        } else if (sl_jinja_skip_operator(parser, "*")) {
            (*where)->takes_varargs = true;
        } else if (keywords) {
            return sl_jinja_unexpected(parser, "only keyword arguments after the first");
        }
        SL_TRY(sl_jinja_parse_expression(parser, &(*where)->first));
        where = &(*where)->next;
        if (!sl_jinja_at_operator(parser, ")")) SL_TRY(sl_jinja_expect_operator(parser, ","));
    }
    return SL_OK;
}

static sl_status parse_attribute(jinja_parser *parser, jinja_node *node) {
    if (parser->token->kind != JINJA_TOKEN_INTEGER)
        return sl_jinja_expect_name(parser, &node->text);
    node->kind = JINJA_NODE_ITEM;
    return sl_jinja_parse_primary(parser, &node->second);
}

sl_status sl_jinja_parse_postfix(jinja_parser *parser, jinja_node **node) {
    while (true) {
        jinja_node *outer;
        const bool dot = sl_jinja_at_operator(parser, "."),
                   call = sl_jinja_at_operator(parser, "(");
        if (!dot && !call && !sl_jinja_at_operator(parser, "[")) return SL_OK;
        SL_TRY(new_binary(parser, call ? JINJA_NODE_CALL : JINJA_NODE_ATTRIBUTE, *node, &outer));
        sl_jinja_advance(parser);
        *node = outer;
        if (dot) {
            SL_TRY(parse_attribute(parser, outer));
        } else if (call) {
            SL_TRY(sl_jinja_parse_arguments(parser, &outer->list));
        } else {
            SL_TRY(parse_subscript(parser, outer));
        }
    }
}

sl_status sl_jinja_parse_filters(jinja_parser *parser, jinja_node **node) {
    do {
        jinja_node *outer;
        SL_TRY(new_binary(parser, JINJA_NODE_FILTER, *node, &outer));
        SL_TRY(sl_jinja_expect_name(parser, &outer->text));
        outer->builtin = sl_jinja_find_filter(outer->text);
        if (sl_jinja_skip_operator(parser, "("))
            SL_TRY(sl_jinja_parse_arguments(parser, &outer->list));
        *node = outer;
    } while (sl_jinja_skip_operator(parser, "|"));
    return SL_OK;
}

/* Whether a test's one argument follows without parentheses: `is divisibleby 3`. */
static bool at_bare_argument(const jinja_parser *parser) {
    static const char *const others[] = {"else", "or", "and", "is"};
    if (sl_jinja_at_operator(parser, "[") || sl_jinja_at_operator(parser, "{")) return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (sl_jinja_at_name(parser, others[i])) return false;
    return parser->token->kind >= JINJA_TOKEN_NAME && parser->token->kind <= JINJA_TOKEN_FLOAT;
}

/* is [not] name [argument | (arguments)], after `is`. */
static sl_status parse_test(jinja_parser *parser, jinja_node **node) {
    jinja_node *outer;
    SL_TRY(new_binary(parser, JINJA_NODE_TEST, *node, &outer));
    const bool negated = sl_jinja_skip_name(parser, "not");
    SL_TRY(sl_jinja_expect_name(parser, &outer->text));
    outer->builtin = sl_jinja_find_test(outer->text);
    if (sl_jinja_skip_operator(parser, "(")) {
        SL_TRY(sl_jinja_parse_arguments(parser, &outer->list));
    } else if (at_bare_argument(parser)) {
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_ARGUMENT, &outer->list));
        SL_TRY(sl_jinja_parse_primary(parser, &outer->list->first));
        SL_TRY(sl_jinja_parse_postfix(parser, &outer->list->first));
    }
    *node = outer;
    if (!negated) return SL_OK;
    return new_binary(parser, JINJA_NODE_NOT, outer, node);
}

/* Filters, tests and calls in any order. */
static sl_status parse_filters_and_tests(jinja_parser *parser, jinja_node **node) {
    while (true) {
        if (sl_jinja_skip_operator(parser, "|")) {
            SL_TRY(sl_jinja_parse_filters(parser, node));
        } else if (sl_jinja_skip_name(parser, "is")) {
            SL_TRY(parse_test(parser, node));
        } else if (sl_jinja_at_operator(parser, "(")) {
            SL_TRY(sl_jinja_parse_postfix(parser, node));
        } else {
            return SL_OK;
        }
    }
}

static sl_status parse_signed(jinja_parser *parser, bool filters, jinja_node **out) {
    SL_TRY(sl_jinja_enter(parser));
    const bool minus = sl_jinja_at_operator(parser, "-");
    if (minus || sl_jinja_at_operator(parser, "+")) {
        SL_TRY(sl_jinja_node_new(parser, minus ? JINJA_NODE_NEGATE : JINJA_NODE_POSITIVE, out));
        sl_jinja_advance(parser);
        SL_TRY(parse_signed(parser, false, &(*out)->first));
    } else {
        SL_TRY(sl_jinja_parse_primary(parser, out));
    }
    SL_TRY(sl_jinja_parse_postfix(parser, out));
    if (filters) SL_TRY(parse_filters_and_tests(parser, out));
    sl_jinja_leave(parser);
    return SL_OK;
}
static sl_status parse_unary(jinja_parser *parser, jinja_node **out) {
    return parse_signed(parser, true, out);
}
static sl_status parse_power(jinja_parser *parser, jinja_node **out) {
    static const operator_row rows[] = {{"**", JINJA_POWER}, {0}};
    return parse_left(parser, rows, parse_unary, out);
}
static sl_status parse_product(jinja_parser *parser, jinja_node **out) {
    static const operator_row rows[] = {{"*", JINJA_MULTIPLY},
                                        {"/", JINJA_DIVIDE},
                                        {"//", JINJA_FLOOR_DIVIDE},
                                        {"%", JINJA_MODULO},
                                        {0}};
    return parse_left(parser, rows, parse_power, out);
}
static sl_status parse_concat(jinja_parser *parser, jinja_node **out) {
    static const operator_row rows[] = {{"~", JINJA_CONCAT}, {0}};
    return parse_left(parser, rows, parse_product, out);
}
static sl_status parse_sum(jinja_parser *parser, jinja_node **out) {
    static const operator_row rows[] = {{"+", JINJA_ADD}, {"-", JINJA_SUBTRACT}, {0}};
    return parse_left(parser, rows, parse_concat, out);
}

/* The comparison operator at the cursor, which is moved past it; false if there is none. */
static bool skip_comparison(jinja_parser *parser, jinja_op *out) {
    static const operator_row rows[] = {{"==", JINJA_EQUAL},
                                        {"!=", JINJA_NOT_EQUAL},
                                        {"<", JINJA_LESS},
                                        {"<=", JINJA_LESS_EQUAL},
                                        {">", JINJA_GREATER},
                                        {">=", JINJA_GREATER_EQUAL},
                                        {0}};
    const operator_row *row = find_operator(parser, rows);
    if (row) {
        *out = row->op;
        return sl_jinja_skip_operator(parser, row->text);
    }
    *out = JINJA_IN;
    if (sl_jinja_skip_name(parser, "in")) return true;
    *out = JINJA_NOT_IN;
    if (!sl_jinja_skip_name(parser, "not")) return false;
    if (sl_jinja_skip_name(parser, "in")) return true;
    parser->token--;
    return false;
}

static sl_status parse_comparison(jinja_parser *parser, jinja_node **out) {
    jinja_op op;
    SL_TRY(parse_sum(parser, out));
    if (!skip_comparison(parser, &op)) return SL_OK;
    SL_TRY(new_binary(parser, JINJA_NODE_COMPARE, *out, out));
    jinja_node **where = &(*out)->list;
    do {
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_LINK, where));
        (*where)->op = op;
        SL_TRY(parse_sum(parser, &(*where)->first));
        where = &(*where)->next;
    } while (skip_comparison(parser, &op));
    return SL_OK;
}

static sl_status parse_not(jinja_parser *parser, jinja_node **out) {
    if (!sl_jinja_at_name(parser, "not")) return parse_comparison(parser, out);
    SL_TRY(sl_jinja_enter(parser));
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_NOT, out));
    sl_jinja_advance(parser);
    SL_TRY(parse_not(parser, &(*out)->first));
    sl_jinja_leave(parser);
    return SL_OK;
}

static sl_status parse_and(jinja_parser *parser, jinja_node **out) {
    SL_TRY(parse_not(parser, out));
    while (sl_jinja_skip_name(parser, "and")) {
        SL_TRY(new_binary(parser, JINJA_NODE_AND, *out, out));
        SL_TRY(parse_not(parser, &(*out)->second));
    }
    return SL_OK;
}

static sl_status parse_or(jinja_parser *parser, jinja_node **out) {
    SL_TRY(parse_and(parser, out));
    while (sl_jinja_skip_name(parser, "or")) {
        SL_TRY(new_binary(parser, JINJA_NODE_OR, *out, out));
        SL_TRY(parse_and(parser, &(*out)->second));
    }
    return SL_OK;
}

sl_status sl_jinja_parse_expression(jinja_parser *parser, jinja_node **out) {
    SL_TRY(sl_jinja_enter(parser));
    SL_TRY(parse_or(parser, out));
    while (sl_jinja_skip_name(parser, "if")) {
        jinja_node *node;
        SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_CONDITION, &node));
        node->second = *out;
        *out = node;
        SL_TRY(parse_or(parser, &node->first));
        if (sl_jinja_skip_name(parser, "else"))
            SL_TRY(sl_jinja_parse_expression(parser, &node->third));
    }
    sl_jinja_leave(parser);
    return SL_OK;
}

/* Whether a trailing comma of a tuple was the end of it. */
static bool at_tuple_end(const jinja_parser *parser) {
    return parser->token->kind == JINJA_TOKEN_OUTPUT_END ||
           parser->token->kind == JINJA_TOKEN_BLOCK_END || sl_jinja_at_operator(parser, ")");
}

sl_status sl_jinja_parse_tuple(jinja_parser *parser, bool conditional, jinja_node **out) {
    parse_function *item = conditional ? sl_jinja_parse_expression : parse_or;
    SL_TRY(item(parser, out));
    if (!sl_jinja_at_operator(parser, ",")) return SL_OK;
    jinja_node *last = *out;
    SL_TRY(sl_jinja_node_new(parser, JINJA_NODE_TUPLE, out));
    (*out)->list = last;
    while (sl_jinja_skip_operator(parser, ",") && !at_tuple_end(parser)) {
        SL_TRY(item(parser, &last->next));
        last = last->next;
    }
    return SL_OK;
}
