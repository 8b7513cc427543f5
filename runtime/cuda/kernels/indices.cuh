/* indices.cuh - Reading indices from tensors. */
#ifndef SL_RUNTIME_CUDA_KERNELS_INDICES_CUH
#define SL_RUNTIME_CUDA_KERNELS_INDICES_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/movement_any.h"

DEVICE int64_t raw_index(const sl_indices &s, int64_t i) {
    return s.wide ? ((const int64_t *)s.data)[i] : ((const int32_t *)s.data)[i];
}
/* Returns `index`, which comes from element i, if it is in [0, limit); otherwise reports a fault
 * and returns 0. */
DEVICE int64_t index_within(const sl_indices &s, int64_t i, int64_t index, int64_t limit) {
    if (index >= 0 && index < limit) return index;
    const int64_t given = raw_index(s, i), most = INT32_MAX;
    (void)checked(s.fault, SL_FAULT_PLACE, (int)min(i, most), (int)max(min(given, most), -most - 1),
                  (int)min(limit, most));
    return 0;
}
/* The index in element i; negative ones count from the end. */
DEVICE int64_t index_at(const sl_indices &s, int64_t i, int64_t limit) {
    const int64_t given = raw_index(s, i);
    return index_within(s, i, given < 0 ? given + limit : given, limit);
}
/* The row-major number, within its batch, of the slice that an index tuple selects. */
DEVICE int64_t tuple_at(const sl_indices &s, int64_t tuple, int64_t length, const int64_t *dims) {
    int64_t at = 0;
    for (int64_t d = 0; d < length; d++)
        at = at * dims[d] + index_at(s, tuple * length + d, dims[d]);
    return at;
}
#endif
