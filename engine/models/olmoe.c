/* olmoe.c - OLMoE: q and k norms over the whole width, routed experts. */
#include "engine/models/blocks.h"

static const sl_attention_options attention = {.norm = SL_QK_NORM_WHOLE};
static const sl_experts_options routed = {0};

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = sl_block_attention(b, x, &attention);
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}

const sl_architecture sl_architecture_olmoe = {
    .config = {.model_type = "olmoe",
               .keys = SL_KEYS_HEADS | SL_KEYS_EXPERTS | SL_KEYS_WIDE | SL_KEYS_NORM_TOPK |
                       SL_KEYS_BIAS | SL_KEYS_CLIP,
               .pattern = SL_LAYERS_FULL,
               .defaults = {.context = 4096,
                            .rope.theta = 10000,
                            .norm_eps = 1e-5f,
                            .experts = 64,
                            .experts_used = 8}},
    .layer = layer,
};
