/* row.h - Arguments of the kernels in row.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROW_H
#define SL_RUNTIME_CUDA_KERNELS_ROW_H
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/norm.h"

/* What makes a row: kinds of norms, or x * sigmoid(other). */
enum { SL_ROW_RMS, SL_ROW_ADD, SL_ROW_GATED, SL_ROW_GATE };
enum {
    SL_ROW_FOURS = 2,  /* of four elements, that a thread has of a row at most */
    SL_ROW_WARPS = 16, /* of a block, at most */
    SL_ROW_UNITS = 4,  /* panels of a task with a convolution, at most: there is one task a block */
    SL_ROW_HEAD = 128  /* elements of each part that SL_ROW_GATED norms */
};

/* A row that every block makes for itself, and up to two products with it: of its codes, and by the
 * first blocks of the grid of itself.  What others want of the row is stored too, by some block. */
typedef struct {
    sl_norm_rows norm;
    int32_t kind, width;               /* of the row */
    int32_t exact_blocks, coded_tasks; /* 0: no such product */
    sl_linear_panels exact, coded;
    /* One product of `coded` goes through a convolution and is stored nowhere else: x is unset. */
    sl_conv conv;
    int32_t conv_weight, row_at; /* -1: none; where the row begins in shared memory */
} sl_row_products;
#endif
