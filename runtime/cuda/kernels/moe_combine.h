/* moe_combine.h - Arguments of the kernels in moe_combine.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_COMBINE_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_COMBINE_H
#include <stdint.h>

/* out [rows, width] = the weighted sum of the k rows of y per row, for sl_moe_join plus residual
 * and sigmoid(gate) * shared.  A block computes SL_MIX_COLS columns of one row.  Operands that an
 * op does not have are NULL. */
enum { SL_MIX_COLS = 128, SL_MIX_THREADS = 256 };
typedef struct {
    const float *y, *weights;
    const float *shared, *gate; /* gate: one element per row; NULL: shared is added ungated */
    const float *residual;
    float *out;
    int32_t width, k;
    int32_t row_blocks;
    int32_t vectors; /* rows of y are aligned for float4 loads */
} sl_mixture;

/* out = routed + sigmoid(gate) * shared; one thread per element. */
typedef struct {
    const float *routed, *shared, *gate;
    float *out;
    int64_t count, width;
} sl_shared_sum;
#endif
