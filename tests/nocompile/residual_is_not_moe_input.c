// expect: incompatible type|incompatible-pointer|passing
/* The residual before its norm must not reach the router or the experts. */
#include "engine/models/wire.h"

sl_router_logits_value f(sl_graph *g, sl_residual_value residual, sl_moe_input_value normed,
                         sl_router_weight_value w);
sl_router_logits_value f(sl_graph *g, sl_residual_value residual, sl_moe_input_value normed,
                         sl_router_weight_value w) {
    (void)residual, (void)normed;
#ifdef WRONG
    return sl_wire_router(g, residual, w);
#else
    return sl_wire_router(g, normed, w);
#endif
}
