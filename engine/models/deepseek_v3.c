/* deepseek_v3.c - DeepSeek-V3: keys and values are rebuilt from one short latent vector per
 * position, first layers without experts, then experts in groups and shared ones.
 *
 * Only the latent vector and one rotated key are cached.  In absorbed form, the matrix that would
 * expand keys is applied to the queries, and the one that would expand values to the weighted sum
 * of latent vectors, so that all heads attend to the same cached row. */
#include "engine/models/blocks.h"

static const sl_experts_options routed = {.grouped = true, .shared = SL_SHARED_ADDED};
/* Of the norms within attention, whatever the others have. */
static const sl_rms_norm_attrs latent_norm = {.eps = 1e-6f};

/* Queries of all heads, [nope_dim | rope_dim] each, perhaps by way of a vector of query_rank. */
static sl_q_raw_value queries(sl_builder *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->query_heads, dim = c->nope_dim + c->rope_dim, rank = c->query_rank;
    if (rank == 0) {
        const sl_q_weight_value w = sl_param_q_weight(b, heads * dim, c->hidden);
        return sl_wire_whole_query(g, sl_wire_q_proj(g, x, w), heads, dim).q;
    }
    const sl_q_a_weight_value down = sl_param_q_a_weight(b, rank, c->hidden);
    const sl_q_a_norm_gain_value gain = sl_param_q_a_norm_gain(b, rank);
    const sl_q_b_weight_value up = sl_param_q_b_weight(b, heads * dim, rank);
    sl_q_a_out_value low = sl_wire_q_a(g, x, down);
    if (c->attention_bias) low = sl_wire_q_a_bias(g, low, sl_param_q_a_bias(b, rank));
    const sl_q_proj_out_value out = sl_wire_q_b(g, sl_wire_q_a_norm(g, low, gain, latent_norm), up);
    return sl_wire_whole_query(g, out, heads, dim).q;
}

/* The part of each query that no position turns, as if it met latent vectors; then the other. */
static sl_q_value absorbed_queries(sl_builder *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->query_heads;
    const sl_weight_gather keys = {.from = "self_attn.kv_b_proj.weight",
                                   .groups = c->query_heads,
                                   .stride = c->nope_dim + c->value_dim,
                                   .part_count = 1,
                                   .parts = {{0, c->nope_dim}},
                                   .transposed = true};
    const sl_k_absorb_weight_value absorb =
        sl_param_k_absorb_weight(b, (sl_dims){3, {heads, c->latent_rank, c->nope_dim}}, &keys);
    const sl_latent_query q =
        sl_wire_split_latent_query(g, queries(b, x), c->nope_dim, c->rope_dim);
    const sl_q_latent_value latent = sl_wire_absorb(g, q.still, absorb);
    const sl_q_value rotated = sl_wire_q_rope(g, q.moving, b->rope, sl_builder_rope(b));
    return sl_wire_join_latent_query(g, latent, rotated);
}

typedef struct {
    sl_k_value k;
    sl_v_value v;
} cached_row;

static cached_row latent_row(sl_builder *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const uint32_t rank = c->latent_rank, width = rank + c->rope_dim;
    const sl_kv_a_weight_value w = sl_param_kv_a_weight(b, width, c->hidden);
    const sl_latent_norm_gain_value gain = sl_param_latent_norm_gain(b, rank);
    sl_kv_a_out_value both = sl_wire_kv_a(g, x, w);
    if (c->attention_bias) both = sl_wire_kv_a_bias(g, both, sl_param_kv_a_bias(b, width));
    const sl_split_kv_a split = sl_wire_split_kv_a(g, both, rank, c->rope_dim);
    const sl_latent_value latent = sl_wire_latent_norm(g, split.latent, gain, latent_norm);
    const sl_v_value v = sl_wire_latent_value(g, latent, rank);
    const sl_k_value key = sl_wire_k_rope(g, split.key, b->rope, sl_builder_rope(b));
    return (cached_row){sl_wire_latent_key(g, v, key), v};
}

static sl_mixer_out_value attention(sl_builder *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->query_heads, width = heads * c->value_dim;
    const sl_weight_gather values = {.from = "self_attn.kv_b_proj.weight",
                                     .groups = c->query_heads,
                                     .stride = c->nope_dim + c->value_dim,
                                     .part_count = 1,
                                     .parts = {{c->nope_dim, c->value_dim}}};
    const sl_v_rebuild_weight_value rebuild =
        sl_param_v_rebuild_weight(b, (sl_dims){3, {heads, c->value_dim, c->latent_rank}}, &values);
    const sl_o_weight_value w_o = sl_param_o_weight(b, c->hidden, width);
    const sl_q_value q = absorbed_queries(b, x);
    const cached_row row = latent_row(b, x);
    sl_kv_shape cache = {.dtype = b->shape->kv_dtype,
                         .slots = sl_forward_pages(b->shape),
                         .heads = 1,
                         .capacity = SL_KV_PAGE,
                         .dim = c->latent_rank + c->rope_dim};
    sl_kv kv = {.k = sl_state_kv_k(b, sl_kv_keys(cache))};
    cache.dim = c->latent_rank;
    kv.v = sl_state_kv_v(b, sl_kv_values(cache));
    kv = sl_wire_kv_append(g, kv, row.k, row.v, b->rows);
    const sl_attn_latent_value mixed =
        sl_wire_latent_out(sl_wire_sdpa(g, q, kv, b->rows, sl_builder_sdpa(b)));
    const sl_attn_gated_value out = sl_wire_attn_flat(g, sl_wire_rebuild(g, mixed, rebuild), width);
    const sl_mixer_out_value result = sl_wire_o_proj(g, out, w_o);
    if (!c->attention_bias) return result;
    return sl_wire_o_bias(g, result, sl_param_o_bias(b, c->hidden));
}

static sl_hidden_value layer(sl_builder *b, sl_hidden_value hidden) {
    const sl_mixer_out_value mixed = attention(b, sl_block_attn_norm(b, hidden));
    return sl_block_second_half(b, sl_wire_attn_residual(b->graph, hidden, mixed), &routed);
}

const sl_architecture sl_architecture_deepseek_v3 = {
    .config = {.model_type = "deepseek_v3",
               .keys = SL_KEYS_LATENT | SL_KEYS_EXPERTS | SL_KEYS_NARROW | SL_KEYS_GROUPS |
                       SL_KEYS_DENSE | SL_KEYS_NORM_TOPK | SL_KEYS_BIAS,
               .pattern = SL_LAYERS_FULL,
               .dense_first = 3,
               .defaults = {.context = 4096,
                            .rope = {.theta = 10000, .interleaved = true},
                            .norm_eps = 1e-6f,
                            .latent_rank = 512,
                            .nope_dim = 128,
                            .rope_dim = 64,
                            .value_dim = 128,
                            .dense_width = 18432,
                            .further_layers = 1,
                            .expert_groups = 8,
                            .expert_groups_kept = 4,
                            .routed_scale = 2.5f,
                            .normalise_routes = true}},
    .layer = layer,
};
