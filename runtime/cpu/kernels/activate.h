/* activate.h - Activation functions after a matrix product, by their number in the op. */
#ifndef SL_RUNTIME_CPU_ACTIVATE_H
#define SL_RUNTIME_CPU_ACTIVATE_H
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/elementwise_double.h"

INLINE vf activated(vf x, uint32_t act) {
    switch (act) {
    case 1:
        return vrelu(x);
    case 2:
        return vsilu(x);
    case 3:
        return vgelu(x);
    case 4:
        return vsigmoid(x);
    default:
        return vtanh(x);
    }
}
/* Applies activation `act` in place; 0 is the identity. */
static inline void activate_f32(float *x, int64_t n, uint32_t act) {
    if (act == 0) return;
    if (act == 6) { /* gelu_approx, which is computed in doubles by itself, too */
        for (int64_t i = 0; i < n; i += DLANES) {
            const int64_t count = n - i < DLANES ? n - i : DLANES;
            dstore_n(x + i, dgelu_approx(dload_n(x + i, count)), count);
        }
        return;
    }
    FOR_VECTORS(i, count, n, vstore_n(x + i, activated(vload_n(x + i, count), act), count););
}
#endif
