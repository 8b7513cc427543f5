/* row.h - Arguments of the kernels in row.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROW_H
#define SL_RUNTIME_CUDA_KERNELS_ROW_H
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/norm.h"

/* What makes a row: a norm of x, or of x + other; or nothing: codes lie in memory. */
enum { SL_ROW_OF_CODES, SL_ROW_OF_ITSELF };
enum { SL_ROW_RMS, SL_ROW_ADD, SL_ROW_CODED };
enum {
    SL_ROW_WARPS = 24, /* of a block, at most */
    SL_ROW_UNITS = 6,  /* panels of a block, at most */
    SL_ROW_COPIES = 3  /* of a row, in shared memory: x or what is made of it, other, gain */
};

/* A product with the row: a block has `units` of its panels, of which a warp has `blocks`
 * blocks of one. */
typedef struct {
    sl_cuda_panels w[SL_LINEAR_WEIGHTS];
    sl_linear_finish finish;
    sl_linear_division d;
    int32_t blocks, share_bytes;
} sl_row_product;

/* A row that every block makes for itself, and up to two products with it: of its codes, and by the
 * first blocks of the grid of itself.  What others want of the row is stored too, by some block. */
typedef struct {
    sl_norm_rows norm;
    sl_cuda_rows8 x8; /* where it is SL_ROW_CODED */
    int32_t kind, width;
    int32_t exact_blocks;      /* 0: no such product */
    int32_t row_at;            /* in shared memory, after the shares: the row, then sums */
    sl_row_product product[2]; /* SL_ROW_OF_CODES, SL_ROW_OF_ITSELF */
    /* One product of codes goes through a convolution and is stored nowhere else: x is unset. */
    sl_conv conv;
    int32_t conv_weight; /* -1: none */
    int32_t stored;      /* elements of the row that a block stores: those of whole warps */
} sl_row_products;

/* Bytes of shared memory from row_at on. */
static inline uint32_t sl_row_bytes(int32_t width) {
    return (uint32_t)width * (SL_ROW_COPIES * 4 + 1) + (uint32_t)width / SL_CUDA_GROUP_COLS * 16 +
           SL_ROW_WARPS * SL_CUDA_PANEL_ROWS * 4;
}
#endif
