// expect: incompatible type|passing
/* Adding the experts to the layer's input would drop attention from the residual stream. */
#include "engine/models/wire.h"

sl_hidden_value f(sl_graph *g, sl_hidden_value hidden, sl_mixer_out_value mixed,
                  sl_moe_out_value experts);
sl_hidden_value f(sl_graph *g, sl_hidden_value hidden, sl_mixer_out_value mixed,
                  sl_moe_out_value experts) {
    const sl_residual_value residual = sl_wire_attn_residual(g, hidden, mixed);
    (void)residual;
#ifdef WRONG
    return sl_wire_ffn_residual(g, hidden, sl_as_ffn_update(experts));
#else
    return sl_wire_ffn_residual(g, residual, sl_as_ffn_update(experts));
#endif
}
