/* kernels_bench.c - How fast `linear` is on one core, for each weight type, instruction set and
 * number of tokens, next to what the core could do.
 *
 *   kernels_bench [rows cols [isa]]     2048 2048 and every instruction set unless told */
#include "runtime/cpu/bench_support.h"

static const int64_t token_counts[] = {1, 2, 4, 8, 32, 512};
enum { TOKEN_COUNTS = sizeof token_counts / sizeof token_counts[0] };

typedef struct {
    sl_linear_args args;
    const uint8_t *block;
} linear;

/* Other weights each time. */
static void fresh_weights(void *ctx, uint64_t call) {
    linear *l = ctx;
    const uint64_t bytes = (sl_type_bytes(&l->args.w.type) + 63) / 64 * 64;
    l->args.w.data = l->block + call % (BENCH_BLOCK_BYTES / bytes) * bytes;
}

static void bench_type(const sl_kernel_set *set, linear *l, sl_dtype dtype,
                       const bench_floors *floors) {
    const int64_t rows = l->args.w.type.shape.dims[0], cols = l->args.w.type.shape.dims[1];
    l->args.w.type.dtype = dtype;
    for (int i = 0; i < TOKEN_COUNTS; i++) {
        const int64_t tokens = token_counts[i];
        l->args.x.type = sl_type_make(SL_DTYPE_f32, 2, tokens, cols);
        l->args.out.type = sl_type_make(SL_DTYPE_f32, 2, tokens, rows);
        const sl_type inputs[2] = {l->args.x.type, l->args.w.type};
        const sl_kernel *kernel = sl_cpu_kernel_find(set, SL_OP_linear, inputs);
        if (!kernel) return;
        const bench_work work = {.isa = set->isa,
                                 .name = "linear",
                                 .type = sl_dtype_infos[dtype].name,
                                 .tokens = tokens,
                                 .bytes = (double)sl_type_bytes(&l->args.w.type),
                                 .operations = 2.0 * (double)tokens * (double)(rows * cols)};
        bench_line(&work, bench_call(kernel, &l->args, fresh_weights, l), floors);
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
    float *x = bench_floats(most * cols), *out = bench_room((size_t)(most * rows) * sizeof(float));
    l.args.x.data = x;
    l.args.out.data = out;
    for (size_t i = 0; i < BENCH_ISAS; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(bench_isas[i]);
        if (!set || (argc > 3 && strcmp(argv[3], bench_isas[i]) != 0)) continue;
        const bench_floors floors = bench_measure(set, l.block);
        for (int dtype = 0; dtype < SL_DTYPE_COUNT; dtype++)
            bench_type(set, &l, (sl_dtype)dtype, &floors);
    }
    free(x);
    free(out);
    return 0;
}
