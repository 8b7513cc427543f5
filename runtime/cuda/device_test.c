/* device_test.c - The CUDA device without a GPU: graphs have the program's edges and no others,
 * every way to run gives the same bits, and whatever call of the driver fails, nothing is lost. */
#include "compiler/compile.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/emulator/control.h"
#include "runtime/cuda/executable.h"
#include "runtime/devices.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 5, WIDTH = 70, ELEMENTS = ROWS * WIDTH };

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* ---- the emulated driver ---- */

static struct {
    const char *path;
    void *library;
    void (*break_call)(const char *symbol, int after, int result, bool lasting);
    void (*set_memory)(size_t bytes);
    void (*drop_edge)(int after);
    emulated_counts (*count)(void);
} emulator;

static void *symbol(const char *name) {
    void *found = dlsym(emulator.library, name);
    assert_non_null(found);
    return found;
}

static int open_emulator(void **state) {
    (void)state;
    emulator.path = getenv("SLUICE_CUDA_EMULATOR");
    if (!emulator.path) return -1;
    emulator.library = dlopen(emulator.path, RTLD_NOW);
    assert_non_null(emulator.library);
    *(void **)&emulator.break_call = symbol("emulated_fail");
    *(void **)&emulator.set_memory = symbol("emulated_set_memory");
    *(void **)&emulator.drop_edge = symbol("emulated_drop_edge");
    *(void **)&emulator.count = symbol("emulated_count");
    return 0;
}

static void nothing_is_left(void) {
    const emulated_counts c = emulator.count();
    assert_int_equal(c.contexts, 0);
    assert_int_equal(c.device_blocks, 0);
    assert_int_equal(c.host_blocks, 0);
    assert_int_equal(c.streams, 0);
    assert_int_equal(c.events, 0);
    assert_int_equal(c.modules, 0);
    assert_int_equal(c.graphs, 0);
}

/* ---- a program: two chains that meet ---- */

static sl_program *make_program(void) {
    sl_graph *g;
    sl_program *program;
    must(sl_graph_create("test", NULL, &g, &err));
    const sl_type type = sl_type_make(SL_DTYPE_f32, 2, (int64_t)ROWS, (int64_t)WIDTH);
    const sl_value x = sl_graph_declare(g, SL_VALUE_INPUT, "x", type);
    const sl_value w = sl_graph_declare(g, SL_VALUE_WEIGHT, "w", type);
    static const char nothing[SL_MAX_ATTRS_BYTES];
    const sl_softmax_attrs last = {.axis = -1};
    sl_value p, q, r, s, sum;
    sl_graph_append(g, SL_OP_softmax, &x, &last, &p);
    sl_graph_append(g, SL_OP_exp, &p, nothing, &r);
    sl_graph_append(g, SL_OP_softmax, &w, &last, &q);
    sl_graph_append(g, SL_OP_sqrt, &q, nothing, &s);
    sl_graph_append(g, SL_OP_sub, (sl_value[]){r, s}, nothing, &sum);
    sl_graph_output(g, "sum", sum);
    const sl_compiler_options options = {.model = SL_SCHEDULE_EDGES, .no_fusion = true};
    must(sl_compile_graph(g, &options, NULL, &program, &err));
    sl_graph_destroy(g);
    return program;
}

static sl_program *parse_program(const char *text) {
    const sl_compiler_options options = {
        .model = SL_SCHEDULE_EDGES, .no_fusion = true, .target = &sl_target_cuda};
    sl_graph *g;
    sl_program *program;
    must(sl_graph_parse(text, strlen(text), NULL, &g, &err));
    must(sl_compile_graph(g, &options, NULL, &program, &err));
    sl_graph_destroy(g);
    return program;
}

/* Three times x + x, by a loop, less w. */
static sl_program *make_loop(void) {
    return parse_program(
        "graph \"loop\" { input %x : f32[5,70] weight %w : f32[5,70] constant %n : i32[] = {0} "
        "%y, %m = while(%x, %n) {"
        "  condition = graph \"c\" { input %x : f32[5,70] input %n : i32[] "
        "    constant %most : i32[] = {3} %go = less(%n, %most) output \"go\" = %go },"
        "  body = graph \"b\" { input %x : f32[5,70] input %n : i32[] constant %one : i32[] = {1} "
        "    %y = add(%x, %x) %m = add(%n, %one) output \"y\" = %y output \"m\" = %m }} "
        "%e = exp(%y) %s = softmax(%e) %d = sub(%s, %w) output \"d\" = %d }");
}

/* Two sorts that only scratch orders. */
static sl_program *make_sorts(void) {
    return parse_program("graph \"sorts\" { input %x : f32[5,70] weight %w : f32[5,70] "
                         "%a = sort(%x) { axis = 1 } %b = sort(%w) { axis = 1 } "
                         "output \"a\" = %a output \"b\" = %b }");
}

static float x[ELEMENTS], w[ELEMENTS];
static int fill(void **state) {
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(i * 37 % 101) / 50, w[i] = (float)(i % 7);
    return open_emulator(state);
}

static sl_status bind(sl_device *device, const sl_program *program, sl_executable *exe) {
    sl_buffer_id id;
    assert_true(sl_program_find(program, "x", &id));
    SL_TRY(device->ops->bind(exe, id, x, &err));
    assert_true(sl_program_find(program, "w", &id));
    return device->ops->bind(exe, id, w, &err);
}

/* From the beginning to the end; out gets the result. */
static sl_status whole_life(const sl_device_options *options, const sl_program *program,
                            float *out) {
    sl_device *device = NULL;
    sl_executable *exe = NULL;
    SL_TRY(sl_device_cuda_create(options, NULL, &device, &err));
    sl_status status = device->ops->load(device, program, &exe, &err);
    if (status == SL_OK) status = bind(device, program, exe);
    if (status == SL_OK) status = device->ops->run(exe, &err);
    if (status == SL_OK) status = device->ops->start(exe, &err);
    if (status == SL_OK) status = device->ops->start(exe, &err);
    if (status == SL_OK) status = device->ops->finish(exe, &err);
    if (status == SL_OK) status = device->ops->finish(exe, &err);
    if (status == SL_OK) status = device->ops->begin(exe, &err);
    sl_run_seconds seconds;
    if (status == SL_OK) status = device->ops->end(exe, &seconds, &err);
    if (status == SL_OK && out) memcpy(out, device->ops->output(exe, 0), ELEMENTS * sizeof *out);
    device->ops->unload(exe);
    device->ops->destroy(device);
    return status;
}

static void expected(float *out) {
    for (int row = 0; row < ROWS; row++) {
        double sum_x = 0, sum_w = 0;
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++)
            sum_x += exp((double)x[i]), sum_w += exp((double)w[i]);
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++)
            out[i] = (float)(exp(exp((double)x[i]) / sum_x) - sqrt(exp((double)w[i]) / sum_w));
    }
}

static void every_way_to_run_gives_the_same(void **state) {
    (void)state;
    float want[ELEMENTS] = {0}, got[3][ELEMENTS] = {{0}};
    sl_program *program = make_program();
    const sl_device_options ways[] = {{.driver = emulator.path},
                                      {.driver = emulator.path, .eager = true},
                                      {.driver = emulator.path, .chained = true}};
    expected(want);
    for (int i = 0; i < 3; i++) {
        must(whole_life(&ways[i], program, got[i]));
        assert_memory_equal(got[i], got[0], sizeof got[0]);
    }
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(fabs((double)got[0][i] - (double)want[i]) < 1e-6);
    nothing_is_left();
    sl_program_destroy(program);
}

/* ---- the edges of a graph, read back from the driver ---- */

/* Whether the graph has a path between the last node of a step and the first of another. */
static bool has_edge(const sl_program *program, uint32_t from, uint32_t to) {
    for (uint32_t e = program->edges.first[from]; e < program->edges.first[from + 1]; e++)
        if (program->edges.targets[e] == to) return true;
    return false;
}

/* The program, ready to run. */
typedef struct {
    sl_program *program;
    sl_device *device;
    sl_executable *exe;
} ready;

static ready make_ready_of(sl_program *program) {
    ready r = {.program = program};
    must(sl_device_cuda_create(&(sl_device_options){.driver = emulator.path}, NULL, &r.device,
                               &err));
    must(r.device->ops->load(r.device, r.program, &r.exe, &err));
    must(bind(r.device, r.program, r.exe));
    return r;
}
static ready make_ready(void) {
    return make_ready_of(make_program());
}
static void drop(ready *r) {
    r->device->ops->unload(r->exe);
    r->device->ops->destroy(r->device);
    sl_program_destroy(r->program);
    nothing_is_left();
}

static void a_graph_has_the_edges_of_its_program(void **state) {
    (void)state;
    ready r = make_ready();
    const sl_program *program = r.program;
    sl_executable *exe = r.exe;
    must(r.device->ops->run(exe, &err));
    assert_int_equal(sl_cuda_executable_of(exe)->base.segment_count, 1);
    sl_edges edges;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_device_proof proof;
    must(r.device->ops->prove(exe, &proof, &err));
    assert_int_equal(proof.steps, program->step_count);
    assert_int_equal(proof.segments, 1);
    assert_int_equal(proof.launches, sl_cuda_executable_of(exe)->base.launch_count);
    assert_int_equal(proof.edges, program->edges.first[program->step_count]);
    must(sl_cuda_read_order(&sl_cuda_executable_of(exe)->base, &arena, &edges, &proof, &err));
    uint32_t count = 0;
    for (uint32_t s = 0; s < program->step_count; s++)
        for (uint32_t e = edges.first[s]; e < edges.first[s + 1]; e++, count++)
            assert_true(has_edge(program, s, edges.targets[e]));
    assert_int_equal(count, program->edges.first[program->step_count]);
    sl_arena_deinit(&arena);
    drop(&r);
}

/* A graph without one of its edges: neither the proof nor the driver accepts it.  How many there
 * are, and for how many of them the proof says `why`. */
static uint32_t drop_each_edge(sl_program *(*make)(void), const char *why, uint32_t *out_said) {
    uint32_t dropped = 0, edges = 1;
    *out_said = 0;
    for (; dropped < edges; dropped++) {
        sl_device_proof proof;
        ready r = make_ready_of(make());
        if (dropped == 0) { /* as it is */
            must(r.device->ops->prove(r.exe, &proof, &err));
            edges = proof.edges;
            drop(&r);
            r = make_ready_of(make());
        }
        emulator.drop_edge((int)dropped);
        assert_int_equal(r.device->ops->prove(r.exe, &proof, &err), SL_INVALID);
        emulator.drop_edge(-1);
        *out_said += strstr(err.message, why) != NULL;
        if (!getenv("SLUICE_SANITIZED")) { /* accesses are seen */
            assert_int_equal(r.device->ops->run(r.exe, &err), SL_DEVICE);
            assert_non_null(strstr(err.message, "no path of edges orders them"));
        }
        drop(&r);
    }
    return dropped;
}

static void every_missing_edge_is_found(void **state) {
    (void)state;
    uint32_t said;
    assert_int_equal(drop_each_edge(make_program, "conflict in byte", &said), 4);
    assert_int_equal(said, 4);
    /* of scratch, and of the two launches of either step */
    assert_int_equal(drop_each_edge(make_sorts, "of 'kernel scratch', and no path", &said), 3);
    assert_int_equal(said, 1);
    assert_int_equal(drop_each_edge(make_sorts, "no edge orders launch 0 and", &said), 3);
    assert_int_equal(said, 2);
}

/* Steps that the host runs are segments by themselves, and have bodies. */
static void the_order_of_segments_is_proved(void **state) {
    (void)state;
    sl_device_proof proof;
    ready r = make_ready_of(make_loop());
    must(r.device->ops->prove(r.exe, &proof, &err));
    assert_true(proof.steps > r.program->step_count); /* with those of bodies */
    sl_cuda_executable *exe = sl_cuda_executable_of(r.exe);
    assert_int_equal(exe->base.segment_count, 2);
    assert_int_equal(proof.segments, 4);
    const sl_gpu_segment first = exe->base.segments[0];
    const sl_cuda_graph graph = exe->graphs[0];
    exe->base.segments[0] = exe->base.segments[1];
    exe->base.segments[1] = first;
    exe->graphs[0] = exe->graphs[1];
    exe->graphs[1] = graph;
    assert_int_equal(r.device->ops->prove(r.exe, &proof, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "no path orders them"));
    drop(&r);
    const sl_device_options eager = {.driver = emulator.path, .eager = true};
    r = (ready){.program = make_program()};
    must(sl_device_cuda_create(&eager, NULL, &r.device, &err));
    must(r.device->ops->load(r.device, r.program, &r.exe, &err));
    must(bind(r.device, r.program, r.exe));
    must(r.device->ops->prove(r.exe, &proof, &err));
    assert_int_equal(proof.edges, 0);
    drop(&r);
}

/* ---- runs that are started ---- */

static void runs_may_be_started_ahead(void **state) {
    (void)state;
    ready r = make_ready();
    float want[ELEMENTS], earlier[ELEMENTS];
    const sl_device_ops *ops = r.device->ops;
    assert_int_equal(ops->finish(r.exe, &err), SL_INVALID);
    must(ops->start(r.exe, &err));
    x[0] += 1; /* inputs are those of the start */
    must(ops->start(r.exe, &err));
    assert_int_equal(ops->start(r.exe, &err), SL_INVALID);
    must(ops->finish(r.exe, &err));
    memcpy(earlier, ops->output(r.exe, 0), sizeof earlier);
    must(ops->finish(r.exe, &err));
    must(ops->fetch(r.exe, 0, &err));
    assert_memory_not_equal(earlier, ops->output(r.exe, 0), sizeof earlier);
    x[0] -= 1;
    expected(want);
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(fabs((double)want[i] - (double)earlier[i]) < 1e-6);
    must(ops->start(r.exe, &err)); /* and may be under way at the end */
    drop(&r);
}

/* Two programs in flight on one device; the second is loaded, and grows what both use, while the
 * first is. */
static void runs_have_two_halves(void **state) {
    (void)state;
    ready r = make_ready();
    const sl_device_ops *ops = r.device->ops;
    sl_program *sorts = make_sorts();
    sl_executable *other = NULL;
    sl_run_seconds seconds = {0};
    float want[ELEMENTS];
    assert_int_equal(ops->end(r.exe, &seconds, &err), SL_INVALID);
    must(ops->begin(r.exe, &err));
    assert_int_equal(ops->begin(r.exe, &err), SL_INVALID);
    must(ops->load(r.device, sorts, &other, &err));
    must(bind(r.device, sorts, other));
    must(ops->begin(other, &err));
    must(ops->end(r.exe, &seconds, &err));
    assert_true(seconds.encode > 0 && seconds.wait >= 0 && seconds.run >= 0);
    expected(want);
    const float *got = ops->output(r.exe, 0);
    for (int i = 0; i < ELEMENTS; i++) assert_true(fabs((double)want[i] - (double)got[i]) < 1e-6);
    must(ops->begin(r.exe, &err)); /* and both may be under way at the end */
    ops->unload(other);
    sl_program_destroy(sorts);
    drop(&r);
}

static void copies_of_weights_go_with_their_last_holder(void **state) {
    (void)state;
    ready r = make_ready();
    const sl_device_ops *ops = r.device->ops;
    sl_executable *other = NULL;
    must(ops->run(r.exe, &err));
    const uint64_t taken = sl_device_stats_of(r.device).taken_bytes;
    const long blocks = emulator.count().device_blocks;
    must(ops->load(r.device, r.program, &other, &err));
    must(bind(r.device, r.program, other)); /* to the same copy */
    assert_int_equal(sl_device_stats_of(r.device).taken_bytes, taken);
    ops->unload(other);
    ops->hold_weight(r.device, w, sizeof w, true);
    ops->hold_weight(r.device, w, sizeof w, true);
    ops->hold_weight(r.device, x, sizeof x, false); /* no weight */
    ops->hold_weight(r.device, w, sizeof w, false);
    assert_int_equal(emulator.count().device_blocks, blocks);
    must(ops->run(r.exe, &err));
    ops->hold_weight(r.device, w, sizeof w, false);
    assert_int_equal(emulator.count().device_blocks, blocks - 1);
    assert_int_equal(sl_device_stats_of(r.device).taken_bytes, taken - sizeof w);
    must(bind(r.device, r.program, r.exe)); /* copied again */
    must(ops->run(r.exe, &err));
    assert_int_equal(emulator.count().device_blocks, blocks);
    drop(&r);
}

static void a_change_of_a_weight_uploads_what_changed(void **state) {
    (void)state;
    ready r = make_ready();
    const sl_device_ops *ops = r.device->ops;
    const float before[2] = {w[0], w[9]};
    float want[ELEMENTS];
    w[0] = 50; /* not told: not seen */
    w[9] += 1;
    must(ops->weight_changed(r.device, w, 9 * sizeof *w, sizeof *w, &err));
    w[0] = before[0];
    must(ops->run(r.exe, &err));
    expected(want);
    const float *got = ops->output(r.exe, 0);
    for (int i = 0; i < ELEMENTS; i++) assert_true(fabs((double)want[i] - (double)got[i]) < 1e-6);
    w[9] = before[1];
    must(ops->weight_changed(r.device, w, 0, sizeof w + 64, &err)); /* no more than there is */
    drop(&r);
}

static int ranges_open, ranges_seen;
static char first_range[64];
static int push_range(const char *name) {
    if (!ranges_seen++) (void)snprintf(first_range, sizeof first_range, "%s", name);
    return ranges_open++;
}
static int pop_range(void) {
    return --ranges_open;
}

static void tools_are_told_what_runs(void **state) {
    (void)state;
    ready r = make_ready();
    sl_cuda_ranges *ranges = &((sl_cuda_device *)r.device)->ranges;
    must(r.device->ops->run(r.exe, &err)); /* nobody listens */
    *ranges = (sl_cuda_ranges){.push = push_range, .pop = pop_range};
    must(r.device->ops->run(r.exe, &err));
    assert_true(ranges_seen == 1 && ranges_open == 0); /* the graph */
    assert_string_equal(first_range, r.program->name);
    ranges_seen = 0;
    must(r.device->ops->run_serially(r.exe, NULL, &err));
    assert_true(ranges_seen == (int)r.program->step_count && ranges_open == 0);
    assert_string_equal(first_range, r.program->steps[0].label);
    drop(&r);
}

/* ---- failures ---- */

/* Each time the driver is asked for it; how often that was. */
static int fail_each(const char *symbol_name, const sl_program *program) {
    const sl_device_options options = {.driver = emulator.path};
    for (int after = 0;; after++) {
        emulator.break_call(symbol_name, after, 719, false);
        err = (sl_error){0};
        const sl_status status = whole_life(&options, program, NULL);
        emulator.break_call(symbol_name, 0, 0, false);
        nothing_is_left();
        if (status == SL_OK) return after;
        assert_true(err.message[0] != 0);
    }
}

static void any_call_may_fail(void **state) {
    (void)state;
    static const char *const symbols[] = {"cuInit",
                                          "cuDeviceGetCount",
                                          "cuDeviceGet",
                                          "cuMemAlloc_v2",
                                          "cuMemHostAlloc",
                                          "cuMemcpyHtoDAsync_v2",
                                          "cuMemcpyDtoHAsync_v2",
                                          "cuMemsetD8Async",
                                          "cuStreamCreate",
                                          "cuStreamSynchronize",
                                          "cuEventCreate",
                                          "cuEventRecord",
                                          "cuEventSynchronize",
                                          "cuModuleLoadData",
                                          "cuModuleGetFunction",
                                          "cuGraphCreate",
                                          "cuGraphAddKernelNode_v2",
                                          "cuGraphAddDependencies_v2",
                                          "cuGraphInstantiateWithFlags",
                                          "cuGraphLaunch",
                                          "cuDevicePrimaryCtxRetain"};
    sl_program *program = make_program(), *loop = make_loop();
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        assert_true(fail_each(symbols[i], program) > 0);
        assert_true(fail_each(symbols[i], loop) > 0);
    }
    assert_true(fail_each("cuMemcpyDtoDAsync_v2", loop) > 0);
    must(whole_life(&(sl_device_options){.driver = emulator.path}, loop, NULL));
    sl_program_destroy(program);
    sl_program_destroy(loop);
}

/* A lost device answers every call with the same error. */
static void a_lost_device_is_reported(void **state) {
    (void)state;
    ready r = make_ready();
    emulator.break_call("cuStreamSynchronize", 0, 719, true);
    assert_int_equal(r.device->ops->run(r.exe, &err), SL_DEVICE);
    assert_non_null(strstr(err.message, "(719)"));
    assert_int_equal(r.device->ops->run(r.exe, &err), SL_DEVICE);
    emulator.break_call("cuStreamSynchronize", 0, 0, false);
    drop(&r);
}

static void little_memory_is_reported(void **state) {
    (void)state;
    sl_program *program = make_program();
    emulator.set_memory(1000);
    assert_int_equal(whole_life(&(sl_device_options){.driver = emulator.path}, program, NULL),
                     SL_NO_MEMORY);
    assert_non_null(strstr(err.message, "of device memory wanted"));
    emulator.set_memory(0);
    nothing_is_left();
    sl_program_destroy(program);
}

static void old_and_missing_drivers_are_reported(void **state) {
    (void)state;
    sl_device *device = NULL;
    emulator.break_call("cuDriverGetVersion", 0, 11040, true);
    assert_int_equal(
        sl_device_cuda_create(&(sl_device_options){.driver = emulator.path}, NULL, &device, &err),
        SL_UNSUPPORTED);
    assert_string_equal(err.message,
                        "the NVIDIA driver is for CUDA 11.4, one for 12.3 or later is needed");
    emulator.break_call("", 0, 0, false);
    assert_int_equal(sl_device_cuda_create(&(sl_device_options){.driver = "libno-such-driver.so"},
                                           NULL, &device, &err),
                     SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "no CUDA driver"));
    assert_int_equal(
        sl_device_cuda_create(&(sl_device_options){.driver = emulator.path, .index = 3}, NULL,
                              &device, &err),
        SL_INVALID);
    assert_null(device);
    nothing_is_left();
}

static void floors_are_measured(void **state) {
    (void)state;
    sl_device *device;
    sl_device_floors floors;
    must(sl_device_cuda_create(&(sl_device_options){.driver = emulator.path}, NULL, &device, &err));
    emulator.set_memory(300 << 20);
    must(device->ops->measure(device, &floors, &err));
    emulator.set_memory(0);
    assert_true(floors.copy_bytes_per_second > 0 && floors.host_bytes_per_second > 0 &&
                floors.bf16_operations_per_second > 0);
    device->ops->destroy(device);
    nothing_is_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_run_gives_the_same),
        cmocka_unit_test(a_graph_has_the_edges_of_its_program),
        cmocka_unit_test(every_missing_edge_is_found),
        cmocka_unit_test(the_order_of_segments_is_proved),
        cmocka_unit_test(runs_may_be_started_ahead),
        cmocka_unit_test(runs_have_two_halves),
        cmocka_unit_test(copies_of_weights_go_with_their_last_holder),
        cmocka_unit_test(a_change_of_a_weight_uploads_what_changed),
        cmocka_unit_test(tools_are_told_what_runs),
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(a_lost_device_is_reported),
        cmocka_unit_test(little_memory_is_reported),
        cmocka_unit_test(old_and_missing_drivers_are_reported),
        cmocka_unit_test(floors_are_measured),
    };
    if (!getenv("SLUICE_CUDA_EMULATOR")) {
        print_message("skipped: there is no emulated CUDA driver in this build\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, fill, NULL);
}
