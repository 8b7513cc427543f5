/* limits_test.c - Tokenizer files that would take all memory or all time: an error, or the right
 * tokens soon. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pattern.h"
#include "engine/text/tokenizer.h"
#include <jansson.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Of this process, whatever else the machine does. */
static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

enum { TEXT_BYTES = 200000 };

/* Seconds that no test here needs by far, and that work in the square of the text would take. */
static const double patience = 20;

static char *repeated(const char *text, size_t count) {
    const size_t bytes = strlen(text);
    char *all = malloc(bytes * count + 1);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) memcpy(all + i * bytes, text, bytes);
    all[bytes * count] = '\0';
    return all;
}

static sl_tokenizer *create(json_t *normalizer, json_t *pre_tokenizer, json_t *added) {
    json_t *root = json_pack("{s:o, s:o, s:o, s:{s:s, s:{s:i, s:i, s:i}, s:[]}}", "normalizer",
                             normalizer, "pre_tokenizer", pre_tokenizer, "added_tokens", added,
                             "model", "type", "BPE", "vocab", "a", 0, "b", 1, "c", 2, "merges");
    assert_non_null(root);
    char *text = json_dumps(root, JSON_COMPACT);
    sl_tokenizer *tokenizer = NULL;
    sl_error err = {0};
    if (sl_tokenizer_create(text, strlen(text), NULL, &tokenizer, &err) != SL_OK)
        fail_msg("%s", err.message);
    free(text);
    json_decref(root);
    return tokenizer;
}

/* Encodes and returns the count of tokens; message: how it is to fail, or NULL. */
static size_t encode(sl_tokenizer *tokenizer, const char *text, const char *message) {
    const double start = cpu_seconds();
    size_t count = 0;
    sl_error err = {0};
    const sl_status status =
        sl_tokenizer_encode(tokenizer, text, strlen(text), NULL, 0, &count, &err);
    if (!message && status != SL_OK) fail_msg("%s", err.message);
    if (message && (status == SL_OK || !strstr(err.message, message)))
        fail_msg("'%s', wanted '%s'", status == SL_OK ? "no error" : err.message, message);
    assert_true(cpu_seconds() - start < patience);
    sl_tokenizer_destroy(tokenizer);
    return count;
}

static void normalisers_that_multiply(void **state) {
    (void)state;
    char *many = repeated("a", 1000);
    json_t *steps = json_array();
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace",
                                                   "pattern", "String", "a", "content", many)),
            0);
    encode(create(json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps), json_null(),
                  json_array()),
           "aa", "normalizers make more than 65664 bytes of a text of 2 bytes");
    /* one that doubles is fine, however long the text */
    char *text = repeated("a", TEXT_BYTES);
    const size_t count = encode(create(json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace",
                                                 "pattern", "String", "a", "content", "ab"),
                                       json_null(), json_array()),
                                text, NULL);
    assert_int_equal(count, 2 * TEXT_BYTES);
    free(text);
    free(many);
}

/* Each piece between bytes that are no UTF-8 is normalised by itself. */
static void prefixes_of_many_pieces(void **state) {
    (void)state;
    char *prefix = repeated("a", 50000), *text = repeated("a\xff", 20000);
    encode(create(json_pack("{s:s, s:s}", "type", "Prepend", "prepend", prefix), json_null(),
                  json_array()),
           text, "normalizers make more than");
    free(prefix);
    free(text);
}

static json_t *added(const char *content, int id) {
    return json_pack("{s:i, s:s, s:b, s:b}", "id", id, "content", content, "special", 1,
                     "normalized", 0);
}

static void long_added_tokens(void **state) {
    (void)state;
    char *text = repeated("a", TEXT_BYTES), *content = repeated("a", TEXT_BYTES);
    content[TEXT_BYTES - 1] = 'b';
    encode(create(json_null(), json_null(), json_pack("[o]", added(content, 3))), text,
           "added tokens take too many steps");
    /* the longest of several is found, and a text full of them takes few steps */
    char *usual = repeated("<|start|>a<|end|>", 20000);
    const size_t count = encode(
        create(json_null(), json_null(),
               json_pack("[ooo]", added("<|", 3), added("<|start|>", 4), added("<|end|>", 5))),
        usual, NULL);
    assert_int_equal(count, 3 * 20000);
    free(usual);
    free(content);
    free(text);
}

static json_t *split(const char *regex) {
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", regex,
                     "behavior", "Isolated", "invert", 0);
}

static void patterns_that_look_far(void **state) {
    (void)state;
    char *text = repeated("a", TEXT_BYTES);
    encode(create(json_null(), split("a*?b|.*(?=c).|a"), json_array()), text,
           "a pattern takes too many steps");
    encode(create(json_null(), split("(a|aa)*b|a"), json_array()), text,
           "a pattern takes too many steps");
    encode(create(json_null(), split("a*a*a*a*b|a"), json_array()), text,
           "a pattern takes too many steps");
    free(text);
}

/* Searches in windows of a text find what searches in all of it find. */
static void check_windows(const char *regex, sl_slice text) {
    int code;
    PCRE2_SIZE where;
    sl_pattern pattern;
    sl_matcher matcher = {.text_bytes = text.bytes};
    sl_arena arena;
    sl_error err = {0};
    sl_arena_init(&arena, NULL);
    pcre2_code *whole =
        pcre2_compile((PCRE2_SPTR)regex, strlen(regex), PCRE2_UTF | PCRE2_UCP, &code, &where, NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    assert_true(whole && data);
    const sl_slice given = {regex, strlen(regex)};
    if (sl_pattern_init_general(&pattern, given, &arena, &err)) fail_msg("%s", err.message);
    for (size_t from = 0, count = 0; from < text.bytes && count < 2000; count++) {
        sl_span found;
        if (sl_pattern_find(&pattern, &matcher, text, from, &found, &err))
            fail_msg("%s: %s", regex, err.message);
        const bool any =
            pcre2_match(whole, (PCRE2_SPTR)text.text, text.bytes, from, 0, data, NULL) >= 0;
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(data);
        assert_int_equal(found.start, any ? span[0] : text.bytes);
        assert_int_equal(found.end, any ? span[1] : text.bytes);
        from = found.end > from ? found.end : from + 1;
        while (from < text.bytes && ((unsigned char)text.text[from] & 0xC0) == 0x80) from++;
    }
    sl_pattern_deinit(&pattern);
    sl_matcher_deinit(&matcher);
    sl_arena_deinit(&arena);
    pcre2_match_data_free(data);
    pcre2_code_free(whole);
}

static void windows_change_nothing(void **state) {
    (void)state;
    static const char *const regexes[] = {"b+(?!c)|a+|c",
                                          "(?<=a)b|[ac]|b(?=c)",
                                          "a{0,1000}b|c",
                                          "c?$|a+$|b",
                                          "$",
                                          "\\ba+\\b|[^a]",
                                          "(?!a)",
                                          "a+",
                                          "(?=b)|(?!b)c",
                                          "\xc3\xa4+b|c",
                                          "a+(?!\xc3\xa4)|b",
                                          "x",
                                          "[^c]{250,600}",
                                          "(?:ab?)+c|b",
                                          "\\z|ca"};
    static const char *const texts[] = {"aaaabbbbc",           "abcb", "aaaaaaaaab", "aaa bbb, c",
                                        "\303\244\303\244bca", "a"};
    for (size_t r = 0; r < sizeof regexes / sizeof regexes[0]; r++)
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            for (size_t bytes = 250; bytes < 4200; bytes += bytes < 265 ? 1 : 977) {
                char *text = repeated(texts[t], bytes / strlen(texts[t]) + 1);
                check_windows(regexes[r], (sl_slice){text, strlen(text)});
                free(text);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalisers_that_multiply), cmocka_unit_test(prefixes_of_many_pieces),
        cmocka_unit_test(long_added_tokens),         cmocka_unit_test(patterns_that_look_far),
        cmocka_unit_test(windows_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
