/* bench_support.h - Shared by the kernel benchmarks: weights that fit in no cache, the time of a
 * call on one core, and the output line that compares it with its floor.
 *
 * Time is the CPU time of the calling thread, so that other processes have little influence.
 * Floors are measured in the same way and in the same run, by the loops of the same instruction
 * set.  The floor of a call is the larger of the times to read its bytes and to compute its
 * operations. */
#ifndef SL_RUNTIME_CPU_BENCH_SUPPORT_H
#define SL_RUNTIME_CPU_BENCH_SUPPORT_H
#include "core/codec.h"
#include "runtime/cpu/kernel_set.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const char *const bench_isas[] = {SL_ISA_NAMES};
enum { BENCH_ISAS = sizeof bench_isas / sizeof bench_isas[0] };
static const size_t BENCH_BLOCK_BYTES = (size_t)512 << 20;

/* CPU seconds of this thread. */
static inline double bench_clock(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* BENCH_BLOCK_BYTES in huge pages, filled with bytes that are ordinary weights in every type:
 * floats near 0.5, small scales.  Exits if there is no memory; never freed. */
static inline uint8_t *bench_block(void) {
    uint8_t *block =
        mmap(NULL, BENCH_BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        (void)fprintf(stderr, "no memory for %zu bytes of weights\n", BENCH_BLOCK_BYTES);
        exit(1);
    }
    (void)madvise(block, BENCH_BLOCK_BYTES, MADV_HUGEPAGE);
    for (size_t i = 0; i < BENCH_BLOCK_BYTES; i++)
        block[i] = (uint8_t)(i % 4 == 3 || i % 4 == 1 ? 0x3f : i);
    return block;
}

/* Zeroed memory; exits if there is none. */
static inline void *bench_room(size_t bytes) {
    void *room = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!room) {
        (void)fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memset(room, 0, (bytes + 64) / 64 * 64);
}

/* Small floats of both signs. */
static inline float *bench_floats(int64_t count) {
    float *x = bench_room((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = (float)(i % 17) / 16 - 0.5f;
    return x;
}

/* The same, quantised to a8. */
static inline void *bench_rows(int64_t rows, int64_t cols) {
    const sl_type type = sl_type_make(SL_DTYPE_a8, 2, rows, cols);
    float *x = bench_floats(rows * cols);
    void *out = bench_room(sl_type_bytes(&type));
    sl_quantise_rows(&type, x, out);
    free(x);
    return out;
}

/* Per second, on one core. */
typedef struct {
    double read_bytes, f32_operations, int8_operations;
} bench_floors;

static inline double bench_compute_rate(sl_compute_loop *loop) {
    double best = 0;
    uint64_t operations;
    for (int i = 0; i < 20; i++) {
        const double begin = bench_clock();
        const volatile float used = loop(100000, &operations);
        (void)used;
        const double rate = (double)operations / (bench_clock() - begin);
        if (rate > best) best = rate;
    }
    return best;
}

/* Passes of 64 MB: far larger than a cache, short enough that some are undisturbed. */
static inline bench_floors bench_measure(const sl_kernel_set *set, const uint8_t *block) {
    enum { CHUNK_BYTES = 4 * 64 * 31739 /* as in floors.c */, CHUNKS = 8, ROUNDS = 4 };
    bench_floors floors = {.f32_operations = bench_compute_rate(set->fma),
                           .int8_operations = bench_compute_rate(set->dot)};
    const size_t passes = BENCH_BLOCK_BYTES / CHUNK_BYTES / CHUNKS;
    for (size_t n = 0; n < ROUNDS * passes; n++) {
        const uint8_t *from = block + n % passes * CHUNKS * CHUNK_BYTES;
        const double begin = bench_clock();
        for (size_t c = 0; c < CHUNKS; c++) {
            const volatile float used = set->read(from + c * CHUNK_BYTES, CHUNK_BYTES);
            (void)used;
        }
        const double rate = (double)CHUNKS * CHUNK_BYTES / (bench_clock() - begin);
        if (rate > floors.read_bytes) floors.read_bytes = rate;
    }
    printf("%-8s reads %.1f GB/s; f32 %.0f, int8 %.0f Gop/s on one core\n", set->isa,
           floors.read_bytes * 1e-9, floors.f32_operations * 1e-9, floors.int8_operations * 1e-9);
    return floors;
}

/* Runs before each call, for fresh weights or requests. */
typedef void bench_prepare(void *ctx, uint64_t call);

/* Seconds of one call over all items, the best of several.  Exits if a call fails. */
static inline double bench_call(const sl_kernel *kernel, const void *args, bench_prepare *prepare,
                                void *ctx) {
    const double least_seconds = 0.1;
    const sl_split split = kernel->split(args);
    void *scratch = bench_room(split.scratch_bytes);
    sl_error err = {0};
    sl_worker worker = {.scratch = scratch, .err = &err};
    double best = 1e9;
    const double start = bench_clock();
    for (uint64_t n = 0; n < 2 || bench_clock() - start < least_seconds; n++) {
        if (prepare) prepare(ctx, n);
        const double begin = bench_clock();
        if (kernel->run(args, 0, split.items, &worker) != SL_OK) {
            (void)fprintf(stderr, "%s: %s\n", kernel->name, err.message);
            exit(1);
        }
        const double seconds = bench_clock() - begin;
        if (n > 0 && seconds < best) best = seconds; /* the first call only touches the memory */
    }
    free(scratch);
    return best;
}

/* The work of a call. */
typedef struct {
    const char *isa, *name, *type;
    int64_t tokens;
    double bytes, operations;
    bool int8; /* operations are int8 products */
} bench_work;

static inline void bench_line(const bench_work *w, double seconds, const bench_floors *floors) {
    const double rate = w->int8 ? floors->int8_operations : floors->f32_operations;
    const double reading = w->bytes / floors->read_bytes, computing = w->operations / rate;
    const bool memory = reading > computing;
    printf("%-8s %-12s %-5s %4lld tokens %10.1f us %7.2f GB/s %8.1f Gop/s  %4.0f %% of %s\n",
           w->isa, w->name, w->type, (long long)w->tokens, seconds * 1e6, w->bytes / seconds * 1e-9,
           w->operations / seconds * 1e-9, 100 * (memory ? reading : computing) / seconds,
           memory    ? "memory"
           : w->int8 ? "int8"
                     : "f32");
    (void)fflush(stdout);
}
#endif
