/* hybrid.c - The layer of Qwen3-Next and Qwen3.5: gated attention every few layers, gated delta
 * nets between them. */
#include "engine/models/blocks.h"

static const sl_attention_options gated = {.norm = SL_QK_NORM_HEADS, .gated = true};
static const sl_experts_options routed = {.shared = SL_SHARED_GATED};

sl_hidden_value sl_block_hybrid_layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_attn_input_value x = sl_block_attn_norm(b, hidden);
    const sl_mixer_out_value mixed = b->config->layer[b->layer].linear
                                         ? sl_block_delta_net(b, x)
                                         : sl_block_attention(b, x, &gated);
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}
