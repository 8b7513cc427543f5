/* rewrite_elementwise.c - Elementwise ops in terms of other elementwise ops. */
#include "compiler/passes/rewrite.h"
#include <math.h>

bool sl_rewrite_clamp(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    out[0] = sl_rw_binary(g, SL_OP_minimum, sl_rw_binary(g, SL_OP_maximum, in[0], in[1]), in[2]);
    return true;
}

bool sl_rewrite_swiglu(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = sl_rw_binary(g, SL_OP_mul, sl_rw_unary(g, SL_OP_silu, in[0]), in[1]);
    return true;
}

bool sl_rewrite_sigmoid_gate(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = sl_rw_binary(g, SL_OP_mul, in[0], sl_rw_unary(g, SL_OP_sigmoid, in[1]));
    return true;
}

bool sl_rewrite_silu(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = sl_rw_binary(g, SL_OP_mul, in[0], sl_rw_unary(g, SL_OP_sigmoid, in[0]));
    return true;
}

bool sl_rewrite_relu(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    out[0] = sl_rw_with(g, SL_OP_maximum, in[0], 0);
    return true;
}

bool sl_rewrite_gelu_approx(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    if (!sl_rw_is_wide(g, in[0])) return false;
    const sl_value square = sl_rw_binary(g, SL_OP_mul, in[0], in[0]);
    const sl_value curve = sl_rw_with(g, SL_OP_add, sl_rw_with(g, SL_OP_mul, square, 0.044715), 1);
    const sl_value inner =
        sl_rw_binary(g, SL_OP_mul, sl_rw_with(g, SL_OP_mul, in[0], sqrt(2 / M_PI)), curve);
    const sl_value part = sl_rw_with(g, SL_OP_add, sl_rw_unary(g, SL_OP_tanh, inner), 1);
    out[0] = sl_rw_binary(g, SL_OP_mul, sl_rw_with(g, SL_OP_mul, in[0], 0.5), part);
    return true;
}

bool sl_rewrite_reciprocal(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    out[0] = sl_rw_binary(g, SL_OP_div, sl_rw_number(g, sl_rw_type(g, in[0])->dtype, 1), in[0]);
    return true;
}

bool sl_rewrite_rsqrt(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = sl_rw_binary(g, SL_OP_div, sl_rw_number(g, sl_rw_type(g, in[0])->dtype, 1),
                          sl_rw_unary(g, SL_OP_sqrt, in[0]));
    return true;
}

bool sl_rewrite_tan(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    if (!sl_rw_is_wide(g, in[0])) return false;
    out[0] = sl_rw_binary(g, SL_OP_div, sl_rw_unary(g, SL_OP_sin, in[0]),
                          sl_rw_unary(g, SL_OP_cos, in[0]));
    return true;
}

bool sl_rewrite_not_equal(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    (void)node;
    out[0] = sl_rw_unary(g, SL_OP_logical_not, sl_rw_binary(g, SL_OP_equal, in[0], in[1]));
    return true;
}
