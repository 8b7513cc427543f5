/* delta.c - The gated delta net: short convolution, gates, and both forms of the recurrence. */
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/ops/ops.h"

PLAN(causal_conv) {
    enum { FEW_ROWS = 16, FEW_THREADS = 64, THREADS = 128 };
    const sl_causal_conv_args *p = args;
    const sl_conv a = {.x = p->x.data,
                       .w = p->w.data,
                       .slots = p->slots.data,
                       .positions = p->positions.data,
                       .window = p->window.data,
                       .out = p->out.data,
                       .fault = planner->fault,
                       .rows = (int32_t)dim(&p->x.type, 0),
                       .channels = (int32_t)dim(&p->x.type, 1),
                       .taps = (int32_t)dim(&p->w.type, 1),
                       .slot_count = (int32_t)dim(&p->window.type, 0)};
    if (a.taps == SL_CONV_TAPS && a.rows <= FEW_ROWS) {
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_conv_few), parts_of(a.channels, FEW_THREADS),
                    FEW_THREADS, a);
        return SL_OK;
    }
    const int64_t blocks = parts_of(a.channels, THREADS);
    if (a.taps == SL_CONV_TAPS)
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_conv_tile), blocks, THREADS, a)->grid[1] =
            (uint32_t)parts_of(a.rows, SL_CONV_ROWS);
    else
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_conv_any), blocks, THREADS, a)->grid[1] =
            (uint32_t)a.rows;
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_conv_keep), blocks, THREADS, a)->grid[1] =
        (uint32_t)a.slot_count;
    return SL_OK;
}

PLAN(decay_beta) {
    enum { THREADS = 128 };
    const sl_decay_beta_args *p = args;
    const sl_decay a = {.a = p->a.data,
                        .b = p->b.data,
                        .a_log = p->a_log.data,
                        .dt_bias = p->dt_bias.data,
                        .decay = p->decay.data,
                        .beta = p->beta.data,
                        .count = sl_type_elements(&p->a.type),
                        .heads = (int32_t)dim(&p->a.type, 1)};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_decay_beta), parts_of(a.count, THREADS), THREADS, a);
    return SL_OK;
}

/* ---- the recurrence ---- */

/* Both forms have the same operands. */
static sl_delta delta_of(const sl_delta_step_args *p, const sl_gpu_planner *planner) {
    return (sl_delta){.q = p->q.data,
                      .k = p->k.data,
                      .v = p->v.data,
                      .decay = p->decay.data,
                      .beta = p->beta.data,
                      .slots = p->slots.data,
                      .positions = p->positions.data,
                      .memory = p->memory.data,
                      .out = p->out.data,
                      .fault = planner->fault,
                      .rows = (int32_t)dim(&p->v.type, 0),
                      .key_heads = (int32_t)dim(&p->k.type, 1),
                      .heads = (int32_t)dim(&p->v.type, 1),
                      .dk = (int32_t)dim(&p->k.type, 2),
                      .dv = (int32_t)dim(&p->v.type, 2),
                      .slot_count = (int32_t)dim(&p->memory.type, 0),
                      .tiled = p->attrs.tiled != 0};
}

static void plan_steps(const sl_delta *a, sl_gpu_planner *planner) {
    sl_gpu_launch *launch;
    if (a->dk == SL_DELTA_SIZE && a->dv % SL_DELTA_STEP_COLUMNS == 0)
        launch = SL_CUDA_ADD(planner, SL_CUDA_FN(sl_delta_step),
                             (int64_t)a->heads * (a->dv / SL_DELTA_STEP_COLUMNS), 128, *a);
    else
        launch = SL_CUDA_ADD(planner, SL_CUDA_FN(sl_delta_step_any), a->heads,
                             threads_for(a->dv, 256), *a);
    launch->grid[1] = (uint32_t)a->rows;
}

PLAN(delta_step) {
    const sl_delta a = delta_of(args, planner);
    plan_steps(&a, planner);
    return SL_OK;
}

/* Tiles of a fixed size: the op's `chunk` divides the work and does not change the result. */
static void plan_tiles(const sl_delta *a, sl_gpu_planner *planner) {
    enum { THREADS = 256 };
    const int64_t blocks = parts_of(a->rows, SL_DELTA_TILE) * a->heads;
    const uint64_t floats = (uint64_t)(blocks * SL_DELTA_TILE) * sizeof(float);
    const sl_delta_tiles tiles = {.d = *a,
                                  .w = sl_gpu_scratch(planner, floats * SL_DELTA_SIZE),
                                  .p = sl_gpu_scratch(planner, floats * SL_DELTA_TILE),
                                  .fades = sl_gpu_scratch(planner, floats * 2)};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_delta_prepare), blocks, THREADS, tiles)->shared_bytes =
        SL_DELTA_PREPARE_BYTES;
    sl_gpu_launch *walk =
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_delta_walk),
                    (int64_t)a->heads * (a->dv / SL_DELTA_COLUMNS), THREADS, tiles);
    walk->grid[1] = (uint32_t)a->slot_count;
    walk->shared_bytes = SL_DELTA_WALK_BYTES;
}

PLAN(delta_chunk) {
    enum {
        FEW_ROWS = 32,    /* up to this, row by row is faster (slots run in parallel) */
        STATIC_BYTES = 64 /* static shared memory of the kernels */
    };
    const sl_delta_chunk_args *p = args;
    const sl_delta_step_args same = {.q = p->q,
                                     .k = p->k,
                                     .v = p->v,
                                     .decay = p->decay,
                                     .beta = p->beta,
                                     .slots = p->slots,
                                     .positions = p->positions,
                                     .memory = p->memory,
                                     .out = p->out,
                                     .attrs = {.tiled = p->attrs.tiled}};
    const sl_delta a = delta_of(&same, planner);
    const bool tiles = !planner->deterministic && a.rows > FEW_ROWS && a.dk == SL_DELTA_SIZE &&
                       a.dv <= SL_DELTA_SIZE && a.dv % SL_DELTA_COLUMNS == 0;
    if (tiles && planner->shared_limit >= SL_DELTA_WALK_BYTES + STATIC_BYTES)
        plan_tiles(&a, planner);
    else
        plan_steps(&a, planner);
    return SL_OK;
}
