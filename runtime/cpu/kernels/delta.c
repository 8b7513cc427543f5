/* delta.c - The gated delta net: short convolution, gates, and the recurrence in two forms. */
#include "runtime/cpu/kernels/gemm.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* Every row's slot and position, before any state changes. */
SL_CHECKED static sl_status check_rows(const sl_cview *slots, const sl_cview *positions,
                                       const sl_type *state, sl_error *err) {
    const int32_t *slot = slots->data, *position = positions->data;
    for (int64_t t = 0; t < dim(&slots->type, 0); t++) {
        SL_TRY(check_index(slot[t], dim(state, 0), "delta net: slot", t, err));
        SL_TRY(check_index(position[t], INT32_MAX, "delta net: position", t, err));
    }
    return SL_OK;
}

/* ---- causal_conv: an item is a block of channels, over all rows ---- */

enum { CHANNELS = 64 };

SPLIT(causal_conv) {
    const sl_causal_conv_args *a = args;
    const int64_t taps = dim(&a->w.type, 1);
    return (sl_split){parts_of(dim(&a->x.type, 1), CHANNELS),
                      grain_of(dim(&a->x.type, 0) * CHANNELS * (taps + 4)),
                      (size_t)taps * CHANNELS * sizeof(float)};
}

/* Channels [0, n) of one row; taps as [tap][CHANNELS], the window's rows `stride` apart. */
static void convolve(const float *x, const float *taps, int64_t tap_count, float *window,
                     int64_t stride, int64_t n, float *out) {
    FOR_VECTORS(c, count, n, {
        vf acc = vzero();
        float *past = window + c;
        for (int64_t i = 0; i + 1 < tap_count; i++, past += stride) {
            const vf tap = vload_n(taps + i * CHANNELS + c, count);
            acc = vfma(vload_n(past, count), tap, acc);
            const float *next = i + 2 < tap_count ? past + stride : x + c;
            vstore_n(past, vload_n(next, count), count);
        }
        const vf tap = vload_n(taps + (tap_count - 1) * CHANNELS + c, count);
        vstore_n(out + c, vsilu(vfma(vload_n(x + c, count), tap, acc)), count);
    });
}

RUN(causal_conv) {
    const sl_causal_conv_args *a = args;
    const int64_t channels = dim(&a->x.type, 1), tap_count = dim(&a->w.type, 1);
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    float *taps = worker->scratch;
    SL_TRY(check_rows(&a->slots, &a->positions, &a->window.type, worker->err));
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * CHANNELS, n = least(CHANNELS, channels - first);
        for (int64_t c = 0; c < n; c++)
            for (int64_t i = 0; i < tap_count; i++)
                taps[i * CHANNELS + c] = ((const float *)a->w.data)[(first + c) * tap_count + i];
        for (int64_t t = 0; t < dim(&a->x.type, 0); t++) {
            float *window = (float *)a->window.data + slots[t] * (tap_count - 1) * channels + first;
            for (int64_t i = 0; positions[t] == 0 && i + 1 < tap_count; i++)
                memset(window + i * channels, 0, (size_t)n * sizeof *window);
            convolve((const float *)a->x.data + t * channels + first, taps, tap_count, window,
                     channels, n, (float *)a->out.data + t * channels + first);
        }
    }
    return SL_OK;
}

/* ---- decay_beta: an item is a row ---- */

SPLIT(decay_beta) {
    const sl_decay_beta_args *a = args;
    return (sl_split){dim(&a->a.type, 0), grain_of(dim(&a->a.type, 1) * 32), 0};
}
RUN(decay_beta) {
    const sl_decay_beta_args *p = args;
    const int64_t heads = dim(&p->a.type, 1);
    const float *a_log = p->a_log.data, *bias = p->dt_bias.data;
    for (int64_t i = begin * heads; i < end * heads; i++) {
        const float x = ((const float *)p->a.data)[i] + bias[i % heads];
        const float softplus = fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
        ((float *)p->decay.data)[i] = -expf(a_log[i % heads]) * softplus;
        ((float *)p->beta.data)[i] = 1.0f / (1.0f + expf(-((const float *)p->b.data)[i]));
    }
    return SL_OK;
}

/* ---- the recurrence: an item is a value head, over all rows ---- */

/* Both forms have the same operands; rows of q and k are key_stride apart, of v and out
 * value_stride. */
typedef struct {
    const float *q, *k, *v, *decay, *beta;
    const int32_t *slots, *positions;
    float *memory, *out;
    int64_t rows, heads, dk, dv, key_stride, value_stride;
} delta;

/* The operands as head h sees them; decay and beta still step by heads, memory by slots. */
static delta delta_head(const sl_delta_step_args *a, int64_t h) {
    const int64_t key_heads = dim(&a->k.type, 1), heads = dim(&a->v.type, 1);
    const int64_t dk = dim(&a->k.type, 2), dv = dim(&a->v.type, 2);
    const int64_t key = (a->attrs.tiled ? h % key_heads : h / (heads / key_heads)) * dk;
    return (delta){
        .q = (const float *)a->q.data + key,
        .k = (const float *)a->k.data + key,
        .v = (const float *)a->v.data + h * dv,
        .decay = (const float *)a->decay.data + h,
        .beta = (const float *)a->beta.data + h,
        .slots = a->slots.data,
        .positions = a->positions.data,
        .memory = (float *)a->memory.data + h * dk * dv,
        .out = (float *)a->out.data + h * dv,
        .rows = dim(&a->v.type, 0),
        .heads = heads,
        .dk = dk,
        .dv = dv,
        .key_stride = key_heads * dk,
        .value_stride = heads * dv,
    };
}

/* The memory of row t's slot, cleared where a sequence starts. */
static float *memory_of(const delta *d, int64_t t) {
    float *memory = d->memory + d->slots[t] * d->heads * d->dk * d->dv;
    if (d->positions[t] == 0) memset(memory, 0, (size_t)(d->dk * d->dv) * sizeof *memory);
    return memory;
}

/* One row: decay and recall in one pass over the memory, update and read in another. */
static void step(const delta *d, int64_t t) {
    float *memory = memory_of(d, t);
    const float *q = d->q + t * d->key_stride, *k = d->k + t * d->key_stride;
    const float *v = d->v + t * d->value_stride;
    const vf keep = vsplat(expf(d->decay[t * d->heads])), beta = vsplat(d->beta[t * d->heads]);
    FOR_VECTORS(c, count, d->dv, {
        vf recalled = vzero(), read = vzero();
        float *m = memory + c;
        for (int64_t r = 0; r < d->dk; r++) {
            const vf kept = vload_n(m + r * d->dv, count) * keep;
            vstore_n(m + r * d->dv, kept, count);
            recalled = vfma(vsplat(k[r]), kept, recalled);
        }
        const vf change = beta * (vload_n(v + c, count) - recalled);
        for (int64_t r = 0; r < d->dk; r++) {
            const vf now = vfma(vsplat(k[r]), change, vload_n(m + r * d->dv, count));
            vstore_n(m + r * d->dv, now, count);
            read = vfma(vsplat(q[r]), now, read);
        }
        vstore_n(d->out + t * d->value_stride + c, read, count);
    });
}

SPLIT(delta_step) {
    return (sl_split){dim(&((const sl_delta_step_args *)args)->v.type, 1), 1, 0};
}
RUN(delta_step) {
    const sl_delta_step_args *a = args;
    SL_TRY(check_rows(&a->slots, &a->positions, &a->memory.type, worker->err));
    for (int64_t h = begin; h < end; h++) {
        const delta d = delta_head(a, h);
        for (int64_t t = 0; t < d.rows; t++) step(&d, t);
    }
    return SL_OK;
}

/* Rows [start, start + n) of one slot.  With G the running sum of decay and M the memory before,
 *
 *   change_i = beta_i (v_i - e^G_i M^T k_i - sum_{j<i} e^(G_i - G_j) (k_i . k_j) change_j)
 *   out_i    = e^G_i M^T q_i + sum_{j<=i} e^(G_i - G_j) (q_i . k_j) change_j
 *   M        = e^G_last M + sum_j e^(G_last - G_j) k_j change_j^T */
typedef struct {
    int64_t start, n;
    float *sums;    /* G: [n] */
    float *mix;     /* e^(G_i - G_j) (x_i . k_j): [n, n] */
    float *changes; /* [n, dv] */
} chunk;

static void scale_row(float *x, float factor, int64_t n) {
    FOR_VECTORS(i, count, n, vstore_n(x + i, vload_n(x + i, count) * vsplat(factor), count););
}

/* c[n, dv] at c_row = e^G_i M^T x_i, for the rows x of q or k. */
static void recall(const delta *d, const chunk *p, const float *x, float *out, int64_t out_row) {
    const float *memory = d->memory + d->slots[p->start] * d->heads * d->dk * d->dv;
    gemm_run(&(gemm){.a = x + p->start * d->key_stride,
                     .a_row = d->key_stride,
                     .a_col = 1,
                     .b = memory,
                     .b_row = d->dv,
                     .c = out,
                     .c_row = out_row,
                     .rows = p->n,
                     .cols = d->dv,
                     .inner = d->dk});
    for (int64_t i = 0; i < p->n; i++) scale_row(out + i * out_row, expf(p->sums[i]), d->dv);
}

/* mix[i][j] for j <= i, zero beyond. */
static void mix_rows(const delta *d, const chunk *p, const float *x) {
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const float *row = x + (p->start + i) * d->key_stride;
            const float *key = d->k + (p->start + j) * d->key_stride;
            p->mix[i * p->n + j] =
                j <= i ? expf(p->sums[i] - p->sums[j]) * vdot(row, key, d->dk) : 0;
        }
}

/* out rows += mix[rows, inner] times the first changes. */
static void add_changes(const delta *d, const chunk *p, gemm g) {
    g.a_row = p->n;
    g.a_col = 1;
    g.b = p->changes;
    g.b_row = d->dv;
    g.cols = d->dv;
    g.add = true;
    gemm_run(&g);
}

/* changes holds e^G_i M^T k_i; solved from the first row on. */
static void solve_changes(const delta *d, const chunk *p) {
    for (int64_t i = 0; i < p->n; i++) {
        float *change = p->changes + i * d->dv;
        add_changes(d, p, (gemm){.a = p->mix + i * p->n, .c = change, .rows = 1, .inner = i});
        const float *v = d->v + (p->start + i) * d->value_stride;
        const vf beta = vsplat(d->beta[(p->start + i) * d->heads]);
        FOR_VECTORS(c, count, d->dv, {
            const vf error = vload_n(v + c, count) - vload_n(change + c, count);
            vstore_n(change + c, beta * error, count);
        });
    }
}

static void update_memory(const delta *d, const chunk *p, float *memory) {
    const float last = p->sums[p->n - 1];
    scale_row(memory, expf(last), d->dk * d->dv);
    for (int64_t j = 0; j < p->n; j++)
        scale_row(p->changes + j * d->dv, expf(last - p->sums[j]), d->dv);
    gemm_run(&(gemm){.a = d->k + p->start * d->key_stride,
                     .a_row = 1,
                     .a_col = d->key_stride,
                     .b = p->changes,
                     .b_row = d->dv,
                     .c = memory,
                     .c_row = d->dv,
                     .rows = d->dk,
                     .cols = d->dv,
                     .inner = p->n,
                     .add = true});
}

static void run_chunk(const delta *d, const chunk *p) {
    float *memory = memory_of(d, p->start), *out = d->out + p->start * d->value_stride;
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++)
        p->sums[i] = (float)(sum += (double)d->decay[(p->start + i) * d->heads]);
    recall(d, p, d->k, p->changes, d->dv);
    mix_rows(d, p, d->k);
    solve_changes(d, p);
    recall(d, p, d->q, out, d->value_stride);
    mix_rows(d, p, d->q);
    add_changes(
        d, p, (gemm){.a = p->mix, .c = out, .c_row = d->value_stride, .rows = p->n, .inner = p->n});
    update_memory(d, p, memory);
}

/* How many rows from start on continue its sequence, at most `most`. */
static int64_t run_length(const delta *d, int64_t start, int64_t most) {
    int64_t n = 1;
    while (n < most && start + n < d->rows && d->slots[start + n] == d->slots[start] &&
           d->positions[start + n] != 0)
        n++;
    return n;
}

static int64_t longest_chunk(const sl_delta_chunk_args *a) {
    return least(a->attrs.chunk, dim(&a->v.type, 0));
}

SPLIT(delta_chunk) {
    const sl_delta_chunk_args *a = args;
    const int64_t n = longest_chunk(a), dv = dim(&a->v.type, 2);
    return (sl_split){dim(&a->v.type, 1), 1, (size_t)(n * (1 + n + dv)) * sizeof(float)};
}
RUN(delta_chunk) {
    const sl_delta_chunk_args *a = args;
    SL_TRY(check_rows(&a->slots, &a->positions, &a->memory.type, worker->err));
    const int64_t most = longest_chunk(a);
    chunk p = {.sums = worker->scratch};
    p.mix = p.sums + most;
    p.changes = p.mix + most * most;
    const sl_delta_step_args same = {.q = a->q,
                                     .k = a->k,
                                     .v = a->v,
                                     .decay = a->decay,
                                     .beta = a->beta,
                                     .slots = a->slots,
                                     .positions = a->positions,
                                     .memory = a->memory,
                                     .out = a->out,
                                     .attrs = {.tiled = a->attrs.tiled}};
    for (int64_t h = begin; h < end; h++) {
        const delta d = delta_head(&same, h);
        for (p.start = 0; p.start < d.rows; p.start += p.n) {
            p.n = run_length(&d, p.start, most);
            if (p.n == 1)
                step(&d, p.start);
            else
                run_chunk(&d, &p);
        }
    }
    return SL_OK;
}
