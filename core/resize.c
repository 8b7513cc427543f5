#include "core/resize.h"
#include <math.h>
#include <string.h>

static bool find(const char *const *names, size_t count, const char *text, int *out) {
    *out = 0;
    if (text[0] == 0) return true;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], text) == 0) {
            *out = (int)i;
            return true;
        }
    return false;
}
#define FIND(NAMES, TEXT, INDEX) find(NAMES, sizeof(NAMES) / sizeof *(NAMES), TEXT, INDEX)

bool sl_resize_mode_find(const char *text, sl_resize_mode *out) {
    static const char *const names[] = {"nearest", "linear", "cubic"};
    int index;
    const bool found = FIND(names, text, &index);
    *out = (sl_resize_mode)index;
    return found;
}

bool sl_resize_coordinates_find(const char *text, sl_resize_coordinates *out) {
    static const char *const names[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
        "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    int index;
    const bool found = FIND(names, text, &index);
    *out = (sl_resize_coordinates)index;
    return found;
}

bool sl_resize_rounding_find(const char *text, sl_resize_rounding *out) {
    static const char *const names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    int index;
    const bool found = FIND(names, text, &index);
    *out = (sl_resize_rounding)index;
    return found;
}

sl_resize_axis sl_resize_axis_of(const sl_resize_attrs *attrs, const sl_dims *x, uint32_t i) {
    sl_resize_axis axis = {.in = x->dims[i],
                           .cubic_a = attrs->cubic_a != 0 ? (double)attrs->cubic_a : -0.75,
                           .exclude_outside = attrs->exclude_outside,
                           .antialias = attrs->antialias};
    (void)sl_resize_mode_find(attrs->mode, &axis.mode);
    (void)sl_resize_coordinates_find(attrs->coordinates, &axis.coordinates);
    (void)sl_resize_rounding_find(attrs->rounding, &axis.rounding);
    const double in = (double)axis.in;
    if (attrs->scales.count) axis.scale = attrs->scales.items[i];
    axis.out =
        attrs->shape.rank ? attrs->shape.dims[i] : (int64_t)fmin(floor(in * axis.scale), 0x1p60);
    if (!attrs->scales.count) axis.scale = (double)axis.out / in;
    if (attrs->roi.count) {
        axis.roi_start = attrs->roi.items[i];
        axis.roi_end = attrs->roi.items[x->rank + i];
    }
    return axis;
}

bool sl_resize_is_identity(const sl_resize_axis *axis) {
    return axis->in == axis->out && axis->scale == 1 &&
           axis->coordinates != SL_RESIZE_TF_CROP_AND_RESIZE &&
           axis->coordinates != SL_RESIZE_TF_HALF_PIXEL_FOR_NN;
}

/* Offset of the filter's first tap relative to the left neighbour; antialiasing widens the
 * filter. */
static int64_t first_tap(const sl_resize_axis *axis) {
    const double reach = axis->mode == SL_RESIZE_CUBIC ? 2 : 1;
    const double scale = axis->antialias && axis->scale < 1 ? axis->scale : 1;
    return (int64_t)floor(-reach / scale) + 1;
}

int64_t sl_resize_taps(const sl_resize_axis *axis) {
    if (axis->mode == SL_RESIZE_NEAREST || sl_resize_is_identity(axis)) return 1;
    return 2 - 2 * first_tap(axis);
}

/* The input coordinate of output element `at`. */
static double place_of(const sl_resize_axis *axis, double at) {
    const double in = (double)axis->in, wide = axis->scale * in; /* may be fractional */
    const double half = (at + 0.5) / axis->scale - 0.5;
    switch (axis->coordinates) {
    case SL_RESIZE_HALF_PIXEL_SYMMETRIC:
        return in / 2 * (1 - (double)axis->out / wide) + half;
    case SL_RESIZE_PYTORCH_HALF_PIXEL:
        return axis->out > 1 ? half : 0;
    case SL_RESIZE_ALIGN_CORNERS:
        return axis->out == 1 ? 0 : at * (in - 1) / (wide - 1);
    case SL_RESIZE_ASYMMETRIC:
        return at / axis->scale;
    case SL_RESIZE_TF_HALF_PIXEL_FOR_NN:
        return (at + 0.5) / axis->scale;
    case SL_RESIZE_TF_CROP_AND_RESIZE: {
        const double part = (axis->roi_end - axis->roi_start) * (in - 1);
        return axis->roi_start * (in - 1) + (axis->out == 1 ? part / 2 : at * part / (wide - 1));
    }
    default:
        return half;
    }
}

static double nearest(sl_resize_rounding rounding, double place) {
    switch (rounding) {
    case SL_RESIZE_ROUND_PREFER_CEIL:
        return floor(place + 0.5);
    case SL_RESIZE_FLOOR:
        return floor(place);
    case SL_RESIZE_CEIL:
        return ceil(place);
    default:
        return ceil(place - 0.5);
    }
}

/* The filter's weight at a distance. */
static double filter(const sl_resize_axis *axis, double distance) {
    const double x = fabs(distance), a = axis->cubic_a;
    if (axis->mode == SL_RESIZE_LINEAR) return x < 1 ? 1 - x : 0;
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int64_t within(const sl_resize_axis *axis, double place) {
    return place < 0 ? 0 : place > (double)(axis->in - 1) ? axis->in - 1 : (int64_t)place;
}

bool sl_resize_at(const sl_resize_axis *axis, int64_t at, int64_t *indices, double *weights) {
    if (sl_resize_is_identity(axis)) {
        indices[0] = at;
        weights[0] = 1;
        return true;
    }
    const double place = place_of(axis, (double)at);
    if (axis->coordinates == SL_RESIZE_TF_CROP_AND_RESIZE &&
        !(place >= 0 && place <= (double)(axis->in - 1)))
        return false;
    if (axis->mode == SL_RESIZE_NEAREST) {
        indices[0] = within(axis, nearest(axis->rounding, place));
        weights[0] = 1;
        return true;
    }
    const int64_t first = first_tap(axis), taps = sl_resize_taps(axis);
    const double left = ceil(place) - 1; /* left neighbour */
    const double stretch = axis->antialias && axis->scale < 1 ? axis->scale : 1;
    double sum = 0;
    for (int64_t i = 0; i < taps; i++) {
        const double from = left + (double)(first + i);
        indices[i] = within(axis, from);
        weights[i] = filter(axis, (from - place) * stretch);
        if (axis->exclude_outside && (from < 0 || from > (double)(axis->in - 1))) weights[i] = 0;
        sum += weights[i];
    }
    for (int64_t i = 0; i < taps; i++) weights[i] /= sum;
    return true;
}
