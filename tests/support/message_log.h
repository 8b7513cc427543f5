/* message_log.h - Feeds a text to a message parser in pieces and writes down its events.
 *
 * In a log, events are separated by |: R: and C: for reasoning and content, B0: with a name where
 * call 0 begins, A0: its arguments, E0 its end, D0 where it is dropped.  Adjacent texts are joined,
 * so that logs can be compared however the text was cut. */
#ifndef SL_TESTS_SUPPORT_MESSAGE_LOG_H
#define SL_TESTS_SUPPORT_MESSAGE_LOG_H
#include "engine/choose/message/parser.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *text; /* of all events */
    char *json; /* the message */
    size_t reasoning_pieces;
    uint64_t work;
} message_log;

/* How many bytes the next piece has; at most `left`. */
typedef size_t message_cut_fn(void *ctx, size_t left);

static inline size_t message_cut_all(void *ctx, size_t left) {
    (void)ctx;
    return left;
}
static inline size_t message_cut_bytes(void *ctx, size_t left) {
    (void)ctx, (void)left;
    return 1;
}
/* ctx: a uint64_t, the state of a generator. */
static inline size_t message_cut_random(void *ctx, size_t left) {
    uint64_t *state = ctx;
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    const size_t bytes = 1 + (*state >> 33) % 12;
    return bytes < left ? bytes : left;
}

static inline void message_log_free(message_log *log) {
    free(log->text);
    sl_free(log->json);
    *log = (message_log){0};
}

static inline void message_log_events(sl_message_parser *parser, FILE *to, char last[16]) {
    sl_message_event event;
    while (sl_parser_next(parser, &event)) {
        char head[16];
        const char letter = "?RCBAED"[event.kind];
        if (event.kind < SL_MESSAGE_CALL)
            (void)snprintf(head, sizeof head, "%c:", letter);
        else
            (void)snprintf(head, sizeof head, "%c%u%s", letter, event.call,
                           event.kind > SL_MESSAGE_ARGUMENTS ? "" : ":");
        const int joins = strcmp(head, last) == 0 && event.kind != SL_MESSAGE_CALL;
        if (!joins) (void)fprintf(to, "%s%s", last[0] ? "|" : "", head);
        memcpy(last, head, sizeof head);
        if (event.kind == SL_MESSAGE_CALL)
            (void)fputs(event.name, to);
        else
            (void)fwrite(event.text, 1, event.bytes, to);
    }
}

/* NULL texts if the options are wrong or there is no memory; *out_status says which. */
static inline message_log message_log_of(const sl_message_parser_options *options, const char *text,
                                         size_t bytes, message_cut_fn *cut, void *ctx,
                                         sl_status *out_status) {
    message_log log = {0};
    sl_message_parser *parser = NULL;
    sl_error err;
    char last[16] = "";
    size_t size;
    *out_status = sl_parser_create(options, &parser, &err);
    FILE *to = *out_status == SL_OK ? open_memstream(&log.text, &size) : NULL;
    if (!to) return log;
    for (size_t at = 0; at < bytes && *out_status == SL_OK;) {
        const size_t count = cut(ctx, bytes - at);
        *out_status = sl_parser_feed(parser, (sl_slice){text + at, count}, true, &err);
        at += count;
        if (*out_status == SL_OK) message_log_events(parser, to, last);
    }
    if (*out_status == SL_OK) *out_status = sl_parser_finish(parser, &err);
    if (*out_status == SL_OK) message_log_events(parser, to, last);
    (void)fclose(to);
    if (*out_status == SL_OK) *out_status = sl_parser_json(parser, &log.json, &err);
    log.reasoning_pieces = sl_parser_reasoning_pieces(parser);
    log.work = sl_parser_work(parser);
    sl_parser_destroy(parser);
    return log;
}
#endif
