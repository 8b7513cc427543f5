/* decode_responses.c - Bodies of /v1/responses: items become messages. */
#include "apps/server/request.h"
#include <string.h>

/* The last message if it is the assistant's and came from items too, else a new one. */
static json_t *assistant(server_request *r) {
    const size_t count = json_array_size(r->messages);
    json_t *last = count ? json_array_get(r->messages, count - 1) : NULL;
    const char *role = server_json_string(last, "role");
    if (role && strcmp(role, "assistant") == 0) return last;
    return server_message_add(r->messages, "assistant", json_string(""));
}

static bool take_message(server_request *r, const json_t *item, const char *param,
                         server_error *err) {
    const char *given = server_json_string(item, "role");
    const char *role = given && strcmp(given, "developer") == 0 ? "system" : given;
    if (!role || (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 &&
                  strcmp(role, "assistant") != 0))
        return server_refuse(err, 400, param,
                             "%s.role: expected user, assistant, system or developer", param);
    json_t *text = server_content_text(json_object_get(item, "content"), param, err);
    if (!text) return false;
    if (strcmp(role, "assistant") == 0) {
        json_t *message = assistant(r);
        const char *before = server_json_string(message, "content");
        if (!before || !before[0]) return json_object_set_new(message, "content", text) == 0;
    }
    return server_message_add(r->messages, role, text) != NULL;
}

static bool take_call(server_request *r, const json_t *item, const char *param, server_error *err) {
    const char *id = server_json_string(item, "call_id"), *name = server_json_string(item, "name");
    const char *arguments = server_json_string(item, "arguments");
    if (!id || !name || !arguments)
        return server_refuse(err, 400, param, "%s: expected call_id, name and arguments", param);
    json_t *message = assistant(r), *calls = json_object_get(message, "tool_calls");
    if (!calls) {
        calls = json_array();
        (void)json_object_set_new(message, "tool_calls", calls);
    }
    return json_array_append_new(calls,
                                 json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function",
                                           "function", "name", name, "arguments", arguments)) == 0;
}

static bool take_output(server_request *r, const json_t *item, const char *param,
                        server_error *err) {
    const char *id = server_json_string(item, "call_id");
    const json_t *output = json_object_get(item, "output");
    if (!id || !output)
        return server_refuse(err, 400, param, "%s: expected call_id and output", param);
    json_t *text = server_content_text(output, param, err);
    json_t *message = text ? server_message_add(r->messages, "tool", text) : NULL;
    return message && json_object_set_new(message, "tool_call_id", json_string(id)) == 0;
}

static bool take_reasoning(server_request *r, const json_t *item, const char *param,
                           server_error *err) {
    server_text text = {0};
    size_t index;
    const json_t *part;
    (void)param, (void)err;
    json_array_foreach(json_object_get(item, "content"), index, part) {
        const json_t *piece = json_object_get(part, "text");
        server_text_add(&text, json_string_value(piece), json_string_length(piece));
    }
    if (text.length) {
        json_t *message = server_message_add(r->messages, "assistant", json_string(""));
        (void)json_object_set_new(message, "reasoning_content",
                                  server_json_text(text.bytes, text.length));
    }
    server_text_free(&text);
    return true;
}

static const struct {
    const char *type;
    bool (*take)(server_request *r, const json_t *item, const char *param, server_error *err);
} items[] = {{"message", take_message},
             {"function_call", take_call},
             {"function_call_output", take_output},
             {"reasoning", take_reasoning}};

/* Items of other types belong to tools of the vendor or to its clients. */
static bool take_item(server_request *r, const json_t *item, size_t index, server_error *err) {
    char param[64];
    const char *type = server_json_string(item, "type");
    (void)snprintf(param, sizeof param, "input[%zu]", index);
    if (!json_is_object(item)) return server_refuse(err, 400, param, "%s: expected an item", param);
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        if (strcmp(type ? type : "message", items[i].type) == 0)
            return items[i].take(r, item, param, err);
    return true;
}

static bool decode_input(server_request *r, server_error *err) {
    json_t *input = server_json_get(r->body, "input"), *item;
    size_t index;
    json_t *instructions = server_json_get(r->body, "instructions");
    r->messages = json_array();
    if (json_is_string(instructions))
        (void)server_message_add(r->messages, "system", json_incref(instructions));
    else if (instructions)
        return server_refuse(err, 400, "instructions", "instructions: expected a text");
    if (json_is_string(input))
        return server_message_add(r->messages, "user", json_incref(input)) != NULL;
    if (!json_is_array(input) || json_array_size(input) == 0)
        return server_refuse(err, 400, "input", "input: expected a text or a list of items");
    json_array_foreach(input, index, item) {
        if (!take_item(r, item, index, err)) return false;
    }
    return json_array_size(r->messages) > 0 ||
           server_refuse(err, 400, "input", "input: there is no message in it");
}

static bool decode_format(server_request *r, server_error *err) {
    static const char param[] = "text.format";
    const json_t *format = server_json_get(json_object_get(r->body, "text"), "format");
    const char *type = server_json_string(format, "type");
    if (!format || (type && strcmp(type, "text") == 0)) return true;
    if (type && strcmp(type, "json_object") == 0) {
        r->schema = json_pack("{s:s}", "type", "object");
        return true;
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return server_refuse(err, 400, param, "%s.type: expected text, json_object or json_schema",
                             param);
    json_t *schema = server_json_get(format, "schema");
    if (!schema) return server_refuse(err, 400, param, "%s.schema: missing", param);
    return server_decode_schema(r, schema, "text.format.schema", err);
}

static bool decode_state(server_request *r, server_error *err) {
    const json_t *previous = server_json_get(r->body, "previous_response_id");
    if (server_json_get(r->body, "conversation"))
        return server_refuse(err, 400, "conversation",
                             "conversation: not supported; give previous_response_id");
    if (previous && !json_is_string(previous))
        return server_refuse(err, 400, "previous_response_id",
                             "previous_response_id: expected the id of a response");
    r->previous = json_string_value(previous);
    r->keeps = true;
    return server_json_flag(r->body, "store", &r->keeps, err);
}

static bool wants_logprobs(const json_t *body) {
    size_t index;
    const json_t *item;
    json_array_foreach(json_object_get(body, "include"), index, item) {
        if (json_is_string(item) &&
            strcmp(json_string_value(item), "message.output_text.logprobs") == 0)
            return true;
    }
    return false;
}

bool server_decode_responses(server_request *r, server_error *err) {
    static const server_tool_form tools = {"function", NULL, "parameters", false};
    const json_t *reasoning = server_json_get(r->body, "reasoning");
    int64_t top = 0;
    bool parallel = true;
    if (!decode_input(r, err) || !server_decode_tools(r, &tools, err) ||
        !server_decode_tool_choice(r, err) || !decode_format(r, err) || !decode_state(r, err) ||
        !server_decode_grammar(r, err) || !server_decode_template(r, err) ||
        !server_decode_effort(r, server_json_string(reasoning, "effort"), "reasoning.effort",
                              err) ||
        !server_json_whole(r->body, "top_logprobs", 0, SERVER_MOST_TOP, &top, err) ||
        !server_json_flag(r->body, "parallel_tool_calls", &parallel, err))
        return false;
    r->serial_calls = !parallel;
    r->top_logprobs = (uint32_t)top;
    r->logprobs = top > 0 || wants_logprobs(r->body);
    return server_decode_stops(r, "stop", err) && server_decode_limit(r, "max_output_tokens", err);
}
