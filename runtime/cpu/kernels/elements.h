/* elements.h - Copying elements of any plain type, and index arithmetic. */
#ifndef SL_RUNTIME_CPU_ELEMENTS_H
#define SL_RUNTIME_CPU_ELEMENTS_H
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <stdbool.h>
#include <string.h>

static inline size_t element_bytes(const sl_type *type) {
    return sl_dtype_infos[type->dtype].bytes;
}
/* Product of dims[0..before). */
static inline int64_t head_of(const sl_dims *dims, uint32_t before) {
    int64_t product = 1;
    for (uint32_t i = 0; i < before; i++) product *= dims->dims[i];
    return product;
}
/* Copies one element or a contiguous run. */
static inline void copy_bytes(void *to, const void *from, size_t bytes) {
    switch (bytes) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    default:
        memcpy(to, from, bytes);
    }
}

/* An index of type i32 or i64. */
static inline int64_t index_at(const sl_cview *indices, int64_t i) {
    return indices->type.dtype == SL_DTYPE_i64 ? ((const int64_t *)indices->data)[i]
                                               : ((const int32_t *)indices->data)[i];
}
/* Index i normalised to [0, limit); valid values are -limit to limit - 1. */
SL_CHECKED static inline sl_status place_of(const sl_cview *indices, int64_t i, int64_t limit,
                                            int64_t *out, sl_error *err) {
    const int64_t index = index_at(indices, i);
    *out = index < 0 ? index + limit : index;
    if (*out >= 0 && *out < limit) return SL_OK;
    return sl_fail(err, SL_INVALID, "index %lld is %lld, must be in [%lld, %lld)", (long long)i,
                   (long long)index, (long long)-limit, (long long)limit);
}

/* Offset of the first element of a slice; its start indices are clamped so that it is inside x. */
static inline int64_t part_offset(const sl_dims *x, const sl_dims *part, const sl_cview *starts) {
    int64_t offset = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        const int64_t most = x->dims[d] - part->dims[d], start = index_at(starts, d);
        offset = offset * x->dims[d] + (start < 0 ? 0 : least(start, most));
    }
    return offset;
}
#endif
