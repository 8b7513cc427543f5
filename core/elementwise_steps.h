/* elementwise_steps.h - The numbers of elementwise ops and element types in the code of regions,
 * for kernels of every device.  They are stored in files, so a number is never reused. */
#ifndef SL_CORE_ELEMENTWISE_STEPS_H
#define SL_CORE_ELEMENTWISE_STEPS_H

/* SL_STEP_add, SL_STEP_sub, ...: the rows of core/elementwise.def. */
#define SL_STEP_ENUM(NUMBER, OP, ...) SL_STEP_##OP = (NUMBER),
enum {
#define ELEMENTWISE       SL_STEP_ENUM
#define ELEMENTWISE_OTHER SL_STEP_ENUM
#define ELEMENTWISE_FUSED SL_STEP_ENUM
#include "core/elementwise.def"
};
enum {
    SL_ELEMENTWISE_OPS = 0
#define ELEMENTWISE(...)       +1
#define ELEMENTWISE_OTHER(...) +1
#define ELEMENTWISE_FUSED(...) +1
#include "core/elementwise.def"
};

/* SL_STEP_OPERANDS_add, ...: the number of operands. */
#define SL_COUNT_x                               1
#define SL_COUNT_a_b                             2
#define SL_COUNT_x_dy                            2
#define SL_COUNT_re_im                           2
#define SL_COUNT_x_gate                          2
#define SL_COUNT_gate_up                         2
#define SL_COUNT_x_low_high                      3
#define SL_COUNT_condition_a_b                   3
#define SL_STEP_COUNT(NUMBER, OP, OPERANDS, ...) SL_STEP_OPERANDS_##OP = SL_COUNT_##OPERANDS,
enum {
#define ELEMENTWISE       SL_STEP_COUNT
#define ELEMENTWISE_OTHER SL_STEP_COUNT
#define ELEMENTWISE_FUSED SL_STEP_COUNT
#include "core/elementwise.def"
};

/* SL_IF_FLOATS_<types>(...) is its arguments if the types of a row include floats, else nothing. */
#define SL_IF_FLOATS_floats(...)      __VA_ARGS__
#define SL_IF_FLOATS_floats_c64(...)  __VA_ARGS__
#define SL_IF_FLOATS_numbers(...)     __VA_ARGS__
#define SL_IF_FLOATS_numbers_c64(...) __VA_ARGS__
#define SL_IF_FLOATS_plain(...)       __VA_ARGS__
#define SL_IF_FLOATS_ints(...)
#define SL_IF_FLOATS_bools(...)
#define SL_IF_INTS_floats(...)
#define SL_IF_INTS_floats_c64(...)
#define SL_IF_INTS_numbers(...)     __VA_ARGS__
#define SL_IF_INTS_numbers_c64(...) __VA_ARGS__
#define SL_IF_INTS_plain(...)       __VA_ARGS__
#define SL_IF_INTS_ints(...)        __VA_ARGS__
#define SL_IF_INTS_bools(...)
#define SL_IF_BOOLS_floats(...)
#define SL_IF_BOOLS_floats_c64(...)
#define SL_IF_BOOLS_numbers(...)
#define SL_IF_BOOLS_numbers_c64(...)
#define SL_IF_BOOLS_plain(...) __VA_ARGS__
#define SL_IF_BOOLS_ints(...)
#define SL_IF_BOOLS_bools(...) __VA_ARGS__
#define SL_IF_C64_floats(...)
#define SL_IF_C64_floats_c64(...) __VA_ARGS__
#define SL_IF_C64_numbers(...)
#define SL_IF_C64_numbers_c64(...) __VA_ARGS__
#define SL_IF_C64_plain(...)       __VA_ARGS__
#define SL_IF_C64_ints(...)
#define SL_IF_C64_bools(...)

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
