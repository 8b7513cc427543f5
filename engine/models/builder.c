#include "engine/models/builder.h"
#include <assert.h>
#include <stdio.h>

enum { NAME_BYTES = 128 };

sl_value sl_builder_weight(sl_builder *b, const char *name, sl_weight_kind kind, sl_dims dims,
                           const sl_weight_gather *otherwise) {
    if (b->status != SL_OK) return (sl_value){0};
    const sl_value known = sl_graph_find(b->graph, name); /* tied embeddings come twice */
    if (known.v) return known;
    const sl_weight *weight;
    const sl_weight_request request = {name, kind, dims, otherwise};
    b->status = sl_weights_get(b->shape->weights, &request, &weight, b->err);
    if (b->status != SL_OK) return (sl_value){0};
    return sl_graph_declare(b->graph, SL_VALUE_WEIGHT, name, weight->type);
}

sl_value sl_builder_tensor(sl_builder *b, const char *name, sl_weight_kind kind, sl_dims dims,
                           const sl_weight_gather *otherwise) {
    char whole[NAME_BYTES], from[NAME_BYTES];
    (void)snprintf(whole, sizeof whole, "layers.%u.%s", b->layer, name);
    if (!otherwise) return sl_builder_weight(b, whole, kind, dims, NULL);
    sl_weight_gather gather = *otherwise;
    (void)snprintf(from, sizeof from, "layers.%u.%s", b->layer, otherwise->from);
    gather.from = from;
    return sl_builder_weight(b, whole, kind, dims, &gather);
}

sl_value sl_builder_matrix(sl_builder *b, const char *name, int64_t rows, int64_t cols) {
    return sl_builder_tensor(b, name, SL_WEIGHT_MATRIX, (sl_dims){2, {rows, cols}}, NULL);
}

sl_value sl_builder_vector(sl_builder *b, const char *name, int64_t size) {
    return sl_builder_tensor(b, name, SL_WEIGHT_VECTOR, (sl_dims){1, {size}}, NULL);
}

sl_value sl_builder_state(sl_builder *b, sl_state_kind kind, const char *name, sl_type type) {
    char whole[NAME_BYTES];
    (void)snprintf(whole, sizeof whole, "state.%u.%s", b->layer, name);
    const sl_value state = sl_graph_declare(b->graph, SL_VALUE_STATE, whole, type);
    sl_graph_tag(b->graph, state, kind);
    return state;
}

sl_value sl_builder_input(sl_builder *b, sl_forward_input input, sl_type type) {
    static const char *const names[] = {
#define INPUT(SYMBOL, NAME) [SL_FORWARD_INPUT_##SYMBOL] = (NAME),
        SL_FORWARD_INPUTS(INPUT)
#undef INPUT
    };
    const sl_value value = sl_graph_declare(b->graph, SL_VALUE_INPUT, names[input], type);
    sl_graph_tag(b->graph, value, input);
    return value;
}

void sl_builder_output(sl_builder *b, sl_forward_output output, sl_value value) {
    static const char *const names[] = {[SL_FORWARD_LOGITS] = "logits",
                                        [SL_FORWARD_HIDDEN] = "hidden",
                                        [SL_FORWARD_TOKEN] = "token"};
    assert(b->graph->output_count == (uint32_t)output || b->graph->error.status != SL_OK);
    sl_graph_output(b->graph, names[output], value);
}

static void name_layer_value(uint32_t layer, sl_layer_value which, char name[NAME_BYTES]) {
    static const char *const names[] = {
#define VALUE(SYMBOL, NAME) [SL_LAYER_##SYMBOL] = (NAME),
        SL_LAYER_VALUES(VALUE)
#undef VALUE
    };
    (void)snprintf(name, NAME_BYTES, SL_LAYER_PREFIX "%u.%s", layer, names[which]);
}

sl_value sl_builder_kept_input(sl_builder *b, sl_layer_value which, sl_type type) {
    char name[NAME_BYTES];
    name_layer_value(b->layer, which, name);
    const sl_value value = sl_graph_declare(b->graph, SL_VALUE_INPUT, name, type);
    sl_graph_tag(b->graph, value, SL_FORWARD_INPUT_COUNT + b->kept_inputs++);
    return value;
}

void sl_builder_begin_reveal(sl_builder *b) {
    const size_t count = (size_t)b->config->layers * SL_LAYER_VALUE_COUNT;
    if (!(b->shape->reveals || b->shape->keeps) || b->status != SL_OK) return;
    b->revealed = SL_ARENA_NEW_ARRAY(&b->graph->arena, sl_value, count + 1);
    if (!b->revealed)
        b->status = sl_no_memory(b->err, "the values of layers", count * sizeof *b->revealed);
}

void sl_builder_reveal(sl_builder *b, sl_layer_value which, sl_value value) {
    const bool wanted = which < SL_LAYER_FIRST_KEPT ? b->shape->reveals : b->shape->keeps;
    if (b->revealed && wanted) b->revealed[(size_t)b->layer * SL_LAYER_VALUE_COUNT + which] = value;
}

void sl_builder_end_reveal(sl_builder *b) {
    char name[NAME_BYTES];
    for (uint32_t layer = 0; b->revealed && layer < b->config->layers; layer++)
        for (int which = 0; which < SL_LAYER_VALUE_COUNT; which++) {
            const sl_value value =
                b->revealed[(size_t)layer * SL_LAYER_VALUE_COUNT + (size_t)which];
            if (!value.v) continue;
            name_layer_value(layer, (sl_layer_value)which, name);
            sl_graph_observe(b->graph, name, value);
        }
}
