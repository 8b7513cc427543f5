/* join_output.c - A large output is written to host memory while it is computed. */
#include "runtime/cuda/joining.h"
#include "runtime/cuda/kernels/linear.h"

/* The program output that only this step computes and no other uses; output_count if there is none.
 */
static uint32_t output_of(const sl_joining *j, const sl_step *step) {
    const sl_program *program = j->exe->base.binding.program;
    const sl_operand *out = &step->operands[step->operand_count - 1];
    if (sl_joining_uses(j, out) != 1) return program->output_count;
    for (uint32_t o = 0; o < program->output_count; o++)
        if (sl_joining_is_same(&program->outputs[o].operand, out)) return o;
    return program->output_count;
}

/* The output is never read on the device, and pinned memory can be written from it. */
sl_status sl_join_output(const sl_joining *j, uint32_t step, sl_error *err) {
    const uint32_t output = output_of(j, step_at(j, step));
    if (output >= j->exe->base.binding.program->output_count || output >= SL_GPU_DIRECT_OUTPUTS)
        return SL_OK;
    sl_cuda_joined *joined = NULL;
    SL_TRY(sl_joining_own(j, step, &joined, err));
    sl_linear_stream launch = *SL_CUDA_ARGS(&joined->launch, sl_linear_stream_q8);
    launch.out = (float *)(void *)(j->exe->base.outputs + j->exe->base.output_offsets[output]);
    SL_JOINING_SET(j, joined, 0, SL_CUDA_FN(sl_linear_stream_q8), launch);
    j->exe->base.direct_outputs |= 1u << output;
    return SL_OK;
}
