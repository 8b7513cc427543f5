/* inspect.c - Compiles a forward pass for inspection. */
#include "engine/inspect/inspect.h"
#include "base/clock.h"
#include "compiler/compile.h"
#include "core/check.h"
#include "engine/inspect/record.h"
#include "engine/inspect/subject.h"
#include "engine/session/compile_options.h"
#include <stdio.h>
#include <string.h>

static sl_status compile(const sl_subject *subject, const sl_compiler_options *options,
                         const sl_allocator *allocator, sl_program **out, double *build_seconds,
                         sl_error *err) {
    sl_graph *graph = NULL;
    SL_TRY(sl_graph_create("forward", allocator, &graph, err));
    const double begin = sl_clock_seconds();
    sl_status status = sl_architecture_build(subject->architecture, &subject->shape, graph, err);
    *build_seconds = sl_clock_seconds() - begin;
    if (status == SL_OK) status = sl_compile_graph(graph, options, allocator, out, err);
    sl_graph_destroy(graph);
    return status;
}

static void describe(const sl_program *program, sl_inspect_report *out) {
    const sl_program_report *r = &program->report;
    (void)snprintf(out->schedule, sizeof out->schedule, "%s", sl_schedule_name(program->model));
    out->nodes = r->nodes;
    out->steps = r->steps;
    out->fused = r->fused;
    out->moved = r->moved;
    out->groups = r->groups;
    memcpy(out->histogram, r->histogram, sizeof out->histogram);
    out->barriers_naive = r->barriers_naive;
    out->barriers = r->barriers;
    out->edges_naive = r->edges_naive;
    out->edges = r->edges;
    out->unshared_bytes = r->unshared_bytes;
    out->arena_bytes = r->arena_bytes;
    out->live_bytes = r->live_bytes;
    out->in_place = r->in_place;
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

static sl_status draw(const sl_program *program, const sl_inspect_options *options,
                      const sl_allocator *allocator, sl_inspect_report *out, sl_error *err) {
    describe(program, out);
    if (options->verify) SL_TRY(verify(program, allocator, &out->verify_seconds, err));
    if (options->memory_path)
        SL_TRY(sl_write_memory(program, options->memory_path, allocator, err));
    if (options->dot_path) SL_TRY(sl_write_dot(program, options->dot_path, allocator, err));
    return SL_OK;
}

static sl_status inspect(sl_subject *subject, sl_model *model, const sl_inspect_options *options,
                         const sl_step_list *steps, sl_inspect_report *out, sl_error *err) {
    const sl_allocator *allocator = model ? &model->allocator : NULL;
    sl_program *program = NULL;
    sl_record_plan plan = {.rows = options->tokens,
                           .wanted = options->wanted,
                           .runs = options->runs,
                           .depth = options->depth};
    if (model)
        sl_subject_of_model(subject, model);
    else
        SL_TRY(sl_subject_fake(subject, options->shape, allocator, err));
    SL_TRY(sl_compiler_options_parse(options->compile, subject->target, &plan.compile, err));
    subject->shape.rows = out->tokens = options->tokens;
    subject->shape.wanted = out->wanted = options->wanted;
    SL_TRY(compile(subject, &plan.compile, allocator, &program, &out->build_seconds, err));
    sl_status status = draw(program, options, allocator, out, err);
    if (status == SL_OK && steps) status = sl_print_steps(program, steps, allocator, err);
    sl_program_destroy(program);
    if (status == SL_OK && options->verify && model) status = sl_prove(model, &plan, out, err);
    if (status == SL_OK && plan.runs)
        status = sl_record(model, &plan, options->trace_path, out, err);
    return status;
}

sl_status sl_inspect_forward(sl_model *model, const sl_inspect_options *options,
                             const sl_step_list *steps, sl_inspect_report *out, sl_error *err) {
    sl_subject subject = {0};
    const sl_status status = inspect(&subject, model, options, steps, out, err);
    sl_subject_deinit(&subject);
    return status;
}
