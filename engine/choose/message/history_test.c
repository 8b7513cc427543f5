/* history_test.c - Messages with calls through the templates of all families, against Jinja2; and
 * the model's turns of these texts, parsed back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "engine/choose/message/history.h"
#include "tests/support/message_log.h"
#include <unistd.h>

static json_t *load(const char *path) {
    json_t *json = json_load_file(path, JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(json);
    return json;
}

static const char *text_at(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

/* The template, or of a file of the shared data; NULL: that is not here. */
static char *template_of(const json_t *row) {
    const char *text = text_at(row, "template"), *root = getenv("SLUICE_SHARED");
    char path[1024];
    if (text) return strdup(text);
    (void)snprintf(path, sizeof path, "%s/%s", root ? root : "../shared", text_at(row, "file"));
    if (access(path, R_OK) != 0) {
        print_message("no %s: skipped\n", path);
        return NULL;
    }
    json_t *config = load(path);
    char *copy = strdup(text_at(config, "chat_template"));
    json_decref(config);
    return copy;
}

static void check_rendering(const sl_template *chat, const json_t *messages, const char *wanted) {
    sl_history_style style;
    sl_error err = {0};
    json_t *fit = NULL,
           *variables = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    char *text = NULL;
    size_t bytes;
    sl_arena arena;
    assert_int_equal(sl_history_probe(chat, variables, &style, &err), SL_OK);
    if (sl_history_normalise(messages, &style, &fit, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(json_object_set_new(variables, "messages", fit), 0);
    char *json = json_dumps(variables, 0);
    sl_arena_init(&arena, NULL);
    if (sl_template_render(chat, &(sl_template_input){json, strlen(json), NULL, NULL}, &arena,
                           &text, &bytes, &err) != SL_OK)
        fail_msg("%s\n%s", json, err.message);
    if (strcmp(text, wanted) != 0) fail_msg("%s\nfound:  %s\nwanted: %s", json, text, wanted);
    sl_arena_deinit(&arena);
    free(json);
    json_decref(variables);
}

static void check_turn(const char *family, const json_t *turn) {
    static const char tools[] = "[{\"name\": \"get_weather\"}, {\"name\": \"other.tool\"}]";
    const sl_message_parser_options options = {
        .struct_size = sizeof options, .family = family, .tools_json = tools};
    const char *text = text_at(turn, "text"), *reasoning = text_at(turn, "reasoning");
    const json_t *wanted = json_object_get(turn, "calls");
    sl_status status;
    message_log log =
        message_log_of(&options, text, strlen(text), message_cut_bytes, NULL, &status);
    assert_int_equal(status, SL_OK);
    json_t *message = json_loads(log.json, 0, NULL);
    const json_t *calls = json_object_get(message, "tool_calls");
    const char *content = text_at(message, "content"),
               *thought = text_at(message, "reasoning_content");
    bool good = json_array_size(calls) == json_array_size(wanted) &&
                strcmp(content ? content : "", text_at(turn, "content")) == 0 &&
                strcmp(thought ? thought : "", reasoning ? reasoning : "") == 0;
    for (size_t i = 0; good && i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *pair = json_array_get(wanted, i);
        json_t *arguments = json_loads(text_at(function, "arguments"), 0, NULL);
        good = json_equal(arguments, json_array_get(pair, 1)) &&
               strcmp(text_at(function, "name"), json_string_value(json_array_get(pair, 0))) == 0;
        json_decref(arguments);
    }
    if (!good) fail_msg("%s: %s\nfound: %s", family, text, log.json);
    json_decref(message);
    message_log_free(&log);
}

static void test_templates(void **state) {
    (void)state;
    json_t *all = json_load_file("tests/data/message/templates.json", 0, NULL), *row;
    const json_t *conversations = json_object_get(all, "conversations");
    const json_t *templates = json_object_get(all, "templates");
    size_t i, checked = 0, turns = 0;
    assert_int_equal(json_array_size(templates), 15);
    json_array_foreach(templates, i, row) {
        char *text = template_of(row);
        sl_template *chat = NULL;
        sl_error err;
        if (!text) continue;
        const sl_message_family *family = sl_message_family_detect((sl_slice){text, strlen(text)});
        assert_string_equal(family->name, text_at(row, "family"));
        assert_int_equal(sl_template_create(text, strlen(text), NULL, &chat, &err), SL_OK);
        for (size_t k = 0; k < json_array_size(conversations); k++, checked++) {
            const json_t *turn = json_array_get(json_object_get(row, "turns"), k);
            check_rendering(chat, json_array_get(conversations, k),
                            json_string_value(json_array_get(json_object_get(row, "texts"), k)));
            if (json_is_object(turn)) check_turn(family->name, turn);
            turns += json_is_object(turn);
        }
        sl_template_destroy(chat);
        free(text);
    }
    json_decref(all);
    print_message("%zu renderings, %zu turns\n", checked, turns);
    assert_true(checked >= 78 && turns >= 70);
}

/* ---- Details ---- */

static char *normalise(const char *messages, sl_history_style style, sl_error *err) {
    json_t *given = json_loads(messages, 0, NULL), *fit = NULL;
    char *text = NULL;
    if (sl_history_normalise(given, &style, &fit, err) == SL_OK)
        text = json_dumps(fit, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(given);
    json_decref(fit);
    return text;
}

static void check_normal(const char *messages, sl_history_style style, const char *wanted) {
    sl_error err = {0};
    char *text = normalise(messages, style, &err);
    if (!text) fail_msg("%s", err.message);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_details(void **state) {
    (void)state;
    check_normal("[]", (sl_history_style){0}, "[]");
    check_normal("[{\"role\": \"developer\", \"content\": \"x\"}, {\"role\": \"user\"}]",
                 (sl_history_style){0},
                 "[{\"content\":\"x\",\"role\":\"system\"},{\"content\":\"\",\"role\":\"user\"}]");
    /* malformed arguments stay a string; an empty list of calls goes away */
    check_normal(
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": "
        "\"f\", \"arguments\": \"{broken\"}}]}, {\"role\": \"assistant\", \"content\": \"x\", "
        "\"tool_calls\": []}]",
        (sl_history_style){0},
        "[{\"content\":\"\",\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":"
        "\"{broken\",\"name\":\"f\"},\"id\":\"a\",\"type\":\"function\"}]},{\"content\":\"x\","
        "\"role\":\"assistant\"}]");
    /* results get the names of their calls */
    check_normal(
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": "
        "\"f\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"1\"}]",
        (sl_history_style){.string_arguments = true, .null_content = true},
        "[{\"content\":null,\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":"
        "\"{}\",\"name\":\"f\"},\"id\":\"a\",\"type\":\"function\"}]},{\"content\":\"1\","
        "\"name\":\"f\",\"role\":\"tool\",\"tool_call_id\":\"a\"}]");
}

/* Ids become nine letters, the same in call and result; such ids stay. */
static void test_ids(void **state) {
    (void)state;
    sl_error err;
    char *text =
        normalise("[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"call_123\", "
                  "\"function\": {\"name\": \"f\"}}, {\"id\": \"abcDEF123\", \"function\": "
                  "{\"name\": \"f\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"call_123\"}, "
                  "{\"role\": \"tool\", \"tool_call_id\": \"abcDEF123\"}]",
                  (sl_history_style){.short_ids = true}, &err);
    json_t *messages = json_loads(text, 0, NULL);
    const json_t *calls = json_object_get(json_array_get(messages, 0), "tool_calls");
    for (size_t i = 0; i < 2; i++) {
        const char *id = text_at(json_array_get(calls, i), "id");
        assert_int_equal(
            strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), 9);
        assert_int_equal(strlen(id), 9);
        assert_string_equal(id, text_at(json_array_get(messages, 1 + i), "tool_call_id"));
        assert_int_equal(strcmp(id, "abcDEF123") == 0, i == 1);
    }
    json_decref(messages);
    free(text);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"{}", "messages is not a list"},
        {"[{\"content\": \"x\"}]", "messages[0] has no role"},
        {"[3]", "messages[0] has no role"},
        {"[{\"role\": \"user\", \"content\": 3}]", "messages[0]: the content is neither"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]",
         "messages[0].content[0]: a part of type 'image_url', wanted text"},
        {"[{\"role\": \"assistant\", \"tool_calls\": 3}]", "messages[0]: tool_calls is not a list"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"x\"}]}]",
         "messages[0]: a tool call without a name"},
        {"[{\"role\": \"tool\", \"content\": 3}]", "messages[0]: the content is neither"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_error err = {0};
        assert_null(normalise(rows[i][0], (sl_history_style){0}, &err));
        if (strncmp(err.message, rows[i][1], strlen(rows[i][1])) != 0)
            assert_string_equal(err.message, rows[i][1]);
    }
}

/* The results of calls that are told one by one, and those that belong to none. */
static void test_one_by_one(void **state) {
    (void)state;
    sl_error err;
    char *text = normalise(
        "[{\"role\": \"assistant\", \"content\": \"c\", \"tool_calls\": [{\"id\": \"a\", "
        "\"function\": "
        "{\"name\": \"f\"}}, {\"id\": \"b\", \"function\": {\"name\": \"g\"}}]}, {\"role\": "
        "\"tool\", "
        "\"tool_call_id\": \"b\", \"content\": \"1\"}, {\"role\": \"tool\", \"tool_call_id\": "
        "\"b\", "
        "\"content\": \"2\"}, {\"role\": \"tool\", \"content\": \"3\"}, {\"role\": \"user\", "
        "\"content\": \"4\"}]",
        (sl_history_style){.one_call = true}, &err);
    json_t *messages = json_loads(text, 0, NULL);
    static const char *const contents[] = {"c", "", "1", "2", "3", "4"};
    assert_int_equal(json_array_size(messages), 6);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(text_at(json_array_get(messages, i), "content"), contents[i]);
    json_decref(messages);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates),  cmocka_unit_test(test_details),
        cmocka_unit_test(test_ids),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
