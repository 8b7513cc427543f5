/* wire.h - The connections of a language model, one typed function each.
 *
 * Roles are C types: each function accepts exactly the values that belong there, so that a wrongly
 * connected model does not compile.  It labels what it adds to the graph with its own name, unless
 * the op already has that name. */
#ifndef SL_ENGINE_MODELS_WIRE_H
#define SL_ENGINE_MODELS_WIRE_H
#include "compiler/build.h"
#include "core/kv.h"
#include "engine/models/roles.h"

typedef struct {
    sl_slots_value slots;
    sl_positions_value positions;
    sl_pages_value pages;
} sl_rows; /* sequence and position of each row, and the pages of the sequence in the KV cache */

/* sl_wire_name(graph, x, weight): out = x weight^T, labelled with the name */
#define WIRE_LINEAR(NAME, IN_ROLE, WEIGHT_ROLE, OUT_ROLE)                                          \
    static inline sl_##OUT_ROLE##_value sl_wire_##NAME(sl_graph *g, sl_##IN_ROLE##_value x,        \
                                                       sl_##WEIGHT_ROLE##_value w) {               \
        sl_graph_label(g, #NAME);                                                                  \
        return (sl_##OUT_ROLE##_value){                                                            \
            sl_build_linear(g, (sl_linear_in){x.value, w.value}, (sl_linear_attrs){0}).out};       \
    }
WIRE_LINEAR(q_proj, attn_input, q_weight, q_proj_out)
WIRE_LINEAR(k_proj, attn_input, k_weight, k_proj_out)
WIRE_LINEAR(v_proj, attn_input, v_weight, v)
WIRE_LINEAR(o_proj, attn_gated, o_weight, mixer_out)
WIRE_LINEAR(q_a, attn_input, q_a_weight, q_a_out)
WIRE_LINEAR(q_b, q_a_normed, q_b_weight, q_proj_out)
WIRE_LINEAR(kv_a, attn_input, kv_a_weight, kv_a_out)
WIRE_LINEAR(delta_qkv, attn_input, delta_qkv_weight, delta_qkv)
WIRE_LINEAR(delta_z, attn_input, delta_z_weight, delta_z)
WIRE_LINEAR(delta_a, attn_input, delta_a_weight, delta_a)
WIRE_LINEAR(delta_b, attn_input, delta_b_weight, delta_b)
WIRE_LINEAR(delta_o, delta_normed, delta_o_weight, mixer_out)
WIRE_LINEAR(router, moe_input, router_weight, router_logits)
WIRE_LINEAR(shared_gate, moe_input, shared_gate_weight, shared_gate_out)
WIRE_LINEAR(shared_up, moe_input, shared_up_weight, shared_up_out)
WIRE_LINEAR(shared_down, shared_mid, shared_down_weight, shared_out)
WIRE_LINEAR(shared_mix, moe_input, shared_mix_weight, shared_mix)
WIRE_LINEAR(dense_gate, moe_input, dense_gate_weight, dense_gate_out)
WIRE_LINEAR(dense_up, moe_input, dense_up_weight, dense_up_out)
WIRE_LINEAR(dense_down, dense_mid, dense_down_weight, dense_out)
WIRE_LINEAR(lm_head, final_hidden, head_weight, logits)
#undef WIRE_LINEAR

/* sl_wire_name(graph, x, bias): x + bias, in the same role */
#define WIRE_BIAS(NAME, ROLE, BIAS_ROLE)                                                           \
    static inline sl_##ROLE##_value sl_wire_##NAME(sl_graph *g, sl_##ROLE##_value x,               \
                                                   sl_##BIAS_ROLE##_value bias) {                  \
        sl_graph_label(g, #NAME);                                                                  \
        return (sl_##ROLE##_value){                                                                \
            sl_build_add(g, (sl_add_in){x.value, bias.value}, (sl_add_attrs){0}).out};             \
    }
WIRE_BIAS(q_bias, q_proj_out, q_bias)
WIRE_BIAS(k_bias, k_proj_out, k_bias)
WIRE_BIAS(v_bias, v, v_bias)
WIRE_BIAS(o_bias, mixer_out, o_bias)
WIRE_BIAS(q_a_bias, q_a_out, q_a_bias)
WIRE_BIAS(kv_a_bias, kv_a_out, kv_a_bias)
WIRE_BIAS(router_bias, router_logits, router_bias)
#undef WIRE_BIAS

/* sl_wire_name(graph, x, gain, attrs): attrs.offset is 1 if gains are stored minus 1 */
#define WIRE_NORM(NAME, IN_ROLE, GAIN_ROLE, OUT_ROLE)                                              \
    static inline sl_##OUT_ROLE##_value sl_wire_##NAME(sl_graph *g, sl_##IN_ROLE##_value x,        \
                                                       sl_##GAIN_ROLE##_value gain,                \
                                                       sl_rms_norm_attrs attrs) {                  \
        sl_graph_label(g, #NAME);                                                                  \
        return (sl_##OUT_ROLE##_value){                                                            \
            sl_build_rms_norm(g, (sl_rms_norm_in){x.value, gain.value}, attrs).out};               \
    }
WIRE_NORM(attn_norm, hidden, attn_norm_gain, attn_input)
WIRE_NORM(moe_norm, residual, moe_norm_gain, moe_input)
WIRE_NORM(final_norm, hidden, final_norm_gain, final_hidden)
WIRE_NORM(q_norm, q_raw, q_norm_gain, q_raw)
WIRE_NORM(q_norm_whole, q_proj_out, q_norm_gain, q_proj_out)
WIRE_NORM(k_norm, k_proj_out, k_norm_gain, k_proj_out)
WIRE_NORM(q_a_norm, q_a_out, q_a_norm_gain, q_a_normed)
WIRE_NORM(latent_norm, latent_raw, latent_norm_gain, latent)
#undef WIRE_NORM

static inline sl_embed_out_value sl_wire_embed(sl_graph *g, sl_embed_weight_value table,
                                               sl_tokens_value tokens) {
    return (sl_embed_out_value){
        sl_build_embed(g, (sl_embed_in){table.value, tokens.value}, (sl_embed_attrs){0}).out};
}
/* The input of the first layer. */
static inline sl_hidden_value sl_wire_first(sl_embed_out_value embedded) {
    return (sl_hidden_value){embedded.value};
}

/* Rows whose token is -1 continue with the last sampled token. */
static inline sl_tokens_value sl_wire_resume(sl_graph *g, sl_tokens_value tokens,
                                             sl_slots_value slots, sl_chosen_value chosen) {
    return (sl_tokens_value){
        sl_build_resume(g, (sl_resume_in){tokens.value, slots.value, chosen.value},
                        (sl_resume_attrs){0})
            .out};
}

static inline sl_tokens_value sl_wire_choose(sl_graph *g, sl_logits_value logits,
                                             sl_choice_value sampling, sl_slots_value slots,
                                             sl_chosen_value chosen) {
    return (sl_tokens_value){
        sl_build_choose(g, (sl_choose_in){logits.value, sampling.value, slots.value, chosen.value},
                        (sl_choose_attrs){0})
            .out};
}

/* The two additions of a layer. */
static inline sl_residual_value sl_wire_attn_residual(sl_graph *g, sl_hidden_value hidden,
                                                      sl_mixer_out_value update) {
    sl_graph_label(g, "attn_residual");
    return (sl_residual_value){
        sl_build_add(g, (sl_add_in){hidden.value, update.value}, (sl_add_attrs){0}).out};
}
/* update is anything that sl_as_ffn_update accepts. */
static inline sl_hidden_value sl_wire_ffn_residual(sl_graph *g, sl_residual_value residual,
                                                   sl_ffn_update update) {
    sl_graph_label(g, "ffn_residual");
    return (sl_hidden_value){
        sl_build_add(g, (sl_add_in){residual.value, update.value}, (sl_add_attrs){0}).out};
}

static inline sl_hidden_value sl_wire_wanted(sl_graph *g, sl_hidden_value hidden,
                                             sl_wanted_rows_value rows) {
    sl_graph_label(g, "wanted_rows");
    return (sl_hidden_value){
        sl_build_gather(g, (sl_gather_in){hidden.value, rows.value}, (sl_gather_attrs){.axis = 0})
            .out};
}

/* [T, heads * dim] as [T, heads, dim]. */
static inline sl_value sl_wire_view_heads(sl_graph *g, sl_value x, int64_t heads, int64_t dim) {
    return sl_build_reshape(g, (sl_reshape_in){x},
                            (sl_reshape_attrs){.shape = {3, {-1, heads, dim}}})
        .out;
}

/* Merges [T, heads, D] back to [T, heads * D]. */
static inline sl_value sl_wire_flat(sl_graph *g, sl_value x, int64_t width) {
    return sl_build_reshape(g, (sl_reshape_in){x}, (sl_reshape_attrs){.shape = {2, {-1, width}}})
        .out;
}

#define WIRE_VIEW(NAME, ROLE)                                                                      \
    static inline sl_##ROLE##_value sl_wire_##NAME(sl_graph *g, sl_##ROLE##_value x,               \
                                                   int64_t heads, int64_t dim) {                   \
        return (sl_##ROLE##_value){sl_wire_view_heads(g, x.value, heads, dim)};                    \
    }
WIRE_VIEW(k_heads, k_proj_out)
WIRE_VIEW(v_heads, v)
WIRE_VIEW(delta_z_heads, delta_z)
#undef WIRE_VIEW

/* x within +-limit; constants holds -limit and limit. */
typedef struct {
    sl_value low, high;
} sl_clip_limits;
static inline sl_clip_limits sl_wire_clip_limits(sl_graph *g, float limit) {
    const sl_type one = sl_type_make(SL_DTYPE_f32, 1, (int64_t)1);
    const sl_value known = sl_graph_find(g, "clip.low");
    if (known.v) return (sl_clip_limits){known, sl_graph_find(g, "clip.high")};
    return (sl_clip_limits){sl_graph_constant(g, "clip.low", one, &(float){-limit}),
                            sl_graph_constant(g, "clip.high", one, &limit)};
}
#define WIRE_CLIP(NAME, ROLE)                                                                      \
    static inline sl_##ROLE##_value sl_wire_##NAME(sl_graph *g, sl_##ROLE##_value x,               \
                                                   sl_clip_limits limits) {                        \
        sl_graph_label(g, #NAME);                                                                  \
        return (sl_##ROLE##_value){sl_build_clamp(g,                                               \
                                                  (sl_clamp_in){x.value, limits.low, limits.high}, \
                                                  (sl_clamp_attrs){0})                             \
                                       .out};                                                      \
    }
WIRE_CLIP(q_clip, q_proj_out)
WIRE_CLIP(k_clip, k_proj_out)
WIRE_CLIP(v_clip, v)
#undef WIRE_CLIP

typedef struct {
    sl_q_raw_value q;
    sl_q_gate_value gate;
} sl_split_query;
static inline sl_split_query sl_wire_split_query(sl_graph *g, sl_q_proj_out_value x, int64_t heads,
                                                 int64_t dim) {
    sl_value halves[2];
    const sl_value both = sl_wire_view_heads(g, x.value, heads, 2 * dim);
    sl_graph_label(g, "split_query");
    sl_build_even_split(g, both, (sl_value_slots){2, halves});
    return (sl_split_query){{halves[0]}, {halves[1]}};
}

/* Without a gate. */
static inline sl_split_query sl_wire_whole_query(sl_graph *g, sl_q_proj_out_value x, int64_t heads,
                                                 int64_t dim) {
    return (sl_split_query){.q = {sl_wire_view_heads(g, x.value, heads, dim)}};
}

/* Once per forward pass; all layers share it. */
typedef struct {
    sl_rope_cos_value cos;
    sl_rope_sin_value sin;
} sl_rope_angles;
static inline sl_rope_angles sl_wire_rope_table(sl_graph *g, sl_rows rows,
                                                sl_rope_table_attrs attrs) {
    const sl_rope_table_out out =
        sl_build_rope_table(g, (sl_rope_table_in){rows.positions.value}, attrs);
    return (sl_rope_angles){{out.cos}, {out.sin}};
}
static inline sl_q_value sl_wire_q_rope(sl_graph *g, sl_q_raw_value x, sl_rope_angles by,
                                        sl_rope_apply_attrs attrs) {
    const sl_rope_apply_in in = {x.value, by.cos.value, by.sin.value};
    sl_graph_label(g, "q_rope");
    return (sl_q_value){sl_build_rope_apply(g, in, attrs).out};
}
static inline sl_k_value sl_wire_k_rope(sl_graph *g, sl_k_proj_out_value x, sl_rope_angles by,
                                        sl_rope_apply_attrs attrs) {
    const sl_rope_apply_in in = {x.value, by.cos.value, by.sin.value};
    sl_graph_label(g, "k_rope");
    return (sl_k_value){sl_build_rope_apply(g, in, attrs).out};
}

typedef struct {
    sl_kv_k_value k;
    sl_kv_v_value v;
} sl_kv;
static inline sl_kv sl_wire_kv_append(sl_graph *g, sl_kv cache, sl_k_value k, sl_v_value v,
                                      sl_rows rows) {
    const sl_kv_append_out out =
        sl_build_kv_append(g,
                           (sl_kv_append_in){.k = k.value,
                                             .v = v.value,
                                             .slots = rows.pages.value,
                                             .positions = rows.positions.value,
                                             .cache_k = cache.k.value,
                                             .cache_v = cache.v.value},
                           (sl_kv_append_attrs){0});
    return (sl_kv){{out.cache_k}, {out.cache_v}};
}

/* Few rows cannot keep many threads busy, so their positions are divided if there may be enough of
 * them.  Both forms give the same bits: the result of a row does not depend on the other rows. */
static inline bool sl_wire_divides_positions(uint32_t rows, uint32_t capacity) {
    enum { FEW_ROWS = 8 };
    return rows <= FEW_ROWS && capacity > SL_SDPA_PART;
}

typedef struct {
    float scale;
    uint32_t window; /* 0: all positions */
    bool divide;
} sl_sdpa_options;
typedef struct {
    sl_attn_mixes_value mixes;
    sl_attn_weights_value weights;
} sl_attn_parts;
static inline sl_attn_parts sl_wire_sdpa_parts(sl_graph *g, sl_q_value q, sl_kv cache, sl_rows rows,
                                               sl_sdpa_options options) {
    const sl_sdpa_parts_out out = sl_build_sdpa_parts(
        g,
        (sl_sdpa_parts_in){.q = q.value,
                           .cache_k = cache.k.value,
                           .cache_v = cache.v.value,
                           .slots = rows.pages.value,
                           .positions = rows.positions.value},
        (sl_sdpa_parts_attrs){.scale = options.scale, .window = options.window});
    return (sl_attn_parts){{out.mixes}, {out.weights}};
}

static inline sl_attn_out_value sl_wire_sdpa_merge(sl_graph *g, sl_attn_mixes_value mixes,
                                                   sl_attn_weights_value weights) {
    return (sl_attn_out_value){sl_build_sdpa_merge(g,
                                                   (sl_sdpa_merge_in){mixes.value, weights.value},
                                                   (sl_sdpa_merge_attrs){0})
                                   .out};
}

static inline sl_attn_out_value sl_wire_sdpa(sl_graph *g, sl_q_value q, sl_kv cache, sl_rows rows,
                                             sl_sdpa_options options) {
    if (options.divide) {
        const sl_attn_parts parts = sl_wire_sdpa_parts(g, q, cache, rows, options);
        return sl_wire_sdpa_merge(g, parts.mixes, parts.weights);
    }
    return (sl_attn_out_value){
        sl_build_sdpa(g,
                      (sl_sdpa_in){.q = q.value,
                                   .cache_k = cache.k.value,
                                   .cache_v = cache.v.value,
                                   .slots = rows.pages.value,
                                   .positions = rows.positions.value},
                      (sl_sdpa_attrs){.scale = options.scale, .window = options.window})
            .out};
}

/* With attention sinks: one more score per head, without a value. */
static inline sl_attn_out_value sl_wire_sdpa_sinks(sl_graph *g, sl_q_value q, sl_kv cache,
                                                   sl_rows rows, sl_sinks_value sinks,
                                                   sl_sdpa_options options) {
    if (options.divide) {
        const sl_attn_parts parts = sl_wire_sdpa_parts(g, q, cache, rows, options);
        return (sl_attn_out_value){
            sl_build_sdpa_merge_sinks(
                g, (sl_sdpa_merge_sinks_in){parts.mixes.value, parts.weights.value, sinks.value},
                (sl_sdpa_merge_sinks_attrs){0})
                .out};
    }
    return (sl_attn_out_value){
        sl_build_sdpa_sinks(g,
                            (sl_sdpa_sinks_in){.q = q.value,
                                               .cache_k = cache.k.value,
                                               .cache_v = cache.v.value,
                                               .slots = rows.pages.value,
                                               .positions = rows.positions.value,
                                               .sinks = sinks.value},
                            (sl_sdpa_sinks_attrs){.scale = options.scale, .window = options.window})
            .out};
}

/* Latent attention: sl_wire_name(graph, x, weight), a matrix for each head. */
#define WIRE_HEADS(NAME, IN_ROLE, WEIGHT_ROLE, OUT_ROLE)                                           \
    static inline sl_##OUT_ROLE##_value sl_wire_##NAME(sl_graph *g, sl_##IN_ROLE##_value x,        \
                                                       sl_##WEIGHT_ROLE##_value w) {               \
        sl_graph_label(g, #NAME);                                                                  \
        return (sl_##OUT_ROLE##_value){                                                            \
            sl_build_linear_heads(g, (sl_linear_heads_in){x.value, w.value},                       \
                                  (sl_linear_heads_attrs){0})                                      \
                .out};                                                                             \
    }
WIRE_HEADS(absorb, q_raw, k_absorb_weight, q_latent)
WIRE_HEADS(rebuild, attn_latent, v_rebuild_weight, attn_out)
#undef WIRE_HEADS

static inline sl_value sl_wire_slice(sl_graph *g, sl_value x, uint32_t axis, uint32_t start,
                                     uint32_t length) {
    return sl_build_slice(g, (sl_slice_in){x},
                          (sl_slice_attrs){.axis = axis, .start = start, .length = length})
        .out;
}

/* A query's first `still` dims meet latent vectors, the others are rotated. */
typedef struct {
    sl_q_raw_value still, moving;
} sl_latent_query;
static inline sl_latent_query sl_wire_split_latent_query(sl_graph *g, sl_q_raw_value q,
                                                         uint32_t still, uint32_t moving) {
    sl_graph_label(g, "q_nope");
    const sl_value first = sl_wire_slice(g, q.value, 2, 0, still);
    sl_graph_label(g, "q_pe");
    return (sl_latent_query){{first}, {sl_wire_slice(g, q.value, 2, still, moving)}};
}
static inline sl_q_value sl_wire_join_latent_query(sl_graph *g, sl_q_latent_value latent,
                                                   sl_q_value rotated) {
    sl_graph_label(g, "join_query");
    return (sl_q_value){sl_build_join(g, latent.value, rotated.value, 2)};
}

/* A latent vector before its norm, and a key before rope, of one head. */
typedef struct {
    sl_latent_raw_value latent;
    sl_k_proj_out_value key;
} sl_split_kv_a;
static inline sl_split_kv_a sl_wire_split_kv_a(sl_graph *g, sl_kv_a_out_value x, uint32_t rank,
                                               uint32_t rotated) {
    sl_graph_label(g, "kv_latent");
    const sl_value latent = sl_wire_slice(g, x.value, 1, 0, rank);
    sl_graph_label(g, "k_pe");
    const sl_value key = sl_wire_slice(g, x.value, 1, rank, rotated);
    return (sl_split_kv_a){{latent}, {sl_wire_view_heads(g, key, 1, rotated)}};
}
/* The cached row: latent vectors are the values, and with the rotated key the keys. */
static inline sl_v_value sl_wire_latent_value(sl_graph *g, sl_latent_value latent, uint32_t rank) {
    return (sl_v_value){sl_wire_view_heads(g, latent.value, 1, rank)};
}
static inline sl_k_value sl_wire_latent_key(sl_graph *g, sl_v_value latent, sl_k_value rotated) {
    sl_graph_label(g, "join_key");
    return (sl_k_value){sl_build_join(g, latent.value, rotated.value, 2)};
}
/* Over a cache of latent vectors, attention gives a latent vector per head. */
static inline sl_attn_latent_value sl_wire_latent_out(sl_attn_out_value mixed) {
    return (sl_attn_latent_value){mixed.value};
}

static inline sl_attn_gated_value sl_wire_attn_gate(sl_graph *g, sl_attn_out_value x,
                                                    sl_q_gate_value gate, int64_t width) {
    sl_graph_label(g, "attn_gate");
    const sl_value gated = sl_build_sigmoid_gate(g, (sl_sigmoid_gate_in){x.value, gate.value},
                                                 (sl_sigmoid_gate_attrs){0})
                               .out;
    return (sl_attn_gated_value){sl_wire_flat(g, gated, width)};
}

/* Where attention has no gate. */
static inline sl_attn_gated_value sl_wire_attn_flat(sl_graph *g, sl_attn_out_value x,
                                                    int64_t width) {
    return (sl_attn_gated_value){sl_wire_flat(g, x.value, width)};
}

typedef struct {
    sl_delta_decay_value decay;
    sl_delta_beta_value beta;
} sl_delta_gates;
static inline sl_delta_gates sl_wire_delta_gates(sl_graph *g, sl_delta_a_value a,
                                                 sl_delta_b_value b, sl_a_log_value a_log,
                                                 sl_dt_bias_value dt_bias) {
    sl_graph_label(g, "delta_gates");
    const sl_decay_beta_out out =
        sl_build_decay_beta(g, (sl_decay_beta_in){a.value, b.value, a_log.value, dt_bias.value},
                            (sl_decay_beta_attrs){0});
    return (sl_delta_gates){{out.decay}, {out.beta}};
}

static inline sl_delta_mixed_value sl_wire_conv(sl_graph *g, sl_delta_qkv_value x,
                                                sl_conv_weight_value w, sl_conv_state_value window,
                                                sl_rows rows) {
    sl_graph_label(g, "conv");
    return (sl_delta_mixed_value){
        sl_build_causal_conv(g,
                             (sl_causal_conv_in){.x = x.value,
                                                 .w = w.value,
                                                 .slots = rows.slots.value,
                                                 .positions = rows.positions.value,
                                                 .window = window.value},
                             (sl_causal_conv_attrs){0})
            .out};
}

typedef struct {
    sl_delta_q_value q;
    sl_delta_k_value k;
    sl_delta_v_value v;
} sl_delta_qkv_parts;
typedef struct {
    uint32_t key_heads, key_dim, value_heads, value_dim;
    float eps, q_scale; /* of the norms of queries and keys; queries are scaled as well */
} sl_delta_split;
static inline sl_value sl_wire_delta_channels(sl_graph *g, sl_delta_mixed_value x, uint32_t start,
                                              uint32_t heads, uint32_t dim) {
    return sl_wire_view_heads(g, sl_wire_slice(g, x.value, 1, start, heads * dim), heads, dim);
}
static inline sl_delta_qkv_parts sl_wire_split_delta(sl_graph *g, sl_delta_mixed_value x,
                                                     sl_delta_split s) {
    const uint32_t keys = s.key_heads * s.key_dim;
    sl_graph_label(g, "delta_q");
    const sl_value q = sl_wire_delta_channels(g, x, 0, s.key_heads, s.key_dim);
    sl_graph_label(g, "delta_k");
    const sl_value k = sl_wire_delta_channels(g, x, keys, s.key_heads, s.key_dim);
    sl_graph_label(g, "delta_v");
    const sl_value v = sl_wire_delta_channels(g, x, 2 * keys, s.value_heads, s.value_dim);
    const sl_l2_norm_attrs q_norm = {.eps = s.eps, .scale = s.q_scale};
    const sl_l2_norm_attrs k_norm = {.eps = s.eps, .scale = 1};
    sl_graph_label(g, "delta_q_norm");
    const sl_delta_q_value q_normed = {sl_build_l2_norm(g, (sl_l2_norm_in){q}, q_norm).out};
    sl_graph_label(g, "delta_k_norm");
    const sl_delta_k_value k_normed = {sl_build_l2_norm(g, (sl_l2_norm_in){k}, k_norm).out};
    return (sl_delta_qkv_parts){q_normed, k_normed, {v}};
}

/* Recurrent form for one row, chunked form for more. */
static inline sl_delta_out_value sl_wire_delta(sl_graph *g, sl_delta_qkv_parts x,
                                               sl_delta_gates gates, sl_delta_state_value memory,
                                               sl_rows rows, sl_delta_chunk_attrs attrs) {
    const sl_value slots = rows.slots.value, positions = rows.positions.value;
    if (attrs.chunk <= 1)
        return (sl_delta_out_value){
            sl_build_delta_step(g,
                                (sl_delta_step_in){x.q.value, x.k.value, x.v.value,
                                                   gates.decay.value, gates.beta.value, slots,
                                                   positions, memory.value},
                                (sl_delta_step_attrs){.tiled = attrs.tiled})
                .out};
    return (sl_delta_out_value){
        sl_build_delta_chunk(g,
                             (sl_delta_chunk_in){x.q.value, x.k.value, x.v.value, gates.decay.value,
                                                 gates.beta.value, slots, positions, memory.value},
                             attrs)
            .out};
}

static inline sl_delta_normed_value sl_wire_delta_norm(sl_graph *g, sl_delta_out_value x,
                                                       sl_delta_z_value z,
                                                       sl_delta_norm_gain_value gain, float eps,
                                                       int64_t width) {
    sl_graph_label(g, "delta_norm");
    const sl_value out =
        sl_build_gated_rms_norm(g, (sl_gated_rms_norm_in){x.value, z.value, gain.value},
                                (sl_gated_rms_norm_attrs){.eps = eps})
            .out;
    return (sl_delta_normed_value){sl_wire_flat(g, out, width)};
}

typedef struct {
    sl_route_idx_value experts;
    sl_route_weights_value weights;
} sl_routes;
static inline sl_routes sl_wire_route(sl_graph *g, sl_router_logits_value logits,
                                      sl_route_attrs attrs) {
    const sl_route_out out = sl_build_route(g, (sl_route_in){logits.value}, attrs);
    return (sl_routes){{out.experts}, {out.weights}};
}

static inline sl_routes sl_wire_route_groups(sl_graph *g, sl_router_logits_value logits,
                                             sl_route_correction_value correction,
                                             sl_route_groups_attrs attrs) {
    const sl_route_groups_out out =
        sl_build_route_groups(g, (sl_route_groups_in){logits.value, correction.value}, attrs);
    return (sl_routes){{out.experts}, {out.weights}};
}

typedef struct {
    sl_expert_order_value order;
    sl_expert_starts_value starts;
} sl_expert_groups;
static inline sl_expert_groups sl_wire_moe_group(sl_graph *g, sl_route_idx_value chosen,
                                                 sl_expert_base_value experts, uint32_t layer) {
    const sl_moe_group_out out = sl_build_moe_group(
        g, (sl_moe_group_in){chosen.value, experts.value}, (sl_moe_group_attrs){.layer = layer});
    return (sl_expert_groups){{out.order}, {out.starts}};
}

static inline sl_expert_out_value sl_wire_moe_ffn(sl_graph *g, sl_moe_input_value x,
                                                  sl_expert_groups groups,
                                                  sl_expert_base_value experts,
                                                  sl_moe_ffn_attrs attrs) {
    return (sl_expert_out_value){
        sl_build_moe_ffn(
            g, (sl_moe_ffn_in){x.value, groups.order.value, groups.starts.value, experts.value},
            attrs)
            .out};
}

typedef struct {
    sl_expert_gate_bias_value gate;
    sl_expert_up_bias_value up;
    sl_expert_down_bias_value down;
} sl_expert_biases;
static inline sl_expert_out_value sl_wire_moe_ffn_biased(sl_graph *g, sl_moe_input_value x,
                                                         sl_expert_groups groups,
                                                         sl_expert_biases biases,
                                                         sl_expert_base_value experts,
                                                         sl_moe_ffn_biased_attrs attrs) {
    return (sl_expert_out_value){sl_build_moe_ffn_biased(g,
                                                         (sl_moe_ffn_biased_in){
                                                             .x = x.value,
                                                             .order = groups.order.value,
                                                             .starts = groups.starts.value,
                                                             .gate_bias = biases.gate.value,
                                                             .up_bias = biases.up.value,
                                                             .down_bias = biases.down.value,
                                                             .experts = experts.value,
                                                         },
                                                         attrs)
                                     .out};
}

static inline sl_routed_out_value sl_wire_moe_combine(sl_graph *g, sl_expert_out_value y,
                                                      sl_route_weights_value weights) {
    return (sl_routed_out_value){sl_build_moe_combine(g,
                                                      (sl_moe_combine_in){y.value, weights.value},
                                                      (sl_moe_combine_attrs){0})
                                     .out};
}

static inline sl_shared_mid_value sl_wire_shared_swiglu(sl_graph *g, sl_shared_gate_out_value gate,
                                                        sl_shared_up_out_value up) {
    sl_graph_label(g, "shared_swiglu");
    return (sl_shared_mid_value){
        sl_build_swiglu(g, (sl_swiglu_in){gate.value, up.value}, (sl_swiglu_attrs){0}).out};
}

static inline sl_dense_mid_value sl_wire_dense_swiglu(sl_graph *g, sl_dense_gate_out_value gate,
                                                      sl_dense_up_out_value up) {
    sl_graph_label(g, "dense_swiglu");
    return (sl_dense_mid_value){
        sl_build_swiglu(g, (sl_swiglu_in){gate.value, up.value}, (sl_swiglu_attrs){0}).out};
}

/* Without a shared expert. */
static inline sl_moe_out_value sl_wire_routed_alone(sl_routed_out_value routed) {
    return (sl_moe_out_value){routed.value};
}
/* With an ungated shared expert. */
static inline sl_moe_out_value sl_wire_shared_add(sl_graph *g, sl_routed_out_value routed,
                                                  sl_shared_out_value shared) {
    sl_graph_label(g, "shared_add");
    return (sl_moe_out_value){
        sl_build_add(g, (sl_add_in){routed.value, shared.value}, (sl_add_attrs){0}).out};
}
static inline sl_moe_out_value sl_wire_shared_combine(sl_graph *g, sl_routed_out_value routed,
                                                      sl_shared_out_value shared,
                                                      sl_shared_mix_value mix) {
    return (sl_moe_out_value){
        sl_build_shared_combine(g, (sl_shared_combine_in){routed.value, shared.value, mix.value},
                                (sl_shared_combine_attrs){0})
            .out};
}
#endif
