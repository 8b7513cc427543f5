/* lex.h - Tokens of a template. */
#ifndef SL_ENGINE_TEXT_JINJA_LEX_H
#define SL_ENGINE_TEXT_JINJA_LEX_H
#include "engine/text/jinja/jinja.h"

typedef enum {
    JINJA_TOKEN_DATA, /* text outside of tags, with white space already removed */
    JINJA_TOKEN_OUTPUT_BEGIN,
    JINJA_TOKEN_OUTPUT_END,
    JINJA_TOKEN_BLOCK_BEGIN,
    JINJA_TOKEN_BLOCK_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_STRING, /* escapes are already replaced */
    JINJA_TOKEN_INTEGER,
    JINJA_TOKEN_FLOAT,
    JINJA_TOKEN_OPERATOR,
    JINJA_TOKEN_END, /* always the last */
} jinja_token_kind;

typedef struct {
    jinja_token_kind kind;
    uint32_t line;
    jinja_text text;
    jinja_value value; /* for numbers */
} jinja_token;

/* Tokenises the source with trim_blocks and lstrip_blocks. */
SL_CHECKED sl_status sl_jinja_lex(jinja_text source, sl_arena *arena, jinja_token **out,
                                  sl_error *err);
#endif
