/* gguf_vocabulary_test.c - Tokenizers of Hugging Face, put into GGUF metadata the way llama.cpp's
 * converter does, cut text exactly as before. */
#include "sluice/sluice.h"
#include "tests/support/folder.h"
#include "tests/support/gguf_maker.h"
#include "tests/support/peak.h"
#include "tests/support/shared.h"

enum {
    NORMAL = 1,
    CONTROL = 3,
    USER = 4,
    UNUSED = 5,
    MOST_IDS = 4096,
    TEXT = 8,
    INT32 = 5,
    FLOAT32 = 6,
    PEAK_KIB = 21500 /* as with a tokenizer.json; the header of the file comes on top */
};

static const struct {
    const char *folder, *pre;
} tokenizers[] = {
    {"deepseek_v3", "deepseek-v3"}, {"gpt2", "gpt-2"},  {"gpt4o", "gpt-4o"},
    {"llama3", "llama-bpe"},        {"qwen3", "qwen2"},
};

static json_t *load(const char *folder, const char *file) {
    char name[128], path[512];
    (void)snprintf(name, sizeof name, "tokenizers/%s/%s", folder, file);
    if (!shared_path(name, path, sizeof path)) return NULL;
    json_error_t why;
    json_t *json = json_load_file(path, 0, &why);
    if (!json) fail_msg("%s: %s", path, why.text);
    return json;
}

typedef struct {
    const char **names;
    int32_t *types;
    size_t count, capacity;
} table;

static void set(table *t, json_int_t id, const char *name, int32_t type) {
    if ((size_t)id >= t->capacity) {
        t->capacity = 2 * ((size_t)id + 1);
        t->names = realloc(t->names, t->capacity * sizeof *t->names);
        t->types = realloc(t->types, t->capacity * sizeof *t->types);
        assert_true(t->names && t->types);
    }
    for (; t->count <= (size_t)id; t->count++) {
        t->names[t->count] = NULL;
        t->types[t->count] = UNUSED;
    }
    t->names[id] = name;
    t->types[id] = type;
}

static table tokens_of(json_t *tokenizer) {
    table t = {0};
    json_t *value, *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    const char *name;
    size_t index;
    json_object_foreach(vocab, name, value) set(&t, json_integer_value(value), name, NORMAL);
    json_array_foreach(json_object_get(tokenizer, "added_tokens"), index, value)
        set(&t, json_integer_value(json_object_get(value, "id")),
            json_string_value(json_object_get(value, "content")),
            json_is_true(json_object_get(value, "special")) ? CONTROL : USER);
    return t;
}

static void put_merges(gguf_maker *m, json_t *merges) {
    size_t index;
    json_t *merge;
    gguf_array(m, "tokenizer.ggml.merges", TEXT, json_array_size(merges));
    json_array_foreach(merges, index, merge) {
        char both[1024];
        if (json_is_array(merge))
            (void)snprintf(both, sizeof both, "%s %s", json_string_value(json_array_get(merge, 0)),
                           json_string_value(json_array_get(merge, 1)));
        gguf_element(m, json_is_array(merge) ? both : json_string_value(merge));
    }
}

static void convert(json_t *tokenizer, const char *pre, const char *path) {
    gguf_maker m = {0};
    table t = tokens_of(tokenizer);
    gguf_small_model(&m, t.count);
    gguf_text(&m, "tokenizer.ggml.model", "gpt2");
    gguf_text(&m, "tokenizer.ggml.pre", pre);
    gguf_array(&m, "tokenizer.ggml.tokens", TEXT, t.count);
    for (size_t i = 0; i < t.count; i++) {
        char unused[32];
        (void)snprintf(unused, sizeof unused, "[PAD%zu]", i);
        gguf_element(&m, t.names[i] ? t.names[i] : unused);
    }
    gguf_array(&m, "tokenizer.ggml.token_type", INT32, t.count);
    gguf_bytes(&m, t.types, t.count * sizeof *t.types);
    put_merges(&m, json_object_get(json_object_get(tokenizer, "model"), "merges"));
    gguf_write(&m, path);
    gguf_release(&m);
    free(t.names);
    free(t.types);
}

static void check(const sl_vocabulary *vocabulary, const char *folder, size_t number,
                  json_t *vector) {
    static sl_token ids[MOST_IDS];
    sl_error err = {0};
    const json_t *text = json_object_get(vector, "text"), *wanted = json_object_get(vector, "ids");
    size_t count = 0;
    if (sl_vocabulary_encode(vocabulary, json_string_value(text), json_string_length(text), ids,
                             MOST_IDS, &count, &err) != SL_OK)
        fail_msg("%s", err.message);
    if (count != json_array_size(wanted))
        fail_msg("%s %zu: %zu ids, wanted %zu", folder, number, count, json_array_size(wanted));
    for (size_t i = 0; i < count; i++)
        if (ids[i] != json_integer_value(json_array_get(wanted, i)))
            fail_msg("%s %zu: id %zu is %d", folder, number, i, (int)ids[i]);
}

static void published_tokenizers(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof tokenizers / sizeof tokenizers[0]; t++) {
        const char *folder = tokenizers[t].folder;
        json_t *tokenizer = load(folder, "tokenizer.json"), *vectors = load(folder, "vectors.json");
        if (!tokenizer || !vectors) skip();
        const char *path = test_path("made.gguf");
        convert(tokenizer, tokenizers[t].pre, path);
        sl_vocabulary *vocabulary = NULL;
        sl_error err = {0};
        if (sl_vocabulary_open(path, &vocabulary, &err) != SL_OK) fail_msg("%s", err.message);
        json_t *list = json_object_get(vectors, "encode"), *vector;
        size_t index;
        json_array_foreach(list, index, vector) check(vocabulary, folder, index, vector);
        print_message("  %s: %zu texts\n", folder, json_array_size(list));
        sl_vocabulary_close(vocabulary);
        json_decref(tokenizer);
        json_decref(vectors);
    }
}

/* Qwen's tokenizer, like that of most models that are distributed in this format. */
static void peak_of_opening(void **state) {
    (void)state;
    if (!memory_is_measured()) skip();
    json_t *tokenizer = load("qwen3", "tokenizer.json");
    if (!tokenizer) skip();
    const char *path = test_path("made.gguf");
    convert(tokenizer, "qwen2", path);
    json_decref(tokenizer);
    struct stat info;
    long peak = 0, kept = 0;
    assert_int_equal(stat(path, &info), 0);
    if (!measure_opening(path, &peak, &kept)) fail_msg("%s was not measured", path);
    print_message("  peak %ld KiB of a file of %ld KiB\n", peak, (long)info.st_size / 1024);
    assert_true(peak <= PEAK_KIB + (long)info.st_size / 1024);
}

static void put_pieces(gguf_maker *m, json_t *pieces) {
    json_t *tokens = json_object_get(pieces, "tokens"), *each;
    const size_t count = json_array_size(tokens);
    size_t index;
    gguf_text(m, "tokenizer.ggml.model", "llama");
    gguf_array(m, "tokenizer.ggml.tokens", TEXT, count);
    json_array_foreach(tokens, index, each) gguf_element(m, json_string_value(each));
    gguf_array(m, "tokenizer.ggml.scores", FLOAT32, count);
    json_array_foreach(json_object_get(pieces, "scores"), index, each) {
        const float score = (float)json_number_value(each);
        gguf_bytes(m, &score, sizeof score);
    }
    gguf_array(m, "tokenizer.ggml.token_type", INT32, count);
    json_array_foreach(json_object_get(pieces, "types"), index, each) {
        const int32_t type = (int32_t)json_integer_value(each);
        gguf_bytes(m, &type, sizeof type);
    }
    gguf_u32(m, "tokenizer.ggml.unknown_token_id", 0);
    gguf_u32(m, "tokenizer.ggml.bos_token_id", 1);
    gguf_u32(m, "tokenizer.ggml.eos_token_id", 2);
}

/* Pieces with scores, and the ids that sentencepiece gives texts (tools/make_gguf_pieces.py). */
static void sentencepiece(void **state) {
    (void)state;
    gguf_maker m = {0};
    sl_vocabulary *vocabulary = NULL;
    sl_error err = {0};
    json_t *pieces = json_load_file("tests/data/gguf/pieces.json", 0, NULL), *vector;
    assert_non_null(pieces);
    gguf_small_model(&m, json_array_size(json_object_get(pieces, "tokens")));
    put_pieces(&m, pieces);
    gguf_write(&m, test_path("made.gguf"));
    gguf_release(&m);
    if (sl_vocabulary_open(test_path("made.gguf"), &vocabulary, &err) != SL_OK)
        fail_msg("%s", err.message);
    size_t index;
    json_array_foreach(json_object_get(pieces, "vectors"), index, vector)
        check(vocabulary, "sentencepiece", index, vector);
    sl_vocabulary_close(vocabulary);
    json_decref(pieces);
}

int main(int count, char **words) {
    if (measure_for_parent(count, words)) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(published_tokenizers, empty_test_folder),
        cmocka_unit_test_teardown(peak_of_opening, empty_test_folder),
        cmocka_unit_test_teardown(sentencepiece, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
