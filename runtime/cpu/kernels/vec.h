/* vec.h - SIMD vectors of the width of the instruction set.  Pointers are untyped and may have any
 * alignment. */
#ifndef SL_RUNTIME_CPU_VEC_H
#define SL_RUNTIME_CPU_VEC_H
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h> /* much faster to compile than immintrin.h */
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));

/* INLINE: always inlined, so that constant arguments are known at compile time; UNROLL(N): unrolls
 * the loop that follows.  Sanitizer builds do neither: with their checks, a file of kernels for
 * twenty weight types would take minutes to compile. */
#if defined(SL_DEBUG)
#define INLINE static inline
#define UNROLL(N)
#else
#define INLINE              static inline __attribute__((always_inline))
#define UNROLL(N)           UNROLL_PRAGMA(GCC unroll N)
#define UNROLL_PRAGMA(TEXT) _Pragma(#TEXT)
#endif

INLINE vf vload(const void *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE vu vload_u32(const void *p) {
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vstore(void *p, vf v) {
    memcpy(p, &v, sizeof v);
}
/* The first n lanes, the others zero; n in [0, LANES]. */
INLINE vf vload_n(const void *p, int64_t n) {
    if (n == LANES) return vload(p);
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
#endif
}
INLINE void vstore_n(void *p, vf v, int64_t n) {
    if (n == LANES) {
        vstore(p, v);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}
INLINE vf vsplat(float x) {
#if defined(__AVX512F__)
    return (vf)_mm512_set1_ps(x);
#elif defined(__AVX2__)
    return (vf)_mm256_set1_ps(x);
#else
    return (vf){x, x, x, x};
#endif
}
INLINE vf vzero(void) {
    return (vf){0};
}

/* a * b + c, fused where the instruction set can. */
INLINE vf vfma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}
/* Maximum and minimum; b if either is NaN, unlike the instructions of NEON. */
INLINE vf vmax(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
    const vi larger = a > b;
    return (vf)((larger & (vi)a) | (~larger & (vi)b));
#endif
}
INLINE vf vmin(vf a, vf b) {
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
    const vi smaller = a < b;
    return (vf)((smaller & (vi)a) | (~smaller & (vi)b));
#endif
}

/* The horizontal sum, by halves. */
INLINE float vsum(vf v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#elif defined(__aarch64__)
    return vaddv_f32(vadd_f32(vget_low_f32((float32x4_t)v), vget_high_f32((float32x4_t)v)));
#else
#if defined(__AVX2__)
    const __m128 q =
        _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    float f[4];
    memcpy(f, &q, sizeof f);
#else
    float f[4];
    memcpy(f, &v, sizeof f);
#endif
    return (f[0] + f[2]) + (f[1] + f[3]);
#endif
}

INLINE vf vfrom_i32(vi v) {
    return __builtin_convertvector(v, vf);
}
/* Loads 16-bit floats or bytes, widened to 32 bits. */
INLINE vu vload_u16(const void *p) {
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
    return (vu)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__SSE2__)
    return (vu)_mm_unpacklo_epi16(_mm_loadl_epi64((const __m128i *)p), _mm_setzero_si128());
#elif defined(__aarch64__)
    uint16x4_t half;
    memcpy(&half, p, sizeof half);
    return (vu)vmovl_u16(half);
#else
    uint16_t half[LANES];
    memcpy(half, p, sizeof half);
    return (vu){half[0], half[1], half[2], half[3]};
#endif
}
INLINE vf vload_bf16(const void *p) {
    return (vf)(vload_u16(p) << 16);
}
INLINE vf vload_f16(const void *p) {
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined(__aarch64__)
    float16x4_t half;
    memcpy(&half, p, sizeof half);
    return (vf)vcvt_f32_f16(half);
#else
    /* With the bits moved into the fields of an f32, the value is 2^112 too small, also for
     * subnormals. */
    const vu bits = vload_u16(p);
    const vf magnitude = (vf)((bits & 0x7fff) << 13) * vsplat(0x1p112f);
    const vu infinite = (vu)((bits & 0x7c00) == 0x7c00) & 0x7f800000;
    return (vf)((vu)magnitude | infinite | (bits & 0x8000) << 16);
#endif
}
INLINE vu vload_bytes(const void *p) {
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
#elif defined(__AVX2__)
    return (vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
#elif defined(__aarch64__)
    uint32_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return (vu)vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
#else
    const uint8_t *b = p;
    return (vu){b[0], b[1], b[2], b[3]};
#endif
}
INLINE vf vload_u8(const void *p) {
    return vfrom_i32((vi)vload_bytes(p));
}
#endif
