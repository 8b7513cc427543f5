/* attention_test.c - Kernels of attention without a cache, RoPE, recurrences, fused blocks and
 * random numbers, for every instruction set, against the evaluator: on the operands of fixtures and
 * on random ragged ones. */
#include "tests/support/list_case.h"
#include "tests/support/rounds.h"
#include <stdio.h>

static const double TOLERANCE = 2e-6;

static void fixtures_agree(void **state) {
    (void)state;
    json_error_t error;
    json_t *cases = json_load_file("tests/data/ops/attention.json", 0, &error);
    if (!cases) fail_msg("%s", error.text);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        list_case c;
        case_read(&c, json_array_get(cases, i));
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
    json_decref(cases);
}

/* ---- random operands ---- */

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint32_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint32_t)(high - low + 1));
}
static double uniform(double low, double high) {
    return low + (high - low) * (double)next() / 4294967296.0;
}
static sl_dtype any_float(void) {
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_f32, SL_DTYPE_f64, SL_DTYPE_f16,
                                     SL_DTYPE_bf16};
    return types[next() % 5];
}

static void random_input(list_case *c, sl_type type, double low, double high) {
    const int64_t count = sl_type_elements(&type);
    double *data = case_doubles(c, count);
    for (int64_t i = 0; i < count; i++) {
        data[i] = uniform(low, high);
        if (type.dtype == SL_DTYPE_bool) data[i] = data[i] > 0;
        if (sl_dtype_infos[type.dtype].kind == SL_KIND_INT)
            sl_slot_set_integer(type.dtype, &data[i], (int64_t)floor(data[i]));
    }
    case_input(c, type, data);
}
static void normal_input(list_case *c, sl_type type) {
    random_input(c, type, -1, 1);
}

/* A shape that broadcasts to [B,H,S,T]. */
static sl_type mask_type(sl_dtype dtype, const int64_t dims[4]) {
    sl_type type = {.dtype = dtype, .shape = {.rank = (uint32_t)between(0, 4)}};
    for (uint32_t d = 0; d < type.shape.rank; d++)
        type.shape.dims[d] = next() % 3 ? dims[4 - type.shape.rank + d] : 1;
    return type;
}

typedef struct {
    int64_t batch, heads, group, queries, keys, key_dim, value_dim;
} extents;

/* q, k, v, dout for the gradient, and sometimes a mask and sinks. */
static void attention_case(list_case *c, bool backward, const extents *e, sl_dtype dtype) {
    char attrs[200];
    const uint32_t mask = next() % 5, sinks = next() % 2;
    (void)snprintf(attrs, sizeof attrs,
                   "mask = %u, window = %d, scale = %g, softcap = %g, sinks = %u", mask,
                   mask == 2 ? (int)between(1, e->keys + 2) : 0, next() % 2 ? 0.0 : 0.3,
                   next() % 3 ? 0.0 : 1.5, sinks);
    case_open(c, backward ? "attention_backward" : "attention", attrs);
    const int64_t heads = e->heads * e->group;
    normal_input(c, sl_type_make(dtype, 4, e->batch, heads, e->queries, e->key_dim));
    normal_input(c, sl_type_make(dtype, 4, e->batch, e->heads, e->keys, e->key_dim));
    normal_input(c, sl_type_make(dtype, 4, e->batch, e->heads, e->keys, e->value_dim));
    if (backward)
        normal_input(c, sl_type_make(dtype, 4, e->batch, heads, e->queries, e->value_dim));
    const int64_t scores[4] = {e->batch, heads, e->queries, e->keys};
    if (mask == 3) normal_input(c, mask_type(SL_DTYPE_bool, scores));
    if (mask == 4) normal_input(c, mask_type(dtype, scores));
    if (sinks) normal_input(c, sl_type_make(dtype, 1, heads));
    /* Gradients are differences of products of dout and v, so errors are absolute. */
    c->unit = backward;
    if (backward && next() % 2) c->outputs += sinks + (mask == 4);
}

static void test_attention(void **state) {
    (void)state;
    for (int round = 0; round < rounds(150); round++) {
        const bool large = round % 8 == 0;
        const extents e = {between(1, 3),
                           between(1, 3),
                           between(1, 3),
                           large ? between(60, 140) : between(1, 9),
                           large ? between(100, 300) : between(1, 30),
                           between(1, 70),
                           between(1, 70)};
        list_case c;
        attention_case(&c, false, &e, any_float());
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* Enough rows for the tall tiles of a GPU; values that are too long for its shared memory. */
static void test_many_rows(void **state) {
    (void)state;
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64};
    for (int round = 0; round < 12; round++) {
        const bool slim = round < 8;
        const extents e = {slim ? 4 : 1,
                           6,
                           between(1, 3),
                           between(33, 50),
                           between(20, 60),
                           slim ? between(60, 140) : 5,
                           slim ? between(60, 140) : 1700};
        list_case c;
        attention_case(&c, false, &e, types[round % 4]);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

static void test_attention_backward(void **state) {
    (void)state;
    for (int round = 0; round < rounds(100); round++) {
        const bool large = round % 10 == 0;
        const extents e = {between(1, 2),
                           between(1, 2),
                           between(1, 3),
                           large ? between(60, 90) : between(1, 9),
                           large ? between(100, 150) : between(1, 30),
                           between(1, 40),
                           between(1, 40)};
        list_case c;
        attention_case(&c, true, &e, any_float());
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* All positions masked, scores of -inf, and a NaN. */
static void test_odd_scores(void **state) {
    (void)state;
    const double strange[] = {-INFINITY, NAN, 30, -300};
    for (int kind = 0; kind < 4; kind++)
        for (int sinks = 0; sinks < 2; sinks++) {
            const sl_dtype dtype = kind < 2 ? SL_DTYPE_f32 : SL_DTYPE_f16;
            list_case c;
            double bias[3 * 5];
            for (int i = 0; i < 15; i++) bias[i] = i < 5 || i % 3 == 0 ? strange[kind] : 0.25;
            case_open(&c, "attention", sinks ? "mask = 4, sinks = 1" : "mask = 4");
            normal_input(&c,
                         sl_type_make(dtype, 4, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)4));
            normal_input(&c,
                         sl_type_make(dtype, 4, (int64_t)1, (int64_t)1, (int64_t)5, (int64_t)4));
            normal_input(&c,
                         sl_type_make(dtype, 4, (int64_t)1, (int64_t)1, (int64_t)5, (int64_t)6));
            case_input(&c, sl_type_make(dtype, 2, (int64_t)3, (int64_t)5), bias);
            if (sinks) normal_input(&c, sl_type_make(dtype, 1, (int64_t)2));
            case_check(&c, TOLERANCE);
            case_close(&c);
        }
}

/* ---- RoPE ---- */

static void test_rope(void **state) {
    (void)state;
    for (int round = 0; round < rounds(80); round++) {
        const sl_dtype dtype = any_float();
        const int64_t pairs = between(1, 40), width = 2 * pairs + between(0, 5);
        const int64_t batch = between(1, 3), tokens = between(1, 70);
        char attrs[100];
        list_case c;
        (void)snprintf(attrs, sizeof attrs, "rotary = %d, interleaved = %u",
                       next() % 2 ? 0 : (int)(2 * between(1, pairs)), next() % 2);
        case_open(&c, round % 2 ? "rope_apply" : "rope_apply_backward", attrs);
        normal_input(&c, sl_type_make(dtype, 3, batch, tokens, width));
        const sl_type table = next() % 2 ? sl_type_make(dtype, 2, tokens, pairs)
                                         : sl_type_make(dtype, 3, batch, (int64_t)1, pairs);
        normal_input(&c, table), normal_input(&c, table);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

static void test_mrope(void **state) {
    (void)state;
    for (int round = 0; round < 40; round++) {
        const sl_dtype dtype = any_float();
        const int64_t kinds = between(1, 4), tokens = between(1, 40);
        int64_t columns = 0, sections[4];
        char attrs[200] = "sections = [";
        for (int64_t i = 0; i < kinds; i++) {
            columns += sections[i] = between(1, 9);
            (void)snprintf(attrs + strlen(attrs), 20, "%s%d", i ? ", " : "", (int)sections[i]);
        }
        (void)snprintf(attrs + strlen(attrs), 60, "], striped = %u, interleaved = %u", next() % 2,
                       next() % 2);
        list_case c;
        case_open(&c, round % 2 ? "mrope" : "mrope_backward", attrs);
        normal_input(&c, sl_type_make(dtype, 3, tokens, (int64_t)2, 2 * columns + between(0, 3)));
        const sl_type table = sl_type_make(dtype, 4, kinds, tokens, (int64_t)1, columns);
        normal_input(&c, table), normal_input(&c, table);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

static void test_axial_and_tables(void **state) {
    (void)state;
    static const sl_dtype positions[] = {SL_DTYPE_i32, SL_DTYPE_i64, SL_DTYPE_f32, SL_DTYPE_f64,
                                         SL_DTYPE_bf16};
    for (int round = 0; round < 40; round++) {
        const int64_t width = between(1, 6), height = between(1, 6);
        char attrs[100];
        list_case c;
        (void)snprintf(attrs, sizeof attrs, "width = %d, height = %d, theta = 10000", (int)width,
                       (int)height);
        case_open(&c, round % 2 ? "axial_rope2d" : "axial_rope2d_backward", attrs);
        normal_input(&c, sl_type_make(any_float(), 3, between(1, 3), width * height * between(1, 2),
                                      4 * between(1, 9)));
        case_check(&c, TOLERANCE);
        case_close(&c);
        case_open(&c, "rope_tables", round % 3 ? "" : "magnitude = 1.25");
        random_input(&c, sl_type_make(positions[round % 5], 2, between(1, 9), between(1, 9)), -9,
                     5000);
        random_input(&c, sl_type_make(any_float(), 1, between(1, 40)), 0, 1);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* ---- recurrences ---- */

static void test_recurrences(void **state) {
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        const sl_dtype dtype = any_float();
        const int64_t b = between(1, 3), s = between(1, 40), h = between(1, 40), n = between(1, 20);
        list_case c;
        case_open(&c, "selective_scan", "");
        normal_input(&c, sl_type_make(dtype, 3, b, s, h));
        random_input(&c, sl_type_make(dtype, 3, b, s, h), 0, 1);
        random_input(&c, sl_type_make(dtype, 2, h, n), -2, -0.1);
        normal_input(&c, sl_type_make(dtype, 3, b, s, n));
        normal_input(&c, sl_type_make(dtype, 3, b, s, n));
        if (round % 2) normal_input(&c, sl_type_make(dtype, 3, b, h, n));
        case_check(&c, TOLERANCE);
        case_close(&c);

        const int64_t key_heads = between(1, 3), heads = key_heads * between(1, 3);
        const int64_t size = between(1, 40), width = between(1, 40);
        const double unit = 1 / sqrt((double)size); /* keys of norm at most 1 */
        case_open(&c, "gated_delta_net", round % 3 ? "" : "scale = 0.5");
        normal_input(&c, sl_type_make(dtype, 4, b, s, key_heads, size));
        random_input(&c, sl_type_make(dtype, 4, b, s, key_heads, size), -unit, unit);
        normal_input(&c, sl_type_make(dtype, 4, b, s, heads, width));
        random_input(&c, sl_type_make(dtype, 3, b, s, heads), -2, 0);
        random_input(&c, sl_type_make(dtype, 3, b, s, heads), 0, 1);
        if (round % 2) normal_input(&c, sl_type_make(dtype, 4, b, heads, size, width));
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* ---- fused blocks ---- */

static void test_small_blocks(void **state) {
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        const sl_dtype dtype = any_float();
        const int64_t rows = between(1, 40), inner = between(1, 90), cols = between(1, 300);
        char attrs[100];
        list_case c;
        case_open(&c, "fused_swiglu", round % 2 ? "gate_first = 1" : "");
        random_input(&c, sl_type_make(dtype, 2, rows, 2 * cols), -8, 8);
        case_check(&c, TOLERANCE);
        case_close(&c);

        (void)snprintf(attrs, sizeof attrs, "act = %d", round % 7);
        case_open(&c, "fused_matmul_bias_act", attrs);
        normal_input(&c, sl_type_make(dtype, 4, between(1, 2), (int64_t)1, rows, inner));
        normal_input(&c, sl_type_make(dtype, 3, between(1, 3), inner, cols));
        normal_input(&c, sl_type_make(dtype, 1, cols));
        case_check(&c, TOLERANCE);
        case_close(&c);

        case_open(&c, round % 2 ? "fused_residual_ln" : "add_rms_norm", "eps = 1e-5");
        for (int i = 0; i < 2; i++) random_input(&c, sl_type_make(dtype, 2, rows, cols), -1, 3);
        for (int i = 0; i < 2 + round % 3 % 2; i++) normal_input(&c, sl_type_make(dtype, 1, cols));
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* Rows that differ little from their mean. */
static void means_are_taken_off_whole(void **state) {
    (void)state;
    for (int64_t cols = 2; cols < 40; cols++) {
        list_case c;
        case_open(&c, "fused_residual_ln", "eps = 1e-5");
        random_input(&c, sl_type_make(SL_DTYPE_f32, 2, (int64_t)5, cols), 7, 7.3);
        random_input(&c, sl_type_make(SL_DTYPE_f32, 2, (int64_t)5, cols), 0, 0);
        for (int i = 0; i < 2; i++)
            random_input(&c, sl_type_make(SL_DTYPE_f32, 1, cols), i ? -1e-6 : 0.9, i ? 1e-6 : 1);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* The weights of both layers, scaled so that scores have ordinary sizes. */
static void weight(list_case *c, sl_dtype dtype, int64_t rows, int64_t cols) {
    const double size = 1 / sqrt((double)rows);
    random_input(c, sl_type_make(dtype, 2, rows, cols), -size, size);
}

static void layer_case(list_case *c, bool whole, sl_dtype dtype) {
    const uint32_t mask = next() % 5, bias = next() % 2, rope = !whole && next() % 2;
    const int64_t b = between(1, 3), s = between(1, 80), e = between(1, 40), heads = between(1, 4);
    const int64_t dim = between(2, 20), p = heads * dim, f = whole ? e : between(1, 30);
    const int64_t inner = between(1, 60), scores[4] = {b, heads, s, s};
    char attrs[300];
    const char *turns = !rope ? "" : next() % 2 ? ", rope = 1" : ", rope = 1, interleaved = 1";
    (void)snprintf(attrs, sizeof attrs, "heads = %d, bias = %u, mask = %u, window = %d, %s%s",
                   (int)heads, bias, mask, mask == 2 ? 3 : 0,
                   whole ? "eps1 = 1e-3, eps2 = 1e-3, act = 3" : "softcap = 5", turns);
    case_open(c, whole ? "fused_transformer_layer" : "fused_attention_block", attrs);
    normal_input(c, sl_type_make(dtype, 3, b, s, e));
    weight(c, dtype, e, 3 * p), weight(c, dtype, p, f);
    if (whole) {
        for (int i = 0; i < 2; i++) normal_input(c, sl_type_make(dtype, 1, e));
        weight(c, dtype, e, inner), weight(c, dtype, inner, e);
        for (int i = 0; i < 2; i++) normal_input(c, sl_type_make(dtype, 1, e));
    }
    if (mask == 3) normal_input(c, mask_type(SL_DTYPE_bool, scores));
    if (mask == 4) normal_input(c, mask_type(dtype, scores));
    const int64_t lengths[] = {3 * p, f, inner, e};
    for (int i = 0; i < (whole ? 4 : 2) && bias; i++)
        normal_input(c, sl_type_make(dtype, 1, lengths[i]));
    const sl_type table = sl_type_make(dtype, 2, s, between(1, dim / 2));
    for (int i = 0; i < 2 && rope; i++) normal_input(c, table);
}

static void test_layers(void **state) {
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        list_case c;
        layer_case(&c, round % 2, any_float());
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
}

/* ---- random numbers ---- */

static void test_random_numbers(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f64", "f16", "bf16", "u32", "u64"};
    for (int round = 0; round < 36; round++) {
        char attrs[100];
        list_case c;
        (void)snprintf(attrs, sizeof attrs, "shape = [%d], to = %s", (int)between(1, 5000),
                       types[round % 6]);
        case_open(&c, round % 6 < 4 && round % 2 ? "rng_normal" : "rng_uniform", attrs);
        random_input(&c, case_type(round % 3 ? "u32[2]" : "u64[]"), 0, 4294967295.0);
        random_input(&c, case_type(round % 5 ? "u32[4]" : "u64[]"), 4294967000.0, 4294967295.0);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
    list_case c;
    case_open(&c, "rng_normal", "shape = [70001], to = f32");
    random_input(&c, case_type("u32[2]"), 0, 4294967295.0);
    random_input(&c, case_type("u32[4]"), 0, 4294967295.0);
    case_check(&c, TOLERANCE);
    double mean = 0, square = 0;
    for (int i = 0; i < 70001; i++) {
        mean += c.slots[2].data[i] / 70001;
        square += c.slots[2].data[i] * c.slots[2].data[i] / 70001;
    }
    assert_true(fabs(mean) < 0.02 && fabs(square - 1) < 0.03);
    case_close(&c);
}

static void test_sample(void **state) {
    (void)state;
    for (int round = 0; round < rounds(60); round++) {
        char attrs[100];
        list_case c;
        const int64_t width = between(1, 300);
        (void)snprintf(attrs, sizeof attrs, "temperature = %g, top_k = %d, top_p = %g",
                       round % 7 ? 0.8 : 0.0, round % 2 ? (int)between(1, width + 3) : 0,
                       round % 3 ? uniform(0.05, 0.99) : 0.0);
        case_open(&c, "sample", attrs);
        random_input(&c, sl_type_make(any_float(), 2, between(1, 40), width), -4, 4);
        random_input(&c, case_type("u64[]"), 0, 4294967295.0);
        random_input(&c, case_type("u32[4]"), 0, 4294967295.0);
        case_check(&c, TOLERANCE);
        case_close(&c);
    }
    for (size_t isa = 0; isa < sizeof case_isas / sizeof case_isas[0]; isa++) {
        if (!sl_cpu_kernel_set(case_isas[isa])) continue;
        list_case c;
        void *outs[1];
        case_open(&c, "sample", "temperature = 1");
        case_input(&c, case_type("f32[2,2]"), (double[]){0, 1, NAN, 1});
        case_input(&c, case_type("u32[2]"), (double[]){1, 2});
        case_input(&c, case_type("u32[2]"), (double[]){1, 2});
        assert_int_equal(case_infer(&c), SL_OK);
        assert_int_equal(case_run_kernel(&c, case_isas[isa], 1, false, outs), SL_INVALID);
        assert_string_equal(c.err.message, "sample: the largest logit of row 1 is not finite");
        free(outs[0]);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_agree),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_attention_backward),
        cmocka_unit_test(test_odd_scores),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_mrope),
        cmocka_unit_test(test_axial_and_tables),
        cmocka_unit_test(test_recurrences),
        cmocka_unit_test(test_small_blocks),
        cmocka_unit_test(means_are_taken_off_whole),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_many_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
