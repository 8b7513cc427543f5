/* history.c - Normalises messages: one text, arguments as the template takes them, ids, order. */
#include "engine/choose/message/history.h"
#include "base/memory.h"
#include "engine/formats/json.h"
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { SHORT_ID = 9 };

typedef struct {
    const sl_history_style *style;
    json_t *out;   /* NULL: there was no memory */
    json_t *names; /* of functions, by the ids of their calls */
    sl_error *err;
} normaliser;

/* ---- Texts ---- */

static bool is_blank(const json_t *text) {
    const char *at = json_string_value(text);
    return !at || at[strspn(at, " \n\t\r")] == '\0';
}

/* A string, or parts that are text; *out is NULL if there was no memory. */
static sl_status join_content(const json_t *content, size_t index, json_t **out, sl_error *err) {
    if (!content || json_is_null(content) || json_is_string(content)) {
        *out = json_is_string(content) ? json_copy((json_t *)(uintptr_t)content) : json_string("");
        return SL_OK;
    }
    if (!json_is_array(content))
        return sl_fail(err, SL_INVALID, "messages[%zu]: the content is neither text nor a list",
                       index);
    size_t bytes = 0, length = 0;
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_is_string(part) ? part : json_object_get(part, "text");
        if (!json_is_string(text))
            return sl_fail(err, SL_UNSUPPORTED,
                           "messages[%zu].content[%zu]: a part of type '%s', wanted text", index, i,
                           type ? type : "?");
        bytes += json_string_length(text);
    }
    char *joined = malloc(bytes + 1);
    for (size_t i = 0; joined && i < json_array_size(content); i++) {
        const json_t *part = json_array_get(content, i);
        const json_t *text = json_is_string(part) ? part : json_object_get(part, "text");
        memcpy(joined + length, json_string_value(text), json_string_length(text));
        length += json_string_length(text);
    }
    *out = joined ? json_stringn(joined, length) : NULL;
    free(joined);
    return SL_OK;
}

/* Under any of its names; borrowed, NULL if there is none. */
static json_t *find_reasoning(const json_t *message) {
    static const char *const keys[] = {"reasoning_content", "reasoning", "thinking"};
    for (size_t i = 0; i < 3; i++) {
        json_t *found = json_object_get(message, keys[i]);
        if (json_is_string(found) && json_string_length(found)) return found;
    }
    return NULL;
}

/* ---- Calls ---- */

static bool is_short(const char *id) {
    size_t count = 0;
    for (; id[count]; count++) {
        const char lower = (char)(id[count] | 32);
        if (!(lower >= 'a' && lower <= 'z') && !(id[count] >= '0' && id[count] <= '9'))
            return false;
    }
    return count == SHORT_ID;
}

/* The same id always becomes the same. */
static json_t *map_id(const sl_history_style *style, const char *id) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    char made[SHORT_ID + 1] = "";
    if (!style->short_ids || is_short(id)) return json_string(id);
    uint64_t hash = XXH64(id, strlen(id), 0);
    for (int i = 0; i < SHORT_ID; i++, hash /= 62) made[i] = letters[hash % 62];
    return json_string(made);
}

/* NULL: no memory. */
static json_t *make_arguments(const sl_history_style *style, json_t *given) {
    sl_json_problem problem;
    if (!given || json_is_null(given))
        return style->string_arguments ? json_string("{}") : json_object();
    if (style->string_arguments && !json_is_string(given)) {
        char *text = sl_json_dump(given, JSON_ENCODE_ANY);
        json_t *made = text ? json_string(text) : NULL;
        free(text);
        return made;
    }
    if (style->string_arguments || !json_is_string(given)) return json_incref(given);
    json_t *parsed = sl_json_parse(json_string_value(given), json_string_length(given),
                                   SL_JSON_ALLOW_NUL, &problem);
    if (json_is_object(parsed) || (!parsed && problem.no_memory)) return parsed;
    json_decref(parsed);
    return json_incref(given);
}

static sl_status make_call(const normaliser *n, const json_t *given, size_t index, json_t **out) {
    const json_t *function = json_object_get(given, "function");
    if (!function) function = given;
    const char *name = json_string_value(json_object_get(function, "name"));
    const char *id = json_string_value(json_object_get(given, "id"));
    if (!name)
        return sl_fail(n->err, SL_INVALID, "messages[%zu]: a tool call without a name", index);
    *out = json_pack("{s:s, s:{s:s, s:o}}", "type", "function", "function", "name", name,
                     "arguments", make_arguments(n->style, json_object_get(function, "arguments")));
    if (id) {
        sl_json_set(out, "id", map_id(n->style, id));
        if (json_object_set_new(n->names, id, json_string(name)) != 0) {
            json_decref(*out);
            *out = NULL;
        }
    }
    return SL_OK;
}

static sl_status make_calls(const normaliser *n, const json_t *given, size_t index, json_t **out) {
    *out = NULL;
    if (!given || json_is_null(given)) return SL_OK;
    if (!json_is_array(given))
        return sl_fail(n->err, SL_INVALID, "messages[%zu]: tool_calls is not a list", index);
    if (json_array_size(given) == 0) return SL_OK;
    json_t *calls = json_array();
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *call = NULL;
        const sl_status status = make_call(n, json_array_get(given, i), index, &call);
        if (status != SL_OK) {
            json_decref(calls);
            return status;
        }
        sl_json_append(&calls, call);
    }
    *out = calls;
    return calls ? SL_OK : sl_no_memory(n->err, "messages", 0);
}

/* ---- Messages ---- */

static void emit(normaliser *n, json_t *message) {
    sl_json_append(&n->out, message);
}

/* What a template that calls reasoning "thinking" has beside calls is one text. */
static void set_thinking(json_t **message, json_t *reasoning, bool has_calls) {
    json_t *content = json_object_get(*message, "content");
    if (has_calls && !is_blank(content)) {
        sl_json_set(
            message, "thinking",
            json_sprintf("%s\n\n%s", json_string_value(reasoning), json_string_value(content)));
        sl_json_set(message, "content", json_string(""));
    } else {
        sl_json_set(message, "thinking", json_incref(reasoning));
    }
}

/* calls is taken over; NULL: there are none. */
static json_t *make_assistant(const normaliser *n, const json_t *given, json_t *content,
                              json_t *calls) {
    json_t *message = json_copy((json_t *)(uintptr_t)given), *reasoning = find_reasoning(given);
    const bool empty = is_blank(content) && calls && n->style->null_content;
    (void)json_object_del(message, "tool_calls");
    (void)json_object_del(message, "thinking");
    sl_json_set(&message, "content", empty ? json_null() : json_incref(content));
    if (reasoning) {
        sl_json_set(&message, "reasoning_content", json_incref(reasoning));
        if (n->style->thinking) set_thinking(&message, reasoning, calls != NULL);
    }
    if (calls) sl_json_set(&message, "tool_calls", calls);
    return message;
}

static json_t *only_calls(const normaliser *n, json_t *calls) {
    return json_pack("{s:s, s:o, s:o}", "role", "assistant", "content",
                     n->style->null_content ? json_null() : json_string(""), "tool_calls", calls);
}

/* The results that follow, by their ids; *end: the first message that is not one. */
static json_t *list_results(const json_t *messages, size_t from, size_t *end) {
    json_t *results = json_object();
    for (*end = from; *end < json_array_size(messages); ++*end) {
        json_t *message = json_array_get(messages, *end);
        const char *role = json_string_value(json_object_get(message, "role"));
        const char *id = json_string_value(json_object_get(message, "tool_call_id"));
        if (!role || strcmp(role, "tool") != 0) break;
        if (id && !json_object_get(results, id)) sl_json_set(&results, id, json_incref(message));
    }
    return results;
}

static sl_status add_tool(normaliser *n, const json_t *given, size_t index) {
    const char *id = json_string_value(json_object_get(given, "tool_call_id"));
    json_t *message = json_copy((json_t *)(uintptr_t)given), *content = NULL;
    const sl_status status =
        join_content(json_object_get(given, "content"), index, &content, n->err);
    if (status != SL_OK) {
        json_decref(message);
        return status;
    }
    sl_json_set(&message, "content", content);
    if (id) {
        json_t *name = json_object_get(n->names, id);
        sl_json_set(&message, "tool_call_id", map_id(n->style, id));
        if (name && !json_object_get(given, "name"))
            sl_json_set(&message, "name", json_incref(name));
    }
    emit(n, message);
    return SL_OK;
}

/* The first call stands in the message itself. */
static void emit_call(normaliser *n, const json_t *given, json_t *content, json_t *calls,
                      size_t index) {
    json_t *one = json_pack("[O]", json_array_get(calls, index));
    emit(n, index ? only_calls(n, one) : make_assistant(n, given, content, one));
}

/* Each call with its result after it, then the results that belong to none.  *at: the message, then
 * the last of its results. */
static sl_status add_one_by_one(normaliser *n, const json_t *messages, json_t *content,
                                json_t *calls, size_t *at) {
    const json_t *given = json_array_get(messages, *at),
                 *source = json_object_get(given, "tool_calls");
    const size_t from = *at + 1;
    size_t end = from;
    json_t *results = list_results(messages, from, &end), *taken = json_object();
    sl_status status = results && taken ? SL_OK : sl_no_memory(n->err, "messages", 0);
    for (size_t i = 0; i < json_array_size(calls) && status == SL_OK; i++) {
        const char *id = json_string_value(json_object_get(json_array_get(source, i), "id"));
        json_t *result = id ? json_object_get(results, id) : NULL;
        emit_call(n, given, content, calls, i);
        if (!result || json_object_get(taken, id)) continue;
        status = add_tool(n, result, from);
        sl_json_set(&taken, id, json_incref(result));
    }
    for (size_t i = from; i < end && status == SL_OK; i++) {
        const json_t *message = json_array_get(messages, i);
        const char *id = json_string_value(json_object_get(message, "tool_call_id"));
        if (!id || json_object_get(taken, id) != message) status = add_tool(n, message, i);
    }
    if (status == SL_OK && !taken) status = sl_no_memory(n->err, "messages", 0);
    json_decref(results);
    json_decref(taken);
    *at = end - 1;
    return status;
}

static sl_status add_assistant(normaliser *n, const json_t *messages, size_t *at) {
    const json_t *given = json_array_get(messages, *at);
    json_t *content = NULL, *calls = NULL;
    sl_status status = SL_OK;
    SL_TRY(join_content(json_object_get(given, "content"), *at, &content, n->err));
    SL_TRY_ELSE(done, make_calls(n, json_object_get(given, "tool_calls"), *at, &calls));
    if (n->style->one_call && json_array_size(calls) > 1) {
        status = add_one_by_one(n, messages, content, calls, at);
    } else if (n->style->apart && calls && !is_blank(content)) {
        emit(n, make_assistant(n, given, content, NULL));
        emit(n, only_calls(n, json_incref(calls)));
    } else {
        emit(n, make_assistant(n, given, content, calls ? json_incref(calls) : NULL));
    }
done:
    json_decref(content);
    json_decref(calls);
    return status;
}

static sl_status add_other(normaliser *n, const json_t *given, const char *role, size_t index) {
    json_t *content = NULL;
    SL_TRY(join_content(json_object_get(given, "content"), index, &content, n->err));
    json_t *message = json_copy((json_t *)(uintptr_t)given);
    sl_json_set(&message, "content", content);
    if (strcmp(role, "developer") == 0) sl_json_set(&message, "role", json_string("system"));
    emit(n, message);
    return SL_OK;
}

static sl_status add_message(normaliser *n, const json_t *messages, size_t *at) {
    const json_t *given = json_array_get(messages, *at);
    const char *role = json_string_value(json_object_get(given, "role"));
    if (!role) return sl_fail(n->err, SL_INVALID, "messages[%zu] has no role", *at);
    if (strcmp(role, "assistant") == 0) return add_assistant(n, messages, at);
    if (strcmp(role, "tool") == 0) return add_tool(n, given, *at);
    return add_other(n, given, role, *at);
}

sl_status sl_history_normalise(const json_t *messages, const sl_history_style *style, json_t **out,
                               sl_error *err) {
    *out = NULL;
    if (!json_is_array(messages)) return sl_fail(err, SL_INVALID, "messages is not a list");
    normaliser n = {style, json_array(), json_object(), err};
    sl_status status = n.names ? SL_OK : sl_no_memory(err, "messages", 0);
    for (size_t i = 0; i < json_array_size(messages) && status == SL_OK; i++)
        status = add_message(&n, messages, &i);
    if (status == SL_OK && !n.out) status = sl_no_memory(err, "messages", 0);
    json_decref(n.names);
    if (status == SL_OK)
        *out = n.out;
    else
        json_decref(n.out);
    return status;
}
