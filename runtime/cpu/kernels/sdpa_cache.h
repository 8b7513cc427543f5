/* sdpa_cache.h - Access to the KV cache (core/kv.h) in f32, f16 or 16-bit codes. */
#ifndef SL_RUNTIME_CPU_SDPA_CACHE_H
#define SL_RUNTIME_CPU_SDPA_CACHE_H
#include "core/codec.h"
#include "core/kv.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vint.h"
#include "runtime/cpu/kernels/vmath.h"
#include <float.h>

/* A vector of elements from `at` on.  half is a compile-time constant wherever speed matters. */
INLINE vf cache_load(const void *cache, int64_t at, const bool half) {
    return half ? vload_f16((const uint16_t *)cache + at) : vload((const float *)cache + at);
}
/* The first n lanes, the others zero. */
INLINE vf cache_load_n(const void *cache, int64_t at, int64_t n, const bool half) {
    if (n == LANES) return cache_load(cache, at, half);
    if (!half) return vload_n((const float *)cache + at, n);
    uint16_t some[LANES] = {0};
    memcpy(some, (const uint16_t *)cache + at, (size_t)n * sizeof some[0]);
    return vload_f16(some);
}

/* Converts to f16, rounding to nearest even. */
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

/* Quantisation to 16 bits as in core/kv.h: by norm (keys and queries) or by the largest magnitude
 * (values).  inverse turns values into codes, scale turns codes into values.  Not inlined, so that
 * a row has the same codes for every caller. */
typedef struct {
    float inverse, scale;
} coding16;

static __attribute__((noinline, unused)) coding16 coding16_of(const float *x, int64_t n,
                                                              bool by_norm) {
    vf most = vzero(), wrong = vzero(), squares = vzero();
    FOR_VECTORS(i, lanes, n, {
        const vf v = vload_n(x + i, lanes);
        most = vmax((vf)((vu)v & 0x7fffffff), most);
        wrong += v * vzero(); /* zero, or NaN where v is not finite */
    });
    float largest = 0;
    for (int lane = 0; lane < LANES; lane++) largest = most[lane] > largest ? most[lane] : largest;
    const float total = vsum(wrong), inverse = 1 / largest;
    if (total != total) return (coding16){0, NAN};
    if (!(SL_K16_NORM / largest <= FLT_MAX)) return (coding16){0, 0};
    if (!by_norm) return (coding16){SL_V16_TOP / largest, largest / SL_V16_TOP};
    FOR_VECTORS(i, lanes, n, {
        const vf v = vload_n(x + i, lanes) * vsplat(inverse);
        squares = vfma(v, v, squares);
    });
    const float top = SL_K16_NORM / sqrtf(vsum(squares));
    return (coding16){top / largest, largest / top};
}
/* A vector of codes; 0 if the row is zero or not finite. */
INLINE vi codes16_of(vf x, coding16 c) {
    const vi none = {0};
    return c.inverse == 0 ? none : vround_i32(x * vsplat(c.inverse));
}

/* Byte offset of one head of one sequence, in keys or in values. */
INLINE int64_t cache_head(const sl_type *cache, int64_t slot, int64_t head) {
    const int64_t before = slot * dim(cache, 1) + head, each = sl_dims_tail(&cache->shape, 2);
    if (sl_dtype_infos[cache->dtype].kind == SL_KIND_CACHE)
        return before * (each / dim(cache, 3) / SL_KV_LANES) * sl_kv_block_bytes(dim(cache, 3));
    return before * each * (int64_t)sl_dtype_infos[cache->dtype].bytes;
}

/* Checks that row t's slot and position are inside the cache. */
SL_CHECKED static inline sl_status check_place(const sl_type *values, const int32_t *slots,
                                               const int32_t *positions, int64_t t, sl_error *err) {
    SL_TRY(check_index(slots[t], dim(values, 0), "attention: slot", t, err));
    return check_index(positions[t], dim(values, 2), "attention: position", t, err);
}
#endif
