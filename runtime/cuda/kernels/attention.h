/* attention.h - Arguments of the kernels in attention.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ATTENTION_H
#define SL_RUNTIME_CUDA_KERNELS_ATTENTION_H
#include "core/rope.h"
#include "runtime/gpu/fault.h"
#include <stdint.h>

/* out[t]: the cosines, then the sines of half angles. */
typedef struct {
    const int32_t *positions;
    float *out;
    sl_rope_form form;
    int32_t rows, half;
    sl_fault *fault;
} sl_rope_angles;

/* Heads of `width` elements are normed (where there is a gain) and turned (where half is not 0) by
 * their row of the table, of 2 half. */
typedef struct {
    const float *gain, *table;
    int32_t heads, width, half;
    int32_t interleaved; /* pairs (2j, 2j + 1), else (j, j + half) */
    float eps, offset;
} sl_head_change;

/* x [rows, heads, width] -> out. */
typedef struct {
    sl_head_change change;
    const float *x;
    float *out;
    int32_t rows, reserved;
} sl_rope_heads;

/* k, changed, and v into the cache (core/kv.h). */
typedef struct {
    sl_head_change change;
    const float *k, *v;
    const int32_t *slots, *positions;
    void *keys, *values;
    int32_t rows, slot_count, capacity; /* capacity: in whole blocks */
    int32_t value_width;                /* of v; k has that of the change */
    int32_t is_half, reserved;          /* the cache is f16, else f32 */
    sl_fault *fault;
} sl_cache_append;
#endif
