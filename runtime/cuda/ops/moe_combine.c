/* moe_combine.c - Weighted sums of expert outputs. */
#include "runtime/cuda/kernels/moe_combine.h"
#include "runtime/cuda/ops/strides.h"

static void add_mixture(sl_gpu_planner *planner, sl_mixture_fn function, sl_mixture m,
                        const sl_type *y) {
    const int64_t width = dim(y, 2);
    m.k = (int32_t)dim(y, 1);
    m.width = (int32_t)width;
    m.row_blocks = (int32_t)parts_of(width, SL_MIX_COLS);
    m.vectors = width % 4 == 0 && is_aligned(m.y, 16);
    SL_CUDA_ADD(planner, function, dim(y, 0) * m.row_blocks, SL_MIX_THREADS, m);
}

PLAN(moe_combine) {
    const sl_moe_combine_args *a = args;
    const sl_mixture m = {.y = a->y.data, .weights = a->weights.data, .out = a->out.data};
    add_mixture(planner, SL_CUDA_FN(sl_moe_combine), m, &a->y.type);
    return SL_OK;
}

PLAN(moe_join) {
    const sl_moe_join_args *a = args;
    const sl_mixture m = {.y = a->y.data,
                          .weights = a->weights.data,
                          .shared = a->shared.data,
                          .gate = a->gate.data,
                          .residual = a->residual.data,
                          .out = a->out.data};
    add_mixture(planner, SL_CUDA_FN(sl_moe_join), m, &a->y.type);
    return SL_OK;
}

PLAN(moe_add) {
    const sl_moe_add_args *a = args;
    const sl_mixture m = {.y = a->y.data,
                          .weights = a->weights.data,
                          .residual = a->residual.data,
                          .out = a->out.data};
    add_mixture(planner, SL_CUDA_FN(sl_moe_join), m, &a->y.type);
    return SL_OK;
}

PLAN(moe_add_shared) {
    const sl_moe_add_shared_args *a = args;
    const sl_mixture m = {.y = a->y.data,
                          .weights = a->weights.data,
                          .shared = a->shared.data,
                          .residual = a->residual.data,
                          .out = a->out.data};
    add_mixture(planner, SL_CUDA_FN(sl_moe_join), m, &a->y.type);
    return SL_OK;
}

PLAN(shared_combine) {
    const sl_shared_combine_args *a = args;
    const sl_shared_sum launch = {.routed = a->routed.data,
                                  .shared = a->shared.data,
                                  .gate = a->gate.data,
                                  .out = a->out.data,
                                  .count = sl_type_elements(&a->out.type),
                                  .width = last_dim(&a->out.type)};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_shared_combine), launch.count, launch);
    return SL_OK;
}
