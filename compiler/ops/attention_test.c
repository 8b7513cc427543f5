/* attention_test.c - Attention without a cache, RoPE, recurrences, fused blocks and random numbers:
 * against PyTorch (tests/data/ops/attention.json), gradients against finite differences, and error
 * messages. */
#include "tests/support/list_case.h"

static void fixtures_agree(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    json_error_t error;
    json_t *cases = json_load_file("tests/data/ops/attention.json", 0, &error);
    if (!cases) fail_msg("%s", error.text);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        list_case c;
        case_read(&c, json_array_get(cases, i));
        case_match(&c, json_array_get(cases, i), i);
        seen[c.op]++;
        case_close(&c);
    }
    json_decref(cases);
    static const sl_op ops[] = {
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/attention.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/rope_apply.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/recurrence.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/fused.def"
#include "core/ops.def"
#undef SL_FAMILY
#define OP(NAME, ...) SL_OP_##NAME,
#define SL_FAMILY     "core/ops/random.def"
#include "core/ops.def"
#undef SL_FAMILY
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (seen[ops[i]] < 3)
            fail_msg("%s has %u fixtures", sl_op_info_of(ops[i])->name, seen[ops[i]]);
}

/* ---- gradients ---- */

static void wavy_input(list_case *c, const char *type_text, double phase) {
    const sl_type type = case_type(type_text);
    const int64_t count = sl_type_elements(&type);
    double *data = case_doubles(c, count);
    for (int64_t i = 0; i < count; i++) {
        const double value = sin((double)i * 1.7 + phase) + 0.3 * cos((double)i * phase);
        data[i] = type.dtype == SL_DTYPE_bool  ? value > -0.5
                  : type.dtype == SL_DTYPE_u32 ? floor(8 * fabs(value))
                                               : value;
    }
    case_input(c, type, data);
}

/* The sum of a forward op's results times dout. */
static double weighted(list_case *c, const double *dout) {
    if (case_eval(c)) fail_msg("%s", c->err.message);
    const sl_eval_tensor *out = &c->slots[c->inputs];
    double sum = 0;
    for (int64_t i = 0; i < sl_type_elements(&out->type); i++) sum += out->data[i] * dout[i];
    return sum;
}

/* Compares result `result` of the backward case with the gradient with respect to input `input`. */
static void check_gradient(list_case *forward, uint32_t input, const list_case *backward,
                           uint32_t result, const double *dout) {
    const double step = 1e-5, *gradient = backward->slots[backward->inputs + result].data;
    double *x = forward->slots[input].data;
    const int64_t count = sl_type_elements(&forward->types[input]);
    for (int64_t i = 0; i < count; i++) {
        const double before = x[i];
        x[i] = before + step;
        const double above = weighted(forward, dout);
        x[i] = before - step;
        const double below = weighted(forward, dout);
        x[i] = before;
        const double wanted = (above - below) / (2 * step);
        if (!(fabs(gradient[i] - wanted) <= 1e-8 * (1 + fabs(wanted))))
            fail_msg("%s: result %u, element %lld: %.12g, differences give %.12g",
                     sl_op_info_of(backward->op)->name, result, (long long)i, gradient[i], wanted);
    }
}

static void attention_gradients_agree(void **state) {
    (void)state;
    static const struct {
        const char *attrs, *extra[3];
        uint32_t floats; /* number of float operands at the end of extra */
    } rows[] = {
        {"", {NULL}, 0},
        {"mask = 1, softcap = 1.5", {NULL}, 0},
        {"mask = 2, window = 2, scale = 0.4, sinks = 1", {"f64[4]", NULL}, 1},
        {"mask = 3", {"bool[3,5]", NULL}, 0},
        {"mask = 4, sinks = 1, softcap = 2", {"f64[2,1,3,5]", "f64[4]", NULL}, 2},
        {"mask = 4", {"f64[4,1,5]", NULL}, 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        list_case forward, backward;
        case_open(&forward, "attention", rows[r].attrs);
        case_open(&backward, "attention_backward", rows[r].attrs);
        list_case *const both[] = {&forward, &backward};
        for (int i = 0; i < 2; i++) {
            wavy_input(both[i], "f64[2,4,3,3]", 0.1);
            wavy_input(both[i], "f64[2,2,5,3]", 0.7);
            wavy_input(both[i], "f64[2,2,5,2]", 1.9);
            if (i) wavy_input(both[i], "f64[2,4,3,2]", 2.5);
            for (int e = 0; rows[r].extra[e]; e++) wavy_input(both[i], rows[r].extra[e], 3.1 + e);
        }
        backward.outputs = 3 + rows[r].floats;
        if (case_eval(&backward)) fail_msg("%s", backward.err.message);
        const double *dout = backward.slots[3].data;
        for (uint32_t i = 0; i < 3; i++) check_gradient(&forward, i, &backward, i, dout);
        for (uint32_t i = 0; i < rows[r].floats; i++)
            check_gradient(&forward, forward.inputs - rows[r].floats + i, &backward, 3 + i, dout);
        case_close(&forward);
        case_close(&backward);
    }
}

static void rotary_gradients_agree(void **state) {
    (void)state;
    static const struct {
        const char *op, *back, *attrs, *x, *table;
    } rows[] = {
        {"rope_apply", "rope_apply_backward", "rotary = 4, interleaved = 1", "f64[2,3,5]",
         "f64[3,2]"},
        {"rope_apply", "rope_apply_backward", "", "f64[2,3,7]", "f64[3,3]"},
        {"mrope", "mrope_backward", "sections = [1, 2], interleaved = 0", "f64[3,7]", "f64[2,3,3]"},
        {"axial_rope2d", "axial_rope2d_backward", "width = 3, height = 2, theta = 10", "f64[2,6,8]",
         NULL},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        list_case forward, backward;
        case_open(&forward, rows[r].op, rows[r].attrs);
        case_open(&backward, rows[r].back, rows[r].attrs);
        wavy_input(&forward, rows[r].x, 0.3);
        wavy_input(&backward, rows[r].x, 2.1);
        for (int i = 0; i < 2 && rows[r].table; i++) {
            wavy_input(&forward, rows[r].table, 1.1 + i);
            wavy_input(&backward, rows[r].table, 1.1 + i);
        }
        if (case_eval(&backward)) fail_msg("%s", backward.err.message);
        check_gradient(&forward, 0, &backward, 0, backward.slots[0].data);
        case_close(&forward);
        case_close(&backward);
    }
}

/* ---- special cases ---- */

/* Queries before the first key attend to nothing. */
static void unseen_gives_zero(void **state) {
    (void)state;
    list_case c;
    case_open(&c, "attention", "mask = 1");
    wavy_input(&c, "f64[1,1,3,2]", 0.1);
    wavy_input(&c, "f64[1,1,2,2]", 0.2);
    wavy_input(&c, "f64[1,1,2,2]", 0.3);
    assert_int_equal(case_eval(&c), SL_OK);
    const double *out = c.slots[3].data, *v = c.slots[2].data;
    assert_true(out[0] == 0 && out[1] == 0);
    assert_true(out[2] == v[0] && out[3] == v[1] && out[4] != v[0]);
    case_close(&c);
}

/* A recurrence continued from its state gives the same as without interruption. */
static void recurrences_go_on(void **state) {
    (void)state;
    static const char *const whole[] = {"f64[1,6,1,3]", "f64[1,6,1,3]", "f64[1,6,2,4]",
                                        "f64[1,6,2]", "f64[1,6,2]"};
    list_case all, part[2];
    case_open(&all, "gated_delta_net", "");
    for (int i = 0; i < 5; i++) wavy_input(&all, whole[i], 0.2 + i);
    assert_int_equal(case_eval(&all), SL_OK);
    for (int p = 0; p < 2; p++) {
        case_open(&part[p], "gated_delta_net", "");
        for (uint32_t i = 0; i < 5; i++) {
            sl_type type = all.types[i];
            type.shape.dims[1] = 3;
            case_input(&part[p], type, all.slots[i].data + p * sl_type_elements(&type));
        }
        if (p) case_input(&part[1], part[0].types[6], part[0].slots[6].data);
        assert_int_equal(case_eval(&part[p]), SL_OK);
    }
    assert_memory_equal(all.slots[6].data, part[1].slots[7].data, 2 * 3 * 4 * sizeof(double));
    assert_memory_equal(all.slots[5].data + 24, part[1].slots[6].data, 24 * sizeof(double));
    case_close(&all);
    for (int p = 0; p < 2; p++) case_close(&part[p]);
}

/* Random123's known-answer tests, through the op. */
static void philox_gives_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } rows[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t r = 0; r < 3; r++) {
        double key[2], counter[4];
        list_case c;
        for (int i = 0; i < 2; i++) key[i] = rows[r].key[i];
        for (int i = 0; i < 4; i++) counter[i] = rows[r].counter[i];
        case_open(&c, "rng_uniform", "shape = [4], to = u32");
        case_input(&c, case_type("u32[2]"), key);
        case_input(&c, case_type("u32[4]"), counter);
        assert_int_equal(case_eval(&c), SL_OK);
        for (int i = 0; i < 4; i++) assert_true(c.slots[2].data[i] == rows[r].wanted[i]);
        case_close(&c);
    }
}

/* ---- errors ---- */

static void refuses(const char *op, const char *attrs, const char *const *types,
                    const char *message) {
    list_case c;
    case_open(&c, op, attrs);
    for (int i = 0; types[i]; i++) wavy_input(&c, types[i], 1);
    assert_int_equal(case_eval(&c), SL_INVALID);
    assert_string_equal(c.err.message, message);
    case_close(&c);
}
#define TYPES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define QKV        "f32[1,4,3,2]", "f32[1,2,5,2]", "f32[1,2,5,3]"

static void attention_is_checked(void **state) {
    (void)state;
    refuses("attention", "", TYPES("f32[1,3,3,2]", "f32[1,2,5,2]", "f32[1,2,5,3]"),
            "attention: q has 3 heads, must be a multiple of k's 2");
    refuses("attention", "", TYPES("f32[1,4,3,2]", "f16[1,2,5,2]", "f32[1,2,5,3]"),
            "attention: k is f16, must be f32 as q");
    refuses("attention", "", TYPES("f32[1,4,3,2]", "f32[1,2,5,2]", "f32[1,2,4,3]"),
            "attention: v is f32[1,2,4,3], its third dim must be 5 as in k f32[1,2,5,2]");
    refuses("attention", "mask = 5", TYPES(QKV), "attention: mask is 5, must be 0 to 4");
    refuses("attention", "mask = 2", TYPES(QKV), "attention: window is 0, must be 1 to 2147483647");
    refuses("attention", "window = 3", TYPES(QKV), "attention: window is 3, must be 0 to 0");
    refuses("attention", "softcap = -1", TYPES(QKV),
            "attention: softcap is -1, must be 0 or positive");
    refuses("attention", "mask = 3", TYPES(QKV),
            "attention: 0 operands after the first 3, must be 1 (a mask or bias, then sinks)");
    refuses("attention", "mask = 3", TYPES(QKV, "f32[5]"),
            "attention: the mask is f32[5], must broadcast to bool[1,4,3,5]");
    refuses("attention", "mask = 4", TYPES(QKV, "f32[3,4]"),
            "attention: the bias is f32[3,4], must broadcast to f32[1,4,3,5]");
    refuses("attention", "sinks = 1", TYPES(QKV, "f32[2]"),
            "attention: sinks is f32[2], must be f32[4]");
    refuses("attention_backward", "", TYPES(QKV, "f32[1,4,3,2]"),
            "attention_backward: dout is f32[1,4,3,2], its fourth dim must be 3 as in v "
            "f32[1,2,5,3]");
}

static void rotary_is_checked(void **state) {
    (void)state;
    refuses("rope_apply", "", TYPES("f32[3,4]", "f32[3,3]", "f32[3,3]"),
            "rope_apply: twice the columns of cos is 6, must be 2 to 4");
    refuses("rope_apply", "rotary = 3", TYPES("f32[3,4]", "f32[3,2]", "f32[3,2]"),
            "rope_apply: rotary is 3, must be even");
    refuses("rope_apply", "", TYPES("f32[3,4]", "f32[2,2]", "f32[2,2]"),
            "rope_apply: cos is f32[2,2], its leading dims must broadcast to x's, f32[3,4]");
    refuses("rope_apply", "", TYPES("f32[3,4]", "f32[3,2]", "f32[3,1]"),
            "rope_apply: sin is f32[3,1], must be f32[3,2]");
    refuses("rope_apply", "", TYPES("i32[3,4]", "f32[3,2]", "f32[3,2]"),
            "rope_apply: x is i32[3,4], must be a float type of 1 dims or more");
    refuses("mrope", "sections = [1]", TYPES("f32[3,4]", "f32[2,3,2]", "f32[2,3,2]"),
            "mrope: sections add up to 1, must be cos's 2 columns");
    refuses("mrope", "sections = [2], striped = 1", TYPES("f32[3,4]", "f32[2,3,2]", "f32[2,3,2]"),
            "mrope: 1 striped sections, must be cos's 2 kinds");
    refuses("axial_rope2d", "width = 2, height = 2, theta = 10", TYPES("f32[6,4]"),
            "axial_rope2d: 6 tokens, must be a multiple of 2 x 2");
    refuses("rope_tables", "", TYPES("bool[3]", "f32[2]"),
            "rope_tables: positions is bool, must be i32, i64 or a float type");
}

static void the_rest_is_checked(void **state) {
    (void)state;
    refuses("selective_scan", "",
            TYPES("f32[1,2,3]", "f32[1,2,3]", "f32[3,4]", "f32[1,2,4]", "f32[1,2,4]", "f32[1,3,5]"),
            "selective_scan: state is f32[1,3,5], must be f32[1,3,4]");
    refuses("gated_delta_net", "",
            TYPES("f32[1,2,2,3]", "f32[1,2,2,3]", "f32[1,2,3,4]", "f32[1,2,3]", "f32[1,2,3]"),
            "gated_delta_net: v has 3 heads, must be a multiple of q's 2");
    refuses("fused_swiglu", "", TYPES("f32[2,3]"),
            "fused_swiglu: x is f32[2,3], its second dim must be a multiple of 2");
    refuses("fused_matmul_bias_act", "act = 7", TYPES("f32[2,3]", "f32[3,4]", "f32[4]"),
            "fused_matmul_bias_act: act is 7, must be 0 to 6");
    refuses("fused_matmul_bias_act", "", TYPES("f32[2,3]", "f32[3,4]", "f32[3]"),
            "fused_matmul_bias_act: the length of bias is 3, must be 4 to 4");
    refuses("fused_residual_ln", "", TYPES("f32[2,3]", "f32[2,3]", "f32[3]", "f32[3]", "f32[2]"),
            "fused_residual_ln: bias is f32[2], must be f32[3]");
    refuses("add_rms_norm", "", TYPES("f32[2,3]", "f32[2,3]", "f32[3]", "f32[2]"),
            "add_rms_norm: shift is f32[2], must be f32[3]");
    refuses("add_rms_norm", "", TYPES("f32[2,3]", "f64[2,3]", "f32[3]"),
            "add_rms_norm: b is f64, must be f32 as a");
    refuses("add_rms_norm", "",
            TYPES("f32[2,3]", "f32[2,3]", "f32[3]", "f32[3]", "f32[3]", "f32[3]"),
            "add_rms_norm: 3 operands after the first 3, must be 2 (shift, bias) or fewer");
    refuses("fused_attention_block", "heads = 4", TYPES("f32[1,2,3]", "f32[3,18]", "f32[6,5]"),
            "fused_attention_block: out_w has 6 rows, must be a multiple of 4 heads");
    refuses("fused_attention_block", "heads = 2, bias = 1",
            TYPES("f32[1,2,3]", "f32[3,18]", "f32[6,5]", "f32[18]"),
            "fused_attention_block: 1 operands after the first 3, must be 2 (mask; qkv_b, out_b; "
            "cos, sin)");
    refuses("rng_uniform", "shape = [2], to = i32", TYPES("u32[2]", "u32[4]"),
            "rng_uniform: to is i32, must be a float type, u32 or u64");
    refuses("rng_normal", "shape = [2], to = f32", TYPES("u32[3]", "u32[4]"),
            "rng_normal: key is u32[3], must be u32[2] or u64[]");
    refuses("rng_normal", "shape = [2], to = f32", TYPES("u32[2]", "u32[3]"),
            "rng_normal: counter is u32[3], must be u32[4], u32[2] or u64[]");
    refuses("sample", "temperature = -1", TYPES("f32[2,3]", "u32[2]", "u32[2]"),
            "sample: temperature is -1, must be 0 or positive");
    refuses("sample", "top_p = 1.5", TYPES("f32[2,3]", "u32[2]", "u32[2]"),
            "sample: top_p is 1.5, must be 0 to 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_agree),         cmocka_unit_test(attention_gradients_agree),
        cmocka_unit_test(rotary_gradients_agree), cmocka_unit_test(unseen_gives_zero),
        cmocka_unit_test(recurrences_go_on),      cmocka_unit_test(philox_gives_known_answers),
        cmocka_unit_test(attention_is_checked),   cmocka_unit_test(rotary_is_checked),
        cmocka_unit_test(the_rest_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
