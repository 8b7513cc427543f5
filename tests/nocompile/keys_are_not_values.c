// expect: incompatible type|passing
#include "engine/models/wire.h"

sl_kv f(sl_graph *g, sl_kv cache, sl_k_value k, sl_v_value v, sl_rows rows);
sl_kv f(sl_graph *g, sl_kv cache, sl_k_value k, sl_v_value v, sl_rows rows) {
#ifdef WRONG
    return sl_wire_kv_append(g, cache, v, k, rows);
#else
    return sl_wire_kv_append(g, cache, k, v, rows);
#endif
}
