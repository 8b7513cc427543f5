/* executor_test.c - Several graphs on one executor: shared weights and states, the caller's memory,
 * runs that are started, timing. */
#include "sluice/executor.h"
#include "sluice/experimental.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WIDTH = 4, PLACES = 16, LARGE = 1 << 16 };

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}
static void fails(sl_status status, sl_status wanted, const char *text) {
    if (status != wanted || !strstr(err.message, text))
        fail_msg("status %d, wanted %d: %s", status, wanted, err.message);
}

/* ---- an allocator that counts, and fails if it is told to ---- */

static atomic_llong live_bytes, large_blocks, calls, fail_at;
static void *counted(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    (void)ctx;
    void *fresh = NULL;
    if (new_bytes && atomic_fetch_add(&calls, 1) == atomic_load(&fail_at) - 1) return NULL;
    if (new_bytes && posix_memalign(&fresh, align < 16 ? 16 : align, new_bytes)) return NULL;
    if (fresh && ptr) memcpy(fresh, ptr, old_bytes < new_bytes ? old_bytes : new_bytes);
    free(ptr);
    atomic_fetch_add(&live_bytes, (long long)new_bytes - (ptr ? (long long)old_bytes : 0));
    atomic_fetch_add(&large_blocks, (new_bytes >= LARGE) - (ptr && old_bytes >= LARGE));
    return fresh;
}
static const sl_allocator counting = {.resize = counted};

/* ---- devices and graphs ---- */

/* "cuda" only where the emulated driver was built. */
static const char *device_at(int i) {
    static const char *const names[] = {"cpu", "ref", "cuda"};
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    if (i == 2 && (!driver || !dlopen(driver, RTLD_NOW | RTLD_GLOBAL))) return NULL;
    return i < 3 ? names[i] : NULL;
}

static sl_executor *executor_on(const char *device) {
    sl_executor *executor = NULL;
    const sl_executor_options options = {
        .struct_size = sizeof options, .device = device, .threads = 2, .allocator = &counting};
    must(sl_executor_create(&options, &executor, &err));
    return executor;
}

static sl_graph *read_graph(const char *text) {
    sl_graph *graph = NULL;
    must(sl_graph_read(text, strlen(text), &graph, &err));
    return graph;
}

static sl_status try_compile(const char *text, sl_executor *executor, sl_compiled *share,
                             sl_compiled **out) {
    const sl_compile_options options = {
        .struct_size = sizeof options, .executor = executor, .share = share};
    sl_graph *graph = read_graph(text);
    const sl_status status = sl_compile(graph, &options, out, &err);
    sl_graph_destroy(graph);
    return status;
}
static sl_compiled *compile(const char *text, sl_executor *executor, sl_compiled *share) {
    sl_compiled *compiled = NULL;
    must(try_compile(text, executor, share, &compiled));
    return compiled;
}

#define CACHE "  state %ck : f32[1,1,1,4,16]\n  state %cv : f32[1,1,16,4]\n"
static const char writer[] =
    "graph \"writer\" {\n  input %k : f32[1,1,4]\n  input %slots : i32[1]\n"
    "  input %at : i32[1]\n  weight %w : f32[4]\n" CACHE "  %v = mul(%k, %w)\n"
    "  %nk, %nv = kv_append(%k, %v, %slots, %at, %ck, %cv)\n"
    "  output \"v\" = %v }";
static const char reader[] =
    "graph \"reader\" {\n  weight %w : f32[4]\n" CACHE "  %r = mul(%cv, %w)\n  output \"r\" = %r }";
static const char scaled[] = "graph \"scaled\" {\n  input %x : f32[3,4]\n  weight %w : f32[4]\n"
                             "  %e = mul(%x, %w)\n  %y = exp(%e)\n  output \"e\" = %e\n"
                             "  output \"y\" = %y }";
static const float w[WIDTH] = {2, 3, 4, 5}, k[WIDTH] = {1, 10, 100, 1000};

static void set(sl_compiled *c, const char *name, const void *data, size_t bytes) {
    must(sl_compiled_set(c, name, data, bytes, &err));
}
static void write_at(sl_compiled *c, int32_t place) {
    set(c, "k", k, sizeof k);
    set(c, "slots", &(int32_t){0}, 4);
    set(c, "at", &place, 4);
    must(sl_compiled_run(c, &err));
}
static const float *floats(const sl_compiled *c, const char *name) {
    const float *found = sl_compiled_get(c, name, NULL);
    assert_non_null(found);
    return found;
}

/* ---- executors ---- */

static void results_stay(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(scaled, executor, NULL), *b = compile(scaled, executor, NULL);
    float x[12];
    sl_executor_destroy(executor); /* the graphs keep it open */
    for (int i = 0; i < 12; i++) x[i] = (float)i / 16;
    set(a, "x", x, sizeof x);
    set(a, "w", w, sizeof w);
    set(b, "x", x, sizeof x);
    set(b, "w", (float[]){1, 1, 1, 1}, sizeof w); /* its own */
    must(sl_compiled_run(a, &err));
    const float *of_a = floats(a, "e");
    must(sl_compiled_run(b, &err));
    assert_ptr_equal(floats(a, "e"), of_a);
    for (int i = 0; i < 12; i++) {
        assert_true(of_a[i] == x[i] * w[i % WIDTH]);
        assert_true(floats(b, "e")[i] == x[i]);
    }
    sl_compiled_destroy(a);
    must(sl_compiled_run(b, &err));
    sl_compiled_destroy(b);
}

static void options_are_checked(void **state) {
    (void)state;
    sl_executor *one = executor_on("cpu"), *other = executor_on("ref");
    sl_compiled *a = compile(scaled, one, NULL), *c = NULL;
    sl_graph *graph = read_graph(scaled);
    sl_compile_options options = {.struct_size = sizeof options, .executor = other, .share = a};
    fails(sl_compile(graph, &options, &c, &err), SL_INVALID, "belongs to another executor");
    options = (sl_compile_options){.struct_size = sizeof options, .executor = one, .device = "ref"};
    fails(sl_compile(graph, &options, &c, &err), SL_INVALID,
          "device 'ref' was given, but the executor runs on 'cpu'");
    options.device = "cpu";
    options.threads = 1;
    fails(sl_compile(graph, &options, &c, &err), SL_INVALID, "options of the executor");
    options.threads = 0;
    options.compile = "no-fusion,eager";
    fails(sl_compile(graph, &options, &c, &err), SL_INVALID, "options of the executor");
    options.compile = "no-fusion";
    must(sl_compile(graph, &options, &c, &err));
    sl_compiled_destroy(c);
    const sl_executor_options nowhere = {.struct_size = sizeof nowhere, .device = "abacus"};
    fails(sl_executor_create(&nowhere, &other, &err), SL_UNSUPPORTED, "'abacus'");
    sl_compiled_destroy(a);
    sl_graph_destroy(graph);
    sl_executor_destroy(one);
    sl_executor_destroy(other);
}

/* ---- sharing ---- */

static void weights_and_states_are_shared(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(writer, executor, NULL);
    sl_compiled *b = compile(reader, NULL, a), *c = compile(reader, NULL, b);
    float row[WIDTH];
    sl_executor_destroy(executor);
    set(b, "w", w, sizeof w); /* of all three */
    write_at(a, 3);
    must(sl_compiled_run(c, &err));
    for (int i = 0; i < WIDTH; i++)
        assert_true(floats(c, "r")[3 * WIDTH + i] == k[i] * w[i] * w[i]);
    sl_compiled_destroy(a); /* what it has written stays */
    must(sl_compiled_run(b, &err));
    for (int i = 0; i < WIDTH; i++)
        assert_true(floats(b, "r")[3 * WIDTH + i] == k[i] * w[i] * w[i]);
    must(sl_compiled_get_at(c, "cv", 3 * sizeof row, row, sizeof row, &err));
    for (int i = 0; i < WIDTH; i++) assert_true(row[i] == k[i] * w[i]);
    sl_compiled_destroy(b);
    sl_compiled_destroy(c);
}

static void other_types_are_not_shared(void **state) {
    (void)state;
    static const char larger[] = "graph \"g\" {\n  weight %w : f32[5]\n  %y = neg(%w)\n"
                                 "  output \"y\" = %y }",
                      otherwise[] = "graph \"g\" {\n  state %w : f32[4]\n  %y = neg(%w)\n"
                                    "  output \"y\" = %y }";
    sl_executor *executor = executor_on("cpu");
    sl_compiled *a = compile(reader, executor, NULL), *c = NULL;
    fails(try_compile(larger, executor, a, &c), SL_INVALID,
          "weight 'w' is f32[5], but the shared weight of this name is f32[4]");
    fails(try_compile(otherwise, executor, a, &c), SL_INVALID,
          "state 'w' is f32[4], but the shared weight of this name is f32[4]");
    assert_null(c);
    sl_compiled_destroy(a);
    sl_executor_destroy(executor);
}

static const char heavy[] = "graph \"heavy\" {\n  symbol B = 1\n  input %x : f32[B,64]\n"
                            "  weight %w : f32[512,64]\n  %y = linear(%x, %w)\n"
                            "  output \"y\" = %y }",
                  heavy_one[] = "graph \"heavy\" {\n  input %x : f32[1,64]\n"
                                "  weight %w : f32[512,64]\n  %y = linear(%x, %w)\n"
                                "  output \"y\" = %y }";
enum { HEAVY = 512 * 64 }; /* the only block of LARGE bytes and more */

static void there_is_one_copy(void **state) {
    (void)state;
    static float weight[HEAVY];
    sl_executor *executor = executor_on("cpu");
    const long long before = atomic_load(&large_blocks);
    sl_compiled *c[3] = {compile(heavy_one, executor, NULL)};
    c[1] = compile(heavy_one, NULL, c[0]);
    c[2] = compile(heavy_one, executor, NULL); /* shares nothing */
    set(c[0], "w", weight, sizeof weight);
    set(c[1], "w", weight, sizeof weight);
    assert_int_equal(atomic_load(&large_blocks) - before, 1);
    set(c[2], "w", weight, sizeof weight);
    assert_int_equal(atomic_load(&large_blocks) - before, 2);
    for (int i = 0; i < 3; i++) sl_compiled_destroy(c[i]);
    assert_int_equal(atomic_load(&large_blocks), before);
    sl_executor_destroy(executor);
}

static void buckets_hold_one_copy(const char *device) {
    static float weight[HEAVY];
    sl_executor *executor = executor_on(device);
    sl_graph *graph = read_graph(heavy);
    sl_bucketed *b = NULL;
    const sl_compile_options compile_options = {.struct_size = sizeof compile_options,
                                                .executor = executor};
    const sl_bucket_options options = {
        .struct_size = sizeof options, .most_kept = 3, .compile = &compile_options};
    float x[40 * 64];
    const long long before = atomic_load(&large_blocks);
    for (int i = 0; i < HEAVY; i++) weight[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 40 * 64; i++) x[i] = (float)(i % 5 - 2);
    must(sl_bucketed_create(graph, &options, &b, &err));
    must(sl_bucketed_set(b, "w", weight, sizeof weight, &err)); /* before there is a bucket */
    for (int64_t size = 1; size <= 16; size++) {
        must(sl_bucketed_resize(b, &(sl_symbol_size){"B", size}, 1, &err));
        must(sl_bucketed_set(b, "x", x, (size_t)size * 64 * sizeof *x, &err));
        must(sl_bucketed_run(b, &err));
        double want = 0;
        for (int i = 0; i < 64; i++) want += (double)x[(size - 1) * 64 + i] * (double)weight[i];
        const float *y = sl_bucketed_get(b, "y", NULL);
        assert_true((double)y[(size - 1) * 512] == want);
    }
    assert_int_equal(sl_bucketed_count(b), 3);
    if (strcmp(device, "ref") != 0) /* which has doubles of its own for each bucket */
        assert_int_equal(atomic_load(&large_blocks) - before, 1);
    sl_bucketed_destroy(b);
    sl_graph_destroy(graph);
    sl_executor_destroy(executor);
}

/* ---- memory ---- */

static void parts_are_set_and_read(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(writer, executor, NULL), *b = compile(reader, NULL, a);
    float got[PLACES * WIDTH], part[2] = {7, 8};
    sl_executor_destroy(executor);
    must(sl_compiled_set_at(a, "w", 0, w, 2 * sizeof *w, &err)); /* a prefix: set */
    must(sl_compiled_set_at(a, "w", 8, w + 2, 2 * sizeof *w, &err));
    must(sl_compiled_get_at(b, "w", 4, got, 12, &err));
    assert_memory_equal(got, w + 1, 12);
    must(sl_compiled_set_at(b, "cv", 20, part, sizeof part, &err));
    must(sl_compiled_run(b, &err));
    assert_true(floats(b, "r")[5] == 7 * w[1] && floats(b, "r")[6] == 8 * w[2]);
    assert_true(floats(b, "r")[4] == 0 && floats(b, "r")[7] == 0);
    write_at(a, 0);
    must(sl_compiled_get_at(a, "cv", 0, got, sizeof got, &err));
    assert_true(got[0] == k[0] * w[0] && got[3] == k[3] * w[3] && got[5] == 7 && got[6] == 8);
    must(sl_compiled_get_at(a, "v", 4, got, 8, &err)); /* an output */
    assert_true(got[0] == k[1] * w[1] && got[1] == k[2] * w[2]);
    must(sl_compiled_set_at(a, "k", 12, part, 4, &err)); /* an input, and others as they were */
    must(sl_compiled_run(a, &err));
    assert_true(floats(a, "v")[3] == 7 * w[3] && floats(a, "v")[0] == k[0] * w[0]);
    must(sl_compiled_set_at(a, "w", 16, w, 0, &err));
    fails(sl_compiled_set_at(a, "w", 4, w, 16, &err), SL_INVALID,
          "'w' is f32[4] of 16 bytes, which has no 16 bytes at 4");
    fails(sl_compiled_set_at(a, "w", SIZE_MAX, w, 4, &err), SL_INVALID, "has no 4 bytes at");
    fails(sl_compiled_get_at(a, "cv", 256, got, 4, &err), SL_INVALID, "has no 4 bytes at 256");
    fails(sl_compiled_get_at(a, "v", 16, got, 1, &err), SL_INVALID, "has no 1 bytes at 16");
    fails(sl_compiled_get_at(a, "z", 0, got, 1, &err), SL_INVALID, "'z'");
    fails(sl_compiled_set_at(a, "v", 0, got, 1, &err), SL_INVALID, "no input, weight or state 'v'");
    if (strcmp(device, "ref") == 0)
        fails(sl_compiled_set_at(a, "cv", 2, got, 4, &err), SL_INVALID, "not whole elements");
    sl_compiled_destroy(a);
    sl_compiled_destroy(b);
}

static void callers_memory_is_used(const char *device) {
    _Alignas(64) static float x[12], weight[WIDTH], e[12], y[13];
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(scaled, executor, NULL), *b = compile(scaled, NULL, a);
    sl_executor_destroy(executor);
    memcpy(weight, w, sizeof weight);
    for (int i = 0; i < 12; i++) x[i] = (float)i / 16;
    must(sl_compiled_bind(a, "x", x, sizeof x, &err));
    must(sl_compiled_bind(a, "w", weight, sizeof weight, &err));
    must(sl_compiled_bind(a, "e", e, sizeof e, &err));
    must(sl_compiled_run(a, &err));
    assert_ptr_equal(sl_compiled_get(a, "e", NULL), e);
    for (int i = 0; i < 12; i++) assert_true(e[i] == x[i] * w[i % WIDTH]);
    x[5] = 3; /* as it is at the run; a weight again when it is bound */
    weight[1] = 7;
    must(sl_compiled_bind(a, "w", weight, sizeof weight, &err));
    must(sl_compiled_run(a, &err));
    assert_true(e[5] == 21);
    set(b, "x", x, sizeof x);
    must(sl_compiled_run(b, &err)); /* shares the weight */
    assert_true(floats(b, "e")[5] == 21);
    must(sl_compiled_bind(a, "w", NULL, 0, &err)); /* as if it was never set */
    fails(sl_compiled_run(b, &err), SL_INVALID, "weight 'w' was never set");
    set(b, "w", w, sizeof w);
    must(sl_compiled_bind(a, "e", NULL, 0, &err));
    must(sl_compiled_run(a, &err));
    assert_ptr_not_equal(sl_compiled_get(a, "e", NULL), e);
    assert_true(floats(a, "e")[5] == 3 * w[1] && weight[1] == 7);
    fails(sl_compiled_bind(a, "y", y + 1, sizeof e, &err), SL_INVALID, "wanted a multiple of 64");
    fails(sl_compiled_bind(a, "y", y, 4, &err), SL_INVALID, "but 4 bytes were given");
    fails(sl_compiled_bind(a, "z", y, 4, &err), SL_INVALID, "'z'");
    sl_compiled_destroy(a);
    sl_compiled_destroy(b);
}

static void states_are_bound_where_they_lie(const char *device) {
    _Alignas(64) static float cache[PLACES * WIDTH];
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(writer, executor, NULL), *b = compile(reader, NULL, a);
    sl_executor_destroy(executor);
    set(a, "w", w, sizeof w);
    const sl_status status = sl_compiled_bind(b, "cv", cache, sizeof cache, &err);
    if (strcmp(device, "cpu") == 0) {
        must(status);
        write_at(a, 2);
        for (int i = 0; i < WIDTH; i++) assert_true(cache[2 * WIDTH + i] == k[i] * w[i]);
    } else {
        fails(status, SL_UNSUPPORTED, "keeps states");
    }
    sl_compiled_destroy(a);
    sl_compiled_destroy(b);
}

/* Outputs that are one buffer, an input, or a state itself. */
static void outputs_of_every_kind_are_bound(const char *device) {
    static const char text[] = "graph \"g\" {\n  input %x : f32[4]\n  weight %w : f32[4]\n"
                               "  %y = mul(%x, %w)\n  %z = reshape(%y) {shape = [2,2]}\n"
                               "  output \"y\" = %y\n  output \"z\" = %z\n  output \"x2\" = %x\n"
                               "  output \"w2\" = %w }";
    static const char *const names[] = {"y", "z", "x2", "w2"};
    _Alignas(64) static float out[4][16];
    sl_executor *executor = executor_on(device);
    sl_compiled *c = compile(text, executor, NULL);
    sl_executor_destroy(executor);
    set(c, "x", k, sizeof k);
    set(c, "w", w, sizeof w);
    for (int i = 0; i < 4; i++) must(sl_compiled_bind(c, names[i], out[i], sizeof w, &err));
    must(sl_compiled_run(c, &err));
    for (int i = 0; i < 4; i++) assert_ptr_equal(sl_compiled_get(c, names[i], NULL), out[i]);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(out[0][i] == k[i] * w[i] && out[1][i] == k[i] * w[i]);
        assert_true(out[2][i] == k[i] && out[3][i] == w[i]);
    }
    must(sl_compiled_bind(c, "y", NULL, 0, &err));
    must(sl_compiled_start(c, &err));
    must(sl_compiled_finish(c, &err));
    assert_true(out[1][1] == k[1] * w[1] && floats(c, "y")[1] == k[1] * w[1]);
    sl_compiled_destroy(c);
}

/* ---- runs that are started ---- */

static void runs_are_started_and_finished(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(writer, executor, NULL), *b = compile(reader, NULL, a);
    float got[WIDTH];
    sl_executor_destroy(executor);
    fails(sl_compiled_finish(a, &err), SL_INVALID, "graph 'writer': no run is in flight");
    fails(sl_compiled_start(a, &err), SL_INVALID, "was never set");
    set(a, "w", w, sizeof w);
    write_at(a, 0);
    for (int32_t place = 1; place < PLACES; place++) {
        set(a, "at", &place, 4);
        must(sl_compiled_start(a, &err));
        must(sl_compiled_start(b, &err)); /* after a */
        must(sl_compiled_finish(b, &err));
        assert_true(floats(b, "r")[place * WIDTH + 1] == k[1] * w[1] * w[1]);
        fails(sl_compiled_set(a, "at", &place, 4, &err), SL_INVALID, "a run is in flight");
        fails(sl_compiled_start(a, &err), SL_INVALID, "a run is in flight");
        fails(sl_compiled_run(a, &err), SL_INVALID, "a run is in flight");
        fails(sl_compiled_get_at(a, "v", 0, got, 4, &err), SL_INVALID, "a run is in flight");
        fails(sl_compiled_bind(a, "k", NULL, 0, &err), SL_INVALID, "a run is in flight");
        must(sl_compiled_finish(a, &err));
    }
    /* What is set after the start does not change the run. */
    must(sl_compiled_start(b, &err));
    set(a, "w", k, sizeof k);
    must(sl_compiled_finish(b, &err));
    assert_true(floats(b, "r")[1] == k[1] * w[1] * w[1]);
    must(sl_compiled_start(b, &err)); /* and may be under way at the end */
    must(sl_compiled_start(a, &err));
    sl_compiled_destroy(a);
    sl_compiled_destroy(b);
}

static void errors_come_from_finish(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *a = compile(writer, executor, NULL), *b = compile(reader, NULL, a);
    sl_executor_destroy(executor);
    set(a, "w", w, sizeof w);
    write_at(a, 0);
    set(a, "at", &(int32_t){PLACES}, 4);
    must(sl_compiled_start(a, &err));
    must(sl_compiled_start(b, &err)); /* has no part in it */
    fails(sl_compiled_finish(a, &err), SL_INVALID, "position");
    must(sl_compiled_finish(b, &err));
    must(sl_compiled_start(a, &err));
    assert_int_equal(sl_compiled_finish(a, NULL), SL_INVALID);
    write_at(a, 1);
    sl_compiled_destroy(a);
    sl_compiled_destroy(b);
}

enum { THREADS = 3, ROUNDS = 60 };
typedef struct {
    sl_compiled *compiled;
    int number, wrong;
    sl_error error;
} worker;

static sl_status work_once(worker *at, int round) {
    sl_compiled *c = at->compiled;
    float x[12];
    for (int i = 0; i < 12; i++) x[i] = (float)(at->number + round + i) / 64;
    sl_status status = sl_compiled_set(c, "x", x, sizeof x, &at->error);
    if (status == SL_OK) status = sl_compiled_set(c, "w", w, sizeof w, &at->error);
    if (status == SL_OK) status = sl_compiled_start(c, &at->error);
    if (status == SL_OK) status = sl_compiled_finish(c, &at->error);
    if (status == SL_OK && round % 3 == 0) status = sl_compiled_run(c, &at->error);
    for (int i = 0; status == SL_OK && i < 12; i++)
        at->wrong += ((const float *)sl_compiled_get(c, "e", NULL))[i] != x[i] * w[i % WIDTH];
    return status;
}
static void *work(void *ctx) {
    worker *at = ctx;
    for (int round = 0; round < ROUNDS && !at->wrong; round++)
        if (work_once(at, round) != SL_OK) at->wrong++;
    sl_compiled_destroy(at->compiled);
    return NULL;
}

static void threads_take_turns(const char *device) {
    sl_executor *executor = executor_on(device);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        workers[t] =
            (worker){.compiled = compile(scaled, executor, t == 1 ? workers[0].compiled : NULL),
                     .number = t};
    sl_executor_destroy(executor);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
    for (int t = 0; t < THREADS; t++)
        if (workers[t].wrong) fail_msg("%s, thread %d: %s", device, t, workers[t].error.message);
}

/* ---- timing ---- */

static void runs_are_timed(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *c = compile(scaled, executor, NULL);
    sl_compiled_timing timing = {.struct_size = sizeof timing};
    const float x[12] = {0};
    sl_executor_destroy(executor);
    set(c, "x", x, sizeof x);
    set(c, "w", w, sizeof w);
    must(sl_compiled_timing_of(c, &timing, &err));
    assert_true(timing.runs == 0 && timing.total.run_seconds == 0);
    must(sl_compiled_run(c, &err));
    must(sl_compiled_start(c, &err));
    fails(sl_compiled_timing_of(c, &timing, &err), SL_INVALID, "in flight");
    must(sl_compiled_finish(c, &err));
    must(sl_compiled_timing_of(c, &timing, &err));
    assert_int_equal(timing.runs, 2);
    assert_true(timing.last.run_seconds > 0 && timing.last.wait_seconds >= 0);
    assert_true(timing.total.run_seconds > timing.last.run_seconds);
    assert_true(timing.total.encode_seconds >= timing.last.encode_seconds);
    assert_true(timing.total.wait_seconds > 0 && timing.total.wait_seconds < 60);
    timing.struct_size = 0;
    fails(sl_compiled_timing_of(c, &timing, &err), SL_INVALID, "struct_size is 0");
    sl_compiled_destroy(c);
}

static const char layers[] = "graph \"layers\" {\n  input %x : f32[3,4]\n"
                             "  label \"layer 3 exp\" %a = exp(%x)\n"
                             "  label \"layer 3 softmax\" %b = softmax(%a)\n"
                             "  label \"layer 4 softmax\" %c = softmax(%b)\n"
                             "  output \"c\" = %c }";

static bool holds(const char *path, const char *text) {
    char all[8192];
    FILE *file = fopen(path, "r");
    if (!file) return false;
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    (void)fclose(file);
    return strstr(all, text) != NULL;
}

static void windows_are_recorded(const char *device) {
    sl_executor *executor = executor_on(device);
    sl_compiled *c = compile(layers, executor, NULL);
    sl_profile_report report = {.struct_size = sizeof report};
    char path[64];
    const float x[12] = {0};
    (void)snprintf(path, sizeof path, "/tmp/executor_test_%d.json", (int)getpid());
    sl_executor_destroy(executor);
    set(c, "x", x, sizeof x);
    const sl_profile_options window = {
        .struct_size = sizeof window, .runs = 2, .labels = "layer 3", .trace_path = path};
    if (strcmp(device, "ref") == 0) {
        fails(sl_compiled_profile_begin(c, &window, &err), SL_UNSUPPORTED, "'ref'");
        sl_compiled_destroy(c);
        return;
    }
    fails(sl_compiled_profile_end(c, &report, &err), SL_INVALID, "no profile is open");
    must(sl_compiled_profile_begin(c, &window, &err));
    fails(sl_compiled_profile_begin(c, &window, &err), SL_INVALID, "a profile is open");
    must(sl_compiled_run(c, &err));
    must(sl_compiled_start(c, &err));
    must(sl_compiled_finish(c, &err));
    must(sl_compiled_run(c, &err)); /* after the window */
    must(sl_compiled_profile_end(c, &report, &err));
    assert_int_equal(report.runs, 2);
    assert_int_equal(report.label_count, 2);
    double share = 0;
    for (uint32_t i = 0; i < report.label_count; i++) {
        assert_int_equal(strncmp(report.labels[i].name, "layer 3", 7), 0);
        assert_int_equal(report.labels[i].calls, 2);
        share += report.labels[i].share;
    }
    assert_true(share > 0.999 && share < 1.001 && report.busy_seconds > 0);
    assert_int_equal(report.op_count, 2);
    sl_profile_report_deinit(&report);
    assert_true(holds(path, "layer 3 softmax") && !holds(path, "layer 4"));
    (void)remove(path);
    must(sl_compiled_profile(c, NULL, &report, &err));
    assert_true(report.runs == 1 && report.label_count == 3);
    sl_profile_report_deinit(&report);
    sl_profile_report_deinit(NULL);
    must(sl_compiled_profile_begin(c, NULL, &err)); /* and may be open at the end */
    sl_compiled_destroy(c);
}

/* ---- failures ---- */

static sl_status whole_life(const char *device, sl_executor **executor, sl_compiled **a,
                            sl_compiled **b) {
    const sl_executor_options options = {
        .struct_size = sizeof options, .device = device, .threads = 2, .allocator = &counting};
    sl_profile_report report = {.struct_size = sizeof report};
    const float x[12] = {1};
    sl_status status = sl_executor_create(&options, executor, &err);
    if (status == SL_OK) status = try_compile(scaled, *executor, NULL, a);
    if (status == SL_OK) status = try_compile(scaled, NULL, *a, b);
    if (status == SL_OK) status = sl_compiled_set(*a, "w", w, sizeof w, &err);
    if (status == SL_OK) status = sl_compiled_set(*a, "x", x, sizeof x, &err);
    if (status == SL_OK) status = sl_compiled_set_at(*b, "x", 0, x, 8, &err);
    if (status == SL_OK) status = sl_compiled_start(*a, &err);
    if (status == SL_OK) status = sl_compiled_start(*b, &err);
    if (status == SL_OK) status = sl_compiled_finish(*a, &err);
    if (status == SL_OK) status = sl_compiled_finish(*b, &err);
    if (status == SL_OK && strcmp(device, "ref") != 0)
        status = sl_compiled_profile(*a, NULL, &report, &err);
    sl_profile_report_deinit(&report);
    return status;
}

static void memory_may_be_short(const char *device) {
    sl_status status = SL_NO_MEMORY;
    long long n = 1;
    for (; status != SL_OK; n++) {
        sl_executor *executor = NULL;
        sl_compiled *a = NULL, *b = NULL;
        atomic_store(&calls, 0);
        atomic_store(&fail_at, n);
        status = whole_life(device, &executor, &a, &b);
        atomic_store(&fail_at, 0);
        if (status != SL_OK && status != SL_NO_MEMORY) fail_msg("%lld: %s", n, err.message);
        sl_compiled_destroy(a);
        sl_compiled_destroy(b);
        sl_executor_destroy(executor);
        assert_int_equal(atomic_load(&live_bytes), 0);
    }
    assert_true(n > 10);
}

static void null_pointers(void **state) {
    (void)state;
    sl_executor *executor = NULL;
    sl_compiled *c = NULL;
    fails(sl_executor_create(NULL, NULL, &err), SL_INVALID, "sl_executor_create: a required");
    must(sl_executor_create(NULL, &executor, &err));
    must(try_compile(scaled, executor, NULL, &c));
    assert_int_equal(sl_compiled_start(NULL, &err), SL_INVALID);
    assert_int_equal(sl_compiled_finish(NULL, NULL), SL_INVALID);
    assert_int_equal(sl_compiled_bind(c, NULL, NULL, 0, &err), SL_INVALID);
    assert_int_equal(sl_compiled_bind(c, "x", NULL, 8, &err), SL_INVALID);
    assert_int_equal(sl_compiled_bind(NULL, "x", NULL, 0, &err), SL_INVALID);
    assert_int_equal(sl_compiled_set_at(c, "x", 0, NULL, 4, &err), SL_INVALID);
    assert_int_equal(sl_compiled_set_at(NULL, "x", 0, NULL, 0, &err), SL_INVALID);
    assert_int_equal(sl_compiled_get_at(c, "x", 0, NULL, 4, &err), SL_INVALID);
    assert_int_equal(sl_compiled_get_at(c, NULL, 0, NULL, 0, &err), SL_INVALID);
    assert_int_equal(sl_compiled_timing_of(c, NULL, &err), SL_INVALID);
    assert_int_equal(sl_compiled_timing_of(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_compiled_profile(c, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_compiled_profile_begin(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_compiled_profile_end(c, NULL, &err), SL_INVALID);
    sl_compiled_destroy(c);
    sl_executor_destroy(executor);
    sl_executor_destroy(NULL);
}

#define ON_ALL(NAME)                                                                               \
    static void NAME##_on_all(void **state) {                                                      \
        (void)state;                                                                               \
        for (int i = 0; device_at(i); i++) NAME(device_at(i));                                     \
        assert_int_equal(atomic_load(&live_bytes), 0);                                             \
    }
ON_ALL(results_stay)
ON_ALL(weights_and_states_are_shared)
ON_ALL(buckets_hold_one_copy)
ON_ALL(parts_are_set_and_read)
ON_ALL(callers_memory_is_used)
ON_ALL(states_are_bound_where_they_lie)
ON_ALL(outputs_of_every_kind_are_bound)
ON_ALL(runs_are_started_and_finished)
ON_ALL(errors_come_from_finish)
ON_ALL(threads_take_turns)
ON_ALL(runs_are_timed)
ON_ALL(windows_are_recorded)
ON_ALL(memory_may_be_short)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_stay_on_all),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(weights_and_states_are_shared_on_all),
        cmocka_unit_test(other_types_are_not_shared),
        cmocka_unit_test(there_is_one_copy),
        cmocka_unit_test(buckets_hold_one_copy_on_all),
        cmocka_unit_test(parts_are_set_and_read_on_all),
        cmocka_unit_test(callers_memory_is_used_on_all),
        cmocka_unit_test(states_are_bound_where_they_lie_on_all),
        cmocka_unit_test(outputs_of_every_kind_are_bound_on_all),
        cmocka_unit_test(runs_are_started_and_finished_on_all),
        cmocka_unit_test(errors_come_from_finish_on_all),
        cmocka_unit_test(threads_take_turns_on_all),
        cmocka_unit_test(runs_are_timed_on_all),
        cmocka_unit_test(windows_are_recorded_on_all),
        cmocka_unit_test(memory_may_be_short_on_all),
        cmocka_unit_test(null_pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
