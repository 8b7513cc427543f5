/* bodies.c - Bodies of steps: programs with their own memory, whose steps run sequentially on the
 * thread that runs the enclosing step. */
#include "runtime/arguments.h"
#include "runtime/cpu/executable.h"

static sl_cpu_executable *executable_of(const sl_body *body) {
    return (sl_cpu_executable *)((uintptr_t)body - offsetof(sl_cpu_executable, body));
}

/* ---- running ---- */

static void bind_input(sl_body *body, uint32_t input, const void *data) {
    sl_cpu_executable *exe = executable_of(body);
    void **bound = &exe->binding.data[exe->inputs[input]];
    if (*bound == data) return;
    *bound = (void *)(uintptr_t)data; /* const is cast away; no step writes to an input */
    for (uint32_t p = exe->first_patch[input]; p < exe->first_patch[input + 1]; p++)
        exe->patches[p].view->data = (char *)*bound + exe->patches[p].offset_bytes;
}

static sl_status run_body(sl_body *body, sl_error *err) {
    const sl_cpu_executable *exe = executable_of(body);
    for (uint32_t s = 0; s < exe->binding.program->step_count; s++) {
        const sl_cpu_task *t = &exe->tasks[s];
        sl_worker worker = {.scratch = t->own_scratch ? t->own_scratch : exe->own_scratch.data,
                            .err = err,
                            .prepared = t->prepared,
                            .bodies = t->bodies,
                            .label = t->label};
        if (t->items) SL_TRY(t->kernel->run(t->args, 0, t->items, &worker));
    }
    return SL_OK;
}

static const void *output_of(const sl_body *body, uint32_t index) {
    const sl_cpu_executable *exe = executable_of(body);
    return sl_binding_resolve(&exe->binding, &exe->binding.program->outputs[index].operand,
                              exe->own_arena.data);
}

/* ---- loading ---- */

static bool take(const sl_cpu_executable *exe, sl_cpu_block *block, size_t bytes,
                 size_t alignment) {
    *block = (sl_cpu_block){.bytes = bytes ? bytes : 1, .alignment = alignment};
    block->data = sl_allocate(exe->device->allocator, block->bytes, block->alignment);
    return block->data != NULL;
}

static uint32_t count_inputs(const sl_program *program) {
    uint32_t count = 0;
    for (uint32_t b = 0; b < program->buffer_count; b++)
        count += program->buffers[b].kind == SL_BUFFER_INPUT;
    return count;
}

/* Finds the step arguments that an input is bound to, so that binding it updates only these.
 * Without an array they are only counted. */
static uint32_t find_patches(sl_cpu_executable *exe, uint32_t input, uint32_t first) {
    const sl_program *program = exe->binding.program;
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t i = 0; i < program->steps[s].operand_count; i++) {
            const sl_operand *operand = &program->steps[s].operands[i];
            if (operand->buffer.v != exe->inputs[input]) continue;
            if (exe->patches)
                exe->patches[first] = (sl_cpu_patch){
                    sl_argument(&program->steps[s], exe->tasks[s].args, i), operand->offset_bytes};
            first++;
        }
    return first;
}

static sl_status make_patches(sl_cpu_executable *exe, sl_error *err) {
    const sl_program *program = exe->binding.program;
    const uint32_t count = count_inputs(program);
    exe->inputs = SL_ARENA_NEW_ARRAY(&exe->arena, uint32_t, (size_t)count + 1);
    exe->first_patch = SL_ARENA_NEW_ARRAY(&exe->arena, uint32_t, (size_t)count + 1);
    if (!exe->inputs || !exe->first_patch) return sl_no_memory(err, "a body", count);
    for (uint32_t b = 0, i = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == SL_BUFFER_INPUT) exe->inputs[i++] = b;
    for (int writing = 0; writing < 2; writing++) {
        for (uint32_t i = 0; i < count; i++)
            exe->first_patch[i + 1] = find_patches(exe, i, exe->first_patch[i]);
        if (writing) break;
        exe->patches =
            SL_ARENA_NEW_ARRAY(&exe->arena, sl_cpu_patch, (size_t)exe->first_patch[count] + 1);
        if (!exe->patches) return sl_no_memory(err, "a body", exe->first_patch[count]);
    }
    return SL_OK;
}

sl_status sl_cpu_prepare_body(sl_cpu_executable *exe, size_t scratch_bytes, sl_error *err) {
    const sl_program *program = exe->binding.program;
    const size_t alignment =
        program->arena_alignment > SL_CPU_CACHE_LINE ? program->arena_alignment : SL_CPU_CACHE_LINE;
    exe->body = (sl_body){.bind = bind_input, .run = run_body, .output = output_of};
    if (!take(exe, &exe->own_arena, program->arena_bytes, alignment) ||
        !take(exe, &exe->own_scratch, scratch_bytes, SL_CPU_CACHE_LINE))
        return sl_no_memory(err, "a body", program->arena_bytes + scratch_bytes);
    SL_TRY(make_patches(exe, err));
    sl_cpu_fill_pointers(exe, exe->own_arena.data);
    return SL_OK;
}

sl_status sl_cpu_add_bodies(sl_cpu_executable *exe, const sl_step *step, sl_cpu_task *task,
                            size_t scratch_bytes, sl_error *err) {
    task->bodies = SL_ARENA_NEW_ARRAY(&exe->arena, sl_body *, step->body_count);
    task->own_scratch = sl_arena_alloc(&exe->arena, scratch_bytes + 1, SL_CPU_CACHE_LINE);
    if (!task->bodies || !task->own_scratch) return sl_no_memory(err, step->label, scratch_bytes);
    for (uint32_t b = 0; b < step->body_count; b++) {
        sl_cpu_executable *body;
        if (!step->bodies[b]) continue;
        const sl_status status = sl_cpu_load(exe->device, step->bodies[b], true, &body, err);
        if (status != SL_OK) return sl_fail_in(err, status, "%s", step->label);
        task->bodies[b] = &body->body;
    }
    return SL_OK;
}

void sl_cpu_remove_bodies(const sl_step *step, const sl_cpu_task *task) {
    for (uint32_t b = 0; task->bodies && b < step->body_count; b++)
        if (task->bodies[b]) sl_cpu_unload(executable_of(task->bodies[b]));
}
