/* elementwise_f32.c - Strip functions of f32, also used for f16 and bf16 values held as f32. */
#include "core/elementwise_math.h"
#include "core/ops.h"

#include "runtime/cpu/kernels/activate.h"
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/elementwise_double.h"
#include "runtime/cpu/kernels/elementwise_strips.h"

static inline float remainder_f32(float x, float y, bool truncate) {
    const float rest = fmodf(x, y), whole = rest != 0 ? rest : copysignf(0, y);
    const bool turn = rest != 0 && (rest < 0) != (y < 0);
    return truncate ? rest : turn ? rest + y : whole;
}

/* STRIP_<lanes>: the loop over a strip for each kind of row of core/elementwise.def. */
#define STRIP_vf(OP, RESULT, ...)                                                                  \
    static void strip_##OP(const strip *s) {                                                       \
        const float *a = s->in[0], *b = s->in[1], *c = s->in[2];                                   \
        float *out = s->out;                                                                       \
        FOR_VECTORS(i, n, s->count, {                                                              \
            const vf x = vload_n(a + i, n), y = vload_n(b + i, n), z = vload_n(c + i, n);          \
            (void)y, (void)z;                                                                      \
            vstore_n(out + i, __VA_ARGS__, n);                                                     \
        });                                                                                        \
    }
#define STRIP_vd(OP, RESULT, ...)                                                                  \
    static void strip_##OP(const strip *s) {                                                       \
        for (int64_t i = 0; i < s->count; i += DLANES) {                                           \
            const int64_t n = least(DLANES, s->count - i);                                         \
            const vd x = dload_n((const float *)s->in[0] + i, n);                                  \
            const vd y = dload_n((const float *)s->in[1] + i, n);                                  \
            (void)y;                                                                               \
            dstore_n((float *)s->out + i, __VA_ARGS__, n);                                         \
        }                                                                                          \
    }
#define STRIP_each(OP, RESULT, ...) EACH_##RESULT(OP, __VA_ARGS__)
#define EACH_same(OP, ...)                                                                         \
    static void strip_##OP(const strip *s) {                                                       \
        const float *a = s->in[0], *b = s->in[1];                                                  \
        const uint32_t attribute = s->attribute;                                                   \
        float *out = s->out;                                                                       \
        for (int64_t i = 0; i < s->count; i++) {                                                   \
            const float x = a[i], y = b[i];                                                        \
            out[i] = __VA_ARGS__;                                                                  \
        }                                                                                          \
    }
#define EACH_boolean(OP, ...)                                                                      \
    static void strip_##OP(const strip *s) {                                                       \
        const float *restrict a = s->in[0], *restrict b = s->in[1];                                \
        const uint32_t attribute = s->attribute;                                                   \
        uint8_t *restrict out = s->out;                                                            \
        const int64_t count = s->count;                                                            \
        (void)attribute;                                                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const float x = a[i], y = b[i];                                                        \
            (void)y;                                                                               \
            out[i] = __VA_ARGS__;                                                                  \
        }                                                                                          \
    }
#define STRIP_none(OP, RESULT, ...)
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, LANES, SINGLE, ...)     \
    STRIP_##LANES(OP, RESULT, SINGLE)
#define ELEMENTWISE_FUSED(NUMBER, OP, OPERANDS, LANES, SINGLE) STRIP_##LANES(OP, same, SINGLE)
#include "core/elementwise.def"

static void strip_complex(const strip *s) {
    const float *x = s->in[0], *y = s->in[1];
    float *out = s->out;
    for (int64_t i = 0; i < s->count; i++) out[2 * i] = x[i], out[2 * i + 1] = y[i];
}

strip_table SL_KERNEL(sl_strips_f32) = {
    [SL_STEP_complex] = strip_complex,
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, ...)                                  \
    SL_IF_FLOATS_##TYPES([SL_STEP_##OP] = strip_##OP, )
#define ELEMENTWISE_FUSED(NUMBER, OP, ...) [SL_STEP_##OP] = strip_##OP,
#include "core/elementwise.def"
};

void SL_KERNEL(sl_activate_f32)(float *x, int64_t count, uint32_t act) {
    static const uint8_t steps[SL_ACTIVATIONS] = {0,
                                                  SL_STEP_relu,
                                                  SL_STEP_silu,
                                                  SL_STEP_gelu,
                                                  SL_STEP_sigmoid,
                                                  SL_STEP_tanh,
                                                  SL_STEP_gelu_approx};
    const strip s = {.in = {x, x, x}, .out = x, .count = count};
    SL_KERNEL(sl_strips_f32)[steps[act]](&s);
}
