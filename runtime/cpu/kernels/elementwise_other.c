/* elementwise_other.c - Strips of complex numbers, selection, and casts. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_strips.h"
#include <math.h>
#include <string.h>

/* ---- complex ---- */

typedef struct {
    float re, im;
} c64;

#define COMPLEX_FN(NAME, TYPE, ...)                                                                \
    static void complex_##NAME(const strip *s) {                                                   \
        const c64 *x = s->in[0], *y = s->in[1];                                                    \
        TYPE *out = s->out;                                                                        \
        (void)y;                                                                                   \
        for (int64_t i = 0; i < s->count; i++) out[i] = __VA_ARGS__;                               \
    }

static c64 make(double re, double im) {
    return (c64){(float)re, (float)im};
}
static c64 product(c64 x, c64 y) {
    const double a = (double)x.re, b = (double)x.im, c = (double)y.re, d = (double)y.im;
    return make(a * c - b * d, a * d + b * c);
}
static c64 quotient(c64 x, c64 y) {
    const double a = (double)x.re, b = (double)x.im, c = (double)y.re, d = (double)y.im;
    const double size = c * c + d * d;
    return make((a * c + b * d) / size, (b * c - a * d) / size);
}
static c64 exponential(c64 x) {
    const double size = exp((double)x.re), angle = (double)x.im;
    return make(size * cos(angle), angle == 0 ? angle : size * sin(angle));
}
static c64 logarithm(c64 x) {
    return make(log(hypot((double)x.re, (double)x.im)), atan2((double)x.im, (double)x.re));
}
static c64 root(c64 x) {
    const double re = (double)x.re, im = (double)x.im;
    const double larger = sqrt((hypot(re, im) + fabs(re)) / 2);
    const double other = larger == 0 ? 0 : fabs(im) / (2 * larger);
    return make(re >= 0 ? larger : other, copysign(re >= 0 ? other : larger, im));
}
static float norm_sq(c64 x) {
    return (float)((double)x.re * (double)x.re + (double)x.im * (double)x.im);
}

COMPLEX_FN(add, c64, (c64){x[i].re + y[i].re, x[i].im + y[i].im})
COMPLEX_FN(sub, c64, (c64){x[i].re - y[i].re, x[i].im - y[i].im})
COMPLEX_FN(mul, c64, product(x[i], y[i]))
COMPLEX_FN(div, c64, quotient(x[i], y[i]))
COMPLEX_FN(neg, c64, (c64){-x[i].re, -x[i].im})
COMPLEX_FN(conjugate, c64, (c64){x[i].re, -x[i].im})
COMPLEX_FN(exp, c64, exponential(x[i]))
COMPLEX_FN(log, c64, logarithm(x[i]))
COMPLEX_FN(sqrt, c64, root(x[i]))
COMPLEX_FN(real, float, x[i].re)
COMPLEX_FN(imag, float, x[i].im)
COMPLEX_FN(complex_norm_sq, float, norm_sq(x[i]))
COMPLEX_FN(equal, uint8_t, (x[i].re == y[i].re) & (x[i].im == y[i].im))
COMPLEX_FN(not_equal, uint8_t, (x[i].re != y[i].re) | (x[i].im != y[i].im))

static void complex_complex_norm_sq_backward(const strip *s) {
    const c64 *x = s->in[0];
    const float *dy = s->in[1];
    c64 *out = s->out;
    for (int64_t i = 0; i < s->count; i++) out[i] = (c64){dy[i] * x[i].re, dy[i] * x[i].im};
}

strip_table SL_KERNEL(sl_strips_c64) = {
    [SL_STEP_conjugate] = complex_conjugate,
    [SL_STEP_real] = complex_real,
    [SL_STEP_imag] = complex_imag,
    [SL_STEP_complex_norm_sq] = complex_complex_norm_sq,
    [SL_STEP_complex_norm_sq_backward] = complex_complex_norm_sq_backward,
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, ...)                                  \
    SL_IF_C64_##TYPES([SL_STEP_##OP] = complex_##OP, )
#include "core/elementwise.def"
};

/* ---- where, bitcast ---- */

#define CHOOSE(TYPE)                                                                               \
    do {                                                                                           \
        const TYPE *x = s->in[1], *y = s->in[2];                                                   \
        TYPE *out = s->out;                                                                        \
        for (int64_t i = 0; i < s->count; i++) out[i] = first[i] ? x[i] : y[i];                    \
    } while (0)
void SL_KERNEL(sl_strip_where)(const strip *s) {
    const uint8_t *first = s->in[0];
    switch (sl_dtype_infos[held_as(s->to)].bytes) {
    case 1:
        CHOOSE(uint8_t);
        break;
    case 2:
        CHOOSE(uint16_t);
        break;
    case 4:
        CHOOSE(uint32_t);
        break;
    default:
        CHOOSE(uint64_t);
    }
}

/* Bitcasts f16 and bf16 through the f32 values that strips hold. */
void SL_KERNEL(sl_strip_bits)(const strip *s) {
    uint16_t halves[STRIP];
    const void *from = s->in[0];
    if (is_half(s->from)) {
        SL_KERNEL(sl_strip_narrow)(s->from, from, halves, s->count);
        from = halves;
    }
    if (is_half(s->to)) {
        memmove(halves, from, (size_t)s->count * sizeof halves[0]);
        SL_KERNEL(sl_strip_widen)(s->to, halves, s->out, s->count);
        return;
    }
    memmove(s->out, from, (size_t)s->count * sl_dtype_infos[s->to].bytes);
}

/* ---- casts, through doubles or 64-bit integers ---- */

#define EACH(FROM, TO, EXPRESSION)                                                                 \
    do {                                                                                           \
        const FROM *x = from;                                                                      \
        TO *out = to;                                                                              \
        for (int64_t i = 0; i < count; i++) out[i] = (TO)(EXPRESSION);                             \
    } while (0);                                                                                   \
    break

/* Also for bool; u64 keeps its bits. */
static void integers_from(sl_dtype dtype, const void *from, int64_t *to, int64_t count) {
    switch (dtype) {
    case SL_DTYPE_i8:
        EACH(int8_t, int64_t, x[i]);
    case SL_DTYPE_i16:
        EACH(int16_t, int64_t, x[i]);
    case SL_DTYPE_i32:
        EACH(int32_t, int64_t, x[i]);
    case SL_DTYPE_u16:
        EACH(uint16_t, int64_t, x[i]);
    case SL_DTYPE_u32:
        EACH(uint32_t, int64_t, x[i]);
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
        EACH(int64_t, int64_t, x[i]);
    default:
        EACH(uint8_t, int64_t, x[i]);
    }
}

static void integers_to(sl_dtype dtype, const int64_t *from, void *to, int64_t count) {
    switch (sl_dtype_infos[dtype].bytes) {
    case 1:
        EACH(int64_t, uint8_t, x[i]);
    case 2:
        EACH(int64_t, uint16_t, x[i]);
    case 4:
        EACH(int64_t, uint32_t, x[i]);
    default:
        EACH(int64_t, uint64_t, x[i]);
    }
}

/* The range of an integer type; the upper end of u64 is given as bits. */
typedef struct {
    int64_t low, high;
} ends;
static ends ends_of(sl_dtype dtype) {
    const int bits = (int)sl_dtype_infos[dtype].bytes * 8;
    switch (dtype) {
    case SL_DTYPE_i8:
    case SL_DTYPE_i16:
    case SL_DTYPE_i32:
    case SL_DTYPE_i64:
        return (ends){INT64_MIN >> (64 - bits), INT64_MAX >> (64 - bits)};
    default:
        return (ends){0, (int64_t)(UINT64_MAX >> (64 - bits))};
    }
}

static int64_t integer_of_real(double x, const strip *s, ends e) {
    if (x != x) return 0;
    if (fabs(x) < 0x1p63 && !s->saturate) return (int64_t)x;
    if (s->saturate) {
        const double top = s->to == SL_DTYPE_u64 ? 0x1p64 : (double)e.high;
        if (x <= (double)e.low) return e.low;
        if (x >= top) return e.high;
        return s->to == SL_DTYPE_u64 ? (int64_t)(uint64_t)x : (int64_t)x;
    }
    const double rest = isinf(x) ? 0 : fmod(x, 0x1p64);
    return (int64_t)(rest < 0 ? 0 - (uint64_t)-rest : (uint64_t)rest);
}

static void reals_to_integers(const strip *s, const double *x, int64_t *out) {
    const ends e = ends_of(s->to);
    for (int64_t i = 0; i < s->count; i++)
        out[i] = s->to == SL_DTYPE_bool ? x[i] != 0 : integer_of_real(x[i], s, e);
}

static void integers_to_integers(const strip *s, int64_t *x) {
    const ends e = ends_of(s->to);
    const bool whole = s->from == SL_DTYPE_u64;
    if (s->to == SL_DTYPE_bool) {
        for (int64_t i = 0; i < s->count; i++) x[i] = x[i] != 0;
        return;
    }
    for (int64_t i = 0; i < s->count && s->saturate; i++) {
        const bool below = !whole && x[i] < e.low;
        const bool above = (whole || x[i] >= 0) && (uint64_t)x[i] > (uint64_t)e.high;
        x[i] = below ? e.low : above ? e.high : x[i];
    }
}

/* f16 and bf16 are rounded to f32 here; the caller rounds them further. */
static void integers_to_reals(const strip *s, const int64_t *from) {
    const int64_t count = s->count;
    void *to = s->out;
    const bool whole = s->from == SL_DTYPE_u64;
    switch ((int)(s->to == SL_DTYPE_f64) * 2 + whole) {
    case 0:
        EACH(int64_t, float, x[i]);
    case 1:
        EACH(int64_t, float, (uint64_t)x[i]);
    case 2:
        EACH(int64_t, double, x[i]);
    default:
        EACH(int64_t, double, (uint64_t)x[i]);
    }
}

static bool is_float(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_FLOAT;
}

static void cast_reals(const strip *s) {
    const bool wide = s->from == SL_DTYPE_f64, to_wide = s->to == SL_DTYPE_f64;
    const int64_t count = s->count;
    const void *from = s->in[0];
    void *to = s->out;
    switch (wide * 2 + to_wide) {
    case 1:
        EACH(float, double, x[i]);
    case 2:
        EACH(double, float, x[i]);
    default:
        memmove(to, from, (size_t)count * (wide ? sizeof(double) : sizeof(float)));
    }
}

static void cast_to_complex(const strip *s) {
    const float *x = s->in[0];
    c64 *out = s->out;
    for (int64_t i = 0; i < s->count; i++) out[i] = (c64){x[i], 0};
}

static void cast_numbers(const strip *s) {
    int64_t integers[STRIP];
    double reals[STRIP];
    if (is_float(s->from) && is_float(s->to)) {
        cast_reals(s);
    } else if (is_float(s->from)) {
        const strip wide = {
            .in = {s->in[0]}, .out = reals, .count = s->count, .from = s->from, .to = SL_DTYPE_f64};
        cast_reals(&wide);
        reals_to_integers(s, reals, integers);
        integers_to(s->to, integers, s->out, s->count);
    } else {
        integers_from(s->from, s->in[0], integers, s->count);
        if (is_float(s->to)) {
            integers_to_reals(s, integers);
        } else {
            integers_to_integers(s, integers);
            integers_to(s->to, integers, s->out, s->count);
        }
    }
}

void SL_KERNEL(sl_strip_cast)(const strip *s) {
    float singles[STRIP];
    if (s->to != SL_DTYPE_c64) {
        cast_numbers(s);
    } else if (s->from == SL_DTYPE_c64) {
        memmove(s->out, s->in[0], (size_t)s->count * sizeof(c64));
    } else {
        strip part = *s;
        part.to = SL_DTYPE_f32;
        part.out = singles;
        cast_numbers(&part);
        part.in[0] = singles;
        part.out = s->out;
        cast_to_complex(&part);
    }
}
