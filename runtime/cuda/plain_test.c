/* plain_test.c - Ops of the tensor set on the CUDA device, by kernels of their own or rewritten to
 * ops that have some: fixtures of every family against the evaluator.
 *
 * The device is the emulated one, or the machine's own where SLUICE_CUDA says "device".  Cases that
 * it refuses are counted by op; an op with a kernel for every type refuses none. */
#include "compiler/compile.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/kernel.h"
#include "runtime/device.h"
#include "tests/support/node_case.h"

static sl_device *device;
enum { BY_KERNELS, REWRITTEN, REFUSED, WAYS };
static uint32_t seen[SL_OP_COUNT][WAYS];

static bool has_kernel(const node_case *n) {
    const sl_type types[2] = {n->in[0].type, n->in[n->in_count > 1].type};
    return sl_cuda_kernel_find(n->op, types);
}

static sl_status compile(node_case *n, sl_program **out) {
    const sl_compile_how how = {.model = SL_SCHEDULE_EDGES, .target = &sl_target_cuda};
    sl_graph *graph = node_graph(n);
    const sl_status status = sl_compile_graph(graph, &how, NULL, out, &n->err);
    sl_graph_destroy(graph);
    return status;
}

static void bind(node_case *n, const sl_program *program, sl_executable *exe, void *const *bytes) {
    for (uint32_t i = 0; i < n->in_count; i++) {
        char name[16];
        sl_buffer_id buffer;
        (void)snprintf(name, sizeof name, "x%u", i);
        if (sl_program_find(program, name, &buffer) &&
            device->ops->bind(exe, buffer, bytes[i], &n->err) != SL_OK)
            fail_msg("%s: %s", n->info->name, n->err.message);
    }
}

static void run(node_case *n, sl_program *program, sl_status wanted) {
    sl_executable *exe = NULL;
    if (device->ops->load(device, program, &exe, &n->err) != SL_OK)
        fail_msg("%s: %s", n->info->name, n->err.message);
    void **bytes = node_bytes(n);
    bind(n, program, exe, bytes);
    if (device->ops->run(exe, &n->err) != wanted) fail_msg("%s: %s", n->info->name, n->err.message);
    for (uint32_t o = 0; o < n->out_count && wanted == SL_OK; o++) {
        const sl_type *type = &n->out[o].type;
        double *found = node_doubles(n, sl_type_slots(type));
        sl_decode_f64(type->dtype, device->ops->output(exe, o), sl_type_elements(type), found);
        node_compare(n, "cuda", type, found, n->out[o].data, true);
    }
    device->ops->unload(exe);
    node_bytes_free(n, bytes);
}

static void check(const json_t *item) {
    node_case n;
    sl_program *program = NULL;
    node_open_fixture(&n, item);
    if (node_run(&n) != SL_OK) fail_msg("%s", n.err.message);
    const sl_status status = compile(&n, &program);
    if (status == SL_OK) run(&n, program, SL_OK);
    if (status != SL_OK && status != SL_UNSUPPORTED)
        fail_msg("%s: %s", n.info->name, n.err.message);
    seen[n.op][status != SL_OK ? REFUSED : has_kernel(&n) ? BY_KERNELS : REWRITTEN]++;
    sl_program_destroy(program);
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
    static const char *const files[] = {"convolution", "dot_attention", "elementwise", "linear",
                                        "movement",    "norm",          "pool",        "quant",
                                        "recurrent",   "resize",        "signal",      "splat"};
    if (!device) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
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

/* Of every op that takes indices: told, and forgotten by the next run. */
static void bad_indices_are_told(void **state) {
    (void)state;
    static const struct {
        const char *op, *attrs, *types[3];
        uint32_t indices; /* which input */
    } cases[] = {
        {"gather", "axis = 0", {"f32[3,2]", "i64[4]"}, 1},
        {"take_along", "axis = 1", {"i64[2,3]", "i32[2,5]"}, 1},
        {"gather_nd", "", {"f16[3,2]", "i64[4,2]"}, 1},
        {"scatter", "axis = 0", {"f64[3]", "i64[2]", "f64[2]"}, 1},
        {"scatter_nd", "", {"u8[3,2]", "i32[1,1]", "u8[1,2]"}, 1},
        {"scatter_add", "rows = 3", {"i64[4]", "f32[4,2]"}, 0},
        {"gather_backward", "axis = 0, size = 3", {"i64[4]", "f32[4,2]"}, 0},
    };
    if (!device) skip();
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int bad = 0; bad < 2; bad++) {
            node_case n;
            sl_program *program = NULL;
            node_open(&n, cases[c].op, cases[c].attrs);
            for (uint32_t i = 0; i < 3 && cases[c].types[i]; i++) {
                const sl_type type = node_type(cases[c].types[i]);
                (void)node_random(&n, &type, 0, 1.99);
            }
            if (node_run(&n) != SL_OK) fail_msg("%s", n.err.message);
            const sl_eval_tensor *indices = &n.in[cases[c].indices];
            if (bad) sl_slot_set_integer(indices->type.dtype, indices->data, c % 2 ? -4 : 3);
            if (compile(&n, &program) != SL_OK) fail_msg("%s", n.err.message);
            run(&n, program, bad ? SL_INVALID : SL_OK);
            assert_true(!bad || strstr(n.err.message, "index"));
            sl_program_destroy(program);
            node_close(&n);
        }
}

static int open_device(void **state) {
    (void)state;
    const char *which = getenv("SLUICE_CUDA");
    const bool real = which && strcmp(which, "device") == 0;
    const sl_cuda_options options = {.driver = real ? NULL : getenv("SLUICE_CUDA_EMULATOR")};
    sl_error err = {0};
    if (!real && !options.driver) return 0;
    return sl_device_cuda_create(&options, NULL, &device, &err) != SL_OK;
}
static int close_device(void **state) {
    (void)state;
    if (device) device->ops->destroy(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixtures_match),
        cmocka_unit_test(bad_indices_are_told),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
