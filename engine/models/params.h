/* params.h - The weights, states, inputs and outputs of a forward pass, one typed function each.
 *
 * The name of a tensor in a checkpoint and the role of its value are stated together here and
 * nowhere else, so that a model builder cannot take one tensor for another. */
#ifndef SL_ENGINE_MODELS_PARAMS_H
#define SL_ENGINE_MODELS_PARAMS_H
#include "engine/models/builder.h"
#include <stdio.h>

/* sl_param_role(b, rows, cols): a matrix of the layer */
#define PARAM_MATRIX(ROLE, NAME)                                                                   \
    static inline sl_##ROLE##_value sl_param_##ROLE(sl_builder *b, int64_t rows, int64_t cols) {   \
        return (sl_##ROLE##_value){sl_builder_matrix(b, NAME, rows, cols)};                        \
    }
PARAM_MATRIX(q_weight, "self_attn.q_proj.weight")
PARAM_MATRIX(k_weight, "self_attn.k_proj.weight")
PARAM_MATRIX(v_weight, "self_attn.v_proj.weight")
PARAM_MATRIX(o_weight, "self_attn.o_proj.weight")
PARAM_MATRIX(q_a_weight, "self_attn.q_a_proj.weight")
PARAM_MATRIX(q_b_weight, "self_attn.q_b_proj.weight")
PARAM_MATRIX(kv_a_weight, "self_attn.kv_a_proj_with_mqa.weight")
PARAM_MATRIX(delta_o_weight, "linear_attn.out_proj.weight")
PARAM_MATRIX(dense_gate_weight, "mlp.gate_proj.weight")
PARAM_MATRIX(dense_up_weight, "mlp.up_proj.weight")
PARAM_MATRIX(dense_down_weight, "mlp.down_proj.weight")
PARAM_MATRIX(shared_mix_weight, "mlp.shared_expert_gate.weight")
#undef PARAM_MATRIX

/* sl_param_role(b, size): a vector of the layer */
#define PARAM_VECTOR(ROLE, NAME)                                                                   \
    static inline sl_##ROLE##_value sl_param_##ROLE(sl_builder *b, int64_t size) {                 \
        return (sl_##ROLE##_value){sl_builder_vector(b, NAME, size)};                              \
    }
PARAM_VECTOR(attn_norm_gain, "input_layernorm.weight")
PARAM_VECTOR(moe_norm_gain, "post_attention_layernorm.weight")
PARAM_VECTOR(q_norm_gain, "self_attn.q_norm.weight")
PARAM_VECTOR(k_norm_gain, "self_attn.k_norm.weight")
PARAM_VECTOR(q_bias, "self_attn.q_proj.bias")
PARAM_VECTOR(k_bias, "self_attn.k_proj.bias")
PARAM_VECTOR(v_bias, "self_attn.v_proj.bias")
PARAM_VECTOR(o_bias, "self_attn.o_proj.bias")
PARAM_VECTOR(sinks, "self_attn.sinks")
PARAM_VECTOR(q_a_norm_gain, "self_attn.q_a_layernorm.weight")
PARAM_VECTOR(q_a_bias, "self_attn.q_a_proj.bias")
PARAM_VECTOR(latent_norm_gain, "self_attn.kv_a_layernorm.weight")
PARAM_VECTOR(kv_a_bias, "self_attn.kv_a_proj_with_mqa.bias")
PARAM_VECTOR(a_log, "linear_attn.A_log")
PARAM_VECTOR(dt_bias, "linear_attn.dt_bias")
PARAM_VECTOR(delta_norm_gain, "linear_attn.norm.weight")
PARAM_VECTOR(route_correction, "mlp.gate.e_score_correction_bias")
#undef PARAM_VECTOR

/* sl_param_role(b, rows, cols): vectors of the layer, one per row */
#define PARAM_VECTORS(ROLE, NAME)                                                                  \
    static inline sl_##ROLE##_value sl_param_##ROLE(sl_builder *b, int64_t rows, int64_t cols) {   \
        const sl_dims dims = {2, {rows, cols}};                                                    \
        return (sl_##ROLE##_value){sl_builder_tensor(b, NAME, SL_WEIGHT_VECTOR, dims, NULL)};      \
    }
PARAM_VECTORS(conv_weight, "linear_attn.conv1d.weight")
PARAM_VECTORS(expert_gate_bias, "mlp.experts.gate_proj_bias")
PARAM_VECTORS(expert_up_bias, "mlp.experts.up_proj_bias")
PARAM_VECTORS(expert_down_bias, "mlp.experts.down_proj_bias")
#undef PARAM_VECTORS

/* sl_param_role(b, dims, gather): a tensor of the layer that some checkpoints have only as rows of
 * another one */
#define PARAM_GATHERED(ROLE, NAME)                                                                 \
    static inline sl_##ROLE##_value sl_param_##ROLE(sl_builder *b, sl_dims dims,                   \
                                                    const sl_weight_gather *gather) {              \
        return (sl_##ROLE##_value){sl_builder_tensor(b, NAME, SL_WEIGHT_MATRIX, dims, gather)};    \
    }
PARAM_GATHERED(k_absorb_weight, "self_attn.embed_q.weight")
PARAM_GATHERED(v_rebuild_weight, "self_attn.unembed_out.weight")
PARAM_GATHERED(delta_qkv_weight, "linear_attn.in_proj_qkv.weight")
PARAM_GATHERED(delta_z_weight, "linear_attn.in_proj_z.weight")
PARAM_GATHERED(delta_a_weight, "linear_attn.in_proj_a.weight")
PARAM_GATHERED(delta_b_weight, "linear_attn.in_proj_b.weight")
#undef PARAM_GATHERED

/* sl_param_role(b, module, rows, cols): a tensor of a module whose name depends on the family */
#define PARAM_OF_MODULE(ROLE, NAME)                                                                \
    static inline sl_##ROLE##_value sl_param_##ROLE(sl_builder *b, const char *module,             \
                                                    int64_t rows, int64_t cols) {                  \
        char name[96];                                                                             \
        (void)snprintf(name, sizeof name, "%s." NAME, module);                                     \
        return (sl_##ROLE##_value){sl_builder_matrix(b, name, rows, cols)};                        \
    }
PARAM_OF_MODULE(router_weight, "weight")
PARAM_OF_MODULE(shared_gate_weight, "gate_proj.weight")
PARAM_OF_MODULE(shared_up_weight, "up_proj.weight")
PARAM_OF_MODULE(shared_down_weight, "down_proj.weight")
#undef PARAM_OF_MODULE
static inline sl_router_bias_value sl_param_router_bias(sl_builder *b, const char *module,
                                                        int64_t size) {
    char name[96];
    (void)snprintf(name, sizeof name, "%s.bias", module);
    return (sl_router_bias_value){sl_builder_vector(b, name, size)};
}

/* The layer's experts, streamed: [experts, rows, cols], of the type of their gate matrices. */
static inline sl_expert_base_value sl_param_experts(sl_builder *b) {
    const sl_model_config *c = b->config;
    const sl_dtype dtype = b->shape->experts->layer[b->layer].matrices[SL_GATE].type.dtype;
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%u.experts", b->layer);
    const sl_type type =
        sl_type_make(dtype, 3, (int64_t)c->experts, (int64_t)c->expert_width, (int64_t)c->hidden);
    return (sl_expert_base_value){sl_graph_declare(b->graph, SL_VALUE_EXPERTS, name, type)};
}

/* Weights of the whole model. */
static inline sl_embed_weight_value sl_param_embed_weight(sl_builder *b) {
    const sl_dims dims = {2, {b->config->vocab, b->config->hidden}};
    return (sl_embed_weight_value){
        sl_builder_weight(b, "embed_tokens.weight", SL_WEIGHT_MATRIX, dims, NULL)};
}
static inline sl_head_weight_value sl_param_head_weight(sl_builder *b) {
    const sl_dims dims = {2, {b->config->vocab, b->config->hidden}};
    const char *name = b->config->tied_embeddings ? "embed_tokens.weight" : "lm_head.weight";
    return (sl_head_weight_value){sl_builder_weight(b, name, SL_WEIGHT_MATRIX, dims, NULL)};
}
static inline sl_final_norm_gain_value sl_param_final_norm_gain(sl_builder *b) {
    const sl_dims dims = {1, {b->config->hidden}};
    return (sl_final_norm_gain_value){
        sl_builder_weight(b, "norm.weight", SL_WEIGHT_VECTOR, dims, NULL)};
}

/* sl_state_role(b, type): a state of the layer */
#define STATE(ROLE, KIND, NAME)                                                                    \
    static inline sl_##ROLE##_value sl_state_##ROLE(sl_builder *b, sl_type type) {                 \
        return (sl_##ROLE##_value){sl_builder_state(b, KIND, NAME, type)};                         \
    }
STATE(kv_k, SL_STATE_KV, "kv_k")
STATE(kv_v, SL_STATE_KV, "kv_v")
STATE(conv_state, SL_STATE_RECURRENT, "conv")
STATE(delta_state, SL_STATE_RECURRENT, "delta")
#undef STATE
/* The token that each sequence sampled last. */
static inline sl_chosen_value sl_state_chosen(sl_builder *b) {
    const sl_type type = sl_type_make(SL_DTYPE_i32, 1, (int64_t)b->shape->slots);
    return (sl_chosen_value){sl_graph_declare(b->graph, SL_VALUE_STATE, SL_FORWARD_CHOSEN, type)};
}

/* sl_input_role(b, type) */
#define INPUT(ROLE, SYMBOL)                                                                        \
    static inline sl_##ROLE##_value sl_input_##ROLE(sl_builder *b, sl_type type) {                 \
        return (sl_##ROLE##_value){sl_builder_input(b, SL_FORWARD_INPUT_##SYMBOL, type)};          \
    }
INPUT(tokens, TOKENS)
INPUT(slots, SLOTS)
INPUT(positions, POSITIONS)
INPUT(pages, PAGES)
INPUT(wanted_rows, WANTED)
INPUT(choice, SAMPLING)
#undef INPUT

/* sl_output_role(b, value), in the order of sl_forward_output */
#define OUTPUT(ROLE, SYMBOL)                                                                       \
    static inline void sl_output_##ROLE(sl_builder *b, sl_##ROLE##_value x) {                      \
        sl_builder_output(b, SL_FORWARD_##SYMBOL, x.value);                                        \
    }
OUTPUT(logits, LOGITS)
OUTPUT(final_hidden, HIDDEN)
OUTPUT(tokens, TOKEN)
#undef OUTPUT

/* sl_reveal_name(b, value): the same for the values of a layer, in any order */
#define REVEAL(NAME, ROLE, SYMBOL)                                                                 \
    static inline void sl_reveal_##NAME(sl_builder *b, sl_##ROLE##_value x) {                      \
        sl_builder_reveal(b, SL_LAYER_##SYMBOL, x.value);                                          \
    }
REVEAL(input, hidden, INPUT)
REVEAL(mixed, residual, MIXED)
REVEAL(output, hidden, OUTPUT)
REVEAL(experts, route_idx, EXPERTS)
REVEAL(expert_weights, route_weights, EXPERT_WEIGHTS)
REVEAL(delta_qkv, delta_qkv, DELTA_QKV)
REVEAL(delta_a, delta_a, DELTA_A)
REVEAL(delta_b, delta_b, DELTA_B)
#undef REVEAL

/* sl_kept_role(b, columns): what another step kept */
#define KEPT(ROLE, SYMBOL)                                                                         \
    static inline sl_##ROLE##_value sl_kept_##ROLE(sl_builder *b, int64_t columns) {               \
        const sl_type type = sl_type_make(SL_DTYPE_f32, 2, (int64_t)b->shape->rows, columns);      \
        return (sl_##ROLE##_value){sl_builder_kept_input(b, SL_LAYER_##SYMBOL, type)};             \
    }
KEPT(delta_qkv, DELTA_QKV)
KEPT(delta_a, DELTA_A)
KEPT(delta_b, DELTA_B)
#undef KEPT
#endif
