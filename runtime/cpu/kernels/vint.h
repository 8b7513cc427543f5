/* vint.h - Dot products of 8-bit and 16-bit integers, accumulated in 32-bit lanes.
 *
 * vdot_*(acc, weights, activations) adds to every lane of acc the sum over i < 4 of byte i of that
 * lane of weights times byte i of activations (byte 0 is the lowest).  Exact as long as the sums
 * fit.  Activations are signed, never -128, and the same for all lanes.  Weights are
 *   vdot_u8   unsigned
 *   vdot_u7   unsigned and at most 127
 *   vdot_s8   signed, -128 included
 * Subexpressions that depend only on activations are written so that the compiler can share them
 * between vectors of weights.
 *
 * vdot_s16(acc, pairs, pair) adds to every lane of acc the sum over i < 2 of 16-bit half i of that
 * lane of pairs times half i of pair; all are signed and never -32768. */
#ifndef SL_RUNTIME_CPU_VINT_H
#define SL_RUNTIME_CPU_VINT_H
#include "runtime/cpu/kernels/vec.h"
#include <math.h>

/* Rounds to the nearest integer, ties to even; |x| < 2^31.  An intrinsic, so the compiler cannot
 * contract it with a preceding product. */
INLINE vi vround_i32(vf x) {
#if defined(__AVX512F__)
    return (vi)_mm512_cvtps_epi32((__m512)x);
#elif defined(__AVX2__)
    return (vi)_mm256_cvtps_epi32((__m256)x);
#elif defined(__SSE2__)
    return (vi)_mm_cvtps_epi32((__m128)x);
#elif defined(__aarch64__)
    return (vi)vcvtnq_s32_f32((float32x4_t)x);
#else
    vi out = {0};
    for (int i = 0; i < LANES; i++) out[i] = (int32_t)nearbyintf(x[i]);
    return out;
#endif
}

/* Stores each lane as 16 bits, saturated. */
INLINE void vstore_i16(void *p, vi v) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(p, _mm512_cvtsepi32_epi16((__m512i)v));
#elif defined(__AVX2__)
    const __m128i low = _mm256_castsi256_si128((__m256i)v);
    _mm_storeu_si128(p, _mm_packs_epi32(low, _mm256_extracti128_si256((__m256i)v, 1)));
#elif defined(__SSE2__)
    _mm_storel_epi64(p, _mm_packs_epi32((__m128i)v, (__m128i)v));
#elif defined(__aarch64__)
    vst1_s16(p, vqmovn_s32((int32x4_t)v));
#else
    for (int i = 0; i < LANES; i++) {
        const int32_t x = v[i] > INT16_MAX ? INT16_MAX : v[i] < INT16_MIN ? INT16_MIN : v[i];
        memcpy((int16_t *)p + i, &(int16_t){(int16_t)x}, sizeof(int16_t));
    }
#endif
}

INLINE vi vdot_s16(vi acc, vu pairs, int32_t pair) {
#if defined(__AVX512F__)
    return (vi)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)pairs, _mm512_set1_epi32(pair));
#elif defined(__AVX2__)
    return acc + (vi)_mm256_madd_epi16((__m256i)pairs, _mm256_set1_epi32(pair));
#elif defined(__SSE2__)
    return acc + (vi)_mm_madd_epi16((__m128i)pairs, _mm_set1_epi32(pair));
#elif defined(__aarch64__)
    const int16x8_t w = (int16x8_t)pairs, a = vreinterpretq_s16_s32(vdupq_n_s32(pair));
    const int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(a));
    return acc + (vi)vpaddq_s32(low, vmull_high_s16(w, a));
#else
    acc += ((vi)(pairs << 16) >> 16) * (int16_t)(pair & 0xffff);
    return acc + ((vi)pairs >> 16) * (pair >> 16);
#endif
}

/* Whether callers should convert signed weights to unsigned ones and subtract 128 times the sum of
 * the activations. */
#if defined(__AVX512F__)
#define VDOT_UNSIGNED 1
#else
#define VDOT_UNSIGNED 0
#endif

INLINE vu vsplat_u32(uint32_t x) {
    return (vu){0} + x;
}

/* Lookup table: replaces each byte of `indices` (at most 15) by its entry. */
INLINE vu vlookup(const int8_t table[16], vu indices) {
#if defined(__AVX512F__)
    const __m128i entries = _mm_loadu_si128((const __m128i *)table);
    return (vu)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), (__m512i)indices);
#elif defined(__AVX2__)
    const __m128i entries = _mm_loadu_si128((const __m128i *)table);
    return (vu)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), (__m256i)indices);
#elif defined(__aarch64__)
    return (vu)vqtbl1q_s8(vld1q_s8(table), (uint8x16_t)indices);
#else
    uint8_t bytes[LANES * 4];
    memcpy(bytes, &indices, sizeof bytes);
    for (int i = 0; i < LANES * 4; i++) bytes[i] = (uint8_t)table[bytes[i]];
    return vload_u32(bytes);
#endif
}

#if defined(__AVX512F__) /* implies VNNI here */
INLINE vi vdot_u8(vi acc, vu weights, int32_t activations) {
    return (vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)weights, _mm512_set1_epi32(activations));
}
INLINE vi vdot_u7(vi acc, vu weights, int32_t activations) {
    return vdot_u8(acc, weights, activations);
}
/* w = (w ^ 0x80) - 128, with w ^ 0x80 unsigned. */
INLINE vi vdot_s8(vi acc, vu weights, int32_t activations) {
    const vi excess = vdot_u8((vi){0}, vsplat_u32(0x80808080), activations);
    return vdot_u8(acc, weights ^ 0x80808080, activations) - excess;
}

#elif defined(__AVX2__)
/* Requires that sums of two products fit in 16 bits. */
INLINE vi add_pairs(vi acc, __m256i weights, __m256i activations) {
    const __m256i pairs = _mm256_maddubs_epi16(weights, activations);
    return acc + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
/* Even and odd bytes are widened separately: sums of two u8 products would not fit in 16 bits. */
INLINE vi vdot_u8(vi acc, vu weights, int32_t activations) {
    const __m256i w = (__m256i)weights, a = _mm256_set1_epi32(activations);
    const __m256i a_even = _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8);
    const __m256i a_odd = _mm256_srai_epi16(a, 8);
    const __m256i w_even = _mm256_and_si256(w, _mm256_set1_epi16(0xff));
    const __m256i w_odd = _mm256_srli_epi16(w, 8);
    acc += (vi)_mm256_madd_epi16(w_even, a_even);
    return acc + (vi)_mm256_madd_epi16(w_odd, a_odd);
}
INLINE vi vdot_u7(vi acc, vu weights, int32_t activations) {
    return add_pairs(acc, (__m256i)weights, _mm256_set1_epi32(activations));
}
/* w a = |w| (a with the sign of w); 2 * 128 * 127 fits in 16 bits. */
INLINE vi vdot_s8(vi acc, vu weights, int32_t activations) {
    const __m256i w = (__m256i)weights, a = _mm256_set1_epi32(activations);
    return add_pairs(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
}

#elif defined(__SSE2__)
/* Multiplies even and odd bytes, widened to 16 bits. */
INLINE vi add_widened(vi acc, __m128i w_even, __m128i w_odd, int32_t activations) {
    const __m128i a = _mm_set1_epi32(activations);
    const __m128i a_even = _mm_srai_epi16(_mm_slli_epi16(a, 8), 8), a_odd = _mm_srai_epi16(a, 8);
    acc += (vi)_mm_madd_epi16(w_even, a_even);
    return acc + (vi)_mm_madd_epi16(w_odd, a_odd);
}
INLINE vi vdot_u8(vi acc, vu weights, int32_t activations) {
    const __m128i w = (__m128i)weights;
    return add_widened(acc, _mm_and_si128(w, _mm_set1_epi16(0xff)), _mm_srli_epi16(w, 8),
                       activations);
}
INLINE vi vdot_u7(vi acc, vu weights, int32_t activations) {
    return vdot_u8(acc, weights, activations);
}
INLINE vi vdot_s8(vi acc, vu weights, int32_t activations) {
    const __m128i w = (__m128i)weights;
    return add_widened(acc, _mm_srai_epi16(_mm_slli_epi16(w, 8), 8), _mm_srai_epi16(w, 8),
                       activations);
}

#elif defined(__aarch64__)
INLINE vi vdot_s8(vi acc, vu weights, int32_t activations) {
    const int8x16_t w = (int8x16_t)weights, a = vreinterpretq_s8_s32(vdupq_n_s32(activations));
#if defined(__ARM_FEATURE_DOTPROD)
    return (vi)vdotq_s32((int32x4_t)acc, w, a);
#else
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(a)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(w, a));
    return acc + (vi)vpaddq_s32(low, high);
#endif
}
INLINE vi vdot_u7(vi acc, vu weights, int32_t activations) {
    return vdot_s8(acc, weights, activations);
}
/* w = (w ^ 0x80) + 128, with w ^ 0x80 signed. */
INLINE vi vdot_u8(vi acc, vu weights, int32_t activations) {
    const vi lack = vdot_s8((vi){0}, vsplat_u32(0x80808080), activations);
    return vdot_s8(acc, weights ^ 0x80808080, activations) - lack;
}

#else
INLINE vi vdot_u8(vi acc, vu weights, int32_t activations) {
    for (int i = 0; i < 4; i++)
        acc += (vi)(weights >> (8 * i) & 0xff) * (int8_t)(activations >> (8 * i));
    return acc;
}
INLINE vi vdot_u7(vi acc, vu weights, int32_t activations) {
    return vdot_u8(acc, weights, activations);
}
INLINE vi vdot_s8(vi acc, vu weights, int32_t activations) {
    for (int i = 0; i < 4; i++)
        acc += ((vi)(weights << (24 - 8 * i)) >> 24) * (int8_t)(activations >> (8 * i));
    return acc;
}
#endif
#endif
