/* moe.c - Mixture of experts: running experts as they arrive, and combining their results. */
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/rows.h"

/* ---- moe_ffn, with or without biases: an item is whichever expert arrives next ---- */

enum { BLOCK_ROWS = 64 };

/* Operands of moe_ffn and its variant with biases, which are NULL otherwise. */
typedef struct {
    const char *name;
    const sl_cview *x, *order, *starts;
    const sl_experts_view *experts;
    const sl_view *out;
    sl_layer_id layer;
    uint32_t k;
    const float *gate_bias, *up_bias, *down_bias;
    float limit, alpha;
} ffn_op;

/* Scratch of one block of an expert's rows: input, gate, up, and the input of the down projection.
 * With a8 activations the input is gathered as a8, and the input of the down projection is
 * quantised to a8. */
typedef struct {
    const ffn_op *op;
    int64_t hidden, width;
    bool coded;
    float *x, *gate, *up;
    rows8_out x8, mid8;
    void *scratch; /* scratch of the linear kernels */
} ffn;

static int64_t block_rows(const ffn_op *op) {
    return least(BLOCK_ROWS, dim(&op->order->type, 0));
}
static sl_rows_layout block_layout(int64_t rows, int64_t cols) {
    const sl_type type = {SL_DTYPE_a8, {2, {rows, cols}}};
    return sl_rows_layout_of(&type);
}
static uint64_t coded_bytes(const ffn_op *op) {
    if (op->x->type.dtype != SL_DTYPE_a8) return 0;
    return block_layout(block_rows(op), dim(&op->experts->type, 2)).bytes +
           block_layout(block_rows(op), dim(&op->experts->type, 1)).bytes;
}

static sl_split split_experts(const ffn_op *op) {
    const int64_t rows = block_rows(op);
    const int64_t width = dim(&op->experts->type, 1), hidden = dim(&op->experts->type, 2);
    return (sl_split){
        dim(&op->experts->type, 0), 1,
        coded_bytes(op) + (size_t)(rows * (hidden + 2 * width)) * sizeof(float) +
            SL_KERNEL(sl_linear_scratch)(op->x->type.dtype, rows, hidden > width ? hidden : width)};
}

static ffn ffn_of(const ffn_op *op, char *scratch) {
    const int64_t rows = block_rows(op);
    ffn f = {.op = op,
             .width = dim(&op->experts->type, 1),
             .hidden = dim(&op->experts->type, 2),
             .coded = op->x->type.dtype == SL_DTYPE_a8};
    if (f.coded) {
        const sl_rows_layout x = block_layout(rows, f.hidden), mid = block_layout(rows, f.width);
        f.x8 = rows8_at(scratch, &x);
        f.mid8 = rows8_at(scratch + x.bytes, &mid);
    }
    f.x = (float *)(void *)(scratch + coded_bytes(op));
    f.gate = f.x + rows * f.hidden;
    f.up = f.gate + rows * f.width;
    f.scratch = f.up + rows * f.width;
    return f;
}

/* Rows of f32, or of a8 if x is NULL. */
typedef struct {
    const float *x;
    sl_rows8 x8;
    int64_t count;
} ffn_rows;

SL_CHECKED static sl_status multiply(const ffn *f, const sl_cview *w, const ffn_rows *rows,
                                     float *out, sl_error *err) {
    const sl_linear_job job = {.x = rows->x,
                               .x_stride = dim(&w->type, 1),
                               .x8 = rows->x8,
                               .tokens = rows->count,
                               .dtype = w->type.dtype,
                               .weights = w->data,
                               .rows = dim(&w->type, 0),
                               .cols = dim(&w->type, 1),
                               .out = out,
                               .out_stride = dim(&w->type, 0)};
    if (SL_KERNEL(sl_linear_whole)(&job, f->scratch)) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: experts of type %s are not supported", f->op->name,
                   sl_dtype_infos[w->type.dtype].name);
}

/* Copies row `token` of x to row i of the block. */
static void gather_row(const ffn *f, const sl_rows8 *x8, int64_t token, int64_t i) {
    const int64_t groups = f->x8.groups, from = token * groups, to = i * groups;
    const size_t plane = (size_t)groups * sizeof(float);
    if (!f->coded) {
        memcpy(f->x + i * f->hidden, (const float *)f->op->x->data + token * f->hidden,
               (size_t)f->hidden * sizeof(float));
        return;
    }
    memcpy(f->x8.codes + to * SL_GROUP_COLS, x8->codes + from * SL_GROUP_COLS,
           (size_t)groups * SL_GROUP_COLS);
    memcpy(f->x8.scales + to, x8->scales + from, plane);
    memcpy(f->x8.sums + to, x8->sums + from, plane);
    memcpy(f->x8.halves + to, x8->halves + from, plane);
}

SL_CHECKED static sl_status gather(const ffn *f, const int32_t *pairs, ffn_rows *rows,
                                   sl_error *err) {
    const ffn_op *op = f->op;
    const sl_rows8 x8 = f->coded ? sl_rows8_of(op->x) : (sl_rows8){0};
    for (int64_t i = 0; i < rows->count; i++) {
        SL_TRY(check_index(pairs[i], dim(&op->order->type, 0), "moe_ffn: pair", i, err));
        gather_row(f, &x8, pairs[i] / op->k, i);
    }
    rows->x = f->coded ? NULL : f->x;
    if (f->coded) rows->x8 = rows8_read(&f->x8);
    return SL_OK;
}

/* gate = silu(gate) * up. */
static void activate(const ffn *f, int64_t rows) {
    FOR_VECTORS(i, n, rows * f->width,
                vstore_n(f->gate + i, vswiglu(vload_n(f->gate + i, n), vload_n(f->up + i, n)), n););
}

/* (up + 1) * gate * sigmoid(alpha gate), after biases and clamping to the limit. */
static void activate_biased(const ffn *f, int32_t expert, int64_t rows) {
    const float *gate_bias = f->op->gate_bias + expert * f->width;
    const float *up_bias = f->op->up_bias + expert * f->width;
    const vf limit = vsplat(f->op->limit), alpha = vsplat(f->op->alpha), one = vsplat(1.0f);
    for (int64_t r = 0; r < rows; r++) {
        float *gate = f->gate + r * f->width;
        const float *up = f->up + r * f->width;
        FOR_VECTORS(i, n, f->width, {
            const vf g = vminimum(vload_n(gate + i, n) + vload_n(gate_bias + i, n), limit);
            const vf most = vminimum(vload_n(up + i, n) + vload_n(up_bias + i, n), limit);
            const vf u = vmaximum(most, -limit);
            vstore_n(gate + i, (u + one) * (g * vsigmoid(alpha * g)), n);
        });
    }
}

/* The input of the down projection, quantised to a8 if x is. */
static ffn_rows middle(const ffn *f, int32_t expert, int64_t rows) {
    if (f->op->gate_bias)
        activate_biased(f, expert, rows);
    else
        activate(f, rows);
    if (!f->coded) return (ffn_rows){.x = f->gate, .count = rows};
    for (int64_t i = 0; i < rows; i++) rows8_row(f->gate + i * f->width, f->width, &f->mid8, i);
    return (ffn_rows){.x8 = rows8_read(&f->mid8), .count = rows};
}

/* Copies row i of the block, plus the bias, to the result of a (token, expert) pair. */
static void put_row(const ffn *f, int32_t expert, int64_t i, int32_t pair) {
    const float *from = f->x + i * f->hidden;
    float *to = (float *)f->op->out->data + pair * f->hidden;
    if (!f->op->down_bias) {
        memcpy(to, from, (size_t)f->hidden * sizeof(float));
        return;
    }
    const float *bias = f->op->down_bias + expert * f->hidden;
    FOR_VECTORS(j, n, f->hidden, vstore_n(to + j, vload_n(from + j, n) + vload_n(bias + j, n), n););
}

/* Runs `count` pairs, at most BLOCK_ROWS, through one expert. */
SL_CHECKED static sl_status run_block(const ffn *f, const sl_expert_lease *lease,
                                      const int32_t *pairs, int64_t count, sl_error *err) {
    ffn_rows rows = {.count = count};
    SL_TRY(gather(f, pairs, &rows, err));
    SL_TRY(multiply(f, &lease->gate, &rows, f->gate, err));
    SL_TRY(multiply(f, &lease->up, &rows, f->up, err));
    const ffn_rows mid = middle(f, lease->expert, count);
    SL_TRY(multiply(f, &lease->down, &mid, f->x, err));
    for (int64_t i = 0; i < count; i++) put_row(f, lease->expert, i, pairs[i]);
    return SL_OK;
}

static bool is_matrix(const sl_cview *view, int64_t rows, int64_t cols) {
    return view->data && view->type.shape.rank == 2 && dim(&view->type, 0) == rows &&
           dim(&view->type, 1) == cols;
}

SL_CHECKED static sl_status run_expert(const ffn *f, const sl_expert_lease *lease, sl_error *err) {
    const ffn_op *op = f->op;
    SL_TRY(
        check_index(lease->expert, dim(&op->experts->type, 0), "moe_ffn: lease's expert", 0, err));
    if (!is_matrix(&lease->gate, f->width, f->hidden) ||
        !is_matrix(&lease->up, f->width, f->hidden) ||
        !is_matrix(&lease->down, f->hidden, f->width))
        return sl_fail(err, SL_INVALID, "%s: expert %d is not of the declared shape [%lld,%lld]",
                       op->name, lease->expert, (long long)f->width, (long long)f->hidden);
    const int32_t *starts = op->starts->data, *order = op->order->data;
    const int64_t first = starts[lease->expert], last = starts[lease->expert + 1];
    if (first < 0 || last < first || last > dim(&op->order->type, 0))
        return sl_fail(err, SL_INVALID, "%s: expert %d has pairs %lld to %lld of %lld", op->name,
                       lease->expert, (long long)first, (long long)last,
                       (long long)dim(&op->order->type, 0));
    for (int64_t at = first; at < last; at += BLOCK_ROWS)
        SL_TRY(run_block(f, lease, order + at, least(BLOCK_ROWS, last - at), err));
    return SL_OK;
}

/* Takes and runs up to `items` experts in order of arrival. */
SL_CHECKED static sl_status run_experts(const ffn_op *op, int64_t items, sl_worker *worker) {
    const ffn f = ffn_of(op, worker->scratch);
    sl_expert_source *source = op->experts->source;
    if (!source) return sl_fail(worker->err, SL_INVALID, "%s: experts are not bound", op->name);
    for (int64_t item = 0; item < items; item++) {
        sl_expert_lease lease;
        SL_TRY(source->take(source, op->layer, &lease, worker->err));
        if (lease.expert < 0) break;
        const sl_status status = run_expert(&f, &lease, worker->err);
        source->release(source, &lease);
        SL_TRY(status);
    }
    return SL_OK;
}

static ffn_op plain_op(const sl_moe_ffn_args *a) {
    return (ffn_op){.name = "moe_ffn",
                    .x = &a->x,
                    .order = &a->order,
                    .starts = &a->starts,
                    .experts = &a->experts,
                    .out = &a->out,
                    .layer = {a->attrs.layer},
                    .k = a->attrs.k};
}
SPLIT(moe_ffn) {
    const ffn_op op = plain_op(args);
    return split_experts(&op);
}
RUN(moe_ffn) {
    const ffn_op op = plain_op(args);
    return run_experts(&op, end - begin, worker);
}

static ffn_op biased_op(const sl_moe_ffn_biased_args *a) {
    return (ffn_op){.name = "moe_ffn_biased",
                    .x = &a->x,
                    .order = &a->order,
                    .starts = &a->starts,
                    .experts = &a->experts,
                    .out = &a->out,
                    .layer = {a->attrs.layer},
                    .k = a->attrs.k,
                    .gate_bias = a->gate_bias.data,
                    .up_bias = a->up_bias.data,
                    .down_bias = a->down_bias.data,
                    .limit = a->attrs.limit,
                    .alpha = a->attrs.alpha};
}
SPLIT(moe_ffn_biased) {
    const ffn_op op = biased_op(args);
    return split_experts(&op);
}
RUN(moe_ffn_biased) {
    const ffn_op op = biased_op(args);
    return run_experts(&op, end - begin, worker);
}

/* ---- weighted sum of the results: an item is a row ---- */

/* Elements [i, i + count) of the weighted sum of k rows that are n floats apart. */
INLINE vf mix_rows(const float *y, const float *weights, int64_t k, int64_t n, int64_t i,
                   int64_t count) {
    vf sum = vzero();
    for (int64_t j = 0; j < k; j++)
        sum = vfma(vsplat(weights[j]), vload_n(y + j * n + i, count), sum);
    return sum;
}

/* The weight of the shared expert for row t. */
INLINE vf shared_weight(const sl_cview *gate, int64_t t) {
    return vsigmoid(vsplat(((const float *)gate->data)[t]));
}

SPLIT(moe_combine) {
    const sl_moe_combine_args *a = args;
    return (sl_split){dim(&a->out.type, 0), grain_of(sl_dims_tail(&a->y.type.shape, 1)), 0};
}
RUN(moe_combine) {
    const sl_moe_combine_args *a = args;
    const int64_t k = dim(&a->y.type, 1), n = dim(&a->y.type, 2);
    for (int64_t t = begin; t < end; t++) {
        const float *y = (const float *)a->y.data + t * k * n;
        const float *weights = (const float *)a->weights.data + t * k;
        float *out = (float *)a->out.data + t * n;
        FOR_VECTORS(i, count, n, vstore_n(out + i, mix_rows(y, weights, k, n, i, count), count););
    }
    return SL_OK;
}

SPLIT(shared_combine) {
    const sl_shared_combine_args *a = args;
    return (sl_split){dim(&a->out.type, 0), grain_of(dim(&a->out.type, 1)), 0};
}
RUN(shared_combine) {
    const sl_shared_combine_args *a = args;
    const int64_t n = dim(&a->out.type, 1);
    for (int64_t t = begin; t < end; t++) {
        const float *routed = (const float *)a->routed.data + t * n;
        const float *shared = (const float *)a->shared.data + t * n;
        float *out = (float *)a->out.data + t * n;
        const vf weight = shared_weight(&a->gate, t);
        FOR_VECTORS(i, count, n, {
            const vf sum = vfma(weight, vload_n(shared + i, count), vload_n(routed + i, count));
            vstore_n(out + i, sum, count);
        });
    }
    return SL_OK;
}

SPLIT(moe_join) {
    const sl_moe_join_args *a = args;
    return (sl_split){dim(&a->out.type, 0), grain_of(2 * sl_dims_tail(&a->y.type.shape, 1)), 0};
}
RUN(moe_join) {
    const sl_moe_join_args *a = args;
    const int64_t k = dim(&a->y.type, 1), n = dim(&a->y.type, 2);
    for (int64_t t = begin; t < end; t++) {
        const float *y = (const float *)a->y.data + t * k * n;
        const float *weights = (const float *)a->weights.data + t * k;
        const float *shared = (const float *)a->shared.data + t * n;
        const float *residual = (const float *)a->residual.data + t * n;
        float *out = (float *)a->out.data + t * n;
        const vf weight = shared_weight(&a->gate, t);
        FOR_VECTORS(i, count, n, {
            const vf routed = mix_rows(y, weights, k, n, i, count);
            const vf sum = vfma(weight, vload_n(shared + i, count), routed);
            vstore_n(out + i, vload_n(residual + i, count) + sum, count);
        });
    }
    return SL_OK;
}

SPLIT(moe_add) {
    const sl_moe_add_args *a = args;
    return (sl_split){dim(&a->out.type, 0), grain_of(2 * sl_dims_tail(&a->y.type.shape, 1)), 0};
}
RUN(moe_add) {
    const sl_moe_add_args *a = args;
    const int64_t k = dim(&a->y.type, 1), n = dim(&a->y.type, 2);
    for (int64_t t = begin; t < end; t++) {
        const float *y = (const float *)a->y.data + t * k * n;
        const float *weights = (const float *)a->weights.data + t * k;
        const float *residual = (const float *)a->residual.data + t * n;
        float *out = (float *)a->out.data + t * n;
        FOR_VECTORS(i, count, n, {
            const vf routed = mix_rows(y, weights, k, n, i, count);
            vstore_n(out + i, vload_n(residual + i, count) + routed, count);
        });
    }
    return SL_OK;
}

SPLIT(moe_add_shared) {
    const sl_moe_add_shared_args *a = args;
    return (sl_split){dim(&a->out.type, 0), grain_of(2 * sl_dims_tail(&a->y.type.shape, 1)), 0};
}
RUN(moe_add_shared) {
    const sl_moe_add_shared_args *a = args;
    const int64_t k = dim(&a->y.type, 1), n = dim(&a->y.type, 2);
    for (int64_t t = begin; t < end; t++) {
        const float *y = (const float *)a->y.data + t * k * n;
        const float *weights = (const float *)a->weights.data + t * k;
        const float *shared = (const float *)a->shared.data + t * n;
        const float *residual = (const float *)a->residual.data + t * n;
        float *out = (float *)a->out.data + t * n;
        FOR_VECTORS(i, count, n, {
            const vf routed = mix_rows(y, weights, k, n, i, count);
            const vf both = routed + vload_n(shared + i, count);
            vstore_n(out + i, vload_n(residual + i, count) + both, count);
        });
    }
    return SL_OK;
}
