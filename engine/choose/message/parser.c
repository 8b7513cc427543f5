/* parser.c - Feeds bytes to the mode that the parser is in. */
#include "engine/choose/message/parser.h"
#include "engine/choose/message/parser_state.h"
#include "engine/choose/message/schemas.h"
#include <string.h>

void sl_parser_put(sl_message_parser *p, sl_text_buffer *to, const char *text, size_t bytes) {
    p->work += bytes;
    if (!sl_text_buffer_append(to, &p->allocator, text, bytes)) p->no_memory = true;
}

/* ---- Markers ---- */

bool sl_parser_matches(sl_message_parser *p, const sl_marker *markers, int most,
                       const sl_marker **hit) {
    bool may = false;
    for (int i = 0; i < most && markers[i].text; i++) {
        const size_t bytes = strlen(markers[i].text);
        p->work++;
        if (bytes < p->held_bytes || memcmp(markers[i].text, p->held, p->held_bytes) != 0) continue;
        may = true;
        if (bytes == p->held_bytes) *hit = &markers[i];
    }
    return may;
}

bool sl_parser_scan(sl_message_parser *p, char byte, const sl_marker *markers, int most,
                    sl_pass_fn *pass, const sl_marker **hit) {
    *hit = NULL;
    const bool plain = p->held_bytes == 0 && !p->marks && p->family->traits & SL_FAMILY_CONTROL;
    if (plain && pass(p, byte)) return true;
    p->held[p->held_bytes++] = byte;
    if (plain) return false;
    while (p->held_bytes && !sl_parser_matches(p, markers, most, hit)) {
        const char first = p->held[0];
        memmove(p->held, p->held + 1, --p->held_bytes);
        if (pass(p, first)) continue;
        memmove(p->held + 1, p->held, p->held_bytes++);
        p->held[0] = first;
        return false;
    }
    if (*hit) p->held_bytes = 0;
    return true;
}

void sl_parser_again(sl_message_parser *p) {
    char bytes[SL_HELD_BYTES];
    const size_t count = p->held_bytes;
    memcpy(bytes, p->held, count);
    p->held_bytes = 0;
    for (size_t i = 0; i < count; i++) sl_parser_byte(p, bytes[i]);
}

void sl_parser_byte(sl_message_parser *p, char byte) {
    p->work++;
    if (p->no_memory) return;
    switch (p->mode) {
    case SL_MODE_CONTENT:
        sl_parser_content_byte(p, byte);
        break;
    case SL_MODE_REASONING:
        sl_parser_reasoning_byte(p, byte);
        break;
    case SL_MODE_CALL:
        sl_parser_call_byte(p, byte);
        break;
    case SL_MODE_HEADING:
        sl_parser_heading_byte(p, byte);
        break;
    }
}

/* ---- Feeding ---- */

static void push(sl_message_parser *p, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) sl_parser_byte(p, text[i]);
}

static sl_status memory_status(const sl_message_parser *p, sl_error *err) {
    return p->no_memory ? sl_no_memory(err, "a message", p->content.bytes) : SL_OK;
}

/* Events that were taken make room for new ones. */
static void forget_events(sl_message_parser *p) {
    if (p->event_next < p->event_count) return;
    p->event_next = p->event_count = 0;
}

sl_status sl_parser_feed(sl_message_parser *p, sl_slice text, bool marks, sl_error *err) {
    enum { PART = 256 };
    char whole[3 * (PART + 4)];
    if (p->finished) return sl_fail(err, SL_INVALID, "the message has ended, wanted no more text");
    const bool was_reasoning = p->mode == SL_MODE_REASONING;
    forget_events(p);
    p->marks = marks;
    for (size_t at = 0; at < text.bytes; at += PART) {
        const size_t left = text.bytes - at, bytes = left < PART ? left : PART;
        push(p, whole, sl_utf8_stream_push(&p->stream, text.text + at, bytes, whole));
    }
    p->pieces++;
    p->reasoning_pieces += was_reasoning || p->mode == SL_MODE_REASONING;
    return memory_status(p, err);
}

void sl_parser_skip(sl_message_parser *p) {
    p->pieces++;
    p->reasoning_pieces += p->mode == SL_MODE_REASONING;
}

static void pass_held(sl_message_parser *p, sl_pass_fn *pass) {
    const size_t count = p->held_bytes;
    p->held_bytes = 0;
    for (size_t i = 0; i < count; i++) (void)pass(p, p->held[i]);
}

sl_status sl_parser_finish(sl_message_parser *p, sl_error *err) {
    char rest[16];
    if (p->finished) return SL_OK;
    forget_events(p);
    push(p, rest, sl_utf8_stream_finish(&p->stream, rest));
    /* What a malformed call has in it may begin another. */
    while (p->mode == SL_MODE_CALL || p->mode == SL_MODE_HEADING)
        if (p->mode == SL_MODE_CALL)
            sl_parser_end_steps(p);
        else
            sl_parser_end_heading(p);
    pass_held(p, p->mode == SL_MODE_REASONING ? sl_parser_think : sl_parser_say);
    sl_parser_end_content(p);
    p->finished = true;
    return memory_status(p, err);
}

/* ---- Beginning and end ---- */

static size_t length_without_blanks(const char *text) {
    size_t bytes = strlen(text);
    while (bytes && sl_is_blank(text[bytes - 1])) bytes--;
    return bytes;
}

static void read_prompt(sl_message_parser *p, const char *prompt) {
    const char *open = p->family->think;
    const size_t bytes = length_without_blanks(prompt), wanted = strlen(open);
    if (p->family->traits & SL_FAMILY_CHANNELS)
        sl_parser_prompt_heading(p, prompt);
    else if (wanted && bytes >= wanted && memcmp(prompt + bytes - wanted, open, wanted) == 0)
        sl_parser_begin_reasoning(p);
}

sl_status sl_parser_create(const sl_message_parser_options *options, sl_message_parser **out,
                           sl_error *err) {
    const sl_message_family *family =
        sl_message_family_find(options->family ? options->family : "none");
    if (!family) return sl_fail(err, SL_INVALID, "message family '%s' is unknown", options->family);
    if (options->reasoning < SL_REASONING_SEPARATE || options->reasoning > SL_REASONING_BOTH)
        return sl_fail(err, SL_INVALID, "reasoning format %d, wanted 0 to 2",
                       (int)options->reasoning);
    const sl_allocator allocator = *sl_allocator_or_default(&options->allocator);
    sl_message_parser *p = sl_allocate(&allocator, sizeof *p, _Alignof(sl_message_parser));
    if (!p) return sl_no_memory(err, "a message parser", sizeof *p);
    p->allocator = allocator;
    p->family = family;
    p->format = options->reasoning;
    p->whole_calls = options->whole_calls != 0;
    p->id_state = options->id_seed;
    p->marks = true;
    const sl_status status = sl_schemas_create(options->tools_json, &p->schemas, err);
    if (status != SL_OK) {
        sl_parser_destroy(p);
        return status;
    }
    if (options->prompt) read_prompt(p, options->prompt);
    if (options->starts_reasoning && p->mode != SL_MODE_REASONING) sl_parser_begin_reasoning(p);
    *out = p;
    return SL_OK;
}

void sl_parser_destroy(sl_message_parser *p) {
    if (!p) return;
    const sl_allocator allocator = p->allocator;
    enum { BUFFERS = 10 };
    sl_text_buffer *const buffers[BUFFERS] = {&p->content,        &p->reasoning,
                                              &p->blank,          &p->raw,
                                              &p->word,           &p->id,
                                              &p->value,          &p->envelope.key,
                                              &p->envelope.value, &p->envelope.arguments};
    for (size_t i = 0; i < BUFFERS; i++) sl_text_buffer_deinit(buffers[i], &allocator);
    for (size_t i = 0; i < p->call_count; i++) {
        sl_text_buffer_deinit(&p->calls[i].name, &allocator);
        sl_text_buffer_deinit(&p->calls[i].arguments, &allocator);
    }
    sl_release(&allocator, p->calls, p->call_room * sizeof *p->calls, _Alignof(sl_parsed_call));
    sl_release(&allocator, p->events, p->event_room * sizeof *p->events, _Alignof(sl_parsed_event));
    json_decref(p->schemas);
    sl_release(&allocator, p, sizeof *p, _Alignof(sl_message_parser));
}

const sl_message_family *sl_parser_family(const sl_message_parser *p) {
    return p->family;
}
size_t sl_parser_pieces(const sl_message_parser *p) {
    return p->pieces;
}
bool sl_parser_is_reasoning(const sl_message_parser *p) {
    return p->mode == SL_MODE_REASONING || p->mode == SL_MODE_HEADING;
}
size_t sl_parser_reasoning_pieces(const sl_message_parser *p) {
    return p->reasoning_pieces;
}
size_t sl_parser_calls(const sl_message_parser *p) {
    return p->complete_count;
}
uint64_t sl_parser_work(const sl_message_parser *p) {
    return p->work;
}
