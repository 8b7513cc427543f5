/* elementwise_region.h - The code of elementwise regions.
 *
 * A step is five numbers: an op's number from the list below, three registers, and an attribute.
 * Registers are the inputs in order, then the results of earlier steps; what an op does not take is
 * 0.  The attribute is that of mod, is_inf, or of cast and bitcast: twice the number of the target
 * type, plus saturate.  The last step's result is the region's:
 *
 *   [3,0,1,0,0, 39,2,0,0,0]   silu(a * b) of two inputs: mul of 0 and 1, then silu of 2
 *
 * Numbers are never given to another op: they are in files. */
#ifndef SL_CORE_ELEMENTWISE_REGION_H
#define SL_CORE_ELEMENTWISE_REGION_H
#include "core/ops.h"

/* STEP(number, op, operands) */
#define SL_ELEMENTWISE_STEPS(STEP)                                                                 \
    STEP(1, add, 2)                                                                                \
    STEP(2, sub, 2)                                                                                \
    STEP(3, mul, 2)                                                                                \
    STEP(4, div, 2)                                                                                \
    STEP(5, maximum, 2)                                                                            \
    STEP(6, minimum, 2)                                                                            \
    STEP(7, pow, 2)                                                                                \
    STEP(8, mod, 2)                                                                                \
    STEP(9, atan2, 2)                                                                              \
    STEP(10, logical_and, 2)                                                                       \
    STEP(11, logical_or, 2)                                                                        \
    STEP(12, logical_xor, 2)                                                                       \
    STEP(13, bitwise_and, 2)                                                                       \
    STEP(14, bitwise_or, 2)                                                                        \
    STEP(15, bitwise_xor, 2)                                                                       \
    STEP(16, shift_left, 2)                                                                        \
    STEP(17, shift_right, 2)                                                                       \
    STEP(18, equal, 2)                                                                             \
    STEP(19, not_equal, 2)                                                                         \
    STEP(20, less, 2)                                                                              \
    STEP(21, less_equal, 2)                                                                        \
    STEP(22, greater, 2)                                                                           \
    STEP(23, greater_equal, 2)                                                                     \
    STEP(24, complex, 2)                                                                           \
    STEP(25, relu_backward, 2)                                                                     \
    STEP(26, complex_norm_sq_backward, 2)                                                          \
    STEP(27, sigmoid_gate, 2)                                                                      \
    STEP(28, swiglu, 2)                                                                            \
    STEP(29, where, 3)                                                                             \
    STEP(30, clamp, 3)                                                                             \
    STEP(31, neg, 1)                                                                               \
    STEP(32, abs, 1)                                                                               \
    STEP(33, exp, 1)                                                                               \
    STEP(34, log, 1)                                                                               \
    STEP(35, sqrt, 1)                                                                              \
    STEP(36, rsqrt, 1)                                                                             \
    STEP(37, tanh, 1)                                                                              \
    STEP(38, sigmoid, 1)                                                                           \
    STEP(39, silu, 1)                                                                              \
    STEP(40, gelu, 1)                                                                              \
    STEP(41, gelu_approx, 1)                                                                       \
    STEP(42, relu, 1)                                                                              \
    STEP(43, sin, 1)                                                                               \
    STEP(44, cos, 1)                                                                               \
    STEP(45, tan, 1)                                                                               \
    STEP(46, asin, 1)                                                                              \
    STEP(47, acos, 1)                                                                              \
    STEP(48, atan, 1)                                                                              \
    STEP(49, sinh, 1)                                                                              \
    STEP(50, cosh, 1)                                                                              \
    STEP(51, asinh, 1)                                                                             \
    STEP(52, acosh, 1)                                                                             \
    STEP(53, atanh, 1)                                                                             \
    STEP(54, round, 1)                                                                             \
    STEP(55, floor, 1)                                                                             \
    STEP(56, ceil, 1)                                                                              \
    STEP(57, sign, 1)                                                                              \
    STEP(58, erf, 1)                                                                               \
    STEP(59, log1p, 1)                                                                             \
    STEP(60, expm1, 1)                                                                             \
    STEP(61, softplus, 1)                                                                          \
    STEP(62, reciprocal, 1)                                                                        \
    STEP(63, logical_not, 1)                                                                       \
    STEP(64, bitwise_not, 1)                                                                       \
    STEP(65, is_nan, 1)                                                                            \
    STEP(66, is_inf, 1)                                                                            \
    STEP(67, cast, 1)                                                                              \
    STEP(68, bitcast, 1)                                                                           \
    STEP(69, real, 1)                                                                              \
    STEP(70, imag, 1)                                                                              \
    STEP(71, conjugate, 1)                                                                         \
    STEP(72, complex_norm_sq, 1)

/* SL_STEP_add, SL_STEP_sub, ... */
enum {
#define STEP(NUMBER, OP, OPERANDS) SL_STEP_##OP = (NUMBER),
    SL_ELEMENTWISE_STEPS(STEP)
#undef STEP
};
enum {
    SL_ELEMENTWISE_OPS = 72,
    SL_ELEMENTWISE_MAX_STEPS = 64,
    SL_ELEMENTWISE_MAX_INPUTS = 64,
    SL_ELEMENTWISE_STEP_NUMBERS = 5
};
typedef enum { SL_PROLOGUE_NONE, SL_PROLOGUE_RESIZE_NEAREST_2X, SL_PROLOGUE_COUNT } sl_prologue;

typedef struct {
    uint32_t number;
    sl_op op;
    uint32_t operands;     /* 0: no such step */
    uint32_t registers[3]; /* all within bounds */
    uint32_t attribute;
} sl_elementwise_step;

/* Step `index` of any code of a region of so many inputs; operands are 0 when it is none. */
sl_elementwise_step sl_elementwise_decode(const sl_integers *code, uint32_t index, uint32_t inputs);
/* The op as a step on registers 0, 1 and 2. */
sl_elementwise_step sl_elementwise_step_of(sl_op op, const void *attrs);
/* What a cast or bitcast gives. */
sl_dtype sl_elementwise_target(const sl_elementwise_step *step);
/* Its numbers; false when the op has none or its attributes do not fit. */
bool sl_elementwise_encode(sl_op op, const void *attrs, const uint32_t registers[3],
                           int64_t out[SL_ELEMENTWISE_STEP_NUMBERS]);
/* The op's attributes, in SL_MAX_ATTRS_BYTES zeroed bytes. */
void sl_elementwise_attrs(const sl_elementwise_step *step, void *attrs);
/* The number of an op in the list; 0 when it is not there. */
uint32_t sl_elementwise_number(sl_op op);
#endif
