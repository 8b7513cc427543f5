/* kernels.h - What the kernels of kernels.cpp take. */
#ifndef SL_RUNTIME_CUDA_EMULATOR_KERNELS_H
#define SL_RUNTIME_CUDA_EMULATOR_KERNELS_H
typedef struct {
    const float *from;
    float *to; /* as many as there are threads */
} emulated_add_args;
#endif
