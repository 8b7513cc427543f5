/* inspect.c - Compiles forward passes and graphs for inspection. */
#include "engine/inspect/inspect.h"
#include "base/clock.h"
#include "core/check.h"
#include "engine/inspect/subject.h"
#include "engine/session/compile_options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sl_status sl_report_init(sl_inspect_report *report, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_arena *memory = SL_ARENA_NEW(&arena, sl_arena);
    if (!memory) return sl_no_memory(err, "a report", sizeof *memory);
    *memory = arena;
    *report = (sl_inspect_report){.memory = memory};
    return SL_OK;
}

void sl_report_deinit(sl_inspect_report *report) {
    if (!report->memory) return;
    sl_arena arena = *(sl_arena *)report->memory;
    sl_arena_deinit(&arena);
    report->memory = NULL;
}

static void describe(const sl_program *program, sl_inspect_report *out) {
    const sl_program_report *r = &program->report;
    (void)snprintf(out->schedule, sizeof out->schedule, "%s", sl_schedule_name(program->model));
    out->nodes = r->nodes;
    out->steps = r->steps;
    out->fused = r->fused;
    out->legalised = r->legalised;
    out->undeclared = r->undeclared;
    out->moved = r->moved;
    out->groups = r->groups;
    memcpy(out->histogram, r->histogram, sizeof out->histogram);
    out->barriers_naive = r->barriers_naive;
    out->barriers = r->barriers;
    out->early_steps = program->early_steps;
    out->early_barriers = r->early_barriers;
    out->edges_naive = r->edges_naive;
    out->edges = r->edges;
    out->unshared_bytes = r->unshared_bytes;
    out->arena_bytes = r->arena_bytes;
    out->live_bytes = r->live_bytes;
    out->in_place = r->in_place;
    out->check_seconds = r->check_seconds;
    out->simplify_seconds = r->simplify_seconds;
    out->legalise_seconds = r->legalise_seconds;
    out->quantise_seconds = r->quantise_seconds;
    out->fuse_seconds = r->fuse_seconds;
    out->lower_seconds = r->lower_seconds;
    out->schedule_seconds = r->schedule_seconds;
    out->plan_seconds = r->plan_seconds;
}

static sl_status verify(const sl_program *program, const sl_allocator *allocator, double *seconds,
                        sl_error *err) {
    const double begin = sl_clock_seconds();
    SL_TRY(sl_check_program(program, allocator, err));
    *seconds = sl_clock_seconds() - begin;
    return SL_OK;
}

static sl_status list_steps(const sl_program *program, bool json, const sl_allocator *allocator,
                            sl_inspect_report *out, sl_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    const sl_step_list list = {open_memstream(&text, &bytes), json};
    if (!list.to) return sl_no_memory(err, "a list of steps", 0);
    sl_status status = sl_print_steps(program, &list, allocator, err);
    const bool written = fclose(list.to) == 0;
    if (status == SL_OK && written) out->step_list = sl_arena_copy_text(out->memory, text, bytes);
    if (status == SL_OK && !out->step_list) status = sl_no_memory(err, "a list of steps", bytes);
    free(text);
    return status;
}

static sl_status draw(const sl_program *program, const sl_inspect_options *options,
                      const sl_allocator *allocator, sl_inspect_report *out, sl_error *err) {
    describe(program, out);
    if (options->verify) SL_TRY(verify(program, allocator, &out->verify_seconds, err));
    if (options->memory_path)
        SL_TRY(sl_write_memory(program, options->memory_path, allocator, err));
    if (options->dot_path) SL_TRY(sl_write_dot(program, options->dot_path, allocator, err));
    if (options->list_waits) SL_TRY(sl_list_waits(program, allocator, out, err));
    if (options->list_steps)
        SL_TRY(list_steps(program, options->list_steps == 2, allocator, out, err));
    return SL_OK;
}

/* Rows are in the memory of the report already. */
static sl_status take_fusions(const sl_fusion_report *from, sl_inspect_report *out, sl_error *err) {
    sl_inspect_fusion *rows =
        SL_ARENA_NEW_ARRAY(out->memory, sl_inspect_fusion, (size_t)from->row_count + 1);
    if (!rows) return sl_no_memory(err, "a report", from->row_count * sizeof *rows);
    for (uint32_t i = 0; i < from->row_count; i++)
        rows[i] =
            (sl_inspect_fusion){from->rows[i].pattern, from->rows[i].label, from->rows[i].reason};
    out->fusions = rows;
    out->fusion_count = from->row_count;
    return SL_OK;
}

/* loaded: the program to describe, or NULL: the one that is compiled now.  A loaded program is
 * compiled again only to learn about fusions, which it does not keep. */
static sl_status inspect(const sl_subject *subject, const sl_program *loaded,
                         const sl_compiler_options *given, const sl_inspect_options *options,
                         sl_inspect_report *out, sl_error *err) {
    const sl_allocator *allocator = subject->arena.allocator;
    sl_compiler_options compile = *given;
    sl_fusion_report fusions = {.arena = out->memory};
    sl_program *program = NULL;
    compile.fusions = options->list_fusions ? &fusions : NULL;
    if (!loaded || options->list_fusions)
        SL_TRY(sl_subject_compile(subject, &compile, &program, &out->build_seconds, err));
    sl_status status = draw(loaded ? loaded : program, options, allocator, out, err);
    if (status == SL_OK && options->list_fusions) status = take_fusions(&fusions, out, err);
    sl_program_destroy(program);
    return status;
}

static sl_status inspect_forward(sl_subject *subject, sl_model *model,
                                 const sl_inspect_options *options, sl_inspect_report *out,
                                 sl_error *err) {
    if (model)
        sl_subject_of_model(subject, model);
    else
        SL_TRY(sl_subject_fake(subject, options->shape, NULL, err));
    sl_record_plan plan = {.rows = options->tokens,
                           .wanted = options->wanted,
                           .runs = options->runs,
                           .depth = options->depth,
                           .trace_path = options->trace_path,
                           .prove = options->verify || options->launches,
                           .compile = sl_compiler_options_for_model(subject->target)};
    SL_TRY(sl_compiler_options_parse(options->compile, &plan.compile, err));
    subject->shape.rows = out->tokens = options->tokens;
    subject->shape.wanted = out->wanted = options->wanted;
    sl_compiler_options compile = plan.compile;
    if (model && model->device_info.unshared_single_row && options->tokens == 1)
        compile.no_sharing = true; /* as forward passes are compiled */
    SL_TRY(inspect(subject, NULL, &compile, options, out, err));
    return model ? sl_record_forward(model, &plan, out, err) : SL_OK;
}

sl_status sl_inspect_forward(sl_model *model, const sl_inspect_options *options,
                             sl_inspect_report *out, sl_error *err) {
    sl_subject subject = {0};
    const sl_status status = inspect_forward(&subject, model, options, out, err);
    sl_subject_deinit(&subject);
    return status;
}

sl_status sl_inspect_any_graph(const sl_graph_subject *given, const sl_inspect_options *options,
                               sl_inspect_report *out, sl_error *err) {
    const sl_runnable *loaded = given->loaded;
    sl_subject subject;
    sl_subject_of_graph(&subject, given->graph);
    sl_status status =
        inspect(&subject, loaded ? loaded->program : NULL, given->compile, options, out, err);
    sl_subject_deinit(&subject);
    if (status == SL_OK && loaded && (options->verify || options->launches))
        status = sl_prove(loaded, out, err);
    if (status == SL_OK && loaded && options->runs)
        status = sl_record(loaded, options->runs, options->trace_path, out, err);
    return status;
}
