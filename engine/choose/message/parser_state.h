/* parser_state.h - The state of a parser, which its parts share.
 *
 * Text goes through byte by byte, so that the result cannot depend on how it was cut.  What could
 * be the beginning of a marker is held.  While a call is read, its bytes are kept as well (raw):
 * when it turns out to be malformed they become content, and what was held is read again. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_PARSER_STATE_H
#define SL_ENGINE_CHOOSE_MESSAGE_PARSER_STATE_H
#include "engine/choose/message/json_bytes.h"
#include "engine/choose/message/parser.h"
#include "engine/choose/message/text_buffer.h"
#include <jansson.h>

typedef enum {
    SL_MODE_CONTENT,
    SL_MODE_REASONING,
    SL_MODE_CALL,
    SL_MODE_HEADING, /* of a harmony message */
} sl_parser_mode;

enum { SL_HELD_BYTES = 64, SL_MOST_NAME = 256, SL_MOST_HEADING = 512, SL_ID_BYTES = 64 };

typedef struct {
    sl_text_buffer name, arguments;
    char id[SL_ID_BYTES + 1];
    bool dropped, complete;
} sl_parsed_call;

typedef struct {
    sl_message_event_kind kind;
    uint32_t call;
    size_t start, end; /* of the text, in the buffer of its kind */
} sl_parsed_event;

/* {"name": ..., "arguments": ...}, on the level of its keys. */
typedef struct {
    uint8_t at;
    bool escaped; /* after a backslash of a key */
    uint8_t part; /* what the value is that comes */
    bool has_name, has_arguments;
    bool streams; /* the arguments go out as they come */
    sl_text_buffer key, value, arguments;
} sl_envelope;

struct sl_message_parser {
    sl_allocator allocator;
    const sl_message_family *family;
    json_t *schemas; /* NULL: calls are text */
    sl_reasoning_format format;
    bool whole_calls, finished, no_memory;
    uint64_t id_state; /* 0: random ids */

    sl_parser_mode mode;
    bool marks; /* markers that are special tokens may be in this piece */
    sl_utf8_stream stream;
    char held[SL_HELD_BYTES];
    size_t held_bytes;
    uint64_t work;
    size_t pieces, reasoning_pieces;

    sl_text_buffer content, reasoning;
    sl_text_buffer blank;        /* white space at the end of the content, not yet in it */
    bool trims;                  /* line breaks at the beginning of what comes */
    bool answered;               /* something that is not reasoning was said */
    bool said;                   /* something was said since the last call */
    bool joins, joins_reasoning; /* a harmony message begins: a line break before it */
    bool verbatim;               /* a harmony message that is content with its marker */
    size_t newlines;             /* at the end of the reasoning, not yet in it */
    bool trims_reasoning;

    sl_text_buffer raw; /* of the call or heading that is being read */
    uint8_t step;
    bool bare;                          /* the call began with the second start */
    size_t block_calls;                 /* complete since the start */
    sl_text_buffer word;                /* name, id or key that is being read */
    bool word_ends;                     /* white space came after it */
    sl_text_buffer id;                  /* that the model gave */
    bool strings, value_begun, newline; /* of a value: it is a string; a line break is held */
    unsigned types;
    sl_text_buffer value;
    uint32_t parameters; /* of the call, so far */
    sl_json_bytes json;
    bool json_begun;
    sl_envelope envelope;

    sl_parsed_call *calls;
    size_t call_count, call_room, complete_count;
    bool open; /* the last call is being read */
    sl_parsed_event *events;
    size_t event_count, event_room, event_next;
};

/* Appends to a buffer; a lack of memory is remembered. */
void sl_parser_put(sl_message_parser *p, sl_text_buffer *to, const char *text, size_t bytes);
static inline void sl_text_buffer_clear(sl_text_buffer *buffer) {
    buffer->bytes = 0;
    if (buffer->text) buffer->text[0] = '\0';
}
static inline bool sl_is_blank(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* parser.c */
void sl_parser_byte(sl_message_parser *p, char byte);
/* The held bytes are a marker (*hit) or may become one. */
bool sl_parser_matches(sl_message_parser *p, const sl_marker *markers, int most,
                       const sl_marker **hit);
/* Holds the byte if it may be part of one of the markers.  *hit: the marker that is complete, with
 * nothing held.  Otherwise bytes that belong to none are given to pass, first to last; false: pass
 * refused one, which is held again with those after it. */
typedef bool sl_pass_fn(sl_message_parser *p, char byte);
bool sl_parser_scan(sl_message_parser *p, char byte, const sl_marker *markers, int most,
                    sl_pass_fn *pass, const sl_marker **hit);
/* Reads again what is held, as it comes after a change of the mode. */
void sl_parser_again(sl_message_parser *p);

/* content.c */
bool sl_parser_say(sl_message_parser *p, char byte);
void sl_parser_say_text(sl_message_parser *p, const char *text, size_t bytes);
bool sl_parser_think(sl_message_parser *p, char byte);
void sl_parser_content_byte(sl_message_parser *p, char byte);
void sl_parser_reasoning_byte(sl_message_parser *p, char byte);
void sl_parser_begin_reasoning(sl_message_parser *p);
void sl_parser_end_content(sl_message_parser *p);

/* calls.c: the records of calls, and the events. */
void sl_parser_event(sl_message_parser *p, sl_message_event_kind kind, uint32_t call, size_t start,
                     size_t end);
void sl_parser_open_call(sl_message_parser *p, const char *name, size_t bytes);
void sl_parser_arguments(sl_message_parser *p, const char *text, size_t bytes);
/* A byte of a JSON string, escaped where it must be. */
size_t sl_parser_escape(char byte, char out[6]);
void sl_parser_arguments_escaped(sl_message_parser *p, char byte);
void sl_parser_close_call(sl_message_parser *p);
void sl_parser_drop_call(sl_message_parser *p);
bool sl_parser_name_fits(const char *name, size_t bytes);

/* steps.c: after a start marker was read. */
void sl_parser_begin_call(sl_message_parser *p, uint8_t step);
void sl_parser_call_byte(sl_message_parser *p, char byte);
void sl_parser_malformed(sl_message_parser *p);
void sl_parser_end_steps(sl_message_parser *p); /* the text ends */

/* values.c: the values of parameters. */
void sl_parser_begin_value(sl_message_parser *p, sl_call_step_kind kind);
bool sl_parser_value_byte(sl_message_parser *p, char byte);
void sl_parser_end_value(sl_message_parser *p);

/* envelope.c: false: malformed; *done: it ends with this byte. */
bool sl_parser_envelope_byte(sl_message_parser *p, char byte, bool *done);
/* A byte of an object of arguments; false: malformed. */
bool sl_parser_args_byte(sl_message_parser *p, char byte, bool *done);

/* channels.c */
void sl_parser_heading_byte(sl_message_parser *p, char byte);
void sl_parser_between_byte(sl_message_parser *p, char byte); /* content of such a family */
void sl_parser_end_heading(sl_message_parser *p);
void sl_parser_prompt_heading(sl_message_parser *p, const char *prompt);
extern const sl_marker sl_channel_markers[];
enum { SL_CHANNEL_MARKERS = 5 };
void sl_parser_channel_marker(sl_message_parser *p, const sl_marker *hit);
#endif
