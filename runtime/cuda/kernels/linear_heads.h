/* linear_heads.h - Arguments of the kernels in linear_heads.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_HEADS_H
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_HEADS_H
#include "runtime/cuda/kernels/panel.h"

enum {
    SL_HEADS_ROWS = 16, /* of a head's matrix that a block takes: a panel */
    SL_HEADS_WARPS = 4,
    SL_HEADS_TOKENS = 8 /* that share what is read */
};

/* x [tokens, heads, cols] times each head's w [rows, cols] -> out [tokens, heads, rows].  A block
 * is some rows of a head (grid y) and some tokens (grid z). */
typedef struct {
    const float *x;
    float *out;
    const void *w;         /* the first head's matrix */
    uint64_t matrix_bytes; /* from one to the next */
    sl_cuda_panels panels; /* the first head's, where w has a panel type */
    int32_t tokens, heads, rows, cols;
    int32_t wide, reserved; /* rows of x and dense w lie where 16 bytes can be loaded */
} sl_linear_by_head;
#endif
