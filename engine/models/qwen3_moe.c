/* qwen3_moe.c - Qwen3-MoE: attention with q and k norms, routed experts. */
#include "engine/models/blocks.h"

static const sl_attention_options attention = {.norm = SL_QK_NORM_HEADS};
static const sl_experts_options routed = {0};

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = sl_block_attention(b, x, &attention);
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}

const sl_architecture sl_architecture_qwen3_moe = {
    .config = {.model_type = "qwen3_moe",
               .keys = SL_KEYS_HEADS | SL_KEYS_EXPERTS | SL_KEYS_NARROW | SL_KEYS_DENSE |
                       SL_KEYS_SPARSE_STEP | SL_KEYS_NORM_TOPK | SL_KEYS_WINDOW |
                       SL_KEYS_USE_WINDOW | SL_KEYS_BIAS,
               .pattern = SL_LAYERS_WINDOW,
               .window = 4096,
               .defaults = {.context = 32768,
                            .kv_heads = 4,
                            .rope.theta = 10000,
                            .norm_eps = 1e-6f,
                            .dense_width = 6144}},
    .layer = layer,
};
