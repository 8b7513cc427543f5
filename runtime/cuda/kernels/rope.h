/* rope.h - Arguments of the kernels in rope.cu, and of others that transform heads. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROPE_H
#define SL_RUNTIME_CUDA_KERNELS_ROPE_H
#include "core/rope.h"
#include "runtime/gpu/fault.h"
#include <stdint.h>

/* cosines and sines [rows, half]. */
typedef struct {
    const int32_t *positions;
    float *cosines, *sines;
    sl_rope_form form;
    int32_t rows, half;
    sl_fault *fault;
} sl_rope_angles;

/* Heads of `width` elements are normalised (where there is a gain) and rotated (where half is not
 * 0) by the first `half` angles of their row of the tables, which have `columns`. */
typedef struct {
    const float *gain, *cosines, *sines;
    int32_t heads, width, half, columns;
    int32_t interleaved; /* pairs (2j, 2j + 1), else (j, j + half) */
    float eps, offset;
    int32_t reserved;
} sl_head_change;

/* x [rows, heads, width] -> out. */
typedef struct {
    sl_head_change change;
    const float *x;
    float *out;
    int32_t rows, reserved;
} sl_rope_heads;
#endif
