/* delta.c - The gated delta net: short convolution, gates and the recurrence in two forms. */
#include "compiler/ops/check.h"
#include <math.h>
#include <string.h>

/* Checks slots and positions of a state op; any nonnegative i32 is a valid position. */
static sl_status check_rows(const sl_eval_args *a, const double *slots, const double *positions,
                            int64_t rows, int64_t slot_count, sl_error *err) {
    SL_TRY(sl_eval_bounds(a, "slots", slots, rows, slot_count, err));
    return sl_eval_bounds(a, "positions", positions, rows, (int64_t)INT32_MAX + 1, err);
}

sl_status sl_infer_causal_conv(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "x f32[T,C], w f32[C,W], slots i32[T], positions i32[T], "
                    "window f32[S,W-1,C] -> f32[T,C]",
                    err);
}

/* One row: convolves the window and x, then shifts x into the window. */
static void convolve(const double *x, const double *w, double *window, int64_t channels,
                     int64_t taps, double *out) {
    for (int64_t c = 0; c < channels; c++) {
        double sum = x[c] * w[c * taps + taps - 1];
        for (int64_t i = 0; i + 1 < taps; i++) sum += window[i * channels + c] * w[c * taps + i];
        out[c] = sl_silu(sum);
    }
    memmove(window, window + channels, (size_t)((taps - 2) * channels) * sizeof *window);
    memcpy(window + (taps - 2) * channels, x, (size_t)channels * sizeof *window);
}

sl_status sl_eval_causal_conv(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), channels = sl_eval_dim(a, 0, 1);
    const int64_t taps = sl_eval_dim(a, 1, 1), window_size = (taps - 1) * channels;
    SL_TRY(check_rows(a, in[2], in[3], rows, sl_eval_dim(a, 4, 0), err));
    for (int64_t t = 0; t < rows; t++) {
        double *window = a->in[4].data + (int64_t)in[2][t] * window_size;
        if (in[3][t] == 0) memset(window, 0, (size_t)window_size * sizeof *window);
        convolve(in[0] + t * channels, in[1], window, channels, taps,
                 a->out[0].data + t * channels);
    }
    return SL_OK;
}

sl_status sl_infer_decay_beta(const sl_infer_args *a, sl_error *err) {
    return sl_match(a,
                    "a f32[T,heads], b f32[T,heads], a_log f32[heads], dt_bias f32[heads] "
                    "-> f32[T,heads], f32[T,heads]",
                    err);
}

static double softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

sl_status sl_eval_decay_beta(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0), heads = sl_eval_dim(a, 0, 1);
    for (int64_t i = 0; i < rows * heads; i++) {
        const int64_t h = i % heads;
        a->out[0].data[i] = -exp(in[2][h]) * softplus(in[0][i] + in[3][h]);
        a->out[1].data[i] = sl_sigmoid(in[1][i]);
    }
    return SL_OK;
}

static sl_status infer_delta(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a,
                    "q f32[T,Hk,dk], k f32[T,Hk,dk], v f32[T,Hv,dv], decay f32[T,Hv], "
                    "beta f32[T,Hv], slots i32[T], positions i32[T], memory f32[S,Hv,dk,dv] "
                    "-> f32[T,Hv,dv]",
                    err));
    const int64_t key_heads = a->in[0].shape.dims[1], value_heads = a->in[2].shape.dims[1];
    if (value_heads % key_heads)
        return sl_fail(err, SL_INVALID, "%s: v has %lld heads, must be a multiple of q's %lld",
                       a->label, (long long)value_heads, (long long)key_heads);
    return SL_OK;
}

/* The operands of the recurrence and their sizes. */
typedef struct {
    const double *q, *k, *v, *decay, *beta, *slots, *positions;
    double *memory, *out;
    int64_t rows, key_heads, value_heads, key_size, value_size;
    bool tiled;
} delta;

static sl_status delta_of(const sl_eval_args *a, bool tiled, delta *d, sl_error *err) {
    const double *in[7];
    SL_TRY(sl_eval_inputs(a, 7, in, err));
    *d = (delta){.q = in[0],
                 .k = in[1],
                 .v = in[2],
                 .decay = in[3],
                 .beta = in[4],
                 .slots = in[5],
                 .positions = in[6],
                 .memory = a->in[7].data,
                 .out = a->out[0].data,
                 .rows = sl_eval_dim(a, 0, 0),
                 .key_heads = sl_eval_dim(a, 0, 1),
                 .value_heads = sl_eval_dim(a, 2, 1),
                 .key_size = sl_eval_dim(a, 0, 2),
                 .value_size = sl_eval_dim(a, 2, 2),
                 .tiled = tiled};
    return check_rows(a, d->slots, d->positions, d->rows, sl_eval_dim(a, 7, 0), err);
}

/* The row of q or k that value head h uses, and the row of v or out of head h. */
static const double *key_row(const delta *d, const double *tensor, int64_t t, int64_t h) {
    const int64_t key_head = d->tiled ? h % d->key_heads : h / (d->value_heads / d->key_heads);
    return tensor + (t * d->key_heads + key_head) * d->key_size;
}

static int64_t value_row(const delta *d, int64_t t, int64_t h) {
    return (t * d->value_heads + h) * d->value_size;
}

/* The state of row t's slot and head h; zeroed if a sequence starts at t. */
static double *memory_of(const delta *d, int64_t t, int64_t h) {
    const int64_t size = d->key_size * d->value_size;
    double *memory = d->memory + ((int64_t)d->slots[t] * d->value_heads + h) * size;
    if (d->positions[t] == 0) memset(memory, 0, (size_t)size * sizeof *memory);
    return memory;
}

/* Element c of M^T x. */
static double recall(const delta *d, const double *memory, const double *x, int64_t c) {
    double sum = 0;
    for (int64_t r = 0; r < d->key_size; r++) sum += memory[r * d->value_size + c] * x[r];
    return sum;
}

static void step_head(const delta *d, int64_t t, int64_t h) {
    double *memory = memory_of(d, t, h);
    const double *q = key_row(d, d->q, t, h), *k = key_row(d, d->k, t, h);
    const double *v = d->v + value_row(d, t, h);
    const double keep = exp(d->decay[t * d->value_heads + h]);
    const double beta = d->beta[t * d->value_heads + h];
    for (int64_t i = 0; i < d->key_size * d->value_size; i++) memory[i] *= keep;
    for (int64_t c = 0; c < d->value_size; c++) {
        const double change = beta * (v[c] - recall(d, memory, k, c));
        for (int64_t r = 0; r < d->key_size; r++) memory[r * d->value_size + c] += k[r] * change;
        d->out[value_row(d, t, h) + c] = recall(d, memory, q, c);
    }
}

sl_status sl_infer_delta_step(const sl_infer_args *a, sl_error *err) {
    return infer_delta(a, err);
}

sl_status sl_eval_delta_step(const sl_eval_args *a, sl_error *err) {
    delta d;
    SL_TRY(delta_of(a, ((const sl_delta_step_attrs *)a->attrs)->tiled, &d, err));
    for (int64_t t = 0; t < d.rows; t++)
        for (int64_t h = 0; h < d.value_heads; h++) step_head(&d, t, h);
    return SL_OK;
}

sl_status sl_infer_delta_chunk(const sl_infer_args *a, sl_error *err) {
    const sl_delta_chunk_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "chunk", attrs->chunk, 1, INT32_MAX, err));
    return infer_delta(a, err);
}

/* Rows [start, start + count) of one head and one slot; only the first may reset the state.  With G
 * the running sum of decay and S the state before the chunk, the changes V' are the solution of
 *   v'_i = beta_i (v_i - e^G_i S^T k_i - sum_{j<i} e^(G_i - G_j) (k_i . k_j) v'_j)
 * by forward substitution; then
 *   out_i = e^G_i S^T q_i + sum_{j<=i} e^(G_i - G_j) (q_i . k_j) v'_j
 *   S     = e^G_last S + sum_j e^(G_last - G_j) k_j v'_j^T. */
typedef struct {
    int64_t start, count, head;
    double *sums;    /* G, [count] */
    double *changes; /* V', [count, value_size] */
} chunk;

static double dot(const double *x, const double *y, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

static void sum_decay(const delta *d, const chunk *c) {
    double sum = 0;
    for (int64_t i = 0; i < c->count; i++)
        c->sums[i] = sum += d->decay[(c->start + i) * d->value_heads + c->head];
}

/* out += sum over j < limit of e^(G_i - G_j) (x . k_j) v'_j. */
static void add_changes(const delta *d, const chunk *c, int64_t i, const double *x, int64_t limit,
                        double *out) {
    for (int64_t j = 0; j < limit; j++) {
        const double *k = key_row(d, d->k, c->start + j, c->head);
        const double weight = exp(c->sums[i] - c->sums[j]) * dot(x, k, d->key_size);
        for (int64_t e = 0; e < d->value_size; e++)
            out[e] += weight * c->changes[j * d->value_size + e];
    }
}

static void solve_changes(const delta *d, const chunk *c, const double *memory) {
    for (int64_t i = 0; i < c->count; i++) {
        const int64_t t = c->start + i;
        const double *k = key_row(d, d->k, t, c->head), *v = d->v + value_row(d, t, c->head);
        double *change = c->changes + i * d->value_size;
        for (int64_t e = 0; e < d->value_size; e++)
            change[e] = exp(c->sums[i]) * recall(d, memory, k, e);
        add_changes(d, c, i, k, i, change);
        const double beta = d->beta[t * d->value_heads + c->head];
        for (int64_t e = 0; e < d->value_size; e++) change[e] = beta * (v[e] - change[e]);
    }
}

static void chunk_outputs(const delta *d, const chunk *c, const double *memory) {
    for (int64_t i = 0; i < c->count; i++) {
        const double *q = key_row(d, d->q, c->start + i, c->head);
        double *out = d->out + value_row(d, c->start + i, c->head);
        for (int64_t e = 0; e < d->value_size; e++)
            out[e] = exp(c->sums[i]) * recall(d, memory, q, e);
        add_changes(d, c, i, q, i + 1, out);
    }
}

static void update_memory(const delta *d, const chunk *c, double *memory) {
    const double last = c->sums[c->count - 1];
    for (int64_t i = 0; i < d->key_size * d->value_size; i++) memory[i] *= exp(last);
    for (int64_t j = 0; j < c->count; j++) {
        const double *k = key_row(d, d->k, c->start + j, c->head);
        const double keep = exp(last - c->sums[j]);
        for (int64_t r = 0; r < d->key_size; r++)
            for (int64_t e = 0; e < d->value_size; e++)
                memory[r * d->value_size + e] += keep * k[r] * c->changes[j * d->value_size + e];
    }
}

/* Number of rows from `start` on that form one chunk. */
static int64_t chunk_length(const delta *d, int64_t start, int64_t most) {
    int64_t end = start + 1;
    while (end < d->rows && end - start < most && d->slots[end] == d->slots[start] &&
           d->positions[end] != 0)
        end++;
    return end - start;
}

sl_status sl_eval_delta_chunk(const sl_eval_args *a, sl_error *err) {
    const sl_delta_chunk_attrs *attrs = a->attrs;
    delta d;
    SL_TRY(delta_of(a, attrs->tiled, &d, err));
    chunk c = {0};
    SL_TRY(sl_eval_scratch(a, d.rows, &c.sums, err));
    SL_TRY(sl_eval_scratch(a, d.rows * d.value_size, &c.changes, err));
    for (; c.start < d.rows; c.start += c.count) {
        c.count = chunk_length(&d, c.start, attrs->chunk);
        for (c.head = 0; c.head < d.value_heads; c.head++) {
            double *memory = memory_of(&d, c.start, c.head);
            sum_decay(&d, &c);
            solve_changes(&d, &c, memory);
            chunk_outputs(&d, &c, memory);
            update_memory(&d, &c, memory);
        }
    }
    return SL_OK;
}
