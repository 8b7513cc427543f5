#include "tests/support/fable.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Reads every expert once. */
static void warm(sl_model *model) {
    sl_expert_source *source = sl_expert_store_source(model->store);
    sl_error err = {0};
    for (uint32_t layer = 0; layer < model->config.layers; layer++)
        for (int32_t e = 0; e < (int32_t)model->config.experts; e++) {
            const sl_layer_id id = {layer};
            sl_expert_lease lease;
            if (source->request(source, id, &e, 1, &err) || source->take(source, id, &lease, &err))
                fail_msg("%s", err.message);
            source->release(source, &lease);
        }
}

sl_model *fable_open(void) {
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "ref",
                                      .reader = "threads",
                                      .context_tokens = FABLE_CONTEXT};
    sl_model *model = NULL;
    sl_error err = {0};
    if (sl_model_open("models/fable/fable.sluice", &options, &model, &err))
        fail_msg("%s", err.message);
    warm(model);
    return model;
}

sl_graph *fable_graph(sl_model *model, uint32_t rows, uint32_t wanted) {
    const sl_forward_shape shape = {.config = &model->config,
                                    .weights = &model->weights,
                                    .experts = &model->experts,
                                    .rows = rows,
                                    .wanted = wanted,
                                    .slots = 1,
                                    .capacity = FABLE_CONTEXT};
    const sl_architecture *architecture = sl_architecture_find(model->config.model_type);
    sl_graph *graph = NULL;
    sl_error err = {0};
    if (sl_graph_create("fable", NULL, &graph, &err) ||
        sl_architecture_build(architecture, &shape, graph, &err))
        fail_msg("%s", err.message);
    return graph;
}
