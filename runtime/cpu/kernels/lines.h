/* lines.h - Division of a tensor into lines along one axis. */
#ifndef SL_RUNTIME_CPU_LINES_H
#define SL_RUNTIME_CPU_LINES_H
#include "runtime/cpu/kernels/elements.h"

/* The extents around an axis.  An item is up to `block` adjacent lines. */
typedef struct {
    int64_t outer, extent, inner, block, blocks;
} lines;

enum { MOST_LINES = 64 };

static inline lines lines_of(const sl_dims *x, uint32_t axis) {
    lines l = {head_of(x, axis), x->dims[axis], sl_dims_tail(x, axis + 1), 0, 0};
    l.block = least(l.inner, MOST_LINES);
    l.blocks = parts_of(l.inner, l.block);
    return l;
}
#endif
