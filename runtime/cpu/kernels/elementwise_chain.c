/* elementwise_chain.c - Chains of f32 steps whose intermediate results stay in registers.  A few
 * vectors go through all steps of the chain, then the next few; the sequence of branches repeats
 * and is predicted well. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/elementwise_strips.h"

/* LINK(name, op, reversed, expression): `a` is the result of the previous step and `y` the other
 * operand; if reversed, `a` is the second operand.  Every step rounds as if it ran alone: no FMA
 * contraction across steps. */
#define EITHER(LINK, OP)                                                                           \
    LINK(OP, OP, 0, apply_##OP(a, y, y))                                                           \
    LINK(OP##_turned, OP, 1, apply_##OP(y, a, a))
#define ALONE(LINK, OP) LINK(OP, OP, 0, apply_##OP(a, a, a))
#define LINKS(LINK)                                                                                \
    EITHER(LINK, add)                                                                              \
    EITHER(LINK, sub)                                                                              \
    EITHER(LINK, mul)                                                                              \
    EITHER(LINK, div)                                                                              \
    EITHER(LINK, maximum)                                                                          \
    EITHER(LINK, minimum)                                                                          \
    ALONE(LINK, neg)                                                                               \
    ALONE(LINK, abs)                                                                               \
    ALONE(LINK, relu)                                                                              \
    ALONE(LINK, sqrt)                                                                              \
    ALONE(LINK, exp)                                                                               \
    ALONE(LINK, tanh)                                                                              \
    ALONE(LINK, sigmoid)                                                                           \
    ALONE(LINK, silu)                                                                              \
    ALONE(LINK, gelu)

#define NUMBER(NAME, ...) LINK_##NAME,
enum { NO_LINK, LINKS(NUMBER) };

uint32_t SL_KERNEL(sl_strip_link)(sl_op op, bool turned) {
#define FIND(NAME, OP, TURNED, EXPRESSION)                                                         \
    if (op == SL_OP_##OP && turned == TURNED) return LINK_##NAME;
    LINKS(FIND)
    return NO_LINK;
}

enum { WIDE = 4 };

void SL_KERNEL(sl_strip_chain)(const strip_chain *c, int64_t count) {
    int64_t i = 0;
    for (; i + WIDE * (int64_t)LANES <= count; i += WIDE * (int64_t)LANES) {
        vf x[WIDE];
        for (int j = 0; j < WIDE; j++) x[j] = vload(c->start + i + j * LANES);
        for (uint32_t k = 0; k < c->length; k++) {
            const float *other = c->links[k].other + i;
            switch (c->links[k].link) {
#define RUN_WIDE(NAME, OP, TURNED, EXPRESSION)                                                     \
    case LINK_##NAME:                                                                              \
        for (int j = 0; j < WIDE; j++) {                                                           \
            const vf a = x[j], y = vload(other + j * LANES);                                       \
            (void)y;                                                                               \
            x[j] = EXPRESSION;                                                                     \
        }                                                                                          \
        break;
                LINKS(RUN_WIDE)
            default:
                break;
            }
        }
        for (int j = 0; j < WIDE; j++) vstore(c->out + i + j * LANES, x[j]);
    }
    for (; i < count; i += LANES) {
        const int64_t n = least(LANES, count - i);
        vf a = vload_n(c->start + i, n);
        for (uint32_t k = 0; k < c->length; k++) {
            const vf y = vload_n(c->links[k].other + i, n);
            switch (c->links[k].link) {
#define RUN_ONE(NAME, OP, TURNED, EXPRESSION)                                                      \
    case LINK_##NAME:                                                                              \
        a = EXPRESSION;                                                                            \
        break;
                LINKS(RUN_ONE)
            default:
                break;
            }
        }
        vstore_n(c->out + i, a, n);
    }
}
