/* decode_common.c - What the bodies of several endpoints have in common. */
#include "apps/server/request.h"
#include "sluice/sampling.h"
#include <stdlib.h>
#include <string.h>

typedef bool decode_fn(server_request *r, server_error *err);
static decode_fn *const decoders[SERVER_SHAPE_COUNT] = {
    [SERVER_CHAT] = server_decode_chat,
    [SERVER_COMPLETIONS] = server_decode_completions,
    [SERVER_RESPONSES] = server_decode_responses,
    [SERVER_MESSAGES] = server_decode_messages,
};

static bool decode_priority(server_request *r, server_error *err) {
    int64_t priority = 0;
    if (!server_json_whole(r->body, "priority", INT32_MIN, INT32_MAX, &priority, err)) return false;
    r->priority = (int32_t)priority;
    return true;
}

static bool begin(server_shape shape, json_t *body, server_request *out, server_error *err) {
    *out = (server_request){.shape = shape,
                            .body = body,
                            .variables = json_object(),
                            .sampling = json_object(),
                            .n = 1,
                            .most_tokens = SERVER_UNLIMITED};
    const json_t *model = server_json_get(body, "model");
    if (model && !json_is_string(model))
        return server_refuse(err, 400, "model", "model: expected a name");
    out->model = json_string_value(model);
    return server_json_flag(body, "stream", &out->stream, err) &&
           server_json_flag(body, "return_progress", &out->progress, err) &&
           decode_priority(out, err);
}

bool server_request_decode(server_shape shape, json_t *body, server_request *out,
                           server_error *err) {
    return begin(shape, body, out, err) && server_decode_sampling(out, err) &&
           decoders[shape](out, err);
}

bool server_request_decode_count(server_shape shape, json_t *body, server_request *out,
                                 server_error *err) {
    /* A limit is not asked for where only tokens are counted. */
    if (shape == SERVER_MESSAGES)
        (void)json_object_set_new(body, "max_tokens", json_integer(INT32_MAX));
    return server_request_decode(shape, body, out, err);
}

void server_request_deinit(server_request *r) {
    json_t *const owned[] = {r->body,        r->messages, r->prompts,  r->tools,
                             r->variables,   r->bias,     r->sampling, r->stops,
                             r->stop_tokens, r->breakers, r->schema};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) json_decref(owned[i]);
    free(r->grammar);
    *r = (server_request){0};
}

/* ---- Limits, stops ---- */

/* -1 stands for no limit. */
bool server_decode_limit(server_request *r, const char *name, server_error *err) {
    int64_t most = -1;
    if (!server_json_whole(r->body, name, -1, INT32_MAX, &most, err)) return false;
    if (most >= 0) r->most_tokens = (uint32_t)most;
    return true;
}

static bool add_stop(server_request *r, const json_t *text, const char *name, server_error *err) {
    if (!json_is_string(text))
        return server_refuse(err, 400, name, "%s: expected a text or a list of texts", name);
    /* An empty one would stop everything. */
    if (json_string_length(text) == 0) return true;
    if (json_array_size(r->stops) == SERVER_MOST_STOPS)
        return server_refuse(err, 400, name, "%s: at most %d texts", name, SERVER_MOST_STOPS);
    return json_array_append(r->stops, (json_t *)text) == 0;
}

bool server_decode_stops(server_request *r, const char *name, server_error *err) {
    const json_t *given = server_json_get(r->body, name);
    size_t index;
    const json_t *text;
    if (!given) return true;
    r->stops = json_array();
    if (!json_is_array(given)) return add_stop(r, given, name, err);
    json_array_foreach(given, index, text) {
        if (!add_stop(r, text, name, err)) return false;
    }
    return true;
}

static bool decode_stop_tokens(server_request *r, server_error *err) {
    const json_t *given = server_json_get(r->body, "stop_token_ids"), *id;
    size_t index;
    if (!given) return true;
    bool good = json_is_array(given);
    json_array_foreach(given, index, id) good = good && json_is_integer(id);
    if (!good)
        return server_refuse(err, 400, "stop_token_ids", "stop_token_ids: expected a list of ids");
    r->stop_tokens = json_incref((json_t *)given);
    return true;
}

/* ---- Sampling ---- */

/* The text that sl_sampler_set reads: of a number, a flag, a name or a list of names. */
static char *option_text(const json_t *value) {
    server_text text = {0};
    size_t index;
    const json_t *item;
    if (json_is_boolean(value)) return strdup(json_is_true(value) ? "1" : "0");
    if (json_is_string(value)) return strdup(json_string_value(value));
    if (json_is_number(value)) return server_json_dump(value);
    json_array_foreach(value, index, item) {
        server_text_print(&text, "%s%s", index ? ";" : "",
                          json_is_string(item) ? json_string_value(item) : "?");
    }
    return text.bytes ? text.bytes : strdup("");
}

/* false if the value is not one of this option. */
static bool set_option(server_request *r, const sl_sampler_option *row, const char *name,
                       const json_t *value, server_error *err) {
    sl_sampler_options scratch = {.struct_size = sizeof scratch};
    sl_error cause;
    char *text = option_text(value);
    /* -1 is a random seed for clients of other servers. */
    const bool random = strcmp(row->kind, "seed") == 0 && text && text[0] == '-';
    bool good = text && (random || sl_sampler_set(&scratch, row->name, text, &cause) == SL_OK);
    if (!good)
        (void)server_refuse(err, text ? 400 : 500, name, "%s: %s", name,
                            text ? cause.message : "no memory");
    if (good && !random) (void)json_object_set_new(r->sampling, row->name, json_string(text));
    free(text);
    return good;
}

/* The option by its name and its aliases, of which the first that is given counts. */
static bool decode_option(server_request *r, const sl_sampler_option *row, server_error *err) {
    const json_t *value = server_json_get(r->body, row->name);
    char name[64];
    (void)snprintf(name, sizeof name, "%s", row->name);
    for (const char *at = row->aliases; !value && *at;) {
        const size_t length = strcspn(at, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, at);
        value = server_json_get(r->body, name);
        at += length + (at[length] == ' ');
    }
    if (!value) return true;
    if (strcmp(row->kind, "list") != 0) return set_option(r, row, name, value, err);
    if (strcmp(row->name, "dry_breakers") == 0) {
        if (!json_is_array(value))
            return server_refuse(err, 400, name, "%s: expected a list of texts", name);
        r->breakers = json_incref((json_t *)value);
    }
    return true;
}

static bool is_bias(const json_t *token, const json_t *bias) {
    return (json_is_integer(token) || json_is_string(token)) &&
           (json_is_number(bias) || json_is_false(bias));
}

/* {"id": bias}, or [[id or text, bias or false]...]. */
static bool decode_bias(server_request *r, server_error *err) {
    json_t *given = server_json_get(r->body, "logit_bias"), *value;
    const char *key;
    size_t index;
    bool good = true;
    if (!given) return true;
    r->bias = json_array();
    if (json_is_object(given)) {
        json_object_foreach(given, key, value) {
            char *end;
            const long id = strtol(key, &end, 10);
            good = good && *end == '\0' && end != key &&
                   (json_is_number(value) || json_is_false(value));
            (void)json_array_append_new(r->bias, json_pack("[I, O]", (json_int_t)id, value));
        }
    } else {
        good = json_is_array(given);
        json_array_foreach(given, index, value) {
            good = good && json_array_size(value) == 2 &&
                   is_bias(json_array_get(value, 0), json_array_get(value, 1));
            (void)json_array_append(r->bias, value);
        }
    }
    return good || server_refuse(err, 400, "logit_bias",
                                 "logit_bias: expected {\"id\": number} or [[id or text, number or "
                                 "false]]");
}

bool server_decode_sampling(server_request *r, server_error *err) {
    sl_sampler_option row = {.struct_size = sizeof row};
    for (uint32_t i = 0; sl_sampler_option_at(i, &row, NULL) == SL_OK; i++)
        if (!decode_option(r, &row, err)) return false;
    return decode_bias(r, err) && decode_stop_tokens(r, err);
}

/* ---- Reasoning ---- */

bool server_decode_effort(server_request *r, const char *effort, const char *param,
                          server_error *err) {
    /* What templates know of it is low, medium and high. */
    static const char *const rows[][2] = {
        {"none", NULL},   {"minimal", "low"}, {"low", "low"}, {"medium", "medium"},
        {"high", "high"}, {"xhigh", "high"},  {"max", "high"}};
    if (!effort) return true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(effort, rows[i][0]) != 0) continue;
        r->think = rows[i][1] ? SERVER_THINK_ON : SERVER_THINK_OFF;
        if (rows[i][1])
            (void)json_object_set_new(r->variables, "reasoning_effort", json_string(rows[i][1]));
        return true;
    }
    return server_refuse(err, 400, param,
                         "%s: expected none, minimal, low, medium, high, xhigh or max", param);
}

/* ---- Grammars ---- */

bool server_decode_schema(server_request *r, json_t *schema, const char *param, server_error *err) {
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return server_refuse(err, 400, param, "%s: expected a JSON schema", param);
    json_decref(r->schema);
    r->schema = json_incref(schema);
    return true;
}

/* ---- Messages and tools ---- */

json_t *server_message_add(json_t *messages, const char *role, json_t *content) {
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    return json_array_append_new(messages, message) == 0 ? message : NULL;
}

/* The text of one part; NULL: it is not text. */
static const json_t *part_text(const json_t *part) {
    static const char *const kinds[] = {"text", "input_text", "output_text", "refusal"};
    const char *type = server_json_string(part, "type");
    if (json_is_string(part)) return part;
    for (size_t i = 0; type && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(type, kinds[i]) != 0) continue;
        const json_t *text = json_object_get(part, i == 3 ? "refusal" : "text");
        return json_is_string(text) ? text : NULL;
    }
    return NULL;
}

json_t *server_content_text(const json_t *content, const char *param, server_error *err) {
    server_text text = {0};
    size_t index;
    const json_t *part;
    if (!content || json_is_null(content)) return json_string("");
    if (json_is_string(content)) return json_incref((json_t *)content);
    if (!json_is_array(content)) {
        (void)server_refuse(err, 400, param, "%s: expected a text or a list of parts", param);
        return NULL;
    }
    json_array_foreach(content, index, part) {
        const json_t *piece = part_text(part);
        if (!piece) {
            const char *type = server_json_string(part, "type");
            (void)server_refuse(err, 400, param,
                                "%s: a part of type '%.40s' is not text, which is all"
                                " that this model takes",
                                param, type ? type : "unknown");
            server_text_free(&text);
            return NULL;
        }
        if (text.length) server_text_add(&text, "\n", 1);
        server_text_add(&text, json_string_value(piece), json_string_length(piece));
    }
    json_t *made = server_json_text(text.bytes ? text.bytes : "", text.length);
    server_text_free(&text);
    return made;
}

static bool add_tool(server_request *r, const json_t *function, const char *schema) {
    json_t *parameters = server_json_get(function, schema);
    json_t *description = server_json_get(function, "description");
    json_t *made = json_pack("{s:O}", "name", json_object_get(function, "name"));
    if (description) (void)json_object_set(made, "description", description);
    (void)json_object_set_new(made, "parameters",
                              parameters
                                  ? json_incref(parameters)
                                  : json_pack("{s:s, s:{}}", "type", "object", "properties"));
    if (json_is_true(json_object_get(function, "strict")))
        (void)json_object_set_new(made, "strict", json_true());
    if (!r->tools) r->tools = json_array();
    return json_array_append_new(
               r->tools, json_pack("{s:s, s:o}", "type", "function", "function", made)) == 0;
}

bool server_decode_tools(server_request *r, const server_tool_form *form, server_error *err) {
    const json_t *tools = server_json_get(r->body, "tools"), *tool;
    size_t index;
    if (tools && !json_is_array(tools))
        return server_refuse(err, 400, "tools", "tools: expected a list");
    json_array_foreach(tools, index, tool) {
        const char *type = server_json_string(tool, "type");
        const json_t *function = form->nested ? json_object_get(tool, form->nested) : tool;
        const json_t *schema = server_json_get(function, form->schema);
        const char *name = server_json_string(function, "name");
        if (type && strcmp(type, form->type) != 0) continue; /* a tool of the vendor's servers */
        if (!name || !name[0] || (schema ? !json_is_object(schema) : form->complete))
            return server_refuse(err, 400, "tools",
                                 "tools[%zu]: expected a name, and a schema in %s", index,
                                 form->schema);
        if (!add_tool(r, function, form->schema))
            return server_refuse(err, 500, NULL, "no memory for the tools");
    }
    return true;
}
