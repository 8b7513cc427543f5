/* rope.h - RoPE of one head, for all kernels that rotate. */
#ifndef SL_RUNTIME_CPU_ROPE_H
#define SL_RUNTIME_CPU_ROPE_H
#include "runtime/cpu/kernels/kernels.h"

/* How heads of a width are turned, by the first rotary / 2 columns of tables. */
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

/* One head by the angles from element `at` of the tables on.  One function for all kernels: the
 * compiler is free to fuse either product with the difference, and must choose alike everywhere. */
#define rope_head SL_KERNEL(sl_rope_head)
void rope_head(const head_turn *turn, int64_t at, const float *x, float *out);
#endif
