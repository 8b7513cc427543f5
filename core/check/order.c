/* order.c - Checks that conflicting steps are ordered. */
#include "core/check.h"
#include "core/check/touches.h"

typedef struct {
    const sl_program *program;
    sl_touches touches;
    uint64_t *reach; /* edges model: row s is a bit set of the steps that step s reaches */
    size_t words;
} proof;

/* From the last step to the first: a step reaches its targets and what they reach. */
static sl_status close_edges(proof *p, sl_arena *arena, sl_error *err) {
    const sl_edges *edges = &p->program->edges;
    const uint32_t steps = p->program->step_count;
    p->words = (steps + 63) / 64;
    p->reach = sl_arena_array(arena, steps, p->words * sizeof(uint64_t), _Alignof(uint64_t));
    if (!p->reach) return sl_no_memory(err, "paths between steps", steps * p->words * 8);
    for (uint32_t s = steps; s-- > 0;) {
        uint64_t *row = p->reach + s * p->words;
        for (uint32_t e = edges->first[s]; e < edges->first[s + 1]; e++) {
            const uint32_t target = edges->targets[e];
            row[target / 64] |= 1ull << target % 64;
            for (size_t w = target / 64; w < p->words; w++)
                row[w] |= p->reach[target * p->words + w];
        }
    }
    return SL_OK;
}

static bool ordered(const proof *p, uint32_t earlier, uint32_t later) {
    if (p->program->model == SL_SCHEDULE_EDGES)
        return p->reach[earlier * p->words + later / 64] >> later % 64 & 1;
    return p->program->steps[earlier].level < p->program->steps[later].level;
}

/* A touch of step a that conflicts with step b: they share byte *at, and one of them writes. */
static const sl_touch *conflict(const proof *p, uint32_t a, uint32_t b, uint64_t *at) {
    const sl_touches *t = &p->touches;
    for (uint32_t i = t->first[a]; i < t->first[a + 1]; i++)
        for (uint32_t j = t->first[b]; j < t->first[b + 1]; j++) {
            const sl_touch *x = &t->items[i], *y = &t->items[j];
            if ((x->write || y->write) && sl_touch_common(x, y, at)) return x;
        }
    return NULL;
}

static sl_status check_pair(const proof *p, uint32_t a, uint32_t b, sl_error *err) {
    static const char *const bonds[] = {"level", "group", "path"};
    const sl_step *earlier = &p->program->steps[a], *later = &p->program->steps[b];
    const char *bond = bonds[p->program->model];
    if (earlier->undeclared || later->undeclared)
        return sl_fail(
            err, SL_INVALID,
            "step %u (%s) and step %u (%s): one has undeclared accesses, and no %s orders them", a,
            earlier->label, b, later->label, bond);
    uint64_t at;
    const sl_touch *touch = conflict(p, a, b, &at);
    if (!touch) return SL_OK;
    const sl_buffer *buffer = &p->program->buffers[touch->buffer.v];
    return sl_fail(
        err, SL_INVALID,
        "step %u (%s) and step %u (%s) conflict in byte %llu of '%s', and no %s orders them", a,
        earlier->label, b, later->label,
        (unsigned long long)(at - p->touches.bases[touch->buffer.v]),
        buffer->name ? buffer->name : "?", bond);
}

sl_status sl_check_order(const sl_program *program, const sl_allocator *allocator, sl_error *err) {
    SL_TRY(sl_check_bounds(program, err));
    sl_arena arena;
    sl_arena_init(&arena, allocator);
    proof p = {.program = program};
    sl_status status = sl_touches_collect(program, &arena, &p.touches, err);
    if (status == SL_OK && program->model == SL_SCHEDULE_EDGES && program->step_count > 0)
        status = close_edges(&p, &arena, err);
    for (uint32_t b = 0; b < program->step_count; b++)
        for (uint32_t a = 0; a < b && status == SL_OK; a++)
            if (!ordered(&p, a, b)) status = check_pair(&p, a, b, err);
    sl_arena_deinit(&arena);
    return status;
}
