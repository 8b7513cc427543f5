/* write_responses.c - Responses of /v1/responses. */
#include "apps/server/writer.h"
#include <string.h>

/* ---- Objects ---- */

static const char *status_of(const server_result *result) {
    switch (result->finish) {
    case SERVER_FINISH_LENGTH:
    case SERVER_FINISH_CONTEXT:
    case SERVER_FINISH_CANCELLED: /* it took too long */
        return "incomplete";
    case SERVER_FINISH_FAILED:
        return "failed";
    default:
        return "completed";
    }
}

static json_t *text_part(const server_part *part, bool full) {
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text",
                     full ? server_part_json(part) : json_string(""), "annotations", "logprobs",
                     full ? json_copy(part->logprobs) : json_array());
}

static json_t *reasoning_part(const server_part *part, bool full) {
    return json_pack("{s:s, s:o}", "type", "reasoning_text", "text",
                     full ? server_part_json(part) : json_string(""));
}

/* full: with what it came to; else as it begins. */
static json_t *item_json(const server_part *part, bool full) {
    const char *status = full ? "completed" : "in_progress";
    if (part->kind == SERVER_PART_CALL)
        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s}", "type", "function_call", "id",
                         part->item, "call_id", part->id, "name", part->name, "arguments",
                         full ? server_part_json(part) : json_string(""), "status", status);
    json_t *content = json_array();
    if (full)
        (void)json_array_append_new(content, part->kind == SERVER_PART_CONTENT
                                                 ? text_part(part, true)
                                                 : reasoning_part(part, true));
    if (part->kind == SERVER_PART_REASONING)
        return json_pack("{s:s, s:s, s:[], s:o, s:s}", "type", "reasoning", "id", part->item,
                         "summary", "content", content, "status", status);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "type", "message", "id", part->item, "role",
                     "assistant", "status", status, "content", content);
}

static json_t *usage_json(const server_writer *w) {
    const server_usage u = server_writer_usage(w);
    return json_pack("{s:I, s:{s:I, s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)u.prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)u.reused,
                     "cache_write_tokens", (json_int_t)(u.prompt - u.reused), "output_tokens",
                     (json_int_t)u.tokens, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)u.reasoning, "total_tokens", (json_int_t)(u.prompt + u.tokens));
}

/* What the request said, with the defaults of the API. */
static const struct {
    const char *name, *usual; /* JSON */
} echoed[] = {{"instructions", "null"},
              {"max_output_tokens", "null"},
              {"parallel_tool_calls", "true"},
              {"previous_response_id", "null"},
              {"reasoning", "{\"effort\":null,\"summary\":null}"},
              {"store", "true"},
              {"temperature", "1.0"},
              {"text", "{\"format\":{\"type\":\"text\"}}"},
              {"tool_choice", "\"auto\""},
              {"tools", "[]"},
              {"top_p", "1.0"},
              {"truncation", "\"disabled\""},
              {"metadata", "{}"},
              {"user", "null"}};

static void add_echoed(const server_writer *w, json_t *response) {
    for (size_t i = 0; i < sizeof echoed / sizeof echoed[0]; i++) {
        json_t *given = server_json_get(w->request->body, echoed[i].name);
        (void)json_object_set_new(response, echoed[i].name,
                                  given ? json_incref(given)
                                        : json_loads(echoed[i].usual, JSON_DECODE_ANY, NULL));
    }
}

static json_t *diagnostics_json(const server_result *result) {
    if (!server_miss_reason(result))
        return json_pack("{s:s, s:s}", "type", "cache_hit", "detail", result->reuse);
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:s}", "type", "cache_miss", "reason", "input_changed",
        "cache_missed_tokens", (json_int_t)(result->prompt_tokens - result->reused_tokens),
        "comparison_reusable_tokens", (json_int_t)result->reused_tokens, "detail", result->reuse);
}

/* result NULL: it is in progress. */
static json_t *response_json(const server_writer *w, const server_result *result,
                             const server_error *failure) {
    const server_message *message = &w->messages[0];
    json_t *output = json_array(), *details = NULL, *error = NULL;
    for (uint32_t i = 0; result && i < message->count; i++)
        if (!message->parts[i].dropped)
            (void)json_array_append_new(output, item_json(&message->parts[i], true));
    if (result && strcmp(status_of(result), "incomplete") == 0)
        details = json_pack("{s:s}", "reason", "max_output_tokens");
    if (failure)
        error = json_pack("{s:s, s:s}", "code", "server_error", "message", failure->message);
    json_t *made = json_pack("{s:s, s:s, s:I, s:s, s:o?, s:o?, s:s, s:o, s:o?}", "id", w->id,
                             "object", "response", "created_at", (json_int_t)w->created, "status",
                             result ? status_of(result) : "in_progress", "error", error,
                             "incomplete_details", details, "model", w->model->id, "output", output,
                             "usage", result ? usage_json(w) : NULL);
    if (!made) return NULL;
    add_echoed(w, made);
    if (result) {
        (void)json_object_set_new(made, "prompt_cache_diagnostics", diagnostics_json(result));
        server_add_timings(w, made);
    }
    return made;
}

/* ---- Events ---- */

static void send(server_writer *w, const char *type, json_t *data) {
    if (data) {
        (void)json_object_set_new(data, "type", json_string(type));
        (void)json_object_set_new(data, "sequence_number", json_integer((json_int_t)w->sequence++));
    }
    server_writer_send(w, type, data);
}

static json_t *place(const server_writer *w, const server_part *part) {
    json_t *made = json_pack("{s:s, s:i}", "item_id", part->item, "output_index",
                             (int)w->messages[0].count - 1);
    if (made && part->kind != SERVER_PART_CALL)
        (void)json_object_set_new(made, "content_index", json_integer(0));
    return made;
}

static json_t *with(json_t *object, const char *name, json_t *value) {
    (void)json_object_set_new(object, name, value);
    return object;
}

static void begin(server_writer *w) {
    send(w, "response.created", json_pack("{s:o}", "response", response_json(w, NULL, NULL)));
    send(w, "response.in_progress", json_pack("{s:o}", "response", response_json(w, NULL, NULL)));
}

static void open(server_writer *w, uint32_t answer, server_part *part) {
    (void)answer;
    send(w, "response.output_item.added",
         json_pack("{s:i, s:o}", "output_index", (int)w->messages[0].count - 1, "item",
                   item_json(part, false)));
    if (part->kind == SERVER_PART_CONTENT)
        send(w, "response.content_part.added",
             with(place(w, part), "part", text_part(part, false)));
    if (part->kind == SERVER_PART_REASONING)
        send(w, "response.content_part.added",
             with(place(w, part), "part", reasoning_part(part, false)));
}

static void more(server_writer *w, uint32_t answer, server_part *part, const json_t *text) {
    static const char *const types[] = {[SERVER_PART_REASONING] = "response.reasoning_text.delta",
                                        [SERVER_PART_CONTENT] = "response.output_text.delta",
                                        [SERVER_PART_CALL] =
                                            "response.function_call_arguments.delta"};
    json_t *data = with(place(w, part), "delta", json_incref((json_t *)text));
    if (part->kind == SERVER_PART_CONTENT)
        (void)json_object_set_new(data, "logprobs", json_copy(w->messages[answer].fresh));
    send(w, types[part->kind], data);
}

static void close(server_writer *w, uint32_t answer, server_part *part) {
    (void)answer;
    if (part->kind == SERVER_PART_CALL) {
        json_t *data = with(place(w, part), "arguments", server_part_json(part));
        send(w, "response.function_call_arguments.done",
             with(data, "name", json_string(part->name)));
    } else if (part->kind == SERVER_PART_CONTENT) {
        json_t *data = with(place(w, part), "text", server_part_json(part));
        send(w, "response.output_text.done", with(data, "logprobs", json_copy(part->logprobs)));
        send(w, "response.content_part.done", with(place(w, part), "part", text_part(part, true)));
    } else {
        send(w, "response.reasoning_text.done",
             with(place(w, part), "text", server_part_json(part)));
        send(w, "response.content_part.done",
             with(place(w, part), "part", reasoning_part(part, true)));
    }
    send(w, "response.output_item.done",
         json_pack("{s:i, s:o}", "output_index", (int)w->messages[0].count - 1, "item",
                   item_json(part, true)));
}

static void finish(server_writer *w) {
    const server_result *result = w->messages[0].result;
    const bool complete = strcmp(status_of(result), "completed") == 0;
    send(w, complete ? "response.completed" : "response.incomplete",
         json_pack("{s:o}", "response", response_json(w, result, NULL)));
}

static void fail(server_writer *w, const server_error *err) {
    send(w, "response.failed",
         json_pack("{s:o}", "response", response_json(w, w->messages[0].result, err)));
}

/* Clients that wait for an event get this one again. */
static void wait(server_writer *w) {
    send(w, "response.in_progress", json_pack("{s:o}", "response", response_json(w, NULL, NULL)));
}

static void progress(server_writer *w, json_t *progress) {
    send(w, "response.in_progress",
         json_pack("{s:o, s:o}", "response", response_json(w, NULL, NULL), "prompt_progress",
                   progress));
}

static json_t *whole(server_writer *w) {
    return response_json(w, w->messages[0].result, NULL);
}

const server_form server_responses_form = {"resp_", begin, open, more,     close, NULL,
                                           finish,  fail,  wait, progress, whole};
