/* feed_forward.c - The second half of a layer: one gated network, or experts. */
#include "engine/models/blocks.h"

sl_dense_out_value sl_block_dense(sl_builder *b, sl_moe_input_value x) {
    sl_graph *g = b->graph;
    const int64_t width = b->config->dense_width, hidden = b->config->hidden;
    const sl_dense_gate_weight_value w_gate = sl_param_dense_gate_weight(b, width, hidden);
    const sl_dense_up_weight_value w_up = sl_param_dense_up_weight(b, width, hidden);
    const sl_dense_down_weight_value w_down = sl_param_dense_down_weight(b, hidden, width);
    const sl_dense_gate_out_value gate = sl_wire_dense_gate(g, x, w_gate);
    const sl_dense_up_out_value up = sl_wire_dense_up(g, x, w_up);
    return sl_wire_dense_down(g, sl_wire_dense_swiglu(g, gate, up), w_down);
}

static sl_routes route_groups(sl_builder *b, sl_router_logits_value logits) {
    const sl_model_config *c = b->config;
    const sl_route_correction_value correction = sl_param_route_correction(b, c->experts);
    return sl_wire_route_groups(b->graph, logits, correction,
                                (sl_route_groups_attrs){.k = c->experts_used,
                                                        .normalise = c->normalise_routes,
                                                        .groups = c->expert_groups,
                                                        .groups_kept = c->expert_groups_kept,
                                                        .scale = c->routed_scale});
}

static sl_routes route(sl_builder *b, sl_moe_input_value x, const sl_experts_options *options) {
    const sl_model_config *c = b->config;
    const char *module = options->router ? options->router : "mlp.gate";
    const sl_router_weight_value router = sl_param_router_weight(b, module, c->experts, c->hidden);
    sl_router_logits_value logits = sl_wire_router(b->graph, x, router);
    if (options->biased)
        logits = sl_wire_router_bias(b->graph, logits, sl_param_router_bias(b, module, c->experts));
    if (options->grouped) return route_groups(b, logits);
    return sl_wire_route(b->graph, logits,
                         (sl_route_attrs){.k = c->experts_used, .normalise = c->normalise_routes});
}

/* What comes out of each chosen expert. */
static sl_expert_out_value run_experts(sl_builder *b, sl_moe_input_value x, sl_expert_groups groups,
                                       sl_expert_base_value base,
                                       const sl_experts_options *options) {
    const sl_model_config *c = b->config;
    if (!options->biased)
        return sl_wire_moe_ffn(b->graph, x, groups, base,
                               (sl_moe_ffn_attrs){.layer = b->layer, .k = c->experts_used});
    const sl_expert_biases biases = {
        sl_param_expert_gate_bias(b, c->experts, c->expert_width),
        sl_param_expert_up_bias(b, c->experts, c->expert_width),
        sl_param_expert_down_bias(b, c->experts, c->hidden),
    };
    return sl_wire_moe_ffn_biased(b->graph, x, groups, biases, base,
                                  (sl_moe_ffn_biased_attrs){.layer = b->layer,
                                                            .k = c->experts_used,
                                                            .limit = c->swiglu_limit,
                                                            .alpha = c->swiglu_alpha});
}

static sl_shared_out_value shared_expert(sl_builder *b, sl_moe_input_value x,
                                         const sl_experts_options *options) {
    static const char *const modules[] = {
        [SL_SHARED_GATED] = "mlp.shared_expert", [SL_SHARED_ADDED] = "mlp.shared_experts"};
    sl_graph *g = b->graph;
    const char *module = modules[options->shared];
    const int64_t width = b->config->shared_width, hidden = b->config->hidden;
    const sl_shared_gate_weight_value w_gate =
        sl_param_shared_gate_weight(b, module, width, hidden);
    const sl_shared_up_weight_value w_up = sl_param_shared_up_weight(b, module, width, hidden);
    const sl_shared_down_weight_value w_down =
        sl_param_shared_down_weight(b, module, hidden, width);
    const sl_shared_gate_out_value gate = sl_wire_shared_gate(g, x, w_gate);
    const sl_shared_up_out_value up = sl_wire_shared_up(g, x, w_up);
    return sl_wire_shared_down(g, sl_wire_shared_swiglu(g, gate, up), w_down);
}

/* The shared expert comes before the routed ones in the graph: it runs while those are read. */
sl_moe_out_value sl_block_experts(sl_builder *b, sl_moe_input_value x,
                                  const sl_experts_options *options) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const sl_expert_base_value base = sl_param_experts(b);
    const sl_routes routes = route(b, x, options);
    sl_reveal_experts(b, routes.experts);
    sl_reveal_expert_weights(b, routes.weights);
    const sl_expert_groups groups = sl_wire_moe_group(g, routes.experts, base, b->layer);
    const bool shares = options->shared != SL_SHARED_NONE && c->shared_width > 0;
    sl_shared_out_value shared = {0};
    if (shares) shared = shared_expert(b, x, options);
    const sl_expert_out_value out = run_experts(b, x, groups, base, options);
    const sl_routed_out_value routed = sl_wire_moe_combine(g, out, routes.weights);
    if (!shares) return sl_wire_routed_alone(routed);
    if (options->shared == SL_SHARED_ADDED) return sl_wire_shared_add(g, routed, shared);
    const sl_shared_mix_weight_value w_mix = sl_param_shared_mix_weight(b, 1, c->hidden);
    return sl_wire_shared_combine(g, routed, shared, sl_wire_shared_mix(g, x, w_mix));
}

sl_hidden_value sl_block_second_half(sl_builder *b, sl_residual_value residual,
                                     const sl_experts_options *options) {
    const sl_moe_input_value x = sl_block_ffn_norm(b, residual);
    const sl_ffn_update update = b->config->layer[b->layer].sparse
                                     ? sl_as_ffn_update(sl_block_experts(b, x, options))
                                     : sl_as_ffn_update(sl_block_dense(b, x));
    return sl_wire_ffn_residual(b->graph, residual, update);
}
