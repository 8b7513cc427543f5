// expect: incompatible type|passing
/* The bug that made a whole model answer with its end token: experts fed before their norm. */
#include "engine/models/wire.h"

sl_expert_out_value f(sl_graph *g, sl_residual_value residual, sl_moe_input_value normed,
                      sl_expert_groups groups, sl_expert_base_value experts);
sl_expert_out_value f(sl_graph *g, sl_residual_value residual, sl_moe_input_value normed,
                      sl_expert_groups groups, sl_expert_base_value experts) {
    const sl_moe_ffn_attrs attrs = {.k = 2};
    (void)residual, (void)normed;
#ifdef WRONG
    return sl_wire_moe_ffn(g, residual, groups, experts, attrs);
#else
    return sl_wire_moe_ffn(g, normed, groups, experts, attrs);
#endif
}
