/* windows.cu - What windows over places see of each channel, as one number; a thread has a window.
 */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/walk.cuh"
#include "runtime/cuda/kernels/windows.h"

/* Taps of a window along an axis: [begin, end) are in x, and `counted` those in x or padding. */
struct seen {
    int64_t first, begin, end, counted;
};
DEVICE seen seen_of(const sl_pooled &a, int axis, int64_t window) {
    seen s = {window * a.stride[axis] - a.before[axis], 0, 0, 0};
    const int64_t step = a.dilation[axis], taps = a.taps[axis];
    if (s.first < 0) s.begin = min(taps, (-s.first + step - 1) / step);
    s.end = max(s.begin, min(taps, (a.in[axis] - s.first + step - 1) / step));
    s.counted = min(taps, (a.in[axis] + a.after[axis] - s.first + step - 1) / step);
    return s;
}

SL_CUDA_KERNEL(sl_pool, sl_pooled, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t rest = i;
    seen s[SL_WINDOW_AXES];
#pragma unroll
    for (int axis = SL_WINDOW_AXES - 1; axis >= 0; axis--) {
        const int64_t outer = quotient(rest, a.outs[axis]);
        s[axis] = seen_of(a, axis, rest - outer * a.outs[axis]);
        rest = outer;
    }
    const int64_t base = rest * a.in[0] * a.in[1] * a.in[2];
    number result = fold_start(a.type, a.how);
    for (int64_t p = s[0].begin; p < s[0].end; p++)
        for (int64_t q = s[1].begin; q < s[1].end; q++)
            for (int64_t r = s[2].begin; r < s[2].end; r++) {
                const int64_t plane = s[0].first + p * a.dilation[0];
                const int64_t row = s[1].first + q * a.dilation[1];
                const int64_t at = s[2].first + r * a.dilation[2];
                result =
                    folded(a.type, a.how, result,
                           load_number(a.type, a.x, base + (plane * a.in[1] + row) * a.in[2] + at));
            }
    double taps = 1;
#pragma unroll
    for (int axis = 0; axis < SL_WINDOW_AXES; axis++)
        taps *= (double)(a.include_pad ? s[axis].counted : s[axis].end - s[axis].begin);
    if (a.mean) result.re /= taps;
    store_number(a.type, a.out, i, result);
}
