/* elementwise.h - Arguments of the kernels in elementwise.cu.
 *
 * A thread computes a unit of the result: four adjacent elements if `vectors` says that all
 * operands are laid out for it, else one. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_H
#define SL_RUNTIME_CUDA_KERNELS_ELEMENTWISE_H
#include "runtime/cuda/kernels/strides.h"

/* Float ops with one and with two operands; elementwise.cuh implements each as apply_<op>. */
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
typedef struct {
    const float *x;
    float *out;
    int64_t units;
    int32_t vectors, reserved;
} sl_unary;

/* With `vectors`, the walk iterates over units; within a unit an operand advances by x_step or
 * y_step: 1, or 0 if it is broadcast. */
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

/* A region as a program of steps on registers.  Register i initially holds input i; results go to
 * registers whose values are not needed any more.  The last step's result is the region's. */
enum { SL_REGION_INPUTS = 6, SL_REGION_STEPS = 16, SL_REGION_REGISTERS = 10 };
typedef struct {
    const float *inputs[SL_REGION_INPUTS]; /* in order; NULL after the last */
    float *out;
    int64_t units;
    int32_t vectors, steps;
    struct {
        uint8_t number, x, y, to; /* op (core/elementwise_steps.h); registers */
    } code[SL_REGION_STEPS];
} sl_region;
#endif
