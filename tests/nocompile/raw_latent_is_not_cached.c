// expect: incompatible type|incompatible-pointer|passing
/* A latent vector before its norm is not what values are rebuilt from. */
#include "engine/models/wire.h"

sl_attn_out_value f(sl_graph *g, sl_latent_raw_value raw, sl_attn_latent_value mixed,
                    sl_v_rebuild_weight_value w);
sl_attn_out_value f(sl_graph *g, sl_latent_raw_value raw, sl_attn_latent_value mixed,
                    sl_v_rebuild_weight_value w) {
    (void)raw, (void)mixed;
#ifdef WRONG
    return sl_wire_rebuild(g, raw, w);
#else
    return sl_wire_rebuild(g, mixed, w);
#endif
}
