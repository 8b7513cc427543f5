/* elementwise_steps.h - The numbers of elementwise ops and element types in the code of regions,
 * for kernels of every device.  They are stored in files, so a number is never reused. */
#ifndef SL_CORE_ELEMENTWISE_STEPS_H
#define SL_CORE_ELEMENTWISE_STEPS_H

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
/* TYPE(dtype), from 0 */
#define SL_ELEMENTWISE_TYPES(TYPE)                                                                 \
    TYPE(f32)                                                                                      \
    TYPE(f16)                                                                                      \
    TYPE(bf16)                                                                                     \
    TYPE(f64)                                                                                      \
    TYPE(i8)                                                                                       \
    TYPE(i16)                                                                                      \
    TYPE(i32)                                                                                      \
    TYPE(i64)                                                                                      \
    TYPE(u8)                                                                                       \
    TYPE(u16)                                                                                      \
    TYPE(u32)                                                                                      \
    TYPE(u64)                                                                                      \
    TYPE(bool)                                                                                     \
    TYPE(c64)

/* SL_TYPE_f32, ... */
#define SL_TYPE_ENUM(DTYPE) SL_TYPE_##DTYPE,
enum { SL_ELEMENTWISE_TYPES(SL_TYPE_ENUM) SL_TYPE_NUMBERS };
#endif
