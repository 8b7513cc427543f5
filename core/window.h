/* window.h - Windows that slide over the places of a tensor: for convolutions and pools.
 *
 * Along each of 1 to 3 spatial axes a window has `kernel` taps, `dilation` apart, and moves by
 * `stride`; tap k of window o lies at o * stride + k * dilation - before.  What lies outside of
 * [0, in) is padding. */
#ifndef SL_CORE_WINDOW_H
#define SL_CORE_WINDOW_H
#include "core/attrs.h"
#include "core/sliding.h"

/* Attributes as they are given: one number for each spatial axis, or none, which stands for 1 (of
 * strides and dilations) or 0 (of pads). */
typedef struct {
    sl_integers strides, before, after, dilations;
} sl_window_lists;
#define SL_WINDOW_LISTS(ATTRS)                                                                     \
    ((sl_window_lists){(ATTRS)->strides, (ATTRS)->pads_before, (ATTRS)->pads_after,                \
                       (ATTRS)->dilations})

/* The window over places x (dims from 2 on) with results at places y: all of it known to be right.
 * Axes that are missing are put in front, with one place and one tap, so that rank is always 3. */
sl_window sl_window_of(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x,
                       const sl_type *y);
/* The same with as many windows as lie in the places and their padding. */
sl_window sl_window_over(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x);
#endif
