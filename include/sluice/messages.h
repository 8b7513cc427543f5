/* messages.h - What a model generates, taken apart into reasoning, content and tool calls; and
 * messages of a client, made fit for a chat template.
 *
 *   sl_message_parser_create(&options, &parser, err);
 *   for each token: sl_message_parser_feed_token(parser, model, token, err);
 *                   while (sl_message_parser_next(parser, &event)) ...
 *   sl_message_parser_finish(parser, err);
 *   while (sl_message_parser_next(parser, &event)) ...
 *   sl_message_parser_json(parser, &json, err);
 *
 * What is malformed is never an error: a call that does not follow the rules of its family is
 * content, with exactly the bytes that the model wrote.  The concatenated texts of the events do
 * not depend on how the text was divided.  The time is linear in the length of the text. */
#ifndef SLUICE_MESSAGES_H
#define SLUICE_MESSAGES_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

/* How models write tool calls and reasoning: "hermes", "qwen_xml", "glm", "deepseek_v3",
 * "deepseek_v3_1", "deepseek_v3_2", "deepseek_v4", "harmony", "mistral", "json", and "none", which
 * has reasoning but no calls.  Constant; NULL: there are no more. */
SL_API const char *sl_message_family_at(uint32_t index);
/* The family of the model's chat template, found by the markers in its text. */
SL_API const char *sl_message_family_of(const sl_model *model);

typedef enum {
    SL_REASONING_SEPARATE = 0, /* apart from the content */
    SL_REASONING_NONE = 1,     /* it stays in the content, with its tags */
    SL_REASONING_BOTH = 2      /* apart, and in the content too */
} sl_reasoning_format;

typedef struct {
    size_t struct_size;
    const char *family;     /* a name of sl_message_family_at; default: "none" */
    const char *tools_json; /* the list of tools that the model was offered, in the form of the
                             * OpenAI API; their schemas give the types of arguments where the
                             * family does not.  "[]": calls are recognised without any.  NULL:
                             * calls are ordinary text */
    const char *prompt;     /* the text that the model continues: its end tells whether it begins
                             * with reasoning; NULL: it does not */
    sl_reasoning_format reasoning;
    int starts_reasoning; /* nonzero: it begins with reasoning, whatever the prompt says */
    int whole_calls;      /* nonzero: the events of a call come when it is complete, so that none is
                           * ever dropped */
    uint64_t id_seed;     /* of the ids of calls; 0: they are random */
    sl_allocator allocator; /* default: the C library's */
} sl_message_parser_options;

typedef enum {
    SL_MESSAGE_REASONING = 1, /* text: more reasoning */
    SL_MESSAGE_CONTENT = 2,   /* text: more content */
    SL_MESSAGE_CALL = 3,      /* a tool call begins: call, name, id */
    SL_MESSAGE_ARGUMENTS = 4, /* text: more of the arguments of a call, a JSON object in the end */
    SL_MESSAGE_CALL_END = 5,  /* the call is complete */
    SL_MESSAGE_CALL_DROP = 6 /* the call turned out to be malformed and is void; its text follows as
                              * content */
} sl_message_event_kind;

/* Texts are borrowed until the parser is fed again; name and id are NUL-terminated, text is not. */
typedef struct {
    size_t struct_size; /* set by the caller */
    sl_message_event_kind kind;
    uint32_t call; /* index of a call; that of a dropped one is not used again */
    const char *name, *id;
    const char *text;
    size_t bytes;
} sl_message_event;

typedef struct sl_message_parser sl_message_parser;
SL_API SL_CHECKED sl_status sl_message_parser_create(const sl_message_parser_options *options,
                                                     sl_message_parser **out, sl_error *err);
SL_API void sl_message_parser_destroy(sl_message_parser *parser); /* NULL is fine */

/* More of the text, which may be cut anywhere, also inside a character; bytes that are not UTF-8
 * become U+FFFD.  Markers of the family are recognised however the model spelled them. */
SL_API SL_CHECKED sl_status sl_message_parser_feed(sl_message_parser *parser, const char *text,
                                                   size_t bytes, sl_error *err);
/* The next token.  Special tokens that are not a marker of the family are left out; where its
 * markers are special tokens, the same characters in ordinary tokens are ordinary text. */
SL_API SL_CHECKED sl_status sl_message_parser_feed_token(sl_message_parser *parser,
                                                         const sl_model *model, sl_token token,
                                                         sl_error *err);
/* The text ends here: what was held back is decided.  Feeding more is SL_INVALID. */
SL_API SL_CHECKED sl_status sl_message_parser_finish(sl_message_parser *parser, sl_error *err);

/* 1 and the next event, or 0.  Adjacent pieces of one text are joined. */
SL_API int sl_message_parser_next(sl_message_parser *parser, sl_message_event *out);

/* 1 if what comes next is reasoning, or a tag or heading around it, else 0. */
SL_API int sl_message_parser_is_reasoning(const sl_message_parser *parser);
/* Pieces (or tokens) that were reasoning in part or whole, tags included. */
SL_API size_t sl_message_parser_reasoning_pieces(const sl_message_parser *parser);
/* Calls that are complete. */
SL_API size_t sl_message_parser_calls(const sl_message_parser *parser);
/* The message so far: {"role": "assistant", "content": text or null, "reasoning_content": text,
 * "tool_calls": [{"id", "type": "function", "function": {"name", "arguments": text}}...]}, the last
 * two only if there are any.  *out_json is released with sl_free. */
SL_API SL_CHECKED sl_status sl_message_parser_json(const sl_message_parser *parser, char **out_json,
                                                   sl_error *err);

/* A list of messages in the form of the OpenAI API as the model's chat template wants it.  Text
 * parts become one string; "reasoning" and "reasoning_content" name the same; a missing content is
 * "".  Of tool calls, the arguments become objects, with their keys in the same order (malformed
 * ones stay a string), or strings where the template takes no objects; ids become nine letters
 * where it wants such; a message is divided where it renders one call only.  What the template
 * wants is found by rendering a small example.  *out_json is released with sl_free. */
SL_API SL_CHECKED sl_status sl_messages_for_template(const sl_model *model,
                                                     const char *messages_json, char **out_json,
                                                     sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
