/* moe.c - Mixture of experts: choosing experts, running them as they arrive, adding up. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/pointwise.h"
#include "runtime/cpu/kernels/rows.h"

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

enum { BLOCK_ROWS = 64 };

/* The rows of one expert are worked on in blocks: x, gate and up, what goes into down, the result.
 * Rows that are a8 are gathered as they are, and so is what goes into down. */
typedef struct {
    const sl_moe_ffn_args *args;
    int64_t hidden, width;
    bool coded;
    float *x, *gate, *up;
    rows8_out x8, mid8;
    void *scratch; /* of linear */
} ffn;

static int64_t block_rows(const sl_moe_ffn_args *a) {
    return least(BLOCK_ROWS, dim(&a->order.type, 0));
}
static sl_rows_layout block_layout(int64_t rows, int64_t cols) {
    const sl_type type = {SL_DTYPE_a8, {2, {rows, cols}}};
    return sl_rows_layout_of(&type);
}
static uint64_t coded_bytes(const sl_moe_ffn_args *a) {
    if (a->x.type.dtype != SL_DTYPE_a8) return 0;
    return block_layout(block_rows(a), dim(&a->experts.type, 2)).bytes +
           block_layout(block_rows(a), dim(&a->experts.type, 1)).bytes;
}

SPLIT(moe_ffn) {
    const sl_moe_ffn_args *a = args;
    const int64_t rows = block_rows(a);
    const int64_t width = dim(&a->experts.type, 1), hidden = dim(&a->experts.type, 2);
    return (sl_split){
        dim(&a->experts.type, 0), 1,
        coded_bytes(a) + (size_t)(rows * (hidden + 2 * width)) * sizeof(float) +
            SL_KERNEL(sl_linear_scratch)(a->x.type.dtype, rows, hidden > width ? hidden : width)};
}

static ffn ffn_of(const sl_moe_ffn_args *a, char *scratch) {
    const int64_t rows = block_rows(a);
    ffn f = {.args = a,
             .width = dim(&a->experts.type, 1),
             .hidden = dim(&a->experts.type, 2),
             .coded = a->x.type.dtype == SL_DTYPE_a8};
    if (f.coded) {
        const sl_rows_layout x = block_layout(rows, f.hidden), mid = block_layout(rows, f.width);
        f.x8 = rows8_at(scratch, &x);
        f.mid8 = rows8_at(scratch + x.bytes, &mid);
    }
    f.x = (float *)(void *)(scratch + coded_bytes(a));
    f.gate = f.x + rows * f.hidden;
    f.up = f.gate + rows * f.width;
    f.scratch = f.up + rows * f.width;
    return f;
}

/* Rows of f32, or of a8 where x is NULL. */
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
    return sl_fail(err, SL_UNSUPPORTED, "moe_ffn: experts of type %s cannot be run",
                   sl_dtype_infos[w->type.dtype].name);
}

/* Row i of the block is row `token` of x. */
static void gather_row(const ffn *f, const sl_rows8 *x8, int64_t token, int64_t i) {
    const int64_t groups = f->x8.groups, from = token * groups, to = i * groups;
    const size_t plane = (size_t)groups * sizeof(float);
    if (!f->coded) {
        memcpy(f->x + i * f->hidden, (const float *)f->args->x.data + token * f->hidden,
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
    const sl_moe_ffn_args *a = f->args;
    const sl_rows8 x8 = f->coded ? sl_rows8_of(&a->x) : (sl_rows8){0};
    for (int64_t i = 0; i < rows->count; i++) {
        SL_TRY(check_index(pairs[i], dim(&a->order.type, 0), "moe_ffn: pair", i, err));
        gather_row(f, &x8, pairs[i] / a->attrs.k, i);
    }
    rows->x = f->coded ? NULL : f->x;
    if (f->coded) rows->x8 = rows8_read(&f->x8);
    return SL_OK;
}

/* gate = silu(gate) * up, and as a8 where x is. */
static ffn_rows activate(const ffn *f, int64_t rows) {
    FOR_VECTORS(
        i, n, rows * f->width,
        vstore_n(f->gate + i, apply_swiglu(vload_n(f->gate + i, n), vload_n(f->up + i, n)), n););
    if (!f->coded) return (ffn_rows){.x = f->gate, .count = rows};
    for (int64_t i = 0; i < rows; i++) rows8_row(f->gate + i * f->width, f->width, &f->mid8, i);
    return (ffn_rows){.x8 = rows8_read(&f->mid8), .count = rows};
}

/* `count` pairs, at most BLOCK_ROWS, through one expert. */
SL_CHECKED static sl_status run_block(const ffn *f, const sl_expert_lease *lease,
                                      const int32_t *pairs, int64_t count, sl_error *err) {
    ffn_rows rows = {.count = count};
    SL_TRY(gather(f, pairs, &rows, err));
    SL_TRY(multiply(f, &lease->gate, &rows, f->gate, err));
    SL_TRY(multiply(f, &lease->up, &rows, f->up, err));
    const ffn_rows mid = activate(f, count);
    SL_TRY(multiply(f, &lease->down, &mid, f->x, err));
    for (int64_t i = 0; i < count; i++)
        memcpy((float *)f->args->out.data + pairs[i] * f->hidden, f->x + i * f->hidden,
               (size_t)f->hidden * sizeof(float));
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
