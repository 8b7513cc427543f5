/* window.h - Sliding windows of convolutions and pools.
 *
 * Along each of 1 to 3 spatial axes a window has `kernel` taps, `dilation` apart, and moves by
 * `stride`; tap k of window o lies at o * stride + k * dilation - before.  Positions outside of
 * [0, in) are padding. */
#ifndef SL_CORE_WINDOW_H
#define SL_CORE_WINDOW_H
#include "core/attrs.h"
#include "core/sliding.h"

/* The attributes: one number per spatial axis, or an empty list, which stands for 1 (strides and
 * dilations) or 0 (pads). */
typedef struct {
    sl_integers strides, before, after, dilations;
} sl_window_lists;
#define SL_WINDOW_LISTS(ATTRS)                                                                     \
    ((sl_window_lists){(ATTRS)->strides, (ATTRS)->pads_before, (ATTRS)->pads_after,                \
                       (ATTRS)->dilations})

/* Those of conv, from an op that has them, too. */
#define SL_CONV_ATTRS(ATTRS)                                                                       \
    ((sl_conv_attrs){.strides = (ATTRS)->strides,                                                  \
                     .pads_before = (ATTRS)->pads_before,                                          \
                     .pads_after = (ATTRS)->pads_after,                                            \
                     .dilations = (ATTRS)->dilations,                                              \
                     .groups = (ATTRS)->groups})

/* The window over the spatial dims of x (from dim 2 on) with results y; the arguments must be
 * valid. Missing axes are added in front, with size 1 and one tap, so that rank is always 3. */
sl_window sl_window_of(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x,
                       const sl_type *y);
/* The same with as many windows as fit into the input and its padding. */
sl_window sl_window_over(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x);
#endif
