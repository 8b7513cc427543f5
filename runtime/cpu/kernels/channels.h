/* channels.h - Reads elements of float or integer (up to 32 bits) views as doubles, and finds the
 * parameter that belongs to an element where there is one parameter per index of an axis. */
#ifndef SL_RUNTIME_CPU_CHANNELS_H
#define SL_RUNTIME_CPU_CHANNELS_H
#include "core/codec.h"
#include "runtime/cpu/kernels/kernels.h"

static inline double element(const sl_cview *v, int64_t at) {
    double value = 0;
    switch (v->type.dtype) {
    case SL_DTYPE_f32:
        return (double)((const float *)v->data)[at];
    case SL_DTYPE_f64:
        return ((const double *)v->data)[at];
    default:
        sl_decode_f64(v->type.dtype,
                      (const char *)v->data + (size_t)at * sl_dtype_infos[v->type.dtype].bytes, 1,
                      &value);
        return value;
    }
}

static inline void set_element(const sl_view *v, int64_t at, double value) {
    switch (v->type.dtype) {
    case SL_DTYPE_f32:
        ((float *)v->data)[at] = (float)value;
        break;
    case SL_DTYPE_f64:
        ((double *)v->data)[at] = value;
        break;
    default:
        sl_encode_f64(v->type.dtype, &value, 1,
                      (char *)v->data + (size_t)at * sl_dtype_infos[v->type.dtype].bytes);
    }
}

/* `count` consecutive elements from `at` on. */
static inline void elements(const sl_cview *v, int64_t at, int64_t count, double *out) {
    sl_decode_f64(v->type.dtype,
                  (const char *)v->data + (size_t)at * sl_dtype_infos[v->type.dtype].bytes, count,
                  out);
}
static inline void set_elements(const sl_view *v, int64_t at, int64_t count, const double *values) {
    sl_encode_f64(v->type.dtype, values, count,
                  (char *)v->data + (size_t)at * sl_dtype_infos[v->type.dtype].bytes);
}

/* Per-channel parameters: an element uses parameter (element / inner) % count. */
typedef struct {
    int64_t count, inner;
} channels;
static inline channels channels_of(const sl_type *x, int64_t count, int64_t axis) {
    if (count == 1) return (channels){1, 1};
    const uint32_t at = (uint32_t)(axis < 0 ? axis + x->shape.rank : axis);
    return (channels){count, sl_dims_tail(&x->shape, at + 1)};
}
static inline void channel_params(const sl_cview *p, channels c, int64_t at, int64_t count,
                                  double *out) {
    int64_t channel = at / c.inner % c.count, left = c.inner - at % c.inner;
    double value = element(p, channel);
    for (int64_t i = 0; i < count; i++) {
        out[i] = value;
        if (c.count == 1 || --left) continue;
        left = c.inner;
        channel = channel + 1 == c.count ? 0 : channel + 1;
        value = element(p, channel);
    }
}
#endif
