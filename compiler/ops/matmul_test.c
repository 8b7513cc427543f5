/* matmul_test.c - Matrix products, linear systems, packed weights, losses and quantised numbers:
 * against NumPy and PyTorch (tests/data/ops/linear.json, quant.json, made by
 * tools/make_linear_fixtures.py), finite differences, and error messages. */
#include "core/schemes.h"
#include "tests/support/node_case.h"

static void products_match_their_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/matmul.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/solve.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/loss.def"
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/linear.json", ops, sizeof ops / sizeof ops[0]);
}

static void few_bits_match_their_fixtures(void **state) {
    (void)state;
    static const sl_op ops[] = {
#define SL_FAMILY     "core/ops/quant.def"
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
#undef SL_FAMILY
    };
    node_family("tests/data/ops/quant.json", ops, sizeof ops / sizeof ops[0]);
}

/* ---- gradients ---- */

/* Compares the gradient with finite differences of the loss in f64. */
static void check_loss(const char *forward_op, const char *backward_op, const char *attrs,
                       const char *backward_attrs) {
    node_case forward, backward;
    const bool takes_x = strcmp(backward_op, "nll_backward") != 0;
    const sl_type x = node_type("f64[5,4]"), labels = node_type("i64[5]"), w = node_type("f64[4]");
    node_open(&forward, forward_op, attrs);
    node_random(&forward, &x, -2, 2);
    node_random(&forward, &labels, 0, 4);
    node_random(&forward, &w, 0.5, 2);
    node_open(&backward, backward_op, backward_attrs);
    if (takes_x) memcpy(node_input(&backward, &x), forward.in[0].data, 20 * sizeof(double));
    memcpy(node_input(&backward, &labels), forward.in[1].data, 5 * sizeof(double));
    const sl_type rows = node_type("f64[5]");
    const double *dloss = node_random(&backward, &rows, -1, 1);
    memcpy(node_input(&backward, &w), forward.in[2].data, 4 * sizeof(double));
    if (node_run(&backward) != SL_OK) fail_msg("%s", backward.err.message);
    node_differences(&forward, 0, dloss, backward.out[0].data);
    node_close(&backward);
    node_close(&forward);
}

static void gradients_of_losses_are_differences(void **state) {
    (void)state;
    check_loss("softmax_cross_entropy", "softmax_cross_entropy_backward", "", "");
    check_loss("softmax_cross_entropy", "softmax_cross_entropy_backward", "ignores = 1, ignore = 2",
               "ignores = 1, ignore = 2");
    check_loss("nll", "nll_backward", "", "classes = 4");
    check_loss("nll", "nll_backward", "ignores = 1, ignore = 0",
               "classes = 4, ignores = 1, ignore = 0");
}

/* log1p(e^-50 + e^-60 + e^-65): a label with nearly all of the probability. */
static void small_losses_keep_their_digits(void **state) {
    (void)state;
    const sl_type x = node_type("f64[4]"), label = node_type("i32[]");
    node_case n;
    node_open(&n, "softmax_cross_entropy", "");
    memcpy(node_input(&n, &x), (double[]){60, 0, 10, -5}, 4 * sizeof(double));
    node_random(&n, &label, 0, 1);
    assert_int_equal(node_run(&n), SL_OK);
    assert_true(fabs(n.out[0].data[0] / 1.92883800308059e-22 - 1) < 1e-14);
    node_close(&n);
}

/* ---- packed weights ---- */

/* Every GGUF type is a scheme under its name, and decoding reads only the bytes of its block. */
static void schemes_are_named(void **state) {
    (void)state;
    sl_scheme scheme;
    char known[SL_SCHEMES_TEXT];
    for (int i = 0; i < SL_GGUF_COUNT; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "gguf_%s", sl_gguf_layouts[i].name);
        assert_true(sl_scheme_find(name, &scheme));
        assert_ptr_equal(scheme.gguf, &sl_gguf_layouts[i]);
        assert_non_null(strstr(sl_schemes_known(known, sizeof known), name));
    }
    assert_false(sl_scheme_find("gguf_iq2_xxs", &scheme));
    assert_false(sl_scheme_find("q4_k", &scheme));
    assert_true(sl_scheme_find("nvfp4", &scheme) && !scheme.gguf);
}

/* Blocks decode as in the gguf package (tests/data/blocks/gguf.bin). */
static void blocks_decode_as_the_package_does(void **state) {
    (void)state;
    FILE *file = fopen("tests/data/blocks/gguf.bin", "rb");
    assert_non_null(file);
    struct {
        char name[16];
        uint32_t rows, cols, bytes;
    } head;
    int types = 0;
    for (; fread(&head, sizeof head, 1, file) == 1; types++) {
        for (char *c = head.name; *c; c++)
            if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
        const sl_gguf_layout *layout = sl_gguf_layout_find(head.name);
        if (!layout) {
            fail_msg("no %s", head.name);
            break;
        }
        assert_int_equal(head.bytes, head.cols / layout->cols * layout->bytes);
        const size_t count = (size_t)head.rows * head.cols;
        uint8_t *rows = malloc((size_t)head.rows * head.bytes);
        float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
        assert_true(rows && want && got);
        assert_int_equal(fread(rows, head.bytes, head.rows, file), head.rows);
        assert_int_equal(fread(want, sizeof *want, count, file), count);
        sl_gguf_decode(layout, rows, (int64_t)count / layout->cols, got);
        for (size_t i = 0; i < count; i++)
            if (!(fabsf(got[i] - want[i]) <= 1e-6f * fabsf(want[i])))
                fail_msg("%s: weight %zu is %g instead of %g", head.name, i, (double)got[i],
                         (double)want[i]);
        free(rows), free(want), free(got);
    }
    assert_int_equal(types, 16);
    assert_int_equal(fclose(file), 0);
}

/* ---- errors ---- */

static void singular_systems_are_refused(void **state) {
    (void)state;
    node_case n;
    const sl_type a = node_type("f64[2,2,2]"), b = node_type("f64[2,2]");
    node_open(&n, "batched_dense_solve", "");
    memcpy(node_input(&n, &a), (double[8]){1, 2, 3, 4, 1, 2, 2, 4}, 8 * sizeof(double));
    (void)node_input(&n, &b);
    assert_int_equal(node_run(&n), SL_INVALID);
    assert_string_equal(n.err.message,
                        "batched_dense_solve: a is singular: pivot 1 of matrix 1 is 0");
    node_close(&n);
}

static void products_are_checked(void **state) {
    (void)state;
    node_rejects("matmul", "", NODE_TYPES("f32[2,3]", "f64[3,2]"),
                 "matmul: b is f64[3,2], must be f32 as a f32[2,3]");
    node_rejects("matmul", "", NODE_TYPES("bool[2,3]", "bool[3,2]"),
                 "matmul: a is bool[2,3], must be of f32, f16, bf16, f64, an integer type, c64");
#define DOT(LC, RC, LB, RB)                                                                        \
    "lhs_contract = " LC ", rhs_contract = " RC ", lhs_batch = " LB ", rhs_batch = " RB
    const char *const *two = NODE_TYPES("f32[2,3]", "f32[3,2]");
    node_rejects("dot_general", DOT("[1]", "[1]", "[]", "[]"), two,
                 "dot_general: contracted dim 1 of b is 2, must be 3 as dim 1 of a");
    node_rejects("dot_general", DOT("[1]", "[]", "[]", "[]"), two,
                 "dot_general: 1 contracted dims of a and 0 of b, must be the same number");
    node_rejects("dot_general", DOT("[2]", "[0]", "[]", "[]"), two,
                 "dot_general: lhs_contract is 2, must be -2 to 1");
    node_rejects("dot_general", DOT("[1]", "[0]", "[-1]", "[1]"), two,
                 "dot_general: lhs_contract: dim 1 is named twice");
    node_rejects("dense_solve", "", NODE_TYPES("f32[2,3]", "f32[2]"),
                 "dense_solve: a is f32[2,3], its second dim must be 2 as in a f32[2,3]");
    node_rejects("dense_solve", "", NODE_TYPES("f16[2,2]", "f16[2]"),
                 "dense_solve: a is f16[2,2], must be of f32, f64");
    node_rejects("dense_solve", "", NODE_TYPES("f64[2,2]", "f64[3,2]"),
                 "dense_solve: b is f64[3,2], its first dim must be 2 as in a f64[2,2]");
    node_rejects(
        "batched_dense_solve", "", NODE_TYPES("f64[2,2]", "f64[2]"),
        "batched_dense_solve: a is f64[2,2], must be float[..,B,N,N] (f32, f16, bf16 or f64)");
    node_rejects("lora_matmul", "", NODE_TYPES("f32[2,3]", "f32[3,4]", "f32[3,1]", "f32[2,4]"),
                 "lora_matmul: b is f32[2,4], its first dim must be 1 as in a f32[3,1]");
    node_rejects("grouped_matmul", "", NODE_TYPES("f32[2,3]", "f32[5,3,4]", "u8[2]"),
                 "grouped_matmul: experts is u8[2], must be of i32, i64");
}

static void packed_weights_are_checked(void **state) {
    (void)state;
    const char *const *two = NODE_TYPES("f32[2,256]", "u8[3,144]");
    node_rejects("dequant_matmul", "scheme = \"gguf_q6_k\"", two,
                 "dequant_matmul: rows of w have 144 bytes, must be whole blocks of 210");
    node_rejects("dequant_matmul", "scheme = \"gguf_q8_0\"", NODE_TYPES("f32[2,64]", "u8[3,34]"),
                 "dequant_matmul: x has rows of 64, must be 32 as w");
    node_rejects("dequant_matmul", "scheme = \"gguf_q4_k\", block = 2", two,
                 "dequant_matmul: block is 2, must be 0 to 0");
    node_rejects("dequant_matmul", "scheme = \"int8_block\", block = 2",
                 NODE_TYPES("f32[2,4]", "u8[4,3]", "f32[2,3]"),
                 "dequant_matmul: w is u8, must be i8 for int8_block");
    node_rejects("dequant_matmul", "scheme = \"int4_block\", block = 2",
                 NODE_TYPES("f32[2,4]", "u8[4,1]", "f32[2,3]"),
                 "dequant_matmul: w is u8[4,1], must be u8[4,2]");
    node_rejects("dequant_matmul", "scheme = \"int4_block\", block = 2",
                 NODE_TYPES("f32[2,4]", "u8[4,2]", "f32[3,3]"),
                 "dequant_matmul: the scale is f32[3,3], must be f32[2,3]");
    node_rejects("dequant_matmul", "scheme = \"mlx_3\", block = 64",
                 NODE_TYPES("f32[2,64]", "u32[4,8]", "f32[4,1]", "f32[4,1]"),
                 "dequant_matmul: block is 64, must be 32, 64 or 128 and divide the 85 columns of "
                 "3 bits");
    node_rejects("dequant_matmul", "scheme = \"mlx_4\", block = 32",
                 NODE_TYPES("f32[2,64]", "u32[4,8]", "f32[4,1]", "f32[4,2]"),
                 "dequant_matmul: the scale is f32[4,1], must be f32[4,2]");
    node_rejects("dequant_matmul", "scheme = \"mlx_4\", block = 32",
                 NODE_TYPES("f32[2,64]", "u8[4,32]", "f32[4,2]", "f32[4,2]"),
                 "dequant_matmul: w is u8, must be u32 for mlx_4");
    node_rejects("dequant_matmul", "scheme = \"nvfp4\"",
                 NODE_TYPES("f32[2,4]", "u8[4,2]", "f32[1,3]", "f32[1]"),
                 "dequant_matmul: the scale is f32, must be u8 for nvfp4");
    node_rejects("dequant_matmul", "scheme = \"fp8_e4m3\"", NODE_TYPES("f32[2,4]", "u8[4,2]"),
                 "dequant_matmul: params are 0 tensors, must be 1 to 1");
    node_rejects("dequant_moe_weights", "scheme = \"nvfp4\"", NODE_TYPES("u8[2,3,4]"),
                 "dequant_moe_weights: scheme is \"nvfp4\", must be a type of GGUF (gguf_...)");
    node_case n;
    node_open(&n, "dequant_moe_weights", "scheme = \"gguf_iq2_xxs\"");
    const sl_type w = node_type("u8[1,1,66]");
    (void)node_input(&n, &w);
    assert_int_equal(node_run(&n), SL_INVALID);
    assert_non_null(strstr(n.err.message, "must be one of int8_block, "));
    assert_non_null(strstr(n.err.message, ", gguf_tq2_0"));
    node_close(&n);
}

static void losses_are_checked(void **state) {
    (void)state;
    node_rejects(
        "softmax_cross_entropy", "", NODE_TYPES("f32[2,3]", "i32[3]"),
        "softmax_cross_entropy: labels is i32[3], its leading dims must be those of logits "
        "f32[2,3]");
    node_rejects("nll", "", NODE_TYPES("f32[2,3]", "i32[2]", "f32[2]"),
                 "nll: weights is f32[2], must be f32[3]");
    node_rejects("nll", "", NODE_TYPES("f32[2,3]", "i32[2]", "f32[3]", "f32[3]"),
                 "nll: weights are 2 tensors, must be 0 to 1");
    node_case n;
    const sl_type x = node_type("f32[2,3]"), labels = node_type("i64[2]");
    node_open(&n, "softmax_cross_entropy", "");
    (void)node_input(&n, &x);
    sl_slot_set_integer(SL_DTYPE_i64, &node_input(&n, &labels)[1], -100);
    assert_int_equal(node_run(&n), SL_INVALID);
    assert_string_equal(n.err.message, "softmax_cross_entropy: a label is -100, must be 0 to 2");
    node_close(&n);
}

static void few_bits_are_checked(void **state) {
    (void)state;
    node_rejects("quantize", "to = i8, axis = 2", NODE_TYPES("f32[2,3]", "f32[2]", "i8[2]"),
                 "quantize: axis is 2, must be -2 to 1");
    node_rejects("quantize", "to = i8, axis = 1", NODE_TYPES("f32[2,3]", "f32[2]", "i8[2]"),
                 "quantize: scale is f32[2], must have one element or 3");
    node_rejects("quantize", "to = u8", NODE_TYPES("f32[2,3]", "f32[]", "i8[]"),
                 "quantize: zero is i8, must be of the type that `to` names");
    node_rejects("quantize", "to = i64", NODE_TYPES("f32[2]", "f32[]", "i64[]"),
                 "quantize: zero is i64[], must be of i8, u8, i16, u16, i32");
    node_rejects("dequantize", "", NODE_TYPES("i8[2]", "f32[]", "i8[1]"),
                 "dequantize: zero is i8[1], must be i8[]");
    node_rejects("q_matmul", "", NODE_TYPES("i8[2,3]", "i8[3,4]", "u8[]", "i8[]", "f32[]", "i8[]"),
                 "q_matmul: a_zero is u8[], must be i8 as a i8[2,3]");
    node_rejects("q_matmul", "", NODE_TYPES("i8[2,3]", "i8[3,4]", "i8[]", "i8[3]", "f32[]", "i8[]"),
                 "q_matmul: b_zero is i8[3], must have one element or 4");
#define CONV(STRIDES, GROUPS)                                                                      \
    "strides = " STRIDES ", pads_before = [], pads_after = [], dilations = [], groups = " GROUPS
    const char *const *conv = NODE_TYPES("i8[1,2,5]", "i8[3,2,3]", "i8[]", "i8[]", "f32[]", "i8[]");
    node_rejects("q_conv", CONV("[]", "2"), conv,
                 "q_conv: w is i8[3,2,3], must be [O,C/groups,..] with groups 2 and x i8[1,2,5]");
    node_rejects("q_conv", CONV("[1, 1]", "1"), conv,
                 "q_conv: strides has 2 numbers, must have none or 1");
    node_rejects("q_conv", CONV("[]", "1"),
                 NODE_TYPES("i8[1,2,5]", "i8[3,2,6]", "i8[]", "i8[]", "f32[]", "i8[]"),
                 "q_conv: the kernel reaches over 6 of spatial dim 0, which is 5 with its padding");
    node_rejects("fake_quantize", "bits = 1", NODE_TYPES("f32[2]"),
                 "fake_quantize: bits is 1, must be 2 to 16");
    node_rejects("fake_quantize", "bits = 4, mode = 1", NODE_TYPES("f32[2]"),
                 "fake_quantize: state are 0 tensors, must be 1 to 1");
    node_rejects("fake_quantize", "bits = 4, mode = 2, by_axis = 1",
                 NODE_TYPES("f32[2,3]", "f32[3]"),
                 "fake_quantize: state is f32[3], must be f32[2]");
    node_rejects("fake_quantize_backward", "bits = 4, ste = 4",
                 NODE_TYPES("f32[2]", "f32[1]", "f32[2]"),
                 "fake_quantize_backward: ste is 4, must be 0 to 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_match_their_fixtures),
        cmocka_unit_test(few_bits_match_their_fixtures),
        cmocka_unit_test(gradients_of_losses_are_differences),
        cmocka_unit_test(small_losses_keep_their_digits),
        cmocka_unit_test(schemes_are_named),
        cmocka_unit_test(blocks_decode_as_the_package_does),
        cmocka_unit_test(singular_systems_are_refused),
        cmocka_unit_test(products_are_checked),
        cmocka_unit_test(packed_weights_are_checked),
        cmocka_unit_test(losses_are_checked),
        cmocka_unit_test(few_bits_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
