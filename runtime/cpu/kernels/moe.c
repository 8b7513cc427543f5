/* moe.c - Mixture of experts: choosing experts, running them as they arrive, adding up. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/pointwise.h"

/* ---- route: an item is a row ---- */

/* Copies of a row, padded to whole vectors. */
static int64_t padded(int64_t experts) {
    return parts_of(experts, LANES) * LANES;
}

SPLIT(route) {
    const sl_route_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1);
    return (sl_split){dim(&a->logits.type, 0), grain_of(experts * (a->attrs.k + 8) / 8),
                      (size_t)padded(experts) * sizeof(float)};
}

/* The first of n elements, whole vectors, that equals x; -1 when there is none. */
static int64_t first_equal(const float *from, int64_t n, float x) {
    for (int64_t i = 0; i < n; i += LANES) {
        const uint32_t equal = vbits(vload(from + i) == vsplat(x));
        if (equal) return i + __builtin_ctz(equal);
    }
    return -1;
}

/* The k largest of x, descending, the lower index of equals; takes them out of x, which is whole
 * vectors.  False when fewer than k are numbers. */
static bool choose_best(float *x, int64_t n, uint32_t k, int32_t *chosen) {
    for (uint32_t j = 0; j < k; j++) {
        const int64_t best = first_equal(x, n, vlargest(x, n));
        if (best < 0) return false;
        chosen[j] = (int32_t)best;
        x[best] = NAN;
    }
    return true;
}

/* The chosen ones' shares of all, or of each other. */
static void weigh(const float *logits, float *terms, int64_t experts, const int32_t *chosen,
                  const sl_route_attrs *attrs, float *weights) {
    float sum = 0;
    if (attrs->normalise) {
        const vf most = vsplat(logits[chosen[0]]);
        for (uint32_t j = 0; j < attrs->k; j++) weights[j] = logits[chosen[j]];
        FOR_VECTORS(j, n, attrs->k,
                    vstore_n(weights + j, vexp(vload_n(weights + j, n) - most), n););
        for (uint32_t j = 0; j < attrs->k; j++) sum += weights[j];
    } else {
        memcpy(terms, logits, (size_t)experts * sizeof *terms);
        sum = vsoftmax_terms(terms, experts);
        for (uint32_t j = 0; j < attrs->k; j++) weights[j] = terms[chosen[j]];
    }
    for (uint32_t j = 0; j < attrs->k; j++) weights[j] /= sum;
}

RUN(route) {
    const sl_route_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1), whole = padded(experts);
    const uint32_t k = a->attrs.k;
    float *terms = worker->scratch;
    for (int64_t t = begin; t < end; t++) {
        const float *logits = (const float *)a->logits.data + t * experts;
        int32_t *chosen = (int32_t *)a->experts.data + t * k;
        memcpy(terms, logits, (size_t)experts * sizeof *terms);
        for (int64_t i = experts; i < whole; i++) terms[i] = NAN;
        if (!choose_best(terms, whole, k, chosen))
            return sl_fail(worker->err, SL_INVALID,
                           "route: row %lld has fewer than %u logits that are numbers",
                           (long long)t, k);
        weigh(logits, terms, experts, chosen, &a->attrs, (float *)a->weights.data + t * k);
    }
    return SL_OK;
}

/* ---- moe_group: one item ---- */

SPLIT(moe_group) {
    const sl_moe_group_args *a = args;
    return (sl_split){1, 1, (size_t)dim(&a->experts.type, 0) * sizeof(int32_t)};
}

/* Counting sort: starts[e] first counts, then says where e's next pair goes, then where its run
 * starts.  `used` gets the experts with pairs; returns how many. */
static uint32_t group_pairs(const int32_t *chosen, int64_t pairs, int32_t *order, int32_t *starts,
                            int64_t experts, int32_t *used) {
    memset(starts, 0, (size_t)(experts + 1) * sizeof *starts);
    for (int64_t p = 0; p < pairs; p++) starts[chosen[p]]++;
    uint32_t count = 0;
    int32_t next = 0;
    for (int64_t e = 0; e < experts; e++) {
        const int32_t size = starts[e];
        if (size) used[count++] = (int32_t)e;
        starts[e] = next;
        next += size;
    }
    for (int64_t p = 0; p < pairs; p++) order[starts[chosen[p]]++] = (int32_t)p;
    memmove(starts + 1, starts, (size_t)experts * sizeof *starts);
    starts[0] = 0;
    return count;
}

RUN(moe_group) {
    const sl_moe_group_args *a = args;
    const int64_t pairs = sl_type_elements(&a->chosen.type), experts = dim(&a->experts.type, 0);
    const int32_t *chosen = a->chosen.data;
    sl_expert_source *source = a->experts.source;
    if (begin == end) return SL_OK;
    if (!source) return sl_fail(worker->err, SL_INVALID, "moe_group: experts are not bound");
    for (int64_t p = 0; p < pairs; p++)
        SL_TRY(check_index(chosen[p], experts, "moe_group: expert", p, worker->err));
    int32_t *used = worker->scratch;
    const uint32_t count = group_pairs(chosen, pairs, a->order.data, a->starts.data, experts, used);
    return source->request(source, (sl_layer_id){a->attrs.layer}, used, count, worker->err);
}

/* ---- moe_ffn: an item is whichever expert arrives next ---- */

enum { BLOCK_ROWS = 32 };

/* The rows of one expert are worked on in blocks: x (and then the result), gate and up. */
typedef struct {
    const sl_moe_ffn_args *args;
    int64_t hidden, width;
    float *x, *gate, *up;
    void *scratch; /* of linear */
} ffn;

SPLIT(moe_ffn) {
    const sl_moe_ffn_args *a = args;
    const int64_t rows = least(BLOCK_ROWS, dim(&a->order.type, 0));
    const int64_t width = dim(&a->experts.type, 1), hidden = dim(&a->experts.type, 2);
    return (sl_split){dim(&a->experts.type, 0), 1,
                      (size_t)(rows * (hidden + 2 * width)) * sizeof(float) +
                          SL_KERNEL(sl_linear_scratch)(rows, hidden > width ? hidden : width)};
}

static ffn ffn_of(const sl_moe_ffn_args *a, float *scratch) {
    const int64_t rows = least(BLOCK_ROWS, dim(&a->order.type, 0));
    ffn f = {.args = a,
             .width = dim(&a->experts.type, 1),
             .hidden = dim(&a->experts.type, 2),
             .x = scratch};
    f.gate = f.x + rows * f.hidden;
    f.up = f.gate + rows * f.width;
    f.scratch = f.up + rows * f.width;
    return f;
}

SL_CHECKED static sl_status multiply(const ffn *f, const sl_cview *w, const float *x, float *out,
                                     int64_t rows, sl_error *err) {
    const sl_linear_job job = {.x = x,
                               .x_stride = dim(&w->type, 1),
                               .tokens = rows,
                               .dtype = w->type.dtype,
                               .weights = w->data,
                               .rows = dim(&w->type, 0),
                               .cols = dim(&w->type, 1),
                               .out = out,
                               .out_stride = dim(&w->type, 0)};
    if (SL_KERNEL(sl_linear_whole)(&job, f->scratch)) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "moe_ffn: experts of type %s cannot be run",
                   sl_dtype_infos[w->type.dtype].name);
}

/* `rows` pairs, at most BLOCK_ROWS, through one expert. */
SL_CHECKED static sl_status run_block(const ffn *f, const sl_expert_lease *lease,
                                      const int32_t *pairs, int64_t rows, sl_error *err) {
    const sl_moe_ffn_args *a = f->args;
    const size_t row_bytes = (size_t)f->hidden * sizeof(float);
    for (int64_t i = 0; i < rows; i++) {
        SL_TRY(check_index(pairs[i], dim(&a->order.type, 0), "moe_ffn: pair", i, err));
        const int64_t token = pairs[i] / a->attrs.k;
        memcpy(f->x + i * f->hidden, (const float *)a->x.data + token * f->hidden, row_bytes);
    }
    SL_TRY(multiply(f, &lease->gate, f->x, f->gate, rows, err));
    SL_TRY(multiply(f, &lease->up, f->x, f->up, rows, err));
    FOR_VECTORS(
        i, n, rows * f->width,
        vstore_n(f->gate + i, apply_swiglu(vload_n(f->gate + i, n), vload_n(f->up + i, n)), n););
    SL_TRY(multiply(f, &lease->down, f->gate, f->x, rows, err));
    for (int64_t i = 0; i < rows; i++)
        memcpy((float *)a->out.data + pairs[i] * f->hidden, f->x + i * f->hidden, row_bytes);
    return SL_OK;
}

static bool is_matrix(const sl_cview *view, int64_t rows, int64_t cols) {
    return view->data && view->type.shape.rank == 2 && dim(&view->type, 0) == rows &&
           dim(&view->type, 1) == cols;
}

SL_CHECKED static sl_status run_expert(const ffn *f, const sl_expert_lease *lease, sl_error *err) {
    const sl_moe_ffn_args *a = f->args;
    SL_TRY(check_index(lease->expert, dim(&a->experts.type, 0), "moe_ffn: lease's expert", 0, err));
    if (!is_matrix(&lease->gate, f->width, f->hidden) ||
        !is_matrix(&lease->up, f->width, f->hidden) ||
        !is_matrix(&lease->down, f->hidden, f->width))
        return sl_fail(err, SL_INVALID,
                       "moe_ffn: expert %d is not of the declared shape [%lld,%lld]", lease->expert,
                       (long long)f->width, (long long)f->hidden);
    const int32_t *starts = a->starts.data, *order = a->order.data;
    const int64_t first = starts[lease->expert], last = starts[lease->expert + 1];
    if (first < 0 || last < first || last > dim(&a->order.type, 0))
        return sl_fail(err, SL_INVALID, "moe_ffn: expert %d has pairs %lld to %lld of %lld",
                       lease->expert, (long long)first, (long long)last,
                       (long long)dim(&a->order.type, 0));
    for (int64_t at = first; at < last; at += BLOCK_ROWS)
        SL_TRY(run_block(f, lease, order + at, least(BLOCK_ROWS, last - at), err));
    return SL_OK;
}

RUN(moe_ffn) {
    const sl_moe_ffn_args *a = args;
    const ffn f = ffn_of(a, worker->scratch);
    sl_expert_source *source = a->experts.source;
    if (!source) return sl_fail(worker->err, SL_INVALID, "moe_ffn: experts are not bound");
    for (int64_t item = begin; item < end; item++) {
        sl_expert_lease lease;
        SL_TRY(source->take(source, (sl_layer_id){a->attrs.layer}, &lease, worker->err));
        if (lease.expert < 0) break;
        const sl_status status = run_expert(&f, &lease, worker->err);
        source->release(source, &lease);
        SL_TRY(status);
    }
    return SL_OK;
}

/* ---- adding up: an item is a row ---- */

/* Elements [i, i + count) of the weighted sum of k rows, n apart. */
INLINE vf mix_rows(const float *y, const float *weights, int64_t k, int64_t n, int64_t i,
                   int64_t count) {
    vf sum = vzero();
    for (int64_t j = 0; j < k; j++)
        sum = vfma(vsplat(weights[j]), vload_n(y + j * n + i, count), sum);
    return sum;
}

/* How much of the shared expert row t gets. */
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
            vstore_n(out + i, apply_add_f32(vload_n(residual + i, count), sum), count);
        });
    }
    return SL_OK;
}
