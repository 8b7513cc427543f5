/* target.c - The ops that the CPU supports; every instruction set has all kernels. */
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/executable.h"
#include "runtime/custom.h"

sl_status sl_cpu_find(const sl_kernel_set *set, const sl_step *step, const sl_kernel **out,
                      sl_error *err) {
    const sl_type types[2] = {step->operands[0].type, step->operands[step->operand_count > 1].type};
    *out = sl_cpu_kernel_find(set, step->op, types);
    if (!*out) {
        char text[SL_TYPE_TEXT], second[SL_TYPE_TEXT];
        return sl_fail(err, SL_UNSUPPORTED, "%s: the cpu has no kernel for %s of %s and %s",
                       step->label, sl_op_info_of(step->op)->name,
                       sl_type_format(&types[0], text, sizeof text),
                       sl_type_format(&types[1], second, sizeof second));
    }
    return step->op == SL_OP_custom ? sl_custom_check(step->label, step->attrs, "cpu", err) : SL_OK;
}

static sl_status accepts(const sl_step *step, sl_error *err) {
    const sl_kernel *kernel;
    return sl_cpu_find(sl_cpu_kernel_set("baseline"), step, &kernel, err);
}

static const sl_target_kernel kernels[] = {
#define KERNEL(OP, WEIGHT, FN) {SL_OP_##OP, #WEIGHT},
#include "runtime/cpu/kernels.def"
    {0},
};

const sl_target sl_target_cpu = {.name = "cpu", .kernels = kernels, .accepts = accepts};
