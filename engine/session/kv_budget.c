#include "engine/session/kv_budget.h"

/* Of the budget for prefixes, the part that is not pages: recurrent states, where models have them;
 * tokens and nodes. */
enum { SHARE_OF_STATES = 2, SHARE_OF_TOKENS = 8 };

typedef struct {
    uint64_t page_bytes;
    bool is_recurrent;
} state_sizes;

/* What the states of a model will be, from the graph of one row. */
static sl_status measure(const sl_forward_options *options, state_sizes *out, sl_error *err) {
    sl_forward_shape shape = options->shape;
    sl_graph *graph = NULL;
    shape.rows = shape.wanted = shape.slots = shape.pages = 1;
    shape.capacity = SL_KV_PAGE;
    SL_TRY(sl_graph_create("states", options->allocator, &graph, err));
    const sl_status status = sl_architecture_build(options->architecture, &shape, graph, err);
    *out = (state_sizes){0};
    for (uint32_t v = 1; v <= graph->value_count && status == SL_OK; v++) {
        const sl_value_info *value = &graph->values[v];
        if (value->kind != SL_VALUE_STATE) continue;
        out->is_recurrent |= value->tag == SL_STATE_RECURRENT;
        if (value->tag == SL_STATE_KV)
            out->page_bytes += sl_forward_state_bytes(options, &value->type);
    }
    sl_graph_destroy(graph);
    return status;
}

/* A default context is lowered to what the memory holds. */
static void lower_context(sl_model *model, const sl_model_options *wanted, uint64_t page_bytes) {
    if (wanted->context_tokens || wanted->kv_bytes == 0 || page_bytes == 0) return;
    const uint64_t held = wanted->kv_bytes / page_bytes * SL_KV_PAGE;
    if (held >= SL_LEAST_CONTEXT && held < model->context_tokens)
        model->context_tokens = (uint32_t)held;
}

/* Pages for sessions. */
static sl_status pages_of_sessions(const sl_model *model, uint64_t kv_bytes, uint64_t page_bytes,
                                   uint64_t *out, sl_error *err) {
    const uint64_t each = (uint64_t)sl_kv_page_count(model->context_tokens);
    const uint64_t most = model->slots * each, held = page_bytes ? kv_bytes / page_bytes : most;
    *out = kv_bytes == 0 || held > most ? most : held;
    if (*out >= each) return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%.1f MB of KV memory hold %llu tokens, wanted at least the context of %u "
                   "(%.1f MB): lower the context or give more",
                   (double)kv_bytes / 1e6, (unsigned long long)held * SL_KV_PAGE,
                   model->context_tokens, (double)(each * page_bytes) / 1e6);
}

sl_status sl_kv_budget_choose(sl_model *model, const sl_model_options *wanted,
                              sl_forward_options *options, sl_error *err) {
    state_sizes sizes;
    uint64_t pages;
    SL_TRY(measure(options, &sizes, err));
    lower_context(model, wanted, sizes.page_bytes);
    options->shape.capacity = model->context_tokens;
    SL_TRY(pages_of_sessions(model, wanted->kv_bytes, sizes.page_bytes, &pages, err));
    const int share = sizes.is_recurrent ? SHARE_OF_STATES : SHARE_OF_TOKENS;
    const uint64_t rest = model->prefix_bytes - model->prefix_bytes / (uint64_t)share;
    model->prefix_pages = sizes.page_bytes ? rest / sizes.page_bytes : 0;
    model->prefix_host_bytes = model->prefix_bytes - model->prefix_pages * sizes.page_bytes;
    if (pages + model->prefix_pages > INT32_MAX)
        return sl_fail(err, SL_INVALID, "%llu pages of keys and values, wanted at most %d",
                       (unsigned long long)(pages + model->prefix_pages), INT32_MAX);
    options->shape.pages = (uint32_t)(pages + model->prefix_pages);
    return SL_OK;
}
