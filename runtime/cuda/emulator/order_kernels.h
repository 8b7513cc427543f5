/* order_kernels.h - The arguments of the kernels of order_kernels.cpp. */
#ifndef SL_RUNTIME_CUDA_EMULATOR_ORDER_KERNELS_H
#define SL_RUNTIME_CUDA_EMULATOR_ORDER_KERNELS_H
typedef struct {
    const float *from;
    float *to; /* as many as there are threads */
} emulated_add_args;
#endif
