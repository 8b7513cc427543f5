/* rope.c - RoPE with a table of angles. */
#include "runtime/cuda/ops/rope.h"

PLAN(rope_table) {
    const sl_rope_table_args *a = args;
    enum { THREADS = 64 };
    const sl_rope_angles launch = {.positions = a->positions.data,
                                   .out = a->out.data,
                                   .form = sl_rope_form_of(&a->attrs),
                                   .rows = (int32_t)dim(&a->positions.type, 0),
                                   .half = (int32_t)(a->attrs.rotary / 2),
                                   .fault = planner->fault};
    const int64_t angles = (int64_t)launch.rows * launch.half;
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_rope_table), parts_of(angles, THREADS), THREADS, launch);
    return SL_OK;
}

static void add_rope(sl_gpu_planner *planner, sl_head_change change, const sl_cview *x,
                     const sl_view *out) {
    const sl_rope_heads launch = {
        .change = change, .x = x->data, .out = out->data, .rows = (int32_t)dim(&x->type, 0)};
    ADD_WARPS(planner, SL_CUDA_FN(sl_rope), (int64_t)launch.rows * change.heads, launch);
}

PLAN(rope) {
    const sl_rope_args *a = args;
    add_rope(planner, turned(&a->x.type, &a->table, a->attrs.interleaved), &a->x, &a->out);
    return SL_OK;
}

PLAN(norm_rope) {
    const sl_norm_rope_args *a = args;
    sl_head_change change = turned(&a->x.type, &a->table, a->attrs.interleaved);
    change.gain = a->gain.data;
    change.eps = a->attrs.eps;
    change.offset = a->attrs.offset;
    add_rope(planner, change, &a->x, &a->out);
    return SL_OK;
}
