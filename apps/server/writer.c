#include "apps/server/writer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const server_form *const forms[SERVER_SHAPE_COUNT] = {
    [SERVER_CHAT] = &server_chat_form,
    [SERVER_COMPLETIONS] = &server_completions_form,
    [SERVER_RESPONSES] = &server_responses_form,
    [SERVER_MESSAGES] = &server_messages_form,
};

void server_random_id(const char *prefix, char *out, size_t capacity) {
    static const char letters[] = "0123456789abcdefghijklmnopqrstuv";
    unsigned char random[24] = {0};
    (void)!getrandom(random, sizeof random, 0);
    char text[25];
    for (size_t i = 0; i < 24; i++) text[i] = letters[random[i] % 32];
    text[24] = '\0';
    (void)snprintf(out, capacity, "%s%s", prefix, text);
}

bool server_writer_init(server_writer *w, const server_request *request, const server_model *model,
                        server_job *job, uint32_t answers) {
    *w = (server_writer){.form = forms[request->shape],
                         .request = request,
                         .model = model,
                         .job = job,
                         .created = time(NULL),
                         .count = answers};
    server_random_id(w->form->prefix, w->id, sizeof w->id);
    w->messages = calloc(answers, sizeof *w->messages);
    if (!w->messages) return false;
    for (uint32_t i = 0; i < answers; i++) w->messages[i].fresh = json_array();
    return true;
}

void server_writer_deinit(server_writer *w) {
    for (uint32_t i = 0; w->messages && i < w->count; i++) {
        server_message *message = &w->messages[i];
        for (uint32_t p = 0; p < message->count; p++) {
            server_text_free(&message->parts[p].text);
            json_decref(message->parts[p].logprobs);
        }
        free(message->parts);
        json_decref(message->fresh);
        json_decref(message->prompt_probs);
    }
    free(w->messages);
    server_text_free(&w->out);
    *w = (server_writer){0};
}

void server_writer_send(server_writer *w, const char *name, json_t *data) {
    if (name) server_text_print(&w->out, "event: %s\n", name);
    server_text_add(&w->out, "data: ", 6);
    server_json_print(&w->out, data);
    server_text_add(&w->out, "\n\n", 2);
}

/* ---- Parts ---- */

static void begin(server_writer *w) {
    if (w->begun || !w->request->stream) return;
    w->begun = true;
    if (w->form->begin) w->form->begin(w);
}

static server_part *add_part(server_message *message, server_part_kind kind) {
    if (message->count == message->capacity) {
        const uint32_t capacity = message->capacity ? message->capacity * 2 : 4;
        server_part *larger = realloc(message->parts, capacity * sizeof *larger);
        if (!larger) return NULL;
        message->parts = larger;
        message->capacity = capacity;
    }
    server_part *part = &message->parts[message->count++];
    *part = (server_part){.kind = kind, .logprobs = json_array()};
    static const char *const prefixes[] = {"rs_", "msg_", "fc_"};
    server_random_id(prefixes[kind], part->item, sizeof part->item);
    message->open = true;
    return part;
}

static void close_part(server_writer *w, uint32_t answer) {
    server_message *message = &w->messages[answer];
    if (!message->open) return;
    message->open = false;
    if (w->request->stream && w->form->close)
        w->form->close(w, answer, &message->parts[message->count - 1]);
}

/* The open part if it is of this kind, else a new one. */
static server_part *part_of(server_writer *w, uint32_t answer, server_part_kind kind) {
    server_message *message = &w->messages[answer];
    if (message->open && message->parts[message->count - 1].kind == kind)
        return &message->parts[message->count - 1];
    close_part(w, answer);
    server_part *part = add_part(message, kind);
    if (part && kind != SERVER_PART_CALL && w->request->stream && w->form->open)
        w->form->open(w, answer, part);
    return part;
}

static void take_text(server_writer *w, const server_event *event, server_part_kind kind) {
    server_message *message = &w->messages[event->answer];
    server_part *part = part_of(w, event->answer, kind);
    if (!part) return;
    server_text_add(&part->text, event->data, event->bytes);
    /* Streams repeat them at the end of a part or not at all. */
    if (kind == SERVER_PART_CONTENT && (!w->request->stream || w->form->close))
        (void)json_array_extend(part->logprobs, message->fresh);
    if (w->request->stream) {
        json_t *text = server_json_text(event->data, event->bytes);
        w->form->more(w, event->answer, part, text);
        json_decref(text);
    }
    (void)json_array_clear(message->fresh);
}

static void take_call(server_writer *w, const server_event *event) {
    close_part(w, event->answer);
    (void)json_array_clear(w->messages[event->answer].fresh);
    server_part *part = add_part(&w->messages[event->answer], SERVER_PART_CALL);
    if (!part) return;
    const size_t id = strnlen(event->data, event->bytes);
    part->call = event->call;
    /* The same letters with the prefix of the vendor. */
    const bool other =
        w->request->shape == SERVER_MESSAGES && id > 5 && strncmp(event->data, "call_", 5) == 0;
    const size_t skipped = other ? 5 : 0;
    (void)snprintf(part->id, sizeof part->id, "%s%.*s", other ? "toolu_" : "", (int)(id - skipped),
                   event->data + skipped);
    if (id < event->bytes)
        (void)snprintf(part->name, sizeof part->name, "%.*s", (int)(event->bytes - id - 1),
                       event->data + id + 1);
    if (w->request->stream && w->form->open) w->form->open(w, event->answer, part);
}

static void take_drop(server_writer *w, const server_event *event) {
    server_message *message = &w->messages[event->answer];
    if (message->open) message->parts[message->count - 1].dropped = true;
    close_part(w, event->answer);
}

/* ---- Log-probabilities ---- */

static json_t *token_json(const server_model *model, const sl_logprob *item) {
    size_t bytes = 0;
    const char *text = model->model ? sl_model_token_text(model->model, item->token, &bytes) : "";
    json_t *list = json_array();
    for (size_t i = 0; i < bytes; i++)
        (void)json_array_append_new(list, json_integer((unsigned char)text[i]));
    /* JSON has no infinity; the vendors write this for what cannot be. */
    const double logprob = isfinite(item->logprob) ? item->logprob : -9999;
    return json_pack("{s:o, s:f, s:o}", "token", server_json_text(text, bytes), "logprob", logprob,
                     "bytes", list);
}

/* In the form of the chat, which the other forms are made from. */
static json_t *logprobs_json(const server_writer *w, const server_event *event) {
    const sl_logprob *items = (const sl_logprob *)(const void *)event->data;
    const size_t count = event->bytes / sizeof *items;
    if (count == 0) return NULL;
    json_t *token = token_json(w->model, &items[0]), *top = json_array();
    for (size_t i = 1; i < count; i++)
        (void)json_array_append_new(top, token_json(w->model, &items[i]));
    (void)json_object_set_new(token, "top_logprobs", top);
    return token;
}

/* ---- Events ---- */

static void take_end(server_writer *w, const server_event *event) {
    server_message *message = &w->messages[event->answer];
    close_part(w, event->answer);
    message->complete = true;
    if (w->request->stream && w->form->end && message->result->finish != SERVER_FINISH_FAILED)
        w->form->end(w, event->answer);
}

static void take_event(server_writer *w, const server_event *event) {
    server_message *message = &w->messages[event->answer];
    if (w->job && !message->result) message->result = &w->job->answers[event->answer].result;
    if (event->kind == SERVER_EVENT_PROMPT_LOGPROBS) {
        if (!message->prompt_probs) message->prompt_probs = json_array();
        (void)json_array_append_new(message->prompt_probs, logprobs_json(w, event));
        return;
    }
    if (event->kind == SERVER_EVENT_LOGPROBS) {
        (void)json_array_append_new(message->fresh, logprobs_json(w, event));
        return;
    }
    begin(w);
    switch (event->kind) {
    case SERVER_EVENT_REASONING:
        take_text(w, event, SERVER_PART_REASONING);
        break;
    case SERVER_EVENT_CONTENT:
        take_text(w, event, SERVER_PART_CONTENT);
        break;
    case SERVER_EVENT_ARGUMENTS:
        take_text(w, event, SERVER_PART_CALL);
        break;
    case SERVER_EVENT_CALL:
        take_call(w, event);
        break;
    case SERVER_EVENT_CALL_END:
        close_part(w, event->answer);
        break;
    case SERVER_EVENT_CALL_DROP:
        take_drop(w, event);
        break;
    case SERVER_EVENT_END:
        take_end(w, event);
        break;
    case SERVER_EVENT_LOGPROBS:
    case SERVER_EVENT_PROMPT_LOGPROBS:
        break;
    }
}

void server_writer_take(server_writer *w, const server_event *events) {
    for (const server_event *event = events; event; event = event->next) take_event(w, event);
}

bool server_writer_failed(const server_writer *w, server_error *err) {
    for (uint32_t i = 0; i < w->count; i++) {
        const server_result *result = w->messages[i].result;
        if (!result || result->finish != SERVER_FINISH_FAILED) continue;
        (void)server_refuse_status(err, &result->error, NULL);
        return true;
    }
    return false;
}

void server_writer_finish(server_writer *w) {
    server_error err;
    if (w->done) return;
    w->done = true;
    begin(w);
    if (server_writer_failed(w, &err))
        w->form->fail(w, &err);
    else
        w->form->finish(w);
}

void server_writer_ping(server_writer *w) {
    const uint32_t place = w->job ? server_job_place(w->job) : 0;
    sl_ticket_state state;
    if (place)
        server_text_print(&w->out, ": place %u in the queue\n\n", place);
    else if (w->job && server_job_progress(w->job, &state) && state.phase == SL_TICKET_PREFILL)
        server_text_print(&w->out, ": %zu of %zu tokens of the prompt\n\n",
                          (size_t)state.prompt_done, (size_t)state.prompt_tokens);
    else if (!w->form->wait)
        server_text_print(&w->out, ": waiting\n\n");
    if (!w->form->wait) return;
    begin(w);
    w->form->wait(w);
}

void server_writer_progress(server_writer *w, const sl_ticket_state *state) {
    if (!w->form->progress || state->phase != SL_TICKET_PREFILL ||
        state->prompt_done == w->progress)
        return;
    w->progress = state->prompt_done;
    if (w->form->wait) begin(w); /* its first event comes first */
    w->form->progress(
        w,
        json_pack("{s:I, s:I, s:I, s:f}", "total", (json_int_t)state->prompt_tokens, "cache",
                  (json_int_t)state->reused, "processed", (json_int_t)state->prompt_done, "time_ms",
                  w->job ? (server_seconds() - w->job->answers[0].began) * 1e3 : 0.0));
}

json_t *server_writer_whole(server_writer *w) {
    return w->form->whole(w);
}

/* ---- What forms share ---- */

server_usage server_writer_usage(const server_writer *w) {
    server_usage usage = {0};
    for (uint32_t i = 0; i < w->count; i++) {
        const server_result *result = w->messages[i].result;
        if (!result) { /* nothing has come yet */
            if (w->job && i % w->request->n == 0) usage.prompt += w->job->answers[i].prompt_count;
            continue;
        }
        if (w->messages[i].complete) { /* until then they are the engine's */
            usage.tokens += result->tokens;
            usage.reasoning += result->reasoning_tokens;
        }
        if (i % w->request->n) continue;
        usage.prompt += result->prompt_tokens;
        usage.reused += result->reused_tokens;
    }
    return usage;
}

json_t *server_chat_usage(const server_writer *w) {
    const server_usage u = server_writer_usage(w);
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:I}, s:{s:I}}", "prompt_tokens",
                     (json_int_t)u.prompt, "completion_tokens", (json_int_t)u.tokens,
                     "total_tokens", (json_int_t)(u.prompt + u.tokens), "prompt_tokens_details",
                     "cached_tokens", (json_int_t)u.reused, "cache_write_tokens",
                     (json_int_t)(u.prompt - u.reused), "completion_tokens_details",
                     "reasoning_tokens", (json_int_t)u.reasoning);
}

static double per(double amount, double of) {
    return of > 0 ? amount / of : 0;
}

void server_add_timings(const server_writer *w, json_t *response) {
    const server_result *r = w->messages[0].result;
    if (!r) return;
    const double computed = (double)(r->prompt_tokens - r->reused_tokens);
    const double prompt_ms = r->prefill_seconds * 1e3, predicted_ms = r->decode_seconds * 1e3;
    const double tokens = (double)r->tokens;
    json_t *timings = json_pack(
        "{s:I, s:I, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f}", "cache_n",
        (json_int_t)r->reused_tokens, "prompt_n", (json_int_t)computed, "prompt_ms", prompt_ms,
        "prompt_per_token_ms", per(prompt_ms, computed), "prompt_per_second",
        per(computed * 1e3, prompt_ms), "predicted_n", (json_int_t)r->tokens, "predicted_ms",
        predicted_ms, "predicted_per_token_ms", per(predicted_ms, tokens), "predicted_per_second",
        per(tokens * 1e3, predicted_ms), "queue_ms", r->queued_seconds * 1e3);
    (void)json_object_set_new(response, "timings", timings);
    (void)json_object_set_new(response, "sluice",
                              json_pack("{s:f, s:I, s:I, s:I, s:s}", "stall_ms",
                                        r->stall_seconds * 1e3, "bytes_read",
                                        (json_int_t)r->bytes_read, "hits", (json_int_t)r->hits,
                                        "misses", (json_int_t)r->misses, "reuse", r->reuse));
}

const char *server_finish_reason(server_finish finish) {
    switch (finish) {
    case SERVER_FINISH_CANCELLED: /* it took too long */
    case SERVER_FINISH_LENGTH:
    case SERVER_FINISH_CONTEXT:
        return "length";
    case SERVER_FINISH_CALLS:
        return "tool_calls";
    default:
        return "stop";
    }
}

const char *server_miss_reason(const server_result *result) {
    switch (result->reason) {
    case SL_REUSE_NOTHING_KEPT:
        return "previous_message_not_found";
    case SL_REUSE_OTHER_TOKENS:
    case SL_REUSE_NO_CHECKPOINT:
        return "messages_changed";
    default:
        return NULL;
    }
}

json_t *server_part_json(const server_part *part) {
    return server_json_text(part->text.bytes ? part->text.bytes : "", part->text.length);
}
