/* synth_test.c - Synthetic packs open, run, and are what was asked for. */
#include "tests/support/described.h"
#include "tests/support/folder.h"

#include "engine/config/shapes.h"
#include "engine/formats/source.h"
#include "engine/models/architecture.h"
#include "engine/quant/noise.h"
#include "sluice/inspect.h"
#include <math.h>

static const char tiny[] =
    "{\"model_type\": \"qwen3_5_moe\", \"vocab_size\": 70, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"full_attention_interval\": 2, \"num_attention_heads\": 2,"
    " \"num_key_value_heads\": 1, \"head_dim\": 32, \"linear_num_key_heads\": 1,"
    " \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 32, \"linear_value_head_dim\": 32,"
    " \"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 32,"
    " \"shared_expert_intermediate_size\": 32, \"tie_word_embeddings\": false}";

static const char *write_shape(void) {
    write_test_file("config.json", tiny, sizeof tiny - 1);
    return test_path("config.json");
}

static sl_synth_options options_of(const char *quant, uint64_t seed) {
    return (sl_synth_options){
        .struct_size = sizeof(sl_synth_options), .quant = quant, .seed = seed, .force = 1};
}

static void synthesise(const sl_synth_options *options, const char *name) {
    sl_error err;
    if (sl_synth_write(write_shape(), test_path(name), options, &err) != SL_OK)
        fail_msg("%s", err.message);
}

/* Runs a few tokens; logits must be finite and neither vanish nor explode. */
static void run_tokens(sl_model *model, uint32_t vocab) {
    static const sl_token tokens[] = {1, 2, 3, 5, 8, 13};
    sl_session *session;
    sl_error err;
    assert_int_equal(sl_session_create(model, NULL, &session, &err), SL_OK);
    assert_int_equal(sl_session_extend(session, tokens, 5, &err), SL_OK);
    assert_int_equal(sl_session_extend(session, tokens + 5, 1, &err), SL_OK);
    size_t count;
    const float *logits = sl_session_logits(session, &count);
    assert_int_equal(count, vocab);
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(logits[i]));
        squares += (double)logits[i] * (double)logits[i];
    }
    assert_in_range((int)(1000 * sqrt(squares / (double)count)), 300, 3000);
    sl_session_destroy(session);
}

static void test_opens_and_runs(void **state) {
    (void)state;
    static const struct {
        const char *quant, *resident, *expert;
    } cases[] = {{"q4", "q4", "q4"}, {"q8", "q8", "q8"}, {"none", "bf16", "bf16"}};
    for (size_t i = 0; i < 3; i++) {
        const sl_synth_options options = options_of(cases[i].quant, 7);
        synthesise(&options, "m.sluice");
        sl_model *model;
        sl_error err;
        const sl_model_options open = {.struct_size = sizeof open, .threads = 1};
        if (sl_model_open(test_path("m.sluice"), &open, &model, &err) != SL_OK)
            fail_msg("%s", err.message);
        const sl_model_info info = test_model_info(model);
        assert_string_equal(info.resident_dtype, cases[i].resident);
        assert_string_equal(info.expert_dtype, cases[i].expert);
        assert_int_equal(info.experts, 4);
        run_tokens(model, info.vocab);
        sl_model_close(model);
    }
}

static void test_changes(void **state) {
    (void)state;
    sl_synth_options options = options_of(NULL, 0);
    options.layers = 3;
    options.experts = 6;
    options.vocab = 33;
    synthesise(&options, "m.sluice");
    sl_model *model;
    sl_error err;
    assert_int_equal(sl_model_open(test_path("m.sluice"), NULL, &model, &err), SL_OK);
    const sl_model_info info = test_model_info(model);
    assert_int_equal(info.layers, 3);
    assert_int_equal(info.experts, 6);
    assert_int_equal(info.vocab, 33);
    sl_model_close(model);
}

/* Any text comes back, every token has a text, and a chat can be rendered. */
static void test_text(void **state) {
    (void)state;
    enum { VOCAB = 7000, ROOM = 64 };
    static const char text[] = "Grüße, 17 + 25?\n";
    sl_synth_options options = options_of(NULL, 0);
    options.vocab = VOCAB;
    synthesise(&options, "m.sluice");
    sl_model *model;
    sl_error err;
    sl_token tokens[ROOM];
    size_t count, bytes, length = 0;
    if (sl_model_open(test_path("m.sluice"), NULL, &model, &err)) fail_msg("%s", err.message);
    if (sl_model_tokenize(model, text, sizeof text - 1, tokens, ROOM, &count, &err))
        fail_msg("%s", err.message);
    assert_int_equal(count, sizeof text - 1);
    for (size_t i = 0; i < count; i++) {
        const char *piece = sl_model_token_text(model, tokens[i], &bytes);
        assert_memory_equal(piece, text + length, bytes);
        length += bytes;
    }
    assert_int_equal(length, count);
    for (sl_token t = 0; t < VOCAB; t++) {
        (void)sl_model_token_text(model, t, &bytes);
        assert_true(bytes > 0);
    }
    const char *chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}],"
                       " \"add_generation_prompt\": true}";
    assert_int_equal(sl_model_tokenize_chat(model, chat, tokens, ROOM, &count, &err), SL_OK);
    assert_int_equal(count, 3 + strlen("user\nHi\nassistant\n"));
    assert_true(sl_model_token_special(model, tokens[0]));
    assert_true(sl_model_token_ends(model, 257));
    sl_model_close(model);
}

/* The numbers of the real model, which nothing small enough to write has all of. */
static void test_true_shape(void **state) {
    (void)state;
    sl_arena arena;
    sl_error err;
    const char *text;
    size_t bytes;
    sl_model_config config;
    sl_arena_init(&arena, NULL);
    assert_int_equal(sl_shape_load("qwen3.5-35b-a3b", NULL, &arena, &text, &bytes, &err), SL_OK);
    assert_int_equal(sl_model_config_parse(text, bytes, &arena, &config, &err), SL_OK);
    assert_int_equal(config.vocab, 248320);
    assert_int_equal(config.hidden, 2048);
    assert_int_equal(config.layers, 40);
    assert_int_equal(config.experts, 256);
    assert_int_equal(config.experts_used, 8);
    assert_int_equal(config.expert_width, 512);
    assert_int_equal(config.query_heads, 16);
    assert_int_equal(config.head_dim, 256);
    sl_arena_deinit(&arena);
}

static void test_deterministic(void **state) {
    (void)state;
    const sl_synth_options one = options_of("q4", 1), two = options_of("q4", 2);
    synthesise(&one, "a");
    synthesise(&one, "b");
    synthesise(&two, "c");
    size_t a_bytes, b_bytes, c_bytes;
    uint8_t *a = read_test_file("a", &a_bytes), *b = read_test_file("b", &b_bytes);
    uint8_t *c = read_test_file("c", &c_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_int_equal(a_bytes, c_bytes);
    assert_memory_equal(a, b, a_bytes);
    assert_true(memcmp(a, c, a_bytes) != 0);
    free(a);
    free(b);
    free(c);
}

static int stop_midway(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)ctx;
    (void)what;
    return done > total / 2;
}

static void test_cancelled(void **state) {
    (void)state;
    sl_synth_options options = options_of("q8", 0);
    options.progress = stop_midway;
    sl_error err;
    const char *shape = write_shape();
    assert_int_equal(sl_synth_write(shape, test_path("x"), &options, &err), SL_CANCELLED);
    assert_int_equal(count_test_files(), 1); /* the config */
}

static int check_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    uint64_t *last = ctx;
    (void)what;
    assert_true(done > last[0] && done <= total);
    last[0] = done;
    last[1] = total;
    return 0;
}

static void test_progress(void **state) {
    (void)state;
    uint64_t last[2] = {0};
    sl_synth_options options = options_of("q4", 0);
    options.progress = check_progress;
    options.progress_ctx = last;
    synthesise(&options, "m.sluice");
    assert_int_equal(last[0], last[1]);
}

static void expect_refusal(const char *shape, const sl_synth_options *options, const char *text) {
    sl_error err;
    assert_int_not_equal(sl_synth_write(shape, test_path("x"), options, &err), SL_OK);
    expect_message(&err, text);
}

static void test_refusals(void **state) {
    (void)state;
    sl_synth_options options = options_of("q5", 0);
    expect_refusal("small", &options, "q5");
    options = options_of("q4", 0);
    expect_refusal("nothing", &options, "medium");
    options.experts = 1;
    expect_refusal("small", &options, "num_experts");
    const char *at = strstr(tiny, "\"moe_intermediate_size\": 32");
    char odd[sizeof tiny];
    memcpy(odd, tiny, sizeof tiny);
    memcpy(odd + (at - tiny) + strlen("\"moe_intermediate_size\": "), "40", 2);
    write_test_file("odd.json", odd, sizeof odd - 1);
    options.experts = 0;
    expect_refusal(test_path("odd.json"), &options, "multiple of 32");
}

/* Decoded weights have mean zero and the wanted deviation; pieces are the same as the whole. */
static void check_noise(sl_dtype dtype) {
    enum { ROWS = 200, COLS = 512 };
    const sl_type type = sl_type_make(dtype, 2, (int64_t)ROWS, (int64_t)COLS);
    const sl_noise noise = sl_noise_make(type, 11, 0.02f);
    const uint64_t bytes = sl_type_bytes(&type);
    uint8_t *whole = aligned_alloc(64, (bytes + 63) / 64 * 64), *piece = malloc(noise.band_bytes);
    assert_non_null(whole);
    assert_non_null(piece);
    sl_noise_head(&noise, whole);
    assert_int_equal(
        noise.head_bytes + sl_noise_bands(&noise, 0, noise.bands, whole + noise.head_bytes), bytes);
    const uint64_t length = sl_noise_bands(&noise, 3, 1, piece);
    assert_memory_equal(piece, whole + noise.head_bytes + 3 * noise.band_bytes, length);
    double sum = 0, squares = 0;
    float row[COLS];
    for (int64_t r = 0; r < ROWS; r++) {
        sl_decode_row(dtype, whole, ROWS, COLS, r, row);
        for (int c = 0; c < COLS; c++) {
            sum += row[c];
            squares += (double)row[c] * (double)row[c];
        }
    }
    const double count = (double)ROWS * COLS;
    assert_true(fabs(sum / count) < 0.0004);
    assert_true(fabs(sqrt(squares / count) - 0.02) < 0.0004);
    free(whole);
    free(piece);
}

static void test_noise(void **state) {
    (void)state;
    check_noise(SL_DTYPE_q4);
    check_noise(SL_DTYPE_q8);
    check_noise(SL_DTYPE_bf16);
}

static void test_cost(void **state) {
    (void)state;
    const sl_synth_options options = options_of("none", 0);
    synthesise(&options, "m.sluice");
    sl_model *model;
    sl_error err;
    assert_int_equal(sl_model_open(test_path("m.sluice"), NULL, &model, &err), SL_OK);
    const sl_token_cost cost = test_token_cost(model);
    const sl_model_info info = test_model_info(model);
    /* Half of the experts, and of the embedding one row of 70. */
    assert_int_equal(cost.weight_bytes, info.resident_bytes - 69 * 64 * 2 + info.expert_bytes / 2);
    assert_int_equal(cost.expert_bytes, info.expert_bytes / 2);
    assert_true(cost.expert_share == 0.5);
    assert_int_equal(cost.decode_operations - cost.prefill_operations, 2 * 70 * 64);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_opens_and_runs, empty_test_folder),
        cmocka_unit_test_teardown(test_changes, empty_test_folder),
        cmocka_unit_test_teardown(test_text, empty_test_folder),
        cmocka_unit_test(test_true_shape),
        cmocka_unit_test_teardown(test_deterministic, empty_test_folder),
        cmocka_unit_test_teardown(test_cancelled, empty_test_folder),
        cmocka_unit_test_teardown(test_progress, empty_test_folder),
        cmocka_unit_test_teardown(test_refusals, empty_test_folder),
        cmocka_unit_test(test_noise),
        cmocka_unit_test_teardown(test_cost, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
