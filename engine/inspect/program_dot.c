#include "compiler/schedule/dag.h"
#include "engine/inspect/draw.h"
#include "engine/inspect/page.h"

/* Blue waits for or asks for experts, yellow updates a state, white computes. */
static const char *colour_of(const sl_program *program, const sl_step *step) {
    for (uint32_t i = 0; i < step->operand_count; i++)
        if (program->buffers[step->operands[i].buffer.v].kind == SL_BUFFER_EXPERTS)
            return "#9ecae1";
    for (uint32_t i = 0; i < step->write_count; i++)
        if (program->buffers[step->writes[i].buffer.v].kind == SL_BUFFER_STATE) return "#fee391";
    return "#ffffff";
}

static void draw_levels(sl_page *page, const sl_program *program) {
    for (uint32_t s = 0; s < program->step_count; s++) {
        const sl_step *step = &program->steps[s];
        const bool opens = s == 0 || step->level != step[-1].level;
        const bool closes = s + 1 == program->step_count || step->level != step[1].level;
        if (opens) sl_page_print(page, "  { rank=same\n");
        sl_page_print(page, "    s%u [fillcolor=\"%s\", tooltip=\"level %u\", label=", s,
                      colour_of(program, step), step->level);
        sl_page_quote(page, step->label);
        sl_page_print(page, "]\n");
        if (closes) sl_page_print(page, "  }\n");
    }
}

static void draw_edges(sl_page *page, const sl_edges *edges, uint32_t step_count) {
    for (uint32_t s = 0; s < step_count; s++)
        for (uint32_t e = edges->first[s]; e < edges->first[s + 1]; e++)
            sl_page_print(page, "  s%u -> s%u\n", s, edges->targets[e]);
}

sl_status sl_find_edges(const sl_program *program, sl_arena *arena, sl_edges *out, sl_error *err) {
    *out = program->edges;
    if (program->model == SL_SCHEDULE_EDGES) return SL_OK;
    sl_dag all, reduced;
    SL_TRY(sl_dag_build(program, SL_SPACE_BUFFERS, arena, &all, err));
    SL_TRY(sl_dag_reduce(&all, arena, &reduced, err));
    *out = reduced.out;
    return SL_OK;
}

static sl_status draw(const sl_program *program, const char *path, sl_arena *arena, sl_error *err) {
    sl_edges edges;
    SL_TRY(sl_find_edges(program, arena, &edges, err));
    sl_page page;
    sl_page_open(&page, path, arena->allocator, err);
    sl_page_print(&page, "digraph ");
    sl_page_quote(&page, program->name);
    sl_page_print(&page, " {\n  node [shape=box, style=\"rounded,filled\", "
                         "fontname=\"sans-serif\", fontsize=10, color=\"#555555\"]\n"
                         "  edge [color=\"#777777\", arrowsize=0.6]\n");
    draw_levels(&page, program);
    draw_edges(&page, &edges, program->step_count);
    sl_page_print(&page, "}\n");
    return sl_page_close(&page);
}

sl_status sl_write_dot(const sl_program *program, const char *path, const sl_allocator *allocator,
                       sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, allocator);
    const sl_status status = draw(program, path, &arena, err);
    sl_arena_deinit(&arena);
    return status;
}
