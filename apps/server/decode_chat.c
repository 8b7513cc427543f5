/* decode_chat.c - Bodies of /v1/chat/completions. */
#include "apps/server/request.h"
#include <stdlib.h>
#include <string.h>

static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};

/* The role as templates know it; NULL if it is unknown. */
static const char *known_role(const char *role) {
    for (size_t i = 0; role && i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(role, roles[i]) == 0) return i == 1 ? "system" : i == 5 ? "tool" : roles[i];
    return NULL;
}

/* What else templates use of a message. */
static const char *const kept[] = {"tool_calls", "tool_call_id", "name", "reasoning_content",
                                   "reasoning"};

static bool check_calls(const json_t *calls, const char *param, server_error *err) {
    size_t index;
    const json_t *call;
    bool good = json_is_array(calls);
    json_array_foreach(calls, index, call) {
        const json_t *function = json_object_get(call, "function");
        good = good && server_json_string(function, "name") != NULL;
    }
    return good ||
           server_refuse(err, 400, param, "%s: expected a list of calls with function.name", param);
}

static bool decode_message(server_request *r, const json_t *given, size_t index,
                           server_error *err) {
    char param[64];
    const char *role = known_role(server_json_string(given, "role"));
    (void)snprintf(param, sizeof param, "messages[%zu].role", index);
    if (!role)
        return server_refuse(err, 400, param,
                             "%s: expected system, developer, user, assistant or tool", param);
    (void)snprintf(param, sizeof param, "messages[%zu].content", index);
    const json_t *calls = server_json_get(given, "tool_calls");
    const json_t *content = server_json_get(given, "content");
    if (!content && strcmp(role, "assistant") != 0)
        return server_refuse(err, 400, param, "%s: missing", param);
    json_t *text = server_content_text(content, param, err);
    if (!text) return false;
    json_t *message = server_message_add(r->messages, role, text);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        json_t *value = server_json_get(given, kept[i]);
        if (value) (void)json_object_set(message, kept[i], value);
    }
    (void)snprintf(param, sizeof param, "messages[%zu].tool_calls", index);
    return !calls || check_calls(calls, param, err);
}

static bool decode_message_list(server_request *r, server_error *err) {
    const json_t *messages = json_object_get(r->body, "messages"), *message;
    size_t index;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return server_refuse(err, 400, "messages", "messages: expected a list with a message");
    r->messages = json_array();
    json_array_foreach(messages, index, message) {
        if (!decode_message(r, message, index, err)) return false;
    }
    const json_t *last = json_array_get(r->messages, index - 1);
    r->continues = strcmp(server_json_string(last, "role"), "assistant") == 0 &&
                   !json_object_get(last, "tool_calls");
    const json_t *before = index > 1 ? json_array_get(r->messages, index - 2) : NULL;
    if (r->continues && before && strcmp(server_json_string(before, "role"), "assistant") == 0)
        return server_refuse(err, 400, "messages",
                             "messages: the last two messages are both of the assistant");
    return true;
}

/* Whether a list of tools, in either form of OpenAI's, names this one. */
static bool names_tool(const json_t *list, const char *name) {
    size_t index;
    const json_t *tool;
    json_array_foreach(list, index, tool) {
        const json_t *function = json_object_get(tool, "function");
        const char *other = server_json_string(function ? function : tool, "name");
        if (other && strcmp(name, other) == 0) return true;
    }
    return false;
}

/* {"type": "allowed_tools", "mode": "auto" or "required", "tools": [...]}, which chat has within
 * "allowed_tools": the model is offered these only. */
static bool decode_allowed(server_request *r, const json_t *choice, server_error *err) {
    const json_t *within = json_object_get(choice, "allowed_tools");
    const json_t *allowed = within ? within : choice, *tool;
    const char *mode = server_json_string(allowed, "mode");
    json_t *left = json_array();
    size_t index;
    json_array_foreach(r->tools, index, tool) {
        const char *name = server_json_string(json_object_get(tool, "function"), "name");
        if (names_tool(json_object_get(allowed, "tools"), name))
            (void)json_array_append(left, (json_t *)tool);
    }
    json_decref(r->tools);
    r->tools = left;
    if (mode && strcmp(mode, "required") == 0) r->choice = SERVER_TOOLS_REQUIRED;
    return json_array_size(left) > 0 ||
           server_refuse(err, 400, "tool_choice", "tool_choice: there is no such tool");
}

bool server_decode_tool_choice(server_request *r, server_error *err) {
    const json_t *choice = server_json_get(r->body, "tool_choice");
    const char *word = json_string_value(choice), *type = server_json_string(choice, "type");
    if (!choice || (word && strcmp(word, "auto") == 0)) return true;
    if (type && strcmp(type, "allowed_tools") == 0) return decode_allowed(r, choice, err);
    if (word && strcmp(word, "none") == 0) {
        r->choice = SERVER_TOOLS_NONE;
        return true;
    }
    r->choice = SERVER_TOOLS_REQUIRED;
    if (word && strcmp(word, "required") == 0)
        return r->tools || server_refuse(err, 400, "tool_choice",
                                         "tool_choice: a call is required, but there are no tools");
    const json_t *function = json_object_get(choice, "function");
    r->tool = server_json_string(function ? function : choice, "name");
    if (r->tool && names_tool(r->tools, r->tool)) return true;
    return server_refuse(err, 400, "tool_choice",
                         r->tool ? "tool_choice: there is no such tool"
                                 : "tool_choice: expected auto, none, required or a function");
}

/* ---- The form of the answer ---- */

static bool set_grammar(server_request *r, sl_grammar_kind kind, char *text) {
    free(r->grammar);
    r->grammar = text;
    r->kind = kind;
    return true;
}

/* {"regex": text}, {"choice": [texts]}, {"json": schema} or {"grammar": text}, as of vLLM. */
static bool decode_structured(server_request *r, const json_t *given, server_error *err) {
    json_t *schema = server_json_get(given, "json"), *choice = server_json_get(given, "choice");
    const char *regex = server_json_string(given, "regex");
    const char *grammar = server_json_string(given, "grammar");
    if (schema) return server_decode_schema(r, schema, "structured_outputs", err);
    if (regex) return set_grammar(r, SL_GRAMMAR_REGEX, strdup(regex));
    if (grammar) return set_grammar(r, SL_GRAMMAR_GBNF, strdup(grammar));
    if (json_is_array(choice)) return set_grammar(r, SL_GRAMMAR_CHOICES, server_json_dump(choice));
    return server_refuse(err, 400, "structured_outputs",
                         "structured_outputs: expected json, regex, choice or grammar");
}

static bool decode_format(server_request *r, const json_t *format, server_error *err) {
    static const char param[] = "response_format";
    const char *type = server_json_string(format, "type");
    if (type && strcmp(type, "text") == 0) return true;
    if (type && strcmp(type, "json_object") == 0) {
        json_t *schema = server_json_get(format, "schema");
        if (schema) return server_decode_schema(r, schema, param, err);
        r->schema = json_pack("{s:s}", "type", "object");
        return true;
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return server_refuse(err, 400, param, "%s.type: expected text, json_object or json_schema",
                             param);
    const json_t *named = json_object_get(format, "json_schema");
    json_t *schema = server_json_get(named, "schema");
    if (!schema) return server_refuse(err, 400, param, "%s.json_schema.schema: missing", param);
    return server_decode_schema(r, schema, "response_format.json_schema.schema", err);
}

bool server_decode_grammar(server_request *r, server_error *err) {
    const json_t *format = server_json_get(r->body, "response_format");
    const json_t *structured = server_json_get(r->body, "structured_outputs");
    json_t *schema = server_json_get(r->body, "json_schema");
    const char *grammar = server_json_string(r->body, "grammar");
    if (format && !decode_format(r, format, err)) return false;
    if (structured && !decode_structured(r, structured, err)) return false;
    if (schema && !server_decode_schema(r, schema, "json_schema", err)) return false;
    if (grammar && grammar[0]) return set_grammar(r, SL_GRAMMAR_GBNF, strdup(grammar));
    return true;
}

/* ---- The rest ---- */

bool server_decode_choices(server_request *r, server_error *err) {
    int64_t n = 1;
    if (!server_json_whole(r->body, "n", 1, SERVER_MOST_CHOICES, &n, err)) return false;
    r->n = (uint32_t)n;
    return true;
}

static bool decode_logprobs(server_request *r, server_error *err) {
    int64_t top = 0;
    if (!server_json_flag(r->body, "logprobs", &r->logprobs, err) ||
        !server_json_whole(r->body, "top_logprobs", 0, SERVER_MOST_TOP, &top, err))
        return false;
    if (top && !r->logprobs)
        return server_refuse(err, 400, "top_logprobs", "top_logprobs: needs logprobs");
    r->top_logprobs = (uint32_t)top;
    return true;
}

bool server_decode_template(server_request *r, server_error *err) {
    json_t *variables = server_json_get(r->body, "chat_template_kwargs");
    const char *format = server_json_string(r->body, "reasoning_format");
    if (variables && !json_is_object(variables))
        return server_refuse(err, 400, "chat_template_kwargs",
                             "chat_template_kwargs: expected an object");
    if (variables) (void)json_object_update(r->variables, variables);
    const json_t *thinking = json_object_get(variables, "enable_thinking");
    if (json_is_boolean(thinking))
        r->think = json_is_true(thinking) ? SERVER_THINK_ON : SERVER_THINK_OFF;
    r->raw_reasoning = format && strcmp(format, "none") == 0;
    return true;
}

static bool decode_flags(server_request *r, server_error *err) {
    const json_t *options = server_json_get(r->body, "stream_options");
    bool parallel = true;
    if (!server_json_flag(options, "include_usage", &r->include_usage, err) ||
        !server_json_flag(r->body, "parallel_tool_calls", &parallel, err))
        return false;
    r->serial_calls = !parallel;
    return true;
}

bool server_decode_chat(server_request *r, server_error *err) {
    static const server_tool_form tools = {"function", "function", "parameters", false};
    return decode_message_list(r, err) && server_decode_tools(r, &tools, err) &&
           server_decode_tool_choice(r, err) && server_decode_grammar(r, err) &&
           decode_logprobs(r, err) && server_decode_choices(r, err) &&
           server_decode_template(r, err) &&
           server_decode_effort(r, server_json_string(r->body, "reasoning_effort"),
                                "reasoning_effort", err) &&
           decode_flags(r, err) && server_decode_stops(r, "stop", err) &&
           server_decode_limit(r, "max_tokens", err) &&
           server_decode_limit(r, "max_completion_tokens", err);
}
