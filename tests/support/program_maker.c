#include "tests/support/program_maker.h"
#include <assert.h>
#include <string.h>

enum { MOST_ACCESSES = 12, MOST_OUTPUTS = 4096 };

sl_program *program_new(uint32_t buffers, uint32_t steps) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_program *program = SL_ARENA_NEW(&arena, sl_program);
    assert(program);
    program->arena = arena;
    program->name = "made";
    program->buffers = SL_ARENA_NEW_ARRAY(&program->arena, sl_buffer, buffers);
    program->steps = SL_ARENA_NEW_ARRAY(&program->arena, sl_step, steps);
    program->outputs = SL_ARENA_NEW_ARRAY(&program->arena, sl_program_output, MOST_OUTPUTS);
    assert(program->buffers && program->steps && program->outputs);
    program->arena_alignment = 64;
    return program;
}

sl_buffer_id program_buffer(sl_program *program, sl_buffer_kind kind, const char *name,
                            int64_t elements) {
    const sl_buffer_id id = {program->buffer_count++};
    program->buffers[id.v] = (sl_buffer){.kind = kind,
                                         .name = name,
                                         .type = sl_type_make(SL_DTYPE_f32, 1, elements),
                                         .bytes = (uint64_t)elements * 4};
    return id;
}

void program_output(sl_program *program, sl_buffer_id buffer) {
    assert(program->output_count < MOST_OUTPUTS);
    sl_buffer *b = &program->buffers[buffer.v];
    if (b->kind == SL_BUFFER_TEMP) b->kind = SL_BUFFER_OUTPUT;
    program->outputs[program->output_count++] = (sl_program_output){b->name, {buffer, 0, b->type}};
}

void program_step(sl_program *program, sl_op op, const char *label, uint32_t level) {
    sl_arena *arena = &program->arena;
    sl_step *step = &program->steps[program->step_count++];
    *step = (sl_step){.op = op, .label = label, .level = level};
    step->operands = SL_ARENA_NEW_ARRAY(arena, sl_operand, MOST_ACCESSES);
    step->reads = SL_ARENA_NEW_ARRAY(arena, sl_access, MOST_ACCESSES);
    step->writes = SL_ARENA_NEW_ARRAY(arena, sl_access, MOST_ACCESSES);
    step->attrs = sl_arena_alloc(arena, SL_MAX_ATTRS_BYTES, _Alignof(max_align_t));
    assert(step->operands && step->reads && step->writes && step->attrs);
    if (level >= program->level_count) program->level_count = level + 1;
}

static sl_step *last_step(sl_program *program) {
    return &program->steps[program->step_count - 1];
}

/* The lists are const to all but their maker. */
void step_operand(sl_program *program, sl_buffer_id buffer, int64_t first, int64_t elements) {
    sl_step *step = last_step(program);
    assert(step->operand_count < MOST_ACCESSES);
    ((sl_operand *)(uintptr_t)step->operands)[step->operand_count++] =
        (sl_operand){buffer, (uint64_t)first * 4, sl_type_make(SL_DTYPE_f32, 1, elements)};
}

void step_reads(sl_program *program, sl_access access) {
    sl_step *step = last_step(program);
    assert(step->read_count < MOST_ACCESSES);
    ((sl_access *)(uintptr_t)step->reads)[step->read_count++] = access;
}

void step_writes(sl_program *program, sl_access access) {
    sl_step *step = last_step(program);
    assert(step->write_count < MOST_ACCESSES);
    ((sl_access *)(uintptr_t)step->writes)[step->write_count++] = access;
}

void step_takes(sl_program *program, sl_buffer_id buffer) {
    const uint64_t bytes = program->buffers[buffer.v].bytes;
    step_operand(program, buffer, 0, (int64_t)bytes / 4);
    step_reads(program, sl_access_range(buffer, 0, bytes));
}

void step_gives(sl_program *program, sl_buffer_id buffer) {
    const uint64_t bytes = program->buffers[buffer.v].bytes;
    step_operand(program, buffer, 0, (int64_t)bytes / 4);
    step_writes(program, sl_access_range(buffer, 0, bytes));
}

void program_edges(sl_program *program, const uint32_t (*pairs)[2], uint32_t count) {
    program->model = SL_SCHEDULE_EDGES;
    sl_edges *edges = &program->edges;
    edges->first = SL_ARENA_NEW_ARRAY(&program->arena, uint32_t, program->step_count + 1);
    edges->targets = SL_ARENA_NEW_ARRAY(&program->arena, uint32_t, count + 1);
    assert(edges->first && edges->targets);
    for (uint32_t s = 0, e = 0; s < program->step_count; s++) {
        edges->first[s] = e;
        while (e < count && pairs[e][0] == s) {
            edges->targets[e] = pairs[e][1];
            e++;
        }
        edges->first[s + 1] = e;
    }
}

static void *copied(sl_arena *arena, const void *from, size_t bytes) {
    void *copy = sl_arena_alloc(arena, bytes + 1, 64);
    assert(copy);
    return from && bytes ? memcpy(copy, from, bytes) : copy;
}

sl_program *program_copy(const sl_program *program) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_program *copy = copied(&arena, program, sizeof *program);
    copy->buffers = copied(&arena, program->buffers, program->buffer_count * sizeof(sl_buffer));
    copy->steps = copied(&arena, program->steps, program->step_count * sizeof(sl_step));
    if (program->edges.first) {
        const uint32_t edges = program->edges.first[program->step_count];
        copy->edges.first =
            copied(&arena, program->edges.first, (program->step_count + 1) * sizeof(uint32_t));
        copy->edges.targets = copied(&arena, program->edges.targets, edges * sizeof(uint32_t));
    }
    copy->arena = arena;
    return copy;
}
