/* region.h - The code of an elementwise region.
 *
 * A step is a number of three digits or more: 100 * op + 10 * x + y, with op a number of the list
 * below and x, y registers: 0 to 3 the operands a to d, 4 to 9 the results of earlier steps.  y is
 * 0 for ops of one operand.  The last step's result is the region's:
 *
 *   [301, 1740]   silu(a * b): mul of registers 0 and 1, then silu of register 4 */
#ifndef SL_CORE_REGION_H
#define SL_CORE_REGION_H
#include "core/ops.h"

/* STEP(number, op, operands) */
#define SL_REGION_STEPS(STEP)                                                                      \
    STEP(1, add, 2)                                                                                \
    STEP(2, sub, 2)                                                                                \
    STEP(3, mul, 2)                                                                                \
    STEP(4, div, 2)                                                                                \
    STEP(5, maximum, 2)                                                                            \
    STEP(6, minimum, 2)                                                                            \
    STEP(7, sigmoid_gate, 2)                                                                       \
    STEP(8, swiglu, 2)                                                                             \
    STEP(9, neg, 1)                                                                                \
    STEP(10, abs, 1)                                                                               \
    STEP(11, relu, 1)                                                                              \
    STEP(12, exp, 1)                                                                               \
    STEP(13, log, 1)                                                                               \
    STEP(14, sqrt, 1)                                                                              \
    STEP(15, rsqrt, 1)                                                                             \
    STEP(16, tanh, 1)                                                                              \
    STEP(17, silu, 1)                                                                              \
    STEP(18, sigmoid, 1)                                                                           \
    STEP(19, gelu, 1)

enum { SL_REGION_INPUTS = 4, SL_REGION_MAX_STEPS = 6, SL_REGION_OPS = 19 };

typedef struct {
    uint32_t number;
    sl_op op;
    uint32_t operands; /* 0: no such step */
    uint32_t x, y;     /* registers */
} sl_region_step;

/* Any number may be asked for. */
static inline sl_region_step sl_region_decode(int64_t code) {
    static const struct {
        sl_op op;
        uint32_t operands;
    } steps[SL_REGION_OPS + 1] = {
#define STEP(NUMBER, OP, OPERANDS) [NUMBER] = {SL_OP_##OP, OPERANDS},
        SL_REGION_STEPS(STEP)
#undef STEP
    };
    const int64_t number = code / 100;
    if (code < 0 || number > SL_REGION_OPS) return (sl_region_step){0};
    return (sl_region_step){.number = (uint32_t)number,
                            .op = steps[number].op,
                            .operands = steps[number].operands,
                            .x = (uint32_t)(code / 10 % 10),
                            .y = (uint32_t)(code % 10)};
}

/* 0 when op is none of a region. */
static inline uint32_t sl_region_number(sl_op op) {
    for (uint32_t number = 1; number <= SL_REGION_OPS; number++)
        if (sl_region_decode((int64_t)number * 100).op == op) return number;
    return 0;
}
#endif
