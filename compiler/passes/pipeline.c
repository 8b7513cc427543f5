#include "compiler/passes/pipeline.h"
#include "base/clock.h"
#include "compiler/passes/legalise.h"
#include <string.h>

typedef enum { ONCE, REPEATED, UNTIDY } pass_kind;

#define PASS(NAME, KIND, CONDITION, SUMMARY)                                                       \
    static bool wants_##NAME(const sl_compiler_options *options) {                                 \
        (void)options;                                                                             \
        return CONDITION;                                                                          \
    }
#include "compiler/passes/passes.def"

static const struct {
    pass_kind kind;
    bool (*is_wanted)(const sl_compiler_options *options);
    sl_pass_fn *run;
} passes[] = {
#define PASS(NAME, KIND, CONDITION, SUMMARY) {KIND, wants_##NAME, sl_pass_##NAME},
#include "compiler/passes/passes.def"
};

static sl_status verify_again(const sl_graph *graph, sl_error *err) {
#ifdef SL_DEBUG
    return sl_graph_verify(graph, err);
#else
    (void)graph, (void)err;
    return SL_OK;
#endif
}

static sl_status run_pass(uint32_t pass, sl_graph *graph, sl_pass_context *context, bool *changed,
                          sl_error *err) {
    bool once = false;
    if (!passes[pass].is_wanted(context->options)) return SL_OK;
    const double begin = sl_clock_seconds();
    SL_TRY(passes[pass].run(graph, context, &once, err));
    if (pass != SL_PASS_bodies) context->seconds[pass] += sl_clock_seconds() - begin;
    *changed |= once;
    return once ? verify_again(graph, err) : SL_OK;
}

static sl_status run_repeated(sl_graph *graph, sl_pass_context *context, sl_error *err) {
    enum { MOST_ROUNDS = 16 }; /* each run makes the graph smaller; few graphs need three */
    bool changed = true;
    for (int round = 0; changed && round < MOST_ROUNDS; round++) {
        changed = false;
        for (uint32_t p = 0; p < SL_PASS_COUNT; p++)
            if (passes[p].kind == REPEATED) SL_TRY(run_pass(p, graph, context, &changed, err));
    }
    return SL_OK;
}

sl_status sl_passes_run(sl_graph *graph, sl_pass_context *context, sl_pass_id end, sl_error *err) {
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t p = 0; p < (uint32_t)end; p++) {
        bool changed = false;
        if (passes[p].kind != REPEATED)
            SL_TRY(run_pass(p, graph, context, &changed, err));
        else if (passes[p - 1].kind != REPEATED) /* the first of them */
            SL_TRY(run_repeated(graph, context, err));
        if (passes[p].kind == UNTIDY && changed) SL_TRY(run_repeated(graph, context, err));
    }
    return SL_OK;
}

sl_status sl_simplify(sl_graph *graph, sl_error *err) {
    const sl_compiler_options options = {0};
    SL_TRY(sl_graph_check(graph, err));
    return run_repeated(graph, &(sl_pass_context){.options = &options}, err);
}

/* ---- passes that are a single call ---- */

sl_status sl_pass_verify(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    (void)context, (void)changed;
    return sl_graph_verify(graph, err);
}

sl_status sl_pass_sizes(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    (void)context, (void)changed;
    return sl_graph_check_sizes(graph, err);
}

sl_status sl_pass_legalise(sl_graph *graph, sl_pass_context *context, bool *changed,
                           sl_error *err) {
    uint32_t rewritten;
    SL_TRY(sl_legalise(graph, context->options->target, NULL, &rewritten, err));
    context->legalised += rewritten;
    *changed = rewritten > 0;
    return SL_OK;
}

sl_status sl_pass_check_legal(sl_graph *graph, sl_pass_context *context, bool *changed,
                              sl_error *err) {
    (void)changed;
    return sl_check_legal(graph, context->options->target, err);
}

/* ---- bodies ---- */

typedef struct {
    sl_attr_visitor visitor; /* first */
    sl_pass_context *context;
    sl_error *err;
    sl_status status;
} body_visitor;

static void visit_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    body_visitor *v = (body_visitor *)visitor;
    const sl_attr *attr = value;
    (void)name;
    if (kind == SL_ATTR_graph && attr->graph && v->status == SL_OK)
        v->status = /* the body belongs to the graph, which may be changed */
            sl_passes_run((sl_graph *)(uintptr_t)attr->graph, v->context, SL_PASS_COUNT, v->err);
}

sl_status sl_pass_bodies(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    body_visitor v = {.visitor = {visit_body}, .context = context, .err = err};
    (void)changed;
    for (uint32_t n = 0; n < graph->node_count && v.status == SL_OK; n++) {
        const sl_op_info *info = sl_op_info_of(graph->nodes[n].op);
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
        memcpy(attrs, graph->nodes[n].attrs, info->attrs_bytes);
        info->visit_attrs(&v.visitor, attrs);
    }
    return v.status;
}
