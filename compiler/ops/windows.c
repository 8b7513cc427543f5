#include "compiler/ops/windows.h"

sl_status sl_check_spatial(const char *label, const char *name, const sl_integers *list,
                           uint32_t rank, int64_t least, bool optional, sl_error *err) {
    if (list->count == 0 && optional) return SL_OK;
    if (list->count != rank)
        return sl_fail(err, SL_INVALID,
                       "%s: %s has %u numbers, must have %u, one for each spatial "
                       "axis",
                       label, name, list->count, rank);
    for (uint32_t i = 0; i < rank; i++)
        SL_TRY(sl_check_attr(label, name, list->items[i], least, INT32_MAX, err));
    return SL_OK;
}

static int64_t item(const sl_integers *list, uint32_t axis, int64_t otherwise) {
    return list->count ? list->items[axis] : otherwise;
}

sl_status sl_check_windows(const sl_window_spec *spec, int64_t *out, sl_error *err) {
    const char *label = spec->label;
    const sl_window_lists *l = &spec->lists;
    SL_TRY(sl_check_spatial(label, "strides", &l->strides, spec->rank, 1, true, err));
    SL_TRY(sl_check_spatial(label, "pads_before", &l->before, spec->rank, 0, true, err));
    SL_TRY(sl_check_spatial(label, "pads_after", &l->after, spec->rank, 0, true, err));
    SL_TRY(sl_check_spatial(label, "dilations", &l->dilations, spec->rank, 1, true, err));
    for (uint32_t i = 0; i < spec->rank; i++) {
        SL_TRY(sl_check_attr(label, "kernel", spec->kernel[i], 1, INT32_MAX, err));
        const int64_t stride = item(&l->strides, i, 1), before = item(&l->before, i, 0);
        const int64_t padded = spec->in[i] + before + item(&l->after, i, 0);
        const int64_t spread = item(&l->dilations, i, 1) * (spec->kernel[i] - 1) + 1;
        if (padded < spread)
            return sl_fail(err, SL_INVALID,
                           "%s: a window spreads over %lld places along spatial axis %u, there are "
                           "%lld with padding",
                           label, (long long)spread, i, (long long)padded);
        const int64_t rest = padded - spread;
        out[i] = (rest + (spec->ceil ? stride - 1 : 0)) / stride + 1;
        if (spec->ceil && (out[i] - 1) * stride >= spec->in[i] + before) out[i]--;
    }
    return SL_OK;
}

int64_t sl_cut_integer(sl_dtype dtype, int64_t value) {
    switch (dtype) {
    case SL_DTYPE_i8:
        return (int8_t)(uint8_t)value;
    case SL_DTYPE_u8:
        return (uint8_t)value;
    case SL_DTYPE_i16:
        return (int16_t)(uint16_t)value;
    case SL_DTYPE_u16:
        return (uint16_t)value;
    case SL_DTYPE_i32:
        return (int32_t)(uint32_t)value;
    case SL_DTYPE_u32:
        return (uint32_t)value;
    default:
        return value;
    }
}
