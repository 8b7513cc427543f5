// expect: incompatible type|incompatible-pointer|passing
/* The bias of scores changes weights; what corrects their order must not. */
#include "engine/models/wire.h"

sl_routes f(sl_graph *g, sl_router_logits_value logits, sl_router_bias_value bias,
            sl_route_correction_value correction);
sl_routes f(sl_graph *g, sl_router_logits_value logits, sl_router_bias_value bias,
            sl_route_correction_value correction) {
    (void)bias, (void)correction;
#ifdef WRONG
    return sl_wire_route_groups(g, logits, bias, (sl_route_groups_attrs){0});
#else
    return sl_wire_route_groups(g, logits, correction, (sl_route_groups_attrs){0});
#endif
}
