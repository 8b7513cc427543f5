/* values.c - Checks that every read finds the value of its producer. */
#include "core/check.h"
#include "core/check/spans.h"
#include "core/check/touches.h"

typedef struct {
    const sl_program *program;
    sl_touches touches;
    sl_spans holders; /* per byte of the arena: 1 + the buffer whose value it holds */
} replay;

static const char *name_of(const sl_program *program, sl_buffer_id buffer) {
    const char *name = program->buffers[buffer.v].name;
    return name ? name : "?";
}

/* Buffers outside the arena never share memory and need no check. */
static bool in_arena(const replay *r, const sl_touch *touch) {
    const sl_buffer_kind kind = r->program->buffers[touch->buffer.v].kind;
    return kind == SL_BUFFER_TEMP || kind == SL_BUFFER_OUTPUT;
}

static sl_status check_read(const replay *r, const char *label, const sl_touch *touch,
                            sl_error *err) {
    for (uint32_t run = 0; run < touch->count; run++) {
        const uint64_t begin = sl_touch_run(touch, run), end = begin + touch->bytes;
        for (uint32_t i = sl_spans_find(&r->holders, begin);
             i < r->holders.count && r->holders.items[i].begin < end; i++) {
            const sl_spans_item *span = &r->holders.items[i];
            if (span->value == 1 + touch->buffer.v) continue;
            const uint64_t at = span->begin > begin ? span->begin : begin;
            return sl_fail(err, SL_INVALID, "%s: reads byte %llu of '%s', which holds '%s'", label,
                           (unsigned long long)(at - r->touches.bases[touch->buffer.v]),
                           name_of(r->program, touch->buffer),
                           span->value ? name_of(r->program, (sl_buffer_id){span->value - 1})
                                       : "nothing yet");
        }
    }
    return SL_OK;
}

/* Whether a pointwise step may overwrite this operand: both ranges are the same and the operand is
 * not broadcast (a broadcast operand has fewer bytes than the result). */
static bool element_by_element(const sl_step *step, const sl_touch *read, const sl_touch *write) {
    return sl_op_info_of(step->op)->traits & SL_OP_POINTWISE && read->begin == write->begin &&
           read->bytes == write->bytes && read->count == write->count &&
           read->stride == write->stride;
}

/* Within one step, writes overlap neither each other nor operands. */
static sl_status check_own(const replay *r, uint32_t s, sl_error *err) {
    const sl_step *step = &r->program->steps[s];
    const sl_touches *t = &r->touches;
    for (uint32_t i = t->first[s]; i < t->first[s + 1]; i++)
        for (uint32_t j = i + 1; j < t->first[s + 1]; j++) {
            const sl_touch *x = &t->items[i], *y = &t->items[j];
            uint64_t at;
            if (!y->write || x->buffer.v == y->buffer.v || !sl_touch_common(x, y, &at)) continue;
            if (x->write || !element_by_element(step, x, y))
                return sl_fail(err, SL_INVALID, "%s: writes '%s' over '%s', which it %s",
                               step->label, name_of(r->program, y->buffer),
                               name_of(r->program, x->buffer), x->write ? "writes too" : "reads");
        }
    return SL_OK;
}

static sl_status replay_step(replay *r, uint32_t s, sl_error *err) {
    const sl_touches *t = &r->touches;
    SL_TRY(check_own(r, s, err));
    for (uint32_t i = t->first[s]; i < t->first[s + 1]; i++) {
        const sl_touch *touch = &t->items[i];
        if (!in_arena(r, touch)) continue;
        if (!touch->write) SL_TRY(check_read(r, r->program->steps[s].label, touch, err));
        for (uint32_t run = 0; touch->write && run < touch->count; run++) {
            const uint64_t begin = sl_touch_run(touch, run);
            sl_spans_set(&r->holders, begin, begin + touch->bytes, 1 + touch->buffer.v);
        }
    }
    return SL_OK;
}

static sl_status check_outputs(const replay *r, sl_error *err) {
    for (uint32_t o = 0; o < r->program->output_count; o++) {
        const sl_program_output *output = &r->program->outputs[o];
        const sl_buffer_id buffer = output->operand.buffer;
        const sl_touch touch = {.begin = r->touches.bases[buffer.v] + output->operand.offset_bytes,
                                .bytes = sl_type_bytes(&output->operand.type),
                                .count = 1,
                                .buffer = buffer};
        if (in_arena(r, &touch) && touch.bytes > 0)
            SL_TRY(check_read(r, output->name ? output->name : "an output", &touch, err));
    }
    return SL_OK;
}

sl_status sl_check_values(const sl_program *program, const sl_allocator *allocator, sl_error *err) {
    SL_TRY(sl_check_bounds(program, err));
    sl_arena arena;
    sl_arena_init(&arena, allocator);
    replay r = {.program = program};
    sl_status status = sl_touches_collect(program, &arena, &r.touches, err);
    if (status == SL_OK)
        status = sl_spans_init(&r.holders, program->arena_bytes, r.touches.write_runs, &arena, err);
    for (uint32_t s = 0; s < program->step_count && status == SL_OK; s++)
        status = replay_step(&r, s, err);
    if (status == SL_OK) status = check_outputs(&r, err);
    sl_arena_deinit(&arena);
    return status;
}
