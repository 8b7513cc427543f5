/* rope_apply.h - Arguments of the kernels in rope_apply.cu: RoPE of any float type.  Types are
 * numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROPE_APPLY_H
#define SL_RUNTIME_CUDA_KERNELS_ROPE_APPLY_H
#include <stdint.h>

enum { SL_ROTARY_DIMS = 7 };

/* Tables [.., width] of `count` elements. */
typedef struct {
    const void *positions, *frequencies;
    void *cosines, *sines;
    int64_t count, width;
    int32_t position_type, type;
    double magnitude;
} sl_rope_tabled;

typedef struct {
    const void *x;
    void *out;
    int64_t count; /* threads */
    int32_t type, back;
} sl_turned;

/* Pairs j < pairs of a row of x: dim j * pair and the one `step` after it, by column j of the row
 * of the tables that is found from x's leading dims. */
typedef struct {
    sl_turned t;
    const void *cosines, *sines;
    int64_t width, pairs, pair, step, columns;
    int64_t rank, dims[SL_ROTARY_DIMS], steps[SL_ROTARY_DIMS];
} sl_rope_applied;

/* A thread has a pair of neighbours. */
typedef struct {
    sl_turned t;
    int64_t dims, tokens, width, height;
    double theta;
} sl_axial;
#endif
