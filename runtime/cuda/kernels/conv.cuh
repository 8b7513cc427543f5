/* conv.cuh - The delta net's convolution of four taps, step by step. */
#ifndef SL_RUNTIME_CUDA_KERNELS_CONV_CUH
#define SL_RUNTIME_CUDA_KERNELS_CONV_CUH
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/norm.cuh"

/* The three rows before the next, the oldest first. */
struct history {
    float x[SL_CONV_TAPS - 1];
};
DEVICE float convolve(history &h, float4 w, float x) {
    const float sum = w.x * h.x[0] + w.y * h.x[1] + w.z * h.x[2] + w.w * x;
    h.x[0] = h.x[1];
    h.x[1] = h.x[2];
    h.x[2] = x;
    return silu(sum);
}
#endif
