/* window.h - Windows that slide over the places of a tensor: for convolutions and pools.
 *
 * Along each of 1 to 3 spatial axes a window has `kernel` taps, `dilation` apart, and moves by
 * `stride`; tap k of window o lies at o * stride + k * dilation - before.  What lies outside of
 * [0, in) is padding. */
#ifndef SL_CORE_WINDOW_H
#define SL_CORE_WINDOW_H
#include "core/attrs.h"

enum { SL_MAX_SPATIAL = 3 };

/* Attributes as they are given: one number for each spatial axis, or none, which stands for 1 (of
 * strides and dilations) or 0 (of pads). */
typedef struct {
    sl_integers strides, before, after, dilations;
} sl_window_lists;
#define SL_WINDOW_LISTS(ATTRS)                                                                     \
    ((sl_window_lists){(ATTRS)->strides, (ATTRS)->pads_before, (ATTRS)->pads_after,                \
                       (ATTRS)->dilations})

typedef struct {
    uint32_t rank;
    int64_t in[SL_MAX_SPATIAL], out[SL_MAX_SPATIAL], kernel[SL_MAX_SPATIAL];
    int64_t stride[SL_MAX_SPATIAL], dilation[SL_MAX_SPATIAL];
    int64_t before[SL_MAX_SPATIAL], after[SL_MAX_SPATIAL];
} sl_window;

/* The window over places x (dims from 2 on) with results at places y: all of it known to be right.
 * Axes that are missing are put in front, with one place and one tap, so that rank is always 3. */
sl_window sl_window_of(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x,
                       const sl_type *y);

static inline int64_t sl_window_at(const sl_window *w, int axis, int64_t out, int64_t tap) {
    return out * w->stride[axis] + tap * w->dilation[axis] - w->before[axis];
}
/* How many windows, taps and places there are. */
static inline int64_t sl_window_outs(const sl_window *w) {
    return w->out[0] * w->out[1] * w->out[2];
}
static inline int64_t sl_window_taps(const sl_window *w) {
    return w->kernel[0] * w->kernel[1] * w->kernel[2];
}
static inline int64_t sl_window_ins(const sl_window *w) {
    return w->in[0] * w->in[1] * w->in[2];
}
/* Where tap k of window o lies among the places, or -1 in padding; both count all axes. */
static inline int64_t sl_window_place(const sl_window *w, int64_t o, int64_t k) {
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
#endif
