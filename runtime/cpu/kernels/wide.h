/* wide.h - Elements of any plain type as 64-bit numbers, for kernels that serve all types: floats
 * as doubles, integers and bools as int64, complex numbers as two doubles. */
#ifndef SL_RUNTIME_CPU_WIDE_H
#define SL_RUNTIME_CPU_WIDE_H
#include "core/codec.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef union {
    double real;
    int64_t integer;
} wide;

typedef enum { FOLD_SET, FOLD_ADD, FOLD_MUL, FOLD_MAX, FOLD_MIN } fold;

static inline bool is_real(sl_dtype dtype) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    return kind == SL_KIND_FLOAT || kind == SL_KIND_COMPLEX;
}
/* 64-bit numbers per element. */
static inline int64_t unit_of(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_COMPLEX ? 2 : 1;
}
static inline size_t size_of(sl_dtype dtype) {
    return sl_dtype_infos[dtype].bytes;
}

#define WIDEN(TYPE, FIELD, EXPRESSION)                                                             \
    for (int64_t i = 0; i < n; i++) {                                                              \
        TYPE v;                                                                                    \
        memcpy(&v, (const char *)from + (size_t)i * sizeof v, sizeof v);                           \
        to[i].FIELD = EXPRESSION;                                                                  \
    }                                                                                              \
    break
/* Converts n contiguous elements. */
static inline void widen(sl_dtype dtype, const void *from, int64_t n, wide *to) {
    switch (dtype) {
    case SL_DTYPE_c64:
        n *= 2; /* fall through */
    case SL_DTYPE_f32:
        WIDEN(float, real, (double)v);
    case SL_DTYPE_f16:
        WIDEN(uint16_t, real, (double)sl_f32_from_f16(v));
    case SL_DTYPE_bf16:
        WIDEN(uint16_t, real, (double)sl_f32_from_bf16(v));
    case SL_DTYPE_i8:
        WIDEN(int8_t, integer, v);
    case SL_DTYPE_i16:
        WIDEN(int16_t, integer, v);
    case SL_DTYPE_i32:
        WIDEN(int32_t, integer, v);
    case SL_DTYPE_bool:
    case SL_DTYPE_u8:
        WIDEN(uint8_t, integer, v);
    case SL_DTYPE_u16:
        WIDEN(uint16_t, integer, v);
    case SL_DTYPE_u32:
        WIDEN(uint32_t, integer, v);
    default: /* 64 bits */
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}
#undef WIDEN

#define NARROW(TYPE, EXPRESSION)                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const TYPE v = (TYPE)(EXPRESSION);                                                         \
        memcpy((char *)to + (size_t)i * sizeof v, &v, sizeof v);                                   \
    }                                                                                              \
    break
/* The reverse; integers are truncated. */
static inline void narrow(sl_dtype dtype, const wide *from, int64_t n, void *to) {
    switch (dtype) {
    case SL_DTYPE_c64:
        n *= 2; /* fall through */
    case SL_DTYPE_f32:
        NARROW(float, from[i].real);
    case SL_DTYPE_f16:
        NARROW(uint16_t, sl_f16_from_f32((float)from[i].real));
    case SL_DTYPE_bf16:
        NARROW(uint16_t, sl_bf16_from_f32((float)from[i].real));
    case SL_DTYPE_i8:
    case SL_DTYPE_u8:
    case SL_DTYPE_bool:
        NARROW(uint8_t, from[i].integer);
    case SL_DTYPE_i16:
    case SL_DTYPE_u16:
        NARROW(uint16_t, from[i].integer);
    case SL_DTYPE_i32:
    case SL_DTYPE_u32:
        NARROW(uint32_t, from[i].integer);
    default:
        memcpy(to, from, (size_t)n * sizeof *from);
    }
}
#undef NARROW

/* NaN if either is NaN. */
static inline double larger_real(double a, double b) {
    return isnan(a) || a > b ? a : b;
}
static inline double smaller_real(double a, double b) {
    return isnan(a) || a < b ? a : b;
}

#define EACH(FIELD, EXPRESSION)                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const wide a = into[i], b = x[i];                                                          \
        into[i].FIELD = EXPRESSION;                                                                \
    }                                                                                              \
    break
static inline void fold_reals(fold kind, wide *into, const wide *x, int64_t n) {
    switch (kind) {
    case FOLD_SET:
        EACH(real, ((void)a, b.real));
    case FOLD_ADD:
        EACH(real, a.real + b.real);
    case FOLD_MUL:
        EACH(real, a.real * b.real);
    case FOLD_MAX:
        EACH(real, larger_real(a.real, b.real));
    case FOLD_MIN:
        EACH(real, smaller_real(a.real, b.real));
    }
}
/* `flip` (the sign bit, for u64) makes the signed comparison of the bits an unsigned one. */
static inline void fold_integers(fold kind, wide *into, const wide *x, int64_t n, int64_t flip) {
    switch (kind) {
    case FOLD_SET:
        EACH(integer, ((void)a, b.integer));
    case FOLD_ADD:
        EACH(integer, (int64_t)((uint64_t)a.integer + (uint64_t)b.integer));
    case FOLD_MUL:
        EACH(integer, (int64_t)((uint64_t)a.integer * (uint64_t)b.integer));
    case FOLD_MAX:
        EACH(integer, (a.integer ^ flip) > (b.integer ^ flip) ? a.integer : b.integer);
    case FOLD_MIN:
        EACH(integer, (a.integer ^ flip) < (b.integer ^ flip) ? a.integer : b.integer);
    }
}
#undef EACH

/* into[i] = into[i] combined with x[i], for n elements. */
static inline void fold_wide(sl_dtype dtype, fold kind, wide *into, const wide *x, int64_t n) {
    if (!is_real(dtype)) {
        fold_integers(kind, into, x, n, dtype == SL_DTYPE_u64 ? INT64_MIN : 0);
    } else if (dtype != SL_DTYPE_c64) {
        fold_reals(kind, into, x, n);
    } else if (kind != FOLD_MUL) {
        fold_reals(kind, into, x, 2 * n);
    } else {
        for (int64_t i = 0; i < 2 * n; i += 2) {
            const wide a = into[i], b = into[i + 1];
            into[i].real = a.real * x[i].real - b.real * x[i + 1].real;
            into[i + 1].real = a.real * x[i + 1].real + b.real * x[i].real;
        }
    }
}

/* The largest or smallest value of an integer type or bool. */
static inline int64_t last_integer(sl_dtype dtype, bool largest) {
    switch (dtype) {
    case SL_DTYPE_bool:
        return largest;
    case SL_DTYPE_i8:
        return largest ? INT8_MAX : INT8_MIN;
    case SL_DTYPE_i16:
        return largest ? INT16_MAX : INT16_MIN;
    case SL_DTYPE_i32:
        return largest ? INT32_MAX : INT32_MIN;
    case SL_DTYPE_i64:
        return largest ? INT64_MAX : INT64_MIN;
    case SL_DTYPE_u8:
        return largest ? UINT8_MAX : 0;
    case SL_DTYPE_u16:
        return largest ? UINT16_MAX : 0;
    case SL_DTYPE_u32:
        return largest ? UINT32_MAX : 0;
    default: /* u64, as bits */
        return largest ? -1 : 0;
    }
}

/* Sets n elements to the identity of a reduction. */
static inline void start_fold(sl_dtype dtype, fold kind, wide *into, int64_t n) {
    const int64_t unit = unit_of(dtype);
    wide start = {.integer = 0};
    if (!is_real(dtype))
        start.integer = kind == FOLD_MAX   ? last_integer(dtype, false)
                        : kind == FOLD_MIN ? last_integer(dtype, true)
                                           : kind == FOLD_MUL;
    else
        start.real = kind == FOLD_MAX   ? -(double)INFINITY
                     : kind == FOLD_MIN ? (double)INFINITY
                                        : kind == FOLD_MUL;
    const wide rest = {.real = 0};
    for (int64_t i = 0; i < n * unit; i++) into[i] = i % unit ? rest : start;
}
#endif
