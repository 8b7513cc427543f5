#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/models/config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sl_error err;
static sl_arena arena;
static sl_model_config config;

#define REQUIRED                                                                                   \
    "\"vocab_size\":320,\"hidden_size\":128,\"num_hidden_layers\":8,\"num_attention_heads\":4,"    \
    "\"num_experts\":8,\"num_experts_per_tok\":3,\"moe_intermediate_size\":64"
#define FLAT(more) "{\"model_type\":\"qwen3_5_moe_text\"," REQUIRED more "}"

static int setup(void **state) {
    (void)state;
    sl_arena_init(&arena, NULL);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    sl_arena_deinit(&arena);
    return 0;
}

static sl_status parse(const char *json) {
    return sl_model_config_parse(json, strlen(json), &arena, &config, &err);
}

static void expect_ok(const char *json) {
    if (parse(json) != SL_OK) fail_msg("%s", err.message);
}

static void expect_failure(const char *json, sl_status status, const char *message) {
    const sl_status found = parse(json);
    if (found != status || !strstr(err.message, message))
        fail_msg("%s: status %d \"%s\", wanted %d \"%s\"", json, (int)found, err.message,
                 (int)status, message);
}

static void test_defaults(void **state) {
    (void)state;
    expect_ok(FLAT(""));
    assert_string_equal(config.model_type, "qwen3_5_moe");
    assert_int_equal(config.vocab, 320);
    assert_int_equal(config.hidden, 128);
    assert_int_equal(config.context, 32768);
    assert_int_equal(config.query_heads, 4);
    assert_int_equal(config.kv_heads, 2);
    assert_int_equal(config.head_dim, 256);
    assert_int_equal(config.rope.dims, 64);
    assert_true(config.rope.theta == 10000.0f);
    assert_true(config.norm_eps == 1e-6f);
    assert_int_equal(config.delta_key_heads, 16);
    assert_int_equal(config.delta_value_heads, 32);
    assert_int_equal(config.delta_key_dim, 128);
    assert_int_equal(config.delta_value_dim, 128);
    assert_int_equal(config.conv_width, 4);
    assert_int_equal(config.shared_width, 512);
    assert_true(config.normalise_routes);
    assert_false(config.tied_embeddings);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(!config.layer[i].linear, i % 4 == 3);
}

static void test_nested_text_config(void **state) {
    (void)state;
    expect_ok("{\"model_type\":\"qwen3_5_moe\",\"tie_word_embeddings\":true,\"hidden_size\":5,"
              "\"text_config\":{\"model_type\":\"qwen3_5_moe_text\"," REQUIRED
              ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000000,"
              "\"partial_rotary_factor\":0.5,\"mrope_section\":[11,11,10]},"
              "\"partial_rotary_factor\":0.25}}");
    assert_int_equal(config.hidden, 128);
    assert_true(config.tied_embeddings);
    assert_true(config.rope.theta == 1e7f);
    assert_int_equal(config.rope.dims, 128);
}

static void test_layer_types_win_over_the_interval(void **state) {
    (void)state;
    expect_ok(FLAT(",\"full_attention_interval\":2"));
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(!config.layer[i].linear, i % 2 == 1);
    expect_ok(FLAT(",\"full_attention_interval\":2,\"layer_types\":[\"full_attention\","
                   "\"linear_attention\",\"linear_attention\",\"linear_attention\","
                   "\"linear_attention\",\"linear_attention\",\"linear_attention\","
                   "\"full_attention\"]"));
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(!config.layer[i].linear, i == 0 || i == 7);
}

static void test_null_is_absent(void **state) {
    (void)state;
    expect_ok(FLAT(",\"head_dim\":null,\"layer_types\":null,\"rope_scaling\":null,"
                   "\"rope_parameters\":null,\"quantization_config\":null"));
    assert_int_equal(config.head_dim, 256);
}

static void test_unsupported_models_are_named(void **state) {
    (void)state;
    expect_failure("{\"model_type\":\"llama\"}", SL_UNSUPPORTED,
                   "model type 'llama' is not supported; supported: qwen3_5_moe");
    expect_failure(FLAT(",\"rope_parameters\":{\"rope_type\":\"longrope\"}"), SL_UNSUPPORTED,
                   "'rope_type' is 'longrope'; supported: default, linear, llama3, yarn");
    expect_failure(FLAT(",\"rope_scaling\":{\"type\":\"dynamic\"}"), SL_UNSUPPORTED,
                   "'type' is 'dynamic'; supported: default");
    expect_failure(FLAT(",\"hidden_act\":\"gelu\""), SL_UNSUPPORTED, "'hidden_act' is 'gelu'");
    expect_failure(FLAT(",\"attn_output_gate\":false"), SL_UNSUPPORTED, "'attn_output_gate'");
    expect_failure(FLAT(",\"layer_types\":[\"mamba\",1,1,1,1,1,1,1]"), SL_UNSUPPORTED, "'mamba'");
}

static void test_senseless_configs_name_the_key(void **state) {
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"", "not valid JSON"},
        {"[]", "not an object"},
        {"{}", "'model_type' is missing"},
        {"{\"model_type\":\"qwen3_5_moe\"}", "'vocab_size' is missing"},
        {"{\"model_type\":7}", "'model_type' is missing"},
        {FLAT(",\"vocab_size\":1"), "duplicate"},
        {FLAT(",\"head_dim\":\"64\""), "'head_dim' is not an integer"},
        {FLAT(",\"head_dim\":64.5"), "'head_dim' is not an integer"},
        {FLAT(",\"head_dim\":0"), "'head_dim' is 0, 2 to 4096"},
        {FLAT(",\"head_dim\":-4"), "'head_dim' is -4"},
        {FLAT(",\"head_dim\":4294967552"), "'head_dim' is 4294967552"},
        {FLAT(",\"head_dim\":12"), "gives 3 rotary dims"},
        {FLAT(",\"head_dim\":4"), "gives 1 rotary dims"},
        {FLAT(",\"num_key_value_heads\":3"), "multiple of 'num_key_value_heads' (3)"},
        {FLAT(",\"linear_num_value_heads\":24"), "multiple of 'linear_num_key_heads' (16)"},
        {FLAT(",\"linear_conv_kernel_dim\":1"), "'linear_conv_kernel_dim' is 1"},
        {FLAT(",\"partial_rotary_factor\":1.5"), "'partial_rotary_factor' is 1.5"},
        {FLAT(",\"rope_theta\":0"), "'rope_theta' is 0"},
        {FLAT(",\"rope_theta\":\"x\""), "'rope_theta' is"},
        {FLAT(",\"rms_norm_eps\":-1"), "'rms_norm_eps' is -1"},
        {FLAT(",\"rope_parameters\":[]"), "'rope_parameters' is not an object"},
        {FLAT(",\"tie_word_embeddings\":1"), "'tie_word_embeddings' is not true or false"},
        {FLAT(",\"full_attention_interval\":0"), "'full_attention_interval' is 0"},
        {FLAT(",\"layer_types\":[]"), "'layer_types' has 0 entries, 'num_hidden_layers' is 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_failure(cases[i].json, SL_FORMAT, cases[i].message);
    expect_failure("{\"model_type\":\"qwen3_5_moe\",\"vocab_size\":320,\"hidden_size\":128,"
                   "\"num_hidden_layers\":8,\"num_attention_heads\":4,\"num_experts\":2,"
                   "\"num_experts_per_tok\":3,\"moe_intermediate_size\":64}",
                   SL_FORMAT, "'num_experts_per_tok' is 3 of 2");
}

static void test_reads_the_fable_config(void **state) {
    (void)state;
    static char text[65536];
    const char *shared = getenv("SLUICE_SHARED");
    (void)snprintf(text, sizeof text, "%s/models/fable/config.json", shared ? shared : "../shared");
    FILE *file = fopen(text, "rb");
    if (!file) {
        print_message("%s is absent\n", text);
        skip();
    }
    const size_t bytes = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    if (sl_model_config_parse(text, bytes, &arena, &config, &err) != SL_OK)
        fail_msg("%s", err.message);
    assert_int_equal(config.vocab, 1280);
    assert_int_equal(config.hidden, 256);
    assert_int_equal(config.layers, 8);
    assert_int_equal(config.context, 4096);
    assert_int_equal(config.rope.dims, 16);
    assert_int_equal(config.delta_value_heads, 4);
    assert_int_equal(config.experts, 32);
    assert_int_equal(config.experts_used, 4);
    assert_int_equal(config.expert_width, 64);
    assert_int_equal(config.shared_width, 128);
    assert_true(!config.layer[3].linear && !config.layer[7].linear);
    assert_true(config.layer[0].linear);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_nested_text_config),
        cmocka_unit_test(test_layer_types_win_over_the_interval),
        cmocka_unit_test(test_null_is_absent),
        cmocka_unit_test(test_unsupported_models_are_named),
        cmocka_unit_test(test_senseless_configs_name_the_key),
        cmocka_unit_test(test_reads_the_fable_config),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
