/* delta.cuh - Where the operands of the delta net's recurrence lie. */
#ifndef SL_RUNTIME_CUDA_KERNELS_DELTA_CUH
#define SL_RUNTIME_CUDA_KERNELS_DELTA_CUH
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/delta.h"

/* The q or k of a row that a head uses. */
DEVICE const float *delta_key(const sl_delta &a, const float *tensor, int row, int head) {
    const int key = a.tiled ? head % a.key_heads : head / (a.heads / a.key_heads);
    return tensor + ((int64_t)row * a.key_heads + key) * a.dk;
}
/* Where the v or out of a row and head starts. */
DEVICE int64_t delta_value(const sl_delta &a, int row, int head) {
    return ((int64_t)row * a.heads + head) * a.dv;
}
DEVICE float *delta_memory(const sl_delta &a, int slot, int head) {
    return a.memory + ((int64_t)slot * a.heads + head) * a.dk * a.dv;
}
/* The slot of a row whose slot and position are checked. */
DEVICE int delta_slot(const sl_delta &a, int row) {
    (void)checked(a.fault, SL_FAULT_POSITION, row, a.positions[row], INT32_MAX);
    return checked(a.fault, SL_FAULT_SLOT, row, a.slots[row], a.slot_count);
}
#endif
