#include "engine/models/architecture.h"
#include <string.h>

static const sl_architecture table[] = {
    {"qwen3_5_moe", sl_qwen3_5_moe_build},
    {"qwen3_5_moe_text", sl_qwen3_5_moe_build},
};

const sl_architecture *sl_architecture_find(const char *model_type) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].model_type, model_type) == 0) return &table[i];
    return NULL;
}

sl_status sl_architecture_ask(const sl_model_config *config, sl_weights *weights,
                              const sl_expert_table *experts, sl_error *err) {
    const sl_step_shape shape = {.config = config,
                                 .weights = weights,
                                 .experts = experts,
                                 .rows = 1,
                                 .wanted = 1,
                                 .slots = 1,
                                 .capacity = 1};
    const sl_architecture *architecture = sl_architecture_find(config->model_type);
    if (!architecture)
        return sl_fail(err, SL_UNSUPPORTED, "model type '%s' has no builder", config->model_type);
    sl_graph *graph = NULL;
    SL_TRY(sl_graph_create("step", weights->arena.allocator, &graph, err));
    const sl_status status = architecture->build(&shape, graph, err);
    sl_graph_destroy(graph);
    return status;
}
