/* kernels_test.c - Every kernel of every instruction set against the evaluator, on ragged shapes.
 * The tolerance of each op is given with its cases. */
#include "tests/support/op_case.h"
#include "tests/support/rounds.h"

/* ---- elementwise ---- */

static void binary(sl_op op, sl_type a, sl_type b, double tolerance) {
    op_case c = case_of(op, NULL, tolerance);
    const double limit = a.dtype == SL_DTYPE_i32 ? 100000 : 4;
    input(&c, a, -limit, limit);
    input(&c, b, -limit, limit);
    check(&c);
}

static void test_binary(void **state) {
    (void)state;
    static const sl_op ops[] = {SL_OP_add,     SL_OP_sub,     SL_OP_mul,
                                SL_OP_maximum, SL_OP_minimum, SL_OP_div};
    for (int i = 0; i < 6; i++) {
        binary(ops[i], f32(2, 7, 1030, 0, 0), f32(2, 7, 1030, 0, 0), 1e-7);
        binary(ops[i], f32(3, 3, 5, 67, 0), f32(1, 67, 0, 0, 0), 1e-7);
        binary(ops[i], f32(3, 3, 1, 67, 0), f32(3, 1, 41, 1, 0), 1e-7);
        binary(ops[i], f32(0, 0, 0, 0, 0), f32(3, 2, 3, 5, 0), 1e-7);
        binary(ops[i], f32(0, 0, 0, 0, 0), f32(0, 0, 0, 0, 0), 1e-7);
        binary(ops[i], f32(2, 1, 1, 0, 0), f32(1, 2000, 0, 0, 0), 1e-7);
        binary(ops[i], f32(3, 5, 1, 64, 0), f32(2, 40, 64, 0, 0), 1e-7);
        binary(ops[i], f32(2, 6, 128, 0, 0), f32(2, 6, 1, 0, 0), 1e-7);
        if (ops[i] == SL_OP_div) continue;
        binary(ops[i], sl_type_make(SL_DTYPE_i32, 2, (int64_t)5, (int64_t)1),
               sl_type_make(SL_DTYPE_i32, 2, (int64_t)1, (int64_t)333), 0);
    }
}

static void test_unary(void **state) {
    (void)state;
    static const struct {
        sl_op op;
        double low, high, tolerance;
    } rows[] = {
        {SL_OP_neg, -4, 4, 0},          {SL_OP_abs, -4, 4, 0},
        {SL_OP_relu, -4, 4, 0},         {SL_OP_exp, -80, 80, 1.2e-7},
        {SL_OP_log, 1e-3, 1e3, 1.2e-7}, {SL_OP_sqrt, 0, 1e3, 1e-7},
        {SL_OP_rsqrt, 1e-3, 1e3, 2e-7}, {SL_OP_tanh, -4, 4, 2e-7},
        {SL_OP_sigmoid, -80, 80, 3e-7}, {SL_OP_silu, -80, 80, 3e-7},
        {SL_OP_gelu, -5, 5, 5e-7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int64_t width = 1; width < 4000; width = width * 5 + 2) {
            op_case c = case_of(rows[i].op, NULL, rows[i].tolerance);
            input(&c, f32(2, 3, width, 0, 0), rows[i].low, rows[i].high);
            check(&c);
        }
}

/* Distance in units in the last place of the true value. */
static double ulps(float got, double want) {
    const float nearest = (float)want;
    if (isinf(nearest)) return got == nearest ? 0 : 1e9;
    int exponent = 0;
    (void)frexp(want, &exponent);
    /* Subnormals have the ulp of the smallest normal number. */
    if (exponent < -125) exponent = -125;
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

static void test_exp_accuracy(void **state) {
    (void)state;
    enum { COUNT = 400000 };
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = (float)uniform(-106, 90);
    x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 0, x[4] = -0.0f;
    const sl_type type = f32(1, COUNT, 0, 0, 0);
    for (int i = 0; i < ISA_COUNT; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (!set) continue;
        sl_error err = {0};
        const sl_exp_args exp_args = {.x = {x, type}, .out = {y, type}};
        assert_int_equal(
            run_items(sl_cpu_kernel_find(set, SL_OP_exp, &type), &exp_args, INT32_MAX, false, &err),
            SL_OK);
        assert_true(isnan(y[0]) && isinf(y[1]) && y[2] == 0 && y[3] == 1 && y[4] == 1);
        double worst_exp = 0, worst_sigmoid = 0;
        for (int j = 3; j < COUNT; j++) worst_exp = fmax(worst_exp, ulps(y[j], exp((double)x[j])));
        const sl_sigmoid_args sigmoid_args = {.x = {x, type}, .out = {y, type}};
        assert_int_equal(run_items(sl_cpu_kernel_find(set, SL_OP_sigmoid, &type), &sigmoid_args,
                                   INT32_MAX, false, &err),
                         SL_OK);
        for (int j = 3; j < COUNT; j++)
            if (x[j] > -87)
                worst_sigmoid = fmax(worst_sigmoid, ulps(y[j], 1 / (1 + exp(-(double)x[j]))));
        print_message("%s: exp within %.2f ulp, sigmoid within %.2f ulp\n", isas[i], worst_exp,
                      worst_sigmoid);
        assert_true(worst_exp <= 1.1 && worst_sigmoid <= 2.5);
    }
}

/* ---- matmul, reductions, movement ---- */

static void test_matmul(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {3, 7, 5}, {17, 33, 131}, {33, 64, 300}, {70, 40, 65}};
    for (int i = 0; i < 5; i++) {
        const int64_t m = sizes[i][0], k = sizes[i][1], n = sizes[i][2];
        op_case c = case_of(SL_OP_matmul, NULL, 1e-6);
        floats(&c, f32(2, m, k, 0, 0)), floats(&c, f32(2, k, n, 0, 0));
        check(&c);
        op_case batched = case_of(SL_OP_matmul, NULL, 1e-6);
        floats(&batched, f32(4, 2, 1, m, k)), floats(&batched, f32(3, 3, k, n, 0));
        check(&batched);
    }
}

static void test_reduce(void **state) {
    (void)state;
    static const sl_dims axes[] = {{1, {2}}, {1, {0}}, {2, {1, 2}}, {2, {0, 2}}, {3, {0, 1, 2}}};
    static const sl_op ops[] = {SL_OP_reduce_sum, SL_OP_reduce_mean, SL_OP_reduce_max};
    for (int o = 0; o < 3; o++)
        for (int i = 0; i < 5; i++) {
            const sl_reduce_sum_attrs attrs = {.axes = axes[i], .keep = (uint32_t)i % 2};
            op_case c = case_of(ops[o], &attrs, 1e-6);
            input(&c, f32(3, 5, 7, 93, 0), 0.1, 2);
            check(&c);
            op_case many = case_of(ops[o], &attrs, 1e-6); /* enough for more than one pass */
            input(&many, i == 1 ? f32(3, 2500, 3, 7, 0) : f32(3, 1, 2, 33000, 0), 0.1, 2);
            check(&many);
        }
}

static void test_last_axis(void **state) {
    (void)state;
    for (int64_t width = 1; width < 2000; width = width * 3 + 1) {
        op_case softmax = case_of(SL_OP_softmax, &(sl_softmax_attrs){.axis = -1}, 1e-6);
        input(&softmax, f32(3, 2, 3, width, 0), -20, 20);
        check(&softmax);
        op_case argmax = case_of(SL_OP_argmax, &(sl_argmax_attrs){.axis = -1}, 0);
        float *x = input(&argmax, f32(2, 5, width, 0, 0), -1, 1);
        if (width > 4) x[1] = x[3] = 2; /* a tie */
        check(&argmax);
    }
}

/* NaN is the maximum only if it is the first element. */
static void test_argmax(void **state) {
    (void)state;
    static const int64_t widths[] = {9000, 12290, 30000};
    for (int i = 0; i < 3; i++) {
        op_case c = case_of(SL_OP_argmax, &(sl_argmax_attrs){.axis = -1}, 0);
        const int64_t width = widths[i];
        float *x = input(&c, f32(2, 6, width, 0, 0), -1, 1);
        x[4098] = x[width - 1] = 2; /* a tie, far apart */
        x[width] = NAN;
        x[2 * width + 3] = NAN, x[2 * width + 4500] = 3, x[2 * width + 4501] = NAN;
        for (int64_t n = 0; n < width; n++) {
            x[3 * width + n] = -INFINITY;
            x[4 * width + n] = n % 2 ? 0.0f : -0.0f;
            x[5 * width + n] = n < width - 2 ? NAN : (float)-n;
        }
        x[3 * width + 7] = NAN;
        x[5 * width] = -1e30f;
        check(&c);
    }
}

static void test_movement(void **state) {
    (void)state;
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_bf16, SL_DTYPE_u8};
    for (int i = 0; i < 3; i++) {
        const sl_type x = sl_type_make(types[i], 3, (int64_t)5, (int64_t)6, (int64_t)7);
        const sl_transpose_attrs perms = {.perm = {3, {2, 0, 1}}};
        op_case transpose = case_of(SL_OP_transpose, &perms, 0);
        input(&transpose, x, 0, 100);
        check(&transpose);
        for (uint32_t axis = 0; axis < 3; axis++) {
            const sl_slice_attrs slices = {.axis = axis, .start = 2, .length = 3};
            op_case slice = case_of(SL_OP_slice, &slices, 0);
            input(&slice, x, 0, 100);
            check(&slice);
            const sl_concat_attrs concats = {.axis = axis};
            op_case concat = case_of(SL_OP_concat, &concats, 0);
            sl_type other = x;
            other.shape.dims[axis] = 2;
            input(&concat, x, 0, 100), input(&concat, other, 0, 100);
            check(&concat);
            const sl_gather_attrs gathers = {.axis = axis};
            op_case gather = case_of(SL_OP_gather, &gathers, 0);
            input(&gather, x, 0, 100);
            input(&gather, sl_type_make(SL_DTYPE_i32, 2, (int64_t)2, (int64_t)4), 0, 5);
            check(&gather);
        }
    }
    for (int64_t width = 22; width < 300; width += 234) {
        const sl_split_attrs even = {.axis = -1, .sizes = {2, (int64_t[]){width / 2, width / 2}}};
        op_case halves = case_of(SL_OP_split, &even, 0);
        halves.outs = 2;
        floats(&halves, f32(3, 3, 5, width, 0));
        check(&halves);
    }
    static const sl_dims perms[] = {{4, {0, 3, 2, 1}}, {4, {0, 2, 1, 3}}, {4, {3, 2, 1, 0}}};
    for (int i = 0; i < 9; i++) {
        const sl_transpose_attrs attrs = {.perm = perms[i / 3]};
        op_case turned = case_of(SL_OP_transpose, &attrs, 0);
        input(&turned,
              sl_type_make(types[i % 3], 4, (int64_t)2, (int64_t)33, (int64_t)3, (int64_t)48), 0,
              100);
        check(&turned);
    }
    const sl_gather_attrs first = {.axis = 0};
    op_case rows = case_of(SL_OP_gather, &first, 0);
    floats(&rows, f32(2, 9, 512, 0, 0)), input(&rows, i32(5), 0, 9);
    check(&rows);
    op_case outside = case_of(SL_OP_gather, &first, 0);
    floats(&outside, f32(2, 5, 3, 0, 0)), input(&outside, i32(3), 5, 6);
    check_refused(&outside);
}

/* ---- weights ---- */

static void test_linear(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 17, 33},   {2, 16, 32},   {3, 50, 300},
                                       {7, 33, 511}, {19, 40, 264}, {13, 5, 1024}, {5, 24, 320},
                                       {8, 40, 512}, {33, 17, 768}, {1, 53, 2048}, {5, 53, 2048},
                                       {8, 5, 2050}, {40, 70, 96},  {2, 700, 64}};
    for (int w = 0; w < WEIGHT_TYPES; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const int64_t tokens = sizes[i][0], rows = sizes[i][1], cols = sizes[i][2];
            op_case c = case_of(SL_OP_linear, NULL, 2e-6);
            floats(&c, f32(2, tokens, cols, 0, 0));
            input(&c, sl_type_make(weight_types[w], 2, rows, cols), -1, 1);
            if (w < 3) c.misalign[1] = 2; /* dense weights have the alignment of a file */
            check(&c);
        }
}

#ifdef SL_CASE_CUDA
/* Enough tokens that both matrices are rounded to f16 (kernels/gemm_half.cu): many rows, and few
 * rows with columns divided among blocks.  Where large terms cancel, the relative error of a result
 * is larger, so errors are relative to the whole tensor.  One shape for each type in turn; all in
 * long runs. */
static void test_linear_halves(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1030, 200}, {70, 1010}};
    for (int i = 0; i < 2 * (WEIGHT_TYPES - FIRST_PANEL_TYPE); i++) {
        if (!is_long_run() && i % 2 != i / 2 % 2) continue;
        const int64_t rows = shapes[i % 2][0], columns = shapes[i % 2][1];
        op_case c = case_of(SL_OP_linear, NULL, 1e-3);
        c.by_tensor = true;
        input(&c, sl_type_make(SL_DTYPE_a8, 2, (int64_t)259, columns), -3, 3);
        input(&c, sl_type_make(weight_types[FIRST_PANEL_TYPE + i / 2], 2, rows, columns), -1, 1);
        check(&c);
    }
}
#endif

/* A token's result must not depend on the other tokens of the call. */
static void test_linear_rows_alone(void **state) {
    (void)state;
    enum { TOKENS = 19, ROWS = 37, COLS = 291 };
    static float x[TOKENS * COLS], together[TOKENS * ROWS], alone[ROWS];
    const sl_type x_type = f32(2, TOKENS, COLS, 0, 0);
    fill(&x_type, x, -1, 1);
    for (int n = 0; n < ISA_COUNT * WEIGHT_TYPES; n++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[n / WEIGHT_TYPES]);
        if (!set) continue;
        const sl_dtype dtype = weight_types[n % WEIGHT_TYPES];
        op_case c = case_of(SL_OP_linear, NULL, 0);
        c.types[c.inputs++] = x_type;
        void *w = input(&c, sl_type_make(dtype, 2, (int64_t)ROWS, (int64_t)COLS), -1, 1);
        const sl_kernel *kernel = sl_cpu_kernel_find(set, SL_OP_linear, c.types);
        sl_linear_args args = {
            .x = {x, x_type}, .w = {w, c.types[1]}, .out = {together, f32(2, TOKENS, ROWS, 0, 0)}};
        sl_error err = {0};
        assert_int_equal(run_items(kernel, &args, INT32_MAX, false, &err), SL_OK);
        args.x.type = f32(2, 1, COLS, 0, 0);
        args.out = (sl_view){alone, f32(2, 1, ROWS, 0, 0)};
        for (int t = 0; t < TOKENS; t++) {
            args.x.data = x + (size_t)t * COLS;
            assert_int_equal(run_items(kernel, &args, INT32_MAX, false, &err), SL_OK);
            assert_memory_equal(alone, together + (size_t)t * ROWS, sizeof alone);
        }
        free(w);
    }
}

static void test_embed(void **state) {
    (void)state;
    for (int w = 0; w < WEIGHT_TYPES; w++) {
        for (int64_t cols = 77; cols < 700; cols += 547) {
            op_case c = case_of(SL_OP_embed, NULL, 0);
            input(&c, sl_type_make(weight_types[w], 2, (int64_t)50, cols), -1, 1);
            input(&c, i32(9), 0, 50);
            check(&c);
        }
        op_case outside = case_of(SL_OP_embed, NULL, 0);
        input(&outside, sl_type_make(weight_types[w], 2, (int64_t)50, (int64_t)77), -1, 1);
        input(&outside, i32(9), w % 2 ? -2 : 50, w % 2 ? 0 : 52);
        check_refused(&outside);
    }
}

/* ---- norms ---- */

static void norms_of(int64_t width) {
    const sl_rms_norm_attrs rms_attrs = {.eps = 1e-6f, .offset = 1};
    op_case rms = case_of(SL_OP_rms_norm, &rms_attrs, 1e-6);
    floats(&rms, f32(3, 5, 3, width, 0)), floats(&rms, f32(1, width, 0, 0, 0));
    check(&rms);
    const sl_gated_rms_norm_attrs gated_attrs = {.eps = 1e-6f};
    op_case gated = case_of(SL_OP_gated_rms_norm, &gated_attrs, 1e-6);
    floats(&gated, f32(3, 5, 3, width, 0)), floats(&gated, f32(3, 5, 3, width, 0));
    floats(&gated, f32(1, width, 0, 0, 0));
    check(&gated);
    const sl_l2_norm_attrs l2_attrs = {.eps = 1e-6f, .scale = 0.125f};
    op_case l2 = case_of(SL_OP_l2_norm, &l2_attrs, 1e-6);
    floats(&l2, f32(3, 5, 3, width, 0));
    check(&l2);
}

static void test_norms(void **state) {
    (void)state;
    for (int64_t width = 1; width < 1500; width = width * 4 + 3) norms_of(width);
}

/* As wide as in models, and wider than what a kernel may keep of a row. */
static void test_wide_norms(void **state) {
    (void)state;
    static const int64_t widths[] = {128, 256, 2048, 2052, 8196};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) norms_of(widths[i]);
}

/* ---- delta net ---- */

/* Rows of two slots: slot 2 from position `first` on, then slot 0 from 0 on. */
static void add_slots(op_case *c, int64_t rows, int64_t split, int32_t first) {
    int32_t *slots = input(c, i32(rows), 0, 1), *positions = input(c, i32(rows), 0, 1);
    for (int64_t t = 0; t < rows; t++) {
        slots[t] = t < split ? 2 : 0;
        positions[t] = (int32_t)(t < split ? first + t : t - split);
    }
}

static void test_causal_conv(void **state) {
    (void)state;
    for (int64_t taps = 2; taps < 6; taps++) {
        op_case c = case_of(SL_OP_causal_conv, NULL, 1e-6);
        floats(&c, f32(2, 11, 131, 0, 0)), floats(&c, f32(2, 131, taps, 0, 0));
        add_slots(&c, 11, 6, 5);
        floats(&c, f32(3, 3, taps - 1, 131, 0));
        check(&c);
    }
    op_case no_slot = case_of(SL_OP_causal_conv, NULL, 0);
    floats(&no_slot, f32(2, 5, 8, 0, 0)), floats(&no_slot, f32(2, 8, 4, 0, 0));
    add_slots(&no_slot, 5, 2, 1);
    floats(&no_slot, f32(3, 2, 3, 8, 0));
    check_refused(&no_slot);
}

#ifndef SL_CASE_CUDA
/* Where e^-x overflows f32, and where 1 + erf(x) would be all rounding error.  Rows have one
 * element each, so that errors are not averaged. */
static void test_far_below(void **state) {
    (void)state;
    op_case silu = case_of(SL_OP_silu, NULL, 1e-5);
    input(&silu, f32(2, 300, 1, 0, 0), -91, -88);
    check(&silu);
    const sl_activation_backward_attrs gelu = {.kind = "gelu"};
    op_case slope = case_of(SL_OP_activation_backward, &gelu, 1e-6);
    input(&slope, f32(2, 300, 1, 0, 0), -12, -2), input(&slope, f32(2, 300, 1, 0, 0), 1, 2);
    check(&slope);
}
#endif

static void test_decay_beta(void **state) {
    (void)state;
    op_case c = case_of(SL_OP_decay_beta, NULL, 1e-6);
    input(&c, f32(2, 9, 5, 0, 0), -20, 20), input(&c, f32(2, 9, 5, 0, 0), -20, 20);
    floats(&c, f32(1, 5, 0, 0, 0)), floats(&c, f32(1, 5, 0, 0, 0));
    check(&c);
}

static void delta_case(sl_op op, const void *attrs, int64_t rows, int64_t dk, int64_t dv) {
    op_case c = case_of(op, attrs, 5e-6);
    c.by_tensor = true; /* rows of the state may nearly cancel */
    floats(&c, f32(3, rows, 2, dk, 0));
    float *k = floats(&c, f32(3, rows, 2, dk, 0));
    for (int64_t i = 0; i < rows * 2 * dk; i++) k[i] /= sqrtf((float)dk); /* about unit length */
    floats(&c, f32(3, rows, 6, dv, 0));
    input(&c, f32(2, rows, 6, 0, 0), -1, 0), input(&c, f32(2, rows, 6, 0, 0), 0, 1);
    add_slots(&c, rows, rows * 2 / 3, 8);
    floats(&c, f32(4, 3, 6, dk, dv));
    check(&c);
}

/* Heads as in models: many rows of one slot, many slots of few rows, sequences that start within a
 * tile. */
static void test_delta_of_models(void **state) {
    (void)state;
    static const struct {
        int64_t rows, key_heads, heads, most, dv; /* most: rows per slot, at most */
    } cases[] = {
        {1, 16, 32, 1, 128}, {8, 16, 32, 1, 128}, {7, 2, 4, 3, 128},    {130, 1, 2, 130, 128},
        {100, 1, 1, 9, 128}, {90, 1, 2, 50, 64},  {200, 2, 2, 97, 128}, {64, 1, 1, 64, 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t rows = cases[i].rows, dk = 128, dv = cases[i].dv;
        const int64_t slot_count = (rows + cases[i].most - 1) / cases[i].most + 1;
        const sl_delta_chunk_attrs chunk = {.chunk = 64, .tiled = i % 2};
        const sl_delta_step_attrs step = {.tiled = i % 2};
        for (int form = 0; form < 2; form++) {
            op_case c = form ? case_of(SL_OP_delta_chunk, &chunk, 5e-6)
                             : case_of(SL_OP_delta_step, &step, 5e-6);
            c.by_tensor = true;
            floats(&c, f32(3, rows, cases[i].key_heads, dk, 0));
            float *k = floats(&c, f32(3, rows, cases[i].key_heads, dk, 0));
            for (int64_t e = 0; e < rows * cases[i].key_heads * dk; e++) k[e] /= sqrtf((float)dk);
            floats(&c, f32(3, rows, cases[i].heads, dv, 0));
            input(&c, f32(2, rows, cases[i].heads, 0, 0), -0.1, 0);
            input(&c, f32(2, rows, cases[i].heads, 0, 0), 0, 1);
            int32_t *slots = input(&c, i32(rows), 0, 1), *positions = input(&c, i32(rows), 0, 1);
            for (int64_t t = 0; t < rows; t++) {
                slots[t] = (int32_t)(slot_count - 1 - t / cases[i].most);
                positions[t] = (int32_t)(t % cases[i].most + (slots[t] % 2 ? 4 : 0));
            }
            if (rows == cases[i].most && rows > 100) positions[77] = 0; /* a new sequence starts */
            floats(&c, f32(4, slot_count, cases[i].heads, dk, dv));
            check(&c);
        }
    }
}

static void test_many_convolved(void **state) {
    (void)state;
    static const int64_t cases[][3] = {{1, 300, 1}, {70, 130, 70}, {100, 64, 9}, {33, 5, 1}};
    for (int i = 0; i < 4; i++) {
        const int64_t rows = cases[i][0], channels = cases[i][1], most = cases[i][2];
        op_case c = case_of(SL_OP_causal_conv, NULL, 1e-6);
        floats(&c, f32(2, rows, channels, 0, 0)), floats(&c, f32(2, channels, 4, 0, 0));
        int32_t *slots = input(&c, i32(rows), 0, 1), *positions = input(&c, i32(rows), 0, 1);
        for (int64_t t = 0; t < rows; t++) {
            slots[t] = (int32_t)((rows - 1 - t) / most);
            positions[t] = (int32_t)(t + (slots[t] % 3 ? 2 : 0));
        }
        floats(&c, f32(3, (rows + most - 1) / most + 1, 3, channels, 0));
        c.by_tensor = true; /* sums over few taps may nearly cancel */
        check(&c);
    }
}

static void test_delta(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 4, 3},    {2, 5, 17},      {19, 16, 32},
                                       {40, 33, 50}, {150, 128, 128}, {37, 20, 137}};
    for (int i = 0; i < 6; i++) {
        const sl_delta_step_attrs grouped = {0}, tiled = {.tiled = 1};
        delta_case(SL_OP_delta_step, &grouped, sizes[i][0], sizes[i][1], sizes[i][2]);
        delta_case(SL_OP_delta_step, &tiled, sizes[i][0], sizes[i][1], sizes[i][2]);
        for (uint32_t chunk = 1; chunk <= 64; chunk = chunk * 3 + 1) {
            const sl_delta_chunk_attrs attrs = {.chunk = chunk, .tiled = chunk > 4};
            delta_case(SL_OP_delta_chunk, &attrs, sizes[i][0], sizes[i][1], sizes[i][2]);
        }
    }
}

/* ---- experts ---- */

static void test_route(void **state) {
    (void)state;
    for (uint32_t normalise = 0; normalise < 2; normalise++)
        for (uint32_t k = 1; k <= 9; k += 4) {
            const sl_route_attrs attrs = {.k = k, .normalise = normalise};
            op_case c = case_of(SL_OP_route, &attrs, 1e-6);
            float *logits = input(&c, f32(2, 7, 37, 0, 0), -5, 5);
            logits[3] = logits[9] = 6; /* a tie */
            check(&c);
        }
    const sl_route_attrs many = {.k = 10, .normalise = 1};
    op_case wide = case_of(SL_OP_route, &many, 1e-6);
    float *row = input(&wide, f32(2, 3, 512, 0, 0), -5, 5);
    for (int i = 0; i < 512; i += 3) row[i] = 1; /* ties across vectors, and NaN */
    for (int i = 1; i < 512; i += 4) row[i] = i % 8 == 1 ? NAN : -INFINITY;
    check(&wide);
    const sl_route_attrs attrs = {.k = 2};
    op_case nan = case_of(SL_OP_route, &attrs, 0);
    float *logits = floats(&nan, f32(2, 1, 4, 0, 0));
    for (int i = 0; i < 3; i++) logits[i] = NAN;
    check_refused(&nan);
}

/* Experts in memory; every expert in `wanted` is returned once per request, last first.  The layer
 * is the third; a device that caches experts may also request those of earlier layers. */
enum { EXPERTS = 6, WIDTH = 21, HIDDEN = 45 };
typedef struct {
    sl_expert_source base;
    sl_cview matrices[EXPERTS][3];
    int32_t wanted[EXPERTS];
    uint32_t left, held;
} memory_source;

static sl_status source_request(sl_expert_source *base, sl_layer_id layer, const int32_t *experts,
                                uint32_t count, sl_error *err) {
    memory_source *s = (memory_source *)base;
    (void)err;
    assert_true(layer.v <= 3);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || experts[i] > experts[i - 1]);
        s->wanted[i] = experts[i];
    }
    s->left = count;
    return SL_OK;
}
static sl_status source_take(sl_expert_source *base, sl_layer_id layer, sl_expert_lease *out,
                             sl_error *err) {
    memory_source *s = (memory_source *)base;
    (void)err;
    assert_true(layer.v <= 3);
    *out = (sl_expert_lease){.expert = -1};
    if (!s->left) return SL_OK;
    const int32_t e = s->wanted[--s->left];
    *out = (sl_expert_lease){
        .expert = e, .gate = s->matrices[e][0], .up = s->matrices[e][1], .down = s->matrices[e][2]};
    s->held++;
    return SL_OK;
}
static void source_release(sl_expert_source *base, const sl_expert_lease *lease) {
    memory_source *s = (memory_source *)base;
    assert_true(lease->expert >= 0 && s->held > 0);
    s->held--;
}

static void source_fill(memory_source *s, op_case *owner, sl_dtype dtype) {
    *s = (memory_source){.base = {source_request, source_take, source_release, 0}};
    for (int e = 0; e < EXPERTS; e++)
        for (int i = 0; i < 3; i++) {
            sl_type type = sl_type_make(dtype, 2, (int64_t)WIDTH, (int64_t)HIDDEN);
            if (i == 2) type = sl_type_make(dtype, 2, (int64_t)HIDDEN, (int64_t)WIDTH);
            s->matrices[e][i] = (sl_cview){input(owner, type, -1, 1), type};
            owner->inputs--; /* owned by the source */
        }
}
static void source_free(memory_source *s) {
    for (int e = 0; e < EXPERTS; e++)
        for (int i = 0; i < 3; i++) free((void *)s->matrices[e][i].data);
}

static void request_all_but_one(sl_expert_source *source) {
    const int32_t experts[] = {0, 1, 3, 4, 5};
    sl_error err = {0};
    assert_int_equal(source->request(source, (sl_layer_id){3}, experts, 5, &err), SL_OK);
}

/* Expert 2 has no pairs; expert 0 has most of them. */
static void add_pairs(op_case *c, int32_t pairs) {
    int32_t *order = input(c, i32(pairs), 0, 1), *starts = input(c, i32(EXPERTS + 1), 0, 1);
    for (int32_t i = 0; i < pairs; i++) order[i] = (i * 7 + 3) % pairs;
    for (int32_t e = 1; e <= EXPERTS; e++)
        starts[e] = e == 1 ? pairs / 2 : starts[e - 1] + (e != 3);
    starts[EXPERTS] = pairs;
}

static void test_moe_group(void **state) {
    (void)state;
    const sl_moe_group_attrs attrs = {.layer = 3};
    static const int64_t rows[] = {9, 9, 1, 4, 130, 700};
    for (int n = 0; n < 6; n++) {
        const bool bad = n == 1;
        memory_source source;
        op_case c = case_of(SL_OP_moe_group, &attrs, 0);
        source_fill(&source, &c, SL_DTYPE_q4);
        int32_t *chosen =
            input(&c, sl_type_make(SL_DTYPE_i32, 2, rows[n], (int64_t)(n < 2 ? 2 : 8)), 0, 5);
        c.types[c.inputs] =
            sl_type_make(SL_DTYPE_q4, 3, (int64_t)EXPERTS, (int64_t)WIDTH, (int64_t)HIDDEN);
        c.data[c.inputs++] = NULL;
        c.source = &source.base;
        if (bad) chosen[4] = EXPERTS;
        bad ? check_refused(&c) : check(&c);
        source_free(&source);
    }
}

static void test_moe_ffn(void **state) {
    (void)state;
    const sl_moe_ffn_attrs attrs = {.layer = 3, .k = 2};
    for (int n = 0; n < WEIGHT_TYPES * 3; n++) {
        const int64_t rows = n % 3 == 0 ? 6 : n % 3 == 1 ? 9 : 90;
        memory_source source = {0};
        op_case c = case_of(SL_OP_moe_ffn, &attrs, 5e-6);
        source_fill(&source, &c, weight_types[n / 3]);
        floats(&c, f32(2, rows, HIDDEN, 0, 0));
        add_pairs(&c, (int32_t)rows * 2);
        c.types[c.inputs] =
            sl_type_make(weight_types[n / 3], 3, (int64_t)EXPERTS, (int64_t)WIDTH, (int64_t)HIDDEN);
        c.data[c.inputs++] = NULL;
        c.source = &source.base;
        c.prepare = request_all_but_one;
        check(&c);
        assert_int_equal(source.held, 0);
        source_free(&source);
    }
}

/* Whatever is wrong with a lease or the pairs, the lease is released. */
static void test_moe_ffn_refuses(void **state) {
    (void)state;
    const sl_moe_ffn_attrs attrs = {.layer = 3, .k = 2};
    for (int fault = 0; fault < 3; fault++) {
        memory_source source = {0};
        op_case c = case_of(SL_OP_moe_ffn, &attrs, 0);
        source_fill(&source, &c, SL_DTYPE_q8);
        floats(&c, f32(2, 6, HIDDEN, 0, 0));
        add_pairs(&c, 12);
        if (fault == 0) source.matrices[4][2].type.shape.dims[1]++;
        if (fault == 1) ((int32_t *)c.data[1])[2] = 12;
        if (fault == 2) ((int32_t *)c.data[2])[5] = 100;
        c.types[c.inputs++] =
            sl_type_make(SL_DTYPE_q8, 3, (int64_t)EXPERTS, (int64_t)WIDTH, (int64_t)HIDDEN);
        c.source = &source.base;
        c.prepare = request_all_but_one;
        check_refused(&c);
        assert_int_equal(source.held, 0);
        source_free(&source);
    }
}

static void test_combine(void **state) {
    (void)state;
    op_case moe = case_of(SL_OP_moe_combine, NULL, 1e-6);
    floats(&moe, f32(3, 7, 4, 83, 0)), floats(&moe, f32(2, 7, 4, 0, 0));
    check(&moe);
    op_case shared = case_of(SL_OP_shared_combine, NULL, 1e-6);
    floats(&shared, f32(2, 7, 83, 0, 0)), floats(&shared, f32(2, 7, 83, 0, 0));
    floats(&shared, f32(2, 7, 1, 0, 0));
    check(&shared);
    for (int i = 0; i < 2; i++) {
        op_case gated = case_of(i ? SL_OP_swiglu : SL_OP_sigmoid_gate, NULL, 1e-6);
        input(&gated, f32(2, 7, 283, 0, 0), -9, 9), input(&gated, f32(2, 7, 283, 0, 0), -9, 9);
        check(&gated);
    }
}

/* ---- selection ---- */

/* Views and ops that are always rewritten never reach a device; every other op must have a kernel
 * in every set. */
static void test_selection(void **state) {
    (void)state;
    assert_null(sl_cpu_kernel_set("z80"));
    assert_non_null(sl_cpu_kernel_set("baseline"));
    for (int i = 0; i < ISA_COUNT; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (!set) continue;
        assert_string_equal(set->isa, isas[i]);
        for (int op = 0; op < SL_OP_COUNT; op++) {
            bool served = (sl_op_info_of((sl_op)op)->traits & SL_OP_VIEW) != 0 ||
                          op == SL_OP_gaussian_splat_render || op == SL_OP_rms_norm_axes;
            for (uint32_t k = 0; k < set->count; k++) served |= (int)set->kernels[k].op == op;
            if (!served)
                fail_msg("%s has no kernel for %s", isas[i], sl_op_info_of((sl_op)op)->name);
        }
        const sl_type types[2] = {f32(2, 1, 1, 0, 0), sl_type_make(SL_DTYPE_u8, 1, (int64_t)1)};
        assert_null(sl_cpu_kernel_find(set, SL_OP_rms_norm, types));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_exp_accuracy),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_last_axis),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_rows_alone),
#ifdef SL_CASE_CUDA
        cmocka_unit_test(test_linear_halves),
#endif
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_causal_conv),
#ifndef SL_CASE_CUDA
        cmocka_unit_test(test_far_below),
#endif
        cmocka_unit_test(test_decay_beta),
        cmocka_unit_test(test_delta),
        cmocka_unit_test(test_route),
        cmocka_unit_test(test_moe_group),
        cmocka_unit_test(test_moe_ffn),
        cmocka_unit_test(test_moe_ffn_refuses),
        cmocka_unit_test(test_combine),
        cmocka_unit_test(test_wide_norms),
        cmocka_unit_test(test_many_convolved),
        cmocka_unit_test(test_delta_of_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
