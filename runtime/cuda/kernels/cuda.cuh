/* cuda.cuh - Included first by every kernel file: the language (nvcc's or the emulator's), and a
 * few common functions. */
#ifndef SL_RUNTIME_CUDA_KERNELS_CUDA_CUH
#define SL_RUNTIME_CUDA_KERNELS_CUDA_CUH
#include "runtime/gpu/fault.h"
#include <stdint.h>

#ifdef __CUDACC__
#define SL_EMULATED 0
/* Defines a kernel; each has a row in runtime/cuda/functions.def:
 *     SL_CUDA_KERNEL(sl_softmax, sl_softmax_rows) { ... a.x ... }
 * The optional third argument is the bound on threads per block, 256 by default. */
#define SL_CUDA_KERNEL(NAME, ARGS, ...)                                                            \
    static __device__ __forceinline__ void body_##NAME(const ARGS &a);                             \
    extern "C" __global__ void __launch_bounds__(sl_threads_of(__VA_ARGS__))                       \
        NAME(const __grid_constant__ ARGS a) {                                                     \
        lead();                                                                                    \
        follow();                                                                                  \
        body_##NAME(a);                                                                            \
    }                                                                                              \
    static __device__ __forceinline__ void body_##NAME(const ARGS &a)
/* A kernel that calls lead() and follow() itself. */
#define SL_CUDA_KERNEL_AHEAD(NAME, ARGS, ...)                                                      \
    extern "C" __global__ void __launch_bounds__(sl_threads_of(__VA_ARGS__))                       \
        NAME(const __grid_constant__ ARGS a)
/* Dynamic shared memory as an array of T. */
#define SL_DYNAMIC_SHARED(T, NAME)                                                                 \
    extern __shared__ __align__(16) unsigned char sl_dynamic_shared[];                             \
    T *NAME = (T *)sl_dynamic_shared
/* Tells the compiler that a pointer loaded from memory points to global memory, so that it emits
 * no generic loads. */
#define SL_IN_GLOBAL(POINTER) __builtin_assume(__isGlobal(POINTER))
/* Keeps a pointer, or a 32-bit word, in a register; the compiler would otherwise recompute it at
 * every use. */
#define SL_KEEP_POINTER(POINTER) asm volatile("" : "+l"(POINTER))
#define SL_KEEP_WORD(WORD)       asm volatile("" : "+r"(WORD))
#else
#include "runtime/cuda/emulator/emulator.h"
#define SL_EMULATED 1
#define SL_EMULATED_KERNEL(NAME, ARGS, BEGIN)                                                      \
    static void NAME(const ARGS &a);                                                               \
    static void call_##NAME(const void *args) {                                                    \
        BEGIN;                                                                                     \
        NAME(*(const ARGS *)args);                                                                 \
    }                                                                                              \
    const char *name_of_##NAME(const ARGS *);                                                      \
    emulated::kernel entry_##NAME = {name_of_##NAME(nullptr), call_##NAME};                        \
    static void NAME(const ARGS &a)
#define SL_CUDA_KERNEL(NAME, ARGS, ...)       SL_EMULATED_KERNEL(NAME, ARGS, (lead(), follow()))
#define SL_CUDA_KERNEL_AHEAD(NAME, ARGS, ...) SL_EMULATED_KERNEL(NAME, ARGS, (void)0)
#define SL_DYNAMIC_SHARED(T, NAME)            T *NAME = (T *)emulated::here->dynamic_shared
#define SL_IN_GLOBAL(POINTER)                 (void)(POINTER)
#define SL_KEEP_POINTER(POINTER)              (void)(POINTER)
#define SL_KEEP_WORD(WORD)                    (void)(WORD)
#endif

constexpr int sl_threads_of(int threads = 256) {
    return threads;
}

#define DEVICE static __device__ __forceinline__
#define MEMBER __device__ __forceinline__ /* a non-static member function */

/* Programmatic dependent launch: once all blocks of a kernel have called lead(), blocks of the
 * kernels that depend on it may start.  follow() waits until the kernels that this one depends on
 * are complete; only then may it read their results or overwrite their operands.  Weights never
 * change, so they can be loaded before follow(). */
DEVICE void lead() {
#if SL_EMULATED
    emulated::lead();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
DEVICE void follow() {
#if SL_EMULATED
    emulated::follow();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

DEVICE int lane_id() {
    return (int)(threadIdx.x % WARP);
}
DEVICE int warp_id() {
    return (int)(threadIdx.x / WARP);
}

DEVICE void add_times(float4 &sum, float factor, float4 x) {
    sum = make_float4(fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
                      fmaf(factor, x.w, sum.w));
}

/* Butterfly reductions: every lane gets the result.  The order of additions is fixed, so equal
 * inputs give equal bits in every block. */
DEVICE float warp_sum(float x) {
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
DEVICE double warp_sum(double x) {
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
    return x;
}
DEVICE float warp_max(float x) {
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, d));
    return x;
}

/* Block reductions: every thread gets the result.  The block consists of whole warps.  They end
 * with a barrier, so they can be called again at once. */
DEVICE float block_sum(float x) {
    __shared__ float parts[WARP];
    const int warps = (int)(blockDim.x / WARP);
    x = warp_sum(x);
    if (warps == 1) return x;
    if (lane_id() == 0) parts[warp_id()] = x;
    __syncthreads();
    x = warp_sum(lane_id() < warps ? parts[lane_id()] : 0.0f);
    __syncthreads();
    return x;
}
DEVICE float block_max(float x) {
    __shared__ float parts[WARP];
    const int warps = (int)(blockDim.x / WARP);
    x = warp_max(x);
    if (warps == 1) return x;
    if (lane_id() == 0) parts[warp_id()] = x;
    __syncthreads();
    x = warp_max(lane_id() < warps ? parts[lane_id()] : parts[0]);
    __syncthreads();
    return x;
}

/* Returns value if 0 <= value < limit; otherwise reports a fault, unless there is one already, and
 * returns 0. */
DEVICE int checked(sl_fault *fault, int kind, int row, int value, int limit) {
    if (value >= 0 && value < limit) return value;
    if (atomicCAS(&fault->kind, SL_FAULT_NONE, kind) == SL_FAULT_NONE) {
        fault->row = row;
        fault->value = value;
        fault->limit = limit;
    }
    return 0;
}

/* ---- 16-bit floats ---- */

DEVICE float f32_of_bf16(uint16_t bits) {
    return __uint_as_float((unsigned)bits << 16);
}
DEVICE uint16_t bf16_of_f32(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#if SL_EMULATED
DEVICE float f32_of_f16(uint16_t bits) {
    const unsigned sign = (unsigned)(bits & 0x8000) << 16, exponent = bits >> 10 & 31;
    const unsigned fraction = bits & 1023;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        const float tiny = (float)fraction * 5.9604644775390625e-8f;
        return sign ? -tiny : tiny;
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}
DEVICE uint16_t f16_of_f32(float x) {
    const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000;
    const float size = fabsf(x);
    if (x != x) return (uint16_t)(sign | 0x7e00);
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (size < 6.103515625e-5f) /* the ulp of 0.5 is the step of subnormal halves */
        return (uint16_t)(sign | (__float_as_uint(size + 0.5f) - __float_as_uint(0.5f)));
    const unsigned wide = bits & 0x7fffffff;
    return (uint16_t)(sign | (wide + 0xfff + (wide >> 13 & 1) - (112u << 23)) >> 13);
}
#else
DEVICE float f32_of_f16(uint16_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
DEVICE uint16_t f16_of_f32(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif
/* The two halves of a word, the lower first. */
DEVICE float2 f32_of_f16_pair(unsigned word) {
    return make_float2(f32_of_f16((uint16_t)word), f32_of_f16((uint16_t)(word >> 16)));
}
DEVICE float2 f32_of_bf16_pair(unsigned word) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}
DEVICE unsigned f16_pair(float low, float high) {
    return (unsigned)f16_of_f32(low) | (unsigned)f16_of_f32(high) << 16;
}
/* (x & MASK) | y as a single lop3, which has room for one immediate. */
template <unsigned MASK> DEVICE unsigned masked_or(unsigned x, unsigned y) {
#if SL_EMULATED
    return (x & MASK) | y;
#else
    unsigned bits;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(bits) : "r"(x), "n"(MASK), "r"(y));
    return bits;
#endif
}
/* Broadcasts one half to both; the f16x2 instructions below can take such an operand directly. */
DEVICE unsigned low_twice(unsigned pair) {
#if SL_EMULATED
    return pair << 16 | (pair & 0xffff);
#else
    unsigned both;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l};}" : "=r"(both) : "r"(pair));
    return both;
#endif
}
DEVICE unsigned high_twice(unsigned pair) {
#if SL_EMULATED
    return pair >> 16 | (pair & 0xffff0000u);
#else
    unsigned both;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h};}" : "=r"(both) : "r"(pair));
    return both;
#endif
}
/* On both halves, each rounded once. */
DEVICE unsigned add_f16_pair(unsigned x, unsigned y) {
#if SL_EMULATED
    const float2 p = f32_of_f16_pair(x), q = f32_of_f16_pair(y);
    return f16_pair(p.x + q.x, p.y + q.y);
#else
    unsigned sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
    return sum;
#endif
}
/* x * y + z */
DEVICE unsigned fma_f16_pair(unsigned x, unsigned y, unsigned z) {
#if SL_EMULATED
    const float2 p = f32_of_f16_pair(x), q = f32_of_f16_pair(y), r = f32_of_f16_pair(z);
    return f16_pair(p.x * q.x + r.x, p.y * q.y + r.y);
#else
    unsigned sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
#endif
}
DEVICE unsigned bf16_pair(float low, float high) {
    return (unsigned)bf16_of_f32(low) | (unsigned)bf16_of_f32(high) << 16;
}
#endif
