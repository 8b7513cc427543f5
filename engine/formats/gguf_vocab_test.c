/* gguf_vocab_test.c - Vocabularies and merges of GGUF files as JSON: strange names, equal ones, and
 * a lack of memory. */
#include "engine/formats/source.h"
#include "tests/support/folder.h"
#include "tests/support/gguf_maker.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE, TEXT = 8, INT32 = 5, FLOAT32 = 6 };

typedef struct {
    const char *text;
    int32_t type;
} token;

static sl_error err;

static void put_tokens(gguf_maker *m, const token *tokens, size_t count) {
    gguf_small_model(m, count);
    gguf_array(m, "tokenizer.ggml.tokens", TEXT, count);
    for (size_t i = 0; i < count; i++) gguf_element(m, tokens[i].text);
    gguf_array(m, "tokenizer.ggml.token_type", INT32, count);
    for (size_t i = 0; i < count; i++) gguf_bytes(m, &tokens[i].type, sizeof tokens[i].type);
}

static void write_byte_level(const token *tokens, size_t count, const char *merge) {
    gguf_maker m = {0};
    put_tokens(&m, tokens, count);
    gguf_text(&m, "tokenizer.ggml.model", "gpt2");
    gguf_text(&m, "tokenizer.ggml.pre", "qwen2");
    gguf_array(&m, "tokenizer.ggml.merges", TEXT, merge ? 1 : 0);
    if (merge) gguf_element(&m, merge);
    gguf_write(&m, test_path("m.gguf"));
    gguf_release(&m);
}

static void write_pieces(const token *tokens, size_t count, const float *scores) {
    gguf_maker m = {0};
    put_tokens(&m, tokens, count);
    gguf_text(&m, "tokenizer.ggml.model", "llama");
    gguf_array(&m, "tokenizer.ggml.scores", FLOAT32, count);
    gguf_bytes(&m, scores, count * sizeof *scores);
    gguf_write(&m, test_path("m.gguf"));
    gguf_release(&m);
}

/* tokenizer.json of the file; the caller's. */
static json_t *read_tokenizer(void) {
    sl_source *source = NULL;
    size_t bytes = 0;
    json_error_t why;
    if (sl_source_open(test_path("m.gguf"), NULL, &source, &err) != SL_OK)
        fail_msg("%s", err.message);
    const char *text = sl_source_text(source, "tokenizer.json", &bytes);
    assert_non_null(text);
    assert_int_equal(strlen(text), bytes);
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (!json) fail_msg("%s in %s", why.text, text);
    sl_source_close(source);
    return json;
}

static void expect_part(const json_t *json, const char *name, const char *wanted) {
    char *found = json_dumps(json_object_get(json_object_get(json, "model"), name), JSON_COMPACT);
    assert_string_equal(found, wanted);
    free(found);
}

static void names(void **state) {
    (void)state;
    static const token tokens[] = {
        {"a", NORMAL},
        {"\"", NORMAL},
        {"\\", NORMAL},
        {"b\n\x01\x1f\x7f", NORMAL},
        {"", NORMAL},
        {"a", NORMAL},
        {"a", CONTROL},
        {"\xC4\xA0x", NORMAL},
        {"left", UNUSED},
        {"tool", USER},
        {"\xF0\x9F\x98\x80", BYTE},
        {"tool", NORMAL},
        {"what", UNKNOWN},
        {"/", NORMAL},
    };
    write_byte_level(tokens, sizeof tokens / sizeof *tokens, "\" \\");
    json_t *json = read_tokenizer();
    expect_part(json, "vocab",
                "{\"a\":0,\"\\\"\":1,\"\\\\\":2,\"b\\n\\u0001\\u001F\x7f\":3,\"\":4,"
                "\"\xC4\xA0x\":7,\"\xF0\x9F\x98\x80\":10,\"tool\":11,\"what\":12,\"/\":13}");
    expect_part(json, "merges", "[\"\\\" \\\\\"]");
    assert_int_equal(json_array_size(json_object_get(json, "added_tokens")), 2);
    json_decref(json);
    write_byte_level(&(token){"left", UNUSED}, 1, NULL);
    json = read_tokenizer();
    expect_part(json, "vocab", "{}");
    expect_part(json, "merges", "[]");
    json_decref(json);
}

static void pieces(void **state) {
    (void)state;
    static const token tokens[] = {{"<unk>", UNKNOWN}, {"a", NORMAL},    {"\"", NORMAL},
                                   {"a\"", NORMAL},    {"a\"a", NORMAL}, {"a", NORMAL}};
    static const float scores[] = {0, -1, -2, -4, -3, -5};
    write_pieces(tokens, 6, scores);
    json_t *json = read_tokenizer();
    expect_part(json, "vocab", "{\"<unk>\":0,\"a\":1,\"\\\"\":2,\"a\\\"\":3,\"a\\\"a\":4}");
    expect_part(json, "merges", "[[\"a\\\"\",\"a\"],[\"a\",\"\\\"\"]]");
    json_decref(json);
}

static void no_memory(void **state) {
    (void)state;
    static const token tokens[] = {{"a", NORMAL}, {"b", NORMAL}, {"ab", NORMAL}, {"<e>", CONTROL}};
    write_byte_level(tokens, 4, "a b");
    int failures = 0;
    for (int allocations = 0;; allocations++) {
        sl_source *source = NULL;
        failing_memory memory = {allocations};
        const sl_allocator allocator = {failing_resize, &memory};
        const sl_status status = sl_source_open(test_path("m.gguf"), &allocator, &source, &err);
        sl_source_close(status == SL_OK ? source : NULL);
        if (status == SL_OK) break;
        assert_int_equal(status, SL_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names, empty_test_folder),
        cmocka_unit_test_teardown(pieces, empty_test_folder),
        cmocka_unit_test_teardown(no_memory, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
