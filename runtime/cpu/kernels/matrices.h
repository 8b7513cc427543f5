/* matrices.h - Indexing of the matrices of tensors with broadcast batch dims. */
#ifndef SL_RUNTIME_CPU_MATRICES_H
#define SL_RUNTIME_CPU_MATRICES_H
#include "core/type.h"

/* Index of the operand's matrix that output matrix `batch` uses. */
static inline int64_t matrix_index(const sl_dims *operand, const sl_dims *out, int64_t batch) {
    int64_t index = 0, stride = 1;
    for (uint32_t i = 2; i < out->rank; i++) {
        const int64_t extent = out->dims[out->rank - 1 - i], at = batch % extent;
        batch /= extent;
        if (i >= operand->rank) continue;
        const int64_t own = operand->dims[operand->rank - 1 - i];
        if (own != 1) index += at * stride;
        stride *= own;
    }
    return index;
}
#endif
