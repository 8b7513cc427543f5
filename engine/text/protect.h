/* protect.h - Keeps special tokens that stand in messages from being read as such.
 *
 * A chat template puts messages between special tokens.  Where the text of a message contains the
 * text of one, a marker is put before it, which goes through the template with it; it tells the
 * tokenizer that this is ordinary text.  The marker is U+FDD0, a noncharacter of Unicode, which no
 * text contains.
 */
#ifndef SL_ENGINE_TEXT_PROTECT_H
#define SL_ENGINE_TEXT_PROTECT_H
#include "engine/text/tokenizer.h"
#include <jansson.h>

/* A copy of value, in all strings of which special tokens are marked; NULL: no memory. */
json_t *sl_protect_value(const sl_tokenizer *tokenizer, const json_t *value);
/* Removes the markers from text; *out has the offsets where they were, in arena. */
SL_CHECKED sl_status sl_protect_strip(char *text, size_t *bytes, sl_arena *arena,
                                      sl_plain_text *out, sl_error *err);
#endif
