/* loops.cu - Loops that measure the limits of the device (floors.c). */
#include "runtime/cuda/kernels/loops.h"
#include "runtime/cuda/kernels/mma.cuh"

/* Tensor-core throughput: independent bf16 mma on registers. */
SL_CUDA_KERNEL(sl_loop_mma, sl_mma_loop) {
    const unsigned one = 0x3f803f80u + (unsigned)lane_id() % 2;
    const unsigned x[4] = {one, one, one, one}, y[2] = {one, one};
    float d[SL_CUDA_LOOP_TILES][4] = {};
    for (int i = 0; i < a.rounds; i++)
#pragma unroll
        for (int t = 0; t < SL_CUDA_LOOP_TILES; t++) mma_bf16(d[t], x, y);
    float sum = 0;
#pragma unroll
    for (int t = 0; t < SL_CUDA_LOOP_TILES; t++) sum += d[t][0] + d[t][1] + d[t][2] + d[t][3];
    if (sum < 0) a.out[threadIdx.x] = sum;
}
