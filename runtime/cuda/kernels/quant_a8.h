/* quant_a8.h - Arguments of the kernels in quant_a8.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_QUANT_A8_H
#define SL_RUNTIME_CUDA_KERNELS_QUANT_A8_H
#include "runtime/cuda/kernels/panel.h"

/* Quantises rows of `count` elements to a8; with `gate`, each element times sigmoid(gate). */
typedef struct {
    const float *x, *gate;
    sl_cuda_rows8_out codes;
    int64_t all_groups; /* of all rows */
    int32_t count;
} sl_quantise_groups;
#endif
