/* elementwise_forms.h - The functions of core/elementwise.def on one element, by their numbers, for
 * the evaluator and the generic kernels of devices. */
#ifndef SL_CORE_ELEMENTWISE_FORMS_H
#define SL_CORE_ELEMENTWISE_FORMS_H
#include "core/elementwise_math.h"
#include "core/elementwise_steps.h"

/* On floats; a boolean is 0 or 1.  Operands that the function does not have are ignored. */
SL_EVERYWHERE double sl_elementwise_real(uint32_t number, uint32_t attribute, double x, double y,
                                         double z) {
    (void)attribute, (void)y, (void)z;
    switch (number) {
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, ...)                    \
    SL_IF_FLOATS_##TYPES(case SL_STEP_##OP : return REAL;)
#include "core/elementwise.def"
    default:
        return 0;
    }
}

/* The derivative of a function of one operand; number 0 is the identity. */
SL_EVERYWHERE double sl_elementwise_slope(uint32_t number, double x) {
    switch (number) {
#define SL_SLOPE_each(REAL)       (REAL)
#define SL_SLOPE_vd(REAL, VECTOR) (REAL)
#define ELEMENTWISE_UNARY(NUMBER, OP, TYPES, REAL, LANES, SINGLE, INTEGER, SLOPE, SUMMARY)         \
    case SL_STEP_##OP:                                                                             \
        return SL_SLOPE_##SLOPE;
#include "core/elementwise.def"
    default:
        return x != x ? x : 1;
    }
}

SL_EVERYWHERE sl_complex sl_elementwise_complex(uint32_t number, sl_complex x, sl_complex y) {
    switch (number) {
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, ...)                                  \
    SL_IF_C64_##TYPES(case SL_STEP_##OP : return sl_complex_##OP(x, y);)
#include "core/elementwise.def"
    default:
        return x;
    }
}

/* On integers: u64 and bools by the unsigned function, all other types by the signed one.  The
 * result may have more bits than the type, which keeps the low ones. */
#define INTEGER   int64_t
#define UNSIGNED  uint64_t
#define WIDE      uint64_t
#define IS_SIGNED 1
#define INT(NAME) sl_i64_##NAME
#include "core/elementwise_integers.h"
SL_EVERYWHERE int64_t sl_elementwise_signed(uint32_t number, uint32_t attribute, int bits,
                                            int64_t x, int64_t y, int64_t z) {
    (void)attribute, (void)bits, (void)z;
    switch (number) {
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, LANES, SINGLE, WHOLE,   \
                    SUMMARY)                                                                       \
    SL_IF_INTS_##TYPES(case SL_STEP_##OP : return WHOLE;)
#include "core/elementwise.def"
    default:
        return 0;
    }
}
#undef INTEGER
#undef IS_SIGNED
#undef INT

#define INTEGER   uint64_t
#define IS_SIGNED 0
#define INT(NAME) sl_u64_##NAME
#include "core/elementwise_integers.h"
SL_EVERYWHERE uint64_t sl_elementwise_unsigned(uint32_t number, uint32_t attribute, int bits,
                                               uint64_t x, uint64_t y, uint64_t z) {
    (void)attribute, (void)bits, (void)z;
    switch (number) {
#define SL_IF_WHOLE_ints(...)        __VA_ARGS__
#define SL_IF_WHOLE_bools(...)       __VA_ARGS__
#define SL_IF_WHOLE_numbers(...)     __VA_ARGS__
#define SL_IF_WHOLE_numbers_c64(...) __VA_ARGS__
#define SL_IF_WHOLE_plain(...)       __VA_ARGS__
#define SL_IF_WHOLE_floats(...)
#define SL_IF_WHOLE_floats_c64(...)
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, LANES, SINGLE, WHOLE,   \
                    SUMMARY)                                                                       \
    SL_IF_WHOLE_##TYPES(case SL_STEP_##OP : return WHOLE;)
#include "core/elementwise.def"
    default:
        return 0;
    }
}
#undef INTEGER
#undef UNSIGNED
#undef WIDE
#undef IS_SIGNED
#undef INT
#endif
