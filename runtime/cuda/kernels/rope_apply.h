/* rope_apply.h - Arguments of the kernels in rope_apply.cu: RoPE of any float type.  Types are
 * numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ROPE_APPLY_H
#define SL_RUNTIME_CUDA_KERNELS_ROPE_APPLY_H
#include <stdint.h>

enum { SL_ROTARY_DIMS = 7 };

/* Tables [.., width], `count` elements each. */
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

/* Rotates pairs j < pairs of each row of x: elements j * pair and j * pair + step, by column j of
 * the table row that the leading dims of x select. */
typedef struct {
    sl_turned t;
    const void *cosines, *sines;
    int64_t width, pairs, pair, step, columns;
    int64_t rank, dims[SL_ROTARY_DIMS], steps[SL_ROTARY_DIMS];
} sl_rope_applied;

/* One thread per pair of adjacent elements. */
typedef struct {
    sl_turned t;
    int64_t dims, tokens, width, height;
    double theta;
} sl_axial;
#endif
