/* content.c - Content and reasoning, and the markers that begin something else. */
#include "engine/choose/message/parser_state.h"
#include <string.h>

static void add_content(sl_message_parser *p, const char *text, size_t bytes) {
    const size_t start = p->content.bytes;
    sl_parser_put(p, &p->content, text, bytes);
    sl_parser_event(p, SL_MESSAGE_CONTENT, 0, start, p->content.bytes);
}

static void flush_blank(sl_message_parser *p) {
    size_t skip = 0;
    while (p->trims && skip < p->blank.bytes &&
           (p->blank.text[skip] == '\n' || p->blank.text[skip] == '\r'))
        skip++;
    if (p->blank.bytes > skip) add_content(p, p->blank.text + skip, p->blank.bytes - skip);
    sl_text_buffer_clear(&p->blank);
    p->trims = false;
}

bool sl_parser_say(sl_message_parser *p, char byte) {
    if (p->joins && p->content.bytes + p->blank.bytes) sl_parser_put(p, &p->blank, "\n", 1);
    p->joins = false;
    if (sl_is_blank(byte)) {
        sl_parser_put(p, &p->blank, &byte, 1);
        return true;
    }
    flush_blank(p);
    add_content(p, &byte, 1);
    p->answered = p->said = true;
    return true;
}

void sl_parser_say_text(sl_message_parser *p, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) (void)sl_parser_say(p, text[i]);
}

/* White space at the end counts, but not after a call. */
void sl_parser_end_content(sl_message_parser *p) {
    if (p->said || p->complete_count == 0) flush_blank(p);
    sl_text_buffer_clear(&p->blank);
}

/* ---- Reasoning ---- */

/* Reasoning that stays in the content is no answer. */
static void say_reasoning(sl_message_parser *p, const char *text, size_t bytes) {
    const bool answered = p->answered;
    if (p->format != SL_REASONING_SEPARATE) sl_parser_say_text(p, text, bytes);
    p->answered = answered;
}

static void add_reasoning(sl_message_parser *p, const char *text, size_t bytes) {
    const size_t start = p->reasoning.bytes;
    sl_parser_put(p, &p->reasoning, text, bytes);
    sl_parser_event(p, SL_MESSAGE_REASONING, 0, start, p->reasoning.bytes);
}

bool sl_parser_think(sl_message_parser *p, char byte) {
    say_reasoning(p, &byte, 1);
    if (p->format == SL_REASONING_NONE) return true;
    if (byte == '\n') {
        p->newlines += !p->trims_reasoning;
        return true;
    }
    if (p->joins_reasoning && p->reasoning.bytes) add_reasoning(p, "\n", 1);
    for (; p->newlines; p->newlines--) add_reasoning(p, "\n", 1);
    p->trims_reasoning = p->joins_reasoning = false;
    add_reasoning(p, &byte, 1);
    return true;
}

void sl_parser_begin_reasoning(sl_message_parser *p) {
    p->mode = SL_MODE_REASONING;
    p->trims_reasoning = p->joins_reasoning = true;
    p->newlines = 0;
    if (p->format == SL_REASONING_SEPARATE) sl_text_buffer_clear(&p->blank);
}

void sl_parser_reasoning_byte(sl_message_parser *p, char byte) {
    const sl_marker *hit;
    if (p->family->traits & SL_FAMILY_CHANNELS) {
        (void)sl_parser_scan(p, byte, sl_channel_markers, SL_CHANNEL_MARKERS, sl_parser_think,
                             &hit);
        if (hit) {
            say_reasoning(p, hit->text, hit->ends ? strlen(hit->text) : 0);
            sl_parser_channel_marker(p, hit);
        }
        return;
    }
    const sl_marker end = {.text = p->family->think_end};
    (void)sl_parser_scan(p, byte, &end, 1, sl_parser_think, &hit);
    if (!hit) return;
    say_reasoning(p, end.text, strlen(end.text));
    p->mode = SL_MODE_CONTENT;
    p->newlines = 0;
    p->trims = p->format == SL_REASONING_SEPARATE;
}

/* ---- Content ---- */

/* The starts of calls, and the tag of reasoning, which may only come first. */
static int list_markers(const sl_message_parser *p, sl_marker out[4]) {
    const bool whole = p->family->traits & SL_FAMILY_WHOLE;
    int count = 0;
    if (p->schemas && !(whole && p->answered))
        for (const sl_marker *start = p->family->starts; start->text; start++)
            out[count++] = *start;
    if (!p->answered && p->family->think[0])
        out[count++] = (sl_marker){.text = p->family->think, .next = SL_STEP_LEAVE};
    return count;
}

static void start(sl_message_parser *p, const sl_marker *hit) {
    if (hit->next == SL_STEP_LEAVE) {
        sl_parser_begin_reasoning(p);
        say_reasoning(p, hit->text, strlen(hit->text));
        return;
    }
    sl_text_buffer_clear(&p->raw);
    sl_parser_put(p, &p->raw, p->blank.text, p->blank.bytes);
    sl_text_buffer_clear(&p->blank);
    p->bare = p->family->traits & SL_FAMILY_BARE && hit->next == 1;
    sl_parser_begin_call(p, hit->next);
    if (p->family->traits & SL_FAMILY_WHOLE)
        sl_parser_byte(p, hit->text[0]); /* it belongs to the first step */
    else
        sl_parser_put(p, &p->raw, hit->text, strlen(hit->text));
}

void sl_parser_content_byte(sl_message_parser *p, char byte) {
    sl_marker markers[4] = {{0}};
    const sl_marker *hit;
    if (p->family->traits & SL_FAMILY_CHANNELS) {
        sl_parser_between_byte(p, byte);
        return;
    }
    const int count = list_markers(p, markers);
    (void)sl_parser_scan(p, byte, markers, count, sl_parser_say, &hit);
    if (hit) start(p, hit);
}
