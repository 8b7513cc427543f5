/* fused.c - Fused blocks of several ops, without rounding in between. */
#include "compiler/ops/attention.h"
#include "compiler/ops/norm.h"
#include <string.h>

/* ---- fused_swiglu ---- */

sl_status sl_infer_fused_swiglu(const sl_infer_args *a, sl_error *err) {
    const sl_fused_swiglu_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "x float[..,2N] -> float[..,N]", err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_check_attr(a->label, "gate_first", attrs->gate_first, 0, 1, err);
}

sl_status sl_eval_fused_swiglu(const sl_eval_args *a, sl_error *err) {
    const uint32_t gate_first = ((const sl_fused_swiglu_attrs *)a->attrs)->gate_first;
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t half = sl_eval_last_dim(a, 0) / 2;
    for (int64_t at = 0; at < sl_type_elements(&a->out[0].type); at += half)
        for (int64_t i = 0; i < half; i++) {
            const double first = x[2 * at + i], second = x[2 * at + half + i];
            a->out[0].data[at + i] = gate_first ? sl_silu(first) * second : sl_silu(second) * first;
        }
    return SL_OK;
}

/* ---- products ---- */

/* rows x inner times inner x cols, plus a bias unless that is NULL. */
typedef struct {
    const double *a, *b, *bias;
    int64_t rows, inner, cols;
} product;

static void multiply(const product *p, double *out) {
    for (int64_t i = 0; i < p->rows * p->cols; i++) {
        const int64_t row = i / p->cols, col = i % p->cols;
        double sum = 0;
        for (int64_t k = 0; k < p->inner; k++)
            sum += p->a[row * p->inner + k] * p->b[k * p->cols + col];
        out[i] = sum + (p->bias ? p->bias[col] : 0);
    }
}

/* All dims but the last two. */
static sl_dims batch_dims(const sl_dims *shape) {
    sl_dims out = *shape;
    out.rank -= 2;
    return out;
}

sl_status sl_infer_fused_matmul_bias_act(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"a", "b", "bias"};
    const sl_infer_args last = {a->label, a->in + 2, a->attrs, a->out, 1, 1};
    SL_TRY(sl_match(a, "a float[..,M,K]", err));
    SL_TRY(sl_match_second(a, "b float[..,K,N]", err));
    SL_TRY(sl_match(&last, "bias float[N]", err));
    SL_TRY(sl_check_one_type(a, names, 3, err));
    SL_TRY(sl_check_attr(a->label, "act", ((const sl_fused_matmul_bias_act_attrs *)a->attrs)->act,
                         0, SL_ACTIVATIONS - 1, err));
    const sl_dims *x = &a->in[0].shape, *w = &a->in[1].shape;
    const int64_t inner = x->dims[x->rank - 1], cols = w->dims[w->rank - 1];
    SL_TRY(sl_check_attr(a->label, "the second-to-last dim of b", w->dims[w->rank - 2], inner,
                         inner, err));
    SL_TRY(sl_check_attr(a->label, "the length of bias", a->in[2].shape.dims[0], cols, cols, err));
    const sl_dims left = batch_dims(x), right = batch_dims(w);
    a->out[0].dtype = a->in[0].dtype;
    SL_TRY(sl_broadcast(a->label, &left, &right, &a->out[0].shape, err));
    a->out[0].shape.dims[a->out[0].shape.rank++] = x->dims[x->rank - 2];
    a->out[0].shape.dims[a->out[0].shape.rank++] = cols;
    return SL_OK;
}

sl_status sl_eval_fused_matmul_bias_act(const sl_eval_args *a, sl_error *err) {
    const uint32_t act = ((const sl_fused_matmul_bias_act_attrs *)a->attrs)->act;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    const sl_dims left = batch_dims(&a->in[0].type.shape), right = batch_dims(&a->in[1].type.shape);
    const sl_dims batches = batch_dims(shape);
    const int64_t rows = shape->dims[shape->rank - 2], cols = shape->dims[shape->rank - 1];
    const int64_t inner = sl_eval_last_dim(a, 0), count = sl_type_elements(&a->out[0].type);
    for (int64_t m = 0; m < count / (rows * cols); m++) {
        const product p = {in[0] + sl_broadcast_index(&left, &batches, m) * rows * inner,
                           in[1] + sl_broadcast_index(&right, &batches, m) * inner * cols,
                           in[2],
                           rows,
                           inner,
                           cols};
        multiply(&p, a->out[0].data + m * rows * cols);
    }
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = sl_activate(a->out[0].data[i], act);
    return SL_OK;
}

/* ---- norms of sums ---- */

sl_status sl_infer_fused_residual_ln(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "residual", "gain", "shift"};
    SL_TRY(sl_match(a,
                    "x float[..,D], residual float[..,D], gain float[D], shift float[D] "
                    "-> float[..,D], float[..,D]",
                    err));
    SL_TRY(sl_check_one_type(a, names, 4, err));
    a->out[0].dtype = a->out[1].dtype = a->in[0].dtype;
    if (a->in_count == 4) return SL_OK;
    SL_TRY(sl_check_extra_count(a, 4, 1, " (the bias) or none", err));
    return sl_check_extra(a, 4, "bias", &a->in[2], err);
}

sl_status sl_eval_fused_residual_ln(const sl_eval_args *a, sl_error *err) {
    const double eps = (double)((const sl_fused_residual_ln_attrs *)a->attrs)->eps;
    const double *in[5] = {NULL};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t width = sl_eval_last_dim(a, 0);
    const sl_row_norm n = {in[2], in[3], eps, width};
    double *sum = a->out[0].data;
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) {
        sum[i] = in[0][i] + in[1][i] + (a->in_count > 4 ? in[4][i % width] : 0);
        if (i % width == width - 1)
            sl_normalise_row(&n, sum + i + 1 - width, a->out[1].data + i + 1 - width);
    }
    return SL_OK;
}

/* ---- fused_attention_block, fused_transformer_layer ---- */

/* The common part of the two blocks. */
typedef struct {
    uint32_t heads, bias, rope, interleaved;
    sl_attention_attrs_shared form;
    uint32_t named; /* inputs before the list */
} block_form;

static uint32_t mask_count(const block_form *b) {
    return sl_mask_is_tensor(b->form.mask);
}

/* Checks the first inputs x[B,S,E], qkv_w[E,3P], out_w[P,F]. */
static sl_status check_block(const sl_infer_args *a, const block_form *b, sl_error *err) {
    const sl_dims *x = &a->in[0].shape;
    const int64_t width = a->in[2].shape.dims[0];
    SL_TRY(sl_check_attention_form(a->label, &b->form, err));
    SL_TRY(sl_check_attr(a->label, "bias", b->bias, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "rope", b->rope, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "interleaved", b->interleaved, 0, b->rope, err));
    SL_TRY(sl_check_attr(a->label, "heads", b->heads, 1, width, err));
    if (width % b->heads)
        return sl_fail(err, SL_INVALID, "%s: out_w has %lld rows, must be a multiple of %u heads",
                       a->label, (long long)width, b->heads);
    const sl_type scores =
        sl_type_make(a->in[0].dtype, 4, x->dims[0], (int64_t)b->heads, x->dims[1], x->dims[1]);
    return mask_count(b) && a->in_count > b->named
               ? sl_check_mask(a, b->named, b->form.mask, &scores, err)
               : SL_OK;
}

/* Checks biases of these lengths, from input `at` on. */
static sl_status check_biases(const sl_infer_args *a, uint32_t at, const int64_t *lengths,
                              uint32_t count, sl_error *err) {
    static const char *const names[] = {"qkv_b", "out_b", "fc1_b", "fc2_b"};
    for (uint32_t i = 0; i < count; i++) {
        const sl_type wanted = sl_type_make(a->in[0].dtype, 1, lengths[i]);
        SL_TRY(sl_check_extra(a, at + i, names[i], &wanted, err));
    }
    return SL_OK;
}

static sl_status check_tables(const sl_infer_args *a, uint32_t at, int64_t tokens, int64_t dim,
                              sl_error *err) {
    const sl_type *found = &a->in[at];
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check(found, a->label, err));
    const int64_t columns = found->shape.rank == 2 ? found->shape.dims[1] : 0;
    if (found->dtype != a->in[0].dtype || columns < 1 || columns > dim / 2 ||
        found->shape.dims[0] != tokens)
        return sl_fail(err, SL_INVALID, "%s: cos is %s, must be %s[%lld,R], R up to %lld", a->label,
                       sl_type_format(found, text, sizeof text),
                       sl_dtype_infos[a->in[0].dtype].name, (long long)tokens,
                       (long long)(dim / 2));
    return sl_check_extra(a, at + 1, "sin", found, err);
}

#define BLOCK_FORM(ATTRS, ROPE, INTERLEAVED, NAMED)                                                \
    ((block_form){(ATTRS)->heads,                                                                  \
                  (ATTRS)->bias,                                                                   \
                  (ROPE),                                                                          \
                  (INTERLEAVED),                                                                   \
                  {(ATTRS)->mask, (ATTRS)->window, (ATTRS)->scale, (ATTRS)->softcap},              \
                  (NAMED)})

sl_status sl_infer_fused_attention_block(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "qkv_w", "out_w"};
    const sl_fused_attention_block_attrs *attrs = a->attrs;
    const block_form b = BLOCK_FORM(attrs, attrs->rope, attrs->interleaved, 3);
    SL_TRY(sl_match(a, "x float[B,S,E], qkv_w float[E,3P], out_w float[P,F] -> float[B,S,F]", err));
    SL_TRY(sl_check_one_type(a, names, 3, err));
    a->out[0].dtype = a->in[0].dtype;
    SL_TRY(check_block(a, &b, err));
    SL_TRY(sl_check_extra_count(a, 3, mask_count(&b) + 2 * b.bias + 2 * b.rope,
                                " (mask; qkv_b, out_b; cos, sin)", err));
    const sl_dims *out_w = &a->in[2].shape;
    const int64_t lengths[] = {3 * out_w->dims[0], out_w->dims[1]};
    const uint32_t at = 3 + mask_count(&b);
    if (b.bias) SL_TRY(check_biases(a, at, lengths, 2, err));
    if (!b.rope) return SL_OK;
    return check_tables(a, at + 2 * b.bias, a->in[0].shape.dims[1], out_w->dims[0] / b.heads, err);
}

sl_status sl_infer_fused_transformer_layer(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x",     "qkv_w", "out_w", "gain1", "shift1",
                                        "fc1_w", "fc2_w", "gain2", "shift2"};
    const sl_fused_transformer_layer_attrs *attrs = a->attrs;
    const block_form b = BLOCK_FORM(attrs, 0, 0, 9);
    SL_TRY(sl_match(a,
                    "x float[B,S,E], qkv_w float[E,3P], out_w float[P,E], gain1 float[E], "
                    "shift1 float[E], fc1_w float[E,I], fc2_w float[I,E], gain2 float[E], "
                    "shift2 float[E] -> float[B,S,E]",
                    err));
    SL_TRY(sl_check_one_type(a, names, 9, err));
    a->out[0].dtype = a->in[0].dtype;
    SL_TRY(check_block(a, &b, err));
    SL_TRY(sl_check_attr(a->label, "act", attrs->act, 0, SL_ACTIVATIONS - 1, err));
    SL_TRY(sl_check_extra_count(a, 9, mask_count(&b) + 4 * b.bias,
                                " (mask; qkv_b, out_b, fc1_b, fc2_b)", err));
    const int64_t width = a->in[0].shape.dims[2];
    const int64_t lengths[] = {3 * a->in[2].shape.dims[0], width, a->in[5].shape.dims[1], width};
    return b.bias ? check_biases(a, 9 + mask_count(&b), lengths, 4, err) : SL_OK;
}

/* Splits rows of q, k and v into heads, [B,heads,S,D] each. */
static void split_heads(const sl_plain_attention *t, const double *rows, double *const to[3]) {
    const int64_t dim = t->key_dim, width = t->heads * dim;
    for (int64_t i = 0; i < t->batches * t->queries * 3 * width; i++) {
        const int64_t row = i / (3 * width), third = i / width % 3, head = i % width / dim;
        const int64_t batch = row / t->queries, token = row % t->queries;
        to[third][((batch * t->heads + head) * t->queries + token) * dim + i % dim] = rows[i];
    }
}

static void join_heads(const sl_plain_attention *t, const double *from, double *rows) {
    const int64_t dim = t->value_dim, width = t->heads * dim;
    for (int64_t i = 0; i < t->batches * t->queries * width; i++) {
        const int64_t row = i / width, head = i % width / dim;
        const int64_t batch = row / t->queries, token = row % t->queries;
        rows[i] = from[((batch * t->heads + head) * t->queries + token) * dim + i % dim];
    }
}

/* Calls the evaluator's rope_apply. */
static sl_status turn_heads(const sl_eval_args *a, const sl_plain_attention *t, const block_form *b,
                            double *x, sl_error *err) {
    const sl_type type =
        sl_type_make(a->in[0].type.dtype, 4, t->batches, t->heads, t->queries, t->key_dim);
    const uint32_t at = a->in_count - 2;
    const sl_rope_apply_attrs attrs = {.interleaved = b->interleaved};
    const sl_eval_tensor in[] = {{.type = type, .data = x}, a->in[at], a->in[at + 1]};
    const sl_eval_args args = {a->label, in, &attrs, in, a->scratch, 3, 1};
    return sl_eval_rope_apply(&args, err);
}

/* The output of the attention block, without the residual. */
static sl_status eval_block(const sl_eval_args *a, const block_form *b, double *out,
                            sl_error *err) {
    const double *in[SL_MAX_INPUTS] = {NULL};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const uint32_t masks = mask_count(b), biases = b->named + masks;
    const int64_t rows = sl_eval_dim(a, 0, 0) * sl_eval_dim(a, 0, 1);
    const int64_t inner = sl_eval_dim(a, 0, 2), width = sl_eval_dim(a, 2, 0);
    const int64_t dim = width / b->heads;
    sl_plain_attention t = {.form = SL_ATTENTION_FORM(&b->form, dim),
                            .batches = sl_eval_dim(a, 0, 0),
                            .heads = b->heads,
                            .kv_heads = b->heads,
                            .queries = sl_eval_dim(a, 0, 1),
                            .keys = sl_eval_dim(a, 0, 1),
                            .key_dim = dim,
                            .value_dim = dim};
    double *side, *heads[3], *mixed;
    SL_TRY(sl_eval_scratch(a, rows * 3 * width, &side, err));
    for (int i = 0; i < 3; i++) SL_TRY(sl_eval_scratch(a, rows * width, &heads[i], err));
    SL_TRY(sl_eval_scratch(a, rows * width, &mixed, err));
    SL_TRY(sl_eval_scratch(a, 3 * t.keys, &t.room, err));
    multiply(&(product){in[0], in[1], b->bias ? in[biases] : NULL, rows, inner, 3 * width}, side);
    split_heads(&t, side, heads);
    for (int i = 0; i < 2 && b->rope; i++) SL_TRY(turn_heads(a, &t, b, heads[i], err));
    t.q = heads[0], t.k = heads[1], t.v = heads[2];
    if (masks) t.mask = in[b->named], t.mask_strides = sl_strides_of(&a->in[b->named].type.shape);
    sl_attend(&t, mixed);
    join_heads(&t, mixed, side);
    multiply(
        &(product){side, in[2], b->bias ? in[biases + 1] : NULL, rows, width, sl_eval_dim(a, 2, 1)},
        out);
    return SL_OK;
}

sl_status sl_eval_fused_attention_block(const sl_eval_args *a, sl_error *err) {
    const sl_fused_attention_block_attrs *attrs = a->attrs;
    const block_form b = BLOCK_FORM(attrs, attrs->rope, attrs->interleaved, 3);
    return eval_block(a, &b, a->out[0].data, err);
}

/* out = norm(x + y), for each row; overwrites y. */
static void add_norm(const sl_row_norm *n, const double *x, double *y, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++) y[i] += x[i];
    for (int64_t i = 0; i < count; i += n->width) sl_normalise_row(n, y + i, out + i);
}

sl_status sl_eval_fused_transformer_layer(const sl_eval_args *a, sl_error *err) {
    const sl_fused_transformer_layer_attrs *attrs = a->attrs;
    const block_form b = BLOCK_FORM(attrs, 0, 0, 9);
    const double *in[SL_MAX_INPUTS] = {NULL};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t width = sl_eval_last_dim(a, 0), inner = sl_eval_dim(a, 5, 1);
    const int64_t count = sl_type_elements(&a->in[0].type), rows = count / width;
    const double *const *biases = in + 9 + mask_count(&b);
    double *first, *hidden, *second;
    SL_TRY(sl_eval_scratch(a, count, &first, err));
    SL_TRY(sl_eval_scratch(a, rows * inner, &hidden, err));
    SL_TRY(sl_eval_scratch(a, count, &second, err));
    SL_TRY(eval_block(a, &b, second, err));
    add_norm(&(sl_row_norm){in[3], in[4], (double)attrs->eps1, width}, in[0], second, count, first);
    multiply(&(product){first, in[5], b.bias ? biases[2] : NULL, rows, width, inner}, hidden);
    for (int64_t i = 0; i < rows * inner; i++) hidden[i] = sl_activate(hidden[i], attrs->act);
    multiply(&(product){hidden, in[6], b.bias ? biases[3] : NULL, rows, inner, width}, second);
    add_norm(&(sl_row_norm){in[7], in[8], (double)attrs->eps2, width}, first, second, count,
             a->out[0].data);
    return SL_OK;
}
