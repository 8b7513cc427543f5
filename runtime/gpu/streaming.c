/* streaming.c - Steps that use experts: opening the cache, requesting experts after routing, and
 * submitting a step in rounds when not all of its experts fit. */
#include "runtime/gpu/executable.h"
#include "runtime/gpu/experts.h"

bool sl_gpu_uses_experts(const sl_step *step, uint32_t *out_operand) {
    const sl_op_info *info = sl_op_info_of(step->op);
    for (uint32_t i = 0; i < info->input_count; i++)
        if (info->input_kinds[i] == SL_OPERAND_EXPERTS) {
            *out_operand = i;
            return true;
        }
    return false;
}

uint32_t sl_gpu_layer_of(const sl_step *step) {
    if (step->op == SL_OP_moe_ffn) return ((const sl_moe_ffn_attrs *)step->attrs)->layer;
    if (step->op == SL_OP_moe_ffn_biased)
        return ((const sl_moe_ffn_biased_attrs *)step->attrs)->layer;
    return ((const sl_moe_group_attrs *)step->attrs)->layer;
}

/* Operands of moe_group: chosen, experts, order, starts. */
static const sl_operand *starts_of(const sl_step *step) {
    return &step->operands[3];
}

/* Pinned memory for the `starts` of a moe_group. */
static sl_status make_starts(sl_gpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < program->step_count; s++)
        if (program->steps[s].op == SL_OP_moe_group) {
            const uint64_t own = sl_type_bytes(&starts_of(&program->steps[s])->type);
            if (own > bytes) bytes = own;
        }
    if (bytes <= exe->starts_bytes) return SL_OK;
    exe->starts = sl_resize(&exe->gpu->pinned, exe->starts, exe->starts_bytes, bytes, 64);
    if (!exe->starts) return sl_no_memory(err, "the experts in use", bytes);
    exe->starts_bytes = bytes;
    return SL_OK;
}

sl_status sl_gpu_open_experts(sl_gpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    sl_gpu_experts_shape shape = {0};
    sl_expert_source *source = NULL;
    for (uint32_t s = 0; s < program->step_count; s++) {
        uint32_t at;
        const sl_step *step = &program->steps[s];
        if (!sl_gpu_uses_experts(step, &at)) continue;
        const uint32_t layer = sl_gpu_layer_of(step);
        if (layer >= SL_GPU_MOST_LAYERS)
            return sl_fail(err, SL_UNSUPPORTED, "experts of layer %u: layers are below %d", layer,
                           SL_GPU_MOST_LAYERS);
        if (layer >= shape.layers) shape.layers = layer + 1;
        shape.named[layer / 8] |= (uint8_t)(1u << layer % 8);
        shape.experts = (uint32_t)step->operands[at].type.shape.dims[0];
        source = exe->binding.sources[step->operands[at].buffer.v];
    }
    if (!source) return SL_OK;
    SL_TRY(make_starts(exe, err));
    return sl_gpu_experts_open(exe->gpu, source, &shape, err);
}

sl_status sl_gpu_request_experts(sl_gpu_executable *exe, const sl_step *step, sl_error *err) {
    const sl_operand *starts = starts_of(step);
    const uint32_t experts = (uint32_t)starts->type.shape.dims[0] - 1;
    const sl_gpu_calls *calls = exe->gpu->calls;
    SL_TRY(calls->copy_out(exe->gpu, SL_GPU_WORK, exe->starts, sl_gpu_resolve(exe, starts),
                           (experts + 1) * sizeof(int32_t), err));
    SL_TRY(calls->wait(exe->gpu, SL_GPU_WORK, err));
    uint32_t count = 0;
    int32_t *used = exe->starts; /* written behind where it is read */
    for (uint32_t e = 0; e < experts; e++) {
        const int32_t pairs = exe->starts[e + 1] - exe->starts[e];
        if (pairs > 0) used[count++] = (int32_t)e;
    }
    const uint32_t layer = ((const sl_moe_group_attrs *)step->attrs)->layer;
    return sl_gpu_experts_begin(exe->gpu->experts, layer, used, count, err);
}

sl_status sl_gpu_submit_streaming(sl_gpu_executable *exe, uint32_t step, sl_error *err) {
    uint32_t left = 0;
    do {
        SL_TRY(sl_gpu_experts_round(exe->gpu->experts, &left, err));
        SL_TRY(exe->gpu->calls->submit_step(exe, step, err));
    } while (left > 0);
    return SL_OK;
}
