/* convolution_bench.c - Speed of convolutions, norms and pools on one core, compared with the
 * limits of the core, for typical layers of networks; convolutions and an activation in one step
 * against both in sequence.
 *
 *   conv_bench [isa]     default: the best instruction set */
#include "compiler/graph.h"
#include "compiler/ops/semantics.h"
#include "runtime/arguments.h"
#include "runtime/cpu/bench_support.h"

typedef struct {
    const char *name;
    sl_op op;
    const char *attrs;
    sl_type in[3];
    double operations; /* per output element, times `of`; 0: limited by memory */
} row;

#define T(RANK, ...)                                                                               \
    {                                                                                              \
        SL_DTYPE_f32, {                                                                            \
            RANK, {                                                                                \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define PLAIN "strides = [], pads_before = [], pads_after = [], dilations = []"
#define SAME  "strides = [], pads_before = [1, 1], pads_after = [1, 1], dilations = []"
#define HALF  "strides = [2, 2], pads_before = [1, 1], pads_after = [1, 1], dilations = []"
#define POOL                                                                                       \
    "kernel = [3, 3], strides = [2, 2], pads_before = [1, 1], pads_after = [1, 1], dilations = []"

static const row rows[] = {
    {"conv 3x3 64->64 at 56", SL_OP_conv, SAME, {T(4, 1, 64, 56, 56), T(4, 64, 64, 3, 3)}, 1152},
    {"conv 3x3 256->256 at 14",
     SL_OP_conv,
     SAME,
     {T(4, 1, 256, 14, 14), T(4, 256, 256, 3, 3)},
     4608},
    {"conv 3x3 512->512 at 7", SL_OP_conv, SAME, {T(4, 1, 512, 7, 7), T(4, 512, 512, 3, 3)}, 9216},
    {"conv 3x3/2 128->256 at 28",
     SL_OP_conv,
     HALF,
     {T(4, 1, 128, 28, 28), T(4, 256, 128, 3, 3)},
     2304},
    {"conv 7x7/2 3->64 at 224",
     SL_OP_conv,
     "strides = [2, 2], pads_before = [3, 3], pads_after = [3, 3], dilations = []",
     {T(4, 1, 3, 224, 224), T(4, 64, 3, 7, 7)},
     294},
    {"conv 1x1 256->64 at 56", SL_OP_conv, PLAIN, {T(4, 1, 256, 56, 56), T(4, 64, 256, 1, 1)}, 512},
    {"conv 1x1 2048->512 at 7",
     SL_OP_conv,
     PLAIN,
     {T(4, 1, 2048, 7, 7), T(4, 512, 2048, 1, 1)},
     4096},
    {"depthwise 3x3 144 at 56",
     SL_OP_conv,
     SAME ", groups = 144",
     {T(4, 1, 144, 56, 56), T(4, 144, 1, 3, 3)},
     18},
    {"depthwise 3x3/2 144 at 56",
     SL_OP_conv,
     HALF ", groups = 144",
     {T(4, 1, 144, 56, 56), T(4, 144, 1, 3, 3)},
     18},
    {"conv 1x1 64->128 at 32", SL_OP_conv, PLAIN, {T(4, 4, 64, 32, 32), T(4, 128, 64, 1, 1)}, 128},
    {"conv 1x1 256->256 at 16",
     SL_OP_conv,
     PLAIN,
     {T(4, 4, 256, 16, 16), T(4, 256, 256, 1, 1)},
     512},
    {"conv 3x3 3->32 at 64", SL_OP_conv, SAME, {T(4, 8, 3, 64, 64), T(4, 32, 3, 3, 3)}, 54},
    {"conv 3x3 32->64 at 64", SL_OP_conv, SAME, {T(4, 8, 32, 64, 64), T(4, 64, 32, 3, 3)}, 576},
    {"conv 3x3 128->128 at 32",
     SL_OP_conv,
     SAME,
     {T(4, 8, 128, 32, 32), T(4, 128, 128, 3, 3)},
     2304},
    {"depthwise 3x3 32 at 64",
     SL_OP_conv,
     SAME ", groups = 32",
     {T(4, 4, 32, 64, 64), T(4, 32, 1, 3, 3)},
     18},
    {"depthwise 3x3/2 64 at 64",
     SL_OP_conv,
     HALF ", groups = 64",
     {T(4, 4, 64, 64, 64), T(4, 64, 1, 3, 3)},
     18},
    {"depthwise 3x3 256 at 16",
     SL_OP_conv,
     SAME ", groups = 256",
     {T(4, 4, 256, 16, 16), T(4, 256, 1, 3, 3)},
     18},
    {"conv1d 3 80->512 at 3000",
     SL_OP_conv,
     "strides = [], pads_before = [1], pads_after = [1], dilations = []",
     {T(3, 1, 80, 3000), T(3, 512, 80, 3)},
     480},
    {"max pool 3x3/2 64 at 112", SL_OP_pool_max, POOL, {T(4, 1, 64, 112, 112)}, 0},
    {"mean pool 2048 at 7",
     SL_OP_pool_mean,
     "kernel = [7, 7], strides = [], pads_before = [], pads_after = [], dilations = []",
     {T(4, 1, 2048, 7, 7)},
     0},
    {"layer norm 512x768",
     SL_OP_layer_norm,
     "axis = -1, eps = 1e-5",
     {T(2, 512, 768), T(1, 768), T(1, 768)},
     0},
    {"layer norm 4096x4096",
     SL_OP_layer_norm,
     "axis = -1, eps = 1e-5",
     {T(2, 4096, 4096), T(1, 4096), T(1, 4096)},
     0},
    {"group norm 32 of 320 at 64",
     SL_OP_group_norm,
     "groups = 32, eps = 1e-5",
     {T(4, 1, 320, 64, 64), T(1, 320), T(1, 320)},
     0},
};

typedef struct {
    const sl_kernel *kernel;
    void *args;
    sl_type out;  /* of the result, which is at `data` */
    double bytes; /* read and written */
    float *data;
} call;

/* x: the first operand; NULL: small floats, as the others. */
static call call_of(const sl_kernel_set *set, const row *r, float *x, sl_arena *arena) {
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    call c = {0};
    sl_error err = {0};
    sl_graph *owner = NULL;
    uint32_t inputs = 0;
    sl_operand operands[4] = {0};
    while (inputs < 3 && r->in[inputs].shape.rank) inputs++;
    const sl_infer_args infer = {r->name, r->in, attrs, &c.out, inputs, 1};
    if (sl_graph_create("attributes", NULL, &owner, &err) != SL_OK ||
        sl_attrs_parse(r->op, r->attrs, strlen(r->attrs), owner, attrs, &err) != SL_OK ||
        sl_infer(r->op, &infer, &err) != SL_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    for (uint32_t i = 0; i < inputs; i++) operands[i].type = r->in[i];
    operands[inputs].type = c.out;
    const sl_step step = {.op = r->op,
                          .operand_count = inputs + 1,
                          .input_count = inputs,
                          .operands = operands,
                          .attrs = attrs};
    c.args = sl_arguments_create(&step, arena);
    for (uint32_t i = 0; i <= inputs; i++) {
        c.data = i == 0 && x ? x : bench_floats(sl_type_elements(&operands[i].type));
        sl_argument(&step, c.args, i)->data = c.data;
        c.bytes += (double)sl_type_bytes(&operands[i].type);
    }
    c.kernel = sl_cpu_kernel_find(set, r->op, r->in);
    return c;
}

static void bench_row(const sl_kernel_set *set, const row *r, const bench_floors *floors) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const call c = call_of(set, r, NULL, &arena);
    const bench_work work = {.isa = set->isa,
                             .name = r->name,
                             .type = "f32",
                             .bytes = c.bytes,
                             .operations = r->operations * (double)sl_type_elements(&c.out)};
    bench_line(&work, bench_call(c.kernel, c.args, NULL, NULL), floors);
    sl_arena_deinit(&arena);
}

/* Seconds of calls in sequence. */
static double time_calls(const call *calls, int count, void *const *scratch) {
    sl_error err = {0};
    const double begin = bench_clock();
    for (int i = 0; i < count; i++) {
        sl_worker worker = {.scratch = scratch[i], .err = &err};
        const int64_t items = calls[i].kernel->split(calls[i].args).items;
        if (calls[i].kernel->run(calls[i].args, 0, items, &worker) == SL_OK) continue;
        (void)fprintf(stderr, "%s: %s\n", calls[i].kernel->name, err.message);
        exit(1);
    }
    return bench_clock() - begin;
}

/* A convolution and an activation of its result against both in one step, by turns. */
static void bench_fused(const sl_kernel_set *set, const row *r, sl_op act) {
    const double least_seconds = 0.2;
    char attrs[200];
    sl_arena arena;
    void *scratch[3];
    sl_arena_init(&arena, NULL);
    (void)snprintf(attrs, sizeof attrs, "%s, act = %s", r->attrs, sl_op_info_of(act)->name);
    call calls[3] = {call_of(set, r, NULL, &arena)};
    const row after = {.name = "activation", .op = act, .attrs = "", .in = {calls[0].out}};
    row both = *r;
    both.op = SL_OP_fused_conv_bias_act, both.attrs = attrs;
    calls[1] = call_of(set, &after, calls[0].data, &arena);
    calls[2] = call_of(set, &both, NULL, &arena);
    for (int i = 0; i < 3; i++)
        scratch[i] = bench_room(calls[i].kernel->split(calls[i].args).scratch_bytes);
    double apart = 1e9, fused = 1e9;
    const double start = bench_clock();
    for (int n = 0; n < 4 || bench_clock() - start < least_seconds; n++) {
        const double two = time_calls(calls, 2, scratch),
                     one = time_calls(calls + 2, 1, scratch + 2);
        if (two < apart) apart = two;
        if (one < fused) fused = one;
    }
    printf("%-8s %-26s %-7s apart %9.1f us, fused %9.1f us: x %.3f\n", set->isa, r->name,
           sl_op_info_of(act)->name, apart * 1e6, fused * 1e6, apart / fused);
    (void)fflush(stdout);
    for (int i = 0; i < 3; i++) free(scratch[i]);
    sl_arena_deinit(&arena);
}

int main(int argc, char **argv) {
    const sl_kernel_set *set = sl_cpu_kernel_set(argc > 1 ? argv[1] : NULL);
    if (!set) {
        (void)fprintf(stderr, "usage: conv_bench [isa]\n");
        return 1;
    }
    const bench_floors floors = bench_measure(set, bench_block());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) bench_row(set, &rows[i], &floors);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op != SL_OP_conv) continue;
        bench_fused(set, &rows[i], SL_OP_relu);
        bench_fused(set, &rows[i], SL_OP_silu);
    }
    return 0;
}
