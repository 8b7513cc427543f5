#include "core/check/touches.h"

static void place_buffers(sl_touches *touches) {
    const sl_program *program = touches->program;
    touches->space_bytes = program->arena_bytes;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const sl_buffer *buffer = &program->buffers[b];
        touches->bases[b] =
            sl_buffer_in_arena(buffer) ? buffer->arena_offset : touches->space_bytes;
        if (!sl_buffer_in_arena(buffer)) touches->space_bytes += buffer->bytes;
    }
}

static void add(sl_touches *touches, uint32_t *count, const sl_access *access, bool write) {
    if (access->bytes == 0 || access->count == 0) return;
    touches->items[(*count)++] =
        (sl_touch){.begin = touches->bases[access->buffer.v] + access->begin,
                   .bytes = access->bytes,
                   .stride = access->count > 1 ? access->stride : 0,
                   .count = access->count,
                   .buffer = access->buffer,
                   .write = write};
    if (write) touches->write_runs += access->count;
}

static void add_operands(sl_touches *touches, uint32_t *count, const sl_step *step, bool write) {
    const sl_op_info *info = sl_op_info_of(step->op);
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const sl_operand *operand = &step->operands[i];
        const bool input = i < step->input_count;
        if (input && sl_input_kind(info, i) == SL_OPERAND_EXPERTS) continue;
        const bool state = input && sl_input_kind(info, i) == SL_OPERAND_STATE;
        if (write ? input && !state : !input) continue;
        const uint64_t end = operand->offset_bytes + sl_type_bytes(&operand->type);
        const sl_access whole = sl_access_range(operand->buffer, operand->offset_bytes, end);
        add(touches, count, &whole, write);
    }
}

sl_status sl_touches_collect(const sl_program *program, sl_arena *arena, sl_touches *out,
                             sl_error *err) {
    size_t most = 1;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        most += step->read_count + step->write_count;
        if (step->undeclared) most += 2 * (size_t)step->operand_count;
    }
    *out = (sl_touches){
        .program = program,
        .items = SL_ARENA_NEW_ARRAY(arena, sl_touch, most),
        .first = SL_ARENA_NEW_ARRAY(arena, uint32_t, (size_t)program->step_count + 1),
        .bases = SL_ARENA_NEW_ARRAY(arena, uint64_t, (size_t)program->buffer_count + 1),
    };
    if (!out->items || !out->first || !out->bases)
        return sl_no_memory(err, "the accesses of a program", most * sizeof(sl_touch));
    place_buffers(out);
    uint32_t count = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        out->first[s] = count;
        for (uint32_t i = 0; i < step->read_count; i++) add(out, &count, &step->reads[i], false);
        if (step->undeclared) add_operands(out, &count, step, false);
        for (uint32_t i = 0; i < step->write_count; i++) add(out, &count, &step->writes[i], true);
        if (step->undeclared) add_operands(out, &count, step, true);
    }
    out->first[program->step_count] = count;
    return SL_OK;
}

/* Walks the runs of both in parallel; runs are ascending and do not overlap each other. */
bool sl_touch_common(const sl_touch *a, const sl_touch *b, uint64_t *out) {
    if (sl_touch_end(a) <= b->begin || sl_touch_end(b) <= a->begin) return false;
    uint32_t i = 0, j = 0;
    while (i < a->count && j < b->count) {
        const uint64_t x = sl_touch_run(a, i), y = sl_touch_run(b, j);
        if (x + a->bytes <= y) {
            i++;
        } else if (y + b->bytes <= x) {
            j++;
        } else {
            *out = x > y ? x : y;
            return true;
        }
    }
    return false;
}
