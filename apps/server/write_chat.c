/* write_chat.c - Responses of /v1/chat/completions. */
#include "apps/server/writer.h"

static json_t *chunk(const server_writer *w, json_t *choices) {
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", w->id, "object",
                     "chat.completion.chunk", "created", (json_int_t)w->created, "model",
                     w->model->id, "system_fingerprint", "sluice", "choices", choices);
}

/* delta and logprobs are taken; finish may be NULL. */
static void send(server_writer *w, uint32_t answer, json_t *delta, json_t *logprobs,
                 const char *finish) {
    json_t *choice = json_pack("{s:i, s:o, s:o?, s:s?}", "index", (int)answer, "delta", delta,
                               "logprobs", logprobs, "finish_reason", finish);
    server_writer_send(w, NULL, chunk(w, json_pack("[o]", choice)));
}

static void begin(server_writer *w) {
    for (uint32_t i = 0; i < w->count; i++)
        send(w, i, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, NULL);
}

static void open(server_writer *w, uint32_t answer, server_part *part) {
    if (part->kind != SERVER_PART_CALL) return;
    send(w, answer,
         json_pack("{s:[{s:i, s:s, s:s, s:{s:s, s:s}}]}", "tool_calls", "index", (int)part->call,
                   "id", part->id, "type", "function", "function", "name", part->name, "arguments",
                   ""),
         NULL, NULL);
}

static void more(server_writer *w, uint32_t answer, server_part *part, const json_t *text) {
    json_t *fresh = w->messages[answer].fresh, *logprobs = NULL;
    if (part->kind == SERVER_PART_CALL) {
        send(w, answer,
             json_pack("{s:[{s:i, s:{s:O}}]}", "tool_calls", "index", (int)part->call, "function",
                       "arguments", text),
             NULL, NULL);
        return;
    }
    const bool content = part->kind == SERVER_PART_CONTENT;
    if (content && json_array_size(fresh))
        logprobs = json_pack("{s:o, s:n}", "content", json_copy(fresh), "refusal");
    send(w, answer, json_pack("{s:O}", content ? "content" : "reasoning_content", text), logprobs,
         NULL);
}

static bool is_last(const server_writer *w) {
    for (uint32_t i = 0; i < w->count; i++)
        if (!w->messages[i].complete) return false;
    return true;
}

static void end(server_writer *w, uint32_t answer) {
    json_t *choice =
        json_pack("{s:i, s:{}, s:n, s:s}", "index", (int)answer, "delta", "logprobs",
                  "finish_reason", server_finish_reason(w->messages[answer].result->finish));
    json_t *last = chunk(w, json_pack("[o]", choice));
    if (!w->request->include_usage && is_last(w)) server_add_timings(w, last);
    server_writer_send(w, NULL, last);
}

static void finish(server_writer *w) {
    if (w->request->include_usage) {
        json_t *last = chunk(w, json_array());
        (void)json_object_set_new(last, "usage", server_chat_usage(w));
        server_add_timings(w, last);
        server_writer_send(w, NULL, last);
    }
    server_text_print(&w->out, "data: [DONE]\n\n");
}

static void progress(server_writer *w, json_t *progress) {
    json_t *made = chunk(w, json_array());
    (void)json_object_set_new(made, "prompt_progress", progress);
    server_writer_send(w, NULL, made);
}

static void fail(server_writer *w, const server_error *err) {
    server_writer_send(w, NULL, server_error_json(err, SERVER_OPENAI, w->id));
    server_text_print(&w->out, "data: [DONE]\n\n");
}

/* Texts of one kind together. */
static json_t *joined(const server_message *message, server_part_kind kind) {
    server_text text = {0};
    bool found = false;
    for (uint32_t i = 0; i < message->count; i++) {
        const server_part *part = &message->parts[i];
        if (part->kind != kind) continue;
        server_text_add(&text, part->text.bytes, part->text.length);
        found = true;
    }
    json_t *made = found ? server_json_text(text.bytes ? text.bytes : "", text.length) : NULL;
    server_text_free(&text);
    return made;
}

static json_t *calls_json(const server_message *message) {
    json_t *calls = json_array();
    for (uint32_t i = 0; i < message->count; i++) {
        const server_part *part = &message->parts[i];
        if (part->kind != SERVER_PART_CALL || part->dropped) continue;
        (void)json_array_append_new(
            calls, json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", part->id, "type", "function",
                             "function", "name", part->name, "arguments", server_part_json(part)));
    }
    return calls;
}

json_t *server_message_json(const server_message *message) {
    json_t *calls = calls_json(message), *reasoning = joined(message, SERVER_PART_REASONING);
    json_t *content = joined(message, SERVER_PART_CONTENT);
    if (!content && json_array_size(calls) == 0) content = json_string("");
    json_t *made =
        json_pack("{s:s, s:o?, s:n}", "role", "assistant", "content", content, "refusal");
    if (reasoning) (void)json_object_set_new(made, "reasoning_content", reasoning);
    if (json_array_size(calls))
        (void)json_object_set_new(made, "tool_calls", calls);
    else
        json_decref(calls);
    return made;
}

static json_t *choice_json(const server_writer *w, uint32_t answer) {
    const server_message *message = &w->messages[answer];
    json_t *logprobs = NULL;
    if (w->request->logprobs) {
        json_t *tokens = json_array();
        for (uint32_t i = 0; i < message->count; i++)
            (void)json_array_extend(tokens, message->parts[i].logprobs);
        logprobs = json_pack("{s:o, s:n}", "content", tokens, "refusal");
    }
    return json_pack("{s:i, s:o, s:o?, s:s}", "index", (int)answer, "message",
                     server_message_json(message), "logprobs", logprobs, "finish_reason",
                     server_finish_reason(message->result->finish));
}

static json_t *whole(server_writer *w) {
    json_t *choices = json_array();
    for (uint32_t i = 0; i < w->count; i++) (void)json_array_append_new(choices, choice_json(w, i));
    json_t *made =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:o}", "id", w->id, "object", "chat.completion",
                  "created", (json_int_t)w->created, "model", w->model->id, "system_fingerprint",
                  "sluice", "choices", choices, "usage", server_chat_usage(w));
    if (made) server_add_timings(w, made);
    return made;
}

const server_form server_chat_form = {"chatcmpl-", begin, open, more,     NULL, end,
                                      finish,      fail,  NULL, progress, whole};
