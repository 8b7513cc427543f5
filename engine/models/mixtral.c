/* mixtral.c - Mixtral: plain attention, routed experts. */
#include "engine/models/blocks.h"

static const sl_attention_options attention = {.norm = SL_QK_RAW};
static const sl_experts_options routed = {.router = "block_sparse_moe.gate"};

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = sl_block_attention(b, x, &attention);
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}

const sl_architecture sl_architecture_mixtral = {
    .config = {.model_type = "mixtral",
               .keys = SL_KEYS_HEADS | SL_KEYS_EXPERTS | SL_KEYS_WIDE | SL_KEYS_WINDOW,
               .pattern = SL_LAYERS_WINDOW,
               .defaults = {.context = 131072,
                            .kv_heads = 8,
                            .rope.theta = 1000000,
                            .norm_eps = 1e-5f,
                            .experts = 8,
                            .experts_used = 2,
                            .normalise_routes = true}},
    .layer = layer,
};
