/* schedule.c - Order and levels of the steps of a program, in the form that the device needs. */
#include "compiler/schedule/schedule.h"
#include <string.h>

enum { DEFAULT_LOOKAHEAD = 64, LEAST_EARLY_STEPS = 64 };

static void order_of_graph(uint32_t n, sl_order *order) {
    for (uint32_t i = 0; i < n; i++) order->steps[i] = order->level[i] = i;
    order->level_count = n;
}

static sl_status find_order(const sl_program *program, const sl_compiler_options *options,
                            const sl_dag *dag, sl_arena *arena, sl_order *order, sl_error *err) {
    if (options->no_reordering) {
        order_of_graph(dag->step_count, order);
        return SL_OK;
    }
    const uint32_t lookahead = options->lookahead ? options->lookahead : DEFAULT_LOOKAHEAD;
    switch (options->model) {
    case SL_SCHEDULE_LEVELS:
        return sl_order_levels(program, dag, arena, order, err);
    case SL_SCHEDULE_GROUPS:
        return sl_order_groups(program, dag, lookahead, arena, order, err);
    case SL_SCHEDULE_EDGES:
        return sl_order_edges(dag, arena, order, err);
    }
    return sl_fail(err, SL_INVALID, "schedule: model %d; 0 to %d are known", (int)options->model,
                   SL_SCHEDULE_EDGES);
}

/* A barrier that no edge crosses is not needed: its two levels become one.  Steps of a level are
 * begun in order, so what leads to a request still goes first and what waits for experts last. */
static sl_status merge_levels(const sl_dag *dag, sl_arena *arena, sl_order *order, sl_error *err) {
    const uint32_t n = dag->step_count;
    uint32_t *level_of = SL_ARENA_NEW_ARRAY(arena, uint32_t, n + 1);
    if (!level_of) return sl_no_memory(err, "a schedule", n);
    uint32_t level = 0;
    for (uint32_t at = 0, end; at < n; at = end) {
        bool waits = false;
        for (end = at; end < n && order->level[end] == order->level[at]; end++) {
            const uint32_t s = order->steps[end];
            for (uint32_t e = dag->in.first[s]; e < dag->in.first[s + 1]; e++)
                waits |= level_of[dag->in.targets[e]] == level;
        }
        level += waits;
        for (uint32_t i = at; i < end; i++) level_of[order->steps[i]] = level;
    }
    for (uint32_t i = 0; i < n; i++) order->level[i] = level_of[order->steps[i]];
    order->level_count = n ? level + 1 : 0;
    return SL_OK;
}

static sl_status apply(sl_program *program, const sl_order *order, sl_arena *arena, sl_error *err) {
    const uint32_t n = program->step_count;
    sl_step *sorted = SL_ARENA_NEW_ARRAY(arena, sl_step, n + 1);
    if (!sorted) return sl_no_memory(err, "a schedule", n);
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = program->steps[order->steps[i]];
        sorted[i].level = order->level[i];
    }
    memcpy(program->steps, sorted, n * sizeof *sorted);
    program->level_count = order->level_count;
    return SL_OK;
}

/* The first tenth, but enough to be worth a submit, up to the end of its group; 0 when that is
 * everything. */
static uint32_t early_steps(const sl_program *program) {
    const uint32_t n = program->step_count;
    uint32_t early = n / 10 > LEAST_EARLY_STEPS ? n / 10 : LEAST_EARLY_STEPS;
    while (early < n && program->steps[early].level == program->steps[early - 1].level) early++;
    return early < n ? early : 0;
}

/* The fewest steps that, taken out of the graph's order and put back elsewhere, give the new one:
 * all but a longest ascending row of them.  ends[k] is the lowest end of such rows of k + 1. */
static uint32_t count_moved(const sl_order *order, uint32_t n, uint32_t *ends) {
    uint32_t longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t low = 0, high = longest;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (ends[middle] < order->steps[i])
                low = middle + 1;
            else
                high = middle;
        }
        ends[low] = order->steps[i];
        if (low == longest) longest++;
    }
    return n - longest;
}

static void report_groups(sl_program *program) {
    enum { LARGEST = 8 };
    sl_program_report *report = &program->report;
    const uint32_t n = program->step_count;
    memset(report->histogram, 0, sizeof report->histogram);
    for (uint32_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && program->steps[end].level == program->steps[at].level;) end++;
        report->histogram[end - at > LARGEST ? 0 : end - at]++;
    }
    report->steps = n;
    report->groups = program->level_count;
    report->barriers_naive = n ? n - 1 : 0;
    report->barriers = program->model == SL_SCHEDULE_EDGES || n == 0 ? 0 : program->level_count - 1;
    report->early_barriers =
        program->early_steps ? program->steps[program->early_steps - 1].level : 0;
    report->undeclared = 0;
    for (uint32_t s = 0; s < n; s++) {
        const sl_step *step = &program->steps[s];
        report->undeclared += step->undeclared || step->read_count + step->write_count == 0;
    }
}

static sl_status schedule(sl_program *program, const sl_compiler_options *options,
                          sl_arena *scratch, sl_error *err) {
    const uint32_t n = program->step_count;
    sl_dag dag, reduced;
    sl_order order = {.steps = SL_ARENA_NEW_ARRAY(scratch, uint32_t, n + 1),
                      .level = SL_ARENA_NEW_ARRAY(scratch, uint32_t, n + 1)};
    uint32_t *ends = SL_ARENA_NEW_ARRAY(scratch, uint32_t, n + 1);
    if (!order.steps || !order.level || !ends) return sl_no_memory(err, "a schedule", n);
    SL_TRY(sl_dag_build(program, SL_SPACE_BUFFERS, scratch, &dag, err));
    SL_TRY(sl_dag_reduce(&dag, scratch, &reduced, err));
    program->report.edges = reduced.edge_count;
    SL_TRY(sl_dag_count_conflicts(program, SL_SPACE_BUFFERS, scratch, &program->report.edges_naive,
                                  err));
    SL_TRY(find_order(program, options, &reduced, scratch, &order, err));
    if (!options->no_reordering) SL_TRY(merge_levels(&reduced, scratch, &order, err));
    SL_TRY(apply(program, &order, scratch, err));
    program->model = options->model;
    program->early_steps =
        options->model == SL_SCHEDULE_GROUPS && options->two_submits ? early_steps(program) : 0;
    program->report.moved = count_moved(&order, n, ends);
    report_groups(program);
    return SL_OK;
}

sl_status sl_schedule(sl_program *program, const sl_compiler_options *options, sl_error *err) {
    const sl_compiler_options plain = {0};
    sl_arena scratch;
    sl_arena_init(&scratch, program->arena.allocator);
    const sl_status status = schedule(program, options ? options : &plain, &scratch, err);
    sl_arena_deinit(&scratch);
    return status;
}
