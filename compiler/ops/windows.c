#include "compiler/ops/windows.h"

sl_status sl_check_spatial(const char *label, const char *name, const sl_integers *list,
                           uint32_t rank, int64_t least, sl_error *err) {
    if (list->count != rank)
        return sl_fail(err, SL_INVALID,
                       "%s: %s has %u numbers, must have %u, one for each spatial "
                       "axis",
                       label, name, list->count, rank);
    for (uint32_t i = 0; i < rank; i++)
        SL_TRY(sl_check_attr(label, name, list->items[i], least, INT32_MAX, err));
    return SL_OK;
}

/* The same for a list that may be empty. */
static sl_status check_optional(const sl_window_spec *spec, const char *name,
                                const sl_integers *list, int64_t least, sl_error *err) {
    if (list->count == 0) return SL_OK;
    return sl_check_spatial(spec->label, name, list, spec->rank, least, err);
}

static int64_t item(const sl_integers *list, uint32_t axis, int64_t otherwise) {
    return list->count ? list->items[axis] : otherwise;
}

sl_status sl_check_windows(const sl_window_spec *spec, int64_t *out, sl_error *err) {
    const char *label = spec->label;
    const sl_window_lists *l = &spec->lists;
    SL_TRY(check_optional(spec, "strides", &l->strides, 1, err));
    SL_TRY(check_optional(spec, "pads_before", &l->before, 0, err));
    SL_TRY(check_optional(spec, "pads_after", &l->after, 0, err));
    SL_TRY(check_optional(spec, "dilations", &l->dilations, 1, err));
    for (uint32_t i = 0; i < spec->rank; i++) {
        SL_TRY(sl_check_attr(label, "kernel", spec->kernel[i], 1, INT32_MAX, err));
        const int64_t stride = item(&l->strides, i, 1), before = item(&l->before, i, 0);
        const int64_t padded = spec->in[i] + before + item(&l->after, i, 0);
        const int64_t spread = item(&l->dilations, i, 1) * (spec->kernel[i] - 1) + 1;
        if (padded < spread)
            return sl_fail(err, SL_INVALID,
                           "%s: a window covers %lld positions along spatial axis %u, there are "
                           "%lld with padding",
                           label, (long long)spread, i, (long long)padded);
        const int64_t rest = padded - spread;
        out[i] = (rest + (spec->ceil ? stride - 1 : 0)) / stride + 1;
        if (spec->ceil && (out[i] - 1) * stride >= spec->in[i] + before) out[i]--;
    }
    return SL_OK;
}
