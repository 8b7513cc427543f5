/* number.cuh - Single elements of any plain type.  Floats are computed in double, integers and
 * bools in 64 bits; a result is rounded or truncated once, when it is stored. */
#ifndef SL_RUNTIME_CUDA_KERNELS_NUMBER_CUH
#define SL_RUNTIME_CUDA_KERNELS_NUMBER_CUH
#include "core/elementwise_steps.h"
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/number.h"

struct number {
    double re, im;
    int64_t whole;
};

DEVICE number number_of(double re, double im = 0) {
    return {re, im, 0};
}
DEVICE number number_of_whole(int64_t whole) {
    return {0, 0, whole};
}
DEVICE bool is_real(int type) {
    return type <= SL_TYPE_f64;
}

DEVICE number load_number(int type, const void *from, int64_t i) {
    switch (type) {
    case SL_TYPE_f32:
        return number_of(((const float *)from)[i]);
    case SL_TYPE_f16:
        return number_of(f32_of_f16(((const uint16_t *)from)[i]));
    case SL_TYPE_bf16:
        return number_of(f32_of_bf16(((const uint16_t *)from)[i]));
    case SL_TYPE_f64:
        return number_of(((const double *)from)[i]);
    case SL_TYPE_c64:
        return number_of(((const float *)from)[2 * i], ((const float *)from)[2 * i + 1]);
    case SL_TYPE_i8:
        return number_of_whole(((const int8_t *)from)[i]);
    case SL_TYPE_i16:
        return number_of_whole(((const int16_t *)from)[i]);
    case SL_TYPE_i32:
        return number_of_whole(((const int32_t *)from)[i]);
    case SL_TYPE_u16:
        return number_of_whole(((const uint16_t *)from)[i]);
    case SL_TYPE_u32:
        return number_of_whole(((const uint32_t *)from)[i]);
    case SL_TYPE_u8:
    case SL_TYPE_bool:
        return number_of_whole(((const uint8_t *)from)[i]);
    default:
        return number_of_whole(((const int64_t *)from)[i]);
    }
}

DEVICE double load_real(int type, const void *from, int64_t i) {
    return load_number(type, from, i).re;
}

DEVICE void store_number(int type, void *to, int64_t i, number x) {
    switch (type) {
    case SL_TYPE_f32:
        ((float *)to)[i] = (float)x.re;
        break;
    case SL_TYPE_f16:
        ((uint16_t *)to)[i] = f16_of_f32((float)x.re);
        break;
    case SL_TYPE_bf16:
        ((uint16_t *)to)[i] = bf16_of_f32((float)x.re);
        break;
    case SL_TYPE_f64:
        ((double *)to)[i] = x.re;
        break;
    case SL_TYPE_c64:
        ((float *)to)[2 * i] = (float)x.re;
        ((float *)to)[2 * i + 1] = (float)x.im;
        break;
    case SL_TYPE_i8:
    case SL_TYPE_u8:
    case SL_TYPE_bool:
        ((uint8_t *)to)[i] = (uint8_t)x.whole;
        break;
    case SL_TYPE_i16:
    case SL_TYPE_u16:
        ((uint16_t *)to)[i] = (uint16_t)x.whole;
        break;
    case SL_TYPE_i32:
    case SL_TYPE_u32:
        ((uint32_t *)to)[i] = (uint32_t)x.whole;
        break;
    default:
        ((int64_t *)to)[i] = x.whole;
    }
}

/* ---- integers: 64-bit, wrapping; `type` gives signedness and width ---- */

DEVICE int bits_of(int type) {
    switch (type) {
    case SL_TYPE_i8:
    case SL_TYPE_u8:
        return 8;
    case SL_TYPE_i16:
    case SL_TYPE_u16:
        return 16;
    case SL_TYPE_i32:
    case SL_TYPE_u32:
        return 32;
    default:
        return 64;
    }
}
DEVICE bool is_signed(int type) {
    return type >= SL_TYPE_i8 && type <= SL_TYPE_i64;
}
/* x wrapped to the width of the type, sign- or zero-extended to 64 bits. */
DEVICE int64_t wrapped(int type, int64_t x) {
    const int beyond = 64 - bits_of(type);
    if (is_signed(type)) return (int64_t)((uint64_t)x << beyond) >> beyond;
    return (int64_t)((uint64_t)x << beyond >> beyond);
}
/* Smallest and largest value of an integer type; the largest u64 as a bit pattern. */
DEVICE int64_t lowest(int type) {
    return is_signed(type) ? -((int64_t)1 << (bits_of(type) - 2)) * 2 : 0;
}
DEVICE int64_t highest(int type) {
    return is_signed(type) ? -(lowest(type) + 1)
                           : (int64_t)(0xffffffffffffffffull >> (64 - bits_of(type)));
}
DEVICE bool is_less(int type, int64_t x, int64_t y) {
    return type == SL_TYPE_u64 ? (uint64_t)x < (uint64_t)y : x < y;
}
DEVICE int64_t whole_negative(int64_t x) {
    return (int64_t)(0 - (uint64_t)x);
}
/* Truncates toward zero; division by 0 is 0. */
DEVICE int64_t whole_div(int type, int64_t x, int64_t y) {
    if (y == 0) return 0;
    if (type == SL_TYPE_u64) return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? whole_negative(x) : x / y;
}

/* ---- any type; min and max propagate NaN ---- */

DEVICE number larger(int type, number x, number y) {
    const bool first =
        is_real(type) ? x.re != x.re || x.re > y.re : !is_less(type, x.whole, y.whole);
    return first ? x : y;
}
DEVICE number smaller(int type, number x, number y) {
    const bool first =
        is_real(type) ? x.re != x.re || x.re < y.re : !is_less(type, y.whole, x.whole);
    return first ? x : y;
}
DEVICE number sum_of(number x, number y) {
    return {x.re + y.re, x.im + y.im, (int64_t)((uint64_t)x.whole + (uint64_t)y.whole)};
}
DEVICE number product_of(int type, number x, number y) {
    const int64_t whole = (int64_t)((uint64_t)x.whole * (uint64_t)y.whole);
    if (type != SL_TYPE_c64) return {x.re * y.re, 0, whole};
    return number_of(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re);
}

/* ---- reductions ---- */

/* The identity of the reduction. */
DEVICE number fold_start(int type, int how) {
    const bool most = how == SL_FOLD_MIN, extreme = most || how == SL_FOLD_MAX;
    if (type == SL_TYPE_bool) return number_of_whole(most);
    if (type >= SL_TYPE_i8 && type <= SL_TYPE_u64)
        return number_of_whole(!extreme ? how == SL_FOLD_MUL : most ? highest(type) : lowest(type));
    if (extreme) return number_of(most ? INFINITY : -INFINITY);
    return number_of(how == SL_FOLD_MUL);
}
DEVICE number folded(int type, int how, number so_far, number x) {
    switch (how) {
    case SL_FOLD_ADD:
        return sum_of(so_far, x);
    case SL_FOLD_MUL:
        return product_of(type, so_far, x);
    case SL_FOLD_MAX:
        return larger(type, so_far, x);
    case SL_FOLD_MIN:
        return smaller(type, so_far, x);
    default:
        return x;
    }
}
#endif
