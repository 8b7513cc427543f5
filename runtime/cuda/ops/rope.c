/* rope.c - Tables of RoPE angles, and RoPE after a norm. */
#include "runtime/cuda/ops/rope.h"

PLAN(rope_table) {
    const sl_rope_table_args *a = args;
    enum { THREADS = 64 };
    const sl_rope_angles launch = {.positions = a->positions.data,
                                   .cosines = a->cos.data,
                                   .sines = a->sin.data,
                                   .form = sl_rope_form_of(&a->attrs),
                                   .rows = (int32_t)dim(&a->positions.type, 0),
                                   .half = (int32_t)(a->attrs.rotary / 2),
                                   .fault = planner->fault};
    const int64_t angles = (int64_t)launch.rows * launch.half;
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_rope_table), parts_of(angles, THREADS), THREADS, launch);
    return SL_OK;
}

PLAN(norm_rope) {
    const sl_norm_rope_args *a = args;
    sl_head_change change = turned(&a->x.type, &a->cos, &a->sin, a->attrs.rotary);
    change.interleaved = (int32_t)a->attrs.interleaved;
    change.gain = a->gain.data;
    change.eps = a->attrs.eps;
    change.offset = a->attrs.offset;
    add_rope(planner, change, &a->x, &a->out);
    return SL_OK;
}
