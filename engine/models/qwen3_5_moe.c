/* qwen3_5_moe.c - Qwen3.5/3.6-MoE: gated attention every few layers, gated delta nets between them,
 * every layer followed by routed experts and one shared expert. */
#include "engine/models/architecture.h"
#include "engine/models/wire.h"
#include <math.h>
#include <stdio.h>

enum { DELTA_CHUNK = 64 };
static const float L2_EPS = 1e-6f;

/* The graph under construction; after the first failure every call does nothing. */
typedef struct {
    sl_graph *graph;
    const sl_step_shape *shape;
    const sl_model_config *config;
    sl_rows rows;
    sl_rope_table_value rope;
    uint32_t layer;
    sl_status status;
    sl_error *err;
} build;

static sl_value declare_weight(build *b, const char *name, sl_weight_kind kind, sl_dims dims) {
    if (b->status != SL_OK) return (sl_value){0};
    const sl_value known = sl_graph_find(b->graph, name); /* tied embeddings come twice */
    if (known.v) return known;
    const sl_weight *weight;
    b->status = sl_weights_get(b->shape->weights, name, kind, &dims, &weight, b->err);
    if (b->status != SL_OK) return (sl_value){0};
    return sl_graph_declare(b->graph, SL_VALUE_WEIGHT, name, weight->type);
}

static const char *layer_name(const build *b, const char *suffix, char *text, size_t capacity) {
    (void)snprintf(text, capacity, "layers.%u.%s", b->layer, suffix);
    return text;
}

static sl_value matrix(build *b, const char *suffix, int64_t rows, int64_t cols) {
    char name[128];
    return declare_weight(b, layer_name(b, suffix, name, sizeof name), SL_WEIGHT_MATRIX,
                          (sl_dims){2, {rows, cols}});
}

static sl_value vector(build *b, const char *suffix, int64_t size) {
    char name[128];
    return declare_weight(b, layer_name(b, suffix, name, sizeof name), SL_WEIGHT_VECTOR,
                          (sl_dims){1, {size}});
}

static sl_value state(build *b, const char *what, sl_type type) {
    char name[64];
    (void)snprintf(name, sizeof name, "state.%u.%s", b->layer, what);
    return sl_graph_declare(b->graph, SL_VALUE_STATE, name, type);
}

/* Norm gains of this family are stored as their difference from one. */
static sl_rms_norm_attrs norm_attrs(const build *b) {
    return (sl_rms_norm_attrs){.eps = b->config->norm_eps, .offset = 1.0f};
}

static sl_mixer_out_value attention(build *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->query_heads, kv_heads = c->kv_heads, dim = c->head_dim;
    const sl_q_weight_value wq = {matrix(b, "self_attn.q_proj.weight", heads * 2 * dim, c->hidden)};
    const sl_k_weight_value wk = {matrix(b, "self_attn.k_proj.weight", kv_heads * dim, c->hidden)};
    const sl_v_weight_value wv = {matrix(b, "self_attn.v_proj.weight", kv_heads * dim, c->hidden)};
    const sl_o_weight_value wo = {matrix(b, "self_attn.o_proj.weight", c->hidden, heads * dim)};
    const sl_q_norm_gain_value q_gain = {vector(b, "self_attn.q_norm.weight", dim)};
    const sl_k_norm_gain_value k_gain = {vector(b, "self_attn.k_norm.weight", dim)};
    const sl_kv_shape cache = {.dtype = b->shape->kv_dtype,
                               .slots = b->shape->slots,
                               .heads = kv_heads,
                               .capacity = b->shape->capacity,
                               .dim = dim};
    sl_kv kv = {{state(b, "kv_k", sl_kv_keys(cache))}, {state(b, "kv_v", sl_kv_values(cache))}};

    const sl_split_query query = sl_wire_split_query(g, sl_wire_q_proj(g, x, wq), heads, dim);
    const sl_q_value q =
        sl_wire_q_rope(g, sl_wire_q_norm(g, query.q, q_gain, norm_attrs(b)), b->rope);
    const sl_k_proj_out_value k_heads = {
        sl_wire_heads(g, sl_wire_k_proj(g, x, wk).value, kv_heads, dim)};
    const sl_k_value k =
        sl_wire_k_rope(g, sl_wire_k_norm(g, k_heads, k_gain, norm_attrs(b)), b->rope);
    const sl_v_value v = {sl_wire_heads(g, sl_wire_v_proj(g, x, wv).value, kv_heads, dim)};
    kv = sl_wire_kv_append(g, kv, k, v, b->rows);
    const sl_attn_out_value out =
        sl_wire_sdpa(g, q, kv, b->rows, 1.0f / sqrtf((float)dim),
                     sl_wire_divides_positions(b->shape->rows, b->shape->capacity));
    return sl_wire_o_proj(g, sl_wire_attn_gate(g, out, query.gate, heads * dim), wo);
}

static sl_value channels(build *b, sl_delta_mixed_value x, uint32_t start, uint32_t length) {
    return sl_build_slice(b->graph, (sl_slice_in){x.value},
                          (sl_slice_attrs){.axis = 1, .start = start, .length = length})
        .out;
}

/* Queries are scaled by 1/sqrt(key dim) along with their normalisation. */
static sl_delta_qkv_parts split_delta(build *b, sl_delta_mixed_value mixed) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const uint32_t key_width = c->delta_key_heads * c->delta_key_dim;
    const uint32_t value_width = c->delta_value_heads * c->delta_value_dim;
    const sl_value q =
        sl_wire_heads(g, channels(b, mixed, 0, key_width), c->delta_key_heads, c->delta_key_dim);
    const sl_value k = sl_wire_heads(g, channels(b, mixed, key_width, key_width),
                                     c->delta_key_heads, c->delta_key_dim);
    const sl_value v = sl_wire_heads(g, channels(b, mixed, 2 * key_width, value_width),
                                     c->delta_value_heads, c->delta_value_dim);
    const float q_scale = 1.0f / sqrtf((float)c->delta_key_dim);
    return (sl_delta_qkv_parts){
        .q = {sl_build_l2_norm(g, (sl_l2_norm_in){q}, (sl_l2_norm_attrs){L2_EPS, q_scale, 0}).out},
        .k = {sl_build_l2_norm(g, (sl_l2_norm_in){k}, (sl_l2_norm_attrs){L2_EPS, 1.0f, 0}).out},
        .v = {v},
    };
}

static sl_mixer_out_value delta_net(build *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->delta_value_heads, key_dim = c->delta_key_dim;
    const int64_t value_dim = c->delta_value_dim, value_width = heads * value_dim;
    const int64_t width = 2 * (int64_t)c->delta_key_heads * key_dim + value_width;
    const int64_t slots = b->shape->slots, taps = c->conv_width;
    const sl_delta_qkv_weight_value w_qkv = {
        matrix(b, "linear_attn.in_proj_qkv.weight", width, c->hidden)};
    const sl_delta_z_weight_value w_z = {
        matrix(b, "linear_attn.in_proj_z.weight", value_width, c->hidden)};
    const sl_delta_a_weight_value w_a = {
        matrix(b, "linear_attn.in_proj_a.weight", heads, c->hidden)};
    const sl_delta_b_weight_value w_b = {
        matrix(b, "linear_attn.in_proj_b.weight", heads, c->hidden)};
    const sl_delta_o_weight_value w_o = {
        matrix(b, "linear_attn.out_proj.weight", c->hidden, value_width)};
    char name[128];
    const sl_conv_weight_value conv = {
        declare_weight(b, layer_name(b, "linear_attn.conv1d.weight", name, sizeof name),
                       SL_WEIGHT_VECTOR, (sl_dims){2, {width, taps}})};
    const sl_a_log_value a_log = {vector(b, "linear_attn.A_log", heads)};
    const sl_dt_bias_value dt_bias = {vector(b, "linear_attn.dt_bias", heads)};
    const sl_delta_norm_gain_value gain = {vector(b, "linear_attn.norm.weight", value_dim)};
    const sl_conv_state_value window = {
        state(b, "conv", sl_type_make(SL_DTYPE_f32, 3, slots, taps - 1, width))};
    const sl_delta_state_value memory = {
        state(b, "delta", sl_type_make(SL_DTYPE_f32, 4, slots, heads, key_dim, value_dim))};

    const sl_delta_mixed_value mixed =
        sl_wire_conv(g, sl_wire_delta_qkv(g, x, w_qkv), conv, window, b->rows);
    const sl_delta_gates gates = sl_wire_delta_gates(g, sl_wire_delta_a(g, x, w_a),
                                                     sl_wire_delta_b(g, x, w_b), a_log, dt_bias);
    const sl_delta_chunk_attrs how = {.chunk = b->shape->rows == 1 ? 1 : DELTA_CHUNK,
                                      .tiled = c->delta_tiled};
    const sl_delta_out_value out =
        sl_wire_delta(g, split_delta(b, mixed), gates, memory, b->rows, how);
    const sl_delta_z_value z = {
        sl_wire_heads(g, sl_wire_delta_z(g, x, w_z).value, heads, value_dim)};
    return sl_wire_delta_o(g, sl_wire_delta_norm(g, out, z, gain, c->norm_eps, value_width), w_o);
}

static sl_moe_out_value experts(build *b, sl_moe_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%u.experts", b->layer);
    const sl_type *gate = &b->shape->experts->layer[b->layer].matrices[SL_GATE].type;
    const sl_expert_base_value base = {
        sl_graph_declare(g, SL_VALUE_EXPERTS, name,
                         sl_type_make(gate->dtype, 3, (int64_t)c->experts, (int64_t)c->expert_width,
                                      (int64_t)c->hidden))};
    const sl_router_weight_value router = {matrix(b, "mlp.gate.weight", c->experts, c->hidden)};
    const sl_routes routes =
        sl_wire_route(g, sl_wire_router(g, x, router),
                      (sl_route_attrs){.k = c->experts_used, .normalise = c->normalise_routes});
    const sl_expert_groups groups = sl_wire_moe_group(g, routes.experts, base, b->layer);

    const sl_shared_gate_weight_value w_gate = {
        matrix(b, "mlp.shared_expert.gate_proj.weight", c->shared_width, c->hidden)};
    const sl_shared_up_weight_value w_up = {
        matrix(b, "mlp.shared_expert.up_proj.weight", c->shared_width, c->hidden)};
    const sl_shared_down_weight_value w_down = {
        matrix(b, "mlp.shared_expert.down_proj.weight", c->hidden, c->shared_width)};
    const sl_shared_mix_weight_value w_mix = {
        matrix(b, "mlp.shared_expert_gate.weight", 1, c->hidden)};
    const sl_shared_mid_value mid =
        sl_wire_shared_swiglu(g, sl_wire_shared_gate(g, x, w_gate), sl_wire_shared_up(g, x, w_up));
    const sl_shared_out_value shared = sl_wire_shared_down(g, mid, w_down);

    const sl_expert_out_value out = sl_wire_moe_ffn(
        g, x, groups, base, (sl_moe_ffn_attrs){.layer = b->layer, .k = c->experts_used});
    return sl_wire_shared_combine(g, sl_wire_moe_combine(g, out, routes.weights), shared,
                                  sl_wire_shared_mix(g, x, w_mix));
}

static sl_residual_value layer(build *b, sl_residual_value residual) {
    sl_graph *g = b->graph;
    const int64_t hidden = b->config->hidden;
    const bool full = b->config->full_attention[b->layer];
    const sl_attn_norm_gain_value gain = {vector(b, "input_layernorm.weight", hidden)};
    sl_graph_scope(g, "layer %u %s", b->layer, full ? "attention" : "delta net");
    const sl_attn_input_value x = sl_wire_attn_norm(g, residual, gain, norm_attrs(b));
    const sl_mixer_out_value mixed = full ? attention(b, x) : delta_net(b, x);
    residual = sl_wire_residual_add(g, residual, sl_as_residual_update(mixed));

    sl_graph_scope(g, "layer %u experts", b->layer);
    const sl_moe_norm_gain_value moe_gain = {vector(b, "post_attention_layernorm.weight", hidden)};
    const sl_moe_out_value out = experts(b, sl_wire_moe_norm(g, residual, moe_gain, norm_attrs(b)));
    return sl_wire_residual_add(g, residual, sl_as_residual_update(out));
}

static void head(build *b, sl_residual_value residual) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const sl_step_shape *s = b->shape;
    sl_graph_scope(g, "head");
    const sl_final_norm_gain_value gain = {
        declare_weight(b, "norm.weight", SL_WEIGHT_VECTOR, (sl_dims){1, {c->hidden}})};
    const sl_head_weight_value weight = {
        declare_weight(b, c->tied_embeddings ? "embed_tokens.weight" : "lm_head.weight",
                       SL_WEIGHT_MATRIX, (sl_dims){2, {c->vocab, c->hidden}})};
    if (s->wanted == 0) return;
    if (s->wanted < s->rows) {
        const sl_wanted_rows_value wanted = {sl_graph_declare(
            g, SL_VALUE_INPUT, "wanted", sl_type_make(SL_DTYPE_i32, 1, (int64_t)s->wanted))};
        residual = sl_wire_wanted(g, residual, wanted);
    }
    const sl_final_hidden_value hidden = sl_wire_final_norm(g, residual, gain, norm_attrs(b));
    sl_graph_output(g, "logits", sl_wire_head(g, hidden, weight).value);
    sl_graph_output(g, "hidden", hidden.value);
}

sl_status sl_qwen3_5_moe_build(const sl_step_shape *shape, sl_graph *graph, sl_error *err) {
    const sl_model_config *c = shape->config;
    const sl_type ids = sl_type_make(SL_DTYPE_i32, 1, (int64_t)shape->rows);
    build b = {.graph = graph, .shape = shape, .config = c, .status = SL_OK, .err = err};
    const sl_tokens_value tokens = {sl_graph_declare(graph, SL_VALUE_INPUT, "tokens", ids)};
    b.rows.slots.value = sl_graph_declare(graph, SL_VALUE_INPUT, "slots", ids);
    b.rows.positions.value = sl_graph_declare(graph, SL_VALUE_INPUT, "positions", ids);
    sl_graph_scope(graph, "embedding");
    const sl_embed_weight_value table = {declare_weight(&b, "embed_tokens.weight", SL_WEIGHT_MATRIX,
                                                        (sl_dims){2, {c->vocab, c->hidden}})};
    sl_residual_value residual = sl_wire_embed(graph, table, tokens);
    b.rope = sl_wire_rope_table(
        graph, b.rows, (sl_rope_table_attrs){.rotary = c->rotary_dims, .theta = c->rope_theta});
    for (b.layer = 0; b.layer < c->layers && b.status == SL_OK; b.layer++)
        residual = layer(&b, residual);
    head(&b, residual);
    SL_TRY(b.status);
    return sl_graph_check(graph, err);
}
