/* kernels.h - Helpers that all kernels share. */
#ifndef SL_RUNTIME_CPU_KERNELS_H
#define SL_RUNTIME_CPU_KERNELS_H
#include "runtime/cpu/kernel.h"

sl_read_loop SL_KERNEL(sl_loop_read);
sl_compute_loop SL_KERNEL(sl_loop_fma), SL_KERNEL(sl_loop_dot);

/* The signatures of a kernel's two functions:
 *
 *   SPLIT(softmax) { ... }
 *   RUN(softmax) { ... } */
#define SPLIT(FN)                                                                                  \
    sl_split_fn SL_KERNEL(sl_split_##FN);                                                          \
    sl_split SL_KERNEL(sl_split_##FN)(const void *args)
#define RUN(FN)                                                                                    \
    sl_kernel_fn SL_KERNEL(sl_run_##FN);                                                           \
    sl_status SL_KERNEL(sl_run_##FN)(const void *args, int64_t begin, int64_t end,                 \
                                     __attribute__((unused)) sl_worker *worker)

/* The smallest number of items that is worth a thread, if each takes about `operations` simple
 * operations. */
static inline int64_t grain_of(int64_t operations) {
    const int64_t worthwhile = 16384;
    return operations >= worthwhile ? 1 : worthwhile / (operations > 0 ? operations : 1);
}

static inline int64_t dim(const sl_type *type, uint32_t index) {
    return type->shape.dims[index];
}
static inline int64_t last_dim(const sl_type *type) {
    return type->shape.rank ? type->shape.dims[type->shape.rank - 1] : 1;
}
static inline int64_t rows_of(const sl_type *type) {
    return sl_type_elements(type) / last_dim(type);
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t parts_of(int64_t whole, int64_t part) {
    return (whole + part - 1) / part;
}

/* Fails unless 0 <= value < limit; `what` names the element in the message. */
SL_CHECKED static inline sl_status check_index(int64_t value, int64_t limit, const char *what,
                                               int64_t row, sl_error *err) {
    if (value >= 0 && value < limit) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s of row %lld is %lld, must be in [0, %lld)", what,
                   (long long)row, (long long)value, (long long)limit);
}
#endif
