/* parser.h - The incremental parser of sluice/messages.h. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_PARSER_H
#define SL_ENGINE_CHOOSE_MESSAGE_PARSER_H
#include "base/memory.h"
#include "engine/choose/message/family.h"
#include "sluice/messages.h"

/* The options are complete; the family is one of the table. */
SL_CHECKED sl_status sl_parser_create(const sl_message_parser_options *options,
                                      sl_message_parser **out, sl_error *err);
void sl_parser_destroy(sl_message_parser *parser);
/* marks: markers that are special tokens may be in it. */
SL_CHECKED sl_status sl_parser_feed(sl_message_parser *parser, sl_slice text, bool marks,
                                    sl_error *err);
SL_CHECKED sl_status sl_parser_finish(sl_message_parser *parser, sl_error *err);
bool sl_parser_next(sl_message_parser *parser, sl_message_event *out);
SL_CHECKED sl_status sl_parser_json(const sl_message_parser *parser, char **out, sl_error *err);

const sl_message_family *sl_parser_family(const sl_message_parser *parser);
size_t sl_parser_pieces(const sl_message_parser *parser); /* fed so far */
void sl_parser_skip(sl_message_parser *parser);           /* a piece that is left out */
bool sl_parser_is_reasoning(const sl_message_parser *parser);
size_t sl_parser_reasoning_pieces(const sl_message_parser *parser);
size_t sl_parser_calls(const sl_message_parser *parser);
/* Comparisons and bytes handled so far, for tests: linear in the length of the text. */
uint64_t sl_parser_work(const sl_message_parser *parser);
#endif
