#include "core/window.h"

static int64_t item(const sl_integers *list, uint32_t axis, int64_t otherwise) {
    return list->count ? list->items[axis] : otherwise;
}

sl_window sl_window_of(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x,
                       const sl_type *y) {
    sl_window w = {.rank = SL_MAX_SPATIAL};
    const uint32_t rank = x->shape.rank - 2, missing = SL_MAX_SPATIAL - rank;
    for (uint32_t axis = 0; axis < SL_MAX_SPATIAL; axis++) {
        w.in[axis] = w.out[axis] = w.kernel[axis] = w.stride[axis] = w.dilation[axis] = 1;
        if (axis < missing) continue;
        const uint32_t a = axis - missing;
        w.in[axis] = x->shape.dims[a + 2];
        w.out[axis] = y->shape.dims[a + 2];
        w.kernel[axis] = kernel[a];
        w.stride[axis] = item(&lists->strides, a, 1);
        w.dilation[axis] = item(&lists->dilations, a, 1);
        w.before[axis] = item(&lists->before, a, 0);
        w.after[axis] = item(&lists->after, a, 0);
    }
    return w;
}

sl_window sl_window_over(const sl_window_lists *lists, const int64_t *kernel, const sl_type *x) {
    sl_window w = sl_window_of(lists, kernel, x, x);
    for (int i = 0; i < SL_MAX_SPATIAL; i++) {
        const int64_t spread = w.dilation[i] * (w.kernel[i] - 1) + 1;
        w.out[i] = (w.in[i] + w.before[i] + w.after[i] - spread) / w.stride[i] + 1;
    }
    return w;
}
