/* ops.h - Helpers of plans. */
#ifndef SL_RUNTIME_CUDA_OPS_H
#define SL_RUNTIME_CUDA_OPS_H
#include "runtime/cuda/kernel.h"

/* Defines a plan function:  PLAN(softmax) { const sl_softmax_args *a = args; ... } */
#define PLAN(FN)                                                                                   \
    sl_gpu_plan_fn sl_cuda_plan_##FN;                                                              \
    sl_status sl_cuda_plan_##FN(const void *args, sl_gpu_planner *planner,                         \
                                __attribute__((unused)) sl_error *err)

static inline int64_t dim(const sl_type *type, uint32_t index) {
    return type->shape.dims[index];
}
static inline int64_t last_dim(const sl_type *type) {
    return type->shape.rank ? type->shape.dims[type->shape.rank - 1] : 1;
}
static inline int64_t rows_of(const sl_type *type) {
    return sl_type_elements(type) / last_dim(type);
}
static inline int64_t parts_of(int64_t whole, int64_t part) {
    return (whole + part - 1) / part;
}
static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
/* Whole warps for `count` elements, one each, at most `most` threads. */
static inline uint32_t threads_for(int64_t count, uint32_t most) {
    const int64_t whole = parts_of(count, SL_CUDA_WARP) * SL_CUDA_WARP;
    return whole < (int64_t)most ? (uint32_t)whole : most;
}
/* Pages of each row (core/kv.h); 0: it has a slot.  Positions of a sequence. */
static inline int64_t cache_pages(const sl_type *slots) {
    return slots->shape.rank == 2 ? dim(slots, 1) : 0;
}
static inline int64_t cache_capacity(const sl_type *slots, const sl_type *values) {
    return slots->shape.rank == 2 ? dim(slots, 1) * dim(values, 2) : dim(values, 2);
}

/* Kernels know caches of f32 and f16. */
SL_CHECKED static inline sl_status check_cache(const sl_type *cache, const sl_gpu_planner *planner,
                                               sl_error *err) {
    if (cache->dtype == SL_DTYPE_f32 || cache->dtype == SL_DTYPE_f16) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: the cuda device has no KV cache of type %s",
                   planner->label, sl_dtype_infos[cache->dtype].name);
}
/* A launch of blocks of THREADS threads, with one thread for each of UNITS. */
#define ADD_EACH(PLANNER, FN, UNITS, THREADS, ARGS)                                                \
    SL_CUDA_ADD((PLANNER), FN, parts_of((UNITS), (THREADS)), (THREADS), (ARGS))
#endif
