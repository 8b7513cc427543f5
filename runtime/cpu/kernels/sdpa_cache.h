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

/* Bytes of keys or values: of a slot or page, of one head of it, of SL_KV_PAGE positions. */
typedef struct {
    int64_t slot_bytes, head_bytes, block_bytes;
} cache_layout;

INLINE cache_layout layout_of(const sl_type *cache) {
    const int64_t positions = sl_dims_tail(&cache->shape, 2) / dim(cache, 3);
    const bool coded = sl_dtype_infos[cache->dtype].kind == SL_KIND_CACHE;
    const int64_t each = coded ? sl_kv_block_bytes(dim(cache, 3)) / SL_KV_LANES
                               : dim(cache, 3) * (int64_t)sl_dtype_infos[cache->dtype].bytes;
    return (cache_layout){dim(cache, 1) * positions * each, positions * each, SL_KV_PAGE * each};
}
/* Byte offset of one head of a slot or page. */
INLINE int64_t head_in(const cache_layout *layout, int64_t slot, int64_t head) {
    return slot * layout->slot_bytes + head * layout->head_bytes;
}

/* Where the positions of the rows are: a slot each, or the pages of its sequence. */
typedef struct {
    const int32_t *slots; /* [rows, pages] */
    int64_t pages;        /* 1 with slots */
    bool paged;
    int64_t count, capacity; /* slots or pages of the cache; positions of a sequence */
} cache_places;

INLINE cache_places places_of(const sl_cview *slots, const sl_type *values) {
    const bool paged = slots->type.shape.rank == 2;
    const int64_t pages = paged ? dim(&slots->type, 1) : 1;
    return (cache_places){slots->data, pages, paged, dim(values, 0), pages * dim(values, 2)};
}
/* The slot or page of a position of row t, and the position within it. */
INLINE int64_t slot_at(const cache_places *p, int64_t t, int64_t position) {
    return p->slots[t * p->pages + (p->paged ? position / SL_KV_PAGE : 0)];
}
INLINE int64_t within_slot(const cache_places *p, int64_t position) {
    return p->paged ? position % SL_KV_PAGE : position;
}

/* Checks the position of row t. */
SL_CHECKED static inline sl_status check_position(const cache_places *p, int32_t position,
                                                  int64_t t, sl_error *err) {
    return check_index(position, p->capacity, "attention: position", t, err);
}
/* Checks where positions [first, end) of row t are. */
SL_CHECKED static inline sl_status check_slots(const cache_places *p, int64_t t, int64_t first,
                                               int64_t end, sl_error *err) {
    const int64_t each = p->paged ? SL_KV_PAGE : p->capacity;
    for (int64_t i = first / each; i * each < end; i++)
        SL_TRY(check_index(p->slots[t * p->pages + i], p->count, "attention: slot", t, err));
    return SL_OK;
}
#endif
