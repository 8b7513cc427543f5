/* sliding.h - Index arithmetic of sliding windows (core/window.h), shared by the evaluator and all
 * devices.  Windows, taps and input positions ("places") are linear indices over all axes, the last
 * axis fastest. */
#ifndef SL_CORE_SLIDING_H
#define SL_CORE_SLIDING_H
#include "core/everywhere.h"
#include <stdint.h>

enum { SL_MAX_SPATIAL = 3 };

typedef struct {
    uint32_t rank;
    int64_t in[SL_MAX_SPATIAL], out[SL_MAX_SPATIAL], kernel[SL_MAX_SPATIAL];
    int64_t stride[SL_MAX_SPATIAL], dilation[SL_MAX_SPATIAL];
    int64_t before[SL_MAX_SPATIAL], after[SL_MAX_SPATIAL];
} sl_window;

SL_EVERYWHERE int64_t sl_window_at(const sl_window *w, int axis, int64_t out, int64_t tap) {
    return out * w->stride[axis] + tap * w->dilation[axis] - w->before[axis];
}
/* The numbers of windows, taps and input positions. */
SL_EVERYWHERE int64_t sl_window_outs(const sl_window *w) {
    return w->out[0] * w->out[1] * w->out[2];
}
SL_EVERYWHERE int64_t sl_window_taps(const sl_window *w) {
    return w->kernel[0] * w->kernel[1] * w->kernel[2];
}
SL_EVERYWHERE int64_t sl_window_ins(const sl_window *w) {
    return w->in[0] * w->in[1] * w->in[2];
}
/* The input position under tap k of window o, or -1 in padding. */
SL_EVERYWHERE int64_t sl_window_place(const sl_window *w, int64_t o, int64_t k) {
    int64_t place = 0, scale = 1;
    for (int axis = SL_MAX_SPATIAL - 1; axis >= 0; axis--) {
        const int64_t at = sl_window_at(w, axis, o % w->out[axis], k % w->kernel[axis]);
        if (at < 0 || at >= w->in[axis]) return -1;
        place += at * scale;
        scale *= w->in[axis];
        o /= w->out[axis];
        k /= w->kernel[axis];
    }
    return place;
}
/* The window whose tap k is at an input position, or -1. */
SL_EVERYWHERE int64_t sl_window_with(const sl_window *w, int64_t place, int64_t k) {
    int64_t o = 0, scale = 1;
    for (int axis = SL_MAX_SPATIAL - 1; axis >= 0; axis--) {
        const int64_t at = place % w->in[axis] - sl_window_at(w, axis, 0, k % w->kernel[axis]);
        const int64_t own = at / w->stride[axis];
        if (at < 0 || own * w->stride[axis] != at || own >= w->out[axis]) return -1;
        o += own * scale;
        scale *= w->out[axis];
        place /= w->in[axis];
        k /= w->kernel[axis];
    }
    return o;
}
#endif
