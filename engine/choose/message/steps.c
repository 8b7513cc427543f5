/* steps.c - Reads a call, step by step as its family says. */
#include "engine/choose/message/parser_state.h"
#include <string.h>

static const sl_call_step *current(const sl_message_parser *p) {
    return &p->family->steps[p->step];
}

static void enter(sl_message_parser *p, uint8_t step) {
    p->step = step;
    p->word_ends = p->json_begun = false;
    p->json = (sl_json_bytes){0};
    const sl_call_step_kind kind = current(p)->kind;
    if (kind == SL_STEP_ENVELOPE) {
        sl_text_buffer_clear(&p->envelope.arguments);
        p->envelope.at = p->envelope.part = 0;
        p->envelope.has_name = p->envelope.has_arguments = p->envelope.streams = false;
    }
    if (kind == SL_STEP_VALUE || kind == SL_STEP_TEXT || kind == SL_STEP_JSON)
        sl_parser_begin_value(p, kind); /* of the key in word */
    if (kind >= SL_STEP_KIND && kind <= SL_STEP_KEY) sl_text_buffer_clear(&p->word);
}

void sl_parser_begin_call(sl_message_parser *p, uint8_t step) {
    p->mode = SL_MODE_CALL;
    p->block_calls = 0;
    sl_text_buffer_clear(&p->id);
    enter(p, step);
}

static void leave(sl_message_parser *p) {
    p->mode = SL_MODE_CONTENT;
    p->said = false;
    p->trims = p->content.bytes == 0;
    sl_text_buffer_clear(&p->raw);
}

static void close(sl_message_parser *p) {
    sl_parser_close_call(p);
    p->block_calls++;
    sl_text_buffer_clear(&p->raw);
}

void sl_parser_malformed(sl_message_parser *p) {
    /* Less only if memory ran out. */
    const size_t bytes = p->raw.bytes > p->held_bytes ? p->raw.bytes - p->held_bytes : 0;
    if (p->open) sl_parser_drop_call(p);
    p->mode = SL_MODE_CONTENT;
    p->verbatim = true;
    if (p->block_calls) {
        p->said = false;
        p->trims = p->content.bytes == 0;
    }
    sl_parser_say_text(p, p->raw.text, bytes);
    sl_text_buffer_clear(&p->raw);
    sl_parser_again(p);
}

static void malformed_at(sl_message_parser *p, char byte) {
    p->held[p->held_bytes++] = byte;
    sl_parser_malformed(p);
}

static void advance(sl_message_parser *p, const sl_marker *marker) {
    if (marker->ends) close(p);
    if (marker->next != SL_STEP_LEAVE)
        enter(p, marker->next);
    else if (p->block_calls)
        leave(p);
    else
        sl_parser_malformed(p); /* a block without a call */
}

/* The call counts; what was read beyond it is content. */
static void leave_complete(sl_message_parser *p) {
    close(p);
    leave(p);
    sl_parser_again(p);
}

static void expect(sl_message_parser *p, char byte) {
    const sl_marker *hit = NULL;
    if (p->held_bytes == 0 && sl_is_blank(byte)) return;
    p->held[p->held_bytes++] = byte;
    const bool may = sl_parser_matches(p, current(p)->on, SL_STEP_MARKERS, &hit);
    if (hit) {
        p->held_bytes = 0;
        advance(p, hit);
    } else if (!may && current(p)->complete) {
        leave_complete(p);
    } else if (!may) {
        sl_parser_malformed(p);
    }
}

/* ---- Names and keys ---- */

static bool collect(sl_message_parser *p, char byte) {
    if (p->word.bytes == SL_MOST_NAME) return false;
    const sl_call_step_kind kind = current(p)->kind;
    if (kind == SL_STEP_NAME || kind == SL_STEP_ID) {
        if (sl_is_blank(byte)) {
            p->word_ends = p->word.bytes > 0;
            return true;
        }
        if (p->word_ends) return false;
        if (!sl_parser_name_fits(&byte, 1)) return false;
    }
    if (kind == SL_STEP_KEY && byte == '\n') return false;
    sl_parser_put(p, &p->word, &byte, 1);
    return true;
}

static bool word_is_good(const sl_message_parser *p) {
    const sl_call_step_kind kind = current(p)->kind;
    if (kind == SL_STEP_KEY) return p->word.bytes > 0;
    if (kind == SL_STEP_KIND) return true;
    if (!sl_parser_name_fits(p->word.text, p->word.bytes)) return false;
    return kind != SL_STEP_NAME || !p->bare || json_object_get(p->schemas, p->word.text);
}

/* A name is kept until its id is known. */
static void take_word(sl_message_parser *p, const sl_marker *hit) {
    const sl_call_step_kind kind = current(p)->kind;
    if (kind == SL_STEP_ID) {
        sl_text_buffer_clear(&p->id);
        sl_parser_put(p, &p->id, p->word.text, p->word.bytes);
        sl_parser_open_call(p, p->value.text, p->value.bytes);
    } else if (kind == SL_STEP_NAME && hit->next < p->family->step_count &&
               p->family->steps[hit->next].kind == SL_STEP_ID) {
        sl_text_buffer_clear(&p->value);
        sl_parser_put(p, &p->value, p->word.text, p->word.bytes);
    } else if (kind == SL_STEP_NAME) {
        sl_parser_open_call(p, p->word.text, p->word.bytes);
    }
}

static void end_word(sl_message_parser *p, const sl_marker *hit) {
    if (!word_is_good(p)) {
        sl_parser_malformed(p);
        return;
    }
    take_word(p, hit);
    advance(p, hit);
}

static void word(sl_message_parser *p, char byte) {
    const sl_marker *hit;
    if (!sl_parser_scan(p, byte, current(p)->on, SL_STEP_MARKERS, collect, &hit))
        sl_parser_malformed(p);
    else if (hit)
        end_word(p, hit);
}

static void value(sl_message_parser *p, char byte) {
    const sl_marker *hit;
    (void)sl_parser_scan(p, byte, current(p)->on, SL_STEP_MARKERS, sl_parser_value_byte, &hit);
    if (!hit) return;
    sl_parser_end_value(p);
    advance(p, hit);
}

static void json(sl_message_parser *p, char byte) {
    bool done = false;
    const bool good = current(p)->kind == SL_STEP_ARGS ? sl_parser_args_byte(p, byte, &done)
                                                       : sl_parser_envelope_byte(p, byte, &done);
    if (!good)
        malformed_at(p, byte);
    else if (done)
        advance(p, &current(p)->on[0]);
}

void sl_parser_call_byte(sl_message_parser *p, char byte) {
    sl_parser_put(p, &p->raw, &byte, 1);
    if (current(p)->kind == SL_STEP_FORK) {
        if (sl_is_blank(byte)) return;
        enter(p, current(p)->on[byte == current(p)->on[0].text[0] ? 0 : 1].next);
    }
    switch (current(p)->kind) {
    case SL_STEP_EXPECT:
        expect(p, byte);
        break;
    case SL_STEP_VALUE:
    case SL_STEP_TEXT:
    case SL_STEP_JSON:
        value(p, byte);
        break;
    case SL_STEP_ARGS:
    case SL_STEP_ENVELOPE:
        json(p, byte);
        break;
    default:
        word(p, byte);
    }
}

/* Closing tags may be missing or cut. */
void sl_parser_end_steps(sl_message_parser *p) {
    const bool between = !p->open && p->block_calls && current(p)->kind == SL_STEP_EXPECT;
    if (!between && !current(p)->complete) {
        sl_parser_malformed(p);
        return;
    }
    if (!between) close(p);
    p->held_bytes = 0;
    leave(p);
}
