#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/models/architecture.h"
#include <math.h>
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

/* ---- families ---- */

#define SIZES                                                                                      \
    "\"vocab_size\":320,\"hidden_size\":128,\"num_hidden_layers\":4,\"num_attention_heads\":4"
#define OF(type, more) "{\"model_type\":\"" type "\"," SIZES more "}"
#define QWEN3(more)    OF("qwen3", ",\"intermediate_size\":192" more)
#define QWEN3_MOE(more)                                                                            \
    OF("qwen3_moe", ",\"num_experts\":8,\"num_experts_per_tok\":2,"                                \
                    "\"moe_intermediate_size\":64" more)
#define MIXTRAL(more) OF("mixtral", ",\"intermediate_size\":192" more)
#define GLM(more)                                                                                  \
    OF("glm4_moe", ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,"                            \
                   "\"moe_intermediate_size\":64,\"num_key_value_heads\":2" more)
#define DEEPSEEK(more)                                                                             \
    OF("deepseek_v3", ",\"n_routed_experts\":16,\"num_experts_per_tok\":2,"                        \
                      "\"moe_intermediate_size\":64" more)
#define GPT_OSS(more)                                                                              \
    OF("gpt_oss", ",\"num_local_experts\":8,\"intermediate_size\":64,"                             \
                  "\"num_key_value_heads\":2" more)

static void test_defaults_of_families(void **state) {
    (void)state;
    expect_ok(MIXTRAL(",\"num_key_value_heads\":2"));
    assert_int_equal(config.experts, 8);
    assert_int_equal(config.experts_used, 2);
    assert_int_equal(config.expert_width, 192);
    assert_int_equal(config.head_dim, 32);
    assert_true(config.rope.theta == 1e6f && config.normalise_routes);
    expect_ok(MIXTRAL(",\"num_key_value_heads\":2,\"num_local_experts\":4"));
    assert_int_equal(config.experts, 4);
    expect_ok(QWEN3(""));
    assert_int_equal(config.head_dim, 128);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.experts, 0);
    assert_true(config.rope.dims == 128 && !config.layer[0].sparse);
    expect_ok(QWEN3_MOE(""));
    assert_int_equal(config.head_dim, 32);
    assert_true(config.layer[0].sparse && !config.normalise_routes);
    expect_ok(OF("olmoe", ",\"intermediate_size\":64,\"clip_qkv\":2.5,\"attention_bias\":true"));
    assert_int_equal(config.experts, 64);
    assert_true(config.clip_qkv == 2.5f && config.attention_bias && !config.normalise_routes);
    expect_ok(GLM(",\"use_qk_norm\":true,\"n_shared_experts\":2"));
    assert_int_equal(config.rope.dims, 16);
    assert_int_equal(config.shared_width, 128);
    assert_true(config.qk_norm && !config.layer[0].sparse && config.layer[1].sparse);
    expect_ok(DEEPSEEK(",\"q_lora_rank\":null"));
    assert_int_equal(config.query_rank, 0);
    assert_int_equal(config.latent_rank, 512);
    assert_true(config.rope.interleaved && config.rope.dims == 64);
    assert_true(!config.layer[2].sparse && config.layer[3].sparse);
    assert_true(fabsf(config.score_scale - 1 / sqrtf(192)) < 1e-7f);
}

static void test_windows(void **state) {
    (void)state;
    expect_ok(GPT_OSS(",\"sliding_window\":16"));
    assert_true(config.layer[0].window == 16 && config.layer[1].window == 0);
    expect_ok(GPT_OSS(",\"sliding_window\":16,\"layer_types\":[\"full_attention\","
                      "\"sliding_attention\",\"full_attention\",\"full_attention\"]"));
    assert_true(config.layer[0].window == 0 && config.layer[1].window == 16);
    expect_ok(GPT_OSS(""));
    assert_int_equal(config.layer[0].window, 128);
    expect_ok(MIXTRAL(",\"num_key_value_heads\":2,\"sliding_window\":null"));
    assert_int_equal(config.layer[0].window, 0);
    expect_ok(MIXTRAL(",\"num_key_value_heads\":2,\"sliding_window\":4096"));
    assert_int_equal(config.layer[3].window, 4096);
    expect_ok(QWEN3_MOE(",\"sliding_window\":64,\"use_sliding_window\":false"));
    assert_int_equal(config.layer[3].window, 0);
    expect_ok(QWEN3(",\"sliding_window\":64,\"use_sliding_window\":true,\"max_window_layers\":2"));
    assert_true(config.layer[1].window == 0 && config.layer[2].window == 64);
}

static void test_layers_without_experts(void **state) {
    (void)state;
    expect_ok(QWEN3_MOE(",\"decoder_sparse_step\":2,\"mlp_only_layers\":[3],"
                        "\"intermediate_size\":100"));
    assert_int_equal(config.dense_width, 100);
    for (int i = 0; i < 4; i++) assert_int_equal(config.layer[i].sparse, i == 1);
    expect_ok(GLM(",\"first_k_dense_replace\":9"));
    assert_false(config.layer[3].sparse);
}

static void test_rope_in_all_spellings(void **state) {
    (void)state;
    expect_ok(QWEN3(",\"rope_theta\":5000,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4}"));
    assert_int_equal(config.rope.scaling, SL_ROPE_LINEAR);
    assert_true(config.rope.theta == 5000 && config.rope.factor == 4);
    expect_ok(QWEN3(",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000,"
                    "\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                    "\"original_max_position_embeddings\":8192}"));
    assert_int_equal(config.rope.scaling, SL_ROPE_LLAMA3);
    assert_true(config.rope.low == 1 && config.rope.high == 4 && config.rope.original == 8192);
    expect_ok(QWEN3(",\"rope_scaling\":{},\"rope_parameters\":{\"rope_type\":\"default\","
                    "\"mrope_section\":[1,2,3]}"));
    assert_int_equal(config.rope.scaling, SL_ROPE_DEFAULT);
    expect_ok(QWEN3(",\"max_position_embeddings\":1000,"
                    "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}"));
    assert_true(config.rope.original == 1000 && config.rope.truncate);
    assert_true(config.rope.low == 1 && config.rope.high == 32);
    assert_true(fabsf(config.rope.magnitude - 1.1386294f) < 1e-6f);
    expect_ok(QWEN3(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                    "\"attention_factor\":1.5,\"truncate\":false,\"beta_slow\":2}"));
    assert_true(config.rope.magnitude == 1.5f && !config.rope.truncate && config.rope.low == 2);
    expect_ok(GPT_OSS(""));
    assert_int_equal(config.rope.scaling, SL_ROPE_YARN);
    assert_true(config.rope.theta == 150000 && config.rope.factor == 32 && !config.rope.truncate);
    expect_ok(GPT_OSS(",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10}"));
    assert_int_equal(config.rope.scaling, SL_ROPE_DEFAULT);
}

/* As DeepSeek-V3 has it: cosines are not scaled, scores are. */
static void test_yarn_of_latent_attention(void **state) {
    (void)state;
    expect_ok(DEEPSEEK(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":1.0,"
                       "\"mscale_all_dim\":1.0,\"original_max_position_embeddings\":4096}"));
    const double m = 0.1 * log(40) + 1;
    assert_true(fabsf(config.rope.magnitude - 1) < 1e-7f);
    assert_true(fabs((double)config.score_scale - m * m / sqrt(192)) < 1e-7);
    expect_ok(DEEPSEEK(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale_all_dim\":0}"));
    assert_true(fabs((double)config.rope.magnitude - m) < 1e-6);
    assert_true(fabs((double)config.score_scale - 1 / sqrt(192)) < 1e-7);
}

static void test_families_name_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *json;
        sl_status status;
        const char *message;
    } cases[] = {
        {OF("llama", ""), SL_UNSUPPORTED,
         "'llama' is not supported; supported: qwen3_5_moe, qwen3_5, qwen3_next, qwen3_moe, qwen3, "
         "mixtral, olmoe, glm4_moe, deepseek_v3, gpt_oss"},
        {OF("qwen3", ""), SL_FORMAT, "'intermediate_size' is missing, and layer 0 has no experts"},
        {OF("qwen3_moe", ""), SL_FORMAT,
         "'num_experts' or 'num_local_experts' or 'n_routed_experts' is missing"},
        {OF("mixtral", ""), SL_FORMAT, "'intermediate_size' is missing"},
        {MIXTRAL(""), SL_FORMAT, "multiple of 'num_key_value_heads' (8)"},
        {OF("olmoe", ",\"num_key_value_heads\":0"), SL_FORMAT, "'num_key_value_heads' is 0"},
        {QWEN3(",\"hidden_act\":\"gelu\""), SL_UNSUPPORTED, "only 'silu' is supported"},
        {QWEN3(",\"rope_scaling\":{\"type\":\"linear\"}"), SL_FORMAT, "'factor' is missing"},
        {QWEN3(",\"rope_scaling\":{\"type\":\"su\"}"), SL_UNSUPPORTED, "supported: default"},
        {QWEN3(",\"rope_scaling\":{\"type\":7}"), SL_UNSUPPORTED, "'type' is '?'"},
        {QWEN3(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":-1}"), SL_FORMAT, "'factor' is -1"},
        {QWEN3(",\"rope_theta\":1,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"), SL_FORMAT,
         "more than 1 wanted"},
        {QWEN3(",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2}"), SL_FORMAT,
         "'low_freq_factor' is missing"},
        {QWEN3(",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":2,"
               "\"high_freq_factor\":2}"),
         SL_FORMAT, "more than 'low_freq_factor' (2) wanted"},
        {QWEN3(",\"rope_parameters\":{\"full_attention\":{}}"), SL_UNSUPPORTED,
         "differs by layer type"},
        {QWEN3(",\"layer_types\":[\"linear_attention\",\"a\",\"b\",\"c\"]"), SL_UNSUPPORTED,
         "supported: full_attention, sliding_attention"},
        {QWEN3(",\"use_sliding_window\":1"), SL_FORMAT, "'use_sliding_window' is not true"},
        {QWEN3(",\"use_sliding_window\":true,\"sliding_window\":0"), SL_FORMAT,
         "'sliding_window' is 0"},
        {QWEN3_MOE(",\"mlp_only_layers\":[4]"), SL_FORMAT, "names layer 4, there are 4"},
        {QWEN3_MOE(",\"mlp_only_layers\":{}"), SL_FORMAT, "'mlp_only_layers' is not a list"},
        {QWEN3_MOE(",\"decoder_sparse_step\":0"), SL_FORMAT, "'decoder_sparse_step' is 0"},
        {GLM(",\"n_group\":3"), SL_FORMAT, "multiple of 'n_group' (3)"},
        {GLM(",\"n_group\":8"), SL_FORMAT, "groups of less than 2"},
        {GLM(",\"topk_group\":2"), SL_FORMAT, "'topk_group' is 2 of 1 groups"},
        {GLM(",\"scoring_func\":\"softmax\""), SL_UNSUPPORTED, "only 'sigmoid' is supported"},
        {GLM(",\"routed_scaling_factor\":0"), SL_FORMAT, "'routed_scaling_factor' is 0"},
        {DEEPSEEK(",\"qk_rope_head_dim\":7"), SL_FORMAT, "gives 7 rotary dims"},
        {DEEPSEEK(",\"v_head_dim\":\"x\""), SL_FORMAT, "'v_head_dim' is not an integer"},
        {GPT_OSS(",\"swiglu_limit\":-7"), SL_FORMAT, "'swiglu_limit' is -7"},
        {GPT_OSS(",\"num_experts_per_tok\":9"), SL_FORMAT, "'num_experts_per_tok' is 9 of 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_failure(cases[i].json, cases[i].status, cases[i].message);
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
        cmocka_unit_test(test_defaults_of_families),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_layers_without_experts),
        cmocka_unit_test(test_rope_in_all_spellings),
        cmocka_unit_test(test_yarn_of_latent_attention),
        cmocka_unit_test(test_families_name_what_is_wrong),
        cmocka_unit_test(test_reads_the_fable_config),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
