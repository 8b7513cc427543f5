/* matmul_any.h - Arguments of the kernel in matmul_any.cu: products of any number type.  Types are
 * numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MATMUL_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_MATMUL_ANY_H
#include "runtime/cuda/kernels/movement_any.h"
#include "runtime/cuda/kernels/strides.h"

enum { SL_PRODUCT_THREADS = 128 };

/* Products of matrices, whose batch dims broadcast; or those on the right are chosen by indices,
 * which do not count from the end. */
typedef struct {
    const void *left, *right;
    void *out;
    int64_t rows, cols, inner, count; /* of a matrix; elements of all */
    int32_t type, reserved;
    sl_walk batch;
    sl_indices choice; /* data NULL: none */
    int64_t choices;
} sl_product_any;
#endif
