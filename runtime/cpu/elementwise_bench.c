/* elementwise_bench.c - Time of f32 elementwise ops on one core, per element and as bytes per
 * second compared with the sum of two tensors: from the L1 cache, and from memory. */
#include "core/elementwise_region.h"
#include "runtime/arguments.h"
#include "runtime/cpu/bench_support.h"

typedef struct {
    const char *name;
    sl_op op;
    uint32_t inputs;
    const int64_t *code; /* for a region */
    uint32_t numbers;
} subject;

/* silu(a * row) + tanh(b) * one */
static const int64_t chain[] = {SL_STEP_mul,  0, 2, 0, 0, SL_STEP_silu, 4, 0, 0, 0,
                                SL_STEP_tanh, 1, 0, 0, 0, SL_STEP_mul,  6, 3, 0, 0,
                                SL_STEP_add,  5, 7, 0, 0};
/* ((a * row + b) * one - a) * b, which is limited by memory */
static const int64_t light[] = {SL_STEP_mul, 0, 2, 0, 0, SL_STEP_add, 4, 1, 0, 0,
                                SL_STEP_mul, 5, 3, 0, 0, SL_STEP_sub, 6, 0, 0, 0,
                                SL_STEP_mul, 7, 1, 0, 0};

static const subject subjects[] = {
    {"add", SL_OP_add, 2, NULL, 0},
    {"exp", SL_OP_exp, 1, NULL, 0},
    {"log", SL_OP_log, 1, NULL, 0},
    {"tanh", SL_OP_tanh, 1, NULL, 0},
    {"gelu", SL_OP_gelu, 1, NULL, 0},
    {"gelu_approx", SL_OP_gelu_approx, 1, NULL, 0},
    {"sin", SL_OP_sin, 1, NULL, 0},
    {"tan", SL_OP_tan, 1, NULL, 0},
    {"atan", SL_OP_atan, 1, NULL, 0},
    {"erf", SL_OP_erf, 1, NULL, 0},
    {"log1p", SL_OP_log1p, 1, NULL, 0},
    {"expm1", SL_OP_expm1, 1, NULL, 0},
    {"softplus", SL_OP_softplus, 1, NULL, 0},
    {"pow", SL_OP_pow, 2, NULL, 0},
    {"less", SL_OP_less, 2, NULL, 0},
    {"light region", SL_OP_elementwise_region, 4, light, sizeof light / sizeof light[0]},
    {"chain region", SL_OP_elementwise_region, 4, chain, sizeof chain / sizeof chain[0]},
};

enum { ROW = 1000 };

static void *floats(int64_t count) {
    float *data = malloc((size_t)count * sizeof *data);
    if (!data) abort();
    for (int64_t i = 0; i < count; i++) data[i] = 0.25f + (float)(i * 7919 % 1000) / 500;
    return data;
}

/* Seconds of one call on `rows` rows. */
static double measure(const sl_kernel_set *set, const subject *s, int64_t rows, int64_t *bytes) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const sl_type whole = sl_type_make(SL_DTYPE_f32, 2, rows, (int64_t)ROW);
    sl_type out = whole;
    if (s->op == SL_OP_less) out.dtype = SL_DTYPE_bool;
    sl_operand operands[5] = {{.type = whole},
                              {.type = whole},
                              {.type = sl_type_make(SL_DTYPE_f32, 1, (int64_t)ROW)},
                              {.type = sl_type_make(SL_DTYPE_f32, 0)}};
    operands[s->inputs].type = out;
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
    if (s->code)
        ((sl_elementwise_region_attrs *)(void *)attrs)->code = (sl_integers){s->numbers, s->code};
    const sl_step step = {.op = s->op,
                          .operands = operands,
                          .operand_count = s->inputs + 1,
                          .input_count = s->inputs,
                          .attrs = attrs};
    sl_type types[4];
    void *args = sl_arguments_create(&step, &arena);
    for (uint32_t i = 0; i <= s->inputs; i++) {
        sl_argument(&step, args, i)->data = floats(sl_type_elements(&operands[i].type));
        if (i < s->inputs) types[i] = operands[i].type;
    }
    const sl_kernel *kernel = sl_cpu_kernel_find(set, s->op, types);
    sl_error err;
    const sl_split split = kernel->split(args);
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, split.scratch_bytes + 64)) abort();
    sl_worker worker = {.scratch = scratch, .err = &err};
    double best = 1e9;
    const int64_t calls = 1 + 4000000 / (rows * ROW);
    for (int round = 0; round < 5; round++) {
        const double start = bench_clock();
        for (int64_t i = 0; i < calls; i++)
            if (kernel->run(args, 0, split.items, &worker)) abort();
        const double seconds = (bench_clock() - start) / (double)calls;
        if (seconds < best) best = seconds;
    }
    *bytes =
        (int64_t)sl_type_bytes(&out) + (int64_t)sl_type_bytes(&whole) * (s->inputs > 1 ? 2 : 1);
    for (uint32_t i = 0; i <= s->inputs; i++) free(sl_argument(&step, args, i)->data);
    free(scratch);
    sl_arena_deinit(&arena);
    return best;
}

int main(void) {
    static const int64_t sizes[] = {2, 8000};
    for (int i = 0; i < BENCH_ISAS; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(bench_isas[i]);
        for (size_t s = 0; set && s < sizeof subjects / sizeof subjects[0]; s++) {
            printf("%-9s %-13s", bench_isas[i], subjects[s].name);
            for (int size = 0; size < 2; size++) {
                int64_t bytes;
                const double seconds = measure(set, &subjects[s], sizes[size], &bytes);
                printf("  %6.3f ns an element, %6.1f GB/s",
                       seconds * 1e9 / (double)(sizes[size] * ROW), (double)bytes * 1e-9 / seconds);
            }
            printf("\n");
        }
    }
    return 0;
}
