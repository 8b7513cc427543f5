/* resize.c - Resize and Upsample. */
#include "frontend/onnx/families.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    sl_dims from, to;
    double scales[SL_MAX_RANK];
    const char *roi; /* starts, then ends of the cropped region */
} sizes;

/* A dim from an unchecked number. */
static int64_t whole(sl_onnx_call *c, double size) {
    if (size >= 0 && size < 1e14) return (int64_t)size;
    sl_onnx_wrong(c, "a dim is %g, which is out of range", size);
    return 0;
}

static const char *reals_text(sl_onnx_call *c, const double *items, uint32_t count) {
    const size_t room = (size_t)count * 32 + 3;
    char *text = sl_onnx_memory(c, room, 1), *at = text;
    if (!text) return "[]";
    *at++ = '[';
    for (uint32_t i = 0; i < count; i++)
        at += snprintf(at, room - (size_t)(at - text), "%s%.17g", i ? ", " : "", items[i]);
    *at = ']';
    return text;
}

/* Scales the axes (all if the list is empty); dims are rounded down. */
static void apply_scales(sl_onnx_call *c, sizes *s, const sl_reals *scales, const sl_dims *axes) {
    if (scales->count != axes->rank) {
        sl_onnx_wrong(c, "%u scales for %u axes", scales->count, axes->rank);
        return;
    }
    for (uint32_t i = 0; i < axes->rank; i++) {
        const double scale = scales->items[i];
        const int64_t axis = axes->dims[i];
        if (!(scale > 0) || scale > 1e6)
            sl_onnx_wrong(c, "a scale is %g, which is out of range", scale);
        if (sl_onnx_failed(c)) return;
        s->scales[axis] = scale;
        s->to.dims[axis] = whole(c, floor((double)s->from.dims[axis] * scale));
    }
}

/* One scale for all axes, such that no dim exceeds its size, or all reach it. */
static void keep_aspect(sl_onnx_call *c, sizes *s, const sl_dims *axes) {
    const char *policy = sl_onnx_text(c, "keep_aspect_ratio_policy", "stretch");
    const bool larger = strcmp(policy, "not_smaller") == 0;
    if (strcmp(policy, "stretch") == 0) return;
    double scale = larger ? 0 : INFINITY;
    for (uint32_t i = 0; i < axes->rank; i++) {
        const double each = s->scales[axes->dims[i]];
        scale = larger ? fmax(scale, each) : fmin(scale, each);
    }
    for (uint32_t i = 0; i < axes->rank; i++) {
        const int64_t axis = axes->dims[i];
        s->scales[axis] = scale;
        s->to.dims[axis] = whole(c, floor(scale * (double)s->from.dims[axis] + 0.5));
    }
}

static void apply_sizes(sl_onnx_call *c, sizes *s, const sl_integers *wanted, const sl_dims *axes) {
    if (wanted->count != axes->rank) {
        sl_onnx_wrong(c, "%u sizes for %u axes", wanted->count, axes->rank);
        return;
    }
    for (uint32_t i = 0; i < axes->rank; i++) {
        const int64_t axis = axes->dims[i];
        s->to.dims[axis] = wanted->items[i];
        s->scales[axis] = (double)wanted->items[i] / (double)s->from.dims[axis];
    }
    keep_aspect(c, s, axes);
}

static sizes start_sizes(sl_onnx_call *c) {
    sizes s = {.from = sl_onnx_in_type(c, 0).shape, .roi = "[]"};
    s.to = s.from;
    for (uint32_t i = 0; i < s.from.rank; i++) s.scales[i] = 1;
    return s;
}

static void emit(sl_onnx_call *c, const sizes *s, const char *mode, const char *coordinates,
                 const char *rounding) {
    if (strpbrk(mode, "\"\\") || strpbrk(coordinates, "\"\\") || strpbrk(rounding, "\"\\"))
        sl_onnx_wrong(c, "mode '%s' is unknown", mode);
    sl_onnx_set(
        c, 0,
        sl_onnx_with(c, "resize", sl_onnx_in(c, 0),
                     "shape=%s, scales=%s, mode=\"%s\", coordinates=\"%s\", "
                     "rounding=\"%s\", cubic_a=%.9g, exclude_outside=%d, antialias=%d, "
                     "roi=%s, extrapolation=%.9g",
                     sl_onnx_dims(c, &s->to), reals_text(c, s->scales, s->from.rank), mode,
                     coordinates, rounding, (double)sl_onnx_float(c, "cubic_coeff_a", -0.75f),
                     sl_onnx_int(c, "exclude_outside", 0) != 0, sl_onnx_int(c, "antialias", 0) != 0,
                     s->roi, (double)sl_onnx_float(c, "extrapolation_value", 0)));
}

/* Starts and ends of a region for all axes; omitted axes are whole. */
static const char *read_region(sl_onnx_call *c, const sl_dims *axes, uint32_t rank) {
    double all[2 * SL_MAX_RANK] = {0};
    sl_reals given;
    for (uint32_t i = 0; i < rank; i++) all[rank + i] = 1;
    if (!sl_onnx_reals_in(c, 1, &given) || given.count != 2 * axes->rank)
        sl_onnx_wrong(c, "tf_crop_and_resize without a region");
    for (uint32_t i = 0; i < axes->rank && !sl_onnx_failed(c); i++) {
        all[axes->dims[i]] = given.items[i];
        all[rank + (uint32_t)axes->dims[i]] = given.items[axes->rank + i];
    }
    return reals_text(c, all, 2 * rank);
}

/* In the given order, which sizes, scales and regions share. */
static sl_dims axes_in_order(sl_onnx_call *c, const sl_integers *list, uint32_t rank) {
    sl_dims axes = sl_onnx_axes(c, list, rank);
    if (list->count && axes.rank != list->count) sl_onnx_wrong(c, "an axis is given twice");
    for (uint32_t i = 0; i < list->count && i < axes.rank; i++)
        axes.dims[i] = sl_onnx_axis(c, list->items[i], rank);
    return axes;
}

/* Inputs: x, roi, scales, sizes; in opset 10 x and scales. */
void sl_onnx_resize(sl_onnx_call *c) {
    const bool old = c->opset < 11;
    const uint32_t at = old ? 1 : 2;
    sizes s = start_sizes(c);
    sl_reals scales;
    sl_integers wanted, list;
    (void)sl_onnx_ints(c, "axes", &list);
    const sl_dims axes = axes_in_order(c, &list, s.from.rank);
    const char *coordinates = sl_onnx_text(c, "coordinate_transformation_mode", "half_pixel");
    if (strcmp(coordinates, "tf_crop_and_resize") == 0) s.roi = read_region(c, &axes, s.from.rank);
    if (sl_onnx_has(c, 3) && sl_onnx_integers_in(c, 3, &wanted) && wanted.count)
        apply_sizes(c, &s, &wanted, &axes);
    else if (sl_onnx_reals_in(c, at, &scales))
        apply_scales(c, &s, &scales, &axes);
    emit(c, &s, sl_onnx_text(c, "mode", "nearest"), old ? "asymmetric" : coordinates,
         old ? "floor" : sl_onnx_text(c, "nearest_mode", "round_prefer_floor"));
}

void sl_onnx_upsample(sl_onnx_call *c) {
    sizes s = start_sizes(c);
    const sl_onnx_attr *attr = sl_onnx_attr_of(c, "scales");
    const sl_integers all = {0};
    const sl_dims axes = sl_onnx_axes(c, &all, s.from.rank);
    sl_reals scales = {0};
    if (attr) {
        double *items = sl_onnx_memory(c, attr->float_count, sizeof *items);
        for (uint32_t i = 0; items && i < attr->float_count; i++)
            items[i] = (double)attr->floats[i];
        scales = (sl_reals){items ? attr->float_count : 0, items};
    } else {
        (void)sl_onnx_reals_in(c, 1, &scales);
    }
    apply_scales(c, &s, &scales, &axes);
    emit(c, &s, sl_onnx_text(c, "mode", "nearest"), "asymmetric", "floor");
}
