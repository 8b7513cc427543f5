/* delta.c - The gated delta net: short convolution, gates, and the recurrence token by token. */
#include "runtime/cpu/kernels/delta.h"

/* ---- causal_conv: an item is a block of channels, over all rows ---- */

enum { CHANNELS = 1024, MOST_TAPS = 64 };

SPLIT(causal_conv) {
    const sl_causal_conv_args *a = args;
    const int64_t taps = dim(&a->w.type, 1);
    return (sl_split){parts_of(dim(&a->x.type, 1), CHANNELS),
                      grain_of(dim(&a->x.type, 0) * CHANNELS * (taps + 4) / 8),
                      (size_t)taps * CHANNELS * sizeof(float)};
}

/* The even lanes of a and b, and the odd lanes. */
#if defined(__AVX512F__)
#define LANES_FROM(i)                                                                              \
    i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14, i + 16, i + 18, i + 20, i + 22, i + 24, \
        i + 26, i + 28, i + 30
#elif defined(__AVX2__)
#define LANES_FROM(i) i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14
#else
#define LANES_FROM(i) i, i + 2, i + 4, i + 6
#endif
INLINE vf veven(vf a, vf b) {
    return __builtin_shufflevector(a, b, LANES_FROM(0));
}
INLINE vf vodd(vf a, vf b) {
    return __builtin_shufflevector(a, b, LANES_FROM(1));
}

/* Transposes the taps of n channels from [channel][tap] to [tap][CHANNELS]. */
static void transpose_taps(const float *w, int64_t n, int64_t tap_count, float *taps) {
    int64_t c = 0;
    for (; tap_count == 4 && c + LANES <= n; c += LANES) {
        const float *from = w + c * 4;
        const vf a = vload(from), b = vload(from + LANES);
        const vf d = vload(from + 2 * LANES), e = vload(from + 3 * LANES);
        const vf even_ab = veven(a, b), odd_ab = vodd(a, b);
        const vf even_de = veven(d, e), odd_de = vodd(d, e);
        vstore(taps + c, veven(even_ab, even_de));
        vstore(taps + CHANNELS + c, veven(odd_ab, odd_de));
        vstore(taps + 2 * CHANNELS + c, vodd(even_ab, even_de));
        vstore(taps + 3 * CHANNELS + c, vodd(odd_ab, odd_de));
    }
    for (; c < n; c++)
        for (int64_t i = 0; i < tap_count; i++) taps[i * CHANNELS + c] = w[c * tap_count + i];
}

/* Consecutive rows of one slot in one block of channels.  Row i is in x, or for i < 0 in the window
 * that holds the preceding rows. */
typedef struct {
    const float *x, *taps;
    float *window, *out;
    int64_t stride, n, tap_count; /* stride between rows; channels of the block */
} conv;

static const float *conv_row(const conv *v, int64_t i) {
    return i < 0 ? v->window + (v->tap_count - 1 + i) * v->stride : v->x + i * v->stride;
}

/* Row i of the output; tap_count may be a compile-time constant.  Rows are pages apart, beyond the
 * reach of the hardware prefetcher, so the next ones are prefetched here. */
enum { AHEAD_ROWS = 2 };
INLINE void convolve(const conv *v, int64_t i, const int64_t tap_count) {
    const float *rows[MOST_TAPS];
    for (int64_t k = 0; k < tap_count; k++) rows[k] = conv_row(v, i + 1 - tap_count + k);
    float *out = v->out + i * v->stride;
    const uintptr_t ahead = AHEAD_ROWS * (uintptr_t)v->stride * sizeof(float);
    FOR_VECTORS(c, count, v->n, {
        __builtin_prefetch((const void *)((uintptr_t)(rows[tap_count - 1] + c) + ahead));
        __builtin_prefetch((const void *)((uintptr_t)(out + c) + ahead), 1);
        vf acc = vzero();
        for (int64_t k = 0; k < tap_count; k++) {
            const vf tap = vload_n(v->taps + k * CHANNELS + c, count);
            acc = vfma(vload_n(rows[k] + c, count), tap, acc);
        }
        vstore_n(out + c, vsilu(acc), count);
    });
}

/* Keeps the last tap_count - 1 rows as the window of the next forward pass. */
static void keep_window(const conv *v, int64_t rows) {
    for (int64_t k = 0; k + 1 < v->tap_count; k++)
        memcpy(v->window + k * v->stride, conv_row(v, rows + 1 - v->tap_count + k),
               (size_t)v->n * sizeof(float));
}

static void convolve_block(const sl_causal_conv_args *a, int64_t first, float *taps) {
    const int64_t channels = dim(&a->x.type, 1), rows = dim(&a->x.type, 0);
    const int32_t *slots = a->slots.data, *positions = a->positions.data;
    conv v = {.taps = taps,
              .stride = channels,
              .n = least(CHANNELS, channels - first),
              .tap_count = dim(&a->w.type, 1)};
    transpose_taps((const float *)a->w.data + first * v.tap_count, v.n, v.tap_count, taps);
    for (int64_t t = 0, n; t < rows; t += n) {
        v.x = (const float *)a->x.data + t * channels + first;
        v.out = (float *)a->out.data + t * channels + first;
        v.window = (float *)a->window.data + slots[t] * (v.tap_count - 1) * channels + first;
        for (int64_t k = 0; positions[t] == 0 && k + 1 < v.tap_count; k++)
            memset(v.window + k * channels, 0, (size_t)v.n * sizeof(float));
        for (n = 1; t + n < rows && slots[t + n] == slots[t] && positions[t + n] != 0;) n++;
        for (int64_t i = 0; i < n; i++)
            if (v.tap_count == 4)
                convolve(&v, i, 4);
            else
                convolve(&v, i, v.tap_count);
        keep_window(&v, n);
    }
}

RUN(causal_conv) {
    const sl_causal_conv_args *a = args;
    if (dim(&a->w.type, 1) > MOST_TAPS)
        return sl_fail(worker->err, SL_UNSUPPORTED,
                       "causal_conv: %lld taps, at most %d are supported",
                       (long long)dim(&a->w.type, 1), MOST_TAPS);
    SL_TRY(check_rows(&a->slots, &a->positions, &a->window.type, worker->err));
    for (int64_t item = begin; item < end; item++)
        convolve_block(a, item * CHANNELS, worker->scratch);
    return SL_OK;
}

/* ---- decay_beta: an item is a row ---- */

SPLIT(decay_beta) {
    const sl_decay_beta_args *a = args;
    return (sl_split){dim(&a->a.type, 0), grain_of(dim(&a->a.type, 1) * 8), 0};
}
RUN(decay_beta) {
    const sl_decay_beta_args *p = args;
    const int64_t heads = dim(&p->a.type, 1);
    const float *a_log = p->a_log.data, *bias = p->dt_bias.data;
    for (int64_t at = begin * heads; at < end * heads; at += heads) {
        const float *a = (const float *)p->a.data + at, *b = (const float *)p->b.data + at;
        float *decay = (float *)p->decay.data + at, *beta = (float *)p->beta.data + at;
        FOR_VECTORS(i, count, heads, {
            const vf x = vload_n(a + i, count) + vload_n(bias + i, count);
            const vf softplus = vmax(vzero(), x) + vlog1p(vexp(-vabs(x)));
            vstore_n(decay + i, -vexp(vload_n(a_log + i, count)) * softplus, count);
            vstore_n(beta + i, vsigmoid(vload_n(b + i, count)), count);
        });
    }
    return SL_OK;
}

/* ---- delta_step: an item is a value head, over all rows ---- */

SPLIT(delta_step) {
    return (sl_split){dim(&((const sl_delta_step_args *)args)->v.type, 1), 1, 0};
}
RUN(delta_step) {
    const sl_delta_step_args *a = args;
    SL_TRY(check_rows(&a->slots, &a->positions, &a->memory.type, worker->err));
    for (int64_t h = begin; h < end; h++) {
        const delta d = delta_head(a, h);
        for (int64_t t = 0; t < d.rows; t++) delta_one(&d, t);
    }
    return SL_OK;
}
