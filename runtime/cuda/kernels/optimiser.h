/* optimiser.h - Arguments of the kernels in optimiser.cu; one thread per element. */
#ifndef SL_RUNTIME_CUDA_KERNELS_OPTIMISER_H
#define SL_RUNTIME_CUDA_KERNELS_OPTIMISER_H
#include <stdint.h>

/* Elements of `each` bytes. */
typedef struct {
    void *x;
    const void *value;
    int64_t count;
    int32_t each;
} sl_assignment;

/* A step that has no second moment or corrections has NULL for them. */
typedef struct {
    float *x, *first, *second; /* the parameters and their moments */
    const float *gradient, *rate, *corrections;
    int64_t count;
    float beta1, beta2, rest1, rest2; /* rest: 1 - beta */
    float eps, decay;
    int32_t nesterov;
} sl_optimiser_step;
#endif
