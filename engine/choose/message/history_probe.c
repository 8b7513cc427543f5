/* history_probe.c - What a template does with calls. */
#include "engine/choose/message/history.h"
#include "engine/formats/json.h"
#include <stdlib.h>
#include <string.h>

#define CONTENT "sluice said this"
#define FIRST   "sluice_probe_a"
#define SECOND  "sluice_probe_b"
#define VALUE   "sluice value"
#define THOUGHT "sluice thought this"

typedef struct {
    const sl_template *chat;
    const json_t *variables;
    sl_error *err;
    sl_status status; /* SL_OK, or SL_NO_MEMORY */
} prober;

static json_t *make_call(const sl_history_style *style, const char *name, const char *id) {
    json_t *arguments = style->string_arguments ? json_string("{\"k\": \"" VALUE "\"}")
                                                : json_pack("{s:s}", "k", VALUE);
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", arguments);
}

static json_t *make_messages(const sl_history_style *style, const char *content, int calls) {
    const char *const ids[] = {style->short_ids ? "abcdefgh1" : "call_sluice_1",
                               style->short_ids ? "abcdefgh2" : "call_sluice_2"};
    json_t *messages =
        json_pack("[{s:s, s:s}, {s:s}]", "role", "user", "content", "?", "role", "assistant");
    json_t *answer = json_array_get(messages, 1), *list = json_array();
    for (int i = 0; i < calls; i++)
        sl_json_append(&list, make_call(style, i ? SECOND : FIRST, ids[i]));
    int failed = json_object_set_new(
        answer, "content", style->null_content && !content[0] ? json_null() : json_string(content));
    failed |= json_object_set_new(answer, "tool_calls", list);
    for (int i = 0; i < calls; i++)
        sl_json_append(&messages, json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                                            ids[i], "name", i ? SECOND : FIRST, "content", "1"));
    if (!failed) return messages;
    json_decref(messages);
    return NULL;
}

/* The template renders the messages, and all wanted texts are in the result. */
static bool renders(prober *p, json_t *messages, const char *const *wanted) {
    sl_arena arena;
    sl_error err = {0};
    char *json = NULL, *text = NULL;
    size_t bytes;
    json_t *all = json_deep_copy(p->variables);
    sl_json_set(&all, "messages", messages);
    sl_json_set(&all, "tools",
                json_pack("[{s:s, s:{s:s, s:{s:s}}}]", "type", "function", "function", "name", "f",
                          "parameters", "type", "object"));
    if (all) json = sl_json_dump(all, JSON_COMPACT);
    json_decref(all);
    sl_arena_init(&arena, NULL);
    const sl_status status =
        json ? sl_template_render(p->chat, &(sl_template_input){json, strlen(json), NULL, NULL},
                                  &arena, &text, &bytes, &err)
             : sl_no_memory(&err, "a message", 0);
    if (status == SL_NO_MEMORY) p->status = sl_fail(p->err, status, "%s", err.message);
    bool good = status == SL_OK;
    for (; good && *wanted; wanted++) good = strstr(text, *wanted) != NULL;
    sl_arena_deinit(&arena);
    free(json);
    return good;
}

/* The first of the forms of content and arguments that works. */
static bool find_form(prober *p, sl_history_style *style) {
    static const sl_history_style forms[] = {{0},
                                             {.null_content = true},
                                             {.string_arguments = true},
                                             {.string_arguments = true, .null_content = true}};
    for (int is_short = 0; is_short < 2; is_short++)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            *style = forms[i];
            style->short_ids = is_short != 0;
            if (renders(p, make_messages(style, "", 1), (const char *const[]){FIRST, VALUE, NULL}))
                return true;
        }
    *style = (sl_history_style){0};
    return false;
}

sl_status sl_history_probe(const sl_template *chat, const json_t *variables, sl_history_style *out,
                           sl_error *err) {
    prober p = {chat, variables, err, SL_OK};
    *out = (sl_history_style){0};
    if (find_form(&p, out)) {
        out->apart = !renders(&p, make_messages(out, CONTENT, 1),
                              (const char *const[]){CONTENT, FIRST, NULL});
        out->one_call =
            !renders(&p, make_messages(out, "", 2), (const char *const[]){FIRST, SECOND, NULL});
        json_t *messages = make_messages(out, "", 1);
        json_t *answer = json_array_get(messages, 1);
        if (json_object_set_new(answer, "thinking", json_string(THOUGHT)) != 0) {
            json_decref(messages);
            return sl_no_memory(err, "a message", 0);
        }
        out->thinking = renders(&p, messages, (const char *const[]){THOUGHT, FIRST, NULL});
    }
    return p.status;
}
