/* float16.c - Conversion between 16-bit floats and f32. */
#include "core/ops.h"

#include "core/codec.h"
#include "runtime/cpu/kernels/elementwise_strips.h"
#include "runtime/cpu/kernels/vec.h"

void SL_KERNEL(sl_strip_widen)(sl_dtype dtype, const uint16_t *from, float *to, int64_t count) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        vstore(to + i, dtype == SL_DTYPE_f16 ? vload_f16(from + i) : vload_bf16(from + i));
    for (; i < count; i++)
        to[i] = dtype == SL_DTYPE_f16 ? sl_f32_from_f16(from[i]) : sl_f32_from_bf16(from[i]);
}

static void narrow_f16(const float *from, uint16_t *to, int64_t count) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_si256((__m256i *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i),
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
    for (; i + LANES <= count; i += LANES)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__aarch64__)
    for (; i + LANES <= count; i += LANES) {
        const float16x4_t half = vcvt_f16_f32(vld1q_f32(from + i));
        memcpy(to + i, &half, sizeof half);
    }
#endif
    for (; i < count; i++) to[i] = sl_f16_from_f32(from[i]);
}

static void narrow_bf16(const float *from, uint16_t *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
        const bool nan = (bits & 0x7fffffff) > 0x7f800000;
        to[i] = (uint16_t)(nan ? bits >> 16 | 0x40 : nearest >> 16);
    }
}

void SL_KERNEL(sl_strip_narrow)(sl_dtype dtype, const float *from, uint16_t *to, int64_t count) {
    if (dtype == SL_DTYPE_f16)
        narrow_f16(from, to, count);
    else
        narrow_bf16(from, to, count);
}

void SL_KERNEL(sl_strip_round)(sl_dtype dtype, float *x, int64_t count) {
    uint16_t halves[STRIP];
    SL_KERNEL(sl_strip_narrow)(dtype, x, halves, count);
    SL_KERNEL(sl_strip_widen)(dtype, halves, x, count);
}
