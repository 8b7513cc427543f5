/* json_test.c - The parser against jansson's on random texts, and every allocation failing. */
#include "engine/formats/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char sample[] =
    " {\"a\": [1, -2.5e3, 0, -0, 1e2, true, false, null, \"x\\u00e9\\ud83d\\ude00\\n\\\"\"],\r\n"
    "  \"\\u006bey\": {\"nested\": [[], {}, [{}], \"\xc3\xa9\", 9223372036854775807]}, \"b\": "
    "0.125}";

static uint32_t state = 1;
static uint32_t draw(uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void check_same(const char *text, size_t bytes, unsigned flags, size_t theirs) {
    sl_json_problem problem;
    json_error_t error;
    json_t *ours = sl_json_parse(text, bytes, flags, &problem);
    json_t *wanted = json_loadb(text, bytes, theirs, &error);
    if (!ours != !wanted || (ours && !json_equal(ours, wanted)))
        fail_msg("'%.*s': %s, jansson: %s", (int)bytes, text, ours ? "parsed" : problem.text,
                 wanted ? "parsed" : error.text);
    if (!ours) {
        assert_non_null(problem.text);
        assert_true(problem.position <= bytes);
        assert_false(problem.no_memory);
    }
    json_decref(ours);
    json_decref(wanted);
}

static void test_random_texts(void **unused) {
    static const char pieces[] = "{}[]:,\"\\ue.-+01239ade\x01\xc3\xa9\xf0\x9f \ntrufalsn";
    char text[sizeof sample + 8];
    (void)unused;
    check_same(sample, sizeof sample - 1, 0, 0);
    for (int round = 0; round < 200000; round++) {
        size_t bytes = sizeof sample - 1;
        memcpy(text, sample, bytes);
        for (uint32_t i = draw(4) + 1; i > 0; i--) {
            const size_t at = draw((uint32_t)bytes);
            const char piece = pieces[draw(sizeof pieces - 1)];
            if (draw(3) == 0) {
                memmove(text + at, text + at + 1, --bytes - at);
            } else if (draw(2) == 0 && bytes < sizeof text) {
                memmove(text + at + 1, text + at, bytes++ - at);
                text[at] = piece;
            } else {
                text[at] = piece;
            }
        }
        check_same(text, bytes, 0, 0);
        check_same(text, bytes, SL_JSON_UNIQUE_KEYS, JSON_REJECT_DUPLICATES);
        check_same(text, bytes, SL_JSON_ALLOW_NUL, JSON_ALLOW_NUL);
        check_same(text, bytes, SL_JSON_ALL_REAL, JSON_DECODE_INT_AS_REAL);
    }
}

static void test_edges(void **unused) {
    static const char *const texts[] = {"",
                                        "1",
                                        "[",
                                        "[]]",
                                        "[1,]",
                                        "{\"a\":1,}",
                                        "[01]",
                                        "[9223372036854775808]",
                                        "[-9223372036854775808]",
                                        "[-9223372036854775809]",
                                        "[1e999]",
                                        "[1e-999]",
                                        "[\"\\ud800\"]",
                                        "[\"\\ud800\\ud800\"]",
                                        "[\"\\udc00\"]",
                                        "[\"\\u0000\"]",
                                        "{\"\\u0000\":1}",
                                        "[\"\xff\"]",
                                        "[\"\xed\xa0\x80\"]",
                                        "[\"\t\"]",
                                        "[nul]",
                                        "[truee]",
                                        "{\"a\":1,\"a\":2}",
                                        "{1:2}",
                                        "\xef\xbb\xbf[]"};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_same(texts[i], strlen(texts[i]), 0, 0);
        check_same(texts[i], strlen(texts[i]), SL_JSON_UNIQUE_KEYS, JSON_REJECT_DUPLICATES);
        check_same(texts[i], strlen(texts[i]), SL_JSON_ALLOW_NUL, JSON_ALLOW_NUL);
        check_same(texts[i], strlen(texts[i]), SL_JSON_ALL_REAL, JSON_DECODE_INT_AS_REAL);
    }
    static char deep[4 << 20];
    memset(deep, '[', sizeof deep);
    check_same(deep, sizeof deep, 0, 0);
}

static size_t calls, failing;

static void *allocate(size_t bytes) {
    return ++calls == failing ? NULL : malloc(bytes);
}

/* With jansson's own parser, some of these abort and some lose characters. */
static void test_no_memory(void **unused) {
    sl_json_problem problem;
    json_t *whole = sl_json_parse(sample, sizeof sample - 1, 0, &problem);
    (void)unused;
    assert_non_null(whole);
    json_set_alloc_funcs(allocate, free);
    for (failing = 1;; failing++) {
        calls = 0;
        json_t *root = sl_json_parse(sample, sizeof sample - 1, 0, &problem);
        if (root) {
            assert_true(calls < failing);
            assert_true(json_equal(root, whole));
            json_decref(root);
            break;
        }
        assert_true(problem.no_memory);
        sl_error err;
        json_t *loaded;
        calls = 0;
        assert_int_equal(sl_json_load("sample", sample, sizeof sample - 1, &loaded, &err),
                         SL_NO_MEMORY);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(failing > 30);
    json_decref(whole);
}

static void *allocate_none(size_t bytes) {
    return ++calls >= failing ? NULL : malloc(bytes);
}

/* jansson's own json_dumps gives texts without some of the keys. */
static void test_dump_without_memory(void **unused) {
    json_t *object = json_object();
    char key[64];
    (void)unused;
    for (int i = 0; i < 40; i++) {
        (void)snprintf(key, sizeof key, "a key of about thirty bytes, %d", i);
        assert_int_equal(json_object_set_new(object, key, json_integer(i)), 0);
    }
    char *whole = sl_json_dump(object, JSON_COMPACT);
    assert_non_null(whole);
    for (int once = 0; once < 2; once++) {
        json_set_alloc_funcs(once ? allocate : allocate_none, free);
        for (failing = 1; failing < 30; failing++) {
            calls = 0;
            char *text = sl_json_dump(object, JSON_COMPACT);
            if (text) assert_string_equal(text, whole);
            free(text);
        }
        json_set_alloc_funcs(malloc, free);
    }
    free(whole);
    json_decref(object);
}

static void test_append(void **unused) {
    json_t *array = json_array(), *object = json_object();
    (void)unused;
    sl_json_append(&array, json_integer(1));
    assert_int_equal(json_array_size(array), 1);
    sl_json_append(&array, NULL); /* what json_integer returns without memory */
    assert_null(array);
    sl_json_append(&array, json_integer(2));
    assert_null(array);
    sl_json_set(&object, "a", json_integer(1));
    assert_int_equal(json_object_size(object), 1);
    sl_json_set(&object, "b", NULL);
    assert_null(object);
    assert_null(json_pack("{s:o}", "a", array));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_texts), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_no_memory),    cmocka_unit_test(test_dump_without_memory),
        cmocka_unit_test(test_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
