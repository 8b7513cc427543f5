/* sdpa_append.h - Arguments of the kernels in sdpa_append.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_APPEND_H
#define SL_RUNTIME_CUDA_KERNELS_SDPA_APPEND_H
#include "runtime/cuda/kernels/rope.h"

/* Writes k, normalised and rotated by `change`, and v to the cache (core/kv.h). */
typedef struct {
    sl_head_change change;
    const float *k, *v;
    const int32_t *slots, *positions;
    void *keys, *values;
    int32_t rows, slot_count, capacity; /* capacity: positions of a sequence */
    int32_t pages;                      /* as in sl_sdpa_splits */
    int32_t value_width;                /* head size of v; that of k is in `change` */
    int32_t is_half;                    /* the cache is f16, else f32 */
    sl_fault *fault;
} sl_cache_append;
#endif
