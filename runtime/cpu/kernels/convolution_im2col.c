/* convolution_im2col.c - im2col, and causal convolutions. */
#include "core/ops.h"
#include "core/window.h"
#include "runtime/cpu/kernels/element.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* ---- im2col: an item is an output row, which is one window ---- */

static sl_window window_of(const sl_im2col_args *a) {
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    return sl_window_over(&lists, a->attrs.kernel.items, &a->x.type);
}

SPLIT(im2col) {
    const sl_im2col_args *a = args;
    return (sl_split){dim(&a->out.type, 0), grain_of(dim(&a->out.type, 1) * 8), 0};
}
RUN(im2col) {
    const sl_im2col_args *a = args;
    const sl_window w = window_of(a);
    const int64_t taps = sl_window_taps(&w), outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    const int64_t channels = dim(&a->x.type, 1);
    const size_t bytes = sl_dtype_infos[a->x.type.dtype].bytes;
    for (int64_t row = begin; row < end; row++) {
        char *to = (char *)a->out.data + (size_t)(row * channels * taps) * bytes;
        const char *x = (const char *)a->x.data + (size_t)(row / outs * channels * ins) * bytes;
        for (int64_t k = 0; k < taps; k++) {
            const int64_t place = sl_window_place(&w, row % outs, k);
            for (int64_t c = 0; c < channels; c++) {
                char *cell = to + (size_t)(c * taps + k) * bytes;
                if (place >= 0)
                    memcpy(cell, x + (size_t)(c * ins + place) * bytes, bytes);
                else
                    memset(cell, 0, bytes);
            }
        }
    }
    return SL_OK;
}

/* ---- causal_conv1d: an item is a channel of one sample ---- */

SPLIT(causal_conv1d) {
    const sl_causal_conv1d_args *a = args;
    return (sl_split){dim(&a->x.type, 0) * dim(&a->x.type, 1),
                      grain_of(dim(&a->x.type, 2) * dim(&a->w.type, 1) / 4), 0};
}

static void causal_f32(const sl_causal_conv1d_args *a, const float *biases, int64_t channel,
                       int64_t dilation) {
    const int64_t length = dim(&a->x.type, 2), taps = dim(&a->w.type, 1);
    const int64_t c = channel % dim(&a->x.type, 1);
    const float *x = (const float *)a->x.data + channel * length;
    const float *w = (const float *)a->w.data + c * taps, bias = biases ? biases[c] : 0;
    float *out = (float *)a->out.data + channel * length;
    FOR_VECTORS(i, n, length, vstore_n(out + i, vsplat(bias), n););
    for (int64_t k = 0; k < taps; k++) {
        const int64_t back = dilation * (taps - 1 - k);
        if (back >= length) continue;
        const vf weight = vsplat(w[k]);
        FOR_VECTORS(i, n, length - back, {
            float *to = out + back + i;
            vstore_n(to, vfma(vload_n(x + i, n), weight, vload_n(to, n)), n);
        });
    }
}

static void causal_any(const sl_causal_conv1d_args *a, const void *bias, int64_t channel,
                       int64_t dilation) {
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t length = dim(&a->x.type, 2), taps = dim(&a->w.type, 1);
    const int64_t c = channel % dim(&a->x.type, 1), first = channel * length;
    for (int64_t t = 0; t < length; t++) {
        double sum = bias ? real_at(dtype, bias, c) : 0;
        for (int64_t k = 0; k < taps; k++) {
            const int64_t at = t - dilation * (taps - 1 - k);
            if (at >= 0)
                sum +=
                    real_at(dtype, a->w.data, c * taps + k) * real_at(dtype, a->x.data, first + at);
        }
        put_real(dtype, a->out.data, first + t, sum);
    }
}

RUN(causal_conv1d) {
    const sl_causal_conv1d_args *a = args;
    const int64_t dilation = a->attrs.dilation ? a->attrs.dilation : 1;
    const void *bias = SL_LIST_COUNT(a->bias) ? a->bias.items[0].data : NULL;
    for (int64_t item = begin; item < end; item++)
        if (a->x.type.dtype == SL_DTYPE_f32)
            causal_f32(a, bias, item, dilation);
        else
            causal_any(a, bias, item, dilation);
    return SL_OK;
}
