/* rope.h - RoPE of one head, shared by all kernels that rotate. */
#ifndef SL_RUNTIME_CPU_ROPE_H
#define SL_RUNTIME_CPU_ROPE_H
#include "runtime/cpu/kernels/kernels.h"

/* Parameters of the rotation of a head, by the first rotary / 2 columns of the tables. */
typedef struct {
    const float *cosines, *sines;
    int64_t columns, rotary, width;
    bool interleaved;
} head_turn;

static inline head_turn head_turn_of(const sl_cview *cos, const sl_cview *sin, int64_t width,
                                     uint32_t rotary, uint32_t interleaved) {
    const int64_t columns = last_dim(&cos->type);
    return (head_turn){cos->data, sin->data,       columns, rotary ? rotary : 2 * columns,
                       width,     interleaved != 0};
}

/* Rotates one head by the angles from element `at` of the tables on.  One function that is never
 * inlined: the compiler may contract the products into FMAs in different ways, and the result must
 * be the same in all kernels. */
#define rope_head SL_KERNEL(sl_rope_head)
void rope_head(const head_turn *turn, int64_t at, const float *x, float *out);
#endif
