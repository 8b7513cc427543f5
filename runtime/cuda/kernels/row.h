/* row.h - Arguments of the kernels in row.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROW_H
#define SL_RUNTIME_CUDA_KERNELS_ROW_H
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/norm.h"

/* Products with the a8 codes of the row or with its f32 values; and how the row is made: RMS norm
 * of x or of x + other, or its codes are read from memory. */
enum { SL_ROW_OF_CODES, SL_ROW_OF_ITSELF };
enum { SL_ROW_RMS, SL_ROW_ADD, SL_ROW_CODED };
enum {
    SL_ROW_WARPS = 24, /* per block, at most */
    SL_ROW_UNITS = 6,  /* panels per block, at most */
    SL_ROW_COPIES = 3  /* f32 rows in shared memory: x or the normalised row, other, gain */
};

/* A product with the row: a block computes `d.units` panels; a warp reads `blocks` blocks of
 * one. */
typedef struct {
    sl_cuda_panels w[SL_LINEAR_WEIGHTS];
    sl_linear_finish finish;
    sl_linear_division d;
    int32_t blocks, share_bytes;
} sl_row_product;

/* A row that every block computes for itself, and up to two products with it: of its a8 codes and,
 * by the first blocks of the grid, of its f32 values.  Parts of the row that later steps read are
 * stored to global memory, each by one block. */
typedef struct {
    sl_norm_rows norm;
    sl_cuda_rows8 x8; /* for SL_ROW_CODED */
    int32_t kind, width;
    int32_t exact_blocks;      /* of the f32 product; 0: there is none */
    int32_t row_at;            /* offset in shared memory, behind the weights: the row, then sums */
    sl_row_product product[2]; /* SL_ROW_OF_CODES, SL_ROW_OF_ITSELF */
    /* One weight's product with the codes goes through a convolution and is not stored: conv.x is
     * unset. */
    sl_conv conv;
    int32_t conv_weight; /* -1: none */
    int32_t stored;      /* elements of the row that each block stores, whole warps */
} sl_row_products;

/* Bytes of shared memory from row_at on. */
static inline uint32_t sl_row_bytes(int32_t width) {
    return (uint32_t)width * (SL_ROW_COPIES * 4 + 1) + (uint32_t)width / SL_CUDA_GROUP_COLS * 16 +
           SL_ROW_WARPS * SL_CUDA_PANEL_ROWS * 4;
}
#endif
