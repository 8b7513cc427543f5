/* elementwise.h - Arguments of the kernels in elementwise.cu.
 *
 * A thread makes a unit of the result: four elements side by side where `vectors` says that all
 * operands are laid out for it, else one. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_H
#define SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_H
#include "runtime/cuda/kernels/walk.h"

/* Ops on floats, by operands; what each does is in pointwise.cuh as apply_<op>. */
#define SL_POINTS_1(POINT)                                                                         \
    POINT(neg)                                                                                     \
    POINT(abs)                                                                                     \
    POINT(exp)                                                                                     \
    POINT(log)                                                                                     \
    POINT(sqrt)                                                                                    \
    POINT(rsqrt)                                                                                   \
    POINT(tanh)                                                                                    \
    POINT(sigmoid)                                                                                 \
    POINT(silu)                                                                                    \
    POINT(gelu)                                                                                    \
    POINT(relu)
#define SL_POINTS_2(POINT)                                                                         \
    POINT(add)                                                                                     \
    POINT(sub)                                                                                     \
    POINT(mul)                                                                                     \
    POINT(div)                                                                                     \
    POINT(maximum)                                                                                 \
    POINT(minimum)                                                                                 \
    POINT(sigmoid_gate)                                                                            \
    POINT(swiglu)
#define SL_POINT_ENUM(OP) SL_POINT_##OP,
enum { SL_POINTS_1(SL_POINT_ENUM) SL_POINTS_2(SL_POINT_ENUM) SL_POINT_COUNT };

typedef struct {
    const float *x;
    float *out;
    int64_t units;
    int32_t vectors, reserved;
} sl_unary;

/* Where there are vectors, the walk is one of units; an operand steps by 0 or 1 within them. */
typedef struct {
    const void *x, *y;
    void *out;
    int64_t units;
    int32_t vectors, x_step, y_step, reserved;
    sl_walk walk;
} sl_binary;

typedef struct {
    const float *x, *y, *z;
    float *out;
    int64_t units;
    int32_t vectors, reserved;
} sl_sum3;

/* A program of steps; a step's registers are 0 to 3 the operands, then results of earlier steps. */
enum { SL_POINT_INPUTS = 4, SL_POINT_STEPS = 6 };
typedef struct {
    const float *inputs[SL_POINT_INPUTS];
    float *out;
    int64_t units;
    int32_t vectors, steps;
    struct {
        uint8_t point, x, y, reserved;
    } code[SL_POINT_STEPS];
} sl_points;
#endif
