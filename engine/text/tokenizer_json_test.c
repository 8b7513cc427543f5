/* tokenizer_json_test.c - Tokenizers that are written in unusual ways, or not quite in JSON. */
#include "engine/text/tokenizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Messages about texts that are not JSON. */
#define NOT_JSON "tokenizer.json: not valid JSON"
#define SPLIT    "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"

static sl_error err;

/* model is the text after "model":, and may go on with other keys. */
static sl_status create(const char *model, sl_tokenizer **out) {
    char text[4096];
    const int bytes = snprintf(text, sizeof text, "{" SPLIT ",\"model\":%s}", model);
    assert_true(bytes > 0 && (size_t)bytes < sizeof text);
    return sl_tokenizer_create(text, (size_t)bytes, NULL, out, &err);
}

/* The texts of ids 0, 1, ... separated by '|'. */
static void assert_tokens(const char *model, const char *wanted) {
    sl_tokenizer *tokenizer;
    char found[256] = "";
    if (create(model, &tokenizer) != SL_OK) fail_msg("%s: %s", model, err.message);
    for (uint32_t id = 0; id < sl_tokenizer_vocab(tokenizer); id++) {
        size_t bytes;
        const char *text = sl_tokenizer_text(tokenizer, (int32_t)id, &bytes);
        (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%s%.*s", id ? "|" : "",
                       (int)bytes, text);
        const bool first = bytes > 0 && sl_tokenizer_find(tokenizer, text, bytes) == (int32_t)id;
        if (bytes > 0 && !first)
            fail_msg("%s: '%.*s' is not token %u", model, (int)bytes, text, id);
    }
    if (strcmp(found, wanted) != 0) fail_msg("%s: '%s', wanted '%s'", model, found, wanted);
    sl_tokenizer_destroy(tokenizer);
}

static void orders_and_spaces(void **state) {
    (void)state;
    assert_tokens("{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}", "a|b|ab");
    assert_tokens("{\"merges\":[[\"a\",\"b\"]],\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}}", "a|b|ab");
    assert_tokens(" \n{ \"merges\" : [ [ \"a\" ,\t\"b\"\r] ] , \"type\" : \"BPE\" , \"vocab\" : { "
                  "\"ab\" : 2 , \"b\" :1, \"a\": 0 } } ",
                  "a|b|ab");
    assert_tokens("{\"vocab\":{},\"merges\":[]}", "");
    assert_tokens("{\"vocab\":{ } , \"merges\":[\n]}", "");
    assert_tokens("{\"vocab\":{\"a\":3},\"merges\":[]}", "|||a");
    assert_tokens("{\"vocab\":{\"a\":-0},\"merges\":[]}", "a");
    assert_tokens("{\"vocab\":{\"a\":0},\"merges\":[]},\"other\":{\"vocab\":{\"b\":7}}", "a");
}

static void escapes(void **state) {
    (void)state;
    assert_tokens("{\"voc\\u0061b\":{\"a\":0},\"merges\":[]}", "a");
    assert_tokens("{\"vocab\":{\"\\u0061\":0,\"\\\"\\\\\\/\":1},\"merges\":[]}", "a|\"\\/");
    assert_tokens("{\"vocab\":{\"\\u0120\\u00e9\":0,\"\\ud83d\\uDE00\":1},\"merges\":[]}",
                  " \xE9|\xF0\x9F\x98\x80");
    assert_tokens("{\"vocab\":{\"\\b\\f\\n\\r\\t\":0},\"merges\":[]}", "\b\f\n\r\t");
    assert_tokens("{\"vocab\":{\"\\\"\":0,\"b\":1,\"\\\"b\":2},\"merges\":[\"\\\" b\"]}",
                  "\"|b|\"b");
    assert_tokens(
        "{\"vocab\":{\"\\\"\":0,\"\\\\\":1,\"\\\"\\\\\":2},\"merges\":[[\"\\\"\",\"\\\\\"]]}",
        "\"|\\|\"\\");
}

/* The last of equal keys counts, at the place of the first. */
static void equal_keys(void **state) {
    (void)state;
    assert_tokens("{\"vocab\":{\"a\":0},\"merges\":[],\"vocab\":{\"b\":1}}", "|b");
    assert_tokens("{\"vocab\":{\"a\":0},\"merges\":[],\"voc\\u0061b\":{\"b\":1}}", "|b");
    assert_tokens("{\"vocab\":{\"a\":0},\"merges\":[\"x y\"],\"merges\":[]}", "a");
    assert_tokens("{\"vocab\":7,\"merges\":[],\"vocab\":{\"b\":1}}", "|b");
    assert_tokens("3,\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}", "a");
    assert_tokens("{\"vocab\":{\"a\":0},\"merges\":[]},\"model\":{\"vocab\":{\"b\":0},"
                  "\"merges\":[]}",
                  "b");
    assert_tokens("{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}", "|a");
    assert_tokens("{\"vocab\":{\"a\":0,\"b\":2,\"a\":2},\"merges\":[]}", "||b");
    assert_tokens("{\"vocab\":{\"a\":1,\"b\":1,\"a\":1},\"merges\":[]}", "|b");
    assert_tokens("{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}", "|b");
    assert_tokens("{\"vocab\":{\"a\":-1,\"a\":1},\"merges\":[]}", "|a");
    assert_tokens("{\"vocab\":{\"a\":\"x\",\"a\":1},\"merges\":[]}", "|a");
}

/* Added tokens take the ids of others. */
static void replaced_tokens(void **state) {
    (void)state;
#define ADDED ",\"added_tokens\":[{\"id\":1,\"content\":\"b\"}]"
    sl_tokenizer *tokenizer;
    assert_tokens("{\"vocab\":{\"a\":0,\"c\":1},\"merges\":[]}" ADDED, "a|b");
    assert_tokens("{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}" ADDED, "|b");
    assert_int_equal(create("{\"vocab\":{\"a\":0,\"c\":1},\"merges\":[]}" ADDED, &tokenizer),
                     SL_OK);
    assert_int_equal(sl_tokenizer_find(tokenizer, "c", 1), -1);
    sl_tokenizer_destroy(tokenizer);
#undef ADDED
}

static void assert_refused(const char *model, const char *message) {
    sl_tokenizer *tokenizer;
    if (create(model, &tokenizer) != SL_FORMAT) fail_msg("%s is accepted", model);
    assert_null(tokenizer);
    if (!strstr(err.message, message)) fail_msg("%s: '%s'", model, err.message);
}

static void malformed_lists(void **state) {
    (void)state;
    static const char *const models[] = {
        "{\"vocab\":{\"a\":0,},\"merges\":[]}",
        "{\"vocab\":{,\"a\":0},\"merges\":[]}",
        "{\"vocab\":{\"a\":0 \"b\":1},\"merges\":[]}",
        "{\"vocab\":{\"a\" 0},\"merges\":[]}",
        "{\"vocab\":{\"a\":},\"merges\":[]}",
        "{\"vocab\":{\"a\":01},\"merges\":[]}",
        "{\"vocab\":{\"a\":1.},\"merges\":[]}",
        "{\"vocab\":{\"a\":0x1},\"merges\":[]}",
        "{\"vocab\":{a:0},\"merges\":[]}",
        "{\"vocab\":{\"a\n\":0},\"merges\":[]}",
        "{\"vocab\":{\"\\x\":0},\"merges\":[]}",
        "{\"vocab\":{\"\\u12\":0},\"merges\":[]}",
        "{\"vocab\":{\"\\ud800\":0},\"merges\":[]}",
        "{\"vocab\":{\"\\udc00\":0},\"merges\":[]}",
        "{\"vocab\":{\"\\u0000\":0},\"merges\":[]}",
        "{\"vocab\":{\"\xFF\":0},\"merges\":[]}",
        "{\"vocab\":{\"\xC0\x80\":0},\"merges\":[]}",
        "{\"vocab\":{\"a\":0],\"merges\":[]}",
        "{\"vocab\":{\"a\":0},\"merges\":[}}",
        "{\"vocab\":{\"a\":0},\"merges\":[\"a a\",]}",
        "{\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\" \"a a\"]}",
        "{\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\" \"a\"]]}",
        "{\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[[\"a\",\"a\"}]}",
        "{\"vocab\":{\"a\":0},\"merges\":[]}}",
        "{\"vocab\":{\"a\":0},\"merges\":[",
        "{\"vocab\":{\"a\":0},\"merges\":[]},",
        "{\"vocab\":{\"a",
        "{\"vocab\":{\"a\\",
        "{\"vocab\":{\"a\":0",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) assert_refused(models[i], NOT_JSON);
    /* Well-formed lists that a malformed rest makes worthless. */
    assert_refused("{\"vocab\":{\"a\":0},\"merges\":[],\"type\":BPE}", NOT_JSON);
    assert_refused("{\"vocab\":{\"a\":0},\"merges\":[]},\"other\":{]", NOT_JSON);
    /* JSON is looked at before what it says. */
    assert_refused("{\"type\":\"Unigram\",\"vocab\":{\"a\":0,},\"merges\":[]}", NOT_JSON);
}

static void wrong_values(void **state) {
    (void)state;
    static const char *const ids[] = {
        "-1", "4194304", "18446744073709551616", "1.5", "null", "\"1\"", "[0]", "{}"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char model[128];
        (void)snprintf(model, sizeof model, "{\"vocab\":{\"a\\u00e9\":%s},\"merges\":[]}", ids[i]);
        assert_refused(model, i == 2 ? NOT_JSON : "token 'a\xC3\xA9' has no id from 0");
    }
    assert_refused("{\"vocab\":{\"a\":4194303},\"merges\":[]}",
                   "a vocabulary of 1 tokens has ids up to 4194303");
    static const char *const merges[] = {"7",         "\"ab\"",   "\"a b c\"",
                                         "[\"a\"]",   "[]",       "[\"a\",\"b\",\"c\"]",
                                         "[\"a\",1]", "{\"a\":1}"};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        char model[128];
        (void)snprintf(model, sizeof model,
                       "{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\",%s]}", merges[i]);
        assert_refused(model, "merge 1 is neither");
    }
    assert_refused("{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}", "merge 0 ('a' and 'b')");
    assert_refused("{\"vocab\":[],\"merges\":[]}", "no object 'vocab'");
    assert_refused("{\"merges\":[]}", "no object 'vocab'");
    assert_refused("{\"vocab\":{},\"merges\":{}}", "no array 'merges'");
    assert_refused("{\"vocab\":{}}", "no array 'merges'");
    assert_refused("[]", "no object 'model'");
}

/* Far deeper than any call stack: values are skipped without recursion, parsed up to a limit. */
static void deep_values(void **state) {
    (void)state;
    enum { DEPTH = 1000000 };
    static const char head[] = "{\"model\":{\"vocab\":{\"a\":";
    char *text = malloc(sizeof head + DEPTH);
    sl_tokenizer *tokenizer;
    assert_non_null(text);
    memcpy(text, head, sizeof head);
    for (int close = 0; close < 2; close++) {
        memset(text + sizeof head - 1, '[', DEPTH);
        if (close) memset(text + sizeof head - 1 + DEPTH / 2, ']', DEPTH / 2);
        assert_int_equal(sl_tokenizer_create(text, sizeof head - 1 + DEPTH, NULL, &tokenizer, &err),
                         SL_FORMAT);
        assert_non_null(strstr(err.message, NOT_JSON));
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_and_spaces), cmocka_unit_test(escapes),
        cmocka_unit_test(equal_keys),        cmocka_unit_test(replaced_tokens),
        cmocka_unit_test(malformed_lists),   cmocka_unit_test(wrong_values),
        cmocka_unit_test(deep_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
