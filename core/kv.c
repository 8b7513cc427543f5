#include "core/kv.h"
#include "core/codec.h"
#include <float.h>
#include <math.h>

static int64_t dim_of(const sl_type *type) {
    return type->shape.dims[type->shape.rank - (type->dtype == SL_DTYPE_k16 ? 2 : 1)];
}

int64_t sl_kv_rows(const sl_type *type) {
    return sl_type_elements(type) / dim_of(type);
}

uint64_t sl_kv_bytes(const sl_type *type) {
    return (uint64_t)(sl_kv_rows(type) / SL_KV_LANES * sl_kv_block_bytes(dim_of(type)));
}

/* x = scale * code; code = x * inverse, rounded. */
typedef struct {
    float scale, inverse;
} coding;

static coding coding_of(sl_dtype dtype, const float *x, int64_t n) {
    float largest = 0, squares = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        finite &= isfinite(x[i]) != 0;
    }
    if (!finite) return (coding){NAN, 0};
    /* Zeros, or too small to be represented. */
    if (!(SL_K16_NORM / largest <= FLT_MAX)) return (coding){0, 0};
    for (int64_t i = 0; i < n; i++) squares += x[i] / largest * (x[i] / largest);
    const float top =
        dtype == SL_DTYPE_k16 ? (float)SL_K16_NORM / sqrtf(squares) : (float)SL_V16_TOP;
    return (coding){largest / top, top / largest};
}

typedef struct {
    float *scale;
    int16_t *codes;
    int64_t within, between; /* code d: codes[d / 2 * between + d % 2 * within] */
} place;

static place place_of(const sl_type *type, const void *cache, int64_t row) {
    const int64_t dim = dim_of(type);
    char *block = (char *)(uintptr_t)cache + row / SL_KV_LANES * sl_kv_block_bytes(dim);
    int16_t *codes = (int16_t *)(void *)(block + SL_KV_SCALES_BYTES);
    float *scale = (float *)(void *)block + row % SL_KV_LANES;
    if (type->dtype == SL_DTYPE_k16)
        return (place){scale, codes + sl_k16_at(row), 1, (int64_t)SL_KV_LANES * 2};
    return (place){scale, codes + sl_v16_at(row, dim), 2, 4};
}
static int16_t *code_at(const place *p, int64_t d) {
    return p->codes + d / 2 * p->between + d % 2 * p->within;
}

static float code_of(const coding *c, float x) {
    const float scaled = c->inverse == 0 ? 0 : x * c->inverse;
    return nearbyintf(scaled);
}

void sl_kv_store_row(const sl_type *type, void *cache, int64_t row, const float *x) {
    const int64_t dim = dim_of(type);
    const place p = place_of(type, cache, row);
    const coding c = coding_of(type->dtype, x, dim);
    *p.scale = c.scale;
    for (int64_t d = 0; d < dim; d++) *code_at(&p, d) = (int16_t)code_of(&c, x[d]);
    if (type->dtype == SL_DTYPE_k16 && dim % 2) *code_at(&p, dim) = 0;
}

void sl_kv_round_row(sl_dtype dtype, int64_t dim, float *x) {
    if (dtype == SL_DTYPE_f16)
        for (int64_t d = 0; d < dim; d++) x[d] = sl_f32_from_f16(sl_f16_from_f32(x[d]));
    if (sl_dtype_infos[dtype].kind != SL_KIND_CACHE) return;
    const coding c = coding_of(dtype, x, dim);
    for (int64_t d = 0; d < dim; d++) x[d] = c.scale * code_of(&c, x[d]);
}

void sl_kv_decode(const sl_type *type, const void *cache, double *out) {
    const int64_t dim = dim_of(type);
    const bool keys = type->dtype == SL_DTYPE_k16;
    for (int64_t row = 0; row < sl_kv_rows(type); row++) {
        const place p = place_of(type, cache, row);
        double *to = out + (keys ? sl_kv_key_at(row, dim) : row * dim);
        for (int64_t d = 0; d < dim; d++)
            to[d * (keys ? SL_KV_LANES : 1)] = (double)(*p.scale * (float)*code_at(&p, d));
    }
}
