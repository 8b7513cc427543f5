/* feed_forward.c - The second half of a layer: one gated network, or experts. */
#include "engine/models/blocks.h"
#include <stdio.h>

sl_dense_out_value sl_block_dense(sl_builder *b, sl_moe_input_value x) {
    sl_graph *g = b->graph;
    const int64_t width = b->config->dense_width, hidden = b->config->hidden;
    const sl_dense_gate_weight_value w_gate = {
        sl_builder_matrix(b, "mlp.gate_proj.weight", width, hidden)};
    const sl_dense_up_weight_value w_up = {
        sl_builder_matrix(b, "mlp.up_proj.weight", width, hidden)};
    const sl_dense_down_weight_value w_down = {
        sl_builder_matrix(b, "mlp.down_proj.weight", hidden, width)};
    const sl_dense_mid_value mid =
        sl_wire_dense_swiglu(g, sl_wire_dense_gate(g, x, w_gate), sl_wire_dense_up(g, x, w_up));
    return sl_wire_dense_down(g, mid, w_down);
}

static sl_expert_base_value declare_experts(sl_builder *b) {
    const sl_model_config *c = b->config;
    char name[64];
    (void)snprintf(name, sizeof name, "layers.%u.experts", b->layer);
    const sl_type *gate = &b->shape->experts->layer[b->layer].matrices[SL_GATE].type;
    return (sl_expert_base_value){
        sl_graph_declare(b->graph, SL_VALUE_EXPERTS, name,
                         sl_type_make(gate->dtype, 3, (int64_t)c->experts, (int64_t)c->expert_width,
                                      (int64_t)c->hidden))};
}

static sl_routes route_groups(sl_builder *b, sl_router_logits_value logits) {
    const sl_model_config *c = b->config;
    const sl_route_correction_value correction = {
        sl_builder_vector(b, "mlp.gate.e_score_correction_bias", c->experts)};
    return sl_wire_route_groups(b->graph, logits, correction,
                                (sl_route_groups_attrs){.k = c->experts_used,
                                                        .normalise = c->normalise_routes,
                                                        .groups = c->expert_groups,
                                                        .groups_kept = c->expert_groups_kept,
                                                        .scale = c->routed_scale});
}

static sl_routes route(sl_builder *b, sl_moe_input_value x, const sl_experts_options *options) {
    const sl_model_config *c = b->config;
    char name[64];
    (void)snprintf(name, sizeof name, "%s.weight", options->router ? options->router : "mlp.gate");
    const sl_router_weight_value router = {sl_builder_matrix(b, name, c->experts, c->hidden)};
    sl_router_logits_value logits = sl_wire_router(b->graph, x, router);
    if (options->biased) {
        (void)snprintf(name, sizeof name, "%s.bias", options->router);
        logits = sl_wire_router_bias(
            b->graph, logits, (sl_router_bias_value){sl_builder_vector(b, name, c->experts)});
    }
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
    const sl_dims inner = {2, {c->experts, c->expert_width}}, outer = {2, {c->experts, c->hidden}};
    const sl_weight_kind kind = SL_WEIGHT_VECTOR;
    const sl_expert_biases biases = {
        {sl_builder_tensor(b, "mlp.experts.gate_proj_bias", kind, inner, NULL)},
        {sl_builder_tensor(b, "mlp.experts.up_proj_bias", kind, inner, NULL)},
        {sl_builder_tensor(b, "mlp.experts.down_proj_bias", kind, outer, NULL)},
    };
    return sl_wire_moe_ffn_biased(b->graph, x, groups, biases, base,
                                  (sl_moe_ffn_biased_attrs){.layer = b->layer,
                                                            .k = c->experts_used,
                                                            .limit = c->swiglu_limit,
                                                            .alpha = c->swiglu_alpha});
}

static sl_shared_out_value shared_expert(sl_builder *b, sl_moe_input_value x,
                                         const sl_experts_options *options) {
    static const char *const names[][3] = {
        [SL_SHARED_GATED] = {"mlp.shared_expert.gate_proj.weight",
                             "mlp.shared_expert.up_proj.weight",
                             "mlp.shared_expert.down_proj.weight"},
        [SL_SHARED_ADDED] = {"mlp.shared_experts.gate_proj.weight",
                             "mlp.shared_experts.up_proj.weight",
                             "mlp.shared_experts.down_proj.weight"},
    };
    sl_graph *g = b->graph;
    const char *const *name = names[options->shared];
    const int64_t width = b->config->shared_width, hidden = b->config->hidden;
    const sl_shared_gate_weight_value w_gate = {sl_builder_matrix(b, name[0], width, hidden)};
    const sl_shared_up_weight_value w_up = {sl_builder_matrix(b, name[1], width, hidden)};
    const sl_shared_down_weight_value w_down = {sl_builder_matrix(b, name[2], hidden, width)};
    const sl_shared_mid_value mid =
        sl_wire_shared_swiglu(g, sl_wire_shared_gate(g, x, w_gate), sl_wire_shared_up(g, x, w_up));
    return sl_wire_shared_down(g, mid, w_down);
}

/* The shared expert comes before the routed ones in the graph: it runs while those are read. */
sl_moe_out_value sl_block_experts(sl_builder *b, sl_moe_input_value x,
                                  const sl_experts_options *options) {
    sl_graph *g = b->graph;
    const sl_model_config *c = b->config;
    const sl_expert_base_value base = declare_experts(b);
    const sl_routes routes = route(b, x, options);
    const sl_expert_groups groups = sl_wire_moe_group(g, routes.experts, base, b->layer);
    const bool shares = options->shared != SL_SHARED_NONE && c->shared_width > 0;
    sl_shared_out_value shared = {0};
    if (shares) shared = shared_expert(b, x, options);
    const sl_expert_out_value out = run_experts(b, x, groups, base, options);
    const sl_routed_out_value routed = sl_wire_moe_combine(g, out, routes.weights);
    if (!shares) return sl_wire_routed_alone(routed);
    if (options->shared == SL_SHARED_ADDED) return sl_wire_shared_add(g, routed, shared);
    const sl_shared_mix_weight_value w_mix = {
        sl_builder_matrix(b, "mlp.shared_expert_gate.weight", 1, c->hidden)};
    return sl_wire_shared_combine(g, routed, shared, sl_wire_shared_mix(g, x, w_mix));
}

sl_residual_value sl_block_second_half(sl_builder *b, sl_residual_value residual,
                                       const sl_experts_options *options) {
    const sl_moe_input_value x = sl_block_ffn_norm(b, residual);
    if (b->config->layer[b->layer].sparse)
        return sl_block_add(b, residual, sl_as_residual_update(sl_block_experts(b, x, options)));
    return sl_block_add(b, residual, sl_as_residual_update(sl_block_dense(b, x)));
}
