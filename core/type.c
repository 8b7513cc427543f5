#include "core/type.h"
#include "core/codec.h"
#include "core/kv.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const sl_dtype_info sl_dtype_infos[SL_DTYPE_COUNT] = {
#define DTYPE(name, kind, bytes, summary)                                                          \
    [SL_DTYPE_##name] = {#name, SL_KIND_##kind, bytes, summary},
#include "core/dtypes.def"
};

bool sl_dtype_find(const char *name, size_t bytes, sl_dtype *out) {
    for (int d = 0; d < SL_DTYPE_COUNT; d++) {
        const char *candidate = sl_dtype_infos[d].name;
        if (strlen(candidate) == bytes && memcmp(candidate, name, bytes) == 0) {
            *out = (sl_dtype)d;
            return true;
        }
    }
    return false;
}

sl_type sl_type_make(sl_dtype dtype, uint32_t rank, ...) {
    sl_type type = {.dtype = dtype, .shape = {.rank = rank}};
    va_list args;
    va_start(args, rank);
    for (uint32_t i = 0; i < rank && i < SL_MAX_RANK; i++)
        type.shape.dims[i] = va_arg(args, int64_t);
    va_end(args);
    return type;
}

bool sl_dims_equal(const sl_dims *a, const sl_dims *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

bool sl_type_equal(const sl_type *a, const sl_type *b) {
    return a->dtype == b->dtype && sl_dims_equal(&a->shape, &b->shape);
}

int64_t sl_dims_tail(const sl_dims *dims, uint32_t from) {
    int64_t product = 1;
    for (uint32_t i = from; i < dims->rank; i++) product *= dims->dims[i];
    return product;
}

int64_t sl_type_elements(const sl_type *type) {
    return sl_dims_tail(&type->shape, 0);
}

int64_t sl_type_slots(const sl_type *type) {
    const bool pairs = sl_dtype_infos[type->dtype].kind == SL_KIND_COMPLEX;
    return sl_type_elements(type) * (pairs ? 2 : 1);
}

uint64_t sl_type_bytes(const sl_type *type) {
    const sl_dtype_info *info = &sl_dtype_infos[type->dtype];
    const uint32_t rank = type->shape.rank;
    if (info->bytes) return (uint64_t)sl_type_elements(type) * info->bytes;
    if (rank < 2) return 0;
    if (info->kind == SL_KIND_ROWS) return sl_rows_layout_of(type).bytes;
    if (info->kind == SL_KIND_CACHE) return sl_kv_bytes(type);
    int64_t matrices = 1;
    for (uint32_t i = 0; i + 2 < rank; i++) matrices *= type->shape.dims[i];
    return (uint64_t)matrices *
           sl_panel_layout_of(type->dtype, type->shape.dims[rank - 2], type->shape.dims[rank - 1])
               .matrix_bytes;
}

/* A quantised cache has whole blocks of positions. */
static sl_status check_blocks(const sl_type *type, const char *what, sl_error *err) {
    if (sl_dtype_infos[type->dtype].kind != SL_KIND_CACHE) return SL_OK;
    const bool keys = type->dtype == SL_DTYPE_k16;
    const uint32_t at = type->shape.rank - (keys ? 1 : 2);
    const int64_t dim = type->shape.dims[at];
    if (keys ? dim == SL_KV_LANES : dim % SL_KV_LANES == 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: dim %u of %s is %lld, must be %s%d", what, at,
                   sl_dtype_infos[type->dtype].name, (long long)dim, keys ? "" : "a multiple of ",
                   SL_KV_LANES);
}

static sl_status check_type(const sl_type *type, int64_t least, const char *what, sl_error *err) {
    if ((unsigned)type->dtype >= SL_DTYPE_COUNT)
        return sl_fail(err, SL_INVALID, "%s: unknown element type %d", what, (int)type->dtype);
    if (type->shape.rank > SL_MAX_RANK)
        return sl_fail(err, SL_INVALID, "%s: rank %u, at most %d supported", what, type->shape.rank,
                       SL_MAX_RANK);
    if (sl_dtype_infos[type->dtype].bytes == 0 && type->shape.rank < 2)
        return sl_fail(err, SL_INVALID, "%s: %s needs at least two dims", what,
                       sl_dtype_infos[type->dtype].name);
    int64_t product = 1;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        const int64_t dim = type->shape.dims[i];
        if (dim < least)
            return sl_fail(err, SL_INVALID, "%s: dim %u is %lld, must be at least %lld", what, i,
                           (long long)dim, (long long)least);
        /* Zeros are left out of the product, so that the product of any subset of dims fits too. */
        if (__builtin_mul_overflow(product, dim ? dim : 1, &product) ||
            product > ((int64_t)1 << 48))
            return sl_fail(err, SL_INVALID, "%s: more than 2^48 elements", what);
    }
    return check_blocks(type, what, err);
}

sl_status sl_type_check(const sl_type *type, const char *what, sl_error *err) {
    return check_type(type, 1, what, err);
}

sl_status sl_type_check_shape(const sl_type *type, const char *what, sl_error *err) {
    const bool plain =
        (unsigned)type->dtype < SL_DTYPE_COUNT && sl_dtype_infos[type->dtype].bytes > 0;
    return check_type(type, !plain, what, err);
}

char *sl_type_format(const sl_type *type, char *text, size_t capacity) {
    size_t at = (size_t)snprintf(text, capacity, "%s[", sl_dtype_infos[type->dtype].name);
    for (uint32_t i = 0; i < type->shape.rank && at < capacity; i++)
        at += (size_t)snprintf(text + at, capacity - at, i ? ",%lld" : "%lld",
                               (long long)type->shape.dims[i]);
    if (at < capacity) (void)snprintf(text + at, capacity - at, "]");
    return text;
}
