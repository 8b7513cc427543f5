// expect: incompatible type|passing
/* The second norm of a layer comes after its attention. */
#include "engine/models/wire.h"

sl_moe_input_value f(sl_graph *g, sl_hidden_value hidden, sl_residual_value residual,
                     sl_moe_norm_gain_value gain);
sl_moe_input_value f(sl_graph *g, sl_hidden_value hidden, sl_residual_value residual,
                     sl_moe_norm_gain_value gain) {
    (void)hidden, (void)residual;
#ifdef WRONG
    return sl_wire_moe_norm(g, hidden, gain, (sl_rms_norm_attrs){.eps = 1e-6f});
#else
    return sl_wire_moe_norm(g, residual, gain, (sl_rms_norm_attrs){.eps = 1e-6f});
#endif
}
