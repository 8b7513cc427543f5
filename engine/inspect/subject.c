#include "engine/inspect/subject.h"
#include "base/clock.h"
#include "engine/config/shapes.h"
#include "runtime/devices.h"

enum { IMAGINED_CONTEXT = 4096 };

void sl_subject_of_model(sl_subject *subject, const sl_model *model) {
    const sl_forward_options *given = sl_forward_options_of(model->forward);
    *subject = (sl_subject){.architecture = given->architecture,
                            .shape = given->shape,
                            .target = given->compile.target};
    sl_arena_init(&subject->arena, &model->allocator);
    sl_weights_init(&subject->weights, NULL, &model->allocator);
}

static sl_status find_config(sl_subject *subject, const char *shape, sl_error *err) {
    const char *config;
    size_t bytes;
    SL_TRY(sl_shape_load(shape, NULL, &subject->arena, &config, &bytes, err));
    return sl_model_config_parse(config, bytes, &subject->arena, &subject->config, err);
}

sl_status sl_subject_fake(sl_subject *subject, const char *shape, const sl_allocator *allocator,
                          sl_error *err) {
    *subject = (sl_subject){0};
    sl_arena_init(&subject->arena, allocator);
    sl_weights_fake(&subject->weights, allocator);
    const sl_device_row *host;
    SL_TRY(sl_device_find(NULL, &host, err));
    subject->target = host->target;
    SL_TRY(find_config(subject, shape, err));
    SL_TRY(sl_expert_table_fake(&subject->config, &subject->arena, &subject->experts, err));
    subject->architecture = sl_architecture_find(subject->config.model_type);
    if (!subject->architecture)
        return sl_fail(err, SL_UNSUPPORTED, "model type '%s' has no builder",
                       subject->config.model_type);
    const uint32_t context = subject->config.context;
    subject->shape = (sl_forward_shape){
        .config = &subject->config,
        .weights = &subject->weights,
        .experts = &subject->experts,
        .slots = 1,
        .capacity = context < IMAGINED_CONTEXT ? context : IMAGINED_CONTEXT,
        .kv_dtype = SL_DTYPE_k16, /* as for any model with coded experts, which these are */
    };
    return SL_OK;
}

void sl_subject_of_graph(sl_subject *subject, const sl_graph *graph) {
    *subject = (sl_subject){.graph = graph};
    sl_arena_init(&subject->arena, NULL);
    sl_weights_fake(&subject->weights, NULL);
}

/* Compiling changes the graph, so a given one is copied. */
static sl_status build(const sl_subject *subject, sl_graph **out, sl_error *err) {
    const sl_allocator *allocator = subject->arena.allocator;
    if (subject->graph) return sl_graph_copy(subject->graph, allocator, out, err);
    SL_TRY(sl_graph_create("forward", allocator, out, err));
    return sl_architecture_build(subject->architecture, &subject->shape, *out, err);
}

sl_status sl_subject_compile(const sl_subject *subject, const sl_compiler_options *options,
                             sl_program **out, double *build_seconds, sl_error *err) {
    sl_graph *graph = NULL;
    const double begin = sl_clock_seconds();
    sl_status status = build(subject, &graph, err);
    *build_seconds = sl_clock_seconds() - begin;
    if (status == SL_OK)
        status = sl_compile_graph(graph, options, subject->arena.allocator, out, err);
    sl_graph_destroy(graph);
    return status;
}

void sl_subject_deinit(sl_subject *subject) {
    sl_weights_deinit(&subject->weights);
    sl_arena_deinit(&subject->arena);
}
