/* qwen3_5_moe.c - Qwen3.5/3.6-MoE: gated attention every few layers, gated delta nets between them,
 * every layer followed by routed experts and one shared expert. */
#include "engine/models/blocks.h"

const sl_architecture sl_architecture_qwen3_5_moe = {
    .config = {.model_type = "qwen3_5_moe",
               .also = {"qwen3_5_moe_text"},
               .keys = SL_KEYS_HEADS | SL_KEYS_DELTA | SL_KEYS_EXPERTS | SL_KEYS_NARROW |
                       SL_KEYS_SHARED | SL_KEYS_LAYER_TYPES | SL_KEYS_PARTIAL | SL_KEYS_BIAS,
               .pattern = SL_LAYERS_INTERVAL,
               .partial_rotary = 0.25f,
               .defaults = {.context = 32768,
                            .kv_heads = 2,
                            .head_dim = 256,
                            .rope.theta = 10000,
                            .norm_eps = 1e-6f,
                            .norm_offset = 1,
                            .delta_key_heads = 16,
                            .delta_value_heads = 32,
                            .delta_key_dim = 128,
                            .delta_value_dim = 128,
                            .conv_width = 4,
                            .shared_width = 512,
                            .normalise_routes = true}},
    .layer = sl_block_hybrid_layer,
};
