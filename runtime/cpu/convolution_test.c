/* convolution_test.c - Kernels of convolutions and pools against the evaluator, on random
 * shapes. */
#include "tests/support/node_case.h"
#include "tests/support/rounds.h"

static sl_dtype any_float(void) {
    static const sl_dtype dtypes[] = {SL_DTYPE_f16, SL_DTYPE_bf16, SL_DTYPE_f64};
    return node_next() % 4 ? SL_DTYPE_f32 : dtypes[node_next() % 3];
}
static sl_dtype any_number(void) {
    static const sl_dtype dtypes[] = {SL_DTYPE_i8,  SL_DTYPE_u8,  SL_DTYPE_i16, SL_DTYPE_u16,
                                      SL_DTYPE_i32, SL_DTYPE_u32, SL_DTYPE_i64, SL_DTYPE_u64};
    return node_next() % 4 ? any_float() : dtypes[node_next() % 8];
}
static void random_input(node_case *n, const sl_type *type) {
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_FLOAT)
        node_random(n, type, -1, 1);
    else
        node_random(n, type, sl_dtype_infos[type->dtype].name[0] == 'i' ? -100 : 0, 100);
}

/* A window over 1 to 3 axes that fits into the input. */
typedef struct {
    uint32_t rank;
    int64_t in[3], kernel[3], stride[3], dilation[3], before[3], after[3];
} window;

static window random_window(int64_t most) {
    window w = {.rank = (uint32_t)node_between(1, 3)};
    const int64_t limit = w.rank == 3 ? most / 4 : w.rank == 2 ? most : most * 3;
    for (uint32_t i = 0; i < w.rank; i++) {
        w.kernel[i] = node_between(1, w.rank == 3 ? 3 : 5);
        w.stride[i] = node_next() % 2 ? 1 : node_between(1, 4);
        w.dilation[i] = node_next() % 3 ? 1 : node_between(1, 3);
        w.before[i] = node_next() % 2 ? 0 : node_between(0, 3);
        w.after[i] = node_next() % 2 ? 0 : node_between(0, 3);
        const int64_t spread = w.dilation[i] * (w.kernel[i] - 1) + 1;
        const int64_t least = spread - w.before[i] - w.after[i];
        w.in[i] = node_between(least < 1 ? 1 : least, limit + (least < 1 ? 1 : least));
    }
    return w;
}

static void put_list(char *text, size_t size, const char *name, const int64_t *items,
                     uint32_t rank) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, size - at, "%s%s = [", at ? ", " : "", name);
    for (uint32_t i = 0; i < rank; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "", (long long)items[i]);
    (void)snprintf(text + at, size - at, "]");
}
static void window_text(const window *w, char *text, size_t size) {
    put_list(text, size, "strides", w->stride, w->rank);
    put_list(text, size, "pads_before", w->before, w->rank);
    put_list(text, size, "pads_after", w->after, w->rank);
    put_list(text, size, "dilations", w->dilation, w->rank);
}
static sl_type type_of(sl_dtype dtype, int64_t a, int64_t b, const int64_t *places, uint32_t rank) {
    sl_type type = {dtype, {rank + 2, {a, b}}};
    for (uint32_t i = 0; i < rank; i++) type.shape.dims[i + 2] = places[i];
    return type;
}
static void windows_of(const window *w, int64_t *out) {
    for (uint32_t i = 0; i < w->rank; i++)
        out[i] = (w->in[i] + w->before[i] + w->after[i] - w->dilation[i] * (w->kernel[i] - 1) - 1) /
                     w->stride[i] +
                 1;
}

/* conv of random numbers, with a bias every other time and of floats with a relu at times. */
static void check_conv(const window *w, int64_t groups, const sl_type *x, const sl_type *weight) {
    char attrs[400] = "";
    window_text(w, attrs, sizeof attrs);
    const bool floats = sl_dtype_infos[x->dtype].kind == SL_KIND_FLOAT;
    const bool fused = floats && node_next() % 4 == 0;
    (void)snprintf(attrs + strlen(attrs), 40, ", groups = %d%s", (int)groups,
                   fused ? ", act = relu" : "");
    const sl_type bias = sl_type_make(x->dtype, 1, weight->shape.dims[0]);
    node_case c;
    node_open(&c, fused ? "fused_conv_bias_act" : "conv", attrs);
    random_input(&c, x);
    random_input(&c, weight);
    if (node_next() % 2) random_input(&c, &bias);
    node_check(&c);
}

static void convolutions(void **state) {
    (void)state;
    for (int round = 0; round < rounds(160); round++) {
        const window w = random_window(round % 8 ? 9 : 20);
        const sl_dtype dtype = any_number();
        const int64_t groups = node_next() % 2 ? 1 : node_between(1, 5);
        const int64_t channels = node_next() % 3 ? node_between(1, 6) : 1;
        const int64_t filters = node_between(1, round % 9 ? 10 : 140), n = node_between(1, 2);
        const sl_type x = type_of(dtype, n, groups * channels, w.in, w.rank);
        const sl_type weight = type_of(dtype, groups * filters, channels, w.kernel, w.rank);
        check_conv(&w, groups, &x, &weight);
    }
}

/* Depthwise convolutions with the square kernels that have their own loops: planes narrower than a
 * vector, and planes that take several passes, which CUDA's product does not have. */
static void planes(void **state) {
    (void)state;
#ifdef SL_CASE_CUDA
    const int64_t widest = is_long_run() ? 160 : 40;
#else
    const int64_t widest = 160;
#endif
    for (int round = 0; round < rounds(90); round++) {
        window w = {.rank = 2};
        const int64_t side = 3 + round % 3 * 2, stride = node_between(1, 2);
        for (uint32_t i = 0; i < 2; i++) {
            w.kernel[i] = side, w.stride[i] = stride, w.dilation[i] = 1;
            w.before[i] = node_between(0, side), w.after[i] = node_between(0, side);
            w.in[i] = node_between(side, round % 10 ? 40 : widest);
        }
        const int64_t groups = node_between(2, 5), filters = node_between(1, 2);
        const sl_type x = type_of(SL_DTYPE_f32, node_between(1, 2), groups, w.in, 2);
        const sl_type weight = type_of(SL_DTYPE_f32, groups * filters, 1, w.kernel, 2);
        check_conv(&w, groups, &x, &weight);
    }
}

/* Sums over more than one block of taps. */
static void deep_convolutions(void **state) {
    (void)state;
    static const struct {
        const char *op, *attrs, *x, *w;
    } rows[] = {
        {"conv", "pads_before = [1, 1], pads_after = [1, 1]", "f32[1,130,5,6]", "f32[9,130,3,3]"},
        {"conv", "", "f32[2,1100,3,5]", "f32[7,1100,1,1]"},
        {"conv", "", "f32[2,300,11,15]", "f32[70,300,1,1]"},
        {"conv", "pads_before = [1, 1], pads_after = [1, 1]", "f32[1,40,9,64]", "f32[33,40,3,3]"},
        {"conv", "pads_before = [1, 1], pads_after = [1, 1]", "f32[1,7,9,96]", "f32[9,7,3,3]"},
        {"conv", "strides = [2], pads_before = [2], pads_after = [3], dilations = [2]",
         "f32[1,3,701]", "f32[5,3,4]"},
        {"conv", "pads_before = [1, 0], pads_after = [0, 2]", "f32[1,2,5,150]", "f32[3,2,3,3]"},
        {"conv", "strides = [2, 2], pads_before = [2, 1], pads_after = [1, 2], dilations = [1, 2]",
         "f32[1,50,40,37]", "f32[3,50,5,5]"},
        {"conv", "strides = [3, 1], pads_before = [1, 1]", "f32[1,3,40,37]", "f32[9,3,3,3]"},
        {"conv", "groups = 3, strides = [1, 3]", "f32[1,3,9,250]", "f32[3,1,3,5]"},
        {"conv", "strides = [2]", "f32[1,300,31]", "f32[131,300,2]"},
        {"conv_transpose", "strides = [2]", "f32[1,600,7]", "f32[600,3,3]"},
        {"conv_backward_weight", "kernel = [3, 3], pads_before = [1, 1], pads_after = [1, 1]",
         "f32[2,3,30,31]", "f32[2,5,30,31]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sl_type x = node_type(rows[i].x), w = node_type(rows[i].w);
        node_case c;
        node_open(&c, rows[i].op, rows[i].attrs);
        node_random(&c, &x, 0, 1); /* positive, so that sums do not cancel */
        node_random(&c, &w, 0, 1);
        node_check(&c);
    }
}

static void transposed(void **state) {
    (void)state;
    for (int round = 0; round < rounds(80); round++) {
        window w = random_window(7);
        const sl_dtype dtype = any_number();
        const int64_t groups = node_next() % 2 ? 1 : node_between(1, 3);
        const int64_t sources = node_between(1, 5), results = node_between(1, 7);
        int64_t extra[3];
        for (uint32_t i = 0; i < w.rank; i++) {
            const int64_t reach =
                (w.in[i] - 1) * w.stride[i] + w.dilation[i] * (w.kernel[i] - 1) + 1;
            if (w.before[i] + w.after[i] >= reach) w.before[i] = w.after[i] = 0;
            extra[i] = node_between(0, w.stride[i] - 1);
        }
        char attrs[400] = "";
        window_text(&w, attrs, sizeof attrs);
        put_list(attrs, sizeof attrs, "output_padding", extra, w.rank);
        (void)snprintf(attrs + strlen(attrs), 40, ", groups = %d", (int)groups);
        const sl_type x = type_of(dtype, node_between(1, 2), groups * sources, w.in, w.rank);
        const sl_type weight = type_of(dtype, groups * sources, results, w.kernel, w.rank);
        const sl_type bias = sl_type_make(dtype, 1, groups * results);
        node_case c;
        node_open(&c, "conv_transpose", attrs);
        random_input(&c, &x);
        random_input(&c, &weight);
        if (node_next() % 2) random_input(&c, &bias);
        node_check(&c);
    }
}

static void gradients(void **state) {
    (void)state;
    for (int round = 0; round < rounds(100); round++) {
        const window w = random_window(round % 8 ? 8 : 18);
        const sl_dtype dtype = any_float();
        const bool weight = round % 2;
        const int64_t groups = node_next() % 2 ? 1 : node_between(1, 4);
        const int64_t channels = node_between(1, 6), filters = node_between(1, round % 9 ? 7 : 80);
        int64_t out[3];
        windows_of(&w, out);
        const int64_t n = node_between(1, 2);
        const sl_type x = type_of(dtype, n, groups * channels, w.in, w.rank);
        const sl_type dy = type_of(dtype, n, groups * filters, out, w.rank);
        const sl_type kernel = type_of(dtype, groups * filters, channels, w.kernel, w.rank);
        char attrs[400] = "";
        window_text(&w, attrs, sizeof attrs);
        put_list(attrs, sizeof attrs, weight ? "kernel" : "places", weight ? w.kernel : w.in,
                 w.rank);
        (void)snprintf(attrs + strlen(attrs), 40, ", groups = %d", (int)groups);
        node_case c;
        node_open(&c, weight ? "conv_backward_weight" : "conv_backward_input", attrs);
        random_input(&c, weight ? &x : &dy);
        random_input(&c, weight ? &dy : &kernel);
        node_check(&c);
    }
}

/* 2x2 pooling. */
static void halving_pools(void **state) {
    (void)state;
    for (int round = 0; round < 30; round++) {
        const int64_t in[2] = {node_between(2, 9), node_between(2, 90)};
        const sl_type x = type_of(SL_DTYPE_f32, 1, node_between(1, 3), in, 2);
        node_case c;
        node_open(&c, "pool_max", "kernel = [2, 2], strides = [2, 2]");
        random_input(&c, &x);
        node_check(&c);
    }
}

static void pools(void **state) {
    (void)state;
    static const char *const ops[] = {
        "pool_max", "pool_min",         "pool_sum", "pool_prod",         "pool_mean",
        "lp_pool",  "max_pool_indices", "im2col",   "pool_max_backward", "pool_mean_backward"};
    for (int round = 0; round < rounds(200); round++) {
        const int kind = round % 10;
        const window w = random_window(round % 8 ? 10 : 22);
        const bool floats = kind == 4 || kind == 5 || kind > 7;
        const sl_dtype dtype = floats ? any_float() : any_number();
        const int64_t n = node_between(1, 2), channels = node_between(1, 4);
        const sl_type x = type_of(dtype, n, channels, w.in, w.rank);
        int64_t out[3];
        windows_of(&w, out);
        const sl_type dy = type_of(dtype, n, channels, out, w.rank);
        char attrs[500] = "";
        window_text(&w, attrs, sizeof attrs);
        put_list(attrs, sizeof attrs, "kernel", w.kernel, w.rank);
        if (kind < 7) (void)snprintf(attrs + strlen(attrs), 40, ", ceil = %u", node_next() % 2);
        if (kind == 4 || kind == 9) (void)snprintf(attrs + strlen(attrs), 40, ", include_pad = 1");
        if (kind == 5)
            (void)snprintf(attrs + strlen(attrs), 40, ", p = %s", node_next() % 2 ? "2" : "1.5");
        if (kind == 6)
            (void)snprintf(attrs + strlen(attrs), 40, ", column_major = %u", node_next() % 2);
        if (kind == 9) put_list(attrs, sizeof attrs, "places", w.in, w.rank);
        node_case c;
        node_open(&c, ops[kind], attrs);
        if (kind < 9) random_input(&c, &x);
        if (kind > 7) random_input(&c, &dy);
        node_check(&c);
    }
}

static void causal(void **state) {
    (void)state;
    for (int round = 0; round < 30; round++) {
        const sl_dtype dtype = any_float();
        const int64_t channels = node_between(1, 5);
        const sl_type x = sl_type_make(dtype, 3, node_between(1, 3), channels, node_between(1, 90));
        const sl_type w = sl_type_make(dtype, 2, channels, node_between(1, 6));
        const sl_type bias = sl_type_make(dtype, 1, channels);
        node_case c;
        node_open(&c, "causal_conv1d", round % 3 ? "" : "dilation = 3");
        random_input(&c, &x);
        random_input(&c, &w);
        if (node_next() % 2) random_input(&c, &bias);
        node_check(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),      cmocka_unit_test(planes),
        cmocka_unit_test(deep_convolutions), cmocka_unit_test(transposed),
        cmocka_unit_test(gradients),         cmocka_unit_test(pools),
        cmocka_unit_test(halving_pools),     cmocka_unit_test(causal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
