/* activate.h - Activation functions after a product, by their number in the op. */
#ifndef SL_RUNTIME_CPU_ACTIVATE_H
#define SL_RUNTIME_CPU_ACTIVATE_H
#include "runtime/cpu/kernels/kernels.h"

/* elementwise_f32.c: by the loops of the elementwise ops, with the same bits. */
void SL_KERNEL(sl_activate_f32)(float *x, int64_t count, uint32_t act);

/* Applies activation `act` in place; 0 is the identity. */
static inline void activate_f32(float *x, int64_t count, uint32_t act) {
    if (act) SL_KERNEL(sl_activate_f32)(x, count, act);
}
#endif
