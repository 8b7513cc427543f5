/* cost.c - The cost of a token, computed from the weights, not measured. */
#include "engine/inspect/inspect.h"
#include <string.h>

/* Multiplying and adding each element once. */
static uint64_t operations_of(const sl_type *type) {
    return 2 * (uint64_t)sl_type_elements(type);
}

static void add_resident(const sl_model_config *config, const sl_weight *w, sl_token_cost *cost) {
    const uint64_t bytes = sl_type_bytes(&w->type);
    const bool table = strcmp(w->name, "embed_tokens.weight") == 0;
    const bool head = strcmp(w->name, "lm_head.weight") == 0 || (table && config->tied_embeddings);
    if (table) cost->weight_bytes += bytes / config->vocab;
    if (table && !head) return;
    cost->weight_bytes += bytes;
    if (w->type.shape.rank != 2) return;
    cost->decode_operations += operations_of(&w->type);
    if (!head) cost->prefill_operations += operations_of(&w->type);
}

/* Of one layer: each head multiplies as many numbers as a key and a value of the cache have. */
static uint64_t position_operations(const sl_model_config *config) {
    const uint64_t dims = config->latent_rank ? 2ull * config->latent_rank + config->rope_dim
                                              : 2ull * config->head_dim;
    return 2ull * config->query_heads * dims;
}

sl_token_cost sl_token_cost_of(const sl_model *model) {
    sl_token_cost cost = {0};
    for (uint32_t i = 0; i < model->weights.count; i++)
        add_resident(&model->config, &model->weights.items[i], &cost);
    for (uint32_t l = 0; l < model->config.layers; l++)
        for (int m = 0; model->config.layer[l].sparse && m < SL_EXPERT_MATRICES; m++) {
            const sl_type *type = &model->experts.layer[l].matrices[m].type;
            const uint64_t used = model->config.experts_used;
            cost.expert_bytes += used * sl_type_bytes(type);
            cost.decode_operations += used * operations_of(type);
            cost.prefill_operations += used * operations_of(type);
        }
    cost.weight_bytes += cost.expert_bytes;
    if (cost.expert_bytes)
        cost.expert_share = (double)model->config.experts_used / (double)model->config.experts;
    cost.int8_activations = sl_forward_options_of(model->forward)->compile.int8_activations &&
                            sl_dtype_infos[sl_model_main_dtype(model)].kind == SL_KIND_PANEL;
    cost.recurrent_bytes = 2 * sl_forward_recurrent_bytes(model->forward);
    cost.kv_bytes_per_position = sl_forward_page_bytes(model->forward) / SL_KV_PAGE;
    for (uint32_t l = 0; l < model->config.layers; l++)
        if (!model->config.layer[l].linear) /* scores, and the sum of values */
            cost.operations_per_position += position_operations(&model->config);
    return cost;
}
