/* rewrite_blocks.c - Attention, and blocks that contain it, as their parts. */
#include "compiler/passes/rewrite.h"
#include "core/attention.h"

static bool all_wide(const sl_graph *g, const sl_node *node, const sl_value *in) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (sl_rw_type(g, in[i])->dtype != SL_DTYPE_bool && !sl_rw_is_wide(g, in[i])) return false;
    return true;
}

static sl_value matmul(sl_graph *g, sl_value a, sl_value b) {
    return sl_rw_binary(g, SL_OP_matmul, a, b);
}
static sl_value add(sl_graph *g, sl_value a, sl_value b) {
    return sl_rw_binary(g, SL_OP_add, a, b);
}

bool sl_rewrite_matmul_bias_act(sl_graph *g, const sl_node *node, const sl_value *in,
                                sl_value *out) {
    if (!all_wide(g, node, in)) return false;
    out[0] = sl_rw_activate(g, ((const sl_fused_matmul_bias_act_attrs *)node->attrs)->act,
                            add(g, matmul(g, in[0], in[1]), in[2]));
    return true;
}

bool sl_rewrite_swiglu_halves(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const bool first = ((const sl_fused_swiglu_attrs *)node->attrs)->gate_first;
    const sl_dims *shape = &sl_rw_type(g, in[0])->shape;
    const uint32_t axis = shape->rank - 1;
    const int64_t half = shape->dims[axis] / 2;
    if (!all_wide(g, node, in)) return false;
    const sl_value gate = sl_rw_slice(g, in[0], axis, first ? 0 : half, half);
    const sl_value up = sl_rw_slice(g, in[0], axis, first ? half : 0, half);
    out[0] = sl_rw_binary(g, SL_OP_mul, sl_rw_unary(g, SL_OP_silu, gate), up);
    return true;
}

/* ---- residuals ---- */

static sl_value layer_norm(sl_graph *g, sl_value x, sl_value gain, sl_value shift, float eps) {
    return sl_build_layer_norm(g, (sl_layer_norm_in){.x = x, .gain = gain, .bias = shift},
                               (sl_layer_norm_attrs){.axis = -1, .eps = eps})
        .out;
}

bool sl_rewrite_residual_ln(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    if (!all_wide(g, node, in)) return false;
    out[0] = add(g, in[0], in[1]);
    if (node->input_count > 4) out[0] = add(g, out[0], in[4]);
    out[1] =
        layer_norm(g, out[0], in[2], in[3], ((const sl_fused_residual_ln_attrs *)node->attrs)->eps);
    return true;
}

/* ---- attention ---- */

/* [S,T]: 0 where attended to, else minus infinity. */
static sl_value positions_mask(sl_graph *g, const sl_attention_form *form, sl_type type) {
    const int64_t queries = type.shape.dims[0], keys = type.shape.dims[1];
    sl_arena scratch;
    sl_arena_init(&scratch, g->arena.allocator);
    double *numbers = SL_ARENA_NEW_ARRAY(&scratch, double, (size_t)(queries * keys) + 1);
    sl_value out = {0};
    for (int64_t i = 0; numbers && i < queries; i++) {
        const sl_seen seen = sl_attention_seen(form, queries, keys, i);
        for (int64_t j = 0; j < keys; j++)
            numbers[i * keys + j] = j < seen.first || j >= seen.end ? -(double)INFINITY : 0;
    }
    if (numbers)
        out = sl_rw_constant(g, &type, numbers);
    else
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a mask");
    sl_arena_deinit(&scratch);
    return out;
}

/* Scores [B,Hq,S,T] with the mask or bias applied. */
static sl_value masked(sl_graph *g, const sl_attention_form *form, sl_value scores,
                       const sl_value *extra) {
    const sl_type type = *sl_rw_type(g, scores);
    if (form->mask == SL_MASK_NONE) return scores;
    if (form->mask == SL_MASK_BIAS) return add(g, scores, extra[0]);
    if (form->mask == SL_MASK_CUSTOM)
        return sl_rw_where(g, extra[0], scores, sl_rw_number(g, type.dtype, -(double)INFINITY));
    const sl_type mask = {type.dtype, {2, {type.shape.dims[2], type.shape.dims[3]}}};
    return add(g, scores, positions_mask(g, form, mask));
}

/* [B,Hq,S,X] as [B,H,Hq/H*S,X]: query heads that share a KV head become rows of one product. */
static sl_value grouped(sl_graph *g, sl_value x, int64_t heads) {
    const sl_dims a = sl_rw_type(g, x)->shape;
    const sl_dims rows = {4, {a.dims[0], heads, a.dims[1] / heads * a.dims[2], a.dims[3]}};
    return sl_rw_reshape(g, x, &rows);
}
/* The product of rows with one matrix per KV head, as [B,Hq,S,columns]. */
static sl_value by_heads(sl_graph *g, sl_value x, sl_value matrices) {
    const sl_dims a = sl_rw_type(g, x)->shape, b = sl_rw_type(g, matrices)->shape;
    const sl_dims all = {4, {a.dims[0], a.dims[1], a.dims[2], b.dims[3]}};
    return sl_rw_reshape(g, matmul(g, grouped(g, x, b.dims[1]), matrices), &all);
}
/* The sum of x^T y over all rows that share a KV head: [B,H,X,Y]. */
static sl_value over_rows(sl_graph *g, sl_value x, sl_value y, int64_t heads) {
    return matmul(g, sl_rw_turned(g, grouped(g, x, heads)), grouped(g, y, heads));
}

/* Scaled and capped: [B,Hq,S,T] from q[B,Hq,S,D] and k[B,H,T,D]. */
static sl_value scores_of(sl_graph *g, const sl_attention_form *form, sl_value q, sl_value k) {
    const sl_value scores =
        sl_rw_with(g, SL_OP_mul, by_heads(g, q, sl_rw_turned(g, k)), form->scale);
    if (form->softcap == 0) return scores;
    const sl_value small = sl_rw_with(g, SL_OP_div, scores, form->softcap);
    return sl_rw_with(g, SL_OP_mul, sl_rw_unary(g, SL_OP_tanh, small), form->softcap);
}

/* The attention weights, and *share, the weight of the sink if there are sinks.  All weights are 0
 * if every key is masked: the largest score is then minus infinity, which must not be subtracted
 * from itself, and the sum is 0. */
static sl_value weights_of(sl_graph *g, sl_value scores, const sl_value *sinks, sl_value *share) {
    const double least_score = -1e30, least_sum = 1e-30;
    const sl_dims axes = {1, {3}};
    sl_value largest = sl_rw_reduce(g, SL_OP_reduce_max, scores, &axes), sink = {0};
    if (sinks) {
        const sl_dims heads = {4, {1, sl_type_elements(sl_rw_type(g, *sinks)), 1, 1}};
        sink = sl_rw_reshape(g, *sinks, &heads);
        largest = sl_rw_binary(g, SL_OP_maximum, largest, sink);
    }
    largest = sl_rw_with(g, SL_OP_maximum, largest, least_score);
    const sl_value exps = sl_rw_unary(g, SL_OP_exp, sl_rw_binary(g, SL_OP_sub, scores, largest));
    sl_value sum = sl_rw_reduce(g, SL_OP_reduce_sum, exps, &axes);
    if (sinks) {
        sink = sl_rw_unary(g, SL_OP_exp, sl_rw_binary(g, SL_OP_sub, sink, largest));
        sum = add(g, sum, sink);
    }
    sum = sl_rw_with(g, SL_OP_maximum, sum, least_sum);
    if (sinks) *share = sl_rw_binary(g, SL_OP_div, sink, sum);
    return sl_rw_binary(g, SL_OP_div, exps, sum);
}

bool sl_rewrite_attention(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    const sl_attention_attrs *a = node->attrs;
    const sl_attention_form form = SL_ATTENTION_FORM(a, sl_rw_type(g, in[0])->shape.dims[3]);
    sl_value share;
    if (!all_wide(g, node, in)) return false;
    const sl_value scores = masked(g, &form, scores_of(g, &form, in[0], in[1]), in + 3);
    const sl_value *sinks = a->sinks ? &in[node->input_count - 1] : NULL;
    out[0] = by_heads(g, weights_of(g, scores, sinks, &share), in[2]);
    return true;
}

/* [B,Hq,S,T or 1] summed over the dims along which `to` was broadcast. */
static sl_value summed_to(sl_graph *g, sl_value x, const sl_dims *to) {
    const sl_dims shape = sl_rw_type(g, x)->shape;
    sl_dims axes = {0};
    for (uint32_t d = 0; d < shape.rank; d++) {
        const bool own = d + to->rank >= shape.rank;
        if (!own || to->dims[d + to->rank - shape.rank] != shape.dims[d])
            axes.dims[axes.rank++] = d;
    }
    return sl_rw_reshape(g, axes.rank ? sl_rw_reduce(g, SL_OP_reduce_sum, x, &axes) : x, to);
}

/* The gradient with respect to q.k, given the gradient with respect to the scores. */
static sl_value through_cap(sl_graph *g, const sl_attention_form *form, sl_value scores,
                            sl_value dscores) {
    const sl_value scaled = sl_rw_with(g, SL_OP_mul, dscores, form->scale);
    if (form->softcap == 0) return scaled;
    const sl_value share = sl_rw_with(g, SL_OP_div, scores, form->softcap);
    const sl_value lost =
        sl_rw_binary(g, SL_OP_mul, sl_rw_binary(g, SL_OP_mul, share, share), scaled);
    return sl_rw_binary(g, SL_OP_sub, scaled, lost);
}

bool sl_rewrite_attention_backward(sl_graph *g, const sl_node *node, const sl_value *in,
                                   sl_value *out) {
    const sl_attention_backward_attrs *a = node->attrs;
    const sl_value q = in[0], k = in[1], v = in[2], dout = in[3];
    const sl_value *sinks = a->sinks ? &in[node->input_count - 1] : NULL;
    const int64_t heads = sl_rw_type(g, k)->shape.dims[1];
    const sl_attention_form form = SL_ATTENTION_FORM(a, sl_rw_type(g, q)->shape.dims[3]);
    const sl_dims last = {1, {3}};
    sl_value share;
    if (!all_wide(g, node, in)) return false;
    const sl_value scores = scores_of(g, &form, q, k);
    const sl_value weights = weights_of(g, masked(g, &form, scores, in + 4), sinks, &share);
    const sl_value dweights = by_heads(g, dout, sl_rw_turned(g, v));
    const sl_value mean =
        sl_rw_reduce(g, SL_OP_reduce_sum, sl_rw_binary(g, SL_OP_mul, weights, dweights), &last);
    const sl_value dscores =
        sl_rw_binary(g, SL_OP_mul, weights, sl_rw_binary(g, SL_OP_sub, dweights, mean));
    const sl_value change = through_cap(g, &form, scores, dscores);
    out[0] = by_heads(g, change, k);
    out[1] = over_rows(g, change, q, heads);
    out[2] = over_rows(g, weights, dout, heads);
    if (node->output_count == 3) return true;
    if (a->mask == SL_MASK_BIAS) out[3] = summed_to(g, dscores, &sl_rw_type(g, in[4])->shape);
    if (sinks) {
        const sl_dims shape = sl_rw_type(g, *sinks)->shape, column = {3, {shape.dims[0], 1, 1}};
        const sl_value kept = summed_to(g, sl_rw_binary(g, SL_OP_mul, share, mean), &column);
        out[node->output_count - 1] = sl_rw_unary(g, SL_OP_neg, sl_rw_reshape(g, kept, &shape));
    }
    return true;
}

/* ---- blocks ---- */

/* Operands that both blocks have; extra begins with the mask. */
typedef struct {
    uint32_t heads, rope, interleaved;
    sl_attention_attrs attention;
    sl_value x, qkv_w, out_w;
    const sl_value *mask, *qkv_b, *out_b, *tables; /* NULL: none */
} block;

/* Part i (of q, k, v) of [B,S,3P] as [B,heads,S,P/heads]. */
static sl_value heads_of(sl_graph *g, const block *b, sl_value joined, int64_t i) {
    const sl_dims shape = sl_rw_type(g, joined)->shape;
    const int64_t width = shape.dims[2] / 3;
    const sl_dims apart = {4, {shape.dims[0], shape.dims[1], b->heads, width / b->heads}};
    const sl_dims perm = {4, {0, 2, 1, 3}};
    const sl_value third = sl_rw_slice(g, joined, 2, i * width, width);
    const sl_value heads = sl_rw_transpose(g, sl_rw_reshape(g, third, &apart), &perm);
    if (!b->rope || i == 2) return heads;
    return sl_build_rope_apply(
               g, (sl_rope_apply_in){.x = heads, .cos = b->tables[0], .sin = b->tables[1]},
               (sl_rope_apply_attrs){.interleaved = b->interleaved})
        .out;
}

static sl_value attend(sl_graph *g, const block *b) {
    const sl_dims shape = sl_rw_type(g, b->x)->shape, perm = {4, {0, 2, 1, 3}};
    sl_value joined = matmul(g, b->x, b->qkv_w), in[4], mixed = {0};
    if (b->qkv_b) joined = add(g, joined, *b->qkv_b);
    for (int64_t i = 0; i < 3; i++) in[i] = heads_of(g, b, joined, i);
    if (b->mask) in[3] = *b->mask;
    sl_graph_append_list(g, SL_OP_attention, (sl_values){b->mask ? 4 : 3, in}, &b->attention,
                         (sl_value_slots){1, &mixed});
    const sl_dims side = {3,
                          {shape.dims[0], shape.dims[1], sl_rw_type(g, b->out_w)->shape.dims[0]}};
    const sl_value rows = sl_rw_reshape(g, sl_rw_transpose(g, mixed, &perm), &side);
    const sl_value out = matmul(g, rows, b->out_w);
    return b->out_b ? add(g, out, *b->out_b) : out;
}

#define ATTENTION_OF(A)                                                                            \
    ((sl_attention_attrs){                                                                         \
        .mask = (A)->mask, .window = (A)->window, .scale = (A)->scale, .softcap = (A)->softcap})
static bool is_tensor(uint32_t mask) {
    return mask == SL_MASK_CUSTOM || mask == SL_MASK_BIAS;
}

bool sl_rewrite_attention_block(sl_graph *g, const sl_node *node, const sl_value *in,
                                sl_value *out) {
    const sl_fused_attention_block_attrs *a = node->attrs;
    const sl_value *extra = in + 3, *biases = extra + is_tensor(a->mask);
    block b = {.heads = a->heads,
               .rope = a->rope,
               .interleaved = a->interleaved,
               .attention = ATTENTION_OF(a),
               .x = in[0],
               .qkv_w = in[1],
               .out_w = in[2],
               .tables = biases + (a->bias ? 2 : 0)};
    if (!all_wide(g, node, in)) return false;
    if (is_tensor(a->mask)) b.mask = extra;
    if (a->bias) b.qkv_b = biases, b.out_b = biases + 1;
    out[0] = attend(g, &b);
    return true;
}

bool sl_rewrite_transformer_layer(sl_graph *g, const sl_node *node, const sl_value *in,
                                  sl_value *out) {
    const sl_fused_transformer_layer_attrs *a = node->attrs;
    const sl_value *extra = in + 9, *biases = extra + is_tensor(a->mask);
    block b = {.heads = a->heads,
               .attention = ATTENTION_OF(a),
               .x = in[0],
               .qkv_w = in[1],
               .out_w = in[2]};
    if (!all_wide(g, node, in)) return false;
    if (is_tensor(a->mask)) b.mask = extra;
    if (a->bias) b.qkv_b = biases, b.out_b = biases + 1;
    const sl_value first = layer_norm(g, add(g, in[0], attend(g, &b)), in[3], in[4], a->eps1);
    sl_value hidden = matmul(g, first, in[5]);
    if (a->bias) hidden = add(g, hidden, biases[2]);
    sl_value second = matmul(g, sl_rw_activate(g, a->act, hidden), in[6]);
    if (a->bias) second = add(g, second, biases[3]);
    out[0] = layer_norm(g, add(g, first, second), in[7], in[8], a->eps2);
    return true;
}
