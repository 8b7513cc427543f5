/* recurrence.c - Linear recurrences with an explicit state. */
#include "runtime/cuda/kernels/recurrence.h"
#include "runtime/cuda/ops/strides.h"
#include <math.h>

static sl_recurrence recurrence_of(sl_gpu_planner *planner, const sl_cview_list *before,
                                   const sl_view *after, int64_t size) {
    const int64_t elements = sl_type_elements(&after->type);
    return (sl_recurrence){.before = SL_LIST_COUNT(*before) ? before->items[0].data : NULL,
                           .after = after->data,
                           .memory = sl_gpu_scratch(planner, (uint64_t)elements * sizeof(double)),
                           .rows = elements / size,
                           .size = size,
                           .type = number_of(&after->type)};
}

PLAN(selective_scan) {
    const sl_selective_scan_args *a = args;
    sl_scanned s = {.r = recurrence_of(planner, &a->state, &a->next, dim(&a->a.type, 1)),
                    .x = a->x.data,
                    .delta = a->delta.data,
                    .rates = a->a.data,
                    .b = a->b.data,
                    .c = a->c.data,
                    .width = dim(&a->x.type, 2)};
    s.r.out = a->out.data;
    s.r.steps = dim(&a->x.type, 1);
    ADD_PLAIN(planner, SL_CUDA_FN(sl_selective_scan), s.r.rows * SL_CUDA_WARP, s);
    return SL_OK;
}

PLAN(gated_delta_net) {
    const sl_gated_delta_net_args *a = args;
    const int64_t size = last_dim(&a->q.type);
    sl_delta_netted s = {.r = recurrence_of(planner, &a->state, &a->next, size),
                         .q = a->q.data,
                         .k = a->k.data,
                         .v = a->v.data,
                         .decay = a->decay.data,
                         .beta = a->beta.data,
                         .width = last_dim(&a->v.type),
                         .heads = dim(&a->v.type, 2),
                         .key_heads = dim(&a->q.type, 2)};
    s.scale = a->attrs.scale != 0 ? (double)a->attrs.scale : 1 / sqrt((double)size);
    s.r.out = a->out.data;
    s.r.steps = dim(&a->v.type, 1);
    ADD_PLAIN(planner, SL_CUDA_FN(sl_gated_delta_net), s.r.rows * SL_CUDA_WARP, s);
    return SL_OK;
}
