/* calls.c - The records of calls, their ids and arguments, and the queue of events. */
#include "base/sizes.h"
#include "engine/choose/message/parser_state.h"
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { FEWEST = 8, LONG_ID = 24, SHORT_ID = 9 };

/* Room for one more item, or a lack of memory that is remembered. */
static bool make_room(sl_message_parser *p, void **items, size_t count, size_t *room,
                      size_t item_bytes) {
    if (count < *room) return true;
    const size_t wanted = *room ? 2 * *room : FEWEST;
    uint64_t bytes;
    void *larger = NULL;
    if (sl_multiply(wanted, item_bytes, &bytes) && bytes <= PTRDIFF_MAX)
        larger = sl_resize(&p->allocator, *items, *room * item_bytes, bytes, _Alignof(max_align_t));
    if (!larger) {
        p->no_memory = true;
        return false;
    }
    *items = larger;
    *room = wanted;
    return true;
}

void sl_parser_event(sl_message_parser *p, sl_message_event_kind kind, uint32_t call, size_t start,
                     size_t end) {
    sl_parsed_event *last = p->event_count ? &p->events[p->event_count - 1] : NULL;
    const bool is_text =
        kind == SL_MESSAGE_CONTENT || kind == SL_MESSAGE_REASONING || kind == SL_MESSAGE_ARGUMENTS;
    if (is_text && start == end) return;
    if (is_text && p->event_next < p->event_count && last->kind == kind && last->call == call &&
        last->end == start) {
        last->end = end;
        return;
    }
    void *items = p->events;
    if (!make_room(p, &items, p->event_count, &p->event_room, sizeof *p->events)) return;
    p->events = items;
    p->events[p->event_count++] = (sl_parsed_event){kind, call, start, end};
}

/* ---- Ids ---- */

static uint64_t next_random(sl_message_parser *p) {
    uint64_t z = p->id_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void random_bytes(sl_message_parser *p, unsigned char *out, size_t count) {
    if (p->id_state == 0 && getrandom(out, count, 0) == (ssize_t)count) return;
    if (p->id_state == 0) { /* a kernel without getrandom: unique, if not unguessable */
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        p->id_state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32 ^ (uintptr_t)p;
    }
    for (size_t i = 0; i < count; i++) out[i] = (unsigned char)next_random(p);
}

static void make_id(sl_message_parser *p, char out[SL_ID_BYTES + 1]) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const bool is_short = p->family->traits & SL_FAMILY_SHORT_ID;
    const size_t count = is_short ? SHORT_ID : LONG_ID, before = is_short ? 0 : 5;
    unsigned char random[LONG_ID];
    random_bytes(p, random, count);
    memcpy(out, "call_", before);
    for (size_t i = 0; i < count; i++) out[before + i] = letters[random[i] % (sizeof letters - 1)];
    out[before + count] = '\0';
}

/* ---- Calls ---- */

bool sl_parser_name_fits(const char *name, size_t bytes) {
    if (bytes == 0 || bytes > SL_MOST_NAME) return false;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)name[i];
        if (byte <= ' ' || byte == 0x7f || strchr("<>\"{}[]", byte)) return false;
    }
    return true;
}

static sl_parsed_call *last_call(const sl_message_parser *p) {
    return &p->calls[p->call_count - 1];
}

void sl_parser_open_call(sl_message_parser *p, const char *name, size_t bytes) {
    void *items = p->calls;
    if (!make_room(p, &items, p->call_count, &p->call_room, sizeof *p->calls)) return;
    p->calls = items;
    p->calls[p->call_count++] = (sl_parsed_call){0};
    p->open = true;
    p->parameters = 0;
    sl_parser_put(p, &last_call(p)->name, name, bytes);
    if (p->id.bytes && p->id.bytes <= SL_ID_BYTES)
        memcpy(last_call(p)->id, p->id.text, p->id.bytes + 1);
    else
        make_id(p, last_call(p)->id);
    sl_text_buffer_clear(&p->id);
    if (!p->whole_calls) sl_parser_event(p, SL_MESSAGE_CALL, (uint32_t)p->call_count - 1, 0, 0);
}

void sl_parser_arguments(sl_message_parser *p, const char *text, size_t bytes) {
    if (!p->open) return; /* without memory */
    sl_text_buffer *to = &last_call(p)->arguments;
    const size_t start = to->bytes;
    sl_parser_put(p, to, text, bytes);
    if (!p->whole_calls)
        sl_parser_event(p, SL_MESSAGE_ARGUMENTS, (uint32_t)p->call_count - 1, start, to->bytes);
}

size_t sl_parser_escape(char byte, char out[6]) {
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb",
                      digits[] = "0123456789abcdef";
    const char *known = byte ? strchr(special, byte) : NULL;
    const unsigned char value = (unsigned char)byte;
    if (known) {
        memcpy(out, (char[]){'\\', letters[known - special]}, 2);
        return 2;
    }
    if (value >= 0x20) {
        out[0] = byte;
        return 1;
    }
    memcpy(out, (char[]){'\\', 'u', '0', '0', digits[value >> 4], digits[value & 15]}, 6);
    return 6;
}

void sl_parser_arguments_escaped(sl_message_parser *p, char byte) {
    char escaped[6];
    const size_t bytes = sl_parser_escape(byte, escaped);
    sl_parser_arguments(p, escaped, bytes);
}

void sl_parser_close_call(sl_message_parser *p) {
    if (!p->open) return;
    const uint32_t index = (uint32_t)p->call_count - 1;
    if (last_call(p)->arguments.bytes == 0)
        sl_parser_arguments(p, "{}", 2);
    else if (p->parameters)
        sl_parser_arguments(p, "}", 1);
    if (p->whole_calls) {
        sl_parser_event(p, SL_MESSAGE_CALL, index, 0, 0);
        sl_parser_event(p, SL_MESSAGE_ARGUMENTS, index, 0, last_call(p)->arguments.bytes);
    }
    sl_parser_event(p, SL_MESSAGE_CALL_END, index, 0, 0);
    last_call(p)->complete = true;
    p->complete_count++;
    p->open = false;
}

/* Nobody was told of it if calls are whole: its place is free. */
void sl_parser_drop_call(sl_message_parser *p) {
    sl_parsed_call *call = last_call(p);
    if (!p->open) return;
    p->open = false;
    call->dropped = true;
    if (!p->whole_calls) {
        sl_parser_event(p, SL_MESSAGE_CALL_DROP, (uint32_t)p->call_count - 1, 0, 0);
        return;
    }
    sl_text_buffer_deinit(&call->name, &p->allocator);
    sl_text_buffer_deinit(&call->arguments, &p->allocator);
    p->call_count--;
}

bool sl_parser_next(sl_message_parser *p, sl_message_event *out) {
    if (p->event_next == p->event_count) return false;
    const sl_parsed_event event = p->events[p->event_next++];
    *out = (sl_message_event){.struct_size = sizeof *out, .kind = event.kind, .call = event.call};
    const sl_parsed_call *call = event.kind >= SL_MESSAGE_CALL ? &p->calls[event.call] : NULL;
    if (call) {
        out->name = call->name.text;
        out->id = call->id;
    }
    const sl_text_buffer *from = event.kind == SL_MESSAGE_CONTENT     ? &p->content
                                 : event.kind == SL_MESSAGE_REASONING ? &p->reasoning
                                 : call                               ? &call->arguments
                                                                      : NULL;
    out->bytes = event.end - event.start;
    out->text = out->bytes && from ? from->text + event.start : "";
    return true;
}
