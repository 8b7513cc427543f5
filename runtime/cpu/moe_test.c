/* moe_test.c - route_groups and moe_ffn_biased against the evaluator. */
#include "tests/support/memory_source.h"

static int64_t between(int64_t least, int64_t most) {
    return least + next() % (most - least + 1);
}

/* ---- route_groups ---- */

typedef struct {
    int64_t rows, experts;
    sl_route_groups_attrs attrs;
} route_case;

/* Multiples of 1/8 and 1/16: some are equal, the others differ by more than rounding errors. */
static op_case route_inputs(const route_case *r) {
    op_case c = case_of(SL_OP_route_groups, &r->attrs, 1e-6);
    float *logits = input(&c, f32(2, r->rows, r->experts, 0, 0), -5, 5);
    float *bias = floats(&c, f32(1, r->experts, 0, 0, 0));
    for (int64_t i = 0; i < r->rows * r->experts; i++)
        logits[i] = floorf(logits[i] * 8) / 8 + 0.03125f;
    for (int64_t e = 0; e < r->experts; e++) bias[e] = floorf(bias[e] * 16) / 16;
    return c;
}

static void test_route_groups(void **state) {
    (void)state;
    static const route_case cases[] = {
        {7, 256, {.k = 8, .normalise = 1, .groups = 8, .groups_kept = 4, .scale = 2.5f}},
        {3, 160, {.k = 8, .normalise = 1, .groups = 1, .groups_kept = 1, .scale = 1}},
        {3, 128, {.k = 8, .normalise = 0, .groups = 1, .groups_kept = 1, .scale = 1.5f}},
        {2, 512, {.k = 16, .normalise = 1, .groups = 16, .groups_kept = 3, .scale = 2.5f}},
        {2, 1030, {.k = 22, .normalise = 1, .groups = 10, .groups_kept = 9, .scale = 1}},
        {4, 37, {.k = 5, .normalise = 1, .groups = 37, .groups_kept = 6, .scale = 1}},
        {3, 64, {.k = 40, .normalise = 0, .groups = 4, .groups_kept = 3, .scale = 0.5f}},
        {2, 1600, {.k = 2, .normalise = 1, .groups = 800, .groups_kept = 70, .scale = 1}},
        {1, 1, {.k = 1, .normalise = 1, .groups = 1, .groups_kept = 1, .scale = 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        op_case c = route_inputs(&cases[i]);
        check(&c);
    }
}

static void test_route_groups_random(void **state) {
    (void)state;
    for (int round = 0; round < 60; round++) {
        const int64_t groups = between(1, 9), size = between(1, 70), kept = between(1, groups);
        const int64_t most = kept * size < 20 ? kept * size : 20;
        const route_case r = {between(1, 9),
                              groups * size,
                              {.k = (uint32_t)between(1, most),
                               .normalise = next() % 2,
                               .groups = (uint32_t)groups,
                               .groups_kept = (uint32_t)kept,
                               .scale = (float)uniform(0.5, 3)}};
        op_case c = route_inputs(&r);
        check(&c);
    }
}

/* NaN is never chosen, and a group of only NaN is not kept; -inf is an ordinary number. */
static void test_route_groups_not_numbers(void **state) {
    (void)state;
    const route_case r = {
        3, 24, {.k = 7, .normalise = 1, .groups = 4, .groups_kept = 2, .scale = 1}};
    for (int n = 0; n < 3; n++) {
        op_case c = route_inputs(&r);
        float *logits = c.data[0], *bias = c.data[1];
        for (int i = 0; i < 5; i++) logits[6 + i] = NAN; /* a group with one number */
        logits[11] = 20;
        for (int i = 0; i < 6; i++) logits[24 + 12 + i] = NAN; /* and one with none */
        for (int i = 0; i < 6; i++) bias[18 + i] = -INFINITY;
        for (int i = 0; i < 13 && n > 0; i++) logits[48 + i] = NAN;
        for (int i = 13; i < 18 && n == 2; i++) logits[48 + i] = NAN;
        n == 2 ? check_refused(&c) : check(&c);
    }
}

/* ---- moe_ffn_biased ---- */

typedef struct {
    int x, gate, up, down; /* sl_dtypes */
    int64_t rows, experts, width, hidden;
    uint32_t k;
} ffn_case;

static void set_types(memory_source *source, const ffn_case *f) {
    const int dtypes[] = {f->gate, f->up, f->down};
    for (int64_t e = 0; e < f->experts; e++)
        for (int i = 1; i < 3; i++) {
            sl_cview *view = &source->matrices[e][i];
            op_case owner = {0};
            free((void *)view->data);
            view->type.dtype = (sl_dtype)dtypes[i];
            view->data = input(&owner, view->type, -1, 1);
        }
}

/* Some experts have no pairs. */
static void add_pairs(op_case *c, memory_source *source, int32_t pairs) {
    const int32_t experts = (int32_t)source->experts;
    int32_t *order = input(c, i32(pairs), 0, 1), *starts = input(c, i32(experts + 1), 0, 1);
    for (int32_t i = 0; i < pairs; i++) order[i] = pairs - 1 - i;
    starts[0] = 0;
    for (int32_t e = 0; e < experts; e++) {
        const int32_t left = pairs - starts[e], some = e % 3 == 1 ? 0 : left / 3 + 1;
        starts[e + 1] = e == experts - 1 ? pairs : starts[e] + (some < left ? some : left);
        if (starts[e] < starts[e + 1]) source->used[source->used_count++] = e;
    }
}

typedef enum { RIGHT, BAD_PAIR, BAD_RUN, BAD_SHAPE, FAULTS } fault;

/* The limit is chosen so that it is often reached. */
static void check_ffn(const ffn_case *f, fault wrong) {
    const sl_moe_ffn_biased_attrs attrs = {.layer = 3, .k = f->k, .limit = 1.25f, .alpha = 1.702f};
    const sl_type matrices = sl_type_make((sl_dtype)f->gate, 3, f->experts, f->width, f->hidden);
    memory_source *source = calloc(1, sizeof *source);
    assert_non_null(source);
    memory_source_init(source, &matrices);
    set_types(source, f);
    /* f32: 2e-6 for each of the three products, the rest for the activation. */
    op_case c = case_of(SL_OP_moe_ffn_biased, &attrs, f->x == SL_DTYPE_a8 ? 0.03 : 7e-6);
    c.by_tensor = true;
    input(&c, sl_type_make((sl_dtype)f->x, 2, f->rows, f->hidden), -1, 1);
    add_pairs(&c, source, (int32_t)(f->rows * f->k));
    input(&c, f32(2, f->experts, f->width, 0, 0), -1, 1);
    input(&c, f32(2, f->experts, f->width, 0, 0), -1, 1);
    input(&c, f32(2, f->experts, f->hidden, 0, 0), -3, 3);
    c.types[c.inputs++] = matrices;
    c.source = &source->base;
    c.prepare = memory_source_request_used;
    if (wrong == BAD_PAIR) ((int32_t *)c.data[1])[0] = (int32_t)(f->rows * f->k);
    if (wrong == BAD_RUN) ((int32_t *)c.data[2])[1] = 100000;
    if (wrong == BAD_SHAPE) source->matrices[source->used[0]][2].type.shape.dims[1]++;
    wrong ? check_refused(&c) : check(&c);
    assert_int_equal(source->held, 0);
    memory_source_deinit(source);
    free(source);
}

static void test_biased(void **state) {
    (void)state;
    for (int n = 0; n < WEIGHT_TYPES * 2; n++) {
        const sl_dtype w = weight_types[n / 2];
        check_ffn(&(ffn_case){SL_DTYPE_f32, w, w, w, n % 2 ? 90 : 6, 6, 21, 45, 2}, RIGHT);
        if (n / 2 < FIRST_PANEL_TYPE) continue;
        check_ffn(&(ffn_case){SL_DTYPE_a8, w, w, w, n % 2 ? 90 : 6, 6, 53, 77, 2}, RIGHT);
    }
}

/* Whole groups and panels, several tiles per expert, and weights of different types. */
static void test_biased_many(void **state) {
    (void)state;
    enum { A8 = SL_DTYPE_a8, F32 = SL_DTYPE_f32, F16 = SL_DTYPE_f16, BF16 = SL_DTYPE_bf16 };
    enum { Q4 = SL_DTYPE_q4, Q8 = SL_DTYPE_q8, Q4_K = SL_DTYPE_q4_k, Q6_K = SL_DTYPE_q6_k };
    static const ffn_case cases[] = {
        {A8, Q4, Q4, Q4, 1, 16, 96, 2304, 4},       {A8, Q8, Q8, Q4, 1, 9, 256, 256, 8},
        {A8, Q4_K, Q4_K, Q6_K, 3, 16, 96, 512, 8},  {A8, Q4, Q4, Q4, 40, 16, 160, 256, 8},
        {A8, Q4_K, Q4_K, Q6_K, 40, 12, 64, 288, 8}, {A8, Q4, Q8, Q4, 2, 12, 40, 96, 8},
        {A8, Q6_K, Q8, Q4_K, 9, 12, 40, 96, 8},     {F32, BF16, F16, F32, 30, 5, 33, 70, 4},
        {F32, Q8, BF16, Q6_K, 2, 5, 64, 96, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_ffn(&cases[i], RIGHT);
}

static void test_biased_random(void **state) {
    (void)state;
    for (int round = 0; round < 24; round++) {
        const bool coded = round % 2;
        const int64_t first = coded ? FIRST_PANEL_TYPE : 0;
        const sl_dtype w = weight_types[between(first, WEIGHT_TYPES - 1)];
        const int64_t experts = between(1, 7);
        const ffn_case f = {coded ? SL_DTYPE_a8 : SL_DTYPE_f32,
                            w,
                            w,
                            w,
                            between(1, 20),
                            experts,
                            between(coded ? 40 : 1, 130),
                            between(coded ? 40 : 1, 130),
                            (uint32_t)between(1, experts)};
        check_ffn(&f, RIGHT);
    }
}

/* Whatever is wrong with a lease or the pairs, the lease is released. */
static void test_biased_refuses(void **state) {
    (void)state;
    for (int wrong = BAD_PAIR; wrong < FAULTS; wrong++) {
        check_ffn(&(ffn_case){SL_DTYPE_f32, SL_DTYPE_q8, SL_DTYPE_q8, SL_DTYPE_q8, 6, 6, 21, 45, 2},
                  (fault)wrong);
        check_ffn(&(ffn_case){SL_DTYPE_a8, SL_DTYPE_q4, SL_DTYPE_q4, SL_DTYPE_q4, 6, 6, 21, 45, 2},
                  (fault)wrong);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_route_groups),
        cmocka_unit_test(test_route_groups_random),
        cmocka_unit_test(test_route_groups_not_numbers),
        cmocka_unit_test(test_biased),
        cmocka_unit_test(test_biased_many),
        cmocka_unit_test(test_biased_random),
        cmocka_unit_test(test_biased_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
