/* lives.c - Lifetimes of buffers in levels, and which results may be computed in place. */
#include "base/sizes.h"
#include "compiler/plan/plan.h"

/* ---- spans ---- */

/* Steps come in order of level. */
static void extend(sl_span *span, uint32_t step, uint32_t level) {
    if (span->last_step == UINT32_MAX)
        span->first_level = level;
    else if (span->last_step == step)
        return;
    span->alone = span->last_step == UINT32_MAX || level > span->last_level;
    span->last_level = level;
    span->last_step = step;
}

static void find_spans(const sl_program *p, sl_span *spans) {
    for (uint32_t b = 0; b < p->buffer_count; b++) spans[b].last_step = UINT32_MAX;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const sl_step *step = &p->steps[s];
        for (uint32_t a = 0; a < step->read_count; a++)
            extend(&spans[step->reads[a].buffer.v], s, step->level);
        for (uint32_t a = 0; a < step->write_count; a++)
            extend(&spans[step->writes[a].buffer.v], s, step->level);
    }
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].kind == SL_BUFFER_OUTPUT && p->level_count)
            spans[b].last_level = p->level_count - 1;
}

/* ---- in place ---- */

static bool is_whole(const sl_program *p, const sl_operand *operand) {
    return operand->offset_bytes == 0 &&
           sl_type_bytes(&operand->type) == p->buffers[operand->buffer.v].bytes;
}

/* Element i of the result depends on element i of the operand alone, wherever the step sees the
 * operand's memory. */
static bool same_elements(const sl_program *p, const sl_step *step, const sl_operand *operand) {
    const sl_operand *result = &step->operands[step->operand_count - 1];
    for (uint32_t i = 0; i + 1 < step->operand_count; i++) {
        const sl_operand *other = &step->operands[i];
        if (other->buffer.v != operand->buffer.v) continue;
        if (!is_whole(p, other) || other->type.dtype != result->type.dtype ||
            sl_type_elements(&other->type) != sl_type_elements(&result->type))
            return false;
    }
    return is_whole(p, result);
}

/* The operand over which the step may write its result: its lifetime ends here and no other step
 * uses it. */
static const sl_operand *find_dying(const sl_program *p, const sl_lives *lives, uint32_t s) {
    const sl_step *step = &p->steps[s];
    if (!(sl_op_info_of(step->op)->traits & SL_OP_POINTWISE) || step->undeclared ||
        step->write_count != 1)
        return NULL;
    for (uint32_t i = 0; i + 1 < step->operand_count; i++) {
        const sl_operand *operand = &step->operands[i];
        const sl_span *span = &lives->spans[operand->buffer.v];
        if (p->buffers[operand->buffer.v].kind == SL_BUFFER_TEMP && span->last_step == s &&
            span->alone && lives->block_of[operand->buffer.v] != SL_NO_BLOCK &&
            same_elements(p, step, operand))
            return operand;
    }
    return NULL;
}

/* ---- blocks ---- */

static void add_block(const sl_program *p, sl_lives *lives, uint32_t buffer, uint64_t alignment) {
    const sl_span *span = &lives->spans[buffer];
    if (!sl_buffer_in_arena(&p->buffers[buffer]) || lives->block_of[buffer] != SL_NO_BLOCK) return;
    lives->block_of[buffer] = lives->block_count;
    lives->blocks[lives->block_count++] =
        (sl_block){.buffer = buffer,
                   .first_level = span->first_level,
                   .last_level = span->last_level,
                   .bytes = sl_round_up(p->buffers[buffer].bytes, alignment)};
}

/* Only a result that is new here may move in. */
static void take_over(const sl_program *p, sl_lives *lives, uint32_t s) {
    const sl_operand *dying = find_dying(p, lives, s);
    if (!dying) return;
    const uint32_t result = p->steps[s].operands[p->steps[s].operand_count - 1].buffer.v;
    const sl_span *span = &lives->spans[result];
    if (lives->block_of[result] != SL_NO_BLOCK || span->first_level != p->steps[s].level) return;
    const uint32_t block = lives->block_of[dying->buffer.v];
    lives->block_of[result] = block;
    lives->blocks[block].last_level = span->last_level;
    lives->in_place++;
}

sl_status sl_lives_find(const sl_program *p, uint64_t alignment, bool in_place, sl_arena *arena,
                        sl_lives *out, sl_error *err) {
    *out = (sl_lives){.spans = SL_ARENA_NEW_ARRAY(arena, sl_span, p->buffer_count + 1),
                      .block_of = SL_ARENA_NEW_ARRAY(arena, uint32_t, p->buffer_count + 1),
                      .blocks = SL_ARENA_NEW_ARRAY(arena, sl_block, p->buffer_count + 1)};
    if (!out->spans || !out->block_of || !out->blocks)
        return sl_no_memory(err, "lifetimes", p->buffer_count);
    find_spans(p, out->spans);
    for (uint32_t b = 0; b < p->buffer_count; b++) out->block_of[b] = SL_NO_BLOCK;
    for (uint32_t s = 0; s < p->step_count; s++) {
        const sl_step *step = &p->steps[s];
        if (in_place) take_over(p, out, s);
        for (uint32_t a = 0; a < step->write_count; a++)
            add_block(p, out, step->writes[a].buffer.v, alignment);
    }
    for (uint32_t b = 0; b < p->buffer_count; b++) add_block(p, out, b, alignment);
    return SL_OK;
}

sl_status sl_lives_measure(const sl_lives *lives, uint32_t level_count, sl_arena *arena,
                           uint64_t *out_bytes, sl_error *err) {
    uint64_t *begun = SL_ARENA_NEW_ARRAY(arena, uint64_t, level_count + 2);
    uint64_t *ended = SL_ARENA_NEW_ARRAY(arena, uint64_t, level_count + 2);
    if (!begun || !ended) return sl_no_memory(err, "lifetimes", level_count);
    for (uint32_t i = 0; i < lives->block_count; i++) {
        begun[lives->blocks[i].first_level] += lives->blocks[i].bytes;
        ended[lives->blocks[i].last_level + 1] += lives->blocks[i].bytes;
    }
    uint64_t live = 0;
    *out_bytes = 0;
    for (uint32_t level = 0; level <= level_count; level++) {
        live += begun[level] - ended[level];
        if (live > *out_bytes) *out_bytes = live;
    }
    return SL_OK;
}
