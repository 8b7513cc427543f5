/* elementwise.cu - Elementwise ops on the types that models use.  A result may overwrite an
 * operand: a thread reads everything it needs before it writes. */
#include "runtime/cuda/kernels/elementwise.h"
#include "runtime/cuda/kernels/elementwise.cuh"
#include "runtime/cuda/kernels/strides.cuh"

/* ---- one operand ---- */

template <class OP> DEVICE void unary(const sl_unary &a) {
    const int64_t i = thread_number();
    if (i >= a.units) return;
    if (!a.vectors) {
        a.out[i] = OP::of(a.x[i]);
        return;
    }
    const float4 x = ((const float4 *)a.x)[i];
    ((float4 *)a.out)[i] = make_float4(OP::of(x.x), OP::of(x.y), OP::of(x.z), OP::of(x.w));
}

#define POINT(OP)                                                                                  \
    struct point_##OP {                                                                            \
        DEVICE float of(float x) {                                                                 \
            return apply_##OP(x);                                                                  \
        }                                                                                          \
    };                                                                                             \
    SL_CUDA_KERNEL(sl_##OP, sl_unary) {                                                            \
        unary<point_##OP>(a);                                                                      \
    }
SL_POINTS_1(POINT)
#undef POINT

/* ---- two operands, with broadcasting ---- */

/* The vector type of four T. */
template <class T> struct vector_of;
template <> struct vector_of<float> {
    typedef float4 type;
};
template <> struct vector_of<unsigned> {
    typedef uint4 type;
};

template <class T> DEVICE typename vector_of<T>::type load4(const T *from, int step) {
    if (step) return *(const typename vector_of<T>::type *)from;
    const T value = *from;
    return {value, value, value, value};
}

template <class OP> DEVICE void binary(const sl_binary &a) {
    typedef typename OP::type type;
    const int64_t i = thread_number();
    if (i >= a.units) return;
    const places at = walk_to(a.walk, i);
    const type *from_x = (const type *)a.x + at.x, *from_y = (const type *)a.y + at.y;
    if (!a.vectors) {
        ((type *)a.out)[i] = OP::of(*from_x, *from_y);
        return;
    }
    typedef typename vector_of<type>::type four;
    const four x = load4(from_x, a.x_step), y = load4(from_y, a.y_step);
    ((four *)a.out)[i] = {OP::of(x.x, y.x), OP::of(x.y, y.y), OP::of(x.z, y.z), OP::of(x.w, y.w)};
}

#define BINARY(NAME, T, ...)                                                                       \
    struct point_##NAME {                                                                          \
        typedef T type;                                                                            \
        DEVICE T of(T x, T y) {                                                                    \
            return __VA_ARGS__;                                                                    \
        }                                                                                          \
    };                                                                                             \
    SL_CUDA_KERNEL(sl_##NAME, sl_binary) {                                                         \
        binary<point_##NAME>(a);                                                                   \
    }
#define POINT(OP) BINARY(OP##_f32, float, apply_##OP(x, y))
SL_POINTS_2(POINT)
#undef POINT
/* Integers wrap. */
BINARY(add_i32, unsigned, x + y)
BINARY(sub_i32, unsigned, x - y)
BINARY(mul_i32, unsigned, x *y)
BINARY(maximum_i32, unsigned, (int)x > (int)y ? x : y)
BINARY(minimum_i32, unsigned, (int)x < (int)y ? x : y)

/* ---- three operands ---- */

SL_CUDA_KERNEL(sl_add3, sl_sum3) {
    const int64_t i = thread_number();
    if (i >= a.units) return;
    if (!a.vectors) {
        a.out[i] = a.x[i] + a.y[i] + a.z[i];
        return;
    }
    const float4 x = ((const float4 *)a.x)[i], y = ((const float4 *)a.y)[i];
    const float4 z = ((const float4 *)a.z)[i];
    ((float4 *)a.out)[i] =
        make_float4(x.x + y.x + z.x, x.y + y.y + z.y, x.z + y.z + z.z, x.w + y.w + z.w);
}

/* ---- regions ---- */

enum { REGION_THREADS = 128 };

/* A thread's registers are its own column of shared memory, because steps index them at run time.
 * No branch diverges: all threads run the same program. */
SL_CUDA_KERNEL(sl_elementwise_region, sl_region, REGION_THREADS) {
    __shared__ float4 registers[SL_REGION_REGISTERS][REGION_THREADS];
    const int64_t i = thread_number();
    const int me = (int)threadIdx.x;
    if (i >= a.units) return;
#pragma unroll
    for (int r = 0; r < SL_REGION_INPUTS; r++) {
        if (a.inputs[r] && a.vectors)
            registers[r][me] = ((const float4 *)a.inputs[r])[i];
        else if (a.inputs[r])
            registers[r][me].x = a.inputs[r][i];
    }
    for (int s = 0; s < a.steps; s++) {
        const float *x = &registers[a.code[s].x][me].x, *y = &registers[a.code[s].y][me].x;
        float *out = &registers[a.code[s].to][me].x;
        for (int e = 0; e < (a.vectors ? 4 : 1); e++) out[e] = apply_step(a.code[s].number, x[e], y[e]);
    }
    const float4 last = registers[a.code[a.steps - 1].to][me];
    if (a.vectors)
        ((float4 *)a.out)[i] = last;
    else
        a.out[i] = last.x;
}
