#include "engine/models/architecture.h"
#include "engine/models/blocks.h"
#include <stdio.h>
#include <string.h>

#define ARCHITECTURE(NAME) extern const sl_architecture sl_architecture_##NAME;
#include "engine/models/architecture.def"

static const sl_architecture *const table[] = {
#define ARCHITECTURE(NAME) &sl_architecture_##NAME,
#include "engine/models/architecture.def"
};
enum { COUNT = sizeof table / sizeof table[0] };

const sl_architecture *sl_architecture_find(const char *model_type) {
    for (int i = 0; i < COUNT; i++) {
        const sl_config_family *family = &table[i]->config;
        const char *const names[] = {family->model_type, family->also[0], family->also[1]};
        for (int n = 0; n < 3; n++)
            if (names[n] && strcmp(names[n], model_type) == 0) return table[i];
    }
    return NULL;
}

const char *sl_architecture_names(char *text, size_t capacity) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < COUNT && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "",
                                 table[i]->config.model_type);
    return text;
}

static const sl_config_family *find_family(const char *model_type) {
    const sl_architecture *architecture = sl_architecture_find(model_type);
    return architecture ? &architecture->config : NULL;
}

sl_status sl_model_config_parse(const char *json, size_t bytes, sl_arena *arena,
                                sl_model_config *out, sl_error *err) {
    static const sl_config_families families = {find_family, sl_architecture_names};
    return sl_config_parse(json, bytes, &families, arena, out, err);
}

sl_status sl_model_config_load(sl_source *source, sl_arena *arena, sl_model_config *out,
                               sl_expert_table *out_experts, sl_error *err) {
    size_t bytes = 0;
    const char *json = sl_source_text(source, "config.json", &bytes);
    if (!json) return sl_fail(err, SL_FORMAT, "the model has no config.json");
    SL_TRY(sl_model_config_parse(json, bytes, arena, out, err));
    return sl_expert_table_build(source, out, arena, out_experts, err);
}

static void build_whole(sl_builder *b, const sl_architecture *architecture) {
    sl_hidden_value hidden = sl_block_stem(b);
    sl_builder_begin_reveal(b);
    for (b->layer = 0; b->layer < b->config->layers && b->status == SL_OK; b->layer++) {
        sl_reveal_input(b, hidden);
        hidden = architecture->layer(b, hidden);
        sl_reveal_output(b, hidden);
    }
    sl_block_head(b, hidden);
    sl_builder_end_reveal(b);
}

static void build_replay(sl_builder *b) {
    sl_block_rows(b);
    for (b->layer = 0; b->layer < b->config->layers && b->status == SL_OK; b->layer++)
        if (b->config->layer[b->layer].linear) sl_block_delta_replay(b);
}

sl_status sl_architecture_build(const sl_architecture *architecture, const sl_forward_shape *shape,
                                sl_graph *graph, sl_error *err) {
    sl_builder b = {
        .graph = graph, .shape = shape, .config = shape->config, .status = SL_OK, .err = err};
    if (shape->replays)
        build_replay(&b);
    else
        build_whole(&b, architecture);
    SL_TRY(b.status);
    return sl_graph_check(graph, err);
}

sl_status sl_architecture_list_weights(const sl_model_config *config, sl_weights *weights,
                                       const sl_expert_table *experts, sl_error *err) {
    const sl_forward_shape shape = {.config = config,
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
    SL_TRY(sl_graph_create("forward", weights->arena.allocator, &graph, err));
    const sl_status status = sl_architecture_build(architecture, &shape, graph, err);
    sl_graph_destroy(graph);
    return status;
}
