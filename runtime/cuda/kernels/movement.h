/* movement.h - Arguments of the kernels in movement.cu.
 *
 * Kernels move units of 1, 2, 4, 8 or 16 bytes, the largest that divides all strides; strides are
 * in units. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOVEMENT_H
#define SL_RUNTIME_CUDA_KERNELS_MOVEMENT_H
#include "runtime/cuda/kernels/strides.h"
#include "runtime/gpu/fault.h"

/* Up to two copies (blockIdx.y) of contiguous stretches at a fixed stride. */
enum { SL_MOST_COPIES = 2 };
typedef struct {
    const void *from;
    void *to;
    int64_t units, stretch; /* in total, and per stretch */
    int64_t from_step, to_step;
} sl_copy;
typedef struct {
    sl_copy parts[SL_MOST_COPIES];
} sl_copies;

/* Stretch n of the result is stretch indices[n % count] of outer slice n / count of x. */
typedef struct {
    const void *x;
    const int32_t *indices;
    void *out;
    sl_fault *fault;
    int64_t units, stretch, count, extent;
} sl_gathering;

/* Unit i of the result is x at the offset that `walk` gives for i. */
typedef struct {
    const void *x;
    void *out;
    int64_t units;
    sl_walk walk;
} sl_strided;

/* Transpose of matrices [rows, cols] with contiguous rows to [cols, rows] with contiguous columns
 * of the source; `others` has the strides of x and out over the matrices. */
enum { SL_TILE = 32, SL_TILE_THREADS = 256 };
typedef struct {
    const void *x;
    void *out;
    int64_t rows, cols, x_row, out_col;
    int64_t row_tiles, col_tiles;
    sl_walk others;
} sl_tiles;
#endif
