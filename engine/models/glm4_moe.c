/* glm4_moe.c - GLM-4.5/4.6: RoPE on half of each head, first layers without experts,
 * then experts in groups and shared ones. */
#include "engine/models/blocks.h"

static const sl_experts_options routed = {.grouped = true, .shared = SL_SHARED_ADDED};

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attention_options options = {.norm = b->config->qk_norm ? SL_QK_NORM_HEADS : SL_QK_RAW,
                                          .plain_out = true};
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = sl_block_attention(b, x, &options);
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}

const sl_architecture sl_architecture_glm4_moe = {
    .config = {.model_type = "glm4_moe",
               .keys = SL_KEYS_HEADS | SL_KEYS_EXPERTS | SL_KEYS_NARROW | SL_KEYS_GROUPS |
                       SL_KEYS_DENSE | SL_KEYS_NORM_TOPK | SL_KEYS_PARTIAL | SL_KEYS_QK_NORM |
                       SL_KEYS_BIAS,
               .pattern = SL_LAYERS_FULL,
               .partial_rotary = 0.5f,
               .dense_first = 1,
               .defaults = {.context = 131072,
                            .kv_heads = 8,
                            .rope.theta = 10000,
                            .norm_eps = 1e-5f,
                            .dense_width = 10944,
                            .further_layers = 1,
                            .expert_groups = 1,
                            .expert_groups_kept = 1,
                            .routed_scale = 1,
                            .normalise_routes = true}},
    .layer = layer,
};
