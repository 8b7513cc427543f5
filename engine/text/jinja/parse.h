/* parse.h - The interface between the parser's two files. */
#ifndef SL_ENGINE_TEXT_JINJA_PARSE_H
#define SL_ENGINE_TEXT_JINJA_PARSE_H
#include "engine/text/jinja/lex.h"

typedef struct {
    jinja_place place;
    sl_arena *arena;
    const jinja_token *token; /* the current one */
    uint32_t nesting, loops;
    jinja_node *macro; /* the macro being parsed */
} jinja_parser;

SL_CHECKED sl_status sl_jinja_node_new(jinja_parser *parser, jinja_node_kind kind,
                                       jinja_node **out);
SL_CHECKED sl_status sl_jinja_enter(jinja_parser *parser); /* fails if the nesting is too deep */
static inline void sl_jinja_leave(jinja_parser *parser) {
    parser->nesting--;
}

void sl_jinja_advance(jinja_parser *parser);
bool sl_jinja_at_operator(const jinja_parser *parser, const char *text);
bool sl_jinja_at_name(const jinja_parser *parser, const char *text);
/* true: it was there and has been skipped */
bool sl_jinja_skip_operator(jinja_parser *parser, const char *text);
bool sl_jinja_skip_name(jinja_parser *parser, const char *text);
SL_CHECKED sl_status sl_jinja_expect_operator(jinja_parser *parser, const char *text);
SL_CHECKED sl_status sl_jinja_expect_name(jinja_parser *parser, jinja_text *out);
/* Fails with a message that names the token found and what was wanted. */
SL_CHECKED sl_status sl_jinja_unexpected(const jinja_parser *parser, const char *wanted);

SL_CHECKED sl_status sl_jinja_parse_expression(jinja_parser *parser, jinja_node **out);
/* a or a, b, c; conditional: whether `x if y else z` is allowed. */
SL_CHECKED sl_status sl_jinja_parse_tuple(jinja_parser *parser, bool conditional, jinja_node **out);
SL_CHECKED sl_status sl_jinja_parse_primary(jinja_parser *parser, jinja_node **out);
/* The arguments after an opening parenthesis, including the closing one. */
SL_CHECKED sl_status sl_jinja_parse_arguments(jinja_parser *parser, jinja_node **out_list);
/* Applies `name(arguments) | name ...` to *node, which is replaced. */
SL_CHECKED sl_status sl_jinja_parse_filters(jinja_parser *parser, jinja_node **node);
/* Parses .name, [item] and (arguments) after *node, which is replaced. */
SL_CHECKED sl_status sl_jinja_parse_postfix(jinja_parser *parser, jinja_node **node);
#endif
