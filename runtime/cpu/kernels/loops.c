/* loops.c - Loops that measure memory bandwidth and arithmetic throughput. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vec.h"

enum { STREAMS = 4, LINE = 64, VECTORS = LINE / (int)sizeof(vf), CHAINS = 12, DOT_CHAINS = 12 };

/* Hides the value of a register from the optimiser. */
#if defined(__x86_64__)
#define hide(v) __asm__("" : "+x"(v))
#else
#define hide(v) __asm__("" : "+w"(v))
#endif

/* Reads four quarters of the block concurrently, as panels are read.  Integers, because arbitrary
 * bytes as floats may be subnormal, and slow. */
float SL_KERNEL(sl_loop_read)(const void *block, size_t bytes) {
    const size_t quarter = bytes / STREAMS / LINE * LINE;
    vu sums[STREAMS][VECTORS] = {0};
    for (size_t at = 0; at < quarter; at += LINE) {
        UNROLL(4)
        for (size_t s = 0; s < STREAMS; s++) {
            UNROLL(4)
            for (size_t v = 0; v < VECTORS; v++)
                sums[s][v] += vload_u32((const char *)block + s * quarter + at + v * sizeof(vf));
        }
    }
    vu total = {0};
    for (int s = 0; s < STREAMS; s++)
        for (int v = 0; v < VECTORS; v++) total += sums[s][v];
    return (float)total[0] + (float)total[LANES - 1];
}

/* Enough independent accumulators to hide the latency of two FMA units, few enough for 16
 * registers. */
float SL_KERNEL(sl_loop_fma)(uint64_t rounds, uint64_t *out_operations) {
    const vf factor = vsplat(0.999f), addend = vsplat(0.001f);
    vf chains[CHAINS];
    for (int c = 0; c < CHAINS; c++) chains[c] = vsplat((float)c);
    for (uint64_t r = 0; r < rounds; r++) {
        UNROLL(12)
        for (int c = 0; c < CHAINS; c++) chains[c] = vfma(chains[c], factor, addend);
    }
    vf total = vzero();
    for (int c = 0; c < CHAINS; c++) total += chains[c];
    *out_operations = rounds * CHAINS * LANES * 2;
    return vsum(total);
}

/* One int8 dot-product instruction: DOT_PRODUCTS products, accumulated in 32 bits, or in 16 where
 * the instruction set has no wider sums (a kernel must widen them regularly; this loop does
 * not). */
#if defined(__AVX512VNNI__)
typedef __m512i dots;
typedef int32_t dot_sum;
enum { DOT_PRODUCTS = 64 };
INLINE dots dot_ones(void) {
    return _mm512_set1_epi8(1);
}
INLINE dots dot_step(dots sums, dots a, dots b) {
    return _mm512_dpbusd_epi32(sums, a, b);
}
#elif defined(__AVX2__)
typedef __m256i dots;
typedef int16_t dot_sum;
enum { DOT_PRODUCTS = 32 };
INLINE dots dot_ones(void) {
    return _mm256_set1_epi8(1);
}
INLINE dots dot_step(dots sums, dots a, dots b) {
    return _mm256_add_epi16(sums, _mm256_maddubs_epi16(a, b));
}
#elif defined(__SSE2__)
typedef __m128i dots;
typedef int32_t dot_sum;
enum { DOT_PRODUCTS = 8 };
INLINE dots dot_ones(void) {
    return _mm_set1_epi16(1);
}
INLINE dots dot_step(dots sums, dots a, dots b) {
    return _mm_add_epi32(sums, _mm_madd_epi16(a, b));
}
#else
typedef vi dots;
typedef int32_t dot_sum;
enum { DOT_PRODUCTS = LANES };
INLINE dots dot_ones(void) {
    return (vi){0} + 1;
}
INLINE dots dot_step(dots sums, dots a, dots b) {
    return sums + a * b;
}
#endif

static float dot_total(const dots *chains) {
    dot_sum sums[DOT_CHAINS * sizeof(dots) / sizeof(dot_sum)];
    float total = 0;
    memcpy(sums, chains, sizeof sums);
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) total += (float)sums[i];
    return total;
}

float SL_KERNEL(sl_loop_dot)(uint64_t rounds, uint64_t *out_operations) {
    dots chains[DOT_CHAINS] = {{0}}, a = dot_ones();
    const dots b = dot_ones();
    for (uint64_t r = 0; r < rounds; r++) {
        UNROLL(12)
        for (int c = 0; c < DOT_CHAINS; c++) {
            hide(a); /* otherwise the products would be loop-invariant */
            chains[c] = dot_step(chains[c], a, b);
        }
    }
    *out_operations = rounds * DOT_CHAINS * DOT_PRODUCTS * 2;
    return dot_total(chains);
}
