/* seen.h - What windows see of the places of a channel, gathered so that neighbouring windows lie
 * side by side. */
#ifndef SL_RUNTIME_CPU_SEEN_H
#define SL_RUNTIME_CPU_SEEN_H
#include "core/window.h"
#include "runtime/cpu/kernels/kernels.h"
#include <string.h>

/* Elements at, at + stride, ... of a row of `length`: n of them, zeros where there are none. */
static inline void see_line(const float *row, int64_t length, int64_t at, int64_t stride, int64_t n,
                            float *to) {
    int64_t first = at < 0 ? parts_of(-at, stride) : 0;
    int64_t last = at >= length ? 0 : parts_of(length - at, stride);
    last = least(last, n);
    first = least(first, last);
    memset(to, 0, (size_t)first * sizeof *to);
    if (stride == 1 && last > first)
        memcpy(to + first, row + at + first, (size_t)(last - first) * sizeof *to);
    else
        for (int64_t i = first; i < last; i++) to[i] = row[at + i * stride];
    memset(to + last, 0, (size_t)(n - last) * sizeof *to);
}

/* What tap k of windows [o, o + n) sees of a channel; they may go over several output rows. */
static inline void see(const sl_window *w, const float *x, int64_t o, int64_t n, int64_t k,
                       float *to) {
    const int64_t kx = k % w->kernel[2], ky = k / w->kernel[2] % w->kernel[1];
    const int64_t kz = k / w->kernel[2] / w->kernel[1];
    while (n > 0) {
        const int64_t ox = o % w->out[2], oy = o / w->out[2] % w->out[1];
        const int64_t run = least(n, w->out[2] - ox);
        const int64_t y = sl_window_at(w, 1, oy, ky);
        const int64_t z = sl_window_at(w, 0, o / w->out[2] / w->out[1], kz);
        if (y < 0 || y >= w->in[1] || z < 0 || z >= w->in[0])
            memset(to, 0, (size_t)run * sizeof *to);
        else
            see_line(x + (z * w->in[1] + y) * w->in[2], w->in[2], sl_window_at(w, 2, ox, kx),
                     w->stride[2], run, to);
        o += run, n -= run, to += run;
    }
}
#endif
