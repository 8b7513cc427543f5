/* linear_fused.c - Several products of the same rows, and what is done to their results at once.
 *
 * Products go to memory before anything else is done to them, as if they were alone. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/pointwise.h"

static sl_linear_product product_of(const sl_cview *w) {
    return SL_KERNEL(sl_linear_product_of)(w->type.dtype);
}

/* ---- pair and triple: an item is a part of one of the products, in order ---- */

typedef struct {
    const sl_cview *x, *weights; /* one weight after another, as in the arguments */
    const sl_view *outs;
    int count;
} products;

static sl_split split_products(const products *p) {
    const int64_t tokens = dim(&p->x->type, 0), cols = dim(&p->x->type, 1);
    int64_t items = 0, rows = 0;
    for (int i = 0; i < p->count; i++) {
        items += parts_of(dim(&p->weights[i].type, 0), product_of(&p->weights[i]).rows);
        rows += dim(&p->weights[i].type, 0);
    }
    return (sl_split){items, grain_of(rows * tokens * cols / 8 / items),
                      SL_KERNEL(sl_linear_scratch)(tokens, cols)};
}

static void run_products(const products *p, int64_t begin, int64_t end, void *scratch) {
    int64_t before = 0; /* items of the products so far */
    for (int i = 0; i < p->count; i++) {
        const sl_linear_product how = product_of(&p->weights[i]);
        const sl_linear_job job = sl_linear_job_of(p->x, &p->weights[i], &p->outs[i]);
        const int64_t parts = parts_of(job.rows, how.rows);
        const int64_t first = begin > before ? begin - before : 0;
        const int64_t last = least(end - before, parts);
        if (first < last) how.run(&job, first, last, scratch);
        before += parts;
    }
}

/* The weights of the arguments follow each other, and so do the results. */
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

/* ---- linear_swiglu: an item is SL_PANEL_ROWS outputs, whatever the types ---- */

/* So many items are worked on at once: the gate's product where the result goes, the other one in
 * scratch. */
enum { SWIGLU_ITEMS = 16, SWIGLU_ROWS = SWIGLU_ITEMS * SL_PANEL_ROWS };

SPLIT(linear_swiglu) {
    const sl_linear_swiglu_args *a = args;
    const int64_t tokens = dim(&a->x.type, 0), cols = dim(&a->x.type, 1);
    return (sl_split){parts_of(dim(&a->out.type, 1), SL_PANEL_ROWS),
                      grain_of(2 * SL_PANEL_ROWS * tokens * cols / 8),
                      (size_t)(tokens * SWIGLU_ROWS) * sizeof(float) +
                          SL_KERNEL(sl_linear_scratch)(tokens, cols)};
}

/* Outputs [first, last) of a product; first is that of an item. */
static void run_rows(const sl_linear_job *job, const sl_cview *w, int64_t first, int64_t last,
                     void *scratch) {
    const sl_linear_product how = product_of(w);
    how.run(job, first / how.rows, parts_of(last, how.rows), scratch);
}

RUN(linear_swiglu) {
    const sl_linear_swiglu_args *a = args;
    const sl_linear_job gate = sl_linear_job_of(&a->x, &a->w_gate, &a->out);
    sl_linear_job up = sl_linear_job_of(&a->x, &a->w_up, &a->out);
    up.out = worker->scratch;
    up.out_stride = SWIGLU_ROWS;
    void *scratch = up.out + up.tokens * SWIGLU_ROWS;
    const int64_t end_row = least(end * SL_PANEL_ROWS, gate.rows);
    for (up.first = begin * SL_PANEL_ROWS; up.first < end_row; up.first += SWIGLU_ROWS) {
        const int64_t last = least(up.first + SWIGLU_ROWS, end_row);
        run_rows(&gate, &a->w_gate, up.first, last, scratch);
        run_rows(&up, &a->w_up, up.first, last, scratch);
        for (int64_t t = 0; t < gate.tokens; t++) {
            float *out = gate.out + t * gate.out_stride + up.first;
            const float *other = up.out + t * SWIGLU_ROWS;
            FOR_VECTORS(
                i, n, last - up.first,
                vstore_n(out + i, apply_swiglu(vload_n(out + i, n), vload_n(other + i, n)), n););
        }
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
        const vf sum = apply_add_f32(vload_n(out + i, n), vload_n(bias + i, n));
        vstore_n(out + i, apply(sum), n);
    });
}

static void finish(float *out, const float *bias, int64_t count, uint32_t act) {
    switch (act) {
    case 1:
        finish_row(out, bias, count, apply_relu);
        break;
    case 2:
        finish_row(out, bias, count, apply_silu);
        break;
    case 3:
        finish_row(out, bias, count, apply_gelu);
        break;
    case 4:
        finish_row(out, bias, count, apply_sigmoid);
        break;
    case 5:
        finish_row(out, bias, count, apply_tanh);
        break;
    default:
        finish_row(out, bias, count, apply_none);
    }
}

RUN(linear_bias_act) {
    const sl_linear_bias_act_args *a = args;
    const sl_linear_product how = product_of(&a->w);
    const sl_linear_job job = sl_linear_job_of(&a->x, &a->w, &a->out);
    how.run(&job, begin, end, worker->scratch);
    const int64_t first = begin * how.rows, last = least(end * how.rows, job.rows);
    for (int64_t t = 0; t < job.tokens; t++)
        finish(job.out + t * job.out_stride + first, (const float *)a->bias.data + first,
               last - first, a->attrs.act);
    return SL_OK;
}
