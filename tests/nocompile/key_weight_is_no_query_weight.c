// expect: incompatible type|passing
/* Weights have roles too, from the name of their tensor on. */
#include "engine/models/params.h"

sl_q_proj_out_value f(sl_builder *b, sl_attn_input_value x);
sl_q_proj_out_value f(sl_builder *b, sl_attn_input_value x) {
#ifdef WRONG
    return sl_wire_q_proj(b->graph, x, sl_param_k_weight(b, 64, 64));
#else
    return sl_wire_q_proj(b->graph, x, sl_param_q_weight(b, 64, 64));
#endif
}
