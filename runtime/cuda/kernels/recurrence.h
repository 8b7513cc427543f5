/* recurrence.h - Arguments of the kernels in recurrence.cu: linear recurrences of any float type.
 * Types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_RECURRENCE_H
#define SL_RUNTIME_CUDA_KERNELS_RECURRENCE_H
#include <stdint.h>

/* `rows` independent rows of state, `size` elements each; `memory` holds them in double during the
 * time steps. */
typedef struct {
    const void *before; /* initial state; NULL: zeros */
    void *after, *out;
    double *memory; /* [rows,size], scratch */
    int64_t rows, size, steps;
    int32_t type, reserved;
} sl_recurrence;

/* x, delta [B,S,width], rates [width,size], b, c [B,S,size]; one row per batch item and channel. */
typedef struct {
    sl_recurrence r;
    const void *x, *delta, *rates, *b, *c;
    int64_t width;
} sl_scanned;

/* q, k [B,S,key_heads,size], v [B,S,heads,width], decay, beta [B,S,heads]; one row per column of a
 * head's state. */
typedef struct {
    sl_recurrence r;
    const void *q, *k, *v, *decay, *beta;
    int64_t width, heads, key_heads;
    double scale;
} sl_delta_netted;
#endif
