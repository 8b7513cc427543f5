/* emulator.h - CUDA's language for an ordinary C++ compiler, so that kernels run without a GPU.
 *
 * A kernel's source is compiled twice: by nvcc for devices, and with this header for tests. Threads
 * of a block are fibers that take turns; they switch at barriers and at exchanges within a warp,
 * and nowhere else.  Every other launch runs them from last to first, so that a missing barrier has
 * a chance to show.  Sanitizers see plain memory: what they find in kernels is real.
 * Only full warps may take part in an exchange. */
#ifndef SL_RUNTIME_CUDA_EMULATOR_H
#define SL_RUNTIME_CUDA_EMULATOR_H
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __restrict__ __restrict
#define __shared__   static
#define __constant__ static const
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

namespace emulated {
enum { WARP = 32 };
struct place {
    uint3 thread, block;
    dim3 block_size, grid_size;
    unsigned lane;
    void *dynamic_shared;
    bool followed; /* it has called follow() */
};
/* Of the running fiber; found without a call, because kernels ask for it all the time. */
extern __thread place *here __attribute__((tls_model("initial-exec")));

void lead();
void follow();
void block_barrier();
int block_barrier_sum(int value); /* the sum over the block's threads, after a barrier */
/* Gives `bytes` (at most 64) to the warp and returns what all 32 lanes gave, lane by lane at a
 * distance of 64 bytes; valid until the lane's next exchange. */
const unsigned char *warp_exchange(const void *mine, unsigned bytes);

template <class T> static inline T from_lane(T value, unsigned lane) {
    T result;
    std::memcpy(&result, warp_exchange(&value, sizeof value) + 64 * (lane & 31), sizeof result);
    return result;
}
} // namespace emulated

#define threadIdx (emulated::here->thread)
#define blockIdx  (emulated::here->block)
#define blockDim  (emulated::here->block_size)
#define gridDim   (emulated::here->grid_size)
#define warpSize  32

static inline void __syncthreads() {
    emulated::block_barrier();
}
static inline int __syncthreads_count(int predicate) {
    return emulated::block_barrier_sum(predicate != 0);
}
static inline int __syncthreads_or(int predicate) {
    return emulated::block_barrier_sum(predicate != 0) != 0;
}
static inline void __syncwarp(unsigned = ~0u) {
    const char nothing = 0;
    (void)emulated::warp_exchange(&nothing, 1);
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}
template <class T> static inline T __shfl_sync(unsigned, T value, int lane, int width = 32) {
    const int mine = (int)emulated::here->lane;
    return emulated::from_lane(value, (unsigned)(mine / width * width + lane % width));
}
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int = 32) {
    return emulated::from_lane(value, emulated::here->lane ^ (unsigned)mask);
}
template <class T>
static inline T __shfl_down_sync(unsigned, T value, unsigned delta, int width = 32) {
    const unsigned mine = emulated::here->lane, to = mine % (unsigned)width + delta;
    return emulated::from_lane(value, to < (unsigned)width ? mine + delta : mine);
}
template <class T>
static inline T __shfl_up_sync(unsigned, T value, unsigned delta, int width = 32) {
    const unsigned mine = emulated::here->lane;
    return emulated::from_lane(value, mine % (unsigned)width >= delta ? mine - delta : mine);
}
static inline unsigned __ballot_sync(unsigned, int predicate) {
    const unsigned char mine = predicate != 0;
    const unsigned char *all = emulated::warp_exchange(&mine, 1);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; i++) bits |= (unsigned)all[64 * i] << i;
    return bits;
}
static inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == ~0u;
}
static inline unsigned __match_any_sync(unsigned, int value) {
    const unsigned char *all = emulated::warp_exchange(&value, sizeof value);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; i++)
        bits |= (unsigned)(std::memcmp(all + 64 * i, &value, sizeof value) == 0) << i;
    return bits;
}
static inline unsigned __reduce_max_sync(unsigned, unsigned value) {
    const unsigned char *all = emulated::warp_exchange(&value, sizeof value);
    for (unsigned i = 0; i < 32; i++) {
        unsigned other;
        std::memcpy(&other, all + 64 * i, sizeof other);
        if (other > value) value = other;
    }
    return value;
}
static inline unsigned __reduce_min_sync(unsigned mask, unsigned value) {
    return ~__reduce_max_sync(mask, ~value);
}

template <class T> static inline T __ldg(const T *from) {
    return *from;
}
template <class T> static inline T __ldcs(const T *from) {
    return *from;
}
template <class T> static inline T __ldcg(const T *from) {
    return *from;
}
template <class T> static inline T atomicAdd(T *at, T value) {
    const T before = *at;
    *at = before + value;
    return before;
}
static inline int atomicMax(int *at, int value) {
    const int before = *at;
    *at = before > value ? before : value;
    return before;
}
/* Claims without an order among kernels: who is first is as good as any, so nobody checks it. */
__attribute__((no_sanitize("thread"))) static inline int atomicCAS(int *at, int expected,
                                                                   int value) {
    const int before = *at;
    if (before == expected) *at = value;
    return before;
}
static inline int atomicExch(int *at, int value) {
    const int before = *at;
    *at = value;
    return before;
}

static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++)
        c += (int)(int8_t)(unsigned)(a >> 8 * i) * (int)(int8_t)(unsigned)(b >> 8 * i);
    return c;
}
static inline float __int_as_float(int bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
static inline float __uint_as_float(unsigned bits) {
    return __int_as_float((int)bits);
}
static inline int __float_as_int(float value) {
    int bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline unsigned __float_as_uint(float value) {
    return (unsigned)__float_as_int(value);
}
static inline int __float2int_rn(float value) {
    return (int)std::nearbyintf(value);
}
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
static inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}
#define __expf(x) std::exp((float)(x))
static inline float __fdividef(float a, float b) {
    return a / b;
}
static inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
static inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
static inline int __ffsll(long long bits) {
    return __builtin_ffsll(bits);
}
static inline int __clzll(long long bits) {
    return bits ? __builtin_clzll((unsigned long long)bits) : 64;
}
static inline int __clz(int bits) {
    return bits ? __builtin_clz((unsigned)bits) : 32;
}
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t both = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}
template <class T> static inline T min(T a, T b) {
    return b < a ? b : a;
}
template <class T> static inline T max(T a, T b) {
    return a < b ? b : a;
}

/* Every kernel is in a table (kernels.cpp), which has its name:
 * SL_CUDA_KERNEL(sl_softmax, sl_softmax_rows). */
namespace emulated {
struct kernel {
    const char *name;
    void (*call)(const void *args);
};
} // namespace emulated
#endif
