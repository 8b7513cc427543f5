/* embed.h - Arguments of the kernels in embed.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_EMBED_H
#define SL_RUNTIME_CUDA_KERNELS_EMBED_H
#include "runtime/cuda/kernels/panel.h"
#include "runtime/gpu/fault.h"

/* A thread decodes SL_EMBED_COLS columns of a token's row: one word of 4-bit codes. */
enum { SL_EMBED_COLS = 8 };
typedef struct {
    const void *table;     /* if the table has plain elements */
    sl_cuda_panels panels; /* if it has a panel type */
    const int32_t *ids;
    float *out;
    sl_fault *fault;
    int64_t units;
    int32_t rows, cols, row_units;
    int32_t vectors; /* rows allow 16-byte loads and stores */
} sl_lookup;
#endif
