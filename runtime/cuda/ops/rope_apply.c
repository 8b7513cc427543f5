/* rope_apply.c - RoPE whose angles are operands or follow from the position in a grid. */
#include "runtime/cuda/kernels/rope_apply.h"
#include "core/rope_apply.h"
#include "runtime/cuda/ops/rope.h"
#include "runtime/cuda/ops/strides.h"

_Static_assert((int)SL_ROTARY_DIMS == (int)SL_MAX_RANK - 1, "every shape fits");

PLAN(rope_tables) {
    const sl_rope_tables_args *a = args;
    const sl_rope_tabled t = {.positions = a->positions.data,
                              .frequencies = a->frequencies.data,
                              .cosines = a->cos.data,
                              .sines = a->sin.data,
                              .count = sl_type_elements(&a->cos.type),
                              .width = dim(&a->frequencies.type, 0),
                              .position_type = number_of(&a->positions.type),
                              .type = number_of(&a->frequencies.type),
                              .magnitude =
                                  a->attrs.magnitude != 0 ? (double)a->attrs.magnitude : 1};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_rope_tables), t.count, t);
    return SL_OK;
}

/* Forward and backward have the same operands and attributes. */
static sl_status plan_rope(sl_gpu_planner *planner, const sl_rope_apply_args *a, bool back) {
    const sl_dims *x = &a->x.type.shape, *table = &a->cos.type.shape;
    sl_rope_applied r = {.t = {.x = a->x.data, .out = a->out.data, .back = back},
                         .cosines = a->cos.data,
                         .sines = a->sin.data,
                         .width = last_dim(&a->x.type),
                         .columns = last_dim(&a->cos.type),
                         .rank = x->rank - 1};
    r.pairs = a->attrs.rotary ? a->attrs.rotary / 2 : r.columns;
    r.pair = sl_pair_at(a->attrs.interleaved, 1);
    r.step = sl_pair_step(a->attrs.interleaved, r.pairs);
    r.t.type = number_of(&a->x.type);
    r.t.count = rows_of(&a->x.type) * (r.width - r.pairs);
    for (uint32_t d = 0; d + 1 < x->rank; d++) {
        r.dims[d] = x->dims[d];
        r.steps[d] = broadcast_stride(table, x, d) / r.columns;
    }
    ADD_PLAIN(planner, SL_CUDA_FN(sl_rope_apply), r.t.count, r);
    return SL_OK;
}
_Static_assert(sizeof(sl_rope_apply_args) == sizeof(sl_rope_apply_backward_args),
               "both directions are alike");
/* Heads f32[T,heads,D] with tables [T,1,C]. */
static bool has_heads(const sl_rope_apply_args *a) {
    const sl_dims *x = &a->x.type.shape, *table = &a->cos.type.shape;
    return a->x.type.dtype == SL_DTYPE_f32 && x->rank == 3 && table->rank == 3 &&
           table->dims[0] == x->dims[0] && table->dims[1] == 1;
}
PLAN(rope_apply) {
    const sl_rope_apply_args *a = args;
    if (!has_heads(a)) return plan_rope(planner, a, false);
    sl_head_change change = turned(&a->x.type, &a->cos, &a->sin, a->attrs.rotary);
    change.interleaved = (int32_t)a->attrs.interleaved;
    add_rope(planner, change, &a->x, &a->out);
    return SL_OK;
}
PLAN(rope_apply_backward) {
    return plan_rope(planner, args, true);
}

static sl_status plan_axial(sl_gpu_planner *planner, const sl_axial_rope2d_args *a, bool back) {
    const sl_type *x = &a->x.type;
    const sl_axial r = {.t = {.x = a->x.data,
                              .out = a->out.data,
                              .count = sl_type_elements(x) / 2,
                              .type = number_of(x),
                              .back = back},
                        .dims = last_dim(x),
                        .tokens = dim(x, x->shape.rank - 2),
                        .width = a->attrs.width,
                        .height = a->attrs.height,
                        .theta = (double)a->attrs.theta};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_axial_rope), r.t.count, r);
    return SL_OK;
}
_Static_assert(sizeof(sl_axial_rope2d_args) == sizeof(sl_axial_rope2d_backward_args),
               "both directions are alike");
PLAN(axial_rope2d) {
    return plan_axial(planner, args, false);
}
PLAN(axial_rope2d_backward) {
    return plan_axial(planner, args, true);
}
