/* convolution_bench.c - Speed of convolutions, norms and pools on one core, compared with the
 * limits of the core, for typical layers of networks.
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

static void bench_row(const sl_kernel_set *set, const row *r, const bench_floors *floors) {
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    sl_error err = {0};
    sl_graph *owner = NULL;
    sl_arena arena;
    sl_type out = {0};
    uint32_t inputs = 0;
    double bytes = 0;
    sl_operand operands[4] = {0};
    sl_arena_init(&arena, NULL);
    while (inputs < 3 && r->in[inputs].shape.rank) inputs++;
    const sl_infer_args infer = {r->name, r->in, attrs, &out, inputs, 1};
    if (sl_graph_create("attributes", NULL, &owner, &err) != SL_OK ||
        sl_attrs_parse(r->op, r->attrs, strlen(r->attrs), owner, attrs, &err) != SL_OK ||
        sl_infer(r->op, &infer, &err) != SL_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    for (uint32_t i = 0; i < inputs; i++) operands[i].type = r->in[i];
    operands[inputs].type = out;
    const sl_step step = {.op = r->op,
                          .operand_count = inputs + 1,
                          .input_count = inputs,
                          .operands = operands,
                          .attrs = attrs};
    void *args = sl_arguments_create(&step, &arena);
    for (uint32_t i = 0; i <= inputs; i++) {
        sl_argument(&step, args, i)->data = bench_floats(sl_type_elements(&operands[i].type));
        bytes += (double)sl_type_bytes(&operands[i].type);
    }
    const bench_work work = {.isa = set->isa,
                             .name = r->name,
                             .type = "f32",
                             .bytes = bytes,
                             .operations = r->operations * (double)sl_type_elements(&out)};
    bench_line(&work, bench_call(sl_cpu_kernel_find(set, r->op, r->in), args, NULL, NULL), floors);
    sl_graph_destroy(owner);
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
    return 0;
}
