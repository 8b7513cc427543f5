/* plain_test.c - Ops of the tensor set on the CUDA device, by kernels of their own or rewritten to
 * ops that have some: fixtures of every family against the evaluator.  Cases
 * that the device refuses are counted by op. */
#define SL_CASE_CUDA
#include "runtime/cuda/kernel.h"
#include "tests/support/node_case.h"

enum { BY_KERNELS, REWRITTEN, REFUSED, WAYS };
static uint32_t seen[SL_OP_COUNT][WAYS];

static bool has_kernel(const node_case *n) {
    const sl_type types[2] = {n->in[0].type, n->in[n->in_count > 1].type};
    return sl_gpu_kernel_find(&sl_cuda_kernels, n->op, types);
}

static void check(const json_t *item) {
    node_case n;
    cuda_graph g;
    node_open_fixture(&n, item);
    if (node_run(&n) != SL_OK) fail_msg("%s", n.err.message);
    const sl_status status = cuda_graph_open(node_graph(&n), &g, &n.err);
    if (status == SL_OK) node_run_cuda(&n, &g, SL_OK);
    if (status != SL_OK && status != SL_UNSUPPORTED)
        fail_msg("%s: %s", n.info->name, n.err.message);
    seen[n.op][status != SL_OK ? REFUSED : has_kernel(&n) ? BY_KERNELS : REWRITTEN]++;
    cuda_graph_close(&g);
    node_close(&n);
}

static void report(void) {
    uint32_t sums[WAYS] = {0};
    for (uint32_t op = 0; op < SL_OP_COUNT; op++) {
        const uint32_t *own = seen[op];
        for (uint32_t way = 0; way < WAYS; way++) sums[way] += own[way];
        if (getenv("SLUICE_VERBOSE") && own[BY_KERNELS] + own[REWRITTEN] + own[REFUSED])
            print_message("%-36s %4u by kernels %4u rewritten %4u refused\n",
                          sl_op_info_of((sl_op)op)->name, own[0], own[1], own[2]);
    }
    print_message("%u cases by kernels, %u rewritten, %u refused\n", sums[0], sums[1], sums[2]);
    assert_true(sums[BY_KERNELS] > 0 && sums[REWRITTEN] > 0);
}

static void fixtures_match(void **state) {
    (void)state;
    static const char *const files[] = {"attention", "convolution", "elementwise", "linear",
                                        "movement",  "norm",        "pool",        "quant",
                                        "rnn",       "resize",      "signal",      "splat"};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        char path[64];
        json_error_t error;
        (void)snprintf(path, sizeof path, "tests/data/ops/%s.json", files[f]);
        json_t *cases = json_load_file(path, 0, &error);
        if (!cases) fail_msg("%s: %s", path, error.text);
        for (size_t i = 0; i < json_array_size(cases); i++) check(json_array_get(cases, i));
        json_decref(cases);
    }
    report();
}

/* A node on random numbers in [0, high), with what it should give. */
typedef struct {
    const char *op, *attrs, *types[3];
    uint32_t indices; /* which input they are */
} random_node;

static void open_random(node_case *n, const random_node *r, double high) {
    node_open(n, r->op, r->attrs);
    for (uint32_t i = 0; i < 3 && r->types[i]; i++) {
        const sl_type type = node_type(r->types[i]);
        (void)node_random(n, &type, 0, high);
    }
    if (node_run(n) != SL_OK) fail_msg("%s", n->err.message);
}
/* It goes well, or there is a message with this word. */
static void run_random(node_case *n, const char *word) {
    cuda_graph g;
    if (cuda_graph_open(node_graph(n), &g, &n->err) != SL_OK) fail_msg("%s", n->err.message);
    node_run_cuda(n, &g, word ? SL_INVALID : SL_OK);
    if (word && !strstr(n->err.message, word)) fail_msg("%s", n->err.message);
    cuda_graph_close(&g);
    node_close(n);
}

/* Told, and forgotten by the next run. */
static void what_cannot_be_done_is_told(void **state) {
    (void)state;
    static const struct {
        random_node node;
        double bad; /* what the input is full of */
        const char *word;
    } cases[] = {
        {{"gather", "axis = 0", {"f32[3,2]", "i64[4]"}, 1}, 3, "index"},
        {{"take_along", "axis = 1", {"i64[2,3]", "i32[2,5]"}, 1}, -4, "index"},
        {{"gather_nd", "", {"f16[3,2]", "i64[4,2]"}, 1}, 3, "index"},
        {{"scatter", "axis = 0", {"f64[3]", "i64[2]", "f64[2]"}, 1}, -4, "index"},
        {{"scatter_nd", "", {"u8[3,2]", "i32[1,1]", "u8[1,2]"}, 1}, 3, "index"},
        {{"scatter_add", "rows = 3", {"i64[4]", "f32[4,2]"}, 0}, -4, "index"},
        {{"gather_backward", "axis = 0, size = 3", {"i64[4]", "f32[4,2]"}, 0}, 3, "index"},
        {{"nll", "", {"f32[4,3]", "i64[4]"}, 1}, -1, "index"},
        {{"nll_backward", "classes = 3", {"i64[4]", "f64[4]"}, 0}, 3, "index"},
        {{"softmax_cross_entropy", "", {"f32[4,3]", "i32[4]"}, 1}, -1, "index"},
        {{"softmax_cross_entropy_backward", "", {"f32[4,3]", "i32[4]", "f32[4]"}, 1}, 3, "index"},
        {{"grouped_matmul", "", {"f32[4,2]", "f32[3,2,5]", "i64[4]"}, 2}, 3, "index"},
        {{"dequant_grouped_matmul",
          "scheme = \"gguf_q8_0\"",
          {"f32[4,32]", "u8[3,2,34]", "i64[4]"},
          2},
         -1,
         "index"},
        {{"dense_solve", "", {"f64[3,3]", "f64[3]"}, 0}, 0, "singular: matrix 0"},
        {{"batched_dense_solve", "", {"f32[4,2,2]", "f32[4,2,1]"}, 0}, 0, "singular: matrix"},
        {{"sample", "temperature = 1", {"f32[2,5]", "u32[2]", "u32[4]"}, 0},
         NAN,
         "not finite in row"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int bad = 0; bad < 2; bad++) {
            node_case n;
            open_random(&n, &cases[c].node, 1.99);
            const sl_eval_tensor *input = &n.in[cases[c].node.indices];
            for (int64_t i = 0; bad && i < sl_type_elements(&input->type); i++)
                if (sl_dtype_infos[input->type.dtype].kind == SL_KIND_INT)
                    sl_slot_set_integer(input->type.dtype, &input->data[i], (int64_t)cases[c].bad);
                else
                    input->data[i] = cases[c].bad;
            run_random(&n, bad ? cases[c].word : NULL);
        }
}

/* Dims that broadcast by turns are walked one by one. */
static void all_dims_are_walked(void **state) {
    (void)state;
    static const random_node nodes[] = {
        {"add", "", {"f32[2,1,2,1,2,1,2,1]", "f32[1,2,1,2,1,2,1,3]"}, 0},
        {"maximum", "", {"i16[2,1,2,1,2,1,2,1]", "i16[1,2,1,2,1,2,1,3]"}, 0},
        {"reduce_sum", "axes = [0,2,4,6]", {"f32[2,3,2,3,2,1,2,2]"}, 0},
    };
    for (size_t c = 0; c < sizeof nodes / sizeof nodes[0]; c++) {
        node_case n;
        open_random(&n, &nodes[c], 30.99);
        run_random(&n, NULL);
    }
}

/* Longer than what a block sorts, with many that are the same. */
static void long_lines_are_sorted(void **state) {
    (void)state;
    static const random_node nodes[] = {
        {"sort", "axis = 1", {"u8[2,1300,3]"}, 0},
        {"sort", "axis = 0, descending = 1", {"f64[513]"}, 0},
        {"argsort", "axis = 0", {"f16[1025,2]"}, 0},
        {"argsort", "axis = -1, descending = 1", {"i64[3,4097]"}, 0},
        {"topk", "k = 700, axis = -1, largest = 1", {"i8[3,2000]"}, 0},
        {"scatter_add", "rows = 40", {"i64[1500]", "f32[1500,3]"}, 0},
        {"gather_backward", "axis = 1, size = 33", {"i32[700]", "f16[2,700,2]"}, 0},
        {"scatter", "axis = 0, combine = 3", {"f32[31,70]", "i64[9,70]", "f32[9,70]"}, 0},
        {"scatter_nd", "combine = 0", {"i32[31,31]", "i64[2000,2]", "i32[2000]"}, 0},
    };
    for (size_t c = 0; c < sizeof nodes / sizeof nodes[0]; c++) {
        node_case n;
        open_random(&n, &nodes[c], 30.99);
        run_random(&n, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_match),
        cmocka_unit_test(what_cannot_be_done_is_told),
        cmocka_unit_test(all_dims_are_walked),
        cmocka_unit_test(long_lines_are_sorted),
    };
    if (!getenv("SLUICE_CUDA_EMULATOR") && !getenv("SLUICE_CUDA")) {
        print_message("skipped: no emulated driver was built\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
