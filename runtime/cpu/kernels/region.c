/* region.c - A chain of elementwise ops: each step runs over a strip that stays in the nearest
 * cache.  Results of steps are in memory before they are used, so that nothing is fused across. */
#include "core/region.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/pointwise.h"

enum { STRIP = 512 };

/* y is NULL for steps with one operand. */
typedef void step_fn(const float *x, const float *y, float *out, int64_t count);

#define apply_add     apply_add_f32
#define apply_sub     apply_sub_f32
#define apply_mul     apply_mul_f32
#define apply_div     apply_div_f32
#define apply_maximum apply_maximum_f32
#define apply_minimum apply_minimum_f32
#define OPERANDS_1    vload_n(x + i, n)
#define OPERANDS_2    vload_n(x + i, n), vload_n(y + i, n)
#define STEP(NUMBER, OP, OPERANDS)                                                                 \
    static void step_##OP(const float *x, const float *y, float *out, int64_t count) {             \
        (void)y;                                                                                   \
        FOR_VECTORS(i, n, count, vstore_n(out + i, apply_##OP(OPERANDS_##OPERANDS), n););          \
    }
SL_REGION_STEPS(STEP)
#undef STEP

static step_fn *const steps[SL_REGION_OPS + 1] = {
#define STEP(NUMBER, OP, OPERANDS) [NUMBER] = step_##OP,
    SL_REGION_STEPS(STEP)
#undef STEP
};

SPLIT(region) {
    const sl_region_args *a = args;
    return (sl_split){parts_of(sl_type_elements(&a->out.type), STRIP),
                      grain_of((int64_t)STRIP * 4 * a->attrs.code.rank),
                      (size_t)a->attrs.code.rank * STRIP * sizeof(float)};
}

/* The operands are read and the result is written strip by strip, and within the last step element
 * by element: the result may take an operand's place. */
RUN(region) {
    const sl_region_args *a = args;
    const sl_dims *code = &a->attrs.code;
    const sl_cview *const inputs[SL_REGION_INPUTS] = {&a->a, &a->b, &a->c, &a->d};
    const int64_t elements = sl_type_elements(&a->out.type);
    for (int64_t at = begin * STRIP; at < least(end * STRIP, elements); at += STRIP) {
        const int64_t count = least(STRIP, elements - at);
        const float *registers[SL_REGION_INPUTS + SL_REGION_MAX_STEPS];
        for (int i = 0; i < SL_REGION_INPUTS; i++)
            registers[i] = (const float *)inputs[i]->data + at;
        for (uint32_t i = 0; i < code->rank; i++) {
            const sl_region_step step = sl_region_decode(code->dims[i]);
            float *out = i + 1 < code->rank ? (float *)worker->scratch + (size_t)i * STRIP
                                            : (float *)a->out.data + at;
            steps[step.number](registers[step.x], registers[step.y], out, count);
            registers[SL_REGION_INPUTS + i] = out;
        }
    }
    return SL_OK;
}
