// expect: incompatible type|passing
/* The two norms of a layer have one shape and two purposes. */
#include "engine/models/wire.h"

sl_q_proj_out_value f(sl_graph *g, sl_attn_input_value x, sl_moe_input_value other,
                      sl_q_weight_value w);
sl_q_proj_out_value f(sl_graph *g, sl_attn_input_value x, sl_moe_input_value other,
                      sl_q_weight_value w) {
    (void)x, (void)other;
#ifdef WRONG
    return sl_wire_q_proj(g, other, w);
#else
    return sl_wire_q_proj(g, x, w);
#endif
}
