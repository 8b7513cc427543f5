/* matmul_test.c [COUNT [SEED]] - Kernels of matrix products, linear systems, packed weights, losses
 * and quantised numbers against the evaluator, on COUNT (150) rounds of random shapes. */
#include "core/schemes.h"
#include "tests/support/node_case.h"

/* 1 to most, often at or next to a multiple of a power of two. */
static int64_t ragged(int64_t most) {
    if (node_next() % 4 == 0) return node_between(1, most);
    const int64_t unit = (int64_t)1 << node_next() % 7;
    const int64_t size = unit * node_between(0, 5) + node_between(-1, 1);
    return size < 1 ? 1 : size > most ? node_between(1, most) : size;
}
/* Enough rows for `width` that the largest element is representative: where a sum nearly cancels,
 * only several of them show how large an error is. */
static int64_t rows_for(int64_t width, int64_t most) {
    const int64_t rows = ragged(most), wanted = (31 + width) / width;
    return rows < wanted ? wanted : rows;
}
static sl_dtype one_of(const char *names) {
    const char *at = names;
    uint32_t count = 1;
    sl_dtype dtype = SL_DTYPE_f32;
    for (const char *p = names; *p; p++) count += *p == ' ';
    for (uint32_t i = node_next() % count; i > 0; i--) at = strchr(at, ' ') + 1;
    assert_true(sl_dtype_find(at, strcspn(at, " "), &dtype));
    return dtype;
}
#define FLOATS  "f32 f16 bf16 f64"
#define NUMBERS FLOATS " c64 i8 u8 i16 u16 i32 u32 i64 u64"

/* Numbers of any type; floats of ordinary sizes. */
static void numbers(node_case *n, sl_type type) {
    const bool exact = node_is_exact(type.dtype);
    const bool is_signed = sl_dtype_infos[type.dtype].name[0] == 'i';
    node_random(n, &type, exact ? (is_signed ? -120 : 0) : -1, exact ? 120 : 1);
}
static sl_type typed(sl_dtype dtype, uint32_t rank, int64_t a, int64_t b, int64_t c) {
    return sl_type_make(dtype, rank, a, b, c);
}

static void matmul(void) {
    node_case n;
    const sl_dtype dtype = one_of(NUMBERS);
    const int64_t c = ragged(150), m = rows_for(c, 140), k = node_next() % 8 ? ragged(600) : 0;
    const int64_t batch = node_between(1, 3);
    node_open(&n, "matmul", "");
    numbers(&n, typed(dtype, 3, node_next() % 2 ? batch : 1, m, k));
    numbers(&n, sl_type_make(dtype, 4, (int64_t)2, node_next() % 2 ? batch : (int64_t)1, k, c));
    node_check(&n);
}

static void dot_general(void) {
    static const char *const attrs[] = {
        "lhs_contract = [2, 0], rhs_contract = [0, 3], lhs_batch = [1], rhs_batch = [2]",
        "lhs_contract = [2], rhs_contract = [0], lhs_batch = [], rhs_batch = []",
        "lhs_contract = [], rhs_contract = [], lhs_batch = [1, 2], rhs_batch = [2, 0]",
    };
    node_case n;
    const sl_dtype dtype = one_of(NUMBERS);
    const int64_t a = ragged(20), b = node_between(1, 4), c = ragged(40), d = rows_for(1, 60);
    node_open(&n, "dot_general", attrs[node_next() % 3]);
    numbers(&n, typed(dtype, 3, a, b, c));
    numbers(&n, sl_type_make(dtype, 4, c, d, b, a));
    node_check(&n);
}

static void solve(void) {
    node_case n;
    const sl_dtype dtype = one_of("f32 f64");
    const int64_t size = node_between(1, 30), batch = node_between(1, 5);
    const bool batched = node_next() % 2;
    const uint32_t vector = node_next() % 2;
    node_open(&n, batched ? "batched_dense_solve" : "dense_solve", "");
    const sl_type a = batched ? typed(dtype, 3, batch, size, size) : typed(dtype, 2, size, size, 0);
    double *matrix = node_random(&n, &a, -1, 1);
    for (int64_t i = 0; i < sl_type_elements(&a);
         i++) /* well-conditioned, and pivoting is needed */
        if (i % (size * size) / size == size - 1 - i % size) matrix[i] += (double)size;
    const int64_t cols = node_between(1, 6);
    numbers(&n, batched ? typed(dtype, 3 - vector, batch, size, cols)
                        : typed(dtype, 2 - vector, size, cols, 0));
    node_check(&n);
}

static void det(void) {
    node_case n;
    const int64_t size = node_between(1, 12);
    node_open(&n, "det", "");
    numbers(&n, typed(one_of("f32 f64"), 3, ragged(20), size, size));
    node_check(&n);
}

static void chosen(void) {
    node_case n;
    const sl_dtype dtype = one_of(FLOATS);
    const int64_t k = ragged(600), cols = ragged(140), rank = ragged(300);
    const int64_t rows = rows_for(cols, 150);
    const int64_t experts = node_between(1, 6);
    node_open(&n, "lora_matmul", "scale = 0.5");
    numbers(&n, typed(dtype, 2, rows, k, 0)), numbers(&n, typed(dtype, 2, k, cols, 0));
    numbers(&n, typed(dtype, 2, k, rank, 0)), numbers(&n, typed(dtype, 2, rank, cols, 0));
    node_check(&n);
    node_open(&n, "grouped_matmul", "");
    numbers(&n, typed(dtype, 2, rows, k, 0)), numbers(&n, typed(dtype, 3, experts, k, cols));
    const sl_type index = typed(one_of("i32 i64"), 1, rows, 0, 0);
    node_random(&n, &index, 0, (double)experts);
    node_check(&n);
}

/* ---- packed weights ---- */

/* Random blocks in which the f16 parameters are ordinary floats. */
static void fill_blocks(const sl_gguf_layout *layout, double *w, int64_t blocks) {
    static const struct {
        const char *name;
        int at[2];
    } halves[] = {{"q4_1", {0, 2}},    {"q5_1", {0, 2}}, {"q2_k", {80, 82}},  {"q3_k", {108, -1}},
                  {"q4_k", {0, 2}},    {"q5_k", {0, 2}}, {"q6_k", {208, -1}}, {"tq1_0", {52, -1}},
                  {"tq2_0", {64, -1}}, {"q8_1", {0, 2}}, {"mxfp4", {-1, -1}}, {"nvfp4", {-1, -1}}};
    int at[2] = {0, -1};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        if (strcmp(layout->name, halves[i].name) == 0) memcpy(at, halves[i].at, sizeof at);
    for (int64_t b = 0; b < blocks; b++, w += layout->bytes) {
        for (int64_t i = 0; i < layout->bytes; i++) w[i] = (double)(node_next() % 256);
        for (int i = 0; i < 2; i++)
            if (at[i] >= 0) w[at[i] + 1] = (double)(0x18 + node_next() % 8 + node_next() % 2 * 128);
        if (strcmp(layout->name, "mxfp4") == 0) w[0] = (double)node_between(120, 126);
        for (int i = 0; i < 4 && strcmp(layout->name, "nvfp4") == 0; i++)
            w[i] = (double)(node_next() % 0x50);
        if (strcmp(layout->name, "q8_k") == 0) w[2] = 0x80, w[3] = 0x3c; /* f32 */
    }
}

static void gguf(void) {
    node_case n;
    char attrs[64];
    const sl_gguf_layout *l = &sl_gguf_layouts[node_next() % SL_GGUF_COUNT];
    const int64_t blocks = node_between(1, 640 / l->cols + 1), cols = ragged(90);
    const int64_t rows = ragged(90), experts = node_between(1, 3);
    const sl_type x = typed(one_of("f32 f16 bf16"), 2, rows, blocks * l->cols, 0);
    const sl_type w = typed(SL_DTYPE_u8, 2, cols, blocks * l->bytes, 0);
    const sl_type stack = typed(SL_DTYPE_u8, 3, experts, cols, blocks * l->bytes);
    (void)snprintf(attrs, sizeof attrs, "scheme = \"gguf_%s\"", l->name);
    node_open(&n, "dequant_matmul", attrs);
    numbers(&n, x);
    fill_blocks(l, node_input(&n, &w), cols * blocks);
    node_check(&n);
    node_open(&n, "dequant_grouped_matmul", attrs);
    numbers(&n, x);
    fill_blocks(l, node_input(&n, &stack), experts * cols * blocks);
    const sl_type index = typed(one_of("i32 i64"), 1, rows, 0, 0);
    node_random(&n, &index, 0, (double)experts);
    node_check(&n);
    node_open(&n, "dequant_moe_weights", attrs);
    fill_blocks(l, node_input(&n, &stack), experts * cols * blocks);
    node_check(&n);
}

static void packed(void) {
    static const char *const names[] = {
        "int8_block", "int8_block_asym", "int4_block", "int4_block_asym",
        "fp8_e4m3",   "fp8_e5m2",        "nvfp4"};
    node_case n;
    char attrs[80];
    sl_scheme scheme;
    const char *name = names[node_next() % 7];
    assert_true(sl_scheme_find(name, &scheme));
    const bool is_free = scheme.kind <= SL_SCHEME_INT4_ASYM, nv = scheme.kind == SL_SCHEME_NVFP4;
    const int64_t k = ragged(600), cols = ragged(90), own = node_between(1, 70);
    const int64_t block = is_free ? own : nv ? 16 : 0, runs = block ? (k + block - 1) / block : 1;
    (void)snprintf(attrs, sizeof attrs, "scheme = \"%s\", block = %d", name,
                   is_free ? (int)block : 0);
    node_open(&n, "dequant_matmul", attrs);
    numbers(&n, typed(one_of("f32 f16 bf16"), 2, ragged(90), k, 0));
    const bool is_signed = scheme.kind == SL_SCHEME_INT8;
    const sl_type w = typed(is_signed ? SL_DTYPE_i8 : SL_DTYPE_u8, 2, k,
                            scheme.nibbles ? (cols + 1) / 2 : cols, 0);
    double *codes = node_random(&n, &w, is_signed ? -128 : 0, is_signed ? 128 : 256);
    for (int64_t i = 0; i < sl_type_elements(&w) && !block; i++) /* no NaN or huge values */
        if (fmod(codes[i], 128) >= 100) codes[i] = 7;
    const sl_type scale = block ? typed(nv ? SL_DTYPE_u8 : SL_DTYPE_f32, 2, runs, cols, 0)
                                : typed(SL_DTYPE_f32, 1, node_next() % 2 ? cols : 1, 0, 0);
    node_random(&n, &scale, nv ? 0 : -0.01, nv ? 100 : 0.01);
    const sl_type second = nv ? typed(SL_DTYPE_f32, 1, 1, 0, 0) : scale;
    if (scheme.params == 2) node_random(&n, &second, nv ? -0.01 : -8, nv ? 0.01 : 8);
    node_check(&n);
}

/* ---- losses ---- */

static void losses(void) {
    node_case n;
    const sl_dtype dtype = one_of(FLOATS), index = one_of("i32 i64");
    const int64_t rows = ragged(80), classes = ragged(300);
    const bool weighted = node_next() % 2;
    const sl_type x = typed(dtype, 2, rows, classes, 0), w = typed(dtype, 1, classes, 0, 0);
    const sl_type labels = typed(index, 1, rows, 0, 0), loss = typed(dtype, 1, rows, 0, 0);
    static const char *const ops[] = {"softmax_cross_entropy", "nll",
                                      "softmax_cross_entropy_backward", "nll_backward"};
    for (int i = 0; i < 4; i++) {
        char attrs[80];
        const int length =
            snprintf(attrs, sizeof attrs, "ignores = %u, ignore = 0", node_next() % 2);
        if (i == 3)
            (void)snprintf(attrs + length, sizeof attrs - (size_t)length, ", classes = %lld",
                           (long long)classes);
        node_open(&n, ops[i], attrs);
        if (i < 3) node_random(&n, &x, -9, 9);
        node_random(&n, &labels, 0, (double)classes);
        if (i > 1) node_random(&n, &loss, -1, 1);
        if (weighted) node_random(&n, &w, 0, 2);
        node_check(&n);
    }
}

/* ---- quantisation ---- */

/* A shape, and one of its axes or none. */
static sl_type shaped(sl_dtype dtype, int64_t *axis, int64_t *count) {
    const uint32_t rank = (uint32_t)node_between(1, 3);
    const sl_type x = typed(dtype, rank, ragged(rank == 1 ? 9000 : 40), ragged(30), ragged(30));
    *axis = node_between(-(int64_t)rank, rank - 1);
    *count = node_next() % 2 ? 1 : x.shape.dims[*axis < 0 ? *axis + rank : *axis];
    return x;
}

static void codes(void) {
    node_case n;
    char attrs[64];
    int64_t axis, count;
    const sl_dtype dtype = one_of(FLOATS), to = one_of("i8 u8 i16 u16 i32");
    const sl_type x = shaped(dtype, &axis, &count);
    const sl_type scale = typed(dtype, 1, count, 0, 0), zero = typed(to, 1, count, 0, 0);
    (void)snprintf(attrs, sizeof attrs, "to = %s, axis = %lld", sl_dtype_infos[to].name,
                   (long long)axis);
    node_open(&n, "quantize", attrs);
    node_random(&n, &x, -40, 40);
    node_random(&n, &scale, 0.1, 2);
    node_random(&n, &zero, 0, 100);
    node_check(&n);
    (void)snprintf(attrs, sizeof attrs, "axis = %lld", (long long)axis);
    node_open(&n, "dequantize", attrs);
    const sl_type coded = {to, x.shape};
    node_random(&n, &coded, 0, 120);
    node_random(&n, &scale, 0.1, 2);
    node_random(&n, &zero, 0, 100);
    node_check(&n);
}

/* Codes and zero points, a multiplier and sometimes a bias. */
static void code_params(node_case *n, const sl_dtype types[3], int64_t channels) {
    const sl_type left = typed(types[0], 0, 0, 0, 0), out = typed(types[2], 1, 1, 0, 0);
    const int64_t count = node_next() % 2 ? channels : 1;
    const sl_type right = typed(types[1], 1, count, 0, 0);
    const sl_type multiplier = typed(SL_DTYPE_f32, 1, node_next() % 2 ? channels : 1, 0, 0);
    const sl_type bias = typed(SL_DTYPE_i32, 1, channels, 0, 0);
    node_random(n, &left, 0, 100);
    node_random(n, &right, 0, 100);
    node_random(n, &multiplier, 1e-5, 1e-3);
    node_random(n, &out, 0, 100);
    if (node_next() % 2) node_random(n, &bias, -10000, 10000);
}

static void code_products(void) {
    node_case n;
    const sl_dtype types[3] = {one_of("i8 u8"), one_of("i8 u8"), one_of("i8 u8")};
    const int64_t m = ragged(140), k = ragged(600), cols = ragged(140), batch = node_between(1, 3);
    node_open(&n, "q_matmul", "");
    numbers(&n, typed(types[0], 3, node_next() % 2 ? batch : 1, m, k));
    numbers(&n, typed(types[1], 3, batch, k, cols));
    code_params(&n, types, cols);
    node_check(&n);
    const int64_t groups = node_between(1, 3), in = node_between(1, 9), out = node_between(1, 30);
    node_open(&n, "q_conv",
              "strides = [2, 1], pads_before = [1, 2], pads_after = [0, 1], "
              "dilations = [1, 2], groups = 1");
    ((sl_q_conv_attrs *)(void *)n.attrs)->groups = (uint32_t)groups;
    const int64_t kernel = node_between(1, 3);
    numbers(&n, sl_type_make(types[0], 4, batch, in * groups, ragged(20) + 2, ragged(20) + 4));
    numbers(&n, sl_type_make(types[1], 4, out * groups, in, kernel, node_between(1, 3)));
    code_params(&n, types, out * groups);
    node_check(&n);
}

static void training(void) {
    node_case n;
    char attrs[160], suffix[64];
    int64_t axis, count;
    const sl_type x = shaped(one_of(FLOATS), &axis, &count);
    const bool by_axis = node_next() % 2;
    const uint32_t mode = node_next() % 3, bits = (uint32_t)node_between(2, 16);
    const int64_t own = by_axis ? x.shape.dims[axis < 0 ? axis + x.shape.rank : axis] : 1;
    const sl_type state = typed(x.dtype, 1, own, 0, 0), scale = typed(x.dtype, 1, count, 0, 0);
    (void)snprintf(suffix, sizeof suffix, "bits = %u, axis = %lld", bits, (long long)axis);
    (void)snprintf(attrs, sizeof attrs, "%s, by_axis = %d, mode = %u, decay = 0.75", suffix,
                   by_axis, mode);
    node_open(&n, "fake_quantize", attrs);
    double *numbers = node_random(&n, &x, -2, 2);
    if (node_next() % 4 == 0) numbers[0] = NAN;
    if (mode) node_random(&n, &state, -0.2, 1);
    node_check(&n);
    static const char *const ops[] = {"fake_quantize_backward", "fake_quantize_lsq",
                                      "fake_quantize_lsq_backward_x",
                                      "fake_quantize_lsq_backward_scale"};
    for (int i = 0; i < 4; i++) {
        (void)snprintf(attrs, sizeof attrs, "%s, ste = %u", suffix, node_next() % 4);
        node_open(&n, ops[i], i ? suffix : attrs);
        node_random(&n, &x, -2, 2);
        node_random(&n, &scale, 0.1, 1);
        if (i != 1) node_random(&n, &x, -1, 1);
        node_check(&n);
    }
}

/* ---- inputs that kernels reject ---- */

/* Expects the kernel of the first instruction set to fail with `message` on these inputs. */
static void refused_by_kernel(node_case *n, const char *message) {
    sl_type in[NODE_OPERANDS];
    sl_error err = {0};
    assert_int_not_equal(node_run(n), SL_OK); /* the results' types are inferred nevertheless */
    for (uint32_t i = 0; i < n->in_count; i++) in[i] = n->in[i].type;
    const sl_kernel *kernel = sl_cpu_kernel_find(sl_cpu_kernel_set(NULL), n->op, in);
    assert_non_null(kernel);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    void **bytes = node_bytes(n);
    sl_operand operands[NODE_OPERANDS] = {0};
    const uint32_t count = n->in_count + n->out_count;
    for (uint32_t i = 0; i < count; i++)
        operands[i].type = i < n->in_count ? in[i] : n->out[i - n->in_count].type;
    const sl_step of = {.op = n->op,
                        .operand_count = count,
                        .input_count = n->in_count,
                        .operands = operands,
                        .attrs = n->attrs};
    void *args = sl_arguments_create(&of, &arena), *scratch = NULL;
    assert_non_null(args);
    for (uint32_t i = 0; i < count; i++) sl_argument(&of, args, i)->data = bytes[i];
    const sl_split split = kernel->split(args);
    assert_int_equal(posix_memalign(&scratch, 64, split.scratch_bytes + 1), 0);
    assert_int_equal(
        kernel->run(args, 0, split.items, &(sl_worker){.scratch = scratch, .err = &err}),
        SL_INVALID);
    assert_string_equal(err.message, message);
    free(scratch);
    node_bytes_free(n, bytes);
    sl_arena_deinit(&arena);
    node_close(n);
}

static void kernels_name_what_is_wrong(void **state) {
    (void)state;
    node_case n;
    const sl_type square = node_type("f32[3,3]"), side = node_type("f32[3]");
    node_open(&n, "dense_solve", "");
    memcpy(node_input(&n, &square), (double[9]){1, 2, 3, 2, 4, 6, 0, 1, 1}, 9 * sizeof(double));
    (void)node_input(&n, &side);
    refused_by_kernel(&n, "dense_solve: a is singular: pivot 2 of matrix 0 is 0");
    const sl_type w = node_type("f32[2,3,3]"), index = node_type("i64[3]"),
                  labels = node_type("i32[3]");
    node_open(&n, "grouped_matmul", "");
    (void)node_input(&n, &square), (void)node_input(&n, &w);
    sl_slot_set_integer(SL_DTYPE_i64, &node_input(&n, &index)[1], 2);
    refused_by_kernel(&n, "experts of row 1 is 2, must be in [0, 2)");
    node_open(&n, "nll", "");
    (void)node_input(&n, &square);
    node_input(&n, &labels)[2] = -1;
    refused_by_kernel(&n, "nll: label 2 is -1, must be in [0, 3)");
}

static int rounds = 150;
static void kernels_agree_with_the_evaluator(void **state) {
    (void)state;
    static void (*const makers[])(void) = {matmul, dot_general, det,   solve,         chosen,  gguf,
                                           packed, losses,      codes, code_products, training};
    enum { MAKERS = sizeof makers / sizeof makers[0] };
    const uint64_t first = node_seed;
    for (int i = 0; i < rounds; i++) {
        node_seed = (first + (uint64_t)i) * 0x9e3779b97f4a7c15u | 1;
        (void)node_next(), (void)node_next();
        makers[i % MAKERS]();
    }
}

static void mlx_weights_are_as_numpy_has_them(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    node_fixtures("tests/data/ops/matmul_mlx.json", seen);
    assert_int_equal(seen[SL_OP_dequant_matmul], 18);
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = (int)strtol(argv[1], NULL, 10);
    if (argc > 2) node_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_the_evaluator),
        cmocka_unit_test(kernels_name_what_is_wrong),
        cmocka_unit_test(mlx_weights_are_as_numpy_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
