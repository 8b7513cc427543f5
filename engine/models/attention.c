/* attention.c - Grouped-query attention. */
#include "engine/models/blocks.h"

typedef struct {
    sl_q_value q;
    sl_q_gate_value gate;
} gated_query;

static gated_query make_query(sl_builder *b, sl_attn_input_value x,
                              const sl_attention_options *options) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->query_heads, dim = c->head_dim, width = heads * dim;
    const int64_t rows = options->gated ? 2 * width : width;
    const sl_q_weight_value w = sl_param_q_weight(b, rows, c->hidden);
    sl_q_proj_out_value out = sl_wire_q_proj(g, x, w);
    if (c->attention_bias) out = sl_wire_q_bias(g, out, sl_param_q_bias(b, rows));
    if (options->norm == SL_QK_NORM_WHOLE)
        out = sl_wire_q_norm_whole(g, out, sl_param_q_norm_gain(b, width), sl_builder_norm(b));
    if (c->clip_qkv > 0) out = sl_wire_q_clip(g, out, sl_wire_clip_limits(g, c->clip_qkv));
    const sl_split_query split = options->gated ? sl_wire_split_query(g, out, heads, dim)
                                                : sl_wire_whole_query(g, out, heads, dim);
    sl_q_raw_value raw = split.q;
    if (options->norm == SL_QK_NORM_HEADS)
        raw = sl_wire_q_norm(g, raw, sl_param_q_norm_gain(b, dim), sl_builder_norm(b));
    return (gated_query){sl_wire_q_rope(g, raw, b->rope, sl_builder_rope(b)), split.gate};
}

static sl_k_value make_key(sl_builder *b, sl_attn_input_value x,
                           const sl_attention_options *options) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->kv_heads, dim = c->head_dim, width = heads * dim;
    const sl_k_weight_value w = sl_param_k_weight(b, width, c->hidden);
    sl_k_proj_out_value k = sl_wire_k_proj(g, x, w);
    if (c->attention_bias) k = sl_wire_k_bias(g, k, sl_param_k_bias(b, width));
    if (options->norm == SL_QK_NORM_WHOLE)
        k = sl_wire_k_norm(g, k, sl_param_k_norm_gain(b, width), sl_builder_norm(b));
    if (c->clip_qkv > 0) k = sl_wire_k_clip(g, k, sl_wire_clip_limits(g, c->clip_qkv));
    k = sl_wire_k_heads(g, k, heads, dim);
    if (options->norm == SL_QK_NORM_HEADS)
        k = sl_wire_k_norm(g, k, sl_param_k_norm_gain(b, dim), sl_builder_norm(b));
    return sl_wire_k_rope(g, k, b->rope, sl_builder_rope(b));
}

static sl_v_value make_value(sl_builder *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->kv_heads, dim = c->head_dim, width = heads * dim;
    const sl_v_weight_value w = sl_param_v_weight(b, width, c->hidden);
    sl_v_value v = sl_wire_v_proj(g, x, w);
    if (c->attention_bias) v = sl_wire_v_bias(g, v, sl_param_v_bias(b, width));
    if (c->clip_qkv > 0) v = sl_wire_v_clip(g, v, sl_wire_clip_limits(g, c->clip_qkv));
    return sl_wire_v_heads(g, v, heads, dim);
}

static sl_attn_out_value attend_with_sinks(sl_builder *b, sl_q_value q, sl_kv kv) {
    const sl_sinks_value sinks = sl_param_sinks(b, b->config->query_heads);
    return sl_wire_sdpa_sinks(b->graph, q, kv, b->rows, sinks, sl_builder_sdpa(b));
}

sl_mixer_out_value sl_block_attention(sl_builder *b, sl_attn_input_value x,
                                      const sl_attention_options *options) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t width = (int64_t)c->query_heads * c->head_dim;
    const gated_query query = make_query(b, x, options);
    const sl_k_value k = make_key(b, x, options);
    const sl_v_value v = make_value(b, x);
    const sl_kv_shape cache = {.dtype = b->shape->kv_dtype,
                               .slots = sl_forward_pages(b->shape),
                               .heads = c->kv_heads,
                               .capacity = SL_KV_PAGE,
                               .dim = c->head_dim};
    sl_kv kv = {.k = sl_state_kv_k(b, sl_kv_keys(cache))};
    kv.v = sl_state_kv_v(b, sl_kv_values(cache));
    kv = sl_wire_kv_append(g, kv, k, v, b->rows);
    const sl_attn_out_value out = options->sinks
                                      ? attend_with_sinks(b, query.q, kv)
                                      : sl_wire_sdpa(g, query.q, kv, b->rows, sl_builder_sdpa(b));
    const sl_attn_gated_value gated = options->gated ? sl_wire_attn_gate(g, out, query.gate, width)
                                                     : sl_wire_attn_flat(g, out, width);
    const sl_o_weight_value w = sl_param_o_weight(b, c->hidden, width);
    const sl_mixer_out_value mixed = sl_wire_o_proj(g, gated, w);
    if (!c->attention_bias || options->plain_out) return mixed;
    return sl_wire_o_bias(g, mixed, sl_param_o_bias(b, c->hidden));
}
