/* qwen3.c - Qwen3 without experts: attention with q and k norms, dense feed-forward. */
#include "engine/models/blocks.h"

static const sl_attention_options attention = {.norm = SL_QK_NORM_HEADS};

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = sl_block_attention(b, x, &attention);
    const sl_residual_value residual = sl_wire_attn_residual(b->graph, hidden, mixed);
    const sl_dense_out_value out = sl_block_dense(b, sl_block_ffn_norm(b, residual));
    return sl_wire_ffn_residual(b->graph, residual, sl_as_ffn_update(out));
}

const sl_architecture sl_architecture_qwen3 = {
    .config =
        {.model_type = "qwen3",
         .keys = SL_KEYS_HEADS | SL_KEYS_DENSE | SL_KEYS_LAYER_TYPES | SL_KEYS_WINDOW |
                 SL_KEYS_USE_WINDOW | SL_KEYS_BIAS,
         .pattern = SL_LAYERS_LATE_WINDOW,
         .window = 4096,
         .defaults = {.context = 32768, .head_dim = 128, .rope.theta = 10000, .norm_eps = 1e-6f}},
    .layer = layer,
};
