/* convolution.cu - im2col, transposed and causal convolutions of any plain type; one thread per
 * element of the result. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/strides.cuh"
#include "runtime/cuda/kernels/windows.h"

SL_CUDA_KERNEL(sl_im2col, sl_columns, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t rest = i;
    const int64_t tap = take_coordinate(rest, sl_window_taps(&a.w));
    const int64_t channel = take_coordinate(rest, a.channels);
    const int64_t window = take_coordinate(rest, sl_window_outs(&a.w));
    const int64_t place = sl_window_place(&a.w, window, tap);
    const int64_t from = (rest * a.channels + channel) * sl_window_ins(&a.w) + place;
    store_number(a.type, a.out, i,
                 place < 0 ? fold_start(a.type, SL_FOLD_ADD) : load_number(a.type, a.x, from));
}

/* The initial value of a channel's sum: its bias, or 0. */
DEVICE number bias_of(int type, const void *bias, int64_t channel) {
    return bias ? load_number(type, bias, channel) : fold_start(type, SL_FOLD_ADD);
}

SL_CUDA_KERNEL(sl_conv_transposed, sl_transposed, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const int64_t windows = sl_window_outs(&a.w), taps = sl_window_taps(&a.w);
    int64_t rest = i;
    const int64_t place = take_coordinate(rest, sl_window_ins(&a.w));
    const int64_t result = take_coordinate(rest, a.results); /* channel in the group */
    const int64_t group = rest % a.groups;
    number sum = bias_of(a.type, a.bias, group * a.results + result);
    for (int64_t k = 0; k < taps; k++) {
        const int64_t window = sl_window_with(&a.w, place, k);
        for (int64_t s = 0; window >= 0 && s < a.sources; s++) {
            const int64_t from = (rest * a.sources + s) * windows + window;
            const int64_t weight = ((group * a.sources + s) * a.results + result) * taps + k;
            sum = sum_of(sum, product_of(a.type, load_number(a.type, a.x, from),
                                         load_number(a.type, a.weight, weight)));
        }
    }
    store_number(a.type, a.out, i, sum);
}

SL_CUDA_KERNEL(sl_conv_causal, sl_causal, SL_WINDOW_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    int64_t rest = i;
    const int64_t time = take_coordinate(rest, a.length), channel = rest % a.channels;
    number sum = bias_of(a.type, a.bias, channel);
    for (int64_t k = 0; k < a.taps; k++) {
        const int64_t back = a.dilation * (a.taps - 1 - k);
        if (back > time) continue;
        sum = sum_of(sum, product_of(a.type, load_number(a.type, a.x, i - back),
                                     load_number(a.type, a.weight, channel * a.taps + k)));
    }
    store_number(a.type, a.out, i, sum);
}
