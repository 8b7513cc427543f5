/* linear.c - Linear layers, alone and fused with other ops. */
#include "compiler/ops/check.h"
#include <stdio.h>
#include <string.h>

/* Of equal length, so that one can be written over the other. */
static const char weight[] = "weight", panels[] = "panels";
_Static_assert(sizeof weight == sizeof panels, "class names of one length");

sl_status sl_match_product(const sl_infer_args *a, const char *signature, sl_error *err) {
    char text[128];
    if (a->in[0].dtype != SL_DTYPE_a8) return sl_match(a, signature, err);
    (void)snprintf(text, sizeof text, "%s", signature);
    for (char *at = strstr(text, weight); at; at = strstr(at, weight))
        memcpy(at, panels, sizeof panels - 1);
    return sl_match(a, text, err);
}

sl_status sl_infer_linear(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], w weight[N,K] -> f32[T,N]", err);
}

/* Rows of x, x_stride apart, times the rows of a weight, to rows of out. */
typedef struct {
    const double *x;
    double *out, *row; /* row: scratch for one row of w */
    int64_t rows, inner, x_stride, out_stride;
} product;

static void multiply_weight(const sl_eval_tensor *w, int64_t cols, const product *p) {
    for (int64_t n = 0; n < cols; n++) {
        sl_eval_row(w, n, p->row);
        for (int64_t t = 0; t < p->rows; t++) {
            double sum = 0;
            for (int64_t k = 0; k < p->inner; k++) sum += p->x[t * p->x_stride + k] * p->row[k];
            p->out[t * p->out_stride + n] = sum;
        }
    }
}

sl_status sl_eval_linear(const sl_eval_args *a, sl_error *err) {
    const int64_t inner = sl_eval_dim(a, 0, 1), cols = sl_eval_dim(a, 1, 0);
    product p = {.out = a->out[0].data,
                 .rows = sl_eval_dim(a, 0, 0),
                 .inner = inner,
                 .x_stride = inner,
                 .out_stride = cols};
    SL_TRY(sl_eval_inputs(a, 1, &p.x, err));
    SL_TRY(sl_eval_scratch(a, inner, &p.row, err));
    multiply_weight(&a->in[1], cols, &p);
    return SL_OK;
}

sl_status sl_infer_linear_heads(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "x f32[T,heads,K], w weight[heads,N,K] -> f32[T,heads,N]", err);
}

/* Matrix `index` of a stack. */
static sl_eval_tensor matrix_of(const sl_eval_tensor *w, int64_t index) {
    const sl_dims *shape = &w->type.shape;
    sl_eval_tensor matrix = {.type =
                                 sl_type_make(w->type.dtype, 2, shape->dims[1], shape->dims[2])};
    if (w->data) matrix.data = w->data + index * sl_type_elements(&matrix.type);
    if (w->coded)
        matrix.coded = (const char *)w->coded + (uint64_t)index * sl_type_bytes(&matrix.type);
    return matrix;
}

sl_status sl_eval_linear_heads(const sl_eval_args *a, sl_error *err) {
    const int64_t heads = sl_eval_dim(a, 0, 1), inner = sl_eval_dim(a, 0, 2);
    const int64_t cols = sl_eval_dim(a, 1, 1);
    const double *x;
    double *row;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    SL_TRY(sl_eval_scratch(a, inner, &row, err));
    for (int64_t h = 0; h < heads; h++) {
        const sl_eval_tensor matrix = matrix_of(&a->in[1], h);
        const product p = {.x = x + h * inner,
                           .out = a->out[0].data + h * cols,
                           .row = row,
                           .rows = sl_eval_dim(a, 0, 0),
                           .inner = inner,
                           .x_stride = heads * inner,
                           .out_stride = heads * cols};
        multiply_weight(&matrix, cols, &p);
    }
    return SL_OK;
}

/* ---- fused ---- */

sl_status sl_infer_linear_swiglu(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], w_gate weight[N,K], w_up weight[N,K] -> f32[T,N]",
                            err);
}

sl_status sl_eval_linear_swiglu(const sl_eval_args *a, sl_error *err) {
    sl_eval_tensor both[2] = {a->out[0]};
    SL_TRY(sl_eval_temp(a, &a->out[0].type, &both[1], err));
    for (int i = 0; i < 2; i++)
        SL_TRY(sl_eval_part(a, SL_OP_linear, (sl_eval_tensor[]){a->in[0], a->in[1 + i]}, NULL,
                            &both[i], err));
    return sl_eval_part(a, SL_OP_swiglu, both, NULL, a->out, err);
}

static sl_status eval_products(const sl_eval_args *a, int count, sl_error *err) {
    for (int i = 0; i < count; i++)
        SL_TRY(sl_eval_part(a, SL_OP_linear, (sl_eval_tensor[]){a->in[0], a->in[1 + i]}, NULL,
                            &a->out[i], err));
    return SL_OK;
}

sl_status sl_infer_linear_pair(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], wa weight[A,K], wb weight[B,K] -> f32[T,A], f32[T,B]",
                            err);
}

sl_status sl_eval_linear_pair(const sl_eval_args *a, sl_error *err) {
    return eval_products(a, 2, err);
}

sl_status sl_infer_linear_triple(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a,
                            "x rows[T,K], wa weight[A,K], wb weight[B,K], wc weight[C,K] "
                            "-> f32[T,A], f32[T,B], f32[T,C]",
                            err);
}

sl_status sl_eval_linear_triple(const sl_eval_args *a, sl_error *err) {
    return eval_products(a, 3, err);
}

/* Indexed by the attribute act. */
static const sl_op activations[] = {SL_OP_COUNT, SL_OP_relu,    SL_OP_silu,
                                    SL_OP_gelu,  SL_OP_sigmoid, SL_OP_tanh};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

sl_status sl_infer_linear_bias_act(const sl_infer_args *a, sl_error *err) {
    const sl_linear_bias_act_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "act", attrs->act, 0, ACTIVATIONS - 1, err));
    return sl_match_product(a, "x rows[T,K], w weight[N,K], bias f32[N] -> f32[T,N]", err);
}

sl_status sl_eval_linear_bias_act(const sl_eval_args *a, sl_error *err) {
    const sl_op act = activations[((const sl_linear_bias_act_attrs *)a->attrs)->act];
    SL_TRY(sl_eval_part(a, SL_OP_linear, a->in, NULL, a->out, err));
    SL_TRY(sl_eval_part(a, SL_OP_add, (sl_eval_tensor[]){a->out[0], a->in[2]}, NULL, a->out, err));
    return act == SL_OP_COUNT ? SL_OK : sl_eval_part(a, act, a->out, NULL, a->out, err);
}

sl_status sl_infer_linear_swiglu_quantise(const sl_infer_args *a, sl_error *err) {
    return sl_match_product(a, "x rows[T,K], w_gate weight[N,K], w_up weight[N,K] -> a8[T,N]", err);
}

sl_status sl_eval_linear_swiglu_quantise(const sl_eval_args *a, sl_error *err) {
    return sl_eval_quantised(a, SL_OP_linear_swiglu, NULL, 0, err);
}
