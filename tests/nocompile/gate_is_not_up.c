// expect: incompatible type|passing
#include "engine/models/wire.h"

sl_shared_mid_value f(sl_graph *g, sl_shared_gate_out_value gate, sl_shared_up_out_value up);
sl_shared_mid_value f(sl_graph *g, sl_shared_gate_out_value gate, sl_shared_up_out_value up) {
#ifdef WRONG
    return sl_wire_shared_swiglu(g, up, gate);
#else
    return sl_wire_shared_swiglu(g, gate, up);
#endif
}
