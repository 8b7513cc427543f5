/* delta_net.c - The gated delta net. */
#include "engine/models/blocks.h"
#include <math.h>

static const float L2_EPS = 1e-6f;

/* Queries are scaled by 1/sqrt(key dim) along with their normalisation. */
static sl_delta_split split_of(const sl_model_config *c) {
    return (sl_delta_split){.key_heads = c->delta_key_heads,
                            .key_dim = c->delta_key_dim,
                            .value_heads = c->delta_value_heads,
                            .value_dim = c->delta_value_dim,
                            .eps = L2_EPS,
                            .q_scale = 1.0f / sqrtf((float)c->delta_key_dim)};
}

typedef struct {
    sl_delta_qkv_weight_value qkv;
    sl_delta_z_weight_value z;
    sl_delta_a_weight_value a;
    sl_delta_b_weight_value b;
} projections;

/* Some checkpoints have two tensors instead of four, in which the rows of one key head follow each
 * other: its query, key, values and gates; its betas and decays. */
static projections find_projections(sl_builder *b) {
    const sl_model_config *c = b->config;
    const uint32_t dim = c->delta_key_dim, each = c->delta_value_heads / c->delta_key_heads;
    const uint32_t values = each * c->delta_value_dim, keys = c->delta_key_heads;
    const int64_t heads = c->delta_value_heads, value_width = (int64_t)keys * values;
    const sl_weight_gather qkv = {.from = "linear_attn.in_proj_qkvz.weight",
                                  .groups = keys,
                                  .stride = 2 * dim + 2 * values,
                                  .part_count = 3,
                                  .parts = {{0, dim}, {dim, dim}, {2 * dim, values}}};
    const sl_weight_gather z = {.from = qkv.from,
                                .groups = keys,
                                .stride = qkv.stride,
                                .part_count = 1,
                                .parts = {{2 * dim + values, values}}};
    const sl_weight_gather beta = {.from = "linear_attn.in_proj_ba.weight",
                                   .groups = keys,
                                   .stride = 2 * each,
                                   .part_count = 1,
                                   .parts = {{0, each}}};
    sl_weight_gather decay = beta;
    decay.parts[0].offset = each;
    const sl_dims qkv_dims = {2, {2 * (int64_t)keys * dim + value_width, c->hidden}};
    const sl_dims z_dims = {2, {value_width, c->hidden}}, gate_dims = {2, {heads, c->hidden}};
    return (projections){
        sl_param_delta_qkv_weight(b, qkv_dims, &qkv),
        sl_param_delta_z_weight(b, z_dims, &z),
        sl_param_delta_a_weight(b, gate_dims, &decay),
        sl_param_delta_b_weight(b, gate_dims, &beta),
    };
}

/* What the recurrence is computed from. */
typedef struct {
    sl_delta_qkv_value qkv;
    sl_delta_a_value a;
    sl_delta_b_value b;
} recurrent_inputs;

static int64_t channels_of(const sl_model_config *c) {
    return 2 * (int64_t)c->delta_key_heads * c->delta_key_dim +
           (int64_t)c->delta_value_heads * c->delta_value_dim;
}

typedef struct {
    sl_conv_weight_value conv;
    sl_a_log_value a_log;
    sl_dt_bias_value dt_bias;
    sl_conv_state_value window;
    sl_delta_state_value memory;
} recurrence;

static recurrence find_recurrence(sl_builder *b) {
    const sl_model_config *c = b->config;
    const int64_t heads = c->delta_value_heads, taps = c->conv_width, slots = b->shape->slots;
    const int64_t width = channels_of(c), dim = c->delta_key_dim, value_dim = c->delta_value_dim;
    recurrence r = {.conv = sl_param_conv_weight(b, width, taps)};
    r.a_log = sl_param_a_log(b, heads);
    r.dt_bias = sl_param_dt_bias(b, heads);
    r.window = sl_state_conv_state(b, sl_type_make(SL_DTYPE_f32, 3, slots, taps - 1, width));
    r.memory = sl_state_delta_state(b, sl_type_make(SL_DTYPE_f32, 4, slots, heads, dim, value_dim));
    return r;
}

/* Advances the states by the rows. */
static sl_delta_out_value recur(sl_builder *b, const recurrence *r, recurrent_inputs in) {
    sl_graph *g = b->graph;
    const sl_forward_shape *s = b->shape;
    const bool by_row = s->rows == 1 || s->keeps || s->replays;
    const sl_delta_chunk_attrs attrs = {.chunk = by_row ? 1 : SL_DELTA_CHUNK,
                                        .tiled = b->config->delta_tiled};
    const sl_delta_mixed_value mixed = sl_wire_conv(g, in.qkv, r->conv, r->window, b->rows);
    const sl_delta_gates gates = sl_wire_delta_gates(g, in.a, in.b, r->a_log, r->dt_bias);
    const sl_delta_qkv_parts parts = sl_wire_split_delta(g, mixed, split_of(b->config));
    return sl_wire_delta(g, parts, gates, r->memory, b->rows, attrs);
}

sl_mixer_out_value sl_block_delta_net(sl_builder *b, sl_attn_input_value x) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const int64_t heads = c->delta_value_heads, value_dim = c->delta_value_dim;
    const int64_t value_width = heads * value_dim;
    const projections w = find_projections(b);
    const sl_delta_o_weight_value w_o = sl_param_delta_o_weight(b, c->hidden, value_width);
    const recurrence r = find_recurrence(b);
    const sl_delta_norm_gain_value gain = sl_param_delta_norm_gain(b, value_dim);
    recurrent_inputs in = {.qkv = sl_wire_delta_qkv(g, x, w.qkv)};
    in.a = sl_wire_delta_a(g, x, w.a);
    in.b = sl_wire_delta_b(g, x, w.b);
    sl_reveal_delta_qkv(b, in.qkv);
    sl_reveal_delta_a(b, in.a);
    sl_reveal_delta_b(b, in.b);
    const sl_delta_out_value out = recur(b, &r, in);
    const sl_delta_z_value z =
        sl_wire_delta_z_heads(g, sl_wire_delta_z(g, x, w.z), heads, value_dim);
    return sl_wire_delta_o(g, sl_wire_delta_norm(g, out, z, gain, c->norm_eps, value_width), w_o);
}

void sl_block_delta_replay(sl_builder *b) {
    const recurrence r = find_recurrence(b);
    recurrent_inputs in = {.qkv = sl_kept_delta_qkv(b, channels_of(b->config))};
    in.a = sl_kept_delta_a(b, b->config->delta_value_heads);
    in.b = sl_kept_delta_b(b, b->config->delta_value_heads);
    (void)recur(b, &r, in);
}
