/* delta.c - The gated delta net: short convolution, gates, and the recurrence token by token. */
#include "runtime/cpu/kernels/delta.h"

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
