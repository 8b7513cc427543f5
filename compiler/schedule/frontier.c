#include "compiler/schedule/schedule.h"
#include <string.h>

static bool is(const sl_step *step, uint32_t trait) {
    return (sl_op_info_of(step->op)->traits & trait) != 0;
}

/* Marks the first request that has not run and everything it waits for. */
static void mark_leading(sl_frontier *f) {
    const uint32_t n = f->dag->step_count;
    const sl_edges *out = &f->dag->out;
    memset(f->leads_to_request, 0, n * sizeof *f->leads_to_request);
    uint32_t request = f->first_open;
    while (request < n && (f->done[request] || !is(&f->program->steps[request], SL_OP_REQUESTS)))
        request++;
    if (request == n) return;
    f->leads_to_request[request] = true;
    for (uint32_t s = request; s-- > f->first_open;)
        for (uint32_t e = out->first[s]; e < out->first[s + 1]; e++)
            if (f->leads_to_request[out->targets[e]]) f->leads_to_request[s] = true;
}

sl_status sl_frontier_init(sl_frontier *f, const sl_program *program, const sl_dag *dag,
                           sl_arena *arena, sl_error *err) {
    const uint32_t n = dag->step_count;
    *f = (sl_frontier){.program = program,
                       .dag = dag,
                       .waiting = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1),
                       .leads_to_request = SL_ARENA_NEW_ARRAY(arena, bool, n + 1),
                       .done = SL_ARENA_NEW_ARRAY(arena, bool, n + 1),
                       .ready = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1)};
    if (!f->waiting || !f->leads_to_request || !f->done || !f->ready)
        return sl_no_memory(err, "a schedule", n);
    for (uint32_t s = 0; s < n; s++) {
        f->waiting[s] = dag->in.first[s + 1] - dag->in.first[s];
        if (f->waiting[s] == 0) f->ready[f->ready_count++] = s;
    }
    mark_leading(f);
    return SL_OK;
}

enum { LEADING, OTHER, WAITING, RANKS };

static int rank_of(const sl_frontier *f, uint32_t s) {
    if (is(&f->program->steps[s], SL_OP_STREAMS)) return WAITING;
    return f->leads_to_request[s] ? LEADING : OTHER;
}

static void add_ready(sl_frontier *f, uint32_t s) {
    uint32_t at = f->ready_count++;
    for (; at > 0 && f->ready[at - 1] > s; at--) f->ready[at] = f->ready[at - 1];
    f->ready[at] = s;
}

static void retire(sl_frontier *f, const uint32_t *steps, uint32_t count) {
    const sl_edges *out = &f->dag->out;
    bool requested = false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t s = steps[i];
        f->done[s] = true;
        requested |= is(&f->program->steps[s], SL_OP_REQUESTS);
        for (uint32_t e = out->first[s]; e < out->first[s + 1]; e++)
            if (--f->waiting[out->targets[e]] == 0) add_ready(f, out->targets[e]);
    }
    while (f->first_open < f->dag->step_count && f->done[f->first_open]) f->first_open++;
    if (requested) mark_leading(f);
}

uint32_t sl_frontier_take(sl_frontier *f, uint32_t limit, uint32_t *steps) {
    int best = RANKS;
    for (uint32_t i = 0; i < f->ready_count && f->ready[i] < limit; i++)
        if (rank_of(f, f->ready[i]) < best) best = rank_of(f, f->ready[i]);
    uint32_t taken = 0, left = 0;
    for (uint32_t i = 0; i < f->ready_count; i++) {
        if (f->ready[i] < limit && rank_of(f, f->ready[i]) == best)
            steps[taken++] = f->ready[i];
        else
            f->ready[left++] = f->ready[i];
    }
    f->ready_count = left;
    retire(f, steps, taken);
    return taken;
}
