/* cache.h - Elements of the key-value cache (core/kv.h), which are f32 or f16. */
#ifndef SL_RUNTIME_CPU_CACHE_H
#define SL_RUNTIME_CPU_CACHE_H
#include "core/codec.h"
#include "core/kv.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* A vector of elements from element `at` on.  half is constant wherever speed matters. */
INLINE vf cache_load(const void *cache, int64_t at, const bool half) {
    return half ? vload_f16((const uint16_t *)cache + at) : vload((const float *)cache + at);
}
/* Its first n lanes, the others zero. */
INLINE vf cache_load_n(const void *cache, int64_t at, int64_t n, const bool half) {
    if (n == LANES) return cache_load(cache, at, half);
    if (!half) return vload_n((const float *)cache + at, n);
    uint16_t some[LANES] = {0};
    memcpy(some, (const uint16_t *)cache + at, (size_t)n * sizeof some[0]);
    return vload_f16(some);
}

/* Rounded to nearest, ties to even. */
INLINE void halves_of(vf x, uint16_t out[LANES]) {
#if defined(__AVX512F__)
    const __m256i halves = _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
    memcpy(out, &halves, sizeof halves);
#elif defined(__F16C__)
    const __m128i halves = _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
    memcpy(out, &halves, sizeof halves);
#else
    for (int i = 0; i < LANES; i++) out[i] = sl_f16_from_f32(x[i]);
#endif
}

/* Where one head of one sequence lies in keys and in values alike. */
INLINE int64_t cache_head(const sl_type *values, int64_t slot, int64_t head) {
    return (slot * dim(values, 1) + head) * dim(values, 2) * dim(values, 3);
}

/* Row t's slot and position must lie in the cache. */
SL_CHECKED static inline sl_status check_place(const sl_type *values, const int32_t *slots,
                                               const int32_t *positions, int64_t t, sl_error *err) {
    SL_TRY(check_index(slots[t], dim(values, 0), "attention: slot", t, err));
    return check_index(positions[t], dim(values, 2), "attention: position", t, err);
}
#endif
