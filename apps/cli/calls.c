#include "apps/cli/calls.h"
#include <stdlib.h>
#include <string.h>

static const char *role_of(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role ? role : "";
}

/* The calls of the last answer, if nothing but results came after it; *first: where these begin. */
static const json_t *last_calls(const cli_conversation *c, size_t *first) {
    size_t at = json_array_size(c->messages);
    while (at && strcmp(role_of(json_array_get(c->messages, at - 1)), "tool") == 0) at--;
    *first = at;
    if (at == 0) return NULL;
    return json_object_get(json_array_get(c->messages, at - 1), "tool_calls");
}

static const char *id_of(const json_t *call) {
    const char *id = json_string_value(json_object_get(call, "id"));
    return id ? id : "";
}

static bool has_result(const cli_conversation *c, size_t first, const char *id) {
    for (size_t i = first; i < json_array_size(c->messages); i++) {
        const json_t *message = json_array_get(c->messages, i);
        const char *other = json_string_value(json_object_get(message, "tool_call_id"));
        if (other && strcmp(other, id) == 0) return true;
    }
    return false;
}

/* How many calls have no result; *next: the number of the first of them. */
static size_t count_waiting(const cli_conversation *c, size_t *next) {
    size_t first, count = 0;
    const json_t *calls = last_calls(c, &first);
    *next = 0;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        if (has_result(c, first, id_of(json_array_get(calls, i)))) continue;
        if (count++ == 0) *next = i + 1;
    }
    return count;
}

static void add_result(cli_conversation *c, const json_t *call, const char *text) {
    const json_t *name = json_object_get(json_object_get(call, "function"), "name");
    json_t *message = json_pack("{s:s, s:s, s:O, s:o}", "role", "tool", "tool_call_id", id_of(call),
                                "name", name, "content", cli_json_text(text, strlen(text)));
    cli_json_append(c->messages, message);
}

void cli_calls_note(const cli_conversation *c) {
    size_t next;
    const size_t waiting = count_waiting(c, &next);
    if (waiting)
        cli_note("/tool %zu RESULT (or @FILE) sends the result of call %zu%s", next, next,
                 waiting > 1 ? "; the model goes on when all calls have one" : "");
}

bool cli_calls_take_result(cli_conversation *c, const char *text) {
    size_t first, next;
    const json_t *calls = last_calls(c, &first);
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    const json_t *call = end > text && number ? json_array_get(calls, number - 1) : NULL;
    if (!count_waiting(c, &next)) {
        cli_note("no call waits for a result");
        return false;
    }
    if (!call || (*end != ' ' && *end != '\n') || has_result(c, first, id_of(call))) {
        cli_note("expected /tool N RESULT, with the number of a call that waits: %zu", next);
        return false;
    }
    char *file = end[1] == '@' ? cli_read_text(end + 2) : NULL;
    if (end[1] == '@' && !file) return false;
    add_result(c, call, file ? file : end + 1);
    free(file);
    cli_calls_note(c);
    return count_waiting(c, &next) == 0;
}

void cli_calls_close(cli_conversation *c) {
    size_t first, next;
    const json_t *calls = last_calls(c, &first);
    while (count_waiting(c, &next))
        add_result(c, json_array_get(calls, next - 1), "The call was not made.");
}
