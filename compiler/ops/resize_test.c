/* resize_test.c - Resizing and recurrent layers: against fixtures (tests/data/ops/resize.json,
 * rnn.json), finite differences, and error messages. */
#include "tests/support/node_case.h"

static void resizing_matches_its_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define SL_FAMILY     "core/ops/resize.def"
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/resize.json", ops, sizeof ops / sizeof ops[0]);
}

static void recurrent_layers_match_their_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define SL_FAMILY     "core/ops/rnn.def"
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/rnn.json", ops, sizeof ops / sizeof ops[0]);
}

static void gradients_are_differences(void **state) {
    (void)state;
    static const node_gradient twice = {"resize_nearest2x",          "", {"f64[2,3,4]"}, 0,
                                        "resize_nearest2x_backward", "", {NODE_DY},      1};
    node_check_gradient(&twice);
}

static void resizing_is_checked(void **state) {
    (void)state;
    node_rejects("resize", "", NODE_TYPES("f32[2,3]"), "resize: shape or scales must be given");
    node_rejects("resize", "shape = [2]", NODE_TYPES("f32[2,3]"),
                 "resize: shape has 1 dims, must have 2 or none");
    node_rejects("resize", "shape = [2, 0]", NODE_TYPES("f32[2,3]"),
                 "resize: a dim of the result is 0, must be 1 to 1099511627776");
    node_rejects("resize", "scales = [1.0]", NODE_TYPES("f32[2,3]"),
                 "resize: scales has 1 numbers, must have 2 or none");
    node_rejects("resize", "scales = [1.0, 1.0], extrapolation = 2.0", NODE_TYPES("i64[2,3]"),
                 "resize: extrapolation is 2, must be 0 unless x is a float type");
    node_rejects("resize", "scales = [1.0, -1.0]", NODE_TYPES("f32[2,3]"),
                 "resize: a scale is -1, must be 2^-20 to 2^20");
    node_rejects("resize", "shape = [2, 2], mode = \"bilinear\"", NODE_TYPES("f32[2,3]"),
                 "resize: mode is 'bilinear', which is not a known value");
    node_rejects("resize", "shape = [2, 2], mode = \"linear\"", NODE_TYPES("i32[2,3]"),
                 "resize: x is i32[2,3], its elements must be f32, f16, bf16 or f64");
    node_rejects("resize", "shape = [2, 2], coordinates = \"tf_crop_and_resize\"",
                 NODE_TYPES("f32[2,3]"), "resize: tf_crop_and_resize needs roi");
    node_rejects("resize_nearest2x", "", NODE_TYPES("f32[3]"),
                 "resize_nearest2x: x is f32[3], must have 2 to 8 dims");
    node_rejects("resize_nearest2x_backward", "", NODE_TYPES("f32[2,3]"),
                 "resize_nearest2x_backward: dy is f32[2,3], its last two dims must be even");
}

static void recurrent_layers_are_checked(void **state) {
    (void)state;
    node_rejects("lstm", "", NODE_TYPES("f32[2,1,3]", "f32[1,8,3]", "f32[1,8,3]"),
                 "lstm: r is f32[1,8,3], must be f32[1,12,3], gates of the width of its last dim");
    node_rejects("lstm", "", NODE_TYPES("f32[2,1,3]", "f32[1,8,4]", "f32[1,8,2]"),
                 "lstm: w is f32[1,8,4], must be f32[1,8,3], as r and x say");
    node_rejects("gru", "extras = 8", NODE_TYPES("f32[2,1,3]", "f32[1,6,3]", "f32[1,6,2]"),
                 "gru: extras is 8, must be 0 to 7");
    node_rejects("gru", "extras = 1", NODE_TYPES("f32[2,1,3]", "f32[1,6,3]", "f32[1,6,2]"),
                 "gru: 0 operands follow r, extras 1 wants 1");
    node_rejects("gru", "direction = \"both\"",
                 NODE_TYPES("f32[2,1,3]", "f32[1,6,3]", "f32[1,6,2]"),
                 "gru: direction is 'both', must be forward, reverse or bidirectional");
    node_rejects("rnn", "activations = \"tanh,tanh\"",
                 NODE_TYPES("f32[2,1,3]", "f32[1,2,3]", "f32[1,2,2]"),
                 "rnn: activations are 'tanh,tanh' with 0 alphas and 0 betas, must name one known "
                 "function per gate, each with one number or none");
    node_rejects("rnn", "extras = 2",
                 NODE_TYPES("f32[2,1,3]", "f32[1,2,3]", "f32[1,2,2]", "f32[1]"),
                 "rnn: the elements of lengths are f32, must be i32 or i64");
}

static void lengths_are_checked(void **state) {
    (void)state;
    node_case n;
    node_open(&n, "rnn", "extras = 2");
    const char *const types[] = {"f32[2,1,3]", "f32[1,2,3]", "f32[1,2,2]", "i32[1]"};
    for (int i = 0; i < 4; i++) {
        const sl_type type = node_type(types[i]);
        (void)node_input(&n, &type);
    }
    assert_int_equal(node_run(&n), SL_OK);
    n.in[3].data[0] = 3;
    assert_int_equal(node_run(&n), SL_INVALID);
    assert_string_equal(n.err.message, "rnn: lengths[0] is 3, must be 0 to 2");
    node_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing_matches_its_fixtures),
        cmocka_unit_test(recurrent_layers_match_their_fixtures),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(resizing_is_checked),
        cmocka_unit_test(recurrent_layers_are_checked),
        cmocka_unit_test(lengths_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
