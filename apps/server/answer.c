/* answer.c - Tokens of one answer become events for its connection, on the engine's thread. */
#include "apps/server/engine.h"
#include <stdlib.h>
#include <string.h>

static const sl_model *model_of(const server_answer *a) {
    return server_engine_model(a->job->engine)->model;
}

static sl_expert_totals expert_totals(const server_answer *a) {
    sl_expert_totals totals = {.struct_size = sizeof totals};
    if (sl_model_expert_uses(model_of(a), NULL, 0, &totals, NULL) != SL_OK)
        totals = (sl_expert_totals){.struct_size = sizeof totals};
    return totals;
}

void server_answer_begin(server_answer *a) {
    a->before = expert_totals(a);
    a->result.prompt_tokens = a->prompt_count;
    a->result.queued_seconds = a->began - a->submitted;
}

static void tell(server_answer *a, server_event_kind kind, uint32_t call, const void *data,
                 size_t bytes) {
    const server_event event = {.kind = kind, .answer = a->index, .call = call, .bytes = bytes};
    server_job_tell(a->job, &event, data);
}

/* ---- Text ---- */

/* Content goes through the stop texts, which reasoning and calls do not. */
static void tell_content(server_answer *a, const char *text, size_t bytes) {
    const sl_stops *stops = a->job->stops;
    if (!stops) {
        tell(a, SERVER_EVENT_CONTENT, 0, text, bytes);
        return;
    }
    char *out = malloc(bytes + sl_stops_held_bytes(stops) + 1);
    if (!out) return;
    const size_t count = sl_stops_push(stops, &a->stop_stream, text, bytes, out);
    if (count) tell(a, SERVER_EVENT_CONTENT, 0, out, count);
    free(out);
    a->stopped = a->stop_stream.found > 0;
}

/* What was held back as the beginning of a stop text was none. */
static void flush_content(server_answer *a) {
    const sl_stops *stops = a->job->stops;
    if (!stops || a->stopped) return;
    char *out = malloc(sl_stops_held_bytes(stops) + 1);
    if (!out) return;
    const size_t count = sl_stops_finish(stops, &a->stop_stream, out);
    if (count) tell(a, SERVER_EVENT_CONTENT, 0, out, count);
    free(out);
    a->stop_stream = (sl_stop_stream){0};
}

static void tell_call(server_answer *a, const sl_message_event *event) {
    const size_t id = strlen(event->id) + 1, name = strlen(event->name);
    char *both = malloc(id + name);
    if (!both) return;
    memcpy(both, event->id, id);
    memcpy(both + id, event->name, name);
    flush_content(a);
    tell(a, SERVER_EVENT_CALL, event->call, both, id + name);
    free(both);
}

static void drain(server_answer *a) {
    sl_message_event event = {.struct_size = sizeof event};
    while (!a->stopped && sl_message_parser_next(a->parser, &event)) {
        switch (event.kind) {
        case SL_MESSAGE_REASONING:
            tell(a, SERVER_EVENT_REASONING, 0, event.text, event.bytes);
            break;
        case SL_MESSAGE_CONTENT:
            tell_content(a, event.text, event.bytes);
            break;
        case SL_MESSAGE_CALL:
            tell_call(a, &event);
            break;
        case SL_MESSAGE_ARGUMENTS:
            tell(a, SERVER_EVENT_ARGUMENTS, event.call, event.text, event.bytes);
            break;
        case SL_MESSAGE_CALL_END:
            tell(a, SERVER_EVENT_CALL_END, event.call, NULL, 0);
            break;
        case SL_MESSAGE_CALL_DROP:
            tell(a, SERVER_EVENT_CALL_DROP, event.call, NULL, 0);
            break;
        }
    }
}

/* ---- Tokens ---- */

static void tell_logprobs(server_answer *a) {
    uint32_t count = 0;
    const sl_logprob *logprobs = sl_sampler_logprobs(a->sampler, &count);
    if (count) tell(a, SERVER_EVENT_LOGPROBS, 0, logprobs, count * sizeof *logprobs);
}

static bool ends(const server_answer *a, sl_token token) {
    size_t index;
    const json_t *id;
    if (sl_model_token_ends(model_of(a), token)) return true;
    json_array_foreach(a->job->request->stop_tokens, index, id) {
        if (json_integer_value(id) == token) return true;
    }
    return false;
}

static void first_token(server_answer *a, sl_ticket *ticket) {
    sl_sync_report report = {.struct_size = sizeof report};
    a->first_token = server_seconds();
    a->decodes = true;
    a->result.prefill_seconds = a->first_token - a->began;
    if (sl_ticket_reuse(ticket, &report, NULL) != SL_OK) return;
    a->result.reused_tokens = report.reused;
    a->result.reason = report.reason;
    memcpy(a->result.reuse, report.text, sizeof a->result.reuse);
}

int server_answer_token(void *ctx, sl_ticket *ticket, sl_token token) {
    server_answer *a = ctx;
    const server_request *r = a->job->request;
    if (!a->decodes) first_token(a, ticket);
    if (r->most_tokens == 0) return 1;
    a->result.tokens++;
    if (ends(a, token)) {
        a->result.finish = SERVER_FINISH_STOP;
        return 1;
    }
    const bool reasons = sl_message_parser_is_reasoning(a->parser);
    if (r->logprobs && !reasons) tell_logprobs(a);
    if (sl_message_parser_feed_token(a->parser, model_of(a), token, &a->result.error) != SL_OK)
        return 1;
    drain(a);
    if (reasons && a->grammar_waits && !sl_message_parser_is_reasoning(a->parser))
        sl_ticket_constrain(ticket);
    const bool serial = r->serial_calls && sl_message_parser_calls(a->parser) > 0;
    return a->stopped || serial;
}

void server_answer_prompt_token(void *ctx, sl_ticket *ticket, size_t position,
                                const sl_logprob *logprobs, uint32_t count) {
    server_answer *a = ctx;
    (void)ticket, (void)position;
    tell(a, SERVER_EVENT_PROMPT_LOGPROBS, 0, logprobs, count * sizeof *logprobs);
}

/* ---- The end ---- */

static server_finish finish_of(server_answer *a, sl_ticket_end end) {
    if (end == SL_END_CANCELLED) return SERVER_FINISH_CANCELLED;
    if (end == SL_END_FAILED || a->result.error.status != SL_OK) return SERVER_FINISH_FAILED;
    if (a->stopped) return SERVER_FINISH_TEXT;
    if (end == SL_END_CONTEXT) return SERVER_FINISH_CONTEXT;
    if (sl_message_parser_calls(a->parser) > 0) return SERVER_FINISH_CALLS;
    if (end == SL_END_COUNT || a->job->request->most_tokens == 0) return SERVER_FINISH_LENGTH;
    return SERVER_FINISH_STOP;
}

static void count_experts(server_answer *a) {
    const sl_expert_totals now = expert_totals(a);
    a->result.hits = now.hits - a->before.hits;
    a->result.misses = now.misses - a->before.misses;
    a->result.bytes_read = now.bytes_read - a->before.bytes_read;
    a->result.stall_seconds = now.stall_seconds - a->before.stall_seconds;
}

void server_answer_end(server_answer *a, sl_ticket_end end) {
    if (a->parser && !a->stopped && sl_message_parser_finish(a->parser, &a->result.error) == SL_OK)
        drain(a);
    flush_content(a);
    if (end == SL_END_FAILED && a->ticket && a->result.error.status == SL_OK)
        (void)!sl_ticket_status(a->ticket, &a->result.error);
    a->result.finish = finish_of(a, end);
    if (a->stopped)
        a->result.stop_text =
            json_string_value(json_array_get(a->job->request->stops, a->stop_stream.found - 1));
    a->result.reasoning_tokens = sl_message_parser_reasoning_pieces(a->parser);
    if (a->decodes) a->result.decode_seconds = server_seconds() - a->first_token;
    if (a->session) count_experts(a);
    tell(a, SERVER_EVENT_END, 0, NULL, 0);
}
