// expect: not compatible with any|_Generic
/* Only what a mixer or the whole MoE block gives may be added to the residual. */
#include "engine/models/wire.h"

sl_residual_value f(sl_graph *g, sl_residual_value residual, sl_moe_out_value out,
                    sl_routed_out_value routed);
sl_residual_value f(sl_graph *g, sl_residual_value residual, sl_moe_out_value out,
                    sl_routed_out_value routed) {
    (void)out, (void)routed;
#ifdef WRONG
    return sl_wire_residual_add(g, residual, sl_as_residual_update(routed));
#else
    return sl_wire_residual_add(g, residual, sl_as_residual_update(out));
#endif
}
