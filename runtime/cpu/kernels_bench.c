/* kernels_bench.c - Speed of `linear` on one core for each weight type, instruction set and number
 * of tokens, compared with the limits of the core; panels also with a8 activations.
 *
 *   kernels_bench [rows cols [isa]]     default: 2048 2048 and every instruction set */
#include "runtime/cpu/bench_support.h"

static const int64_t token_counts[] = {1, 2, 4, 8, 32, 512};
enum { TOKEN_COUNTS = sizeof token_counts / sizeof token_counts[0] };

typedef struct {
    sl_linear_args args;
    const uint8_t *block;
} linear;

/* Different weights for each call. */
static void fresh_weights(void *ctx, uint64_t call) {
    linear *l = ctx;
    const uint64_t bytes = (sl_type_bytes(&l->args.w.type) + 63) / 64 * 64;
    l->args.w.data = l->block + call % (BENCH_BLOCK_BYTES / bytes) * bytes;
}

static void bench_types(const sl_kernel_set *set, linear *l, sl_dtype x, sl_dtype w,
                        const bench_floors *floors) {
    const int64_t rows = l->args.w.type.shape.dims[0], cols = l->args.w.type.shape.dims[1];
    l->args.w.type.dtype = w;
    for (int i = 0; i < TOKEN_COUNTS; i++) {
        const int64_t tokens = token_counts[i];
        void *values = x == SL_DTYPE_a8 ? bench_rows(tokens, cols) : bench_floats(tokens * cols);
        l->args.x = (sl_cview){values, sl_type_make(x, 2, tokens, cols)};
        l->args.out.type = sl_type_make(SL_DTYPE_f32, 2, tokens, rows);
        const sl_type inputs[2] = {l->args.x.type, l->args.w.type};
        const sl_kernel *kernel = sl_cpu_kernel_find(set, SL_OP_linear, inputs);
        const bench_work work = {.isa = set->isa,
                                 .name = x == SL_DTYPE_a8 ? "linear a8" : "linear",
                                 .type = sl_dtype_infos[w].name,
                                 .int8 = x == SL_DTYPE_a8,
                                 .tokens = tokens,
                                 .bytes = (double)sl_type_bytes(&l->args.w.type),
                                 .operations = 2.0 * (double)tokens * (double)(rows * cols)};
        bench_line(&work, bench_call(kernel, &l->args, fresh_weights, l), floors);
        free(values);
    }
}

int main(int argc, char **argv) {
    const int64_t rows = argc > 2 ? strtoll(argv[1], NULL, 10) : 2048;
    const int64_t cols = argc > 2 ? strtoll(argv[2], NULL, 10) : 2048;
    const int64_t most = token_counts[TOKEN_COUNTS - 1];
    if (rows < 1 || cols < 1 || rows > 1 << 16 || cols > 1 << 16 ||
        (size_t)(rows * cols) * 4 > BENCH_BLOCK_BYTES) {
        (void)fprintf(stderr, "usage: kernels_bench [rows cols [isa]], of at most 512 MiB\n");
        return 1;
    }
    linear l = {.block = bench_block()};
    l.args.w.type = sl_type_make(SL_DTYPE_f32, 2, rows, cols);
    l.args.out.data = bench_room((size_t)(most * rows) * sizeof(float));
    for (size_t i = 0; i < BENCH_ISAS; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(bench_isas[i]);
        if (!set || (argc > 3 && strcmp(argv[3], bench_isas[i]) != 0)) continue;
        const bench_floors floors = bench_measure(set, l.block);
        for (int w = 0; w < SL_DTYPE_COUNT; w++) {
            const sl_dtype_kind kind = sl_dtype_infos[w].kind;
            if (kind == SL_KIND_FLOAT || kind == SL_KIND_PANEL)
                bench_types(set, &l, SL_DTYPE_f32, (sl_dtype)w, &floors);
            if (kind == SL_KIND_PANEL) bench_types(set, &l, SL_DTYPE_a8, (sl_dtype)w, &floors);
        }
    }
    free(l.args.out.data);
    return 0;
}
