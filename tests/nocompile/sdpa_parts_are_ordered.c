// expect: incompatible type|passing
/* The parts of divided attention: weighted values, and their weights. */
#include "engine/models/wire.h"

sl_attn_out_value f(sl_graph *g, sl_attn_parts parts);
sl_attn_out_value f(sl_graph *g, sl_attn_parts parts) {
#ifdef WRONG
    return sl_wire_sdpa_merge(g, parts.weights, parts.mixes);
#else
    return sl_wire_sdpa_merge(g, parts.mixes, parts.weights);
#endif
}
