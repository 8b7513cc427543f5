/* fuse_test.c - Every pattern fires on a small graph, and not when any condition is broken; what a
 * graph computes stays the same, fused and taken apart again. */
#include "compiler/build.h"
#include "compiler/passes/fuse.h"
#include "engine/models/architecture.h"
#include "tests/support/fuse_case.h"
#include "tests/support/shared.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- each pattern ---- */

static const struct {
    const char *pattern, *op, *text;
    uint32_t nodes;
} firing[] = {
    {"add_rms_norm", "add_rms_norm",
     GRAPH("%1 = add(%x, %y) %2 = rms_norm(%1, %g) {eps = 1e-3, offset = 1} %3 = softmax(%1) "
           "output \"o\" = %2 output \"s\" = %3"),
     2},
    {"residual_layer_norm", "fused_residual_ln",
     GRAPH("%1 = add(%x, %y) %2 = layer_norm(%1, %g, %b) {eps = 1e-3} %3 = softmax(%1) "
           "output \"o\" = %2 output \"s\" = %3"),
     2},
    {"residual_layer_norm", "fused_residual_ln",
     GRAPH("%1 = add(%x, %y) %2 = layer_norm(%1, %g, %b) output \"o\" = %2"), 1},
    {"rms_norm_mul", "rms_norm_mul",
     GRAPH("%1 = rms_norm(%x, %g) {eps = 1e-3} %2 = mul(%1, %y) output \"o\" = %2"), 1},
    {"rms_norm_mul", "rms_norm_mul",
     GRAPH("%1 = rms_norm(%x, %g) {eps = 1e-3} %2 = mul(%y, %1) output \"o\" = %2"), 1},
    {"linear_swiglu", "linear_swiglu",
     GRAPH("%1 = linear(%x, %w) %2 = linear(%x, %u) %3 = swiglu(%1, %2) output \"o\" = %3"), 1},
    {"linear_pair", "linear_pair",
     GRAPH("%1 = linear(%x, %w) %2 = linear(%x, %t) output \"o\" = %1 output \"p\" = %2"), 1},
    {"linear_triple", "linear_triple",
     GRAPH("%1 = linear(%x, %w) %2 = linear(%x, %t) %3 = linear(%x, %u) output \"o\" = %1 "
           "output \"p\" = %2 output \"q\" = %3"),
     1},
    {"linear_bias", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) output \"o\" = %2"), 1},
    {"linear_bias", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%b, %1) output \"o\" = %2"), 1},
    {"linear_bias_relu", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = relu(%2) output \"o\" = %3"), 1},
    {"linear_bias_silu", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = silu(%2) output \"o\" = %3"), 1},
    {"linear_bias_gelu", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = gelu(%2) output \"o\" = %3"), 1},
    {"linear_bias_sigmoid", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = sigmoid(%2) output \"o\" = %3"), 1},
    {"linear_bias_tanh", "linear_bias_act",
     GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = tanh(%2) output \"o\" = %3"), 1},
    {"matmul_bias", "fused_matmul_bias_act",
     GRAPH("%1 = matmul(%e, %w) %2 = add(%b, %1) output \"o\" = %2"), 1},
    {"matmul_bias_gelu", "fused_matmul_bias_act",
     GRAPH("%1 = matmul(%x, %w) %2 = add(%1, %b) %3 = gelu(%2) output \"o\" = %3"), 1},
    {"matmul_bias_gelu_approx", "fused_matmul_bias_act",
     GRAPH("%1 = matmul(%x, %w) %2 = add(%1, %b) %3 = gelu_approx(%2) output \"o\" = %3"), 1},
#define CONV_ACT(ACT)                                                                              \
    {"conv_" #ACT, "fused_conv_bias_act",                                                          \
     CONV("%1 = conv(%i, %k) {strides = [2, 1], pads_before = [1, 0], dilations = [1, 2], "        \
          "groups = 2} %2 = " #ACT "(%1) output \"o\" = %2"),                                      \
     1},                                                                                           \
    {                                                                                              \
        "conv_bias_" #ACT, "fused_conv_bias_act",                                                  \
            CONV("%1 = conv(%i, %k, %kb) {groups = 2} %2 = " #ACT "(%1) output \"o\" = %2"), 1     \
    }
    CONV_ACT(relu),
    CONV_ACT(silu),
    CONV_ACT(gelu),
    CONV_ACT(sigmoid),
    CONV_ACT(tanh),
    CONV_ACT(gelu_approx),
    {"swiglu_halves", "fused_swiglu",
     GRAPH("%1, %2 = split(%x) {axis=1, sizes=[4,4]} %3 = swiglu(%2, %1) output \"o\" = %3"), 1},
    {"swiglu_halves", "fused_swiglu",
     GRAPH("%1, %2 = split(%x) {axis=-1, sizes=[4,4]} %3 = swiglu(%1, %2) output \"o\" = %3"), 1},
    {"norm_rope", "norm_rope",
     GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3, offset = 1} %2 = rope_apply(%1, %cos, %sin) "
           "output \"o\" = %2"),
     1},
    {"norm_rope", "norm_rope",
     GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3} %2 = rope_apply(%1, %cos, %sin) {interleaved = 1} "
           "output \"o\" = %2"),
     1},
    {"norm_rope_append", "norm_rope_append",
     GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3} %2 = rope_apply(%1, %cos, %sin) {interleaved = 1} "
           "%3, %4 = kv_append(%2, %v, %slots, %at, %ck, %cv) %5 = sdpa(%q, %3, "
           "%4, %slots, %at) {scale = 0.5, window = 2} output \"o\" = %5"),
     2},
    {"norm_rope_append", "norm_rope_append",
     GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3, offset = 1} %2 = rope_apply(%1, %cos, %sin) "
           "%3, %4 = kv_append(%2, %v, %slots, %at, %ck, %cv) %5 = sdpa(%q, %3, "
           "%4, %slots, %at) {scale = 0.5} output \"o\" = %5"),
     2},
    {"moe_join", "moe_join",
     GRAPH("%1 = moe_combine(%e, %r) %2 = shared_combine(%1, %x, %mix) %3 = add(%y, %2) output "
           "\"o\" = %3"),
     1},
    {"moe_join", "moe_join",
     GRAPH("%1 = moe_combine(%e, %r) %2 = shared_combine(%1, %x, %mix) %3 = add(%2, %y) output "
           "\"o\" = %3"),
     1},
    {"moe_add", "moe_add", GRAPH("%1 = moe_combine(%e, %r) %2 = add(%y, %1) output \"o\" = %2"), 1},
    {"moe_add", "moe_add", GRAPH("%1 = moe_combine(%e, %r) %2 = add(%1, %y) output \"o\" = %2"), 1},
    {"moe_add_shared", "moe_add_shared",
     GRAPH("%1 = moe_combine(%e, %r) %2 = add(%1, %x) %3 = add(%y, %2) output \"o\" = %3"), 1},
    {"moe_add_shared", "moe_add_shared",
     GRAPH("%1 = moe_combine(%e, %r) %2 = add(%x, %1) %3 = add(%2, %y) output \"o\" = %3"), 1},
    {"moe_add_shared", "moe_add_shared",
     GRAPH("%1 = moe_combine(%e, %r) %2 = add(%y, %1) %3 = add(%2, %x) %4 = rms_norm(%3, %g) {eps "
           "= 1e-3} output \"o\" = %4"),
     2},
    {"add3", "add3", GRAPH("%1 = add(%x, %y) %2 = add(%1, %z) output \"o\" = %2"), 1},
    {"add3", "add3", GRAPH("%1 = add(%x, %y) %2 = add(%z, %1) output \"o\" = %2"), 1},
    {"elementwise_region", "elementwise_region",
     GRAPH("%1 = mul(%x, %y) %2 = exp(%1) %3 = sub(%2, %x) %4 = maximum(%3, %z) output \"o\" = "
           "%4"),
     1},
};

static void every_pattern_fires(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof firing / sizeof firing[0]; i++) {
        sl_graph *graph = NULL;
        sl_fusion_report report;
        round_trip(firing[i].text, &graph, &report);
        if (count_op(graph, firing[i].op) != 1 || graph->node_count != firing[i].nodes)
            fail_msg("%s: %u nodes, %u of them %s", firing[i].pattern, graph->node_count,
                     count_op(graph, firing[i].op), firing[i].op);
        bool noted = false;
        for (uint32_t r = 0; r < report.row_count; r++)
            noted |=
                !report.rows[r].reason && strcmp(report.rows[r].pattern, firing[i].pattern) == 0;
        if (!noted) fail_msg("%s is not in the report", firing[i].pattern);
        sl_graph_destroy(graph);
    }
}

/* The pattern must not fire, and the report must say why. */
static void refused(const char *pattern, const char *reason, const char *text) {
    sl_graph *graph = NULL;
    sl_fusion_report report;
    round_trip(text, &graph, &report);
    const char *found = NULL;
    for (uint32_t r = 0; r < report.row_count; r++) {
        if (strcmp(report.rows[r].pattern, pattern) != 0) continue;
        if (!report.rows[r].reason) fail_msg("%s fired: %s", pattern, text);
        found = report.rows[r].reason;
    }
    if (!found || !strstr(found, reason))
        fail_msg("%s: '%s', wanted '%s'", pattern, found ? found : "nothing reported", reason);
    sl_graph_destroy(graph);
}

static void values_used_elsewhere_stay(void **state) {
    (void)state;
    refused("rms_norm_mul", "normed is used elsewhere too",
            GRAPH("%1 = rms_norm(%x, %g) {eps = 1e-3} %2 = mul(%1, %y) %3 = softmax(%1) output "
                  "\"o\" = %2 output \"p\" = %3"));
    refused("linear_swiglu", "gate is used elsewhere too",
            GRAPH("%1 = linear(%x, %w) %2 = linear(%x, %u) %3 = swiglu(%1, %2) %4 = softmax(%1) "
                  "output \"o\" = %3 output \"p\" = %4"));
    refused("linear_bias", "y is used elsewhere too",
            GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = softmax(%1) output \"o\" = %2 output "
                  "\"p\" = %3"));
    refused("linear_bias_relu", "y is used elsewhere too",
            GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = relu(%2) %4 = softmax(%2) output "
                  "\"o\" = %3 output \"p\" = %4"));
    refused("conv_bias_silu", "y is used elsewhere too",
            CONV("%1 = conv(%i, %k, %kb) {groups = 2} %2 = silu(%1) %3 = softmax(%1) output "
                 "\"o\" = %2 output \"p\" = %3"));
    refused("norm_rope", "normed is used elsewhere too",
            GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3} %2 = rope_apply(%1, %cos, %sin) "
                  "%3 = softmax(%1) output \"o\" = %2 output \"p\" = %3"));
    refused(
        "norm_rope_append", "turned is used elsewhere too",
        GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3} %2 = rope_apply(%1, %cos, %sin) %3, "
              "%4 = kv_append(%2, %v, %slots, %at, %ck, %cv) %5 = softmax(%2) output \"o\" = %5"));
    refused("moe_join", "routed is used elsewhere too",
            GRAPH("%1 = moe_combine(%e, %r) %2 = shared_combine(%1, %x, %mix) %3 = add(%y, %2) %4 "
                  "= softmax(%1) output \"o\" = %3 output \"p\" = %4"));
    refused("moe_join", "both is used elsewhere too",
            GRAPH("%1 = moe_combine(%e, %r) %2 = shared_combine(%1, %x, %mix) %3 = add(%y, %2) %4 "
                  "= softmax(%2) output \"o\" = %3 output \"p\" = %4"));
    refused("moe_add", "routed is used elsewhere too",
            GRAPH("%1 = moe_combine(%e, %r) %2 = add(%y, %1) %3 = softmax(%1) output \"o\" = %2 "
                  "output \"p\" = %3"));
    refused("moe_add_shared", "both is used elsewhere too",
            GRAPH("%1 = moe_combine(%e, %r) %2 = add(%1, %x) %3 = add(%y, %2) %4 = softmax(%2) "
                  "output \"o\" = %3 output \"p\" = %4"));
    refused("add3", "sum is used elsewhere too",
            GRAPH("%1 = add(%x, %y) %2 = add(%1, %z) %3 = softmax(%1) output \"o\" = %2 output "
                  "\"p\" = %3"));
}

static void outputs_stay(void **state) {
    (void)state;
    refused("rms_norm_mul", "normed is an output",
            GRAPH("%1 = rms_norm(%x, %g) {eps = 1e-3} %2 = mul(%1, %y) output \"o\" = %2 output "
                  "\"p\" = %1"));
    refused("linear_swiglu", "up is an output",
            GRAPH("%1 = linear(%x, %w) %2 = linear(%x, %u) %3 = swiglu(%1, %2) output \"o\" = %3 "
                  "output \"p\" = %2"));
    refused("linear_bias", "y is an output",
            GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) output \"o\" = %2 output \"p\" = %1"));
    refused("linear_bias_gelu", "y is an output",
            GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = gelu(%2) output \"o\" = %3 output "
                  "\"p\" = %2"));
    refused("conv_relu", "y is an output",
            CONV("%1 = conv(%i, %k) {groups = 2} %2 = relu(%1) output \"o\" = %2 output "
                 "\"p\" = %1"));
    refused("norm_rope", "normed is an output",
            GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3} %2 = rope_apply(%1, %cos, %sin) "
                  "output \"o\" = %2 output \"p\" = %1"));
    refused("norm_rope_append", "turned is an output",
            GRAPH("%1 = rms_norm(%q, %h) {eps = 1e-3} %2 = rope_apply(%1, %cos, %sin) "
                  "%3, %4 = kv_append(%2, %v, %slots, %at, %ck, %cv) output \"o\" = %2"));
    refused("moe_join", "both is an output",
            GRAPH("%1 = moe_combine(%e, %r) %2 = shared_combine(%1, %x, %mix) %3 = add(%y, %2) "
                  "output \"o\" = %3 output \"p\" = %2"));
    refused("add3", "sum is an output",
            GRAPH("%1 = add(%x, %y) %2 = add(%1, %z) output \"o\" = %2 output \"p\" = %1"));
}

static void shapes_must_fit(void **state) {
    (void)state;
    refused("add_rms_norm", "b is f32[1,8]",
            GRAPH("%1 = add(%x, %row) %2 = rms_norm(%1, %g) {eps = 1e-3} output \"o\" = %2"));
    refused("rms_norm_mul", "y is f32[1,8]",
            GRAPH("%1 = rms_norm(%x, %g) {eps = 1e-3} %2 = mul(%1, %row) output \"o\" = %2"));
    refused("linear_bias", "bias is f32[4,8]",
            GRAPH("%1 = linear(%x, %w) %2 = add(%1, %y) output \"o\" = %2"));
    refused("linear_bias", "bias is f32[1,8]",
            GRAPH("%1 = linear(%x, %w) %2 = add(%1, %row) output \"o\" = %2"));
    refused("moe_join", "residual is f32[1,8]",
            GRAPH("%1 = moe_combine(%e, %r) %2 = shared_combine(%1, %x, %mix) %3 = add(%row, %2) "
                  "output \"o\" = %3"));
    refused("moe_add", "residual is f32[1,8]",
            GRAPH("%1 = moe_combine(%e, %r) %2 = add(%row, %1) output \"o\" = %2"));
    refused(
        "moe_add_shared", "residual is f32[1,8]",
        GRAPH("%1 = moe_combine(%e, %r) %2 = add(%x, %1) %3 = add(%2, %row) output \"o\" = %3"));
    refused("add3", "c is f32[1,8]",
            GRAPH("%1 = add(%x, %y) %2 = add(%1, %row) output \"o\" = %2"));
    refused("matmul_bias", "y would not be rounded to f16",
            GRAPH("input %ha : f16[4,8] input %hb : f16[8,8] input %hc : f16[8] "
                  "%1 = matmul(%ha, %hb) %2 = add(%1, %hc) output \"o\" = %2"));
    refused("conv_gelu", "y would not be rounded to bf16",
            GRAPH("input %hi : bf16[1,2,5] input %hk : bf16[3,2,2] "
                  "%1 = conv(%hi, %hk) %2 = gelu(%1) output \"o\" = %2"));
    refused("conv_bias_relu", "x is i32[1,2,5]",
            GRAPH("input %ii : i32[1,2,5] input %ik : i32[3,2,2] input %ib : i32[3] "
                  "%1 = conv(%ii, %ik, %ib) %2 = relu(%1) output \"o\" = %2"));
    refused("residual_layer_norm", "residual is f32[1,8]",
            GRAPH("%1 = add(%x, %row) %2 = layer_norm(%1, %g, %b) output \"o\" = %2"));
    refused("residual_layer_norm", "sum would not be rounded to f16",
            GRAPH("input %ha : f16[4,8] input %hb : f16[4,8] input %hc : f16[8] "
                  "%1 = add(%ha, %hb) %2 = layer_norm(%1, %hc, %hc) output \"o\" = %2"));
    refused("add_rms_norm", "sum would not be rounded to bf16",
            GRAPH("input %ha : bf16[4,8] input %hb : bf16[4,8] input %hc : bf16[8] "
                  "%1 = add(%ha, %hb) %2 = rms_norm(%1, %hc) output \"o\" = %2"));
    refused("add3", "a is i32[4,8]",
            GRAPH("%1 = add(%ints, %ints) %2 = add(%1, %ints) output \"o\" = %2"));
}

/* Two products of one x are one step only where both weights exist. */
static void operands_must_exist(void **state) {
    (void)state;
    refused("linear_pair", "wb is made later",
            GRAPH("%1 = linear(%x, %w) %2 = transpose(%late) {perm = [1, 0]} %3 = linear(%x, %2) "
                  "output \"o\" = %1 output \"p\" = %3"));
    refused(
        "linear_pair", "wb is made by a part",
        GRAPH("%1 = linear(%late, %w) %2 = linear(%late, %1) output \"o\" = %1 output \"p\" = %2"));
    refused("add3", "c is made by a part",
            GRAPH("%1 = add(%x, %y) %2 = add(%1, %1) output \"o\" = %2"));
    refused("rms_norm_mul", "y is made by a part",
            GRAPH("%1 = rms_norm(%x, %g) {eps = 1e-3} %2 = mul(%1, %1) output \"o\" = %2"));
}

static void a_kept_sum_is_there_in_time(void **state) {
    (void)state;
    refused("add_rms_norm", "sum is needed before",
            GRAPH("%1 = add(%x, %y) %2 = softmax(%1) %3 = rms_norm(%1, %g) {eps = 1e-3} output "
                  "\"o\" = %2 output \"p\" = %3"));
    refused("residual_layer_norm", "sum is needed before",
            GRAPH("%1 = add(%x, %y) %2 = softmax(%1) %3 = layer_norm(%1, %g, %b) output "
                  "\"o\" = %2 output \"p\" = %3"));
}

/* A read does not move behind the update of what it reads. */
static void states_are_read_in_order(void **state) {
    (void)state;
    refused("norm_rope", "the state x is updated in between",
            "graph \"g\" { input %k : f32[2,2,6] input %slots : i32[2] input %at : i32[2]\n"
            "weight %h : f32[6] input %cos : f32[2,1,2] input %sin : f32[2,1,2]\n"
            "state %s : f32[2,2,6] input %c : f32[4,6] weight %w : f32[6,3]\n"
            "input %four : i32[4] input %at4 : i32[4] state %t : f32[2,2,6]\n"
            "%1 = rms_norm(%t, %h) {eps = 1e-3}\n"
            "%2, %3 = causal_conv(%c, %w, %four, %at4, %t)\n"
            "%4 = rope_apply(%1, %cos, %sin)\n"
            "output \"o\" = %4 output \"p\" = %2 }");
}

/* A table is an operand like others: where it comes from does not matter. */
static void tables_may_be_made_by_anything(void **state) {
    (void)state;
    sl_graph *graph = NULL;
    sl_fusion_report report;
    round_trip(
        GRAPH(
            "%0, %9 = rope_table(%slots) {rotary = 4, theta = 100} %1 = rms_norm(%q, %h) {eps "
            "= 1e-3} %2 = rope_apply(%1, %0, %9) %3, %4 = kv_append(%2, %v, %slots, %at, %ck, %cv) "
            "%5 = sdpa(%q, %3, %4, %slots, %at) {scale = 1} output \"o\" = %5"),
        &graph, &report);
    assert_int_equal(count_op(graph, "norm_rope_append"), 1);
    assert_int_equal(count_op(graph, "rope_table"), 1);
    sl_graph_destroy(graph);
}

/* A gate and its operand are halves of rows. */
static void only_halves_of_rows_are_gated(void **state) {
    (void)state;
    sl_graph *graph = NULL;
    sl_fusion_report report;
    round_trip(
        GRAPH("%1, %2 = split(%x) {axis=0, sizes=[2,2]} %3 = swiglu(%1, %2) output \"o\" = %3"),
        &graph, &report);
    assert_int_equal(count_op(graph, "fused_swiglu"), 0);
    sl_graph_destroy(graph);
}

/* Only a bias without an activation takes one. */
static void one_activation_is_enough(void **state) {
    (void)state;
    sl_graph *graph = NULL;
    sl_fusion_report report;
    round_trip(
        GRAPH("%1 = linear(%x, %w) %2 = add(%1, %b) %3 = relu(%2) %4 = tanh(%3) output \"o\" = %4"),
        &graph, &report);
    assert_int_equal(graph->node_count, 2);
    assert_int_equal(((const sl_linear_bias_act_attrs *)graph->nodes[0].attrs)->act, 1);
    assert_int_equal(count_op(graph, "tanh"), 1);
    sl_graph_destroy(graph);
}

/* The attributes of the convolution stay, and a second activation is a node of its own. */
static void a_convolution_keeps_its_windows(void **state) {
    (void)state;
    sl_graph *graph = NULL;
    sl_fusion_report report;
    round_trip(CONV("%1 = conv(%i, %k, %kb) {strides = [2, 1], pads_after = [1, 3], groups = 2} "
                    "%2 = tanh(%1) %3 = relu(%2) output \"o\" = %3"),
               &graph, &report);
    assert_int_equal(graph->node_count, 2);
    const sl_node *node = &graph->nodes[0];
    const sl_fused_conv_bias_act_attrs *attrs = node->attrs;
    assert_int_equal(node->op, SL_OP_fused_conv_bias_act);
    assert_int_equal(node->input_count, 3);
    assert_int_equal(attrs->act, 5);
    assert_int_equal(attrs->groups, 2);
    assert_int_equal(attrs->strides.items[0], 2);
    assert_int_equal(attrs->pads_after.items[1], 3);
    assert_int_equal(attrs->pads_before.count, 0);
    assert_int_equal(graph->nodes[1].op, SL_OP_relu);
    sl_graph_destroy(graph);
}

/* States, outputs and values used elsewhere end a region; operands may broadcast and be integers.
 */
static void regions_end(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t nodes, regions;
    } rows[] = {
        {GRAPH("%1 = mul(%x, %row) %2 = exp(%1) output \"o\" = %2"), 1, 1},
        {GRAPH("%1 = mul(%x, %s) %2 = exp(%1) output \"o\" = %2"), 2, 0},
        {GRAPH("%1 = mul(%x, %y) %2 = exp(%1) output \"o\" = %2 output \"p\" = %1"), 2, 0},
        {GRAPH(
             "%1 = mul(%x, %y) %2 = exp(%1) %3 = softmax(%1) output \"o\" = %2 output \"p\" = %3"),
         3, 0},
        {GRAPH("%1 = neg(%ints) %2 = abs(%1) output \"o\" = %2"), 1, 1},
        {GRAPH("%1 = exp(%x) output \"o\" = %1"), 1, 0},
        {GRAPH("%1 = tanh(%x) %2 = tanh(%1) %3 = tanh(%2) %4 = tanh(%3) %5 = tanh(%4) %6 = "
               "tanh(%5) %7 = tanh(%6) %8 = tanh(%7) output \"o\" = %8"),
         1, 1},
        {GRAPH("%1 = tanh(%x) %2 = mul(%1, %1) %3 = mul(%2, %1) output \"o\" = %3"), 1, 1},
        {GRAPH("%0 = softmax(%x) %8 = softmax(%y) %1 = mul(%x, %y) %2 = sub(%z, %0) %3 = sub(%1, "
               "%2) %4 = div(%3, %8) output \"o\" = %4"),
         3, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sl_graph *graph = NULL;
        sl_fusion_report report;
        round_trip(rows[i].text, &graph, &report);
        if (graph->node_count != rows[i].nodes ||
            count_op(graph, "elementwise_region") != rows[i].regions)
            fail_msg("row %zu: %u nodes, %u regions", i, graph->node_count,
                     count_op(graph, "elementwise_region"));
        sl_graph_destroy(graph);
    }
}

static void labels_name_all_parts(void **state) {
    (void)state;
    static const struct {
        const char *text, *label;
    } rows[] = {
        {GRAPH("%1 = add(%x, %y) %2 = rms_norm(%1, %g) {eps = 1e-3} output \"o\" = %2"),
         "add+rms_norm"},
        {GRAPH("scope \"one\" %1 = add(%x, %y) scope \"two\" label \"norm\" %2 = rms_norm(%1, %g) "
               "{eps = 1e-3} output \"o\" = %2"),
         "one add, two norm"},
        {GRAPH("scope \"layer 0\" label \"a\" %1 = exp(%x) label \"b\" %2 = neg(%1) "
               "scope \"layer 1\" %3 = abs(%2) output \"o\" = %3"),
         "layer 0 a+b, layer 1 abs"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sl_graph *graph = parse(rows[i].text);
        assert_int_equal(sl_fuse(graph, NULL, NULL), SL_OK);
        assert_string_equal(graph->nodes[0].label, rows[i].label);
        sl_graph_destroy(graph);
    }
}

static void fusing_again_changes_nothing(void **state) {
    (void)state;
    sl_error err = {0};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_graph *graph =
        parse(GRAPH("%1 = linear(%x, %w) %2 = linear(%x, %u) %3 = swiglu(%1, %2) %4 = add(%3, %x) "
                    "%5 = rms_norm(%4, %g) {eps = 1e-3} %6 = linear(%5, %t) %7 = linear(%5, %w) "
                    "output \"o\" = %6 output \"p\" = %7 output \"q\" = %4"));
    assert_int_equal(sl_fuse(graph, NULL, &err), SL_OK);
    assert_int_equal(graph->node_count, 3);
    const char *once = print(graph, &arena);
    sl_fusion_report report;
    assert_int_equal(sl_fuse(graph, &report, &err), SL_OK);
    assert_int_equal(report.fused_nodes, 0);
    assert_string_equal(print(graph, &arena), once);
    sl_graph_destroy(graph);
    sl_arena_deinit(&arena);
}

/* ---- memory ---- */

typedef struct {
    uint32_t allowed;
    int64_t held;
} budget;

static void *budgeted(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    budget *b = ctx;
    (void)old_bytes;
    if (new_bytes == 0) {
        b->held -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    assert_null(ptr);
    if (b->allowed == 0) return NULL;
    b->allowed--;
    void *fresh = NULL;
    if (posix_memalign(&fresh, align < sizeof(void *) ? sizeof(void *) : align, new_bytes))
        return NULL;
    memset(fresh, 0, new_bytes);
    b->held++;
    return fresh;
}

static void no_memory_is_reported(void **state) {
    (void)state;
    static const char text[] =
        GRAPH("%1 = add(%x, %y) %2 = rms_norm(%1, %g) {eps = 1e-3} output \"o\" = %2");
    for (uint32_t extra = 0; extra < 2; extra++)
        for (int undo = 0; undo < 2; undo++) {
            budget b = {.allowed = 1000};
            const sl_allocator allocator = {.ctx = &b, .resize = budgeted};
            sl_graph *graph = NULL;
            sl_error err = {0};
            assert_int_equal(sl_graph_parse(text, strlen(text), &allocator, &graph, &err), SL_OK);
            if (undo) assert_int_equal(sl_fuse(graph, NULL, &err), SL_OK);
            b.allowed = extra;
            const sl_status status = undo ? sl_unfuse(graph, &err) : sl_fuse(graph, NULL, &err);
            assert_int_equal(status, extra && !undo ? SL_OK : SL_NO_MEMORY);
            sl_graph_destroy(graph);
            assert_int_equal(b.held, 0);
        }
}

/* ---- graphs at random ---- */

static uint32_t seed;
static uint32_t pick(uint32_t count) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % count;
}

/* One node on values of f32[4,8]; the text names its result by number. */
static void random_node(char *text, size_t capacity, uint32_t made) {
    static const char *const unary[] = {"relu", "silu", "gelu",   "sigmoid",
                                        "tanh", "neg",  "softmax"};
    static const char *const binary[] = {"add", "add", "add", "mul", "mul", "swiglu", "maximum"};
    static const char *const declared[] = {"x", "y", "z", "row"};
    char a[16], b[16];
    (void)snprintf(a, sizeof a, "%u", made ? made - pick(made < 4 ? made : 4) : 0);
    (void)snprintf(b, sizeof b, "%u", made ? 1 + pick(made) : 0);
    const char *x = made ? a : "x", *y = made && pick(3) ? b : declared[pick(3)];
    const uint32_t r = made + 1;
    switch (pick(5)) {
    case 0:
        (void)snprintf(text, capacity, "%%%u = %s(%%%s)\n", r, unary[pick(7)], x);
        break;
    case 1:
        (void)snprintf(text, capacity, "%%%u = linear(%%%s, %%%s)\n", r, x, pick(2) ? "w" : "u");
        break;
    case 2:
        (void)snprintf(text, capacity, "%%%u = rms_norm(%%%s, %%g) {eps = 1e-3}\n", r, x);
        break;
    case 3:
        (void)snprintf(text, capacity, "%%%u = add(%%%s, %%%s)\n", r, x, pick(2) ? "b" : "row");
        break;
    default:
        (void)snprintf(text, capacity, "%%%u = %s(%%%s, %%%s)\n", r, binary[pick(7)], x, y);
    }
}

static void random_graphs_keep_their_meaning(void **state) {
    (void)state;
    uint32_t fused = 0;
    for (uint32_t round = 0; round < 300; round++) {
        static char text[16384];
        seed = round;
        const uint32_t count = 2 + pick(30);
        size_t at = (size_t)snprintf(text, sizeof text, "%s", "graph \"g\" {\n" DECLARATIONS);
        for (uint32_t n = 0; n < count; n++) {
            random_node(text + at, sizeof text - at, n);
            at += strlen(text + at);
        }
        for (uint32_t o = 0; o < 3; o++)
            at += (size_t)snprintf(text + at, sizeof text - at, "output \"%u\" = %%%u\n", o,
                                   o == 0 ? count : 1 + pick(count));
        (void)snprintf(text + at, sizeof text - at, "}\n");
        sl_graph *graph = NULL;
        sl_fusion_report report;
        round_trip(text, &graph, &report);
        fused += report.fused_nodes;
        sl_graph_destroy(graph);
    }
    print_message("  %u nodes went into others\n", fused);
    assert_true(fused > 300);
}

/* ---- a model ---- */

static sl_graph *model_graph(const sl_model_config *config, uint32_t rows, sl_arena *arena) {
    sl_error err = {0};
    sl_weights weights;
    sl_expert_table experts;
    sl_graph *graph = NULL;
    sl_weights_fake(&weights, NULL);
    assert_int_equal(sl_expert_table_fake(config, arena, &experts, &err), SL_OK);
    const sl_forward_shape shape = {.config = config,
                                    .weights = &weights,
                                    .experts = &experts,
                                    .rows = rows,
                                    .wanted = 1,
                                    .slots = 2,
                                    .capacity = 64};
    assert_int_equal(sl_graph_create("step", NULL, &graph, &err), SL_OK);
    if (sl_architecture_build(sl_architecture_find(config->model_type), &shape, graph, &err) !=
        SL_OK)
        fail_msg("%s", err.message);
    sl_weights_deinit(&weights);
    return graph;
}

static char *read_file(const char *path, size_t *bytes) {
    static char text[65536];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *bytes = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    return text;
}

static void count_layers(const sl_graph *graph, const sl_model_config *config) {
    uint32_t full = 0;
    for (uint32_t l = 0; l < config->layers; l++) full += !config->layer[l].linear;
    assert_int_equal(count_op(graph, "norm_rope_append"), full);
    assert_int_equal(count_op(graph, "norm_rope"), full);
    assert_int_equal(count_op(graph, "rope_table"), 1);
    assert_int_equal(count_op(graph, "linear_triple"), full);
    assert_int_equal(count_op(graph, "linear_swiglu"), config->layers);
    assert_int_equal(count_op(graph, "moe_join"), config->layers);
    assert_int_equal(count_op(graph, "add_rms_norm"), config->layers);
    assert_int_equal(count_op(graph, "kv_append") + count_op(graph, "swiglu"), 0);
}

static void a_model_is_fused(void **state) {
    (void)state;
    char path[512];
    size_t bytes;
    sl_arena arena;
    sl_error err = {0};
    sl_model_config config;
    if (!shared_path("models/golden/qwen3_5_moe_a/config.json", path, sizeof path)) skip();
    sl_arena_init(&arena, NULL);
    const char *json = read_file(path, &bytes);
    assert_int_equal(sl_model_config_parse(json, bytes, &arena, &config, &err), SL_OK);
    for (uint32_t rows = 1; rows <= 3; rows += 2) {
        sl_graph *graph = model_graph(&config, rows, &arena);
        sl_fusion_report report;
        const uint32_t before = graph->node_count;
        if (sl_fuse(graph, &report, &err) != SL_OK) fail_msg("%s", err.message);
        verify(graph);
        prints_and_parses(graph);
        print_message("  %u rows, %u layers: %u nodes, %u after fusion\n", rows, config.layers,
                      before, graph->node_count);
        for (uint32_t r = 0; rows == 1 && r < report.row_count; r++)
            print_message("    %-16s %-32s %s\n", report.rows[r].pattern, report.rows[r].label,
                          report.rows[r].reason ? report.rows[r].reason : "fused");
        count_layers(graph, &config);
        if (sl_unfuse(graph, &err) != SL_OK) fail_msg("%s", err.message);
        verify(graph);
        assert_int_equal(graph->node_count, before);
        sl_graph_destroy(graph);
    }
    sl_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_fires),
        cmocka_unit_test(values_used_elsewhere_stay),
        cmocka_unit_test(outputs_stay),
        cmocka_unit_test(shapes_must_fit),
        cmocka_unit_test(operands_must_exist),
        cmocka_unit_test(a_kept_sum_is_there_in_time),
        cmocka_unit_test(states_are_read_in_order),
        cmocka_unit_test(tables_may_be_made_by_anything),
        cmocka_unit_test(only_halves_of_rows_are_gated),
        cmocka_unit_test(one_activation_is_enough),
        cmocka_unit_test(a_convolution_keeps_its_windows),
        cmocka_unit_test(regions_end),
        cmocka_unit_test(labels_name_all_parts),
        cmocka_unit_test(fusing_again_changes_nothing),
        cmocka_unit_test(no_memory_is_reported),
        cmocka_unit_test(random_graphs_keep_their_meaning),
        cmocka_unit_test(a_model_is_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
