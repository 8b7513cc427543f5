// expect: incompatible type|passing
/* Keys enter the cache after norm and rope, never before. */
#include "engine/models/wire.h"

sl_kv f(sl_graph *g, sl_kv cache, sl_k_proj_out_value raw, sl_k_value k, sl_v_value v,
        sl_rows rows);
sl_kv f(sl_graph *g, sl_kv cache, sl_k_proj_out_value raw, sl_k_value k, sl_v_value v,
        sl_rows rows) {
    (void)raw, (void)k;
#ifdef WRONG
    return sl_wire_kv_append(g, cache, raw, v, rows);
#else
    return sl_wire_kv_append(g, cache, k, v, rows);
#endif
}
