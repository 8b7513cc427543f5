/* checks_test.c - Hosts, origins, keys, lengths; and the store of responses. */
#include "apps/server/checks.h"
#include "apps/server/store.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void only_names_of_this_machine_are_safe(void **state) {
    (void)state;
    static const char *const safe[] = {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:80",
                                       "10.1.2.3",  "a.localhost",  "own.example:9"};
    static const char *const unsafe[] = {
        "",     "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
        "[::1", "[::1]x",       "own.example.evil",       "127.0.0",
        ":80"};
    for (size_t i = 0; i < sizeof safe / sizeof safe[0]; i++)
        assert_true(server_host_is_safe(safe[i], "own.example"));
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++)
        assert_false(server_host_is_safe(unsafe[i], "own.example"));
    assert_false(server_host_is_safe(NULL, "own.example"));
}

static void origins_are_compared_as_a_whole(void **state) {
    (void)state;
    static const char *const listed[] = {"https://a.example"}, *const all[] = {"*"};
    assert_true(server_origin_is_host("http://localhost:80", "localhost:80"));
    assert_false(server_origin_is_host("http://localhost:81", "localhost:80"));
    assert_false(server_origin_is_host("null", "localhost"));
    assert_true(server_origin_is_listed("https://a.example", listed, 1));
    assert_false(server_origin_is_listed("https://a.example.evil", listed, 1));
    assert_false(server_origin_is_listed("https://a.exampl", listed, 1));
    assert_true(server_origin_is_listed("null", all, 1));
}

static void keys_are_compared_as_a_whole(void **state) {
    (void)state;
    static const char *const keys[] = {"abc", "abcabc"};
    assert_int_equal(server_key_find("abc", keys, 2), 0);
    assert_int_equal(server_key_find("abcabc", keys, 2), 1);
    static const char *const wrong[] = {"", "ab", "abd", "abca", "abcabcabc", "ABC"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(server_key_find(wrong[i], keys, 2), -1);
    assert_int_equal(server_key_find(NULL, keys, 2), -1);
    assert_string_equal(server_bearer_key("bearer  abc"), "abc");
    assert_null(server_bearer_key("Basic abc"));
}

static void lengths_are_plain_numbers(void **state) {
    (void)state;
    uint64_t length = 1;
    assert_true(server_length_read("0", &length));
    assert_int_equal(length, 0);
    assert_true(server_length_read("123456789012345678", &length));
    static const char *const wrong[] = {"",   "+1",  "-1",  " 1",
                                        "1 ", "1,1", "0x1", "1234567890123456789"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(server_length_read(wrong[i], &length));
}

static void names_of_headers_are_tokens(void **state) {
    (void)state;
    static const char *const sound[] = {"Host",         "content-length",    "X-Stainless-OS",
                                        "Content-Type", "Transfer-Encoding", "a!#$%&'*+-.^_`|~1"};
    static const char *const wrong[] = {"",
                                        "Content-Length ",
                                        "Content-Length5",
                                        "transfer-encodingchunked",
                                        "Hostevil",
                                        "X: a",
                                        "\x0bHost",
                                        "a(b",
                                        "\xc3\xa4"};
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++)
        assert_true(server_header_name_is_sound(sound[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(server_header_name_is_sound(wrong[i]));
}

static void put(server_store *store, int number, uint64_t owner, const char *text) {
    char id[16];
    (void)snprintf(id, sizeof id, "r%d", number);
    json_t *messages = json_pack("[s]", text), *response = json_pack("{s:s}", "id", id);
    server_store_put(store, id, owner, messages, response);
    json_decref(messages);
    json_decref(response);
}

static bool has(server_store *store, const char *id, uint64_t owner) {
    json_t *messages = NULL, *response = NULL;
    const bool found = server_store_get(store, id, owner, &messages, &response);
    if (found) assert_string_equal(json_string_value(json_object_get(response, "id")), id);
    json_decref(messages);
    json_decref(response);
    return found;
}

static void the_oldest_responses_are_forgotten(void **state) {
    (void)state;
    server_store *store = server_store_create(3, 1 << 20);
    for (int i = 0; i < 5; i++) put(store, i, 7, "text");
    assert_false(has(store, "r1", 7));
    assert_true(has(store, "r2", 7) && has(store, "r4", 7));
    assert_false(has(store, "r4", 8));
    assert_false(server_store_remove(store, "r4", 8));
    assert_true(server_store_remove(store, "r4", 7));
    assert_false(has(store, "r4", 7));
    put(store, 9, 7, "text");
    assert_true(has(store, "r2", 7));
    server_store_destroy(store);
}

static void large_responses_push_out_others(void **state) {
    (void)state;
    static char large[600];
    memset(large, 'x', sizeof large - 1);
    server_store *store = server_store_create(100, 1000);
    put(store, 1, 7, large);
    put(store, 2, 7, large);
    assert_false(has(store, "r1", 7));
    assert_true(has(store, "r2", 7));
    server_store_destroy(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_names_of_this_machine_are_safe),
        cmocka_unit_test(origins_are_compared_as_a_whole),
        cmocka_unit_test(keys_are_compared_as_a_whole),
        cmocka_unit_test(lengths_are_plain_numbers),
        cmocka_unit_test(names_of_headers_are_tokens),
        cmocka_unit_test(the_oldest_responses_are_forgotten),
        cmocka_unit_test(large_responses_push_out_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
