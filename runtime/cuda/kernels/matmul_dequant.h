/* matmul_dequant.h - Arguments of the kernels in matmul_dequant.cu: low-bit weights
 * (core/schemes.h). */
#ifndef SL_RUNTIME_CUDA_KERNELS_MATMUL_DEQUANT_H
#define SL_RUNTIME_CUDA_KERNELS_MATMUL_DEQUANT_H
#include "runtime/cuda/kernels/movement_any.h"
#include <stdint.h>

enum { SL_DEQUANT_THREADS = 128 };

/* Quantised weight matrices [.., inner, cols]; fields as in sl_packed. */
typedef struct {
    const uint8_t *w;
    const void *params[2];
    int64_t inner, cols, block; /* block: K elements per scale or GGUF block */
    int64_t row_bytes;          /* GGUF: bytes of one output column */
    int32_t kind, gguf;         /* sl_scheme_kind, sl_gguf_block */
    int32_t block_bytes;        /* GGUF */
    int32_t two_params, w_signed, one_scale;
    int32_t bits; /* MLX */
} sl_packed_weights;

/* Dequantises to out [.., inner, cols], one thread per weight. */
typedef struct {
    sl_packed_weights weights;
    float *out;
    int64_t count;
} sl_unpacked;

/* out [rows, cols] = x [rows, inner] * weights, one thread per element. */
typedef struct {
    sl_packed_weights weights;
    const void *x;
    void *out;
    sl_indices experts; /* [rows]: matrix of each row; data NULL: one matrix */
    int64_t count, expert_count;
    int32_t type, reserved; /* of x and out */
} sl_packed_product;
#endif
