/* decode_messages.c - Bodies of /v1/messages (Anthropic): blocks become messages of the chat. */
#include "apps/server/request.h"
#include <string.h>

/* What one message becomes: text, reasoning and calls of one message; results of tools are messages
 * of their own, before it. */
typedef struct {
    server_request *request;
    server_text text, reasoning;
    json_t *calls;
    char param[64];
} assembly;

static void add_line(server_text *text, const json_t *piece) {
    if (text->length) server_text_add(text, "\n", 1);
    server_text_add(text, json_string_value(piece), json_string_length(piece));
}

static bool take_text(assembly *a, const json_t *block, server_error *err) {
    const json_t *text = json_object_get(block, "text");
    if (!json_is_string(text))
        return server_refuse(err, 400, a->param, "%s.text: missing", a->param);
    add_line(&a->text, text);
    return true;
}

static bool take_thinking(assembly *a, const json_t *block, server_error *err) {
    const json_t *text = json_object_get(block, "thinking");
    (void)err;
    if (json_is_string(text)) add_line(&a->reasoning, text);
    return true;
}

static bool take_nothing(assembly *a, const json_t *block, server_error *err) {
    (void)a, (void)block, (void)err;
    return true;
}

static bool take_call(assembly *a, const json_t *block, server_error *err) {
    const char *id = server_json_string(block, "id"), *name = server_json_string(block, "name");
    char *arguments = server_json_dump(json_object_get(block, "input"));
    if (!a->calls) a->calls = json_array();
    json_t *call =
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id ? id : "", "type", "function", "function",
                  "name", name ? name : "", "arguments", arguments ? arguments : "{}");
    free(arguments);
    if (id && name) return json_array_append_new(a->calls, call) == 0;
    json_decref(call);
    return server_refuse(err, 400, a->param, "%s: expected id, name and input", a->param);
}

static bool take_result(assembly *a, const json_t *block, server_error *err) {
    const char *id = server_json_string(block, "tool_use_id");
    if (!id) return server_refuse(err, 400, a->param, "%s.tool_use_id: missing", a->param);
    json_t *text = server_content_text(json_object_get(block, "content"), a->param, err);
    json_t *message = text ? server_message_add(a->request->messages, "tool", text) : NULL;
    return message && json_object_set_new(message, "tool_call_id", json_string(id)) == 0;
}

static const struct {
    const char *type;
    bool (*take)(assembly *a, const json_t *block, server_error *err);
} blocks[] = {{"text", take_text},
              {"thinking", take_thinking},
              {"redacted_thinking", take_nothing},
              {"tool_use", take_call},
              {"tool_result", take_result}};

static bool take_block(assembly *a, const json_t *block, server_error *err) {
    const char *type = server_json_string(block, "type");
    for (size_t i = 0; type && i < sizeof blocks / sizeof blocks[0]; i++)
        if (strcmp(type, blocks[i].type) == 0) return blocks[i].take(a, block, err);
    return server_refuse(err, 400, a->param, "%s: a block of type '%.40s' is not supported",
                         a->param, type ? type : "unknown");
}

/* A turn of the user that follows another becomes part of it. */
static bool merge(server_request *r, const char *role, json_t *text) {
    const size_t count = json_array_size(r->messages);
    json_t *last = count ? json_array_get(r->messages, count - 1) : NULL;
    const char *before = server_json_string(last, "role");
    if (!before || strcmp(before, role) != 0 || strcmp(role, "user") != 0) return false;
    server_text both = {0};
    add_line(&both, json_object_get(last, "content"));
    add_line(&both, text);
    (void)json_object_set_new(last, "content",
                              server_json_text(both.bytes ? both.bytes : "", both.length));
    server_text_free(&both);
    json_decref(text);
    return true;
}

static bool finish(assembly *a, const char *role) {
    server_request *r = a->request;
    json_t *text = server_json_text(a->text.bytes ? a->text.bytes : "", a->text.length);
    const bool only_results = a->text.length == 0 && !a->calls && !a->reasoning.length;
    const size_t count = json_array_size(r->messages);
    const char *before =
        count ? server_json_string(json_array_get(r->messages, count - 1), "role") : "";
    if ((only_results && strcmp(before, "tool") == 0) || merge(r, role, text)) {
        if (only_results && strcmp(before, "tool") == 0) json_decref(text);
        return true;
    }
    json_t *message = server_message_add(r->messages, role, text);
    if (a->calls) (void)json_object_set(message, "tool_calls", a->calls);
    if (a->reasoning.length)
        (void)json_object_set_new(message, "reasoning_content",
                                  server_json_text(a->reasoning.bytes, a->reasoning.length));
    return message != NULL;
}

static bool take_content(assembly *a, const json_t *content, const char *role, server_error *err) {
    size_t index;
    const json_t *block;
    if (json_is_string(content)) {
        add_line(&a->text, content);
        return finish(a, role);
    }
    if (!json_is_array(content))
        return server_refuse(err, 400, a->param, "%s: expected a text or a list of blocks",
                             a->param);
    json_array_foreach(content, index, block) {
        if (!take_block(a, block, err)) return false;
    }
    return finish(a, role);
}

static bool take_message(server_request *r, const json_t *given, size_t index, server_error *err) {
    assembly a = {.request = r};
    const char *role = server_json_string(given, "role");
    (void)snprintf(a.param, sizeof a.param, "messages.%zu", index);
    if (!role || (strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0 &&
                  strcmp(role, "system") != 0))
        return server_refuse(err, 400, a.param, "%s.role: expected user, assistant or system",
                             a.param);
    const bool good = take_content(&a, json_object_get(given, "content"), role, err);
    server_text_free(&a.text);
    server_text_free(&a.reasoning);
    json_decref(a.calls);
    return good;
}

/* Claude Code begins its first block with a line that is another for each request. */
static bool is_billing_header(const json_t *block) {
    static const char header[] = "x-anthropic-billing-header:";
    const char *text = server_json_string(block, "text");
    return text && strncmp(text, header, sizeof header - 1) == 0;
}

static bool decode_system(server_request *r, server_error *err) {
    json_t *given = server_json_get(r->body, "system"), *block;
    size_t index;
    if (!given) return true;
    json_t *parts = json_is_array(given) ? json_array() : json_incref(given);
    json_array_foreach(given, index, block) {
        if (!is_billing_header(block)) (void)json_array_append(parts, block);
    }
    json_t *text = server_content_text(parts, "system", err);
    json_decref(parts);
    if (!text) return false;
    if (json_string_length(text) > 0)
        return server_message_add(r->messages, "system", text) != NULL;
    json_decref(text);
    return true;
}

static bool decode_message_list(server_request *r, server_error *err) {
    const json_t *messages = json_object_get(r->body, "messages"), *message;
    size_t index;
    r->messages = json_array();
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return server_refuse(err, 400, "messages", "messages: expected a list with a message");
    if (!decode_system(r, err)) return false;
    json_array_foreach(messages, index, message) {
        if (!take_message(r, message, index, err)) return false;
    }
    const json_t *last = json_array_get(r->messages, json_array_size(r->messages) - 1);
    r->continues = strcmp(server_json_string(last, "role"), "assistant") == 0 &&
                   !json_object_get(last, "tool_calls");
    return true;
}

static bool decode_tool_choice(server_request *r, server_error *err) {
    json_t *choice = server_json_get(r->body, "tool_choice");
    const char *type = server_json_string(choice, "type");
    if (!choice) return true;
    if (!server_json_flag(choice, "disable_parallel_tool_use", &r->serial_calls, err)) return false;
    /* The words of the chat's API. */
    json_t *translated = NULL;
    if (type && strcmp(type, "tool") == 0)
        translated = json_pack("{s:O?}", "name", json_object_get(choice, "name"));
    else if (type)
        translated = json_string(strcmp(type, "any") == 0 ? "required" : type);
    if (!translated) return server_refuse(err, 400, "tool_choice", "tool_choice.type: missing");
    (void)json_object_set_new(r->body, "tool_choice", translated);
    return server_decode_tool_choice(r, err);
}

static bool decode_thinking(server_request *r, server_error *err) {
    const json_t *thinking = server_json_get(r->body, "thinking");
    const char *type = server_json_string(thinking, "type");
    int64_t budget = -1;
    if (!thinking) return true;
    if (!type) return server_refuse(err, 400, "thinking", "thinking.type: missing");
    r->think = strcmp(type, "disabled") == 0 ? SERVER_THINK_OFF : SERVER_THINK_ON;
    if (!server_json_whole(thinking, "budget_tokens", 1, INT32_MAX, &budget, err)) return false;
    if (budget > 0 && budget >= (int64_t)r->most_tokens)
        return server_refuse(err, 400, "thinking",
                             "thinking.budget_tokens: expected less than max_tokens");
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)budget);
    return budget < 0 ||
           json_object_set_new(r->sampling, "thinking_budget", json_string(text)) == 0;
}

static bool decode_output(server_request *r, server_error *err) {
    const json_t *config = server_json_get(r->body, "output_config");
    const json_t *format = server_json_get(config, "format");
    const server_think think = r->think; /* which effort does not turn on here */
    if (!server_decode_effort(r, server_json_string(config, "effort"), "output_config.effort", err))
        return false;
    r->think = think;
    if (!format) return true;
    json_t *schema = server_json_get(format, "schema");
    const char *type = server_json_string(format, "type");
    if (!type || strcmp(type, "json_schema") != 0 || !schema)
        return server_refuse(err, 400, "output_config.format",
                             "output_config.format: expected type json_schema and a schema");
    return server_decode_schema(r, schema, "output_config.format.schema", err);
}

bool server_decode_messages(server_request *r, server_error *err) {
    static const server_tool_form tools = {"custom", NULL, "input_schema", true};
    int64_t most = -1;
    if (!server_json_whole(r->body, "max_tokens", 1, INT32_MAX, &most, err)) return false;
    if (most < 0) return server_refuse(err, 400, "max_tokens", "max_tokens: missing");
    r->most_tokens = (uint32_t)most;
    return decode_message_list(r, err) && server_decode_tools(r, &tools, err) &&
           decode_tool_choice(r, err) && server_decode_grammar(r, err) &&
           server_decode_template(r, err) && decode_output(r, err) && decode_thinking(r, err) &&
           server_decode_stops(r, "stop_sequences", err);
}
