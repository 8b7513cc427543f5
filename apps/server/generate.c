/* generate.c - Endpoints that generate: from a body to a stream or a whole response. */
#include "apps/server/server.h"
#include <string.h>

bool server_exchange_parse(server_exchange *x, json_t **out, server_error *err) {
    if (x->body.length == 0) return server_refuse(err, 400, NULL, "the request has no body");
    *out = server_json_parse(x->body.bytes, x->body.length, err);
    server_text_free(&x->body);
    return *out != NULL;
}

/* Puts the conversation that a response ended before the messages of the request. */
static bool add_previous(server_exchange *x, server_error *err) {
    server_request *r = &x->request;
    json_t *before = NULL, *message;
    size_t index, at = server_json_get(r->body, "instructions") ? 1 : 0;
    if (!r->previous) return true;
    if (!server_store_get(x->server->store, r->previous, x->owner, &before, NULL))
        return server_refuse(err, 400, "previous_response_id",
                             "previous_response_id: '%.60s' is not known (any more)", r->previous);
    json_array_foreach(before, index, message)(void) json_array_insert(r->messages, at++, message);
    json_decref(before);
    return true;
}

bool server_exchange_use(server_exchange *x, const char *name, server_error *err) {
    x->holds = server_models_hold(x, name && name[0] ? name : NULL, err);
    return x->holds;
}

bool server_exchange_use_present(server_exchange *x) {
    x->holds = server_models_hold_present(x->server);
    return x->holds;
}

bool server_exchange_look(server_exchange *x, server_error *err) {
    return server_exchange_use_present(x) || server_exchange_use(x, NULL, err);
}

static bool begin(server_exchange *x, server_shape shape, server_error *err) {
    json_t *body = NULL;
    if (!server_exchange_parse(x, &body, err)) return false;
    x->decoded = true;
    if (!server_request_decode(shape, body, &x->request, err) ||
        !server_exchange_use(x, x->request.model, err) || !add_previous(x, err) ||
        !server_job_create(x->server->engine, &x->request, x->owner, &x->job, err))
        return false;
    x->writes =
        server_writer_init(&x->writer, &x->request, &x->server->model, x->job, x->job->count);
    if (!x->writes) return server_refuse(err, 500, NULL, "no memory for the response");
    return server_job_submit(x->job, err);
}

/* Keeps the response and the conversation with it, without the instructions. */
static void keep(server_exchange *x, const json_t *response) {
    const server_request *r = &x->request;
    if (r->shape != SERVER_RESPONSES || !r->keeps) return;
    json_t *messages = json_copy(r->messages);
    if (server_json_get(r->body, "instructions")) (void)json_array_remove(messages, 0);
    (void)json_array_append_new(messages, server_message_json(&x->writer.messages[0]));
    server_store_put(x->server->store, x->writer.id, x->owner, messages, response);
    json_decref(messages);
}

static bool is_late(const server_exchange *x) {
    const double most = x->server->options.request_seconds;
    return most > 0 && server_seconds() - x->begun > most;
}

/* After the time that a request may take, the answer is what there is. */
static void wait_for_job(server_exchange *x) {
    while (!server_job_wait(x->job, 0.5))
        if (server_exchange_gone(x) || is_late(x)) server_job_cancel(x->job);
}

static bool answer_whole(server_exchange *x, server_reply *reply, server_error *err) {
    bool ended = false;
    wait_for_job(x);
    server_event *events = server_job_take(x->job, 0, &ended);
    server_writer_take(&x->writer, events);
    server_events_free(events);
    if (server_writer_failed(&x->writer, err)) return false;
    reply->json = server_writer_whole(&x->writer);
    if (!reply->json) return server_refuse(err, 500, NULL, "no memory for the response");
    keep(x, reply->json);
    return true;
}

static bool generate(server_exchange *x, server_shape shape, server_reply *reply,
                     server_error *err) {
    if (!begin(x, shape, err)) return false;
    x->last_sent = server_seconds();
    reply->streams = x->request.stream;
    return x->request.stream || answer_whole(x, reply, err);
}

bool server_handle_chat(server_exchange *x, server_reply *reply, server_error *err) {
    return generate(x, SERVER_CHAT, reply, err);
}

bool server_handle_completions(server_exchange *x, server_reply *reply, server_error *err) {
    return generate(x, SERVER_COMPLETIONS, reply, err);
}

bool server_handle_responses(server_exchange *x, server_reply *reply, server_error *err) {
    return generate(x, SERVER_RESPONSES, reply, err);
}

bool server_handle_messages(server_exchange *x, server_reply *reply, server_error *err) {
    return generate(x, SERVER_MESSAGES, reply, err);
}

/* ---- Streams ---- */

static void finish_stream(server_exchange *x) {
    server_error err;
    server_writer_finish(&x->writer);
    if (x->request.shape != SERVER_RESPONSES || server_writer_failed(&x->writer, &err)) return;
    json_t *response = server_writer_whole(&x->writer);
    keep(x, response);
    json_decref(response);
}

/* Waits for events, at most half a second; false: the stream breaks off. */
static bool advance(server_exchange *x) {
    sl_ticket_state state;
    bool ended = false;
    server_event *events = server_job_take(x->job, 0.5, &ended);
    server_writer_take(&x->writer, events);
    server_events_free(events);
    if (ended && !events) finish_stream(x);
    if (x->job->overflowed || server_exchange_gone(x)) return false;
    if (is_late(x)) server_job_cancel(x->job);
    if (x->request.progress && server_job_progress(x->job, &state))
        server_writer_progress(&x->writer, &state);
    if (x->writer.out.length == 0 &&
        server_seconds() - x->last_sent > x->server->options.ping_seconds)
        server_writer_ping(&x->writer);
    return !x->writer.out.failed;
}

long server_stream_read(server_exchange *x, char *out, size_t capacity) {
    server_text *from = &x->writer.out;
    if (x->sent == from->length) {
        x->sent = from->length = 0;
        if (x->writer.done) return 0;
        while (from->length == 0)
            if (!advance(x)) return -1;
    }
    size_t count = from->length - x->sent;
    if (count > capacity) count = capacity;
    memcpy(out, from->bytes + x->sent, count);
    x->sent += count;
    x->last_sent = server_seconds();
    return (long)count;
}

void server_exchange_deinit(server_exchange *x) {
    server_job_destroy(x->job);
    if (x->holds) server_models_release(x->server);
    if (x->writes) server_writer_deinit(&x->writer);
    if (x->decoded) server_request_deinit(&x->request);
    server_text_free(&x->body);
}

/* ---- Counting ---- */

static bool count(server_exchange *x, server_shape shape, json_int_t *out, server_error *err) {
    json_t *body = NULL;
    server_tokens tokens;
    if (!server_exchange_parse(x, &body, err)) return false;
    x->decoded = true;
    if (!server_request_decode_count(shape, body, &x->request, err) ||
        !server_exchange_use(x, x->request.model, err) || !add_previous(x, err) ||
        !server_prompt_chat(&x->server->model, &x->request, &tokens, err))
        return false;
    *out = (json_int_t)tokens.count;
    free(tokens.ids);
    return true;
}

bool server_handle_messages_count(server_exchange *x, server_reply *reply, server_error *err) {
    json_int_t tokens;
    if (!count(x, SERVER_MESSAGES, &tokens, err)) return false;
    reply->json = json_pack("{s:I}", "input_tokens", tokens);
    return true;
}

bool server_handle_responses_count(server_exchange *x, server_reply *reply, server_error *err) {
    json_int_t tokens;
    if (!count(x, SERVER_RESPONSES, &tokens, err)) return false;
    reply->json =
        json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", tokens);
    return true;
}

bool server_handle_chat_count(server_exchange *x, server_reply *reply, server_error *err) {
    json_int_t tokens;
    if (!count(x, SERVER_CHAT, &tokens, err)) return false;
    reply->json =
        json_pack("{s:s, s:I}", "object", "response.input_tokens", "input_tokens", tokens);
    return true;
}

/* ---- Stored responses ---- */

static bool not_found(const server_exchange *x, server_error *err) {
    return server_refuse(err, 404, NULL, "there is no response '%s'", x->argument);
}

bool server_handle_response(server_exchange *x, server_reply *reply, server_error *err) {
    return server_store_get(x->server->store, x->argument, x->owner, NULL, &reply->json) ||
           not_found(x, err);
}

bool server_handle_response_delete(server_exchange *x, server_reply *reply, server_error *err) {
    if (!server_store_remove(x->server->store, x->argument, x->owner)) return not_found(x, err);
    reply->json =
        json_pack("{s:s, s:s, s:b}", "id", x->argument, "object", "response.deleted", "deleted", 1);
    return true;
}
