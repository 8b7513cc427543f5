/* elementwise_f64.c - Strip functions of f64, by the C library. */
#include "core/elementwise_math.h"
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_strips.h"

#define RESULT_same    double
#define RESULT_boolean uint8_t
#define STRIP_FN(OP, RESULT, ...)                                                                  \
    static void strip_##OP(const strip *s) {                                                       \
        const double *a = s->in[0], *b = s->in[1], *c = s->in[2];                                  \
        const uint32_t attribute = s->attribute;                                                   \
        const int64_t count = s->count;                                                            \
        RESULT *out = s->out;                                                                      \
        (void)attribute;                                                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const double x = a[i], y = b[i], z = c[i];                                             \
            (void)y, (void)z;                                                                      \
            out[i] = __VA_ARGS__;                                                                  \
        }                                                                                          \
    }
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, ...)                    \
    SL_IF_FLOATS_##TYPES(STRIP_FN(OP, RESULT_##RESULT, REAL))
#include "core/elementwise.def"

strip_table SL_KERNEL(sl_strips_f64) = {
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, ...)                                  \
    SL_IF_FLOATS_##TYPES([SL_STEP_##OP] = strip_##OP, )
#include "core/elementwise.def"
};
