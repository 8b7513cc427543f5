/* tokenizer_test.c - Encoding against Hugging Face's tokenizers, arbitrary bytes, errors, and
 * streaming output.
 *
 *   tokenizer_test [TEXTS]     number of random texts per published tokenizer, default 10000 */
#include "base/utf8.h"
#include "engine/text/normalise.h"
#include "engine/text/tokenizer.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIXTURE "tests/data/tokenizer/"

/* ---- helpers ---- */

static json_t *load_json(const char *path) {
    json_error_t where;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &where);
    if (!root) fail_msg("%s: %s", path, where.text);
    return root;
}

static sl_status create_from(json_t *root, const sl_allocator *allocator, sl_tokenizer **out,
                             sl_error *err) {
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    const sl_status status = sl_tokenizer_create(text, strlen(text), allocator, out, err);
    free(text);
    return status;
}

static sl_tokenizer *create(json_t *root) {
    sl_tokenizer *tokenizer;
    sl_error err = {0};
    if (create_from(root, NULL, &tokenizer, &err) != SL_OK) fail_msg("%s", err.message);
    return tokenizer;
}

static sl_tokenizer *create_fixture(void) {
    json_t *root = load_json(FIXTURE "tokenizer.json");
    sl_tokenizer *tokenizer = create(root);
    json_decref(root);
    return tokenizer;
}

/* The ids of a text; the caller frees them.  Added spaces and normalisation may add some bytes. */
static int32_t *encode(const sl_tokenizer *tokenizer, const char *text, size_t bytes,
                       size_t *out_count) {
    sl_error err = {0};
    const size_t room = 4 * bytes + 1;
    int32_t *ids = calloc(room, sizeof *ids);
    assert_non_null(ids);
    if (sl_tokenizer_encode(tokenizer, text, bytes, ids, room, out_count, &err) != SL_OK)
        fail_msg("%s", err.message);
    assert_true(*out_count <= room);
    return ids;
}

static bool encodes_to(const sl_tokenizer *tokenizer, json_t *text, json_t *wanted) {
    size_t count;
    int32_t *ids = encode(tokenizer, json_string_value(text), json_string_length(text), &count);
    bool same = count == json_array_size(wanted);
    for (size_t i = 0; same && i < count; i++)
        same = ids[i] == json_integer_value(json_array_get(wanted, i));
    free(ids);
    return same;
}

static void check_vectors(const sl_tokenizer *tokenizer, const char *name, json_t *vectors) {
    size_t index, wrong = 0;
    json_t *each;
    assert_true(json_array_size(vectors) > 0);
    json_array_foreach(vectors, index, each) {
        json_t *text = json_object_get(each, "text");
        if (encodes_to(tokenizer, text, json_object_get(each, "ids"))) continue;
        print_message("%s: vector %zu differs: '%s'\n", name, index, json_string_value(text));
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void assert_round_trip(const sl_tokenizer *tokenizer, const char *text, size_t bytes) {
    size_t count, at = 0, length;
    int32_t *ids = encode(tokenizer, text, bytes, &count);
    for (size_t i = 0; i < count; i++) {
        const char *part = sl_tokenizer_text(tokenizer, ids[i], &length);
        assert_true(length <= bytes - at);
        assert_memory_equal(text + at, part, length);
        at += length;
    }
    assert_int_equal(at, bytes);
    free(ids);
}

/* ---- vectors ---- */

/* Compares the decoding of the ids with that of Hugging Face. */
static void check_decoded(const sl_tokenizer *tokenizer, const char *name, json_t *vectors) {
    size_t index;
    json_t *each;
    json_array_foreach(vectors, index, each) {
        json_t *wanted = json_object_get(each, "decoded"), *ids = json_object_get(each, "ids");
        if (!wanted) continue;
        char text[4096];
        size_t bytes = 0, length, strip = sl_tokenizer_strip_start(tokenizer);
        for (size_t i = 0; i < json_array_size(ids); i++) {
            const char *part = sl_tokenizer_text(
                tokenizer, (int32_t)json_integer_value(json_array_get(ids, i)), &length);
            assert_true(bytes + length < sizeof text);
            memcpy(text + bytes, part, length);
            bytes += length;
        }
        size_t start = 0;
        while (start < strip && start < bytes && text[start] == ' ') start++;
        if (bytes - start != json_string_length(wanted) ||
            memcmp(text + start, json_string_value(wanted), bytes - start) != 0)
            fail_msg("%s: vector %zu gives '%.*s', wanted '%s'", name, index, (int)(bytes - start),
                     text + start, json_string_value(wanted));
    }
}

static void check_variants(const char *file, const char *vectors) {
    json_t *variants = load_json(vectors), *variant;
    size_t index;
    json_array_foreach(variants, index, variant) {
        json_t *root = load_json(file);
        json_t *change = json_object_get(variant, "change"), *value;
        const char *key;
        json_object_foreach(change, key, value) {
            if (strcmp(key, "model") == 0)
                json_object_update(json_object_get(root, key), value);
            else
                json_object_set(root, key, value);
        }
        sl_tokenizer *tokenizer = create(root);
        check_vectors(tokenizer, json_string_value(json_object_get(variant, "name")),
                      json_object_get(variant, "encode"));
        check_decoded(tokenizer, json_string_value(json_object_get(variant, "name")),
                      json_object_get(variant, "encode"));
        sl_tokenizer_destroy(tokenizer);
        json_decref(root);
    }
    json_decref(variants);
}

static void test_fixture_vectors(void **state) {
    (void)state;
    check_variants(FIXTURE "tokenizer.json", FIXTURE "vectors.json");
}

static void test_sentencepiece_vectors(void **state) {
    (void)state;
    check_variants(FIXTURE "sentencepiece.json", FIXTURE "sentencepiece_vectors.json");
}

/* The template of the post-processor gives the tokens before and after a text. */
static void test_frame(void **state) {
    (void)state;
    json_t *root = load_json(FIXTURE "sentencepiece.json");
    sl_tokenizer *tokenizer = create(root);
    const int32_t *before, *after;
    assert_int_equal(sl_tokenizer_before(tokenizer, &before), 1);
    assert_int_equal(before[0], sl_tokenizer_find(tokenizer, "<s>", 3));
    assert_int_equal(sl_tokenizer_after(tokenizer, &after), 0);
    sl_tokenizer_destroy(tokenizer);
    json_decref(root);
}

static const char *shared_folder(void) {
    const char *folder = getenv("SLUICE_SHARED");
    return folder ? folder : "../shared";
}

/* NULL if the shared files are absent. */
static json_t *load_shared(const char *folder, const char *file) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s/%s", shared_folder(), folder, file);
    FILE *probe = fopen(path, "rb");
    if (!probe) {
        print_message("%s is absent\n", path);
        return NULL;
    }
    (void)fclose(probe);
    return load_json(path);
}

static void check_shared(const char *folder) {
    json_t *root = load_shared(folder, "tokenizer.json");
    if (!root) skip();
    json_t *vectors = load_shared(folder, "vectors.json");
    assert_non_null(vectors);
    sl_tokenizer *tokenizer = create(root);
    check_vectors(tokenizer, folder, json_object_get(vectors, "encode"));
    sl_tokenizer_destroy(tokenizer);
    json_decref(vectors);
    json_decref(root);
}

static void test_gpt2_vectors(void **state) {
    (void)state, check_shared("tokenizers/gpt2");
}
static void test_gpt4o_vectors(void **state) {
    (void)state, check_shared("tokenizers/gpt4o");
}
static void test_llama3_vectors(void **state) {
    (void)state, check_shared("tokenizers/llama3");
}
static void test_qwen3_vectors(void **state) {
    (void)state, check_shared("tokenizers/qwen3");
}
static void test_deepseek_vectors(void **state) {
    (void)state, check_shared("tokenizers/deepseek_v3");
}

/* prompt<index>.tokens of a safetensors file, as JSON numbers. */
static json_t *read_tokens(FILE *file, json_t *header, uint64_t data_start, size_t index) {
    char name[40];
    (void)snprintf(name, sizeof name, "prompt%zu.tokens", index);
    json_t *tensor = json_object_get(header, name);
    assert_non_null(tensor);
    json_t *offsets = json_object_get(tensor, "data_offsets");
    const json_int_t start = json_integer_value(json_array_get(offsets, 0));
    const json_int_t bytes = json_integer_value(json_array_get(offsets, 1)) - start;
    const bool wide = strcmp(json_string_value(json_object_get(tensor, "dtype")), "I64") == 0;
    json_t *ids = json_array();
    assert_int_equal(fseek(file, (long)data_start + (long)start, SEEK_SET), 0);
    for (json_int_t i = 0; i < bytes / (wide ? 8 : 4); i++) {
        int64_t id = 0; /* both the file and the machine are little-endian */
        assert_int_equal(fread(&id, wide ? 8 : 4, 1, file), 1);
        json_array_append_new(ids, json_integer(id));
    }
    return ids;
}

static void test_fable_prompts(void **state) {
    (void)state;
    json_t *root = load_shared("models/fable", "tokenizer.json");
    json_t *reference = load_shared("models/fable", "reference.json");
    if (!root || !reference) skip();
    char path[512];
    (void)snprintf(path, sizeof path, "%s/models/fable/reference.safetensors", shared_folder());
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint64_t header_bytes;
    assert_int_equal(fread(&header_bytes, 8, 1, file), 1);
    char *header_text = malloc(header_bytes);
    assert_non_null(header_text);
    assert_int_equal(fread(header_text, 1, header_bytes, file), header_bytes);
    json_t *header = json_loadb(header_text, header_bytes, 0, NULL);
    assert_non_null(header);
    sl_tokenizer *tokenizer = create(root);
    size_t index;
    json_t *prompt;
    json_array_foreach(json_object_get(reference, "prompts"), index, prompt) {
        json_t *wanted = read_tokens(file, header, 8 + header_bytes, index);
        assert_true(encodes_to(tokenizer, json_object_get(prompt, "text"), wanted));
        json_decref(wanted);
    }
    assert_true(index > 0);
    sl_tokenizer_destroy(tokenizer);
    free(header_text);
    (void)fclose(file);
    json_decref(header);
    json_decref(reference);
    json_decref(root);
}

/* ---- arbitrary bytes ---- */

static void test_any_bytes_come_back(void **state) {
    (void)state;
    sl_tokenizer *tokenizer = create_fixture();
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        char text[300];
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1664525 + 1013904223;
            /* Lead bytes from 0xCC on could form text that the normaliser changes. */
            text[i] = (char)(seed >> 24 >= 0xCC && seed >> 24 < 0xF5 ? 0x80 : seed >> 24);
        }
        assert_round_trip(tokenizer, text, sizeof text);
    }
    assert_round_trip(tokenizer, "\xF0\x9F\x98 cut\xE2\x82", 9);
    assert_round_trip(tokenizer, "\0 nul \0", 7);
    sl_tokenizer_destroy(tokenizer);
}

static uint64_t random_state;
static uint32_t random_below(uint32_t limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 33) % limit);
}

/* A random character, assigned or not, or if `broken` a few bytes that are not UTF-8. */
static size_t random_piece(char *out, bool broken) {
    static const uint32_t special[] = {0,        0xD7FF, 0xE000, 0xFFFD,  0xFFFE,  0xFFFF,
                                       0x10FFFF, 0x200D, 0xFE0F, 0x1F468, 0x1F3FD, 0x1F1E9,
                                       0xE0101,  0x301,  0x323,  0x17F,   0x2581,  0x3000,
                                       0x85,     0x180E, 0x1100, 0x1161,  0xAC00,  0x9FA5};
    static const char common[] = " etaoin\n\t'.,!01239AZ<|>/";
    const uint32_t kind = random_below(8);
    if (kind < 3) return sl_utf8_encode((uint8_t)common[random_below(sizeof common - 1)], out);
    if (kind == 3) return sl_utf8_encode(special[random_below(24)], out);
    if (kind == 4 && broken) {
        const size_t count = 1 + random_below(3);
        for (size_t i = 0; i < count; i++) out[i] = (char)(0x80 + random_below(0x80));
        return count;
    }
    uint32_t c = random_below(kind == 5 ? 0x110000 : kind == 6 ? 0x20000 : 0x3000);
    if (c >= 0xD800 && c < 0xE000) c -= 0x800;
    return sl_utf8_encode(c, out);
}

static long random_texts = 10000;

/* Random texts for each published tokenizer. */
static void test_random_texts_come_back(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "gpt4o", "llama3", "qwen3", "deepseek_v3"};
    random_state = 88172645463325252u;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char folder[64];
        (void)snprintf(folder, sizeof folder, "tokenizers/%s", names[n]);
        json_t *root = load_shared(folder, "tokenizer.json");
        if (!root) skip();
        const bool nfc =
            json_is_object(json_object_get(root, "normalizer")) &&
            json_object_get(json_object_get(root, "normalizer"), "normalizers") == NULL;
        sl_tokenizer *tokenizer = create(root);
        json_decref(root);
        for (long i = 0; i < random_texts; i++) {
            char text[256];
            size_t bytes = 0;
            const uint32_t count = 1 + random_below(24);
            for (uint32_t j = 0; j < count; j++) bytes += random_piece(text + bytes, !nfc);
            if (!nfc) {
                assert_round_trip(tokenizer, text, bytes);
                continue;
            }
            sl_arena arena;
            sl_slice normal;
            sl_arena_init(&arena, NULL);
            assert_int_equal(sl_normalise_nfc((sl_slice){text, bytes}, &arena, &normal, NULL),
                             SL_OK);
            int32_t ids[1024], again[1024];
            size_t id_count = 0, again_count = 0;
            assert_round_trip(tokenizer, normal.text, normal.bytes);
            assert_int_equal(
                sl_tokenizer_encode(tokenizer, text, bytes, ids, 1024, &id_count, NULL), SL_OK);
            assert_int_equal(sl_tokenizer_encode(tokenizer, normal.text, normal.bytes, again, 1024,
                                                 &again_count, NULL),
                             SL_OK);
            assert_int_equal(id_count, again_count);
            assert_memory_equal(ids, again, id_count * sizeof *ids);
            sl_arena_deinit(&arena);
        }
        sl_tokenizer_destroy(tokenizer);
    }
}

/* Words of every length across the limit between the two algorithms: both must give the same ids
 * for a word whose tail cannot merge with it. */
static void test_long_words_merge_like_short_ones(void **state) {
    (void)state;
    sl_tokenizer *tokenizer = create_fixture();
    char text[256];
    size_t tail;
    free(encode(tokenizer, "\x01", 1, &tail));
    assert_int_equal(tail, 1);
    for (size_t length = 1; length <= 48; length++) {
        for (size_t i = 0; i < length; i++) text[i] = "theinationingestr"[(i * i + length) % 17];
        memset(text + length, '\xFF', 128);
        size_t short_count, long_count;
        int32_t *short_ids = encode(tokenizer, text, length, &short_count);
        int32_t *long_ids = encode(tokenizer, text, length + 128, &long_count);
        assert_int_equal(long_count, short_count + 128);
        assert_memory_equal(short_ids, long_ids, short_count * sizeof *short_ids);
        free(short_ids);
        free(long_ids);
    }
    sl_tokenizer_destroy(tokenizer);
}

static void test_capacity_limits_what_is_written(void **state) {
    (void)state;
    sl_tokenizer *tokenizer = create_fixture();
    static const char text[] = "the <|end|> of the words";
    const size_t bytes = sizeof text - 1;
    size_t count, needed;
    int32_t *all = encode(tokenizer, text, bytes, &count);
    int32_t some[3] = {-7, -7, -7};
    assert_true(count > 2);
    assert_int_equal(sl_tokenizer_encode(tokenizer, text, bytes, some, 2, &needed, NULL), SL_OK);
    assert_int_equal(needed, count);
    assert_memory_equal(some, all, 2 * sizeof *some);
    assert_int_equal(some[2], -7);
    assert_int_equal(sl_tokenizer_encode(tokenizer, text, bytes, NULL, 0, &needed, NULL), SL_OK);
    assert_int_equal(needed, count);
    free(all);
    sl_tokenizer_destroy(tokenizer);
}

static void test_vocabulary(void **state) {
    (void)state;
    sl_tokenizer *tokenizer = create_fixture();
    const int32_t end = sl_tokenizer_find(tokenizer, "<|end|>", 7);
    const int32_t tool = sl_tokenizer_find(tokenizer, "<tool>", 6);
    const int32_t space = sl_tokenizer_find(tokenizer, " ", 1);
    size_t bytes;
    assert_true(end >= 0 && tool >= 0 && space >= 0);
    assert_true(sl_tokenizer_is_special(tokenizer, end));
    assert_false(sl_tokenizer_is_special(tokenizer, tool));
    assert_false(sl_tokenizer_is_special(tokenizer, space));
    assert_memory_equal(sl_tokenizer_text(tokenizer, space, &bytes), " ", 1);
    assert_int_equal(bytes, 1);
    assert_int_equal(sl_tokenizer_find(tokenizer, "no such token", 13), -1);
    assert_int_equal(sl_tokenizer_find(tokenizer, "", 0), -1);
    const int32_t vocab = (int32_t)sl_tokenizer_vocab(tokenizer);
    assert_int_equal(vocab, 628);
    const int32_t outside[] = {-1, vocab, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(sl_tokenizer_text(tokenizer, outside[i], &bytes), "");
        assert_int_equal(bytes, 0);
        assert_false(sl_tokenizer_is_special(tokenizer, outside[i]));
    }
    sl_tokenizer_destroy(tokenizer);
}

/* ---- errors ---- */

/* Replaces a top-level key of the fixture by JSON text and expects this error. */
static void assert_rejected(const char *key, const char *json, sl_status wanted,
                            const char *named) {
    json_t *root = load_json(FIXTURE "tokenizer.json");
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    sl_tokenizer *tokenizer;
    sl_error err = {0};
    assert_non_null(value);
    if (value && strncmp(key, "model.", 6) == 0)
        json_object_set_new(json_object_get(root, "model"), key + 6, value);
    else
        json_object_set_new(root, key, value);
    assert_int_equal(create_from(root, NULL, &tokenizer, &err), wanted);
    assert_null(tokenizer);
    if (!strstr(err.message, named)) fail_msg("'%s' does not name '%s'", err.message, named);
    json_decref(root);
}

static void test_errors_name_what_is_wrong(void **state) {
    (void)state;
    assert_rejected("normalizer", "{\"type\":\"Lowercase\"}", SL_UNSUPPORTED, "Lowercase");
    assert_rejected("normalizer", "{}", SL_FORMAT, "normalizer");
    assert_rejected("normalizer", "{\"type\":\"Prepend\"}", SL_FORMAT, "Prepend");
    assert_rejected("normalizer", "{\"type\":\"Sequence\"}", SL_FORMAT, "normalizers");
    assert_rejected("normalizer", "{\"type\":\"Replace\",\"content\":\"\"}", SL_FORMAT, "Replace");
    assert_rejected("pre_tokenizer", "{\"type\":\"Whitespace\"}", SL_UNSUPPORTED, "Whitespace");
    assert_rejected("pre_tokenizer", "{\"type\":\"Metaspace\",\"replacement\":\"_\"}",
                    SL_UNSUPPORTED, "'_'");
    assert_rejected("pre_tokenizer", "{\"type\":\"Metaspace\",\"prepend_scheme\":\"odd\"}",
                    SL_UNSUPPORTED, "'odd'");
    assert_rejected("decoder", "{\"type\":\"WordPiece\"}", SL_UNSUPPORTED, "WordPiece");
    assert_rejected("decoder", "{\"type\":\"Strip\",\"content\":\"x\"}", SL_UNSUPPORTED, "Strip");
    assert_rejected("decoder", "{}", SL_FORMAT, "decoder");
    assert_rejected("post_processor", "{\"type\":\"BertProcessing\"}", SL_UNSUPPORTED, "Bert");
    assert_rejected(
        "post_processor",
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<q>\"}}]}",
        SL_FORMAT, "'<q>'");
    assert_rejected(
        "post_processor",
        "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<q>\"}}],"
        "\"special_tokens\":{\"<q>\":{\"ids\":[99999]}}}",
        SL_FORMAT, "vocabulary of 628");
    assert_rejected("model.end_of_word_suffix", "\"</w>\"", SL_UNSUPPORTED, "end_of_word_suffix");
    assert_rejected("pre_tokenizer",
                    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}",
                    SL_FORMAT, "'('");
    assert_rejected("pre_tokenizer",
                    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},"
                    "\"behavior\":\"Isolated\"}",
                    SL_UNSUPPORTED, "[a&&b]");
    assert_rejected("pre_tokenizer",
                    "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}",
                    SL_UNSUPPORTED, "Odd");
    assert_rejected("model.type", "\"Unigram\"", SL_UNSUPPORTED, "Unigram");
    assert_rejected("model.dropout", "0.1", SL_UNSUPPORTED, "dropout");
    assert_rejected("model.unk_token", "\"<gone>\"", SL_FORMAT, "<gone>");
    assert_rejected("model.merges", "[\"a zz\"]", SL_FORMAT, "zz");
    assert_rejected("model.merges", "[[\"a\"]]", SL_FORMAT, "merge 0");
    assert_rejected("model.merges", "3", SL_FORMAT, "merges");
    assert_rejected("model.vocab", "{\"a\":-1}", SL_FORMAT, "'a'");
    assert_rejected("model.vocab", "{\"a\":99999999999}", SL_FORMAT, "'a'");
    assert_rejected("model.vocab", "[]", SL_FORMAT, "vocab");
    assert_rejected("model", "7", SL_FORMAT, "model");
    assert_rejected("added_tokens", "[{\"id\":1}]", SL_FORMAT, "added token 0");
    assert_rejected("added_tokens", "{}", SL_FORMAT, "added_tokens");
    sl_tokenizer *tokenizer;
    sl_error err = {0};
    assert_int_equal(sl_tokenizer_create("{\n nonsense", 11, NULL, &tokenizer, &err), SL_FORMAT);
    assert_non_null(strstr(err.message, "line 2"));
}

/* Fails the allocation that brings `left` down to zero, and all later ones. */
static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    int *left = ctx;
    if (new_bytes > 0 && *left == 0) return NULL;
    if (new_bytes > 0) --*left;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void test_no_memory_is_an_error(void **state) {
    (void)state;
    json_t *root = load_json(FIXTURE "tokenizer.json");
    char text[600];
    memset(text, 'e', sizeof text);
    memcpy(text + 500, " e\xCC\x81 <mask>", 11);
    int failures = 0;
    for (int allocations = 0;; allocations++) {
        int left = allocations;
        const sl_allocator allocator = {failing_resize, &left};
        sl_tokenizer *tokenizer;
        sl_error err = {0};
        size_t count;
        sl_status status = create_from(root, &allocator, &tokenizer, &err);
        if (status == SL_OK)
            status = sl_tokenizer_encode(tokenizer, text, sizeof text, NULL, 0, &count, &err);
        sl_tokenizer_destroy(tokenizer);
        if (status == SL_OK) break;
        assert_int_equal(status, SL_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 3);
    json_decref(root);
}

/* ---- normal form ---- */

static void test_nfc(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"e\xCC\x81", "\xC3\xA9"},
        {"x\xC3\xA9\xCC\xA7y", "x\xC8\xA9\xCC\x81y"},             /* marks reordered */
        {"\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"}, /* jamo */
        {"\xE2\x84\xAB", "\xC3\x85"},                             /* Angstrom sign */
        {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"},             /* excluded */
        {"\xCC\x81"
         "e",
         "\xCC\x81"
         "e"}, /* no base */
        {"\xE4\xBD\xA0"
         "a\xCC\x8A\xE4\xBD\xA0",
         "\xE4\xBD\xA0\xC3\xA5\xE4\xBD\xA0"},
    };
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_slice out;
        const sl_slice text = {cases[i][0], strlen(cases[i][0])};
        assert_int_equal(sl_normalise_nfc(text, &arena, &out, NULL), SL_OK);
        assert_int_equal(out.bytes, strlen(cases[i][1]));
        assert_memory_equal(out.text, cases[i][1], out.bytes);
    }
    sl_arena_deinit(&arena);
}

/* ---- streaming ---- */

/* Pushes text in pieces of one size and expects the same output for every size. */
static void assert_streams(const char *text, const char *wanted) {
    const size_t bytes = strlen(text);
    for (size_t piece = 1; piece <= bytes; piece++) {
        sl_utf8_stream stream = {0};
        char out[128];
        size_t count = 0;
        for (size_t at = 0; at < bytes; at += piece) {
            const size_t size = bytes - at < piece ? bytes - at : piece;
            const size_t wrote = sl_utf8_stream_push(&stream, text + at, size, out + count);
            assert_true(wrote <= 3 * (size + 4));
            count += wrote;
        }
        count += sl_utf8_stream_finish(&stream, out + count);
        out[count] = '\0';
        assert_string_equal(out, wanted);
    }
}

static void test_stream(void **state) {
    (void)state;
    assert_streams("plain", "plain");
    assert_streams("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    assert_streams("a\xFF"
                   "b",
                   "a\xEF\xBF\xBD"
                   "b");
    assert_streams("\xE2\x82", "\xEF\xBF\xBD");
    assert_streams("\xE2\x82z", "\xEF\xBF\xBDz");
    assert_streams("\xF0\x9F\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC");
    assert_streams("\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"); /* a surrogate */
    assert_streams("\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD");                 /* overlong */
}

static void test_stream_holds_back_unfinished_characters(void **state) {
    (void)state;
    sl_utf8_stream stream = {0};
    char out[64];
    assert_int_equal(sl_utf8_stream_push(&stream, "a\xE2\x82", 3, out), 1);
    assert_int_equal(sl_utf8_stream_push(&stream, "\xAC", 1, out), 3);
    assert_memory_equal(out, "\xE2\x82\xAC", 3);
    assert_int_equal(sl_utf8_stream_finish(&stream, out), 0);
}

/* Random tokens, not always whole characters: every piece of output is well-formed, and together
 * they equal the bytes decoded at once. */
static void test_stream_of_random_tokens(void **state) {
    (void)state;
    sl_tokenizer *tokenizer = create_fixture();
    random_state = 4101842887655102017u;
    for (int round = 0; round < 20000; round++) {
        char bytes[2048], pieces[3 * 2048 + 64], whole[3 * 2048 + 64];
        size_t total = 0, streamed = 0;
        sl_utf8_stream stream = {0}, at_once = {0};
        const uint32_t count = 1 + random_below(30);
        for (uint32_t i = 0; i < count; i++) {
            size_t length;
            const int32_t id =
                (int32_t)random_below(round % 3 ? 300 : sl_tokenizer_vocab(tokenizer));
            const char *text = sl_tokenizer_text(tokenizer, id, &length);
            memcpy(bytes + total, text, length);
            total += length;
            const size_t wrote = sl_utf8_stream_push(&stream, text, length, pieces + streamed);
            assert_int_equal(sl_utf8_valid_bytes((sl_slice){pieces + streamed, wrote}), wrote);
            streamed += wrote;
        }
        streamed += sl_utf8_stream_finish(&stream, pieces + streamed);
        size_t written = sl_utf8_stream_push(&at_once, bytes, total, whole);
        written += sl_utf8_stream_finish(&at_once, whole + written);
        assert_int_equal(streamed, written);
        assert_memory_equal(pieces, whole, written);
        assert_int_equal(sl_utf8_valid_bytes((sl_slice){whole, written}), written);
        const size_t valid = sl_utf8_valid_bytes((sl_slice){bytes, total});
        assert_memory_equal(bytes, whole, valid); /* valid text is unchanged */
    }
    sl_tokenizer_destroy(tokenizer);
}

int main(int count, char **words) {
    if (count > 1) random_texts = strtol(words[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixture_vectors),
        cmocka_unit_test(test_sentencepiece_vectors),
        cmocka_unit_test(test_frame),
        cmocka_unit_test(test_gpt2_vectors),
        cmocka_unit_test(test_gpt4o_vectors),
        cmocka_unit_test(test_llama3_vectors),
        cmocka_unit_test(test_qwen3_vectors),
        cmocka_unit_test(test_deepseek_vectors),
        cmocka_unit_test(test_fable_prompts),
        cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_random_texts_come_back),
        cmocka_unit_test(test_long_words_merge_like_short_ones),
        cmocka_unit_test(test_capacity_limits_what_is_written),
        cmocka_unit_test(test_vocabulary),
        cmocka_unit_test(test_errors_name_what_is_wrong),
        cmocka_unit_test(test_no_memory_is_an_error),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_holds_back_unfinished_characters),
        cmocka_unit_test(test_stream_of_random_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
