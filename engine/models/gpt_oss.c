/* gpt_oss.c - gpt-oss: attention with sinks, every other layer within a window; biases everywhere;
 * experts whose activations are clamped. */
#include "engine/models/blocks.h"

static const sl_attention_options attention = {.norm = SL_QK_RAW, .sinks = true};
static const sl_experts_options routed = {.router = "mlp.router", .biased = true};

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = sl_block_attention(b, x, &attention);
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}

const sl_architecture sl_architecture_gpt_oss = {
    .config = {.model_type = "gpt_oss",
               .keys = SL_KEYS_HEADS | SL_KEYS_EXPERTS | SL_KEYS_WIDE | SL_KEYS_LAYER_TYPES |
                       SL_KEYS_WINDOW | SL_KEYS_BIAS | SL_KEYS_SWIGLU,
               .pattern = SL_LAYERS_ALTERNATE,
               .window = 128,
               .rope_scaling = "{\"rope_type\": \"yarn\", \"factor\": 32, \"beta_fast\": 32,"
                               " \"beta_slow\": 1, \"truncate\": false,"
                               " \"original_max_position_embeddings\": 4096}",
               .defaults = {.context = 131072,
                            .kv_heads = 8,
                            .experts_used = 4,
                            .head_dim = 64,
                            .rope.theta = 150000,
                            .norm_eps = 1e-5f,
                            .attention_bias = true,
                            .swiglu_limit = 7,
                            .swiglu_alpha = 1.702f,
                            .normalise_routes = true}},
    .layer = layer,
};
