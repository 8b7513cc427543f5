/* channels.c - Harmony: each message has a heading with a role, a channel and perhaps a recipient.
 *
 *   <|start|>assistant<|channel|>commentary to=functions.N <|constrain|>json<|message|>...<|call|>
 */
#include "engine/choose/message/parser_state.h"
#include <string.h>

enum { IS_HEADING = 0, IS_END = 1 };
const sl_marker sl_channel_markers[SL_CHANNEL_MARKERS] = {
    {SL_HARMONY_START, IS_HEADING, false},
    {SL_HARMONY_CHANNEL, IS_HEADING, false},
    {"<|end|>", IS_END, true},
    {"<|return|>", IS_END, true},
    {"<|call|>", IS_END, true},
};

/* The value buffer has the heading with what the prompt has of it, raw what the model wrote. */
static void begin_heading(sl_message_parser *p, const char *marker) {
    p->mode = SL_MODE_HEADING;
    sl_text_buffer_clear(&p->raw);
    sl_text_buffer_clear(&p->value);
    sl_parser_put(p, &p->raw, marker, strlen(marker));
    sl_parser_put(p, &p->value, marker, strlen(marker));
}

void sl_parser_channel_marker(sl_message_parser *p, const sl_marker *hit) {
    if (hit->next == IS_HEADING) {
        begin_heading(p, hit->text);
        return;
    }
    if (p->verbatim) sl_parser_say_text(p, hit->text, strlen(hit->text));
    p->verbatim = false;
    p->mode = SL_MODE_CONTENT;
}

void sl_parser_between_byte(sl_message_parser *p, char byte) {
    const sl_marker *hit;
    (void)sl_parser_scan(p, byte, sl_channel_markers, SL_CHANNEL_MARKERS, sl_parser_say, &hit);
    if (hit) sl_parser_channel_marker(p, hit);
}

static size_t word_bytes(const char *text) {
    return strcspn(text, " \n\t\r<");
}

static sl_slice find_channel(const char *heading) {
    const char *at = strstr(heading, SL_HARMONY_CHANNEL);
    if (!at) return (sl_slice){"", 0};
    at += strlen(SL_HARMONY_CHANNEL);
    return (sl_slice){at, word_bytes(at)};
}

static sl_slice find_recipient(const char *heading) {
    for (const char *at = heading; (at = strstr(at, "to=")) != NULL; at++)
        if (at > heading && (sl_is_blank(at[-1]) || at[-1] == '>'))
            return (sl_slice){at + 3, word_bytes(at + 3)};
    return (sl_slice){"", 0};
}

static bool is(sl_slice text, const char *wanted) {
    return strlen(wanted) == text.bytes && memcmp(text.text, wanted, text.bytes) == 0;
}

static void flush(sl_message_parser *p) {
    const size_t bytes = p->raw.bytes > p->held_bytes ? p->raw.bytes - p->held_bytes : 0;
    p->mode = SL_MODE_CONTENT;
    p->verbatim = true;
    if (bytes) sl_parser_say_text(p, p->raw.text, bytes);
    sl_text_buffer_clear(&p->raw);
    sl_parser_again(p);
}

static void begin_message(sl_message_parser *p) {
    static const char functions[] = "functions.";
    const char *heading = p->value.bytes ? p->value.text : "";
    sl_slice name = find_recipient(heading);
    const size_t before = sizeof functions - 1;
    p->verbatim = false;
    if (name.bytes && !is(name, "assistant") && !is(name, "all") && !is(name, "user")) {
        if (name.bytes > before && memcmp(name.text, functions, before) == 0)
            name = sl_slice_part(name, before, name.bytes);
        if (!p->schemas || !sl_parser_name_fits(name.text, name.bytes)) {
            flush(p);
            return;
        }
        sl_parser_begin_call(p, 0);
        sl_parser_open_call(p, name.text, name.bytes);
    } else if (is(find_channel(heading), "analysis")) {
        sl_parser_begin_reasoning(p);
        if (p->format != SL_REASONING_SEPARATE) {
            const bool answered = p->answered;
            sl_parser_say_text(p, p->raw.text, p->raw.bytes);
            p->answered = answered;
        }
    } else {
        p->mode = SL_MODE_CONTENT;
        p->joins = true;
    }
}

static bool pass_heading(sl_message_parser *p, char byte) {
    (void)byte;
    return p->value.bytes < SL_MOST_HEADING;
}

void sl_parser_heading_byte(sl_message_parser *p, char byte) {
    static const sl_marker markers[] = {{SL_HARMONY_MESSAGE, IS_HEADING, false},
                                        {"<|end|>", IS_END, true},
                                        {"<|return|>", IS_END, true},
                                        {"<|call|>", IS_END, true}};
    const sl_marker *hit;
    sl_parser_put(p, &p->raw, &byte, 1);
    sl_parser_put(p, &p->value, &byte, 1);
    if (!sl_parser_scan(p, byte, markers, 4, pass_heading, &hit)) {
        flush(p);
    } else if (hit && hit->next == IS_HEADING) {
        begin_message(p);
    } else if (hit) {
        flush(p);
        p->verbatim = false;
    }
}

void sl_parser_end_heading(sl_message_parser *p) {
    flush(p);
}

/* The prompt ends in a heading, or in a message that goes on. */
void sl_parser_prompt_heading(sl_message_parser *p, const char *prompt) {
    const char *start = NULL;
    for (const char *at = prompt; (at = strstr(at, SL_HARMONY_START)) != NULL; at++) start = at;
    if (!start) return;
    const char *message = strstr(start, SL_HARMONY_MESSAGE);
    if (!message && strlen(start) < SL_MOST_HEADING / 2) {
        begin_heading(p, start);
        sl_text_buffer_clear(&p->raw);
    } else if (message && !strstr(message, "<|end|>") && is(find_channel(start), "analysis")) {
        sl_parser_begin_reasoning(p);
    }
}
