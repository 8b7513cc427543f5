/* linear_fused.c - Several linear layers on the same input, and linear layers with fused epilogues.
 *
 * Products are rounded to f32 before the epilogue, so results are bit-identical to the separate
 * ops. */
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/rows.h"

static sl_linear_product product_of(const sl_cview *x, const sl_cview *w) {
    return SL_KERNEL(sl_linear_product_of)(x->type.dtype, w->type.dtype);
}

/* ---- linear_pair, linear_triple: an item is a part of one of the products, in order ---- */

typedef struct {
    const sl_cview *x, *weights; /* weights: consecutive views of the arguments */
    const sl_view *outs;
    int count;
} products;

static sl_split split_products(const products *p) {
    const int64_t tokens = dim(&p->x->type, 0), cols = dim(&p->x->type, 1);
    int64_t items = 0, rows = 0;
    for (int i = 0; i < p->count; i++) {
        items += parts_of(dim(&p->weights[i].type, 0), product_of(p->x, &p->weights[i]).rows);
        rows += dim(&p->weights[i].type, 0);
    }
    return (sl_split){items, grain_of(rows * tokens * cols / 8 / items),
                      SL_KERNEL(sl_linear_scratch)(p->x->type.dtype, tokens, cols)};
}

static void run_products(const products *p, int64_t begin, int64_t end, void *scratch) {
    int64_t before = 0; /* items of earlier products */
    for (int i = 0; i < p->count; i++) {
        const sl_linear_product product = product_of(p->x, &p->weights[i]);
        const sl_linear_job job = sl_linear_job_of(p->x, &p->weights[i], &p->outs[i]);
        const int64_t parts = parts_of(job.rows, product.rows);
        const int64_t first = begin > before ? begin - before : 0;
        const int64_t last = least(end - before, parts);
        if (first < last) product.run(&job, first, last, scratch);
        before += parts;
    }
}

/* The views of the weights follow each other in the arguments, and so do the outputs. */
#define PRODUCTS(OP, COUNT)                                                                        \
    static products OP##_of(const sl_##OP##_args *a) {                                             \
        return (products){&a->x, &a->wa, &a->a, COUNT};                                            \
    }                                                                                              \
    SPLIT(OP) {                                                                                    \
        const products p = OP##_of(args);                                                          \
        return split_products(&p);                                                                 \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const products p = OP##_of(args);                                                          \
        run_products(&p, begin, end, worker->scratch);                                             \
        return SL_OK;                                                                              \
    }
PRODUCTS(linear_pair, 2)
PRODUCTS(linear_triple, 3)

/* ---- linear_swiglu, with f32 or a8 results: an item is a group of outputs ---- */

/* Outputs computed at a time, with both products in scratch; large enough for long sequential reads
 * of each matrix. */
enum { SWIGLU_GROUPS = 8, SWIGLU_ROWS = SWIGLU_GROUPS * SL_GROUP_COLS };

typedef struct {
    const sl_cview *x, *weights; /* weights: gate, then up */
    int64_t tokens, outputs;
} swiglu;

static swiglu swiglu_of(const sl_cview *x, const sl_cview *weights) {
    return (swiglu){x, weights, dim(&x->type, 0), dim(&weights->type, 0)};
}

static sl_split split_swiglu(const swiglu *s) {
    const int64_t cols = dim(&s->x->type, 1);
    return (sl_split){parts_of(s->outputs, SL_GROUP_COLS),
                      grain_of(2 * SL_GROUP_COLS * s->tokens * cols / 8),
                      (size_t)(2 * s->tokens * SWIGLU_ROWS) * sizeof(float) +
                          SL_KERNEL(sl_linear_scratch)(s->x->type.dtype, s->tokens, cols)};
}

/* Computes outputs [first, last), at most SWIGLU_ROWS, into scratch rows of SWIGLU_ROWS floats, one
 * per token. */
static float *run_swiglu(const swiglu *s, int64_t first, int64_t last, float *scratch) {
    float *out[2] = {scratch, scratch + s->tokens * SWIGLU_ROWS};
    for (int i = 0; i < 2; i++) {
        const sl_linear_product product = product_of(s->x, &s->weights[i]);
        sl_linear_job job = sl_linear_job_of(s->x, &s->weights[i], &(sl_view){.data = out[i]});
        job.out_stride = SWIGLU_ROWS;
        job.first = first;
        product.run(&job, first / product.rows, parts_of(last, product.rows),
                    scratch + 2 * s->tokens * SWIGLU_ROWS);
    }
    for (int64_t t = 0; t < s->tokens; t++) {
        float *gate = out[0] + t * SWIGLU_ROWS;
        const float *up = out[1] + t * SWIGLU_ROWS;
        FOR_VECTORS(i, n, last - first,
                    vstore_n(gate + i, vswiglu(vload_n(gate + i, n), vload_n(up + i, n)), n););
    }
    return out[0];
}

SPLIT(linear_swiglu) {
    const sl_linear_swiglu_args *a = args;
    const swiglu s = swiglu_of(&a->x, &a->w_gate);
    return split_swiglu(&s);
}
RUN(linear_swiglu) {
    const sl_linear_swiglu_args *a = args;
    const swiglu s = swiglu_of(&a->x, &a->w_gate);
    const int64_t end_row = least(end * SL_GROUP_COLS, s.outputs);
    for (int64_t first = begin * SL_GROUP_COLS; first < end_row; first += SWIGLU_ROWS) {
        const int64_t last = least(first + SWIGLU_ROWS, end_row);
        const float *y = run_swiglu(&s, first, last, worker->scratch);
        for (int64_t t = 0; t < s.tokens; t++)
            memcpy((float *)a->out.data + t * s.outputs + first, y + t * SWIGLU_ROWS,
                   (size_t)(last - first) * sizeof *y);
    }
    return SL_OK;
}

SPLIT(linear_swiglu_quantise) {
    const sl_linear_swiglu_quantise_args *a = args;
    const swiglu s = swiglu_of(&a->x, &a->w_gate);
    return split_swiglu(&s);
}
RUN(linear_swiglu_quantise) {
    const sl_linear_swiglu_quantise_args *a = args;
    const swiglu s = swiglu_of(&a->x, &a->w_gate);
    const rows8_out codes = rows8_made(&a->codes);
    for (int64_t first = begin; first < end; first += SWIGLU_GROUPS) {
        const int64_t last = least(first + SWIGLU_GROUPS, end);
        const float *y = run_swiglu(&s, first * SL_GROUP_COLS,
                                    least(last * SL_GROUP_COLS, s.outputs), worker->scratch);
        for (int64_t t = 0; t < s.tokens; t++)
            rows8_groups(y + t * SWIGLU_ROWS, s.outputs, &codes, t, first, last);
    }
    return SL_OK;
}

/* ---- linear_bias_act: an item is a part of the product ---- */

SPLIT(linear_bias_act) {
    const sl_linear_bias_act_args *a = args;
    const products p = {&a->x, &a->w, &a->out, 1};
    return split_products(&p);
}

INLINE vf apply_none(vf x) {
    return x;
}

INLINE void finish_row(float *out, const float *bias, int64_t count, vf apply(vf x)) {
    FOR_VECTORS(i, n, count, {
        const vf sum = vload_n(out + i, n) + vload_n(bias + i, n);
        vstore_n(out + i, apply(sum), n);
    });
}

static void finish(float *out, const float *bias, int64_t count, uint32_t act) {
    switch (act) {
    case 1:
        finish_row(out, bias, count, vrelu);
        break;
    case 2:
        finish_row(out, bias, count, vsilu);
        break;
    case 3:
        finish_row(out, bias, count, vgelu);
        break;
    case 4:
        finish_row(out, bias, count, vsigmoid);
        break;
    case 5:
        finish_row(out, bias, count, vtanh);
        break;
    default:
        finish_row(out, bias, count, apply_none);
    }
}

RUN(linear_bias_act) {
    const sl_linear_bias_act_args *a = args;
    const sl_linear_product product = product_of(&a->x, &a->w);
    const sl_linear_job job = sl_linear_job_of(&a->x, &a->w, &a->out);
    product.run(&job, begin, end, worker->scratch);
    const int64_t first = begin * product.rows, last = least(end * product.rows, job.rows);
    for (int64_t t = 0; t < job.tokens; t++)
        finish(job.out + t * job.out_stride + first, (const float *)a->bias.data + first,
               last - first, a->attrs.act);
    return SL_OK;
}
