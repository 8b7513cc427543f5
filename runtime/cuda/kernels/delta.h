/* delta.h - Arguments of the kernels in conv.cu, delta.cu and delta_chunk.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_DELTA_H
#define SL_RUNTIME_CUDA_KERNELS_DELTA_H
#include "runtime/cuda/kernels/fault.h"
#include <stdint.h>

enum { SL_CONV_TAPS = 4, SL_CONV_ROWS = 32 }; /* of the fast kernels; rows of a tile */

typedef struct {
    const float *x, *w;
    const int32_t *slots, *positions;
    float *window, *out;
    sl_fault *fault;
    int32_t rows, channels, taps, slot_count;
} sl_conv;

typedef struct {
    const float *a, *b, *a_log, *dt_bias;
    float *decay, *beta;
    int64_t count;
    int32_t heads;
} sl_decay;

enum {
    SL_DELTA_SIZE = 128,       /* dk that the fast kernels have */
    SL_DELTA_STEP_COLUMNS = 16 /* of the memory, in a block of the fast step */
};

typedef struct {
    const float *q, *k, *v, *decay, *beta;
    const int32_t *slots, *positions;
    float *memory, *out;
    sl_fault *fault;
    int32_t rows, key_heads, heads, dk, dv, slot_count, tiled;
} sl_delta;
#endif
