/* target.c - Which steps the CUDA device supports: those with a kernel whose plan accepts the
 * shapes. Plans are tried with dummy addresses. */
#include "runtime/arguments.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/executable.h"
#include "runtime/custom.h"

/* Harmonics are optional; other ops on empty tensors were folded (compiler/passes/fold.c). */
static bool takes_empty(sl_op op) {
    return op == SL_OP_gaussian_splat_prepare || op == SL_OP_gaussian_splat_backward;
}

sl_status sl_cuda_find(const sl_step *step, const sl_gpu_kernel **out, sl_error *err) {
    *out = NULL;
    if (step->op == SL_OP_custom)
        return sl_custom_check(step->label, step->attrs, "cuda device", err);
    if (sl_gpu_hosted(step->op)) return SL_OK;
    for (uint32_t i = 0; i < step->operand_count; i++)
        if (!sl_type_elements(&step->operands[i].type) && !takes_empty(step->op))
            return sl_fail(err, SL_UNSUPPORTED, "%s: the cuda device takes no empty tensors",
                           step->label);
    const sl_type types[2] = {step->operands[0].type, step->operands[step->operand_count > 1].type};
    *out = sl_cuda_kernel_find(step->op, types);
    if (*out) return SL_OK;
    char text[SL_TYPE_TEXT], second[SL_TYPE_TEXT];
    return sl_fail(err, SL_UNSUPPORTED, "%s: the cuda device has no kernel for %s of %s and %s",
                   step->label, sl_op_info_of(step->op)->name,
                   sl_type_format(&types[0], text, sizeof text),
                   sl_type_format(&types[1], second, sizeof second));
}

sl_status sl_cuda_find_kernels(sl_gpu_executable *base, sl_error *err) {
    sl_cuda_executable *exe = (sl_cuda_executable *)base;
    const sl_program *program = base->binding.program;
    exe->device = (sl_cuda_device *)base->gpu;
    exe->tasks = SL_ARENA_NEW_ARRAY(&base->arena, sl_cuda_task, program->step_count + 1);
    if (!exe->tasks) return sl_no_memory(err, "an executable", program->step_count);
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(sl_cuda_find(&program->steps[s], &exe->tasks[s].kernel, err));
    return SL_OK;
}

/* As on the smallest device: a larger one can always use the same plan. */
enum { MULTIPROCESSORS = 16, SHARED_BYTES = 99 << 10, SOME_ADDRESS = 4096 };

static sl_status try_plan(const sl_gpu_kernel *kernel, const sl_step *step, sl_arena *arena,
                          sl_error *err) {
    sl_gpu_launch *launches = SL_ARENA_NEW_ARRAY(arena, sl_gpu_launch, SL_GPU_MAX_LAUNCHES);
    void *args = sl_arguments_create(step, arena);
    if (!launches || !args) return sl_no_memory(err, "planning a step", sizeof *launches);
    sl_gpu_planner planner = {.launches = launches,
                              .multiprocessors = MULTIPROCESSORS,
                              .shared_limit = SHARED_BYTES,
                              .label = step->label};
    for (uint32_t i = 0; i < step->operand_count; i++)
        sl_argument(step, args, i)->data = (void *)(uintptr_t)SOME_ADDRESS;
    return kernel->plan(args, &planner, err);
}

static sl_status accepts(const sl_step *step, sl_error *err) {
    const sl_gpu_kernel *kernel;
    sl_arena arena;
    uint32_t experts;
    SL_TRY(sl_cuda_find(step, &kernel, err));
    /* The layout of experts is known when they are bound. */
    if (!kernel || sl_gpu_uses_experts(step, &experts)) return SL_OK;
    sl_arena_init(&arena, NULL);
    const sl_status status = try_plan(kernel, step, &arena, err);
    sl_arena_deinit(&arena);
    return status;
}

static const sl_target_kernel kernels[] = {
#define KERNEL(OP, WEIGHT, FN) {SL_OP_##OP, #WEIGHT},
#include "runtime/cuda/kernels.def"
#define ROW(OP) {SL_OP_##OP, "run by the host"},
    SL_GPU_HOSTED(ROW)
#undef ROW
        {0},
};

const sl_target sl_target_cuda = {.name = "cuda",
                                  .schedule = SL_SCHEDULE_EDGES,
                                  .hosts_bodies = true,
                                  .kernels = kernels,
                                  .accepts = accepts};
