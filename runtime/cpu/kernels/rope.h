/* rope.h - RoPE of one head, for all kernels that rotate. */
#ifndef SL_RUNTIME_CPU_ROPE_H
#define SL_RUNTIME_CPU_ROPE_H
#include "runtime/cpu/kernels/kernels.h"

/* How heads of a width are turned. */
typedef struct {
    const sl_cview *table;
    int64_t rotary, width;
    bool interleaved;
} turning;

static inline turning turning_of(const sl_cview *table, int64_t width, uint32_t interleaved) {
    return (turning){table, dim(&table->type, 1), width, interleaved != 0};
}

/* One head of row t.  One function for all kernels: the compiler is free to fuse either product
 * with the difference, and must choose alike everywhere. */
#define rope_head SL_KERNEL(sl_rope_head)
void rope_head(const turning *turn, int64_t t, const float *x, float *out);
#endif
