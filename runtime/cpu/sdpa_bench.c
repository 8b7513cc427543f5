/* sdpa_bench.c - Speed of attention on one core: cache bytes per second when decoding at several
 * positions, compared with the plain read bandwidth in the same run, and operations per second of a
 * prefill chunk.
 *
 *   attention_bench [isa]     default: every instruction set of this machine */
#include "base/memory.h"
#include "core/kv.h"
#include "runtime/cpu/bench_support.h"

enum { QUERY_HEADS = 16, HEADS = 2, WIDTH = 256, MOST = 32768, CHUNK = 512, COPIES = 2 };
static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_k16};
static const int64_t lengths[] = {1024, 4096, 16384, MOST};

/* Caches of several slots, so that no position is still in a CPU cache when it is read again. */
typedef struct {
    uint8_t *keys, *values;
    float *q, *out, *mixes, *weights;
    int32_t slots[CHUNK], positions[CHUNK];
} room;

static float element(int64_t i) {
    return (float)((i * 7919 + i / 16) % 255) / 256 - 0.5f;
}

/* Allocated like the caches of sessions: in huge pages. */
static uint8_t *cache_room(size_t bytes) {
    uint8_t *cache = sl_resize(sl_allocator_or_default(NULL), NULL, 0, bytes, 64);
    if (!cache) {
        (void)fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memset(cache, 0, bytes);
}

static room make_room(void) {
    const size_t cache = (size_t)COPIES * HEADS * MOST * WIDTH * sizeof(float);
    const size_t rows = (size_t)CHUNK * QUERY_HEADS * WIDTH * sizeof(float);
    const room r = {.keys = cache_room(cache),
                    .values = cache_room(cache),
                    .q = bench_room(rows),
                    .out = bench_room(rows),
                    .mixes = bench_room(rows),
                    .weights = bench_room(rows)};
    const int64_t elements = (int64_t)CHUNK * QUERY_HEADS * WIDTH;
    for (int64_t i = 0; i < elements; i++) r.q[i] = element(i);
    return r;
}

static sl_kv_shape shape_of(sl_dtype dtype) {
    return (sl_kv_shape){dtype, COPIES, HEADS, MOST, WIDTH};
}

static void fill_codes(const sl_type *type, uint8_t *cache) {
    float row[WIDTH];
    for (int64_t i = 0; i < sl_kv_rows(type); i++) {
        for (int64_t d = 0; d < WIDTH; d++) row[d] = element(i * WIDTH + d);
        sl_kv_store_row(type, cache, i, row);
    }
}

static void fill_caches(room *r, sl_dtype dtype) {
    if (dtype == SL_DTYPE_k16) {
        const sl_type keys = sl_kv_keys(shape_of(dtype)), values = sl_kv_values(shape_of(dtype));
        fill_codes(&keys, r->keys), fill_codes(&values, r->values);
        return;
    }
    const int64_t count = (int64_t)COPIES * HEADS * MOST * WIDTH;
    for (int64_t i = 0; i < count; i++) {
        const float x = element(i);
        const uint16_t half = (uint16_t)(0x3800 + i % 1024); /* 0.5 to 1 */
        if (dtype == SL_DTYPE_f32)
            memcpy(r->keys + i * 4, &x, 4), memcpy(r->values + i * 4, &x, 4);
        else
            memcpy(r->keys + i * 2, &half, 2), memcpy(r->values + i * 2, &half, 2);
    }
}

/* Runs a kernel on all its items. */
static void run(const sl_kernel *kernel, const void *args) {
    const sl_split split = kernel->split(args);
    static void *scratch;
    static size_t bytes;
    if (split.scratch_bytes > bytes) {
        free(scratch);
        bytes = split.scratch_bytes;
        scratch = bench_room(bytes);
    }
    sl_error err = {0};
    sl_worker worker = {.scratch = scratch, .err = &err};
    if (kernel->run(args, 0, split.items, &worker) != SL_OK) {
        (void)fprintf(stderr, "attention_bench: %s\n", err.message);
        exit(1);
    }
}

/* The best of several rounds in seconds. */
static double best_of(void (*once)(const void *ctx, int round), const void *ctx,
                      double least_seconds) {
    double best = 1e9;
    const double start = bench_clock();
    for (int n = 0; n < 3 || bench_clock() - start < least_seconds; n++) {
        const double begin = bench_clock();
        once(ctx, n);
        const double seconds = bench_clock() - begin;
        if (seconds < best) best = seconds;
    }
    return best;
}

typedef struct {
    const sl_kernel_set *set;
    room *r;
    sl_dtype dtype;
    int64_t rows, position; /* of the first row */
} task;

static void decode(const void *ctx, int round) {
    const task *t = ctx;
    room *r = t->r;
    const sl_kv_shape cache = shape_of(t->dtype);
    const int64_t parts = MOST / SL_SDPA_PART;
    const sl_type ids = sl_type_make(SL_DTYPE_i32, 1, (int64_t)1);
    r->slots[0] = round % COPIES;
    r->positions[0] = (int32_t)t->position;
    const sl_sdpa_parts_args args = {
        .q = {r->q,
              sl_type_make(SL_DTYPE_f32, 3, (int64_t)1, (int64_t)QUERY_HEADS, (int64_t)WIDTH)},
        .cache_k = {r->keys, sl_kv_keys(cache)},
        .cache_v = {r->values, sl_kv_values(cache)},
        .slots = {r->slots, ids},
        .positions = {r->positions, ids},
        .mixes = {r->mixes, sl_type_make(SL_DTYPE_f32, 4, (int64_t)1, (int64_t)QUERY_HEADS, parts,
                                         (int64_t)WIDTH)},
        .weights = {r->weights, sl_type_make(SL_DTYPE_f32, 4, (int64_t)1, (int64_t)QUERY_HEADS,
                                             parts, (int64_t)2)},
        .attrs = {.scale = 0.0625f}};
    const sl_type inputs[2] = {args.q.type, args.cache_k.type};
    run(sl_cpu_kernel_find(t->set, SL_OP_sdpa_parts, inputs), &args);
    const sl_sdpa_merge_args merge = {.mixes = {r->mixes, args.mixes.type},
                                      .weights = {r->weights, args.weights.type},
                                      .out = {r->out, args.q.type}};
    const sl_type merged[2] = {args.mixes.type, args.weights.type};
    run(sl_cpu_kernel_find(t->set, SL_OP_sdpa_merge, merged), &merge);
}

static void prefill(const void *ctx, int round) {
    const task *t = ctx;
    room *r = t->r;
    const sl_kv_shape cache = shape_of(t->dtype);
    const sl_type ids = sl_type_make(SL_DTYPE_i32, 1, t->rows);
    const sl_type q = sl_type_make(SL_DTYPE_f32, 3, t->rows, (int64_t)QUERY_HEADS, (int64_t)WIDTH);
    for (int64_t i = 0; i < t->rows; i++) {
        r->slots[i] = round % COPIES;
        r->positions[i] = (int32_t)(t->position + i);
    }
    const sl_sdpa_args args = {.q = {r->q, q},
                               .cache_k = {r->keys, sl_kv_keys(cache)},
                               .cache_v = {r->values, sl_kv_values(cache)},
                               .slots = {r->slots, ids},
                               .positions = {r->positions, ids},
                               .out = {r->out, q},
                               .attrs = {.scale = 0.0625f}};
    const sl_type inputs[2] = {q, args.cache_k.type};
    run(sl_cpu_kernel_find(t->set, SL_OP_sdpa, inputs), &args);
}

static volatile float sink;
static void read_block(const void *ctx, int round) {
    const task *t = ctx;
    const size_t half = (size_t)HEADS * MOST * WIDTH * sizeof(float);
    sink = t->set->read(t->r->keys + (size_t)(round % COPIES) * half, half);
}

static void bench(task *t) {
    const double bytes_read = (double)HEADS * MOST * WIDTH * sizeof(float);
    const double floor_rate = bytes_read / best_of(read_block, t, 0.3);
    printf("%s %s: reading %.2f GB/s\n", t->set->isa, sl_dtype_infos[t->dtype].name,
           floor_rate * 1e-9);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        t->position = lengths[i] - 1;
        const double seconds = best_of(decode, t, 0.3);
        const sl_type cached = sl_kv_keys(shape_of(t->dtype));
        const double bytes =
            2.0 / COPIES / MOST * (double)sl_type_bytes(&cached) * (double)lengths[i];
        printf("  decode at %5lld   %8.3f ms  %6.2f GB/s (%3.0f%% of reading)\n",
               (long long)lengths[i], seconds * 1e3, bytes / seconds * 1e-9,
               100 * bytes / seconds / floor_rate);
    }
    for (int64_t at = 0; at <= 8192; at += 8192) {
        t->rows = CHUNK;
        t->position = at;
        const double seconds = best_of(prefill, t, 0.3);
        const double pairs = (double)CHUNK * ((double)at + (CHUNK + 1) / 2.0);
        printf("  %d rows at %5lld %8.3f ms  %6.1f GFLOP/s\n", CHUNK, (long long)at, seconds * 1e3,
               4.0 * pairs * QUERY_HEADS * WIDTH / seconds * 1e-9);
    }
}

int main(int argc, char **argv) {
    room r = make_room();
    for (size_t n = 0; n < sizeof types / sizeof types[0]; n++) {
        fill_caches(&r, types[n]);
        for (size_t i = 0; i < BENCH_ISAS; i++) {
            task t = {.set = sl_cpu_kernel_set(bench_isas[i]), .r = &r, .dtype = types[n]};
            if (t.set && (argc < 2 || strcmp(argv[1], bench_isas[i]) == 0)) bench(&t);
        }
    }
    return 0;
}
