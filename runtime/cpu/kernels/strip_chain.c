/* strip_chain.c - Steps of singles in a row, each of which takes what the one before it made: that
 * stays in registers.  A few vectors go through all links, then the next few: the branches are the
 * same ones each time, so that they cost little. */
#include "core/ops.h"

#include "runtime/cpu/kernels/pointwise.h"
#include "runtime/cpu/kernels/strips.h"

/* LINK(name, op, whether its second operand was made before, expression): a is what was made
 * before, y the other operand.  A step rounds as if it were alone: nothing is contracted over
 * links. */
#define LINKS(LINK)                                                                                \
    LINK(add, add, 0, apply_add_f32(a, y))                                                         \
    LINK(add_turned, add, 1, apply_add_f32(y, a))                                                  \
    LINK(sub, sub, 0, apply_sub_f32(a, y))                                                         \
    LINK(sub_turned, sub, 1, apply_sub_f32(y, a))                                                  \
    LINK(mul, mul, 0, apply_mul_f32(a, y))                                                         \
    LINK(mul_turned, mul, 1, apply_mul_f32(y, a))                                                  \
    LINK(div, div, 0, apply_div_f32(a, y))                                                         \
    LINK(div_turned, div, 1, apply_div_f32(y, a))                                                  \
    LINK(maximum, maximum, 0, apply_maximum_f32(a, y))                                             \
    LINK(maximum_turned, maximum, 1, apply_maximum_f32(y, a))                                      \
    LINK(minimum, minimum, 0, apply_minimum_f32(a, y))                                             \
    LINK(minimum_turned, minimum, 1, apply_minimum_f32(y, a))                                      \
    LINK(neg, neg, 0, apply_neg(a))                                                                \
    LINK(abs, abs, 0, apply_abs(a))                                                                \
    LINK(relu, relu, 0, apply_relu(a))                                                             \
    LINK(sqrt, sqrt, 0, apply_sqrt(a))                                                             \
    LINK(exp, exp, 0, apply_exp(a))                                                                \
    LINK(tanh, tanh, 0, apply_tanh(a))                                                             \
    LINK(sigmoid, sigmoid, 0, apply_sigmoid(a))                                                    \
    LINK(silu, silu, 0, apply_silu(a))                                                             \
    LINK(gelu, gelu, 0, apply_gelu(a))

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
