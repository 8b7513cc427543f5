/* linear_heads.h - Arguments of the kernels in linear_heads.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_HEADS_H
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_HEADS_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_HEADS_ROWS = 16, /* of a head's matrix per block: a panel */
    SL_HEADS_WARPS = 4,
    SL_HEADS_TOKENS = 8 /* per block, which reads weights once for all of them */
};

/* x [tokens, heads, cols] times each head's w [rows, cols] -> out [tokens, heads, rows].  Grid:
 * (tiles of rows, heads, tiles of tokens). */
typedef struct {
    const float *x;
    float *out;
    const void *w;         /* the first head's matrix */
    uint64_t matrix_bytes; /* from one head's matrix to the next */
    sl_cuda_panels panels; /* the first head's, if w has a panel type */
    int32_t tokens, heads, rows, cols;
    int32_t wide, reserved; /* wide: rows of x and dense w are aligned for 16-byte loads */
} sl_linear_by_head;
#endif
