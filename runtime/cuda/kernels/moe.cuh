/* moe.cuh - Between the projections of an expert: both kinds of swiglu, and quantising the result
 * to a8. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_CUH
#define SL_RUNTIME_CUDA_KERNELS_MOE_CUH
#include "runtime/cuda/kernels/moe.h"
#include "runtime/cuda/kernels/panel.cuh"

DEVICE float swiglu(float gate, float up) {
    return gate / (1.0f + expf(-gate)) * up;
}
/* Clamps by comparison, so that NaN passes through. */
DEVICE float limited_swiglu(const sl_moe_act &act, float gate, float up) {
    gate = gate > act.limit ? act.limit : gate;
    up = up > act.limit ? act.limit : up < -act.limit ? -act.limit : up;
    return (up + 1.0f) * (gate / (1.0f + expf(-act.alpha * gate)));
}

/* Quantisation of a group as in core/codec.c: the factor for its values, and its scale.  `wrong` is
 * 0, or NaN where a value is not finite. */
struct a8_scale {
    float inverse, scale;
};
DEVICE a8_scale a8_scale_of(float largest, float wrong) {
    const float inverse = 127.0f / largest;
    if (wrong != wrong) return {0.0f, wrong};
    if (!(inverse <= 3.402823466e38f)) return {0.0f, 0.0f};
    return {inverse, largest / 127.0f};
}
DEVICE int a8_code(float x, a8_scale s) {
    return s.inverse == 0.0f ? 0 : __float2int_rn(x * s.inverse);
}
#endif
