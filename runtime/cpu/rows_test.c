/* rows_test.c - int8 activations (a8): quantisation, and products with them. */
#include "tests/support/memory_source.h"
#include "tests/support/op_case.h"

/* Bit-identical for all values. */
static void test_quantise(void **state) {
    (void)state;
    for (int64_t cols = 1; cols < 400; cols = cols * 2 + 3) {
        op_case c = case_of(SL_OP_quantise, NULL, 0);
        float *x = floats(&c, f32(2, 7, cols, 0, 0));
        for (int64_t i = 0; i < cols; i++) {
            x[cols + i] = 0;
            x[2 * cols + i] *= 0x1p-140f; /* too small for a nonzero scale */
            x[3 * cols + i] *= 0x1p120f;
            x[4 * cols + i] = (float)(i % 7 - 3) / 2; /* many exactly between two codes */
        }
        const sl_type type = sl_type_make(SL_DTYPE_a8, 2, (int64_t)7, cols);
        const uint64_t bytes = sl_type_bytes(&type);
        uint8_t *wanted = malloc(bytes);
        assert_non_null(wanted);
        sl_quantise_rows(&type, x, wanted);
        infer_outputs(&c);
        for (int i = 0; i < ISA_COUNT; i++) {
            if (!sl_cpu_kernel_set(isas[i])) continue;
            memory m = memory_of(&c);
            sl_error err = {0};
            assert_int_equal(run_kernel(&c, isas[i], &m, 3, false, &err), SL_OK);
            assert_memory_equal(m.views[1], wanted, bytes);
            memory_free(&m);
        }
        free(wanted);
        check(&c);
    }
}

static void test_quantise_not_finite(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float x[64], scales[2];
    _Alignas(64) uint8_t out[2 * 44];
    const sl_type type = sl_type_make(SL_DTYPE_a8, 2, (int64_t)1, (int64_t)64);
    const sl_quantise_args args = {.x = {x, f32(2, 1, 64, 0, 0)}, .out = {out, type}};
    assert_true(sl_type_bytes(&type) <= sizeof out);
    for (int n = 0; n < ISA_COUNT * 3; n++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[n / 3]);
        if (!set) continue;
        for (int i = 0; i < 64; i++) x[i] = (float)i;
        x[37] = bad[n % 3];
        sl_error err = {0};
        const sl_kernel *kernel = sl_cpu_kernel_find(set, SL_OP_quantise, &args.x.type);
        assert_int_equal(run_items(kernel, &args, 1, false, &err), SL_OK);
        memcpy(scales, out + sl_rows_layout_of(&type).scales, sizeof scales);
        assert_true(scales[0] == 31.0f / 127 && isnan(scales[1]));
    }
}

static void test_linear_rows(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 17, 33},   {2, 16, 32},   {3, 50, 300},
                                       {7, 33, 511},   {19, 40, 264}, {13, 5, 1024}, {1, 53, 2048},
                                       {5, 53, 2048},  {8, 5, 4200},  {40, 70, 96},  {1, 700, 64},
                                       {70, 150, 600}, {65, 500, 90}, {70, 20, 3300}};
    for (int w = FIRST_PANEL_TYPE; w < WEIGHT_TYPES; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const int64_t tokens = sizes[i][0], rows = sizes[i][1], cols = sizes[i][2];
            op_case c = case_of(SL_OP_linear, NULL, 2e-6);
            input(&c, sl_type_make(SL_DTYPE_a8, 2, tokens, cols), -1, 1);
            input(&c, sl_type_make(weight_types[w], 2, rows, cols), -1, 1);
            c.by_tensor = true; /* a sum over a short row may nearly cancel */
            check(&c);
        }
}

/* f32 activations where columns may be divided, and a matrix with very many rows. */
static void test_linear_values(void **state) {
    (void)state;
    static const int64_t many[][3] = {{66, 40, 600}, {64, 1, 2048}, {100, 70, 520}};
    static const int64_t one[][3] = {{1, 9230, 70}, {1, 9216, 2050}};
    for (int w = FIRST_PANEL_TYPE - 1; w < WEIGHT_TYPES; w++)
        for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
            op_case c = case_of(SL_OP_linear, NULL, 2e-6);
            floats(&c, f32(2, many[i][0], many[i][2], 0, 0));
            input(&c, sl_type_make(weight_types[w], 2, many[i][1], many[i][2]), -1, 1);
            c.by_tensor = true;
            check(&c);
        }
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++) {
        op_case c = case_of(SL_OP_linear, NULL, 2e-6);
        floats(&c, f32(2, one[i][0], one[i][2], 0, 0));
        input(&c, sl_type_make(SL_DTYPE_q8, 2, one[i][1], one[i][2]), -1, 1);
        c.by_tensor = true;
        check(&c);
    }
}

/* A copy of rows [first, first + count): each plane is copied separately.  The caller frees it. */
static void *some_rows(const sl_type *all, const void *data, int64_t first, int64_t count,
                       sl_type *out_type) {
    *out_type = *all;
    out_type->shape.dims[0] = count;
    const sl_rows_layout from = sl_rows_layout_of(all), to = sl_rows_layout_of(out_type);
    const char *base = data;
    char *x = malloc(to.bytes);
    assert_non_null(x);
    const size_t row = (size_t)from.groups * SL_GROUP_COLS, plane = (size_t)from.groups * 4;
    memcpy(x, base + (size_t)first * row, (size_t)count * row);
    memcpy(x + to.scales, base + from.scales + (size_t)first * plane, (size_t)count * plane);
    memcpy(x + to.sums, base + from.sums + (size_t)first * plane, (size_t)count * plane);
    memcpy(x + to.halves, base + from.halves + (size_t)first * plane, (size_t)count * plane);
    return x;
}

static void run(const sl_kernel_set *set, sl_op op, const sl_type *types, const void *args) {
    sl_error err = {0};
    const sl_kernel *kernel = sl_cpu_kernel_find(set, op, types);
    assert_non_null(kernel);
    if (run_items(kernel, args, 2, true, &err)) fail_msg("%s", err.message);
}

/* x w^T for rows [first, first + count) of x. */
static void multiply(const sl_kernel_set *set, const sl_cview *x, const int64_t range[2],
                     const sl_cview *w, float *out) {
    sl_type type;
    void *rows = some_rows(&x->type, x->data, range[0], range[1], &type);
    const sl_linear_args args = {
        .x = {rows, type}, .w = *w, .out = {out, f32(2, range[1], w->type.shape.dims[0], 0, 0)}};
    run(set, SL_OP_linear, (sl_type[]){type, w->type}, &args);
    free(rows);
}

/* Token by token, and on every instruction set with FMA: the same bits. */
static void test_linear_rows_same(void **state) {
    (void)state;
    enum { TOKENS = 15, ROWS = 37, COLS = 320 };
    static float first[TOKENS * ROWS], together[TOKENS * ROWS], alone[TOKENS * ROWS];
    for (int w = FIRST_PANEL_TYPE; w < WEIGHT_TYPES; w++) {
        op_case c = case_of(SL_OP_linear, NULL, 0);
        input(&c, sl_type_make(SL_DTYPE_a8, 2, (int64_t)TOKENS, (int64_t)COLS), -1, 1);
        input(&c, sl_type_make(weight_types[w], 2, (int64_t)ROWS, (int64_t)COLS), -1, 1);
        const sl_cview x = {c.data[0], c.types[0]}, weights = {c.data[1], c.types[1]};
        int sets = 0;
        for (int i = 0; i < ISA_COUNT; i++) {
            const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
            if (!set) continue;
            multiply(set, &x, (int64_t[]){0, TOKENS}, &weights, together);
            for (int64_t t = 0; t < TOKENS; t++)
                multiply(set, &x, (int64_t[]){t, 1}, &weights, alone + t * ROWS);
            assert_memory_equal(alone, together, sizeof alone);
            if (strcmp(isas[i], "baseline") == 0) continue;
            if (sets++) assert_memory_equal(together, first, sizeof first);
            memcpy(first, together, sizeof first);
        }
        release_case(&c);
    }
}

/* ---- experts ---- */

enum { EXPERTS = 5, USED = 2, WIDTH = 53, HIDDEN = 77 };

/* One (token, expert) pair, computed with the kernels of the parts. */
static void parts_of_expert(const sl_kernel_set *set, const sl_cview *x, int64_t row,
                            const sl_cview matrices[3], float *out) {
    float gate[WIDTH], up[WIDTH], mid[WIDTH];
    uint8_t coded[2 * (SL_GROUP_COLS + 3 * sizeof(float))];
    const sl_type type = f32(2, 1, WIDTH, 0, 0), types[2] = {type, type};
    const sl_type rows = sl_type_make(SL_DTYPE_a8, 2, (int64_t)1, (int64_t)WIDTH);
    assert_int_equal(sl_type_bytes(&rows), sizeof coded);
    multiply(set, x, (int64_t[]){row, 1}, &matrices[0], gate);
    multiply(set, x, (int64_t[]){row, 1}, &matrices[1], up);
    const sl_swiglu_args swiglu = {{gate, type}, {up, type}, {mid, type}, {0}};
    run(set, SL_OP_swiglu, types, &swiglu);
    const sl_quantise_args quantise = {{mid, type}, {coded, rows}, {0}};
    run(set, SL_OP_quantise, types, &quantise);
    multiply(set, &(sl_cview){coded, rows}, (int64_t[]){0, 1}, &matrices[2], out);
}

/* Compares the results of moe_ffn pair by pair. */
static void check_parts(const op_case *c, const memory_source *source, const char *isa) {
    const sl_kernel_set *set = sl_cpu_kernel_set(isa);
    const sl_cview x = {c->data[0], c->types[0]};
    const int32_t *order = c->data[1], *starts = c->data[2];
    memory m = memory_of(c);
    sl_error err = {0};
    if (run_kernel(c, isa, &m, 1, false, &err)) fail_msg("%s", err.message);
    for (int32_t e = 0; e < EXPERTS; e++) {
        for (int32_t i = starts[e]; i < starts[e + 1]; i++) {
            float wanted[HIDDEN];
            parts_of_expert(set, &x, order[i] / USED, source->matrices[e], wanted);
            const float *found = (const float *)m.views[4] + (int64_t)order[i] * HIDDEN;
            assert_memory_equal(found, wanted, sizeof wanted);
        }
    }
    memory_free(&m);
}

/* The same bits as its parts.  Compared with the evaluator in doubles, a value between the
 * projections may round to the neighbouring code, which changes all outputs of its row. */
static void test_moe_ffn_rows(void **state) {
    (void)state;
    const sl_moe_ffn_attrs attrs = {.layer = 3, .k = USED};
    for (int n = FIRST_PANEL_TYPE * 2; n < WEIGHT_TYPES * 2; n++) {
        const int64_t rows = n % 2 ? 90 : 7;
        const int32_t pairs = (int32_t)rows * USED;
        const sl_type matrices =
            sl_type_make(weight_types[n / 2], 3, (int64_t)EXPERTS, (int64_t)WIDTH, (int64_t)HIDDEN);
        memory_source source;
        memory_source_init(&source, &matrices);
        op_case c = case_of(SL_OP_moe_ffn, &attrs, 0.03);
        input(&c, sl_type_make(SL_DTYPE_a8, 2, rows, (int64_t)HIDDEN), -1, 1);
        int32_t *order = input(&c, i32(pairs), 0, 1), *starts = input(&c, i32(EXPERTS + 1), 0, 1);
        for (int32_t i = 0; i < pairs; i++) order[i] = (i * 11 + 3) % pairs;
        for (int32_t e = 0; e <= EXPERTS; e++) starts[e] = pairs * e / EXPERTS;
        for (int32_t e = 0; e < EXPERTS; e++) source.used[source.used_count++] = e;
        c.types[c.inputs++] = matrices;
        c.source = &source.base;
        c.prepare = memory_source_request_used;
        infer_outputs(&c);
        for (int i = 0; i < ISA_COUNT; i++)
            if (sl_cpu_kernel_set(isas[i])) check_parts(&c, &source, isas[i]);
        check(&c);
        assert_int_equal(source.held, 0);
        memory_source_deinit(&source);
    }
}

/* Shapes of whole groups and panels, several tiles per expert, experts without pairs. */
typedef struct {
    int64_t tokens, experts, width, hidden;
    int gate, up, down; /* sl_dtypes */
} many_case;

static void check_many(const many_case *m) {
    const sl_moe_ffn_attrs attrs = {.layer = 1, .k = 8};
    const int32_t pairs = (int32_t)(m->tokens * attrs.k), experts = (int32_t)m->experts;
    const sl_type matrices = sl_type_make((sl_dtype)m->gate, 3, m->experts, m->width, m->hidden);
    memory_source source;
    memory_source_init(&source, &matrices);
    for (int32_t e = 0; e < experts; e++)
        for (int i = 1; i < 3; i++) {
            sl_cview *view = &source.matrices[e][i];
            op_case owner = {0};
            free((void *)view->data);
            view->type.dtype = (sl_dtype)(i == 1 ? m->up : m->down);
            view->data = input(&owner, view->type, -1, 1);
        }
    op_case c = case_of(SL_OP_moe_ffn, &attrs, 0.03);
    input(&c, sl_type_make(SL_DTYPE_a8, 2, m->tokens, m->hidden), -1, 1);
    int32_t *order = input(&c, i32(pairs), 0, 1), *starts = input(&c, i32(experts + 1), 0, 1);
    for (int32_t i = 0; i < pairs; i++) order[i] = (i * 11 + 3) % pairs;
    starts[0] = 0;
    for (int32_t e = 0; e < experts; e++) {
        const int32_t left = pairs - starts[e], some = e % 3 == 1 ? 0 : left / 3 + 1;
        starts[e + 1] = e == experts - 1 ? pairs : starts[e] + (some < left ? some : left);
        if (starts[e] < starts[e + 1]) source.used[source.used_count++] = e;
    }
    c.types[c.inputs++] = matrices;
    c.source = &source.base;
    c.prepare = memory_source_request_used;
    check(&c);
    assert_int_equal(source.held, 0);
    memory_source_deinit(&source);
}

static void test_moe_ffn_many(void **state) {
    (void)state;
    enum { Q4 = SL_DTYPE_q4, Q8 = SL_DTYPE_q8, Q4_K = SL_DTYPE_q4_k, Q6_K = SL_DTYPE_q6_k };
    static const many_case cases[] = {
        {1, 16, 64, 2304, Q4, Q4, Q4},       {1, 9, 256, 256, Q8, Q8, Q4},
        {3, 16, 96, 512, Q4_K, Q4_K, Q6_K},  {40, 16, 160, 256, Q4, Q4, Q4},
        {40, 12, 64, 288, Q4_K, Q4_K, Q6_K}, {2, 12, 40, 96, Q4, Q8, Q4},
        {9, 12, 40, 96, Q6_K, Q8, Q4_K},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_many(&cases[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantise),      cmocka_unit_test(test_quantise_not_finite),
        cmocka_unit_test(test_linear_rows),   cmocka_unit_test(test_linear_rows_same),
        cmocka_unit_test(test_moe_ffn_rows),  cmocka_unit_test(test_moe_ffn_many),
        cmocka_unit_test(test_linear_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
