/* pool.cu - Pooling and its gradients; one thread per window or position. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/strides.cuh"
#include "runtime/cuda/kernels/windows.h"

/* Taps of a window along one axis: those in [begin, end) are inside x, `counted` are inside x or
 * the padding. */
struct seen {
    int64_t first, begin, end, counted;
};
DEVICE seen seen_of(const sl_window &w, int axis, int64_t window) {
    seen s = {sl_window_at(&w, axis, window, 0), 0, 0, 0};
    const int64_t step = w.dilation[axis], taps = w.kernel[axis];
    if (s.first < 0) s.begin = min(taps, (-s.first + step - 1) / step);
    s.end = max(s.begin, min(taps, (w.in[axis] - s.first + step - 1) / step));
    s.counted = min(taps, (w.in[axis] + w.after[axis] - s.first + step - 1) / step);
    return s;
}
/* Number of taps of a window inside x, or inside x and the padding. */
DEVICE double taps_counted(const sl_window &w, int64_t window, bool padding) {
    double taps = 1;
    for (int axis = SL_MAX_SPATIAL - 1; axis >= 0; axis--) {
        const seen s = seen_of(w, axis, take_coordinate(window, w.out[axis]));
        taps *= (double)(padding ? s.counted : s.end - s.begin);
    }
    return taps;
}

SL_CUDA_KERNEL(sl_pool, sl_pooled, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t rest = i;
    seen s[SL_MAX_SPATIAL];
#pragma unroll
    for (int axis = SL_MAX_SPATIAL - 1; axis >= 0; axis--)
        s[axis] = seen_of(a.w, axis, take_coordinate(rest, a.w.out[axis]));
    const int64_t base = rest * sl_window_ins(&a.w);
    number result = fold_start(a.type, a.how);
    for (int64_t p = s[0].begin; p < s[0].end; p++)
        for (int64_t q = s[1].begin; q < s[1].end; q++)
            for (int64_t r = s[2].begin; r < s[2].end; r++) {
                const int64_t plane = s[0].first + p * a.w.dilation[0];
                const int64_t row = s[1].first + q * a.w.dilation[1];
                const int64_t at = s[2].first + r * a.w.dilation[2];
                number x =
                    load_number(a.type, a.x, base + (plane * a.w.in[1] + row) * a.w.in[2] + at);
                if (a.power != 0) x.re = pow(fabs(x.re), a.power);
                result = folded(a.type, a.how, result, x);
            }
    if (a.power != 0) result.re = pow(result.re, 1 / a.power);
    if (a.mean) result.re /= taps_counted(a.w, i % sl_window_outs(&a.w), a.include_pad);
    store_number(a.type, a.out, i, result);
}

/* ---- index of the maximum, and gradients ---- */

DEVICE bool is_above(int type, number x, number most) {
    if (!is_real(type)) return is_less(type, most.whole, x.whole);
    return x.re > most.re || (x.re != x.re && most.re == most.re);
}
/* Index of a position in column-major order (first axis fastest). */
DEVICE int64_t column_major(const sl_window &w, int64_t place) {
    const int64_t last = take_coordinate(place, w.in[2]), middle = take_coordinate(place, w.in[1]);
    return place + w.in[0] * (middle + w.in[1] * last);
}
SL_CUDA_KERNEL(sl_pool_largest, sl_pooled, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t channel = i, best = -1;
    const int64_t window = take_coordinate(channel, sl_window_outs(&a.w));
    const int64_t base = channel * sl_window_ins(&a.w);
    number most = number_of(0);
    for (int64_t k = 0; k < sl_window_taps(&a.w); k++) {
        const int64_t place = sl_window_place(&a.w, window, k);
        if (place < 0) continue;
        const number x = load_number(a.type, a.x, base + place);
        if (best >= 0 && !is_above(a.type, x, most)) continue;
        best = place;
        most = x;
    }
    const int64_t counted = a.column_major ? column_major(a.w, best) : best;
    ((int64_t *)a.out)[i] = best < 0 ? -1 : base + counted;
}

SL_CUDA_KERNEL(sl_pool_backward, sl_pool_gradient, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t channel = i;
    const int64_t place = take_coordinate(channel, sl_window_ins(&a.w));
    double sum = 0;
    for (int64_t k = 0; k < sl_window_taps(&a.w); k++) {
        const int64_t window = sl_window_with(&a.w, place, k);
        const int64_t at = channel * sl_window_outs(&a.w) + window;
        if (window < 0 || (a.largest && a.largest[at] != i)) continue;
        const double dy = load_number(a.type, a.dy, at).re;
        sum += a.largest ? dy : dy / taps_counted(a.w, window, a.include_pad);
    }
    store_number(a.type, a.dx, i, number_of(sum));
}
