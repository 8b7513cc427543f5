// expect: incompatible type|passing
#include "engine/models/wire.h"

sl_delta_mixed_value f(sl_graph *g, sl_delta_qkv_value x, sl_conv_weight_value w,
                       sl_conv_state_value window, sl_delta_state_value memory, sl_rows rows);
sl_delta_mixed_value f(sl_graph *g, sl_delta_qkv_value x, sl_conv_weight_value w,
                       sl_conv_state_value window, sl_delta_state_value memory, sl_rows rows) {
    (void)window, (void)memory;
#ifdef WRONG
    return sl_wire_conv(g, x, w, memory, rows);
#else
    return sl_wire_conv(g, x, w, window, rows);
#endif
}
