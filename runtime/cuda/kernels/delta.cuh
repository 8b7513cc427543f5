/* delta.cuh - The addresses of the operands of the delta-net recurrence. */
#ifndef SL_RUNTIME_CUDA_KERNELS_DELTA_CUH
#define SL_RUNTIME_CUDA_KERNELS_DELTA_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/delta.h"

/* The q or k of a row that a head uses: several heads may share a key head. */
DEVICE const float *delta_key(const sl_delta &a, const float *tensor, int row, int head) {
    const int key = a.tiled ? head % a.key_heads : head / (a.heads / a.key_heads);
    return tensor + ((int64_t)row * a.key_heads + key) * a.dk;
}
/* The offset of v and out for a row and head. */
DEVICE int64_t delta_value(const sl_delta &a, int row, int head) {
    return ((int64_t)row * a.heads + head) * a.dv;
}
/* The memory is the recurrent state, a dk x dv matrix per slot and head. */
DEVICE float *delta_memory(const sl_delta &a, int slot, int head) {
    return a.memory + ((int64_t)slot * a.heads + head) * a.dk * a.dv;
}
/* The slot of a row; reports a fault if its slot or position is out of range. */
DEVICE int delta_slot(const sl_delta &a, int row) {
    (void)checked(a.fault, SL_FAULT_POSITION, row, a.positions[row], INT32_MAX);
    return checked(a.fault, SL_FAULT_SLOT, row, a.slots[row], a.slot_count);
}

/* The first and the last row of a slot, both -1 if it has none; every thread gets the result. */
DEVICE int2 rows_of_slot(const int32_t *slots, int rows, int slot) {
    __shared__ int ends[2];
    if (threadIdx.x < 2) ends[threadIdx.x] = INT32_MIN;
    __syncthreads();
    int first = INT32_MIN, last = INT32_MIN; /* first: the maximum of negated rows */
    for (int t = (int)threadIdx.x; t < rows; t += (int)blockDim.x)
        if (slots[t] == slot) {
            first = max(first, -t);
            last = t;
        }
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) {
        first = max(first, __shfl_xor_sync(ALL_LANES, first, d));
        last = max(last, __shfl_xor_sync(ALL_LANES, last, d));
    }
    if (lane_id() == 0) {
        atomicMax(&ends[0], first);
        atomicMax(&ends[1], last);
    }
    __syncthreads();
    int2 found;
    found.x = ends[1] < 0 ? -1 : -ends[0];
    found.y = ends[1] < 0 ? -1 : ends[1];
    return found;
}
#endif
