/* rope.h - RoPE of one head, shared by all kernels that rotate. */
#ifndef SL_RUNTIME_CPU_ROPE_H
#define SL_RUNTIME_CPU_ROPE_H
#include "runtime/cpu/kernels/kernels.h"

/* Parameters of the rotation of a head. */
typedef struct {
    const sl_cview *table;
    int64_t rotary, width;
    bool interleaved;
} turning;

static inline turning turning_of(const sl_cview *table, int64_t width, uint32_t interleaved) {
    return (turning){table, dim(&table->type, 1), width, interleaved != 0};
}

/* Rotates one head of row t.  One function that is never inlined: the compiler may contract the
 * products into FMAs in different ways, and the result must be the same in all kernels. */
#define rope_head SL_KERNEL(sl_rope_head)
void rope_head(const turning *turn, int64_t t, const float *x, float *out);
#endif
