/* Graphs of all families and their variants, without weights: they verify, and have what makes the
 * variant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compiler/compile.h"
#include "engine/models/architecture.h"
#include <string.h>

#define SIZES                                                                                      \
    "\"vocab_size\":320,\"hidden_size\":128,\"num_hidden_layers\":4,\"num_attention_heads\":4,"    \
    "\"num_key_value_heads\":2"
#define OF(type, more) "{\"model_type\":\"" type "\"," SIZES more "}"
#define EXPERTS        ",\"num_experts\":8,\"num_experts_per_tok\":2"
#define NARROW         EXPERTS ",\"moe_intermediate_size\":64"
#define BIAS           ",\"attention_bias\":true"
#define YARN           ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}"

/* Weights that a variant has, and those that it lacks. */
static const struct {
    const char *config, *has, *lacks;
} variants[] = {
    {OF("qwen3_5_moe", NARROW), "layers.0.linear_attn.in_proj_qkv.weight", "layers.0.mlp.up_proj"},
    {OF("qwen3_5_moe_text", NARROW BIAS), "layers.3.self_attn.o_proj.bias", "lm_head.bias"},
    {OF("qwen3_5", ",\"intermediate_size\":192"), "layers.3.mlp.down_proj.weight",
     "layers.3.mlp.gate.weight"},
    {OF("qwen3_5_text", ",\"intermediate_size\":192,\"tie_word_embeddings\":true"),
     "layers.0.linear_attn.A_log", "lm_head.weight"},
    {OF("qwen3_next", NARROW ",\"mlp_only_layers\":[2]"), "layers.2.mlp.up_proj.weight",
     "layers.2.mlp.gate.weight"},
    {OF("qwen3_moe", NARROW BIAS ",\"decoder_sparse_step\":2"), "layers.1.self_attn.k_proj.bias",
     "layers.0.mlp.gate.weight"},
    {OF("qwen3", ",\"intermediate_size\":192,\"use_sliding_window\":true,"
                 "\"max_window_layers\":1" YARN),
     "layers.0.self_attn.q_norm.weight", "layers.0.self_attn.q_proj.bias"},
    {OF("mixtral", ",\"intermediate_size\":192,\"sliding_window\":16"),
     "layers.0.block_sparse_moe.gate.weight", "layers.0.self_attn.q_norm.weight"},
    {OF("olmoe", EXPERTS ",\"intermediate_size\":64,\"clip_qkv\":3.5" BIAS),
     "layers.0.self_attn.k_norm.weight", "layers.0.mlp.shared_expert.up_proj.weight"},
    {OF("glm4_moe", NARROW BIAS), "layers.1.mlp.gate.e_score_correction_bias",
     "layers.0.self_attn.o_proj.bias"},
    {OF("glm4_moe", NARROW ",\"use_qk_norm\":true,\"n_shared_experts\":0"),
     "layers.0.self_attn.k_norm.weight", "layers.1.mlp.shared_experts.up_proj.weight"},
    {OF("deepseek_v3", NARROW ",\"n_group\":2,\"topk_group\":1,\"q_lora_rank\":96" YARN),
     "layers.0.self_attn.q_b_proj.weight", "layers.0.self_attn.q_proj.weight"},
    {OF("deepseek_v3", NARROW ",\"n_group\":2,\"topk_group\":1,\"rope_interleave\":false" BIAS),
     "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.q_a_proj.weight"},
    {OF("gpt_oss", EXPERTS ",\"intermediate_size\":64"), "layers.3.self_attn.sinks",
     "layers.3.mlp.gate.weight"},
};

static void build(const sl_model_config *config, sl_weights *weights, uint32_t rows,
                  sl_arena *arena) {
    sl_error err = {0};
    sl_expert_table experts;
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    assert_int_equal(sl_expert_table_fake(config, arena, &experts, &err), SL_OK);
    const sl_forward_shape shape = {.config = config,
                                    .weights = weights,
                                    .experts = &experts,
                                    .rows = rows,
                                    .wanted = 1,
                                    .slots = 2,
                                    .capacity = 4096};
    assert_int_equal(sl_graph_create("forward", NULL, &graph, &err), SL_OK);
    if (sl_architecture_build(sl_architecture_find(config->model_type), &shape, graph, &err) ||
        sl_graph_verify(graph, &err) ||
        sl_compile_graph(graph, &(sl_compiler_options){0}, NULL, &program, &err))
        fail_msg("%s of %u rows: %s", config->model_type, rows, err.message);
    assert_int_equal(sl_graph_value(graph, sl_graph_find(graph, "tokens"))->type.shape.dims[0],
                     rows);
    sl_program_destroy(program);
    sl_graph_destroy(graph);
}

static void test_variants(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        sl_error err = {0};
        sl_arena arena;
        sl_model_config config;
        sl_weights weights;
        sl_arena_init(&arena, NULL);
        sl_weights_fake(&weights, NULL);
        if (sl_model_config_parse(variants[i].config, strlen(variants[i].config), &arena, &config,
                                  &err))
            fail_msg("%s: %s", variants[i].config, err.message);
        build(&config, &weights, 1, &arena);
        build(&config, &weights, 20, &arena);
        if (!sl_weights_find(&weights, variants[i].has))
            fail_msg("%s: lacks %s", variants[i].config, variants[i].has);
        if (sl_weights_find(&weights, variants[i].lacks))
            fail_msg("%s: has %s", variants[i].config, variants[i].lacks);
        sl_weights_deinit(&weights);
        sl_arena_deinit(&arena);
    }
}

static void test_names(void **state) {
    (void)state;
    char text[SL_CONFIG_NAMES_BYTES], few[8];
    assert_non_null(strstr(sl_architecture_names(text, sizeof text), "mixtral, olmoe"));
    assert_true(strlen(text) + 1 < sizeof text);
    assert_int_equal(strlen(sl_architecture_names(few, sizeof few)), sizeof few - 1);
    assert_null(sl_architecture_find("llama"));
    assert_ptr_equal(sl_architecture_find("qwen3_5_text"), sl_architecture_find("qwen3_5"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
