/* matmul.h - Arguments of the kernel in matmul.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MATMUL_H
#define SL_RUNTIME_CUDA_KERNELS_MATMUL_H
#include "runtime/cuda/kernels/strides.h"

/* out [rows, cols] = left [rows, inner] * right [inner, cols]; `batch` has the strides of both
 * operands over the matrices of the result. */
enum { SL_MATMUL_TILE = 64, SL_MATMUL_THREADS = 256 };
typedef struct {
    const float *left, *right;
    float *out;
    int64_t rows, cols, inner;
    int64_t row_tiles, col_tiles;
    sl_walk batch;
} sl_products;
#endif
