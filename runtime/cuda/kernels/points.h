/* points.h - Arguments of the kernel in points.cu: any elementwise op on operands of any plain
 * type.
 *
 * Ops and types are numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_POINTS_H
#define SL_RUNTIME_CUDA_KERNELS_POINTS_H
#include "core/elementwise_steps.h"
#include <stdint.h>

enum { SL_POINT_OPERANDS = 3, SL_POINT_DIMS = 8 };

/* What activations multiply by when they pass back: SLOPE(kind) */
#define SL_SLOPES(SLOPE)                                                                           \
    SLOPE(identity)                                                                                \
    SLOPE(neg)                                                                                     \
    SLOPE(abs)                                                                                     \
    SLOPE(exp)                                                                                     \
    SLOPE(log)                                                                                     \
    SLOPE(sqrt)                                                                                    \
    SLOPE(rsqrt)                                                                                   \
    SLOPE(tanh)                                                                                    \
    SLOPE(sigmoid)                                                                                 \
    SLOPE(silu)                                                                                    \
    SLOPE(gelu)                                                                                    \
    SLOPE(gelu_approx)                                                                             \
    SLOPE(relu)                                                                                    \
    SLOPE(sin)                                                                                     \
    SLOPE(cos)                                                                                     \
    SLOPE(tan)                                                                                     \
    SLOPE(asin)                                                                                    \
    SLOPE(acos)                                                                                    \
    SLOPE(atan)                                                                                    \
    SLOPE(sinh)                                                                                    \
    SLOPE(cosh)                                                                                    \
    SLOPE(asinh)                                                                                   \
    SLOPE(acosh)                                                                                   \
    SLOPE(atanh)                                                                                   \
    SLOPE(round)                                                                                   \
    SLOPE(floor)                                                                                   \
    SLOPE(ceil)                                                                                    \
    SLOPE(sign)                                                                                    \
    SLOPE(erf)                                                                                     \
    SLOPE(log1p)                                                                                   \
    SLOPE(expm1)                                                                                   \
    SLOPE(softplus)                                                                                \
    SLOPE(reciprocal)
#define SL_SLOPE_ENUM(KIND) SL_SLOPE_##KIND,
enum { SL_SLOPES(SL_SLOPE_ENUM) SL_SLOPE_COUNT };

typedef struct {
    const void *in[SL_POINT_OPERANDS];
    void *out;
    int64_t count;
    int32_t number;    /* of the op; 0: the slope of `attribute` at the first, times the second */
    int32_t attribute; /* of its step */
    uint8_t types[SL_POINT_OPERANDS], out_type;
    int32_t rank;
    int64_t dims[SL_POINT_DIMS]; /* of the result, and how far apart operands' elements are */
    int64_t steps[SL_POINT_OPERANDS][SL_POINT_DIMS];
} sl_point_each;
#endif
