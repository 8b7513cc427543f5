/* norm_test.c - Norms over given axes and their gradients: against PyTorch
 * (tests/data/ops/norm.json), finite differences, and error messages. */
#include "tests/support/node_case.h"

static void every_op_matches_its_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define SL_FAMILY     "core/ops/norm.def"
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/norm.json", ops, sizeof ops / sizeof ops[0]);
}

static const node_gradient gradients[] = {
    {"layer_norm",
     "axis = 1, eps = 1e-3",
     {"f64[3,2,4]", "f64[2,4]", "f64[2,4]"},
     0,
     "layer_norm_backward_input",
     "axis = -2, eps = 1e-3",
     {0, 1, NODE_DY},
     3},
    {"layer_norm",
     "axis = -1, eps = 1e-3",
     {"f64[3,5]", "f64[5]", "f64[5]"},
     1,
     "layer_norm_backward_gain",
     "axis = 1, eps = 1e-3",
     {0, NODE_DY},
     2},
    {"group_norm",
     "groups = 2, eps = 1e-3",
     {"f64[2,4,3]", "f64[4]", "f64[4]"},
     0,
     "group_norm_backward_input",
     "groups = 2, eps = 1e-3",
     {0, 1, NODE_DY},
     3},
    {"group_norm",
     "groups = 2, eps = 1e-3",
     {"f64[2,4,3]", "f64[4]", "f64[4]"},
     1,
     "group_norm_backward_gain",
     "groups = 2, eps = 1e-3",
     {0, NODE_DY},
     2},
    {"group_norm",
     "groups = 1, eps = 1e-3",
     {"f64[2,4,3]", "f64[4]", "f64[4]"},
     2,
     "group_norm_backward_bias",
     "",
     {NODE_DY},
     1},
    {"batch_norm_inference",
     "axis = 1, eps = 1e-3",
     {"f64[2,4,3]", "f64[4]", "f64[4]", "f64[4]", "f64[4]"},
     0,
     "batch_norm_inference_backward_input",
     "axis = 1, eps = 1e-3",
     {1, 4, NODE_DY},
     3},
    {"batch_norm_inference",
     "axis = -1, eps = 1e-3",
     {"f64[2,4]", "f64[4]", "f64[4]", "f64[4]", "f64[4]"},
     1,
     "batch_norm_inference_backward_gain",
     "axis = 1, eps = 1e-3",
     {0, 3, 4, NODE_DY},
     4},
    {"batch_norm_inference",
     "axis = 0, eps = 1e-3",
     {"f64[4,3]", "f64[4]", "f64[4]", "f64[4]", "f64[4]"},
     2,
     "batch_norm_inference_backward_bias",
     "axis = 0",
     {NODE_DY},
     1},
    {"rms_norm",
     "eps = 1e-3, offset = 1.0",
     {"f32[3,5]", "f32[5]"},
     0,
     "rms_norm_backward_input",
     "eps = 1e-3, offset = 1.0",
     {0, 1, NODE_DY},
     3},
    {"rms_norm",
     "eps = 1e-3",
     {"f32[3,5]", "f32[5]"},
     1,
     "rms_norm_backward_gain",
     "eps = 1e-3",
     {0, NODE_DY},
     2},
};

static void gradients_are_differences(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++)
        node_check_gradient(&gradients[i]);
}

static void operands_are_checked(void **state) {
    (void)state;
    node_rejects("layer_norm", "axis = 1", NODE_TYPES("f32[2,3]", "f32[2]", "f32[3]"),
                 "layer_norm: gain is f32[2], must be f32[3], the dims of x from the axis on");
    node_rejects("layer_norm", "axis = -3", NODE_TYPES("f32[2,3]", "f32[3]", "f32[3]"),
                 "layer_norm: axis is -3, must be -2 to 1");
    node_rejects("layer_norm", "", NODE_TYPES("i32[2]", "i32[2]", "i32[2]"),
                 "layer_norm: x is i32[2], its elements must be f32, f16, bf16 or f64");
    node_rejects("layer_norm", "", NODE_TYPES("f32[2]", "f16[2]", "f32[2]"),
                 "layer_norm: gain is f16[2], its elements must be f32 as those of x");
    node_rejects("layer_norm", "", NODE_TYPES("f32[0]", "f32[0]", "f32[0]"),
                 "layer_norm: x is f32[0], must not be empty");
    node_rejects("group_norm", "groups = 2", NODE_TYPES("f32[2,3,4]", "f32[3]", "f32[3]"),
                 "group_norm: x has 3 channels, must be a multiple of 2 groups");
    node_rejects("group_norm", "groups = 0", NODE_TYPES("f32[2,3,4]", "f32[3]", "f32[3]"),
                 "group_norm: groups is 0, must be 1 to 3");
    node_rejects("group_norm", "groups = 1", NODE_TYPES("f32[2]", "f32[3]", "f32[3]"),
                 "group_norm: x is f32[2], must have 2 to 8 dims");
    node_rejects("layer_norm2d", "", NODE_TYPES("f32[2,3,4]", "f32[3]", "f32[4]"),
                 "layer_norm2d: bias is f32[4], must be f32[3], one for each channel of x");
    node_rejects("batch_norm_inference", "axis = 1",
                 NODE_TYPES("f32[2,3]", "f32[3]", "f32[3]", "f32[2]", "f32[3]"),
                 "batch_norm_inference: mean is f32[2], must be f32[3], one for each index of the "
                 "axis");
    node_rejects("group_norm_backward_input", "groups = 1",
                 NODE_TYPES("f32[2,3]", "f32[3]", "f32[3,2]"),
                 "group_norm_backward_input: dy is f32[3,2], must be f32[2,3], as x");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_matches_its_fixtures),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(operands_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
