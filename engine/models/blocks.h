/* blocks.h - The building blocks of model families.  Roles are C types; differences between
 * families that are not in the config are in `options`. */
#ifndef SL_ENGINE_MODELS_BLOCKS_H
#define SL_ENGINE_MODELS_BLOCKS_H
#include "engine/models/params.h"

/* stem.c: inputs, embedding and RoPE table; at the end the final norm and the head. */
sl_hidden_value sl_block_stem(sl_builder *b);
/* The inputs that say where the rows belong: of every step. */
void sl_block_rows(sl_builder *b);
void sl_block_head(sl_builder *b, sl_hidden_value hidden);
/* The norms at the start of the two halves of a layer. */
sl_attn_input_value sl_block_attn_norm(sl_builder *b, sl_hidden_value hidden);
sl_moe_input_value sl_block_ffn_norm(sl_builder *b, sl_residual_value residual);

/* attention.c: grouped-query attention over the KV cache.  Heads, rope, window, biases and
 * clipping are in the config. */
typedef enum {
    SL_QK_RAW,
    SL_QK_NORM_HEADS, /* q and k norms, per head */
    SL_QK_NORM_WHOLE, /* q and k norms over the whole width */
} sl_qk_norm;
typedef struct {
    sl_qk_norm norm;
    bool gated;     /* q_proj has a gate after the query of each head */
    bool plain_out; /* o_proj has no bias even if the others have one */
    bool sinks;
} sl_attention_options;
sl_mixer_out_value sl_block_attention(sl_builder *b, sl_attn_input_value x,
                                      const sl_attention_options *options);

/* delta_net.c */
sl_mixer_out_value sl_block_delta_net(sl_builder *b, sl_attn_input_value x);
/* Only its states, from what a step that keeps has computed. */
void sl_block_delta_replay(sl_builder *b);

/* feed_forward.c: one network, or routed experts. */
sl_dense_out_value sl_block_dense(sl_builder *b, sl_moe_input_value x);
typedef enum {
    SL_SHARED_NONE,
    SL_SHARED_GATED, /* shared_expert, weighted by the sigmoid of shared_expert_gate */
    SL_SHARED_ADDED, /* shared_experts */
} sl_shared_kind;
typedef struct {
    const char *router; /* its name; NULL: mlp.gate */
    sl_shared_kind shared;
    bool grouped; /* sigmoid scores with a correction bias, expert groups */
    bool biased;  /* router and experts have biases, experts are clamped */
} sl_experts_options;
sl_moe_out_value sl_block_experts(sl_builder *b, sl_moe_input_value x,
                                  const sl_experts_options *options);
/* The whole second half of a layer, with experts where the config has them. */
sl_hidden_value sl_block_second_half(sl_builder *b, sl_residual_value residual,
                                     const sl_experts_options *options);

/* hybrid.c: a layer of gated attention or a gated delta net, and its second half. */
sl_hidden_value sl_block_hybrid_layer(sl_builder *b, sl_hidden_value hidden);
#endif
