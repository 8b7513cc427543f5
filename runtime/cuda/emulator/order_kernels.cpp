/* order_kernels.cpp - Kernels for order_test.c: right and wrong ways to start early.  Each adds 1. */
#include "runtime/cuda/emulator/order_kernels.h"
#include "runtime/cuda/kernels/cuda.cuh"

/* Waits before it does anything else. */
SL_CUDA_KERNEL(emulated_add, emulated_add_args) {
    a.to[threadIdx.x] = a.from[threadIdx.x] + 1;
}
SL_CUDA_KERNEL_AHEAD(emulated_add_reading_early, emulated_add_args) {
    lead();
    const float x = a.from[threadIdx.x];
    follow();
    a.to[threadIdx.x] = x + 1;
}
SL_CUDA_KERNEL_AHEAD(emulated_add_writing_early, emulated_add_args) {
    lead();
    a.to[threadIdx.x] = 0;
    follow();
    a.to[threadIdx.x] = a.from[threadIdx.x] + 1;
}
/* Never waits: its successors could run before its predecessors have completed. */
SL_CUDA_KERNEL_AHEAD(emulated_add_never_waiting, emulated_add_args) {
    lead();
    a.to[threadIdx.x] = a.from[threadIdx.x] + 1;
}
/* Lets its successors start only after its predecessors have completed. */
SL_CUDA_KERNEL_AHEAD(emulated_add_leading_late, emulated_add_args) {
    follow();
    lead();
    a.to[threadIdx.x] = a.from[threadIdx.x] + 1;
}
/* Only some threads of a block wait. */
SL_CUDA_KERNEL_AHEAD(emulated_add_waiting_in_part, emulated_add_args) {
    lead();
    if (threadIdx.x > 0) follow();
    a.to[threadIdx.x] = a.from[threadIdx.x] + 1;
}
