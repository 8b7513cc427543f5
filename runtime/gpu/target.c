/* target.c - Which steps a GPU supports: those with a kernel whose plan accepts the shapes.  Plans
 * are tried with dummy addresses. */
#include "runtime/arguments.h"
#include "runtime/custom.h"
#include "runtime/gpu/executable.h"

const sl_gpu_kernel *sl_gpu_kernel_find(const sl_gpu_kernels *kernels, sl_op op,
                                        const sl_type *input_types) {
    const sl_type *weight = &input_types[sl_op_info_of(op)->input_count > 1 ? 1 : 0];
    for (size_t i = 0; i < kernels->count; i++) {
        const sl_gpu_kernel *kernel = &kernels->rows[i];
        if (kernel->op != op) continue;
        if (kernel->weight == SL_GPU_ANY_WEIGHT || kernel->weight == (int)weight->dtype)
            return kernel;
    }
    return NULL;
}

bool sl_gpu_takes_custom(const sl_gpu_kernels *kernels, const sl_custom_attrs *attrs) {
    return kernels->takes_custom && kernels->takes_custom(attrs);
}

/* Harmonics are optional; other ops on empty tensors were folded (compiler/passes/fold.c). */
static bool takes_empty(sl_op op) {
    return op == SL_OP_gaussian_splat_prepare || op == SL_OP_gaussian_splat_backward;
}

sl_status sl_gpu_find(const sl_gpu_kernels *kernels, const sl_step *step, const sl_gpu_kernel **out,
                      sl_error *err) {
    *out = NULL;
    if (step->op == SL_OP_custom && sl_gpu_takes_custom(kernels, step->attrs)) return SL_OK;
    if (step->op == SL_OP_custom)
        return sl_custom_check(step->label, step->attrs, kernels->device, err);
    if (sl_gpu_hosted(step->op)) return SL_OK;
    for (uint32_t i = 0; i < step->operand_count; i++)
        if (!sl_type_elements(&step->operands[i].type) && !takes_empty(step->op))
            return sl_fail(err, SL_UNSUPPORTED, "%s: the %s device takes no empty tensors",
                           step->label, kernels->device);
    const sl_type types[2] = {step->operands[0].type, step->operands[step->operand_count > 1].type};
    *out = sl_gpu_kernel_find(kernels, step->op, types);
    if (*out) return SL_OK;
    char text[SL_TYPE_TEXT], second[SL_TYPE_TEXT];
    return sl_fail(err, SL_UNSUPPORTED, "%s: the %s device has no kernel for %s of %s and %s",
                   step->label, kernels->device, sl_op_info_of(step->op)->name,
                   sl_type_format(&types[0], text, sizeof text),
                   sl_type_format(&types[1], second, sizeof second));
}

static sl_status try_plan(const sl_gpu_kernels *kernels, const sl_gpu_kernel *kernel,
                          const sl_step *step, sl_arena *arena, sl_error *err) {
    enum { SOME_ADDRESS = 4096 };
    sl_gpu_launch *launches = SL_ARENA_NEW_ARRAY(arena, sl_gpu_launch, SL_GPU_MAX_LAUNCHES);
    void *args = sl_arguments_create(step, arena);
    if (!launches || !args) return sl_no_memory(err, "planning a step", sizeof *launches);
    sl_gpu_planner planner = {.launches = launches,
                              .multiprocessors = kernels->multiprocessors,
                              .shared_limit = kernels->shared_limit,
                              .label = step->label};
    for (uint32_t i = 0; i < step->operand_count; i++)
        sl_argument(step, args, i)->data = (void *)(uintptr_t)SOME_ADDRESS;
    return kernel->plan(args, &planner, err);
}

sl_status sl_gpu_accepts(const sl_gpu_kernels *kernels, const sl_step *step, sl_error *err) {
    const sl_gpu_kernel *kernel;
    sl_arena arena;
    uint32_t experts;
    SL_TRY(sl_gpu_find(kernels, step, &kernel, err));
    /* The layout of experts is known when they are bound. */
    if (!kernel || sl_gpu_uses_experts(step, &experts)) return SL_OK;
    sl_arena_init(&arena, NULL);
    const sl_status status = try_plan(kernels, kernel, step, &arena, err);
    sl_arena_deinit(&arena);
    return status;
}
