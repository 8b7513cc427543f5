/* kernels_bench.c - How fast `linear` is, on one core: weight bytes per second and operations per
 * second for each weight type, instruction set and number of tokens, next to how fast the same run
 * reads memory without computing.
 *
 *   kernels_bench [rows cols]     4096 4096 unless told */
#include "base/clock.h"
#include "core/codec.h"
#include "runtime/cpu/kernel.h"
#include "sluice/inspect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"baseline", "avx2", "avx512"};
static const sl_dtype types[] = {SL_DTYPE_f32,  SL_DTYPE_bf16, SL_DTYPE_f16,
                                 SL_DTYPE_q8,   SL_DTYPE_q4,   SL_DTYPE_q4_k,
                                 SL_DTYPE_q4_0, SL_DTYPE_q6_k, SL_DTYPE_q4_m};
static const int64_t token_counts[] = {1, 8, 32};

enum { COPIES_BYTES = 512 << 20 }; /* of weights, so that no cache holds them */

/* Bytes that make ordinary weights of every type: floats near 0.5, small scales. */
static void fill(uint8_t *block, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) block[i] = (uint8_t)(i % 4 == 3 || i % 4 == 1 ? 0x3f : i);
}

/* Seconds per call over fresh copies of the weights; the best of several rounds. */
static double seconds_per_call(const sl_kernel *kernel, sl_linear_args *args, const uint8_t *block,
                               double least_seconds) {
    const uint64_t bytes = sl_type_bytes(&args->w.type);
    const uint64_t copies = COPIES_BYTES / bytes;
    const sl_split split = kernel->split(args);
    void *scratch = aligned_alloc(64, (split.scratch_bytes + 64) / 64 * 64);
    sl_error err = {0};
    sl_worker worker = {scratch, &err};
    double best = 1e9;
    const double start = sl_clock_seconds();
    for (uint64_t n = 0; scratch && (n < 3 || sl_clock_seconds() - start < least_seconds); n++) {
        args->w.data = block + n % copies * bytes;
        const double begin = sl_clock_seconds();
        if (kernel->run(args, 0, split.items, &worker)) break;
        const double seconds = sl_clock_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    free(scratch);
    return best;
}

static void bench_set(const sl_kernel_set *set, int64_t rows, int64_t cols, const uint8_t *block,
                      double floor_rate) {
    for (size_t n = 0; n < sizeof types / sizeof types[0]; n++)
        for (size_t i = 0; i < sizeof token_counts / sizeof token_counts[0]; i++) {
            const int64_t tokens = token_counts[i];
            sl_linear_args args = {
                .x = {.type = sl_type_make(SL_DTYPE_f32, 2, tokens, cols)},
                .w = {.type = sl_type_make(types[n], 2, rows, cols)},
                .out = {.type = sl_type_make(SL_DTYPE_f32, 2, tokens, rows)},
            };
            float *x = calloc((size_t)(tokens * cols), sizeof *x);
            args.x.data = x;
            args.out.data = calloc((size_t)(tokens * rows), sizeof(float));
            for (int64_t j = 0; x && j < tokens * cols; j++) x[j] = (float)(j % 17) / 16 - 0.5f;
            const sl_type inputs[2] = {args.x.type, args.w.type};
            const sl_kernel *kernel = sl_cpu_kernel_find(set, SL_OP_linear, inputs);
            if (x && args.out.data && kernel) {
                const double seconds = seconds_per_call(kernel, &args, block, 0.3);
                const double rate = (double)sl_type_bytes(&args.w.type) / seconds;
                printf("%-8s %-4s %3lld tokens  %7.2f GB/s of weights (%3.0f%% of reading)  "
                       "%7.1f GFLOP/s\n",
                       set->isa, sl_dtype_infos[types[n]].name, (long long)tokens, rate * 1e-9,
                       100 * rate / floor_rate, 2e-9 * (double)(tokens * rows * cols) / seconds);
            }
            free(x);
            free(args.out.data);
        }
}

int main(int argc, char **argv) {
    const int64_t rows = argc > 2 ? strtoll(argv[1], NULL, 10) : 4096;
    const int64_t cols = argc > 2 ? strtoll(argv[2], NULL, 10) : 4096;
    uint8_t *block = aligned_alloc(64, COPIES_BYTES);
    if (!block || rows < 1 || cols < 1 || rows * cols * 4 > COPIES_BYTES) return 1;
    fill(block, COPIES_BYTES);
    sl_floors floors;
    sl_error err;
    if (sl_measure_floors(1, &floors, &err) != SL_OK) return 1;
    const double floor_rate = floors.read_bytes_per_second[0];
    printf("reading: %.2f GB/s; computing: %.1f GFLOP/s; weights %lld x %lld, one core\n",
           floor_rate * 1e-9, floors.f32_operations_per_second[0] * 1e-9, (long long)rows,
           (long long)cols);
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (set) bench_set(set, rows, cols, block, floor_rate);
    }
    free(block);
    return 0;
}
