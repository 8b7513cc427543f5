/* choose.c - resume and choose: sampling on the device. */
#include "runtime/cuda/kernels/choose.h"
#include "runtime/cuda/ops/strides.h"

PLAN(resume) {
    const sl_resume_args *a = args;
    const sl_resumed launch = {.tokens = a->tokens.data,
                               .slots = a->slots.data,
                               .chosen = a->chosen.data,
                               .out = a->out.data,
                               .rows = (int32_t)dim(&a->tokens.type, 0),
                               .slot_count = (int32_t)dim(&a->chosen.type, 0),
                               .fault = planner->fault};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_resume), launch.rows, launch);
    return SL_OK;
}

/* Fraction bits of the fixed-point weights: each weight is at most 1, and their sum must stay below
 * 2^62. */
static int32_t scale_bits(int64_t vocab) {
    int32_t bits = 62;
    while (vocab > 0) bits--, vocab /= 2;
    return bits;
}

PLAN(choose) {
    const sl_choose_args *a = args;
    const int64_t rows = dim(&a->logits.type, 0), vocab = dim(&a->logits.type, 1);
    const int64_t tiles = parts_of(vocab, SL_CHOOSE_TILE);
    if (rows > UINT16_MAX || rows * tiles > INT32_MAX || rows > INT32_MAX / SL_CHOOSE_ROOM)
        return sl_fail(err, SL_UNSUPPORTED, "%s: %lld rows of %lld logits are too many",
                       planner->label, (long long)rows, (long long)vocab);
    const sl_chosen launch = {
        .logits = a->logits.data,
        .how = a->how.data,
        .slots = a->slots.data,
        .chosen = a->chosen.data,
        .out = a->out.data,
        .vocab = (int32_t)vocab,
        .tiles = (int32_t)tiles,
        .slot_count = (int32_t)dim(&a->chosen.type, 0),
        .scale_bits = scale_bits(vocab),
        .best = sl_gpu_scratch(planner, (uint64_t)(rows * tiles) * sizeof(sl_tile_best)),
        .weights = sl_gpu_scratch(planner, (uint64_t)(rows * tiles) * sizeof(uint64_t)),
        .count = sl_gpu_scratch(planner, (uint64_t)rows * sizeof(int32_t)),
        .apart = sl_gpu_scratch(planner, (uint64_t)(rows * SL_CHOOSE_ROOM) * sizeof(int32_t)),
        .fault = planner->fault};
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_choose_best), tiles, SL_CHOOSE_THREADS, launch)->grid[1] =
        (uint32_t)rows;
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_choose_weigh), tiles, SL_CHOOSE_THREADS, launch)->grid[1] =
        (uint32_t)rows;
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_choose_last), rows, SL_CHOOSE_LAST_THREADS, launch);
    return SL_OK;
}
