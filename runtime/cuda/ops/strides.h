/* strides.h - Building strided iterators, and helpers of plans of the generic kernels. */
#ifndef SL_RUNTIME_CUDA_OPS_STRIDES_H
#define SL_RUNTIME_CUDA_OPS_STRIDES_H
#include "core/elementwise_region.h"
#include "runtime/cuda/kernels/movement_any.h"
#include "runtime/cuda/kernels/strides.h"
#include "runtime/cuda/ops/ops.h"

_Static_assert((int)SL_WALK_DIMS >= (int)SL_MAX_RANK, "every shape can be walked");

/* Adds the next inner dim, with its stride in both operands. */
static inline void walk_push(sl_walk *w, int64_t extent, int64_t x, int64_t y) {
    const int last = w->rank - 1;
    if (extent == 1) return;
    if (w->rank && w->x[last] == extent * x && w->y[last] == extent * y) {
        w->dims[last] *= extent;
        w->x[last] = x;
        w->y[last] = y;
        return;
    }
    w->dims[w->rank] = extent;
    w->x[w->rank] = x;
    w->y[w->rank++] = y;
}

static inline int64_t walk_elements(const sl_walk *w) {
    int64_t product = 1;
    for (int i = 0; i < w->rank; i++) product *= w->dims[i];
    return product;
}

/* Called after the last walk_push. */
static inline void walk_end(sl_walk *w) {
    if (w->rank == 0) w->dims[w->rank++] = 1;
    w->narrow = walk_elements(w) <= INT32_MAX;
}

/* The stride along dim `at` of a shape that `operand` broadcasts to. */
static inline int64_t broadcast_stride(const sl_dims *operand, const sl_dims *shape, uint32_t at) {
    if (at + operand->rank < shape->rank) return 0;
    const uint32_t own = at + operand->rank - shape->rank;
    return operand->dims[own] == 1 ? 0 : sl_dims_tail(operand, own + 1);
}

/* The number of its element type (core/elementwise_steps.h). */
static inline int32_t number_of(const sl_type *type) {
    return (int32_t)sl_elementwise_type(type->dtype);
}

static inline sl_indices indices_of(const sl_gpu_planner *planner, const sl_cview *indices) {
    return (sl_indices){.data = indices->data,
                        .fault = planner->fault,
                        .wide = indices->type.dtype == SL_DTYPE_i64};
}

static inline bool is_aligned(const void *data, uint32_t bytes) {
    return (uintptr_t)data % bytes == 0;
}

enum { VECTOR = 4, VECTOR_BYTES = 16 }; /* floats per vector load */

enum { PLAIN_THREADS = 128 };
/* A launch with one thread for each of UNITS. */
#define ADD_PLAIN(PLANNER, FN, UNITS, ARGS)                                                        \
    SL_CUDA_ADD((PLANNER), FN, parts_of((UNITS), PLAIN_THREADS),                                   \
                threads_for((UNITS), PLAIN_THREADS), (ARGS))
#endif
