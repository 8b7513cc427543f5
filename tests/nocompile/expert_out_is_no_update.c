// expect: not compatible with any|_Generic
/* Only what the whole MoE block or the dense network gives may be added to the residual. */
#include "engine/models/wire.h"

sl_hidden_value f(sl_graph *g, sl_residual_value residual, sl_moe_out_value out,
                  sl_routed_out_value routed);
sl_hidden_value f(sl_graph *g, sl_residual_value residual, sl_moe_out_value out,
                  sl_routed_out_value routed) {
    (void)out, (void)routed;
#ifdef WRONG
    return sl_wire_ffn_residual(g, residual, sl_as_ffn_update(routed));
#else
    return sl_wire_ffn_residual(g, residual, sl_as_ffn_update(out));
#endif
}
