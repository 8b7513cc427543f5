/* write_messages.c - Responses of /v1/messages (Anthropic). */
#include "apps/server/writer.h"
#include <string.h>

static json_t *usage_json(const server_writer *w) {
    const server_usage u = server_writer_usage(w);
    return json_pack("{s:I, s:I, s:I, s:I, s:{s:I}}", "input_tokens",
                     (json_int_t)(u.prompt - u.reused), "cache_read_input_tokens",
                     (json_int_t)u.reused, "cache_creation_input_tokens", (json_int_t)0,
                     "output_tokens", (json_int_t)u.tokens, "output_tokens_details",
                     "thinking_tokens", (json_int_t)u.reasoning);
}

/* Why less of the prompt was reused than could have been. */
static void add_diagnostics(const server_writer *w, json_t *message) {
    const server_result *result = w->messages[0].result;
    const char *reason = result ? server_miss_reason(result) : NULL;
    json_t *miss = reason ? json_pack("{s:s, s:I}", "type", reason, "cache_missed_input_tokens",
                                      (json_int_t)(result->prompt_tokens - result->reused_tokens))
                          : json_null();
    (void)json_object_set_new(
        message, "diagnostics",
        json_pack("{s:o, s:s}", "cache_miss_reason", miss, "detail", result ? result->reuse : ""));
}

static json_t *message_json(const server_writer *w, json_t *content, const char *stop,
                            const char *text) {
    json_t *made =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id", w->id, "type", "message",
                  "role", "assistant", "model", w->model->id, "content", content, "stop_reason",
                  stop, "stop_sequence", text, "usage", usage_json(w));
    if (made) add_diagnostics(w, made);
    return made;
}

static const char *stop_reason(server_finish finish) {
    switch (finish) {
    case SERVER_FINISH_TEXT:
        return "stop_sequence";
    case SERVER_FINISH_CANCELLED: /* it took too long */
    case SERVER_FINISH_LENGTH:
        return "max_tokens";
    case SERVER_FINISH_CONTEXT:
        return "model_context_window_exceeded";
    case SERVER_FINISH_CALLS:
        return "tool_use";
    default:
        return "end_turn";
    }
}

static void begin(server_writer *w) {
    server_writer_send(w, "message_start",
                       json_pack("{s:s, s:o}", "type", "message_start", "message",
                                 message_json(w, json_array(), NULL, NULL)));
}

/* Of the part that is open, the last. */
static int index_of(const server_writer *w) {
    return (int)w->messages[0].count - 1;
}

static void open(server_writer *w, uint32_t answer, server_part *part) {
    json_t *block;
    (void)answer;
    if (part->kind == SERVER_PART_CALL)
        block = json_pack("{s:s, s:s, s:s, s:{}}", "type", "tool_use", "id", part->id, "name",
                          part->name, "input");
    else if (part->kind == SERVER_PART_REASONING)
        block = json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", "");
    else
        block = json_pack("{s:s, s:s}", "type", "text", "text", "");
    server_writer_send(w, "content_block_start",
                       json_pack("{s:s, s:i, s:o}", "type", "content_block_start", "index",
                                 index_of(w), "content_block", block));
}

static void send_delta(server_writer *w, const char *type, const char *member, const json_t *text) {
    server_writer_send(w, "content_block_delta",
                       json_pack("{s:s, s:i, s:{s:s, s:O}}", "type", "content_block_delta", "index",
                                 index_of(w), "delta", "type", type, member, text));
}

static void more(server_writer *w, uint32_t answer, server_part *part, const json_t *text) {
    static const char *const rows[][2] = {
        [SERVER_PART_REASONING] = {"thinking_delta", "thinking"},
        [SERVER_PART_CONTENT] = {"text_delta", "text"},
        [SERVER_PART_CALL] = {"input_json_delta", "partial_json"}};
    (void)answer;
    send_delta(w, rows[part->kind][0], rows[part->kind][1], text);
}

static void close(server_writer *w, uint32_t answer, server_part *part) {
    (void)answer;
    if (part->kind == SERVER_PART_REASONING) {
        json_t *signature = json_string("");
        send_delta(w, "signature_delta", "signature", signature);
        json_decref(signature);
    }
    server_writer_send(w, "content_block_stop",
                       json_pack("{s:s, s:i}", "type", "content_block_stop", "index", index_of(w)));
}

static void finish(server_writer *w) {
    const server_result *result = w->messages[0].result;
    json_t *delta = json_pack("{s:s, s:{s:s, s:s?}, s:o}", "type", "message_delta", "delta",
                              "stop_reason", stop_reason(result->finish), "stop_sequence",
                              result->stop_text, "usage", usage_json(w));
    if (delta) server_add_timings(w, delta);
    server_writer_send(w, "message_delta", delta);
    server_writer_send(w, "message_stop", json_pack("{s:s}", "type", "message_stop"));
}

static void fail(server_writer *w, const server_error *err) {
    server_writer_send(w, "error", server_error_json(err, SERVER_ANTHROPIC, w->id));
}

static void wait(server_writer *w) {
    server_writer_send(w, "ping", json_pack("{s:s}", "type", "ping"));
}

/* The arguments as an object; what a model wrote is not always one. */
static json_t *input_json(const server_part *part) {
    json_t *input = json_loadb(part->text.bytes ? part->text.bytes : "{}",
                               part->text.bytes ? part->text.length : 2, 0, NULL);
    if (json_is_object(input)) return input;
    json_decref(input);
    return json_pack("{s:o}", "arguments", server_part_json(part));
}

static json_t *block_json(const server_part *part) {
    if (part->kind == SERVER_PART_CALL)
        return json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", part->id, "name",
                         part->name, "input", input_json(part));
    if (part->kind == SERVER_PART_REASONING)
        return json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking", server_part_json(part),
                         "signature", "");
    return json_pack("{s:s, s:o}", "type", "text", "text", server_part_json(part));
}

static json_t *whole(server_writer *w) {
    const server_message *message = &w->messages[0];
    json_t *content = json_array();
    for (uint32_t i = 0; i < message->count; i++)
        if (!message->parts[i].dropped)
            (void)json_array_append_new(content, block_json(&message->parts[i]));
    json_t *made =
        message_json(w, content, stop_reason(message->result->finish), message->result->stop_text);
    if (made) server_add_timings(w, made);
    return made;
}

const server_form server_messages_form = {"msg_", begin, open, more, close, NULL,
                                          finish, fail,  wait, NULL, whole};
