/* model_text_test.c - Broken files beside a model: noted, and not in the way of the rest. */
#include "engine/formats/source_internal.h"
#include "engine/text/model_text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    sl_source source;
    sl_arena arena;
    sl_model_text text;
} fixture;

static sl_status load(fixture *f, const char *const (*files)[2]) {
    sl_error err = {0};
    *f = (fixture){0};
    sl_arena_init(&f->source.arena, NULL);
    sl_arena_init(&f->arena, NULL);
    for (; (*files)[0]; files++)
        assert_int_equal(
            sl_source_add_text(&f->source, (*files)[0], (*files)[1], strlen((*files)[1]), &err),
            SL_OK);
    return sl_model_text_load(&f->text, &f->source, 100, &f->arena, &err);
}

static void unload(fixture *f) {
    sl_model_text_unload(&f->text);
    sl_arena_deinit(&f->arena);
    sl_arena_deinit(&f->source.arena);
}

static void whole_files(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"config.json", "{\"eos_token_id\": 7}"},
        {"generation_config.json", "{\"eos_token_id\": [2, 99], \"do_sample\": true}"},
        {"tokenizer_config.json",
         "{\"bos_token\": {\"content\": \"<s>\"}, \"chat_template\": \"{{ bos_token }}\","
         " \"model_max_length\": 1000000000000000019884624838656}"},
        {NULL, NULL}};
    fixture f;
    assert_int_equal(load(&f, files), SL_OK);
    assert_null(f.text.note);
    assert_int_equal(f.text.end_count, 3);
    assert_int_equal(f.text.end_tokens[1], 99);
    assert_string_equal(f.text.bos, "<s>");
    assert_non_null(f.text.chat);
    unload(&f);
}

static void truncated_files(void **state) {
    (void)state;
    static const char *const files[][2] = {{"config.json", "{\"eos_token_id\": 7}"},
                                           {"generation_config.json", "{\"eos_token_id\": [2, 9"},
                                           {"tokenizer_config.json", "{\"bos_token\": "},
                                           {NULL, NULL}};
    fixture f;
    assert_int_equal(load(&f, files), SL_OK);
    assert_string_equal(f.text.note,
                        "tokenizer_config.json is not used: not valid JSON at byte 14: a value "
                        "wanted; generation_config.json is not used: not valid JSON at byte 22: "
                        "',' or ']' wanted");
    assert_int_equal(f.text.end_count, 1);
    unload(&f);
}

static void ends_that_are_no_tokens(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"generation_config.json", "{\"eos_token_id\": [4294967298, 100, -1, 3]}"}, {NULL, NULL}};
    fixture f;
    assert_int_equal(load(&f, files), SL_OK);
    assert_int_equal(f.text.end_count, 1);
    assert_int_equal(f.text.end_tokens[0], 3);
    assert_non_null(strstr(f.text.note, "'eos_token_id' 4294967298 of generation_config.json"));
    assert_non_null(strstr(f.text.note, "'eos_token_id' 100 of"));
    assert_non_null(strstr(f.text.note, "'eos_token_id' -1 of"));
    unload(&f);
}

static void templates_that_do_not_parse(void **state) {
    (void)state;
    static const char *const files[][2] = {{"chat_template.jinja", "{% import 'x' %}"},
                                           {NULL, NULL}};
    fixture f;
    assert_int_equal(load(&f, files), SL_OK);
    assert_null(f.text.chat);
    assert_int_not_equal(f.text.chat_problem.status, SL_OK);
    assert_non_null(strstr(f.text.note, "the chat template is not used: "));
    assert_non_null(strstr(f.text.note, f.text.chat_problem.message));
    unload(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_files),
        cmocka_unit_test(truncated_files),
        cmocka_unit_test(ends_that_are_no_tokens),
        cmocka_unit_test(templates_that_do_not_parse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
