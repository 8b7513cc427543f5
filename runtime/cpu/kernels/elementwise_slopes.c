/* elementwise_slopes.c - Strip functions that multiply dy by a derivative (the slopes in
 * core/elementwise.def).  They compute in doubles: common activations with vectors, the others with
 * the C library. */
#include "core/elementwise_math.h"
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_double.h"
#include "runtime/cpu/kernels/elementwise_strips.h"

/* A scalar loop over float or double. */
#define EACH(REAL, ...)                                                                            \
    const REAL *from = s->in[0], *dy = s->in[1];                                                   \
    REAL *out = s->out;                                                                            \
    for (int64_t i = 0; i < s->count; i++) {                                                       \
        const double x = (double)from[i];                                                          \
        out[i] = (REAL)((__VA_ARGS__) * (double)dy[i]);                                            \
    }
#define SINGLE_each(SLOPE) EACH(float, SLOPE)
#define SINGLE_vd(SLOPE, VECTOR)                                                                   \
    for (int64_t i = 0; i < s->count; i += DLANES) {                                               \
        const int64_t n = least(DLANES, s->count - i);                                             \
        const vd x = dload_n((const float *)s->in[0] + i, n);                                      \
        const vd dy = dload_n((const float *)s->in[1] + i, n);                                     \
        dstore_n((float *)s->out + i, dchoose(x != x, x, VECTOR * dy), n);                         \
    }
#define DOUBLE_each(SLOPE)       EACH(double, SLOPE)
#define DOUBLE_vd(SLOPE, VECTOR) EACH(double, SLOPE)

#define SLOPE_FNS(OP, SLOPE)                                                                       \
    static void single_##OP(const strip *s) {                                                      \
        SINGLE_##SLOPE                                                                             \
    }                                                                                              \
    static void double_##OP(const strip *s) {                                                      \
        DOUBLE_##SLOPE                                                                             \
    }
SLOPE_FNS(identity, each(x != x ? x : 1))
#define ELEMENTWISE_UNARY(NUMBER, OP, TYPES, REAL, LANES, SINGLE, INTEGER, SLOPE, SUMMARY)         \
    SLOPE_FNS(OP, SLOPE)
#include "core/elementwise.def"

strip_fn *SL_KERNEL(sl_strip_slope)(const char *kind, sl_dtype held) {
    static strip_table singles = {
        single_identity,
#define ELEMENTWISE_UNARY(NUMBER, OP, ...) [NUMBER] = single_##OP,
#include "core/elementwise.def"
    };
    static strip_table doubles = {
        double_identity,
#define ELEMENTWISE_UNARY(NUMBER, OP, ...) [NUMBER] = double_##OP,
#include "core/elementwise.def"
    };
    const int32_t number = sl_elementwise_slope_find(kind);
    if (number < 0) return NULL;
    return held == SL_DTYPE_f64 ? doubles[number] : singles[number];
}
