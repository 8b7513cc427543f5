/* quant.c - Quantisation, dequantisation, and fake quantisation for training.
 *
 * Elements are processed as doubles, in strips.  A quotient that is rounded to a code is computed
 * in x's own type, so that ties fall as in other implementations. */
#include "core/ops.h"
#include "runtime/cpu/kernels/channels.h"
#include <math.h>

enum { STRIP = 256, ITEM = 4096 };

static sl_split split_elements(const sl_type *type) {
    return (sl_split){parts_of(sl_type_elements(type), ITEM), grain_of(ITEM * 4), 0};
}

/* x / scale, in f32 unless x is f64.  quotient_or_zero: 0 / 0 is 0. */
static inline double quotient(bool wide, double x, double scale) {
    return wide ? x / scale : (double)((float)x / (float)scale);
}
static inline double quotient_or_zero(bool wide, double x, double scale) {
    return x == 0 && scale == 0 ? 0 : quotient(wide, x, scale);
}

/* Runs the body for each strip of an item's elements: n of them from `at` on. */
#define FOR_STRIPS(AT, N, TYPE, ...)                                                               \
    do {                                                                                           \
        const int64_t stop = least(end * ITEM, sl_type_elements(TYPE));                            \
        for (int64_t AT = begin * ITEM; AT < stop; AT += STRIP) {                                  \
            const int64_t N = least(STRIP, stop - AT);                                             \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } while (0)

/* ---- quantize, dequantize ---- */

static void limits_of(sl_dtype dtype, double limits[2]) {
    const uint32_t bits = sl_dtype_infos[dtype].bytes * 8;
    const bool is_unsigned = dtype == SL_DTYPE_u8 || dtype == SL_DTYPE_u16;
    limits[0] = is_unsigned ? 0 : -ldexp(1, (int)bits - 1);
    limits[1] = ldexp(1, (int)bits - !is_unsigned) - 1;
}

SPLIT(quantize) {
    return split_elements(&((const sl_quantize_args *)args)->out.type);
}
RUN(quantize) {
    const sl_quantize_args *a = args;
    const bool wide = a->x.type.dtype == SL_DTYPE_f64;
    const channels c = channels_of(&a->x.type, sl_type_elements(&a->scale.type), a->attrs.axis);
    double x[STRIP], scale[STRIP], zero[STRIP], limits[2];
    limits_of(a->out.type.dtype, limits);
    FOR_STRIPS(at, n, &a->out.type, {
        elements(&a->x, at, n, x);
        channel_params(&a->scale, c, at, n, scale);
        channel_params(&a->zero, c, at, n, zero);
        for (int64_t i = 0; i < n; i++) {
            const double code = rint(quotient(wide, x[i], scale[i])) + zero[i];
            const double kept = code < limits[0] ? limits[0] : code > limits[1] ? limits[1] : code;
            x[i] = isnan(code) ? zero[i] : kept;
        }
        set_elements(&a->out, at, n, x);
    });
    return SL_OK;
}

SPLIT(dequantize) {
    return split_elements(&((const sl_dequantize_args *)args)->out.type);
}
RUN(dequantize) {
    const sl_dequantize_args *a = args;
    const channels c = channels_of(&a->x.type, sl_type_elements(&a->scale.type), a->attrs.axis);
    double x[STRIP], scale[STRIP], zero[STRIP];
    FOR_STRIPS(at, n, &a->out.type, {
        elements(&a->x, at, n, x);
        channel_params(&a->scale, c, at, n, scale);
        channel_params(&a->zero, c, at, n, zero);
        for (int64_t i = 0; i < n; i++) x[i] = (x[i] - zero[i]) * scale[i];
        set_elements(&a->out, at, n, x);
    });
    return SL_OK;
}

/* ---- fake_quantize: an item is a channel ---- */

static double largest_code(uint32_t bits) {
    return ldexp(1, (int)bits - 1) - 1;
}
static inline double rounded(double z, double q, double scale) {
    const double code = rint(z);
    return (code < -q ? -q : code > q ? q : code) * scale;
}

/* Number of runs of a channel's elements; run r begins at (r * count + channel) * inner. */
static int64_t runs_of(const sl_type *x, channels c) {
    return sl_type_elements(x) / (c.count * c.inner);
}
static channels channels_of_tensor(const sl_fake_quantize_args *a) {
    const int64_t all = sl_type_elements(&a->x.type);
    if (!a->attrs.by_axis) return (channels){1, all};
    const sl_dims *shape = &a->x.type.shape;
    const int64_t axis = a->attrs.axis < 0 ? a->attrs.axis + shape->rank : a->attrs.axis;
    return (channels){shape->dims[axis], sl_dims_tail(shape, (uint32_t)axis + 1)};
}

/* NaN if any element is NaN. */
static double largest_magnitude(const sl_cview *v, int64_t at, int64_t count, double largest) {
    double x[STRIP];
    for (int64_t from = 0; from < count; from += STRIP) {
        const int64_t n = least(STRIP, count - from);
        elements(v, at + from, n, x);
        for (int64_t i = 0; i < n; i++)
            if (!(fabs(x[i]) <= largest) && !isnan(largest)) largest = fabs(x[i]);
    }
    return largest;
}

static double scale_of(const sl_fake_quantize_args *a, channels c, int64_t channel) {
    const bool wide = a->x.type.dtype == SL_DTYPE_f64;
    const double state = a->attrs.mode ? element(&a->state.items[0], channel) : 0;
    if (a->attrs.mode == 2) return state;
    double largest = 0;
    for (int64_t r = 0; r < runs_of(&a->x.type, c); r++)
        largest = largest_magnitude(&a->x, (r * c.count + channel) * c.inner, c.inner, largest);
    const double scale = quotient(wide, largest, largest_code(a->attrs.bits));
    if (a->attrs.mode == 0 || !(state > 0)) return scale;
    const double decay = (double)a->attrs.decay;
    return state * decay + (1 - decay) * scale;
}

SPLIT(fake_quantize) {
    const sl_fake_quantize_args *a = args;
    const channels c = channels_of_tensor(a);
    return (sl_split){c.count, grain_of(sl_type_elements(&a->x.type) / c.count * 8), 0};
}
RUN(fake_quantize) {
    const sl_fake_quantize_args *a = args;
    const channels c = channels_of_tensor(a);
    const bool wide = a->x.type.dtype == SL_DTYPE_f64;
    const double q = largest_code(a->attrs.bits);
    double x[STRIP];
    for (int64_t channel = begin; channel < end; channel++) {
        set_element(&a->scale, channel, scale_of(a, c, channel));
        const double scale = element(&(sl_cview){a->scale.data, a->scale.type}, channel);
        for (int64_t r = 0; r < runs_of(&a->x.type, c); r++)
            for (int64_t from = 0; from < c.inner; from += STRIP) {
                const int64_t at = (r * c.count + channel) * c.inner + from;
                const int64_t n = least(STRIP, c.inner - from);
                elements(&a->x, at, n, x);
                for (int64_t i = 0; i < n; i++)
                    x[i] = scale == 0 ? 0 : rounded(quotient(wide, x[i], scale), q, scale);
                set_elements(&a->out, at, n, x);
            }
    }
    return SL_OK;
}

/* ---- straight-through gradients ---- */

static double slope_of(uint32_t ste, double z, double q) {
    const double t = ste == 2 ? tanh(z) : 0;
    switch (ste) {
    case 0:
        return 1;
    case 1:
        return fabs(z) <= q;
    case 2:
        return 1 - t * t;
    default:
        return fmax(1 - fabs(z) / q, 0);
    }
}

/* Operands of the gradients with respect to x. */
typedef struct {
    const sl_cview *x, *scale, *dy;
    const sl_view *dx;
    int64_t axis;
    uint32_t bits, ste;
} slopes;

static void run_slopes(const slopes *s, int64_t begin, int64_t end) {
    const bool wide = s->x->type.dtype == SL_DTYPE_f64;
    const channels c = channels_of(&s->x->type, sl_type_elements(&s->scale->type), s->axis);
    const double q = largest_code(s->bits);
    double x[STRIP], scale[STRIP], dy[STRIP];
    FOR_STRIPS(at, n, &s->dx->type, {
        elements(s->x, at, n, x);
        elements(s->dy, at, n, dy);
        channel_params(s->scale, c, at, n, scale);
        for (int64_t i = 0; i < n; i++)
            dy[i] *= slope_of(s->ste, quotient_or_zero(wide, x[i], scale[i]), q);
        set_elements(s->dx, at, n, dy);
    });
}

SPLIT(fake_quantize_backward) {
    return split_elements(&((const sl_fake_quantize_backward_args *)args)->dx.type);
}
RUN(fake_quantize_backward) {
    const sl_fake_quantize_backward_args *a = args;
    run_slopes(
        &(slopes){&a->x, &a->scale, &a->dy, &a->dx, a->attrs.axis, a->attrs.bits, a->attrs.ste},
        begin, end);
    return SL_OK;
}

SPLIT(fake_quantize_lsq_backward_x) {
    return split_elements(&((const sl_fake_quantize_lsq_backward_x_args *)args)->dx.type);
}
RUN(fake_quantize_lsq_backward_x) {
    const sl_fake_quantize_lsq_backward_x_args *a = args;
    run_slopes(&(slopes){&a->x, &a->scale, &a->dy, &a->dx, a->attrs.axis, a->attrs.bits, 1}, begin,
               end);
    return SL_OK;
}

SPLIT(fake_quantize_lsq) {
    return split_elements(&((const sl_fake_quantize_lsq_args *)args)->out.type);
}
RUN(fake_quantize_lsq) {
    const sl_fake_quantize_lsq_args *a = args;
    const bool wide = a->x.type.dtype == SL_DTYPE_f64;
    const channels c = channels_of(&a->x.type, sl_type_elements(&a->scale.type), a->attrs.axis);
    const double q = largest_code(a->attrs.bits);
    double x[STRIP], scale[STRIP];
    FOR_STRIPS(at, n, &a->out.type, {
        elements(&a->x, at, n, x);
        channel_params(&a->scale, c, at, n, scale);
        for (int64_t i = 0; i < n; i++)
            x[i] = scale[i] == 0 ? 0 : rounded(quotient(wide, x[i], scale[i]), q, scale[i]);
        set_elements(&a->out, at, n, x);
    });
    return SL_OK;
}

/* ---- gradient of a scale: an item is a channel ---- */

static double step_slope(double z, double q) {
    return fabs(z) <= q ? rint(z) - z : z > 0 ? q : z < 0 ? -q : z;
}

SPLIT(fake_quantize_lsq_backward_scale) {
    const sl_fake_quantize_lsq_backward_scale_args *a = args;
    const int64_t count = sl_type_elements(&a->scale.type);
    return (sl_split){count, grain_of(sl_type_elements(&a->x.type) / count * 8), 0};
}
RUN(fake_quantize_lsq_backward_scale) {
    const sl_fake_quantize_lsq_backward_scale_args *a = args;
    const bool wide = a->x.type.dtype == SL_DTYPE_f64;
    const int64_t count = sl_type_elements(&a->scale.type);
    channels c = channels_of(&a->x.type, count, a->attrs.axis);
    if (count == 1) c.inner = sl_type_elements(&a->x.type);
    const double q = largest_code(a->attrs.bits);
    double x[STRIP], dy[STRIP];
    for (int64_t channel = begin; channel < end; channel++) {
        const double scale = element(&a->scale, channel);
        double sum = 0;
        for (int64_t r = 0; r < runs_of(&a->x.type, c); r++)
            for (int64_t from = 0; from < c.inner; from += STRIP) {
                const int64_t at = (r * c.count + channel) * c.inner + from;
                const int64_t n = least(STRIP, c.inner - from);
                elements(&a->x, at, n, x);
                elements(&a->dy, at, n, dy);
                for (int64_t i = 0; i < n; i++)
                    sum += dy[i] * step_slope(quotient_or_zero(wide, x[i], scale), q);
            }
        set_element(&a->dscale, channel, sum);
    }
    return SL_OK;
}
