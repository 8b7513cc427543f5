/* matmul_any.h - Arguments of the kernel in matmul_any.cu: matrix products of any number type.
 * Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MATMUL_ANY_H
#define SL_RUNTIME_CUDA_KERNELS_MATMUL_ANY_H
#include "runtime/cuda/kernels/movement_any.h"
#include "runtime/cuda/kernels/strides.h"

enum { SL_PRODUCT_THREADS = 128 };

/* Batched matrix products with broadcast batch dims.  With `choice`, an index per left-hand matrix
 * selects the right-hand one; negative indices are faults. */
typedef struct {
    const void *left, *right;
    void *out;
    int64_t rows, cols, inner, count; /* sizes of one matrix; elements of the result */
    int32_t type, reserved;
    sl_walk batch;
    sl_indices choice; /* data NULL: none, batches correspond */
    int64_t choices;
} sl_product_any;
#endif
