/* reduce.c - Over the last axis and others. */
#include "runtime/cuda/kernels/reduce.h"
#include "runtime/cuda/ops/ops.h"

PLAN(softmax) {
    const sl_softmax_args *a = args;
    const int64_t count = last_dim(&a->x.type);
    const sl_softmax_rows launch = {a->x.data, a->out.data, count};
    SL_CUDA_ADD(planner, "sl_softmax", rows_of(&a->x.type), threads_for(count, 256), launch);
    return SL_OK;
}
