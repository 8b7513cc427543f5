/* template_test.c - Chat templates against the output of Jinja2 and Hugging Face. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "engine/text/template.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sl_status render(const char *text, size_t bytes, const char *json, sl_arena *arena,
                        char **out, sl_error *err) {
    sl_template *tmpl = NULL;
    size_t out_bytes = 0;
    SL_TRY(sl_template_create(text, bytes, NULL, &tmpl, err));
    const sl_status status =
        sl_template_render(tmpl, json, strlen(json), arena, out, &out_bytes, err);
    sl_template_destroy(tmpl);
    if (status == SL_OK) assert_int_equal(strlen(*out), out_bytes);
    return status;
}

/* Renders the template with the variables and compares with `expected` (NULL: expects an error). */
static bool check(const json_t *template, const json_t *variables, const char *expected) {
    sl_arena arena;
    sl_error err = {0};
    char *text = NULL, *json = json_dumps(variables, 0);
    sl_arena_init(&arena, NULL);
    const sl_status status = render(json_string_value(template), json_string_length(template), json,
                                    &arena, &text, &err);
    const bool right = expected ? status == SL_OK && strcmp(text, expected) == 0 : status != SL_OK;
    if (!right)
        print_error("template: %s\nwanted: %s\nfound:  %s\n", json_string_value(template),
                    expected ? expected : "an error", status == SL_OK ? text : err.message);
    sl_arena_deinit(&arena);
    free(json);
    return right;
}

static void test_cases(void **state) {
    (void)state;
    json_error_t error;
    json_t *cases = json_load_file("tests/data/template/cases.json", 0, &error), *row;
    assert_non_null(cases);
    assert_true(json_array_size(cases) >= 60);
    size_t i, wrong = 0;
    json_array_foreach(cases, i, row) {
        const json_t *text = json_object_get(row, "text");
        wrong += !check(json_object_get(row, "template"), json_object_get(row, "variables"),
                        text ? json_string_value(text) : NULL);
    }
    json_decref(cases);
    assert_int_equal(wrong, 0);
}

/* The path of a file of the shared data; skips the test if it is absent. */
static const char *shared_path(const char *folder, const char *file) {
    static char path[1024];
    const char *root = getenv("SLUICE_SHARED");
    (void)snprintf(path, sizeof path, "%s/%s/%s", root ? root : "../shared", folder, file);
    if (access(path, R_OK) != 0) {
        print_message("no %s: skipped\n", path);
        skip();
    }
    return path;
}

static void check_model(const char *folder) {
    /* Configurations may contain integers beyond 64 bits; those of the test vectors must stay
     * integers. */
    json_t *config =
        json_load_file(shared_path(folder, "tokenizer_config.json"), JSON_DECODE_INT_AS_REAL, NULL);
    json_t *vectors = json_load_file(shared_path(folder, "vectors.json"), 0, NULL), *row;
    assert_non_null(config);
    assert_non_null(vectors);
    const json_t *chat = json_object_get(vectors, "chat");
    size_t i, wrong = 0;
    assert_true(json_array_size(chat) > 0);
    json_array_foreach(chat, i, row) {
        wrong += !check(json_object_get(config, "chat_template"), json_object_get(row, "input"),
                        json_string_value(json_object_get(row, "text")));
    }
    json_decref(config);
    json_decref(vectors);
    assert_int_equal(wrong, 0);
}
static void test_qwen3(void **state) {
    (void)state;
    check_model("tokenizers/qwen3");
}
static void test_llama3(void **state) {
    (void)state;
    check_model("tokenizers/llama3");
}
static void test_deepseek_v3(void **state) {
    (void)state;
    check_model("tokenizers/deepseek_v3");
}

static void test_fable(void **state) {
    (void)state;
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"},"
                               " {\"role\": \"assistant\", \"content\": \"Yes?\"}],"
                               " \"add_generation_prompt\": true}";
    char template[4096], *text = NULL;
    FILE *file = fopen(shared_path("models/fable", "chat_template.jinja"), "rb");
    assert_non_null(file);
    const size_t bytes = fread(template, 1, sizeof template, file);
    assert_int_equal(fclose(file), 0);
    assert_in_range(bytes, 1, sizeof template - 1);
    sl_arena arena;
    sl_error err;
    sl_arena_init(&arena, NULL);
    assert_int_equal(render(template, bytes, json, &arena, &text, &err), SL_OK);
    assert_string_equal(text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?"
                              "<|im_end|>\n<|im_start|>assistant\n");
    sl_arena_deinit(&arena);
}

/* template, variables, the beginning of the message */
static void test_messages(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"a\n{{ 1 / 0 }}", "{}", "chat template line 2: division by zero"},
        {"\n\n{% if %}", "{}", "chat template line 3: found '%}', wanted an expression"},
        {"{% if x %}\n", "{}",
         "chat template line 1: found 'the end of the template', wanted elif"},
        {"{{ m.role }}", "{}", "chat template line 1: 'm' is undefined"},
        {"x\n{{ raise_exception('no ' ~ 3) }}", "{}", "chat template line 2: no 3"},
        {"{{ 1\n+ x.y }}", "{}", "chat template line 2: 'x' is undefined"},
        {"{% macro f() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ f() }}", "{}",
         "chat template line 2: division by zero"},
        {"{{ 1 }}", "[]", "chat template variables are a list, wanted an object"},
        {"{{ 1 }}", "{", "chat template variables, line 1"},
        {"{{ '\xff' }}", "{}", "chat template is not UTF-8 at byte 4"},
        {"{{ strftime_now('%Y') }}", "{}", "chat template line 1: strftime_now wants a variable"},
        {"{{ strftime_now('%Y') }}", "{\"now\": \"2023-02-29\"}", "chat template line 1: strftime"},
        {"{% for x in range(90000) %}{% for y in range(90000) %}{% endfor %}{% endfor %}", "{}",
         "chat template line 1: more than"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}",
         "chat template line 1: calls or values nested deeper than"},
        {"{% set n = namespace(l=[]) %}{% for x in range(9000) %}{% set n.l = [n.l] %}{% endfor %}"
         "{{ n.l }}",
         "{}", "chat template line 1: calls or values nested deeper than"},
        {"{% set n = namespace() %}{% set n.n = n %}{{ n }}", "{}",
         "chat template line 1: calls or values nested deeper than"},
        {"{{ 'x' * 100000000 }}", "{}", "chat template line 1: more than"},
        {"{% set n = namespace(s='xxxxxxxx') %}{% for x in range(99) %}{% set n.s = n.s ~ n.s %}"
         "{% endfor %}",
         "{}", "chat template line 1: "},
        {"{{ [1, 2] * 99999999 }}", "{}", "chat template line 1: more than"},
        {"{{ 9223372036854775807 + 1 }}", "{}", "chat template line 1: an integer beyond 64 bits"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sl_arena arena;
        sl_error err = {0};
        char *text;
        sl_arena_init(&arena, NULL);
        assert_int_not_equal(
            render(rows[i][0], strlen(rows[i][0]), rows[i][1], &arena, &text, &err), SL_OK);
        if (strncmp(err.message, rows[i][2], strlen(rows[i][2])) != 0)
            assert_string_equal(err.message, rows[i][2]);
        sl_arena_deinit(&arena);
    }
}

/* Deeply nested brackets, prefixes, chains and blocks give an error, not a crash. */
static void test_deep_text(void **state) {
    (void)state;
    static const char *const pieces[][2] = {
        {"{{ ", "("},       {"{{ ", "["},   {"{{ ", "-"},       {"{{ ", "not "},
        {"{{ 1", "+1"},     {"{{ x", ".a"}, {"{{ x", "|e"},     {"{{ x", "[x"},
        {"{{ ", "{1:"},     {"{{ x", "(x"}, {"", "{% if 1 %}"}, {"{{ 1", " if 1 else 1"},
        {"{{ 1", " and 1"}, {"{{ 1", "**1"}};
    enum { TIMES = 20000 };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const size_t start = strlen(pieces[i][0]), bytes = strlen(pieces[i][1]);
        char *text = malloc(start + bytes * TIMES + 4), *out;
        assert_non_null(text);
        memcpy(text, pieces[i][0], start);
        for (size_t j = 0; j < TIMES; j++) memcpy(text + start + j * bytes, pieces[i][1], bytes);
        memcpy(text + start + bytes * TIMES, " }}", 4);
        sl_arena arena;
        sl_error err;
        sl_arena_init(&arena, NULL);
        assert_int_not_equal(
            render(text, start + bytes * TIMES + 3, "{\"x\": 1}", &arena, &out, &err), SL_OK);
        sl_arena_deinit(&arena);
        free(text);
    }
}

/* An allocator that fails after a number of calls. */
static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    int *left = ctx;
    if (new_bytes && (*left)-- <= 0) return NULL;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_no_memory(void **state) {
    (void)state;
    static const char text[] = "{% macro f(a) %}{{ a * 5000 }}{% endmacro %}"
                               "{% for m in messages %}{{ f(m.role)|upper }}{% endfor %}";
    static const char json[] = "{\"messages\": [{\"role\": \"user\"}, {\"role\": \"tool\"}]}";
    bool done = false;
    int calls = 0;
    for (; !done; calls++) {
        assert_true(calls < 100);
        int left = calls;
        const sl_allocator allocator = {failing_resize, &left};
        sl_template *tmpl = NULL;
        sl_arena arena;
        sl_error err = {0};
        char *out;
        size_t bytes;
        sl_arena_init(&arena, &allocator);
        sl_status status = sl_template_create(text, sizeof text - 1, &allocator, &tmpl, &err);
        if (status == SL_OK)
            status = sl_template_render(tmpl, json, sizeof json - 1, &arena, &out, &bytes, &err);
        if (status == SL_OK)
            assert_int_equal(bytes, 40000);
        else
            assert_int_equal(status, SL_NO_MEMORY);
        done = status == SL_OK;
        sl_template_destroy(tmpl);
        sl_arena_deinit(&arena);
    }
    assert_true(calls > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),     cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_llama3),    cmocka_unit_test(test_deepseek_v3),
        cmocka_unit_test(test_fable),     cmocka_unit_test(test_messages),
        cmocka_unit_test(test_deep_text), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
