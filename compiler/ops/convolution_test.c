/* convolution_test.c - Convolutions, pools and their gradients: against PyTorch
 * (tests/data/ops/convolution.json, pool.json), finite differences, and error messages. */
#include "tests/support/node_case.h"

static void convolutions_match_their_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define SL_FAMILY     "core/ops/convolution.def"
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/convolution.json", ops, sizeof ops / sizeof ops[0]);
}

static void pools_match_their_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define SL_FAMILY     "core/ops/pool.def"
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/pool.json", ops, sizeof ops / sizeof ops[0]);
}

#define ODD "strides = [2, 1], pads_before = [1, 0], pads_after = [0, 2], dilations = [1, 2]"

static void gradients_are_differences(void **state) {
    (void)state;
    static const node_gradient cases[] = {
        {"conv",
         ODD ", groups = 2",
         {"f64[2,4,5,6]", "f64[6,2,3,2]"},
         0,
         "conv_backward_input",
         ODD ", groups = 2, places = [5, 6]",
         {NODE_DY, 1},
         2},
        {"conv",
         ODD ", groups = 2",
         {"f64[2,4,5,6]", "f64[6,2,3,2]"},
         1,
         "conv_backward_weight",
         ODD ", groups = 2, kernel = [3, 2]",
         {0, NODE_DY},
         2},
        {"conv",
         "strides = [3]",
         {"f64[1,2,9]", "f64[3,2,2]"},
         0,
         "conv_backward_input",
         "strides = [3], places = [9]",
         {NODE_DY, 1},
         2},
        {"pool_max",
         "kernel = [2, 2], " ODD,
         {"f64[2,2,5,6]"},
         0,
         "pool_max_backward",
         "kernel = [2, 2], " ODD,
         {0, NODE_DY},
         2},
        {"pool_mean",
         "kernel = [3, 2], " ODD,
         {"f64[2,2,5,6]"},
         0,
         "pool_mean_backward",
         "kernel = [3, 2], " ODD ", places = [5, 6]",
         {NODE_DY},
         1},
        {"pool_mean",
         "kernel = [3, 2], include_pad = 1, ceil = 1, " ODD,
         {"f64[2,2,5,6]"},
         0,
         "pool_mean_backward",
         "kernel = [3, 2], include_pad = 1, ceil = 1, " ODD ", places = [5, 6]",
         {NODE_DY},
         1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) node_check_gradient(&cases[i]);
}

static void operands_are_checked(void **state) {
    (void)state;
    node_rejects("conv", "", NODE_TYPES("f32[1,2]", "f32[1,2]"),
                 "conv: x is f32[1,2], must have 3 to 5 dims");
    node_rejects("conv", "", NODE_TYPES("f32[1,2,5]", "f32[1,2,3,3]"),
                 "conv: w is f32[1,2,3,3], must have 3 dims as x");
    node_rejects("conv", "groups = 2", NODE_TYPES("f32[1,4,5]", "f32[2,4,3]"),
                 "conv: w is f32[2,4,3], its second dim must be 2, the channels of a group");
    node_rejects("conv", "groups = 2", NODE_TYPES("f32[1,4,5]", "f32[3,2,3]"),
                 "conv: w has 3 channels, must be a multiple of 2 groups");
    node_rejects("conv", "groups = 3", NODE_TYPES("f32[1,4,5]", "f32[3,2,3]"),
                 "conv: x has 4 channels, must be a multiple of 3 groups");
    node_rejects("conv", "", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]", "f32[2]"),
                 "conv: bias is f32[2], must be f32[3], one for each channel of the result");
    node_rejects("conv", "", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]", "f32[3]", "f32[3]"),
                 "conv: 2 biases, must be one or none");
    node_rejects("conv", "", NODE_TYPES("f32[1,2,5]", "f16[3,2,3]"),
                 "conv: w is f16[3,2,3], its elements must be f32 as those of x");
    node_rejects("conv", "strides = [1, 1]", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]"),
                 "conv: strides has 2 numbers, must have 1, one for each spatial axis");
    node_rejects("conv", "strides = [0]", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]"),
                 "conv: strides is 0, must be 1 to 2147483647");
    node_rejects("conv", "pads_after = [-1]", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]"),
                 "conv: pads_after is -1, must be 0 to 2147483647");
    node_rejects("conv", "dilations = [3]", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]"),
                 "conv: a window covers 7 positions along spatial axis 0, there are 5 with "
                 "padding");
    node_rejects(
        "fused_conv_bias_act", "", NODE_TYPES("i32[1,2,5]", "i32[3,2,3]"),
        "fused_conv_bias_act: x is i32[1,2,5], its elements must be f32, f16, bf16 or f64");
    node_rejects("fused_conv_bias_act", "act = 7", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]"),
                 "fused_conv_bias_act: act is 7, must be 0 to 6");
    node_rejects("fused_conv_bias_act", "", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]", "f32[2]"),
                 "fused_conv_bias_act: bias is f32[2], must be f32[3], one for each channel of the "
                 "result");
    node_rejects("conv_transpose", "", NODE_TYPES("f32[1,2,5]", "f32[3,2,3]"),
                 "conv_transpose: w has 3 channels, must have 2 as x");
    node_rejects("conv_transpose", "output_padding = [1]", NODE_TYPES("f32[1,2,5]", "f32[2,2,3]"),
                 "conv_transpose: output_padding is 1, must be less than the stride or the "
                 "dilation");
    node_rejects("conv_transpose", "pads_before = [9]", NODE_TYPES("f32[1,2,5]", "f32[2,2,3]"),
                 "conv_transpose: the result would have -2 positions along spatial axis 0");
    node_rejects("conv_backward_input", "places = [9]", NODE_TYPES("f32[1,3,5]", "f32[3,2,3]"),
                 "conv_backward_input: dy has 5 positions along spatial axis 0, must have 7");
    node_rejects("conv_backward_weight", "", NODE_TYPES("f32[1,2,5]", "f32[1,3,3]"),
                 "conv_backward_weight: kernel has 0 numbers, must have 1, one for each spatial "
                 "axis");
    node_rejects("pool_max", "kernel = [2147483647], pads_before = [2147483647]",
                 NODE_TYPES("f32[1,2,5]"),
                 "pool_max: a window has 2147483647 taps, must have at most 65536 with 5 positions "
                 "of the input");
    node_rejects("pool_sum",
                 "kernel = [2097152, 2097152, 2097152], pads_before = [2097152, 2097152, 2097152]",
                 NODE_TYPES("f32[1,2,5,100,100]"),
                 "pool_sum: a window has 9223372036854775808 taps, must have at most 400000 with "
                 "50000 positions of the input");
    node_rejects("pool_max", "kernel = [2]", NODE_TYPES("bool[1,2,5]"),
                 "pool_max: x is bool[1,2,5], its elements must be a float or an integer type");
    node_rejects("pool_mean", "kernel = [2]", NODE_TYPES("i32[1,2,5]"),
                 "pool_mean: x is i32[1,2,5], its elements must be f32, f16, bf16 or f64");
    node_rejects("pool_max", "kernel = [0]", NODE_TYPES("f32[1,2,5]"),
                 "pool_max: kernel is 0, must be 1 to 2147483647");
    node_rejects("lp_pool", "kernel = [2], p = 0", NODE_TYPES("f32[1,2,5]"),
                 "lp_pool: p is 0, must be positive");
    node_rejects("pool_max_backward", "kernel = [2]", NODE_TYPES("f32[1,2,5]", "f32[1,2,5]"),
                 "pool_max_backward: dy is f32[1,2,5], must be f32[1,2,4], as the result of "
                 "pool_max");
    node_rejects("causal_conv1d", "", NODE_TYPES("f32[1,2,5]", "f32[3,4]"),
                 "causal_conv1d: w is f32[3,4], must be f32[2,4], one row for each channel of x");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_match_their_fixtures),
        cmocka_unit_test(pools_match_their_fixtures),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(operands_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
