/* softmax.c - Softmax over the last axis. */
#include "runtime/cuda/kernels/softmax.h"
#include "runtime/cuda/ops/ops.h"

static sl_status check_last(const sl_gpu_planner *planner, int64_t axis, uint32_t rank,
                            sl_error *err) {
    if (sl_axis(axis, rank) == rank - 1) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: over axis %lld of %u, only the last is supported",
                   planner->label, (long long)axis, rank);
}

PLAN(softmax) {
    const sl_softmax_args *a = args;
    SL_TRY(check_last(planner, a->attrs.axis, a->x.type.shape.rank, err));
    const int64_t count = last_dim(&a->x.type);
    const sl_softmax_rows launch = {a->x.data, a->out.data, count};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_softmax), rows_of(&a->x.type), threads_for(count, 256),
                launch);
    return SL_OK;
}
