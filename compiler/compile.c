#include "compiler/compile.h"
#include "base/clock.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/legalise.h"
#include "compiler/passes/pipeline.h"
#include "core/check.h"
#include <string.h>

/* ---- stages, of bodies too ---- */

static sl_status prepare(sl_graph *graph, const sl_compile_how *how, uint32_t *fused,
                         sl_error *err);

typedef struct {
    sl_attr_visitor visitor; /* first */
    const sl_compile_how *how;
    uint32_t *fused;
    sl_error *err;
    sl_status status;
} body_pass;

static void prepare_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind,
                         void *value) {
    body_pass *pass = (body_pass *)visitor;
    const sl_attr *attr = value;
    (void)name;
    if (kind == SL_ATTR_graph && attr->graph && pass->status == SL_OK)
        pass->status = /* it belongs to the graph, which may be changed */
            prepare((sl_graph *)(uintptr_t)attr->graph, pass->how, pass->fused, pass->err);
}

static sl_status fuse(sl_graph *graph, const sl_compile_how *how, uint32_t *out_fused,
                      sl_error *err) {
    sl_fusion_report report = {0};
    const sl_fuse_how fusing = {.wide_regions = how->wide_regions, .target = how->target};
    if (!how->no_fusion) SL_TRY(sl_fuse_for(graph, &fusing, &report, err));
    *out_fused += report.fused_nodes;
    return SL_OK;
}

/* What is recognised are ops that a device may lack, which it must then be asked. */
static sl_status simplify(sl_graph *graph, const sl_compile_how *how, sl_error *err) {
    return how->wide_regions || how->target ? sl_simplify_known(graph, err)
                                            : sl_simplify(graph, err);
}

static sl_status prepare(sl_graph *graph, const sl_compile_how *how, uint32_t *fused,
                         sl_error *err) {
    body_pass pass = {.visitor = {prepare_body}, .how = how, .fused = fused, .err = err};
    bool rewritten;
    SL_TRY(sl_graph_check_sizes(graph, err));
    if (!how->no_simplify) SL_TRY(simplify(graph, how, err));
    SL_TRY(sl_legalise(graph, how->target, NULL, &rewritten, err));
    if (rewritten && !how->no_simplify) SL_TRY(sl_simplify(graph, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const sl_op_info *info = sl_op_info_of(graph->nodes[n].op);
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
        memcpy(attrs, graph->nodes[n].attrs, info->attrs_bytes);
        info->visit_attrs(&pass.visitor, attrs);
        SL_TRY(pass.status);
    }
    if (how->int8_activations) SL_TRY(sl_quantise_activations(graph, err));
    SL_TRY(fuse(graph, how, fused, err));
    return sl_check_legal(graph, how->target, err);
}

typedef sl_status stage(sl_program *program, const sl_compile_how *how, sl_error *err);

static sl_status run_stage(stage *run, sl_program *program, const sl_compile_how *how,
                           sl_error *err) {
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t b = 0; b < program->steps[s].body_count; b++)
            if (program->steps[s].bodies[b])
                SL_TRY(run_stage(run, program->steps[s].bodies[b], how, err));
    return run(program, how, err);
}

/* Brute force, so for debugging builds alone. */
static sl_status check(const sl_program *program, sl_error *err) {
#ifdef SL_DEBUG
    return sl_check_program(program, program->arena.allocator, err);
#else
    (void)program, (void)err;
    return SL_OK;
#endif
}

sl_status sl_compile_graph(sl_graph *graph, const sl_compile_how *how,
                           const sl_allocator *allocator, sl_program **out, sl_error *err) {
    const sl_compile_how plain = {0};
    sl_status status = SL_OK;
    sl_program *program = NULL;
    sl_program_report report = {0};
    if (!how) how = &plain;
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_verify(graph, err));
    double clock = sl_clock_seconds();
    report.nodes = graph->node_count;
    SL_TRY(prepare(graph, how, &report.fused, err));
    report.fuse_seconds = sl_clock_lap(&clock);
    SL_TRY(sl_lower(graph, allocator, &program, err));
    report.lower_seconds = sl_clock_lap(&clock);
    program->report = report;
    SL_TRY_ELSE(done, run_stage(sl_schedule, program, how, err));
    program->report.schedule_seconds = sl_clock_lap(&clock);
    SL_TRY_ELSE(done, run_stage(sl_plan, program, how, err));
    program->report.plan_seconds = sl_clock_lap(&clock);
    SL_TRY_ELSE(done, check(program, err));
    *out = program;
    program = NULL;
done:
    sl_program_destroy(program);
    return status;
}
