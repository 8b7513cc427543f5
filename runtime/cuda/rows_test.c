/* rows_test.c - Several rows in one program against the same rows one by one, op by op: on a
 * deterministic device the results are the same bits, otherwise they are close.  With
 * SLUICE_VERBOSE it says how close: docs/cuda.md has the table. */
#include "compiler/compile.h"
#include "core/codec.h"
#include "engine/quant/quantise.h"
#include "runtime/cuda/cuda.h"
#include "tests/support/random_program.h"
#include "tests/support/rounds.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_ROWS = 300, MOST_BUFFERS = 24, SLOTS = 2, FIRST_POSITION = 1090, TEXT = 1024 };

/* N stands for the number of rows.  Inputs have a row for each; weights are shared. */
#define AT " input %slots : i32[N] input %positions : i32[N] "
#define DELTA                                                                                      \
    "input %q : f32[N,1,128] input %k : f32[N,1,128] input %v : f32[N,2,128] "                     \
    "input %decay : f32[N,2] input %beta : f32[N,2]" AT "state %memory : f32[2,2,128,128] "
#define SDPA(D, TYPE)                                                                              \
    "input %q : f32[N,4," #D "]" AT "state %keys : " TYPE "[2,2,88," #D ",16] "                    \
    "state %values : " TYPE "[2,2,1408," #D "] "                                                   \
    "%o = sdpa(%q, %keys, %values, %slots, %positions) {scale = 0.1} "
#define CODED(TYPE, ROWS, COLS)                                                                    \
    "input %x : f32[N," #COLS "] weight %w : " TYPE "[" #ROWS "," #COLS "] "                       \
    "%c = quantise(%x) %o = linear(%c, %w) "
#define PLAIN(TYPE, ROWS, COLS)                                                                    \
    "input %x : f32[N," #COLS "] weight %w : " TYPE "[" #ROWS "," #COLS "] "                       \
    "%o = linear(%x, %w) "
static const struct {
    const char *name, *body;
    int most_rows; /* of the usual run */
} cases[] = {
    {"linear, 8-bit activations, q4", CODED("q4", 96, 1056), 40},
    {"linear, 8-bit activations, q8, one slab of many", CODED("q8", 32, 5120), 9},
    {"linear, 8-bit activations, q6_k", CODED("q6_k", 64, 512), 9},
    {"linear, q4", PLAIN("q4", 96, 1056), 9},
    {"linear, q8, one slab of many", PLAIN("q8", 32, 5120), 9},
    {"linear, f32", PLAIN("f32", 72, 1056), 70},
    {"linear, bf16", PLAIN("bf16", 72, 1056), 70},
    {"linear, f32, unaligned", PLAIN("f32", 20, 333), 9},
    {"linear_swiglu, q4",
     "input %x : f32[N,256] weight %w : q4[64,256] weight %u : q4[64,256] %c = quantise(%x) "
     "%o = linear_swiglu(%c, %w, %u) ",
     9},
    {"linear_heads, f32",
     "input %x : f32[N,4,96] weight %w : f32[4,40,96] %o = linear_heads(%x, %w) ", 9},
    {"sdpa, f16, heads of 64", SDPA(64, "f16"), 40},
    {"sdpa, f16, heads of 128", SDPA(128, "f16"), 9},
    {"sdpa, f16, heads of 256", SDPA(256, "f16"), 9},
    {"sdpa, f32", SDPA(48, "f32"), 9},
    {"delta_chunk",
     DELTA "%o, %p = delta_chunk(%q, %k, %v, %decay, %beta, %slots, %positions, %memory) "
           "{chunk = 64} ",
     70},
    {"delta_chunk of single steps, with norms",
     DELTA "%a = l2_norm(%q) {eps = 1e-6, scale = 0.1} %b = l2_norm(%k) {eps = 1e-6} "
           "%o, %p = delta_step(%a, %b, %v, %decay, %beta, %slots, %positions, %memory) ",
     9},
    {"causal_conv",
     "input %x : f32[N,131] weight %w : f32[131,4]" AT "state %window : f32[2,3,131] "
     "%o, %p = causal_conv(%x, %w, %slots, %positions, %window) ",
     40},
    {"rms_norm", "input %x : f32[N,1024] weight %g : f32[1024] %o = rms_norm(%x, %g) ", 9},
    {"route", "input %x : f32[N,48] %p, %o = route(%x) {k = 4, normalise = 1} ", 9},
    {"moe_combine", "input %y : f32[N,4,200] input %w : f32[N,4] %o = moe_combine(%y, %w) ", 9},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static bool is_on_device(void) {
    const char *which = getenv("SLUICE_CUDA");
    return which && strcmp(which, "device") == 0;
}

/* ---- a program of some rows ---- */

typedef struct {
    sl_device *device;
    sl_program *program;
    sl_executable *exe;
    int rows;
    void *memory[MOST_BUFFERS]; /* inputs: of this program's rows; weights; states as they begin */
    void *states[MOST_BUFFERS];
} loaded;

/* Weights have the same place in all programs of a case, by which the device knows them. */
typedef struct {
    char *name;
    void *data;
} shared_weight;
static shared_weight weights[4 * CASE_COUNT];
static int weight_count;

static double draw(test_random *random) {
    return (double)test_draw(random, 1 << 20) / (1 << 19) - 1;
}

/* The same values for the same name, so that a row is the same in every program. */
static void fill(const sl_buffer *b, void *to) {
    uint64_t seed = 0;
    for (const char *c = b->name; *c; c++) seed = seed * 131 + (unsigned char)*c;
    test_random random = test_random_of(seed);
    const int64_t count = sl_type_elements(&b->type);
    float *values = calloc((size_t)count, sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)draw(&random);
        if (strcmp(b->name, "k") == 0) values[i] *= 0.1f;
        if (strcmp(b->name, "decay") == 0) values[i] = -fabsf(values[i]);
    }
    const size_t each = sl_dtype_infos[b->type.dtype].bytes;
    if (sl_dtype_infos[b->type.dtype].kind == SL_KIND_PANEL)
        must(sl_quantise(b->type.dtype, values, b->type.shape.dims[0], b->type.shape.dims[1], to,
                         &err));
    else
        for (int64_t i = 0; i < count; i++) {
            const double value = (double)values[i];
            sl_encode_f64(b->type.dtype, &value, 1, (char *)to + (size_t)i * each);
        }
    free(values);
}

static void *aligned(uint64_t bytes) {
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, bytes + 64), 0);
    memset(memory, 0, bytes + 64);
    return memory;
}

static void *weight_of(const sl_buffer *b, int which) {
    char name[64];
    (void)snprintf(name, sizeof name, "%d %s", which, b->name);
    for (int i = 0; i < weight_count; i++)
        if (strcmp(weights[i].name, name) == 0) return weights[i].data;
    shared_weight *w = &weights[weight_count++];
    *w = (shared_weight){strdup(name), aligned(b->bytes)};
    fill(b, w->data);
    return w->data;
}

static void *memory_for(loaded *l, uint32_t b, int which) {
    const sl_buffer *buffer = &l->program->buffers[b];
    if (buffer->kind == SL_BUFFER_WEIGHT) return weight_of(buffer, which);
    l->memory[b] = aligned(buffer->bytes);
    if (sl_dtype_infos[buffer->type.dtype].kind == SL_KIND_FLOAT) fill(buffer, l->memory[b]);
    if (buffer->kind != SL_BUFFER_STATE) return l->memory[b];
    l->states[b] = l->device->ops->allocate(l->device, buffer->bytes);
    assert_non_null(l->states[b]);
    must(l->device->ops->copy_in(l->device, l->states[b], l->memory[b], buffer->bytes, &err));
    return l->states[b];
}

static loaded load(sl_device *device, int which, int rows) {
    const sl_compiler_options options = {
        .model = SL_SCHEDULE_EDGES, .no_fusion = true, .target = &sl_target_cuda};
    loaded l = {.device = device, .rows = rows};
    char text[TEXT] = "graph \"g\" { ";
    sl_graph *graph = NULL;
    size_t used = strlen(text);
    for (const char *c = cases[which].body; *c; c++)
        if (*c == 'N')
            used += (size_t)snprintf(text + used, sizeof text - used, "%d", rows);
        else
            text[used++] = *c;
    (void)snprintf(text + used, sizeof text - used, "output \"o\" = %%o }");
    must(sl_graph_parse(text, strlen(text), NULL, &graph, &err));
    must(sl_compile_graph(graph, &options, NULL, &l.program, &err));
    sl_graph_destroy(graph);
    must(device->ops->load(device, l.program, &l.exe, &err));
    assert_true(l.program->buffer_count <= MOST_BUFFERS);
    for (uint32_t b = 0; b < l.program->buffer_count; b++)
        if (l.program->buffers[b].name && l.program->buffers[b].kind != SL_BUFFER_TEMP &&
            l.program->buffers[b].kind != SL_BUFFER_OUTPUT)
            must(device->ops->bind(l.exe, (sl_buffer_id){b}, memory_for(&l, b, which), &err));
    return l;
}

static void unload(loaded *l) {
    l->device->ops->unload(l->exe);
    for (uint32_t b = 0; b < l->program->buffer_count; b++) {
        if (l->states[b])
            l->device->ops->release(l->device, l->states[b], l->program->buffers[b].bytes);
        free(l->memory[b]);
    }
    sl_program_destroy(l->program);
}

/* A third of the rows begin a sequence in slot 1, the others go on in slot 0. */
static int32_t integer_of(const char *name, int row, int rows) {
    const int begun = rows / 3;
    if (strcmp(name, "slots") == 0) return row < begun;
    return row < begun ? row : FIRST_POSITION + row - begun;
}

/* Rows from `first` on, of `all`, into the inputs of the program, which have `all` rows in *from.
 */
static void set_rows(loaded *l, const loaded *from, int first, int all) {
    for (uint32_t b = 0; b < l->program->buffer_count; b++) {
        const sl_buffer *buffer = &l->program->buffers[b];
        sl_buffer_id other;
        if (buffer->kind != SL_BUFFER_INPUT) continue;
        if (buffer->type.dtype == SL_DTYPE_i32) {
            for (int i = 0; i < l->rows; i++)
                ((int32_t *)l->memory[b])[i] = integer_of(buffer->name, first + i, all);
        } else if (l != from && sl_program_find(from->program, buffer->name, &other)) {
            const size_t row = buffer->bytes / (size_t)l->rows;
            memcpy(l->memory[b], (char *)from->memory[other.v] + (size_t)first * row,
                   buffer->bytes);
        }
    }
}

static const float *run(loaded *l) {
    must(l->device->ops->run(l->exe, &err));
    return l->device->ops->output(l->exe, 0);
}

/* The largest difference as a share of the largest value; *out_same: the same bits. */
static double compare(sl_device *device, int which, int rows, bool *out_same) {
    loaded all = load(device, which, rows), one = load(device, which, 1);
    set_rows(&all, &all, 0, rows);
    const float *together = run(&all);
    const size_t width =
        (size_t)sl_type_elements(&all.program->outputs[0].operand.type) / (size_t)rows;
    double size = 0, most = 0;
    *out_same = true;
    for (int row = 0; row < rows; row++) {
        set_rows(&one, &all, row, rows);
        const float *alone = run(&one), *found = together + (size_t)row * width;
        *out_same &= memcmp(alone, found, width * sizeof *found) == 0;
        for (size_t i = 0; i < width; i++) {
            assert_true(isfinite(alone[i]));
            size = fmax(size, fabs((double)alone[i]));
            most = fmax(most, fabs((double)alone[i] - (double)found[i]));
        }
    }
    assert_true(size > 0);
    unload(&one);
    unload(&all);
    return most / size;
}

/* ---- the test ---- */

static const int row_counts[] = {2, 5, 9, 17, 40, 70, MOST_ROWS};
enum { ROW_COUNTS = sizeof row_counts / sizeof row_counts[0] };

static void check(bool deterministic) {
    enum { CLOSE_PER_MILLE = 5 };
    const bool all = is_long_run() || is_on_device(), tells = getenv("SLUICE_VERBOSE") != NULL;
    const sl_device_options options = {.driver =
                                           is_on_device() ? NULL : getenv("SLUICE_CUDA_EMULATOR"),
                                       .deterministic = deterministic};
    sl_device *device = NULL;
    int failures = 0;
    must(sl_device_cuda_create(&options, NULL, &device, &err));
    for (int which = 0; which < CASE_COUNT; which++) {
        if (tells) print_message("%-48s", cases[which].name);
        for (int i = 0; i < ROW_COUNTS; i++) {
            bool same;
            if (!all && (row_counts[i] > cases[which].most_rows || i % 2 == 1)) continue;
            const double apart = compare(device, which, row_counts[i], &same);
            if (tells && same) print_message(" %d: same", row_counts[i]);
            if (tells && !same) print_message(" %d: %.1g", row_counts[i], apart);
            if (deterministic ? same : apart * 1000 <= CLOSE_PER_MILLE) continue;
            print_message("%s, %d rows: other bits than one by one, %g apart\n", cases[which].name,
                          row_counts[i], apart);
            failures++;
        }
        if (tells) print_message("\n");
    }
    device->ops->destroy(device);
    assert_int_equal(failures, 0);
}

static void deterministic_rows_are_the_same_bits(void **state) {
    (void)state;
    check(true);
}
static void rows_are_close(void **state) {
    (void)state;
    check(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deterministic_rows_are_the_same_bits),
        cmocka_unit_test(rows_are_close),
    };
    if (!is_on_device() && !getenv("SLUICE_CUDA_EMULATOR")) {
        print_message("skipped: there is no emulated CUDA driver in this build\n");
        return 0;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < weight_count; i++) {
        free(weights[i].name);
        free(weights[i].data);
    }
    return failed;
}
