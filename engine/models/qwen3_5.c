/* qwen3_5.c - Qwen3.5/3.6 without experts: gated attention every few layers, gated delta nets
 * between them, every layer followed by one dense network. */
#include "engine/models/blocks.h"

static const sl_attention_how gated = {.norm = SL_QK_NORM_HEADS, .gated = true};

static sl_residual_value layer(sl_builder *b, sl_residual_value residual) {
    const sl_attn_input_value x = sl_block_attn_norm(b, residual);
    const sl_mixer_out_value mixed = b->config->layer[b->layer].linear
                                         ? sl_block_delta_net(b, x)
                                         : sl_block_attention(b, x, &gated);
    residual = sl_block_add(b, residual, sl_as_residual_update(mixed));
    const sl_dense_out_value out = sl_block_dense(b, sl_block_ffn_norm(b, residual));
    return sl_block_add(b, residual, sl_as_residual_update(out));
}

const sl_architecture sl_architecture_qwen3_5 = {
    .name = "qwen3_5",
    .also = {"qwen3_5_text"},
    .config = {.keys = SL_KEYS_HEADS | SL_KEYS_DELTA | SL_KEYS_DENSE | SL_KEYS_LAYER_TYPES |
                       SL_KEYS_PARTIAL | SL_KEYS_BIAS,
               .pattern = SL_LAYERS_INTERVAL,
               .partial_rotary = 0.25f,
               .defaults = {.context = 32768,
                            .kv_heads = 4,
                            .head_dim = 256,
                            .rope.theta = 10000,
                            .norm_eps = 1e-6f,
                            .norm_offset = 1,
                            .delta_key_heads = 16,
                            .delta_value_heads = 32,
                            .delta_key_dim = 128,
                            .delta_value_dim = 128,
                            .conv_width = 4}},
    .layer = layer,
};
