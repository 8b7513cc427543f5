/* messages_test.c - Messages through the public functions, with tokens of a model. */
#include "sluice/messages.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static sl_model *model;

static int set_up(void **state) {
    (void)state;
    sl_error err;
    if (sl_model_open("models/fable", NULL, &model, &err) == SL_OK) return 0;
    print_error("%s\n", err.message);
    return 1;
}

static int tear_down(void **state) {
    (void)state;
    sl_model_close(model);
    return 0;
}

static void test_families(void **state) {
    (void)state;
    uint32_t count = 0;
    while (sl_message_family_at(count)) count++;
    assert_int_equal(count, 11);
    assert_string_equal(sl_message_family_at(count - 1), "none");
    assert_string_equal(sl_message_family_of(model), "none");
    assert_string_equal(sl_message_family_of(NULL), "none");
}

/* Special tokens that are not a marker are left out. */
static void test_tokens(void **state) {
    (void)state;
    static const char text[] = "<think>hm</think>Hi <|im_end|>\xC3\xA9<tool_call>{\"name\": \"f\"}";
    const sl_message_parser_options options = {
        .struct_size = sizeof options, .family = "hermes", .tools_json = "[]"};
    sl_token tokens[128];
    size_t count;
    sl_message_parser *parser = NULL;
    sl_error err;
    char *json = NULL;
    assert_int_equal(sl_model_tokenize(model, text, sizeof text - 1, tokens, 128, &count, &err),
                     SL_OK);
    assert_in_range(count, 1, 128);
    assert_int_equal(sl_message_parser_create(&options, &parser, &err), SL_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sl_message_parser_feed_token(parser, model, tokens[i], &err), SL_OK);
    assert_int_equal(sl_message_parser_finish(parser, &err), SL_OK);
    assert_int_equal(sl_message_parser_calls(parser), 1);
    assert_in_range(sl_message_parser_reasoning_pieces(parser), 1, count - 1);
    assert_int_equal(sl_message_parser_json(parser, &json, &err), SL_OK);
    assert_non_null(strstr(json, "\"content\":\"Hi \xC3\xA9\""));
    assert_non_null(strstr(json, "\"reasoning_content\":\"hm\""));
    sl_free(json);
    assert_int_equal(sl_message_parser_feed(parser, "x", 1, &err), SL_INVALID);
    sl_message_parser_destroy(parser);
}

static void test_for_template(void **state) {
    (void)state;
    static const char messages[] =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, {\"role\": "
        "\"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"x\", \"function\": "
        "{\"name\": "
        "\"f\", \"arguments\": \"{\\\"b\\\": 1, \\\"a\\\": 2}\"}}]}]";
    char *json = NULL;
    sl_error err;
    assert_int_equal(sl_messages_for_template(model, messages, &json, &err), SL_OK);
    assert_non_null(strstr(json, "\"content\":\"a\""));
    assert_non_null(strstr(json, "\"arguments\":{\"b\":1,\"a\":2}"));
    sl_free(json);
    assert_int_equal(sl_messages_for_template(model, "[", &json, &err), SL_FORMAT);
    assert_int_equal(sl_messages_for_template(model, "{}", &json, &err), SL_INVALID);
    assert_int_equal(sl_messages_for_template(NULL, "[]", &json, &err), SL_INVALID);
}

static void test_nothing(void **state) {
    (void)state;
    sl_message_event event = {.struct_size = sizeof event};
    sl_error err;
    sl_message_parser_destroy(NULL);
    assert_int_equal(sl_message_parser_next(NULL, &event), 0);
    assert_int_equal(sl_message_parser_calls(NULL), 0);
    assert_int_equal(sl_message_parser_reasoning_pieces(NULL), 0);
    assert_int_equal(sl_message_parser_create(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_message_parser_finish(NULL, &err), SL_INVALID);
    assert_int_equal(sl_message_parser_feed(NULL, "", 0, &err), SL_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_for_template),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
