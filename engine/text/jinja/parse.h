/* parse.h - What the two halves of the parser share. */
#ifndef SL_ENGINE_TEXT_JINJA_PARSE_H
#define SL_ENGINE_TEXT_JINJA_PARSE_H
#include "engine/text/jinja/lex.h"

typedef struct {
    jinja_place place;
    sl_arena *arena;
    const jinja_token *token; /* the current one */
    uint32_t nesting, loops;
    jinja_node *macro; /* the one being parsed */
} jinja_parser;

SL_CHECKED sl_status sl_jinja_node_new(jinja_parser *parser, jinja_node_kind kind,
                                       jinja_node **out);
SL_CHECKED sl_status sl_jinja_enter(jinja_parser *parser); /* one level deeper, or too deep */
static inline void sl_jinja_leave(jinja_parser *parser) {
    parser->nesting--;
}

void sl_jinja_advance(jinja_parser *parser);
bool sl_jinja_at_operator(const jinja_parser *parser, const char *text);
bool sl_jinja_at_name(const jinja_parser *parser, const char *text);
bool sl_jinja_skip_operator(jinja_parser *parser, const char *text); /* true: was there */
bool sl_jinja_skip_name(jinja_parser *parser, const char *text);
SL_CHECKED sl_status sl_jinja_expect_operator(jinja_parser *parser, const char *text);
SL_CHECKED sl_status sl_jinja_expect_name(jinja_parser *parser, jinja_text *out);
/* Fails with what was found in place of wanted. */
SL_CHECKED sl_status sl_jinja_unexpected(const jinja_parser *parser, const char *wanted);

SL_CHECKED sl_status sl_jinja_parse_expression(jinja_parser *parser, jinja_node **out);
/* a or a, b, c; conditional: whether `x if y else z` may occur. */
SL_CHECKED sl_status sl_jinja_parse_tuple(jinja_parser *parser, bool conditional, jinja_node **out);
SL_CHECKED sl_status sl_jinja_parse_primary(jinja_parser *parser, jinja_node **out);
/* The arguments after an opening parenthesis, and the closing one. */
SL_CHECKED sl_status sl_jinja_parse_arguments(jinja_parser *parser, jinja_node **out_list);
/* name(arguments) | name ... applied to *node, which is replaced. */
SL_CHECKED sl_status sl_jinja_parse_filters(jinja_parser *parser, jinja_node **node);
/* .name, [item], (arguments) after *node, which is replaced. */
SL_CHECKED sl_status sl_jinja_parse_postfix(jinja_parser *parser, jinja_node **node);
#endif
