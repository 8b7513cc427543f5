/* softmax.c - Softmax over the last axis. */
#include "runtime/cuda/kernels/softmax.h"
#include "runtime/cuda/ops/ops.h"

static sl_status check_last(const sl_gpu_planner *planner, int64_t axis, sl_error *err) {
    if (axis == 0) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: over the last axis but %lld, only the last supported",
                   planner->label, (long long)axis);
}

PLAN(softmax) {
    const sl_softmax_args *a = args;
    SL_TRY(check_last(planner, a->attrs.axis, err));
    const int64_t count = last_dim(&a->x.type);
    const sl_softmax_rows launch = {a->x.data, a->out.data, count};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_softmax), rows_of(&a->x.type), threads_for(count, 256),
                launch);
    return SL_OK;
}
