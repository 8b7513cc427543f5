/* convolution_im2col.h - im2col: gathers the input patch under each kernel tap, so that
 * neighbouring windows are adjacent. */
#ifndef SL_RUNTIME_CPU_CONVOLUTION_IM2COL_H
#define SL_RUNTIME_CPU_CONVOLUTION_IM2COL_H
#include "core/window.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* The even elements of two concatenated vectors. */
INLINE vf evens(vf a, vf b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#endif
}

/* The odd elements. */
INLINE vf odds(vf a, vf b) {
#if defined(__AVX512F__)
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX2__)
    return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/* n elements at, at + stride, ... of a row; zeros outside [0, length). */
INLINE void see_line(const float *row, int64_t length, int64_t at, int64_t stride, int64_t n,
                     float *to) {
    /* For stride 1 the division is avoided. */
    int64_t first = at >= 0 ? 0 : stride == 1 ? -at : parts_of(-at, stride);
    int64_t last = at >= length ? 0 : stride == 1 ? length - at : parts_of(length - at, stride);
    last = least(last, n);
    first = least(first, last);
    FOR_VECTORS(i, count, first, vstore_n(to + i, vzero(), count););
    int64_t i = first;
    if (stride == 1) {
        const float *from = row + at;
        for (; i + LANES <= last; i += LANES) vstore(to + i, vload(from + i));
        if (i < last) vstore_n(to + i, vload_n(from + i, last - i), last - i);
        i = last;
    } else if (stride == 2) { /* the last load reads one element more than it needs */
        for (; i + LANES <= last && at + 2 * (i + LANES) <= length; i += LANES) {
            const float *from = row + at + 2 * i;
            vstore(to + i, evens(vload(from), vload(from + LANES)));
        }
    }
    for (; i < last; i++) to[i] = row[at + i * stride];
    float *rest = to + last;
    FOR_VECTORS(k, count, n - last, vstore_n(rest + k, vzero(), count););
}

/* The inputs under tap k of windows [o, o + n) of a channel; they may span several output rows. */
static inline void see(const sl_window *w, const float *x, int64_t o, int64_t n, int64_t k,
                       float *to) {
    const int64_t kx = k % w->kernel[2], ky = k / w->kernel[2] % w->kernel[1];
    const int64_t kz = k / w->kernel[2] / w->kernel[1];
    int64_t ox = o % w->out[2], oy = o / w->out[2] % w->out[1], oz = o / w->out[2] / w->out[1];
    while (n > 0) {
        const int64_t run = least(n, w->out[2] - ox);
        const int64_t y = sl_window_at(w, 1, oy, ky), z = sl_window_at(w, 0, oz, kz);
        if (y < 0 || y >= w->in[1] || z < 0 || z >= w->in[0])
            FOR_VECTORS(i, count, run, vstore_n(to + i, vzero(), count););
        else
            see_line(x + (z * w->in[1] + y) * w->in[2], w->in[2], sl_window_at(w, 2, ox, kx),
                     w->stride[2], run, to);
        n -= run, to += run;
        ox = 0;
        if (++oy == w->out[1]) oy = 0, oz++;
    }
}
#endif
