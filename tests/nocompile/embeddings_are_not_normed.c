// expect: incompatible type|passing
/* Embeddings enter the residual stream once, as the input of the first layer. */
#include "engine/models/wire.h"

sl_attn_input_value f(sl_graph *g, sl_embed_out_value embedded, sl_attn_norm_gain_value gain);
sl_attn_input_value f(sl_graph *g, sl_embed_out_value embedded, sl_attn_norm_gain_value gain) {
    const sl_rms_norm_attrs attrs = {.eps = 1e-6f};
#ifdef WRONG
    return sl_wire_attn_norm(g, embedded, gain, attrs);
#else
    return sl_wire_attn_norm(g, sl_wire_first(embedded), gain, attrs);
#endif
}
