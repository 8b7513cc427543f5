/* build_test.c - What GPUs share, without a GPU: a device with barriers.  Its memory is host
 * memory; a segment is recorded as a list of launches and barriers, and the launches between two
 * barriers run forwards or backwards. */
#include "compiler/compile.h"
#include "core/target.h"
#include "runtime/gpu/executable.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 5, WIDTH = 70, ELEMENTS = ROWS * WIDTH };

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* ---- kernels ---- */

typedef struct {
    const void *x, *y;
    void *out;
    int64_t count, width;
} toy_args;

static void exps(const toy_args *a) {
    for (int64_t i = 0; i < a->count; i++) ((float *)a->out)[i] = expf(((const float *)a->x)[i]);
}
/* Each element of x by the sum of its row. */
static void shares(const toy_args *a) {
    for (int64_t row = 0; row < a->count; row += a->width) {
        const float *x = (const float *)a->x + row;
        float sum = 0;
        for (int64_t i = 0; i < a->width; i++) sum += x[i];
        for (int64_t i = 0; i < a->width; i++) ((float *)a->out)[row + i] = x[i] / sum;
    }
}
#define BINARY(NAME, IN, OUT, EXPRESSION)                                                          \
    static void NAME(const toy_args *a) {                                                          \
        for (int64_t i = 0; i < a->count; i++) {                                                   \
            const IN x = ((const IN *)a->x)[i], y = ((const IN *)a->y)[i];                         \
            ((OUT *)a->out)[i] = EXPRESSION;                                                       \
        }                                                                                          \
    }
BINARY(add_f32, float, float, x + y)
BINARY(sub_f32, float, float, x - y)
BINARY(add_i32, int32_t, int32_t, x + y)
BINARY(less_i32, int32_t, bool, x < y)

enum { EXPS, SHARES, ADD_F32, SUB_F32, ADD_I32, LESS_I32 };
typedef void toy_function(const toy_args *args);
static toy_function *const functions[] = {exps, shares, add_f32, sub_f32, add_i32, less_i32};

/* Two launches with scratch between them. */
static sl_status plan_softmax(const void *args, sl_gpu_planner *planner, sl_error *e) {
    const sl_softmax_args *a = args;
    const int64_t count = sl_type_elements(&a->x.type);
    const uint32_t rank = a->x.type.shape.rank;
    if (sl_axis(a->attrs.axis, rank) != rank - 1)
        return sl_fail(e, SL_UNSUPPORTED, "%s: not the last", planner->label);
    float *between = sl_gpu_scratch(planner, (uint64_t)count * sizeof *between);
    const toy_args first = {.x = a->x.data, .out = between, .count = count};
    const toy_args second = {.x = between, .out = a->out.data, .count = count, .width = WIDTH};
    (void)sl_gpu_add_launch(planner, EXPS, 1, 1, &first, sizeof first);
    (void)sl_gpu_add_launch(planner, SHARES, 1, 1, &second, sizeof second);
    return SL_OK;
}
static sl_status plan_binary(uint32_t function, const void *args, sl_gpu_planner *planner,
                             sl_error *e) {
    const sl_add_args *a = args; /* as of all ops of two operands */
    const toy_args launch = {.x = a->a.data,
                             .y = a->b.data,
                             .out = a->out.data,
                             .count = sl_type_elements(&a->out.type)};
    if (sl_type_elements(&a->a.type) != sl_type_elements(&a->b.type))
        return sl_fail(e, SL_UNSUPPORTED, "%s: broadcasts", planner->label);
    (void)sl_gpu_add_launch(planner, function, 1, 1, &launch, sizeof launch);
    return SL_OK;
}
#define PLAN(NAME, FUNCTION)                                                                       \
    static sl_status NAME(const void *args, sl_gpu_planner *planner, sl_error *e) {                \
        return plan_binary(FUNCTION, args, planner, e);                                            \
    }
PLAN(plan_add_f32, ADD_F32)
PLAN(plan_sub_f32, SUB_F32)
PLAN(plan_add_i32, ADD_I32)
PLAN(plan_less_i32, LESS_I32)

static const sl_gpu_kernel rows[] = {
    {SL_OP_softmax, SL_GPU_ANY_WEIGHT, "softmax", plan_softmax},
    {SL_OP_add, SL_DTYPE_f32, "add_f32", plan_add_f32},
    {SL_OP_add, SL_DTYPE_i32, "add_i32", plan_add_i32},
    {SL_OP_sub, SL_DTYPE_f32, "sub_f32", plan_sub_f32},
    {SL_OP_less, SL_DTYPE_i32, "less_i32", plan_less_i32},
};
static const sl_gpu_kernels kernels = {
    .device = "toy", .rows = rows, .count = sizeof rows / sizeof rows[0]};

static sl_status accepts(const sl_step *step, sl_error *e) {
    return sl_gpu_accepts(&kernels, step, e);
}
static const sl_target_kernel no_names[] = {{0}};
static const sl_target target = {.name = "toy",
                                 .schedule = SL_SCHEDULE_GROUPS,
                                 .hosts_bodies = true,
                                 .kernels = no_names,
                                 .accepts = accepts};

/* ---- memory and queues ---- */

static struct {
    int blocks, fences, recorded; /* not released yet */
    bool backwards;               /* between barriers */
} toy;

static sl_status enter(const sl_gpu *gpu, sl_error *e) {
    (void)gpu, (void)e;
    return SL_OK;
}
static void leave(const sl_gpu *gpu) {
    (void)gpu;
}
static sl_status memory(const sl_gpu *gpu, uint64_t *out_free, uint64_t *out_total, sl_error *e) {
    (void)gpu, (void)e;
    *out_free = *out_total = 1 << 20;
    return SL_OK;
}
static sl_status allocate(const sl_gpu *gpu, uint64_t bytes, const char *what, sl_gpu_block *out,
                          sl_error *e) {
    (void)gpu;
    void *block = malloc(bytes + 1);
    if (!block) return sl_no_memory(e, what, bytes);
    memset(block, 0xff, bytes);
    toy.blocks++;
    *out = (sl_gpu_block){(sl_gpu_address)(uintptr_t)block, bytes};
    /* cppcheck-suppress memleak ; it is out's */
    return SL_OK;
}
static void release(const sl_gpu *gpu, sl_gpu_address address) {
    (void)gpu;
    toy.blocks--;
    free((void *)(uintptr_t)address);
}
static void *pinned_resize(void *ctx, void *block, size_t old_bytes, size_t new_bytes,
                           size_t align) {
    (void)ctx;
    return sl_resize(NULL, block, old_bytes, new_bytes, align);
}
static sl_status copy_in(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to, const void *from,
                         uint64_t bytes, sl_error *e) {
    (void)gpu, (void)queue, (void)e;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return SL_OK;
}
static sl_status copy_out(const sl_gpu *gpu, sl_gpu_queue queue, void *to, sl_gpu_address from,
                          uint64_t bytes, sl_error *e) {
    (void)gpu, (void)queue, (void)e;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return SL_OK;
}
static sl_status copy_within(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to,
                             sl_gpu_address from, uint64_t bytes, sl_error *e) {
    return copy_in(gpu, queue, to, (const void *)(uintptr_t)from, bytes, e);
}
static sl_status clear(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to, uint64_t bytes,
                       sl_error *e) {
    (void)gpu, (void)queue, (void)e;
    memset((void *)(uintptr_t)to, 0, bytes);
    return SL_OK;
}
static sl_status wait(const sl_gpu *gpu, sl_gpu_queue queue, sl_error *e) {
    (void)gpu, (void)queue, (void)e;
    return SL_OK;
}
static sl_status fence_create(const sl_gpu *gpu, bool timed, sl_gpu_fence **out, sl_error *e) {
    (void)gpu, (void)timed;
    *out = malloc(1);
    if (!*out) return sl_no_memory(e, "a fence", 1);
    toy.fences++;
    return SL_OK;
}
static void fence_destroy(const sl_gpu *gpu, sl_gpu_fence *fence) {
    (void)gpu;
    toy.fences--;
    free(fence);
}
static sl_status fence_record(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_fence *fence,
                              sl_error *e) {
    (void)fence;
    return wait(gpu, queue, e);
}
static sl_status fence_wait(const sl_gpu *gpu, sl_gpu_fence *fence, sl_error *e) {
    (void)fence;
    return wait(gpu, SL_GPU_WORK, e);
}
static double fence_seconds(const sl_gpu *gpu, sl_gpu_fence *from, sl_gpu_fence *to) {
    (void)gpu, (void)from, (void)to;
    return 0;
}

/* ---- recording ---- */

/* A launch of a step, or a barrier, or nothing. */
enum { BARRIER = -1, NOTHING = -2, MOST_COMMANDS = 64, MOST_SEGMENTS = 8 };
typedef struct {
    int32_t step;
    uint32_t launch;
} command;
typedef struct {
    sl_gpu_executable base;
    struct {
        command commands[MOST_COMMANDS];
        uint32_t count;
    } lists[MOST_SEGMENTS];
} toy_executable;

/* Steps of a group may run at the same time: each has scratch of its own. */
static uint64_t place_scratch(sl_gpu_executable *base) {
    const sl_program *program = base->binding.program;
    uint64_t at = 0, most = 0;
    for (uint32_t s = 0; s < program->step_count; s++) {
        if (s > 0 && program->steps[s].level != program->steps[s - 1].level) at = 0;
        base->steps[s].scratch_offset = at;
        at += base->steps[s].scratch_bytes;
        if (at > most) most = at;
    }
    return most;
}

/* A group in waves: the first launches of its steps, a barrier, the second ones. */
static void record_group(toy_executable *exe, uint32_t segment, uint32_t first, uint32_t end) {
    const sl_gpu_step *steps = exe->base.steps;
    bool more = true;
    for (uint32_t wave = 0; more; wave++) {
        more = false;
        for (uint32_t s = first; s < end; s++) {
            if (wave >= steps[s].launch_count) continue;
            more = more || wave + 1 < steps[s].launch_count;
            exe->lists[segment].commands[exe->lists[segment].count++] =
                (command){(int32_t)s, steps[s].first_launch + wave};
        }
        exe->lists[segment].commands[exe->lists[segment].count++] = (command){BARRIER, 0};
        assert_true(exe->lists[segment].count + (end - first) < MOST_COMMANDS);
    }
}

static sl_status record(sl_gpu_executable *base, sl_error *e) {
    toy_executable *exe = (toy_executable *)base;
    const sl_step *steps = base->binding.program->steps;
    (void)e;
    assert_true(base->segment_count <= MOST_SEGMENTS);
    assert_true(base->binding.program->step_count <= MOST_COMMANDS);
    for (uint32_t i = 0; i < base->segment_count; i++) {
        sl_gpu_segment *segment = &base->segments[i];
        exe->lists[i].count = 0;
        if (segment->alone) continue;
        for (uint32_t first = segment->first, end; first < segment->end; first = end) {
            for (end = first; end < segment->end && steps[end].level == steps[first].level;) end++;
            record_group(exe, i, first, end);
        }
        segment->as_whole = true;
        toy.recorded++;
    }
    return SL_OK;
}
static void unrecord(sl_gpu_executable *base) {
    toy_executable *exe = (toy_executable *)base;
    for (uint32_t i = 0; i < base->segment_count; i++) {
        toy.recorded -= exe->lists[i].count > 0;
        exe->lists[i].count = 0;
    }
}

static void run_launch(const sl_gpu_executable *base, uint32_t launch) {
    const sl_gpu_launch *l = &base->launches[launch];
    toy_args args;
    assert_int_equal(l->args_bytes, sizeof args);
    memcpy(&args, l->args, sizeof args);
    functions[l->function](&args);
}
static sl_status submit_segment(sl_gpu_executable *base, uint32_t segment, sl_error *e) {
    const toy_executable *exe = (const toy_executable *)base;
    const command *c = exe->lists[segment].commands;
    (void)e;
    for (uint32_t first = 0, end; first < exe->lists[segment].count; first = end + 1) {
        for (end = first; c[end].step != BARRIER;) end++;
        for (uint32_t i = first; i < end; i++)
            run_launch(base, c[toy.backwards ? first + end - 1 - i : i].launch);
    }
    return SL_OK;
}
static sl_status submit_step(sl_gpu_executable *base, uint32_t step, sl_error *e) {
    (void)e;
    for (uint32_t i = 0; i < base->steps[step].launch_count; i++)
        run_launch(base, base->steps[step].first_launch + i);
    return SL_OK;
}

/* How many barriers are in front of the first and of the last launch of each step.  A segment ends
 * with a barrier, and so does a step that the host runs. */
typedef struct {
    uint32_t first[MOST_COMMANDS], last[MOST_COMMANDS];
} places;

static sl_status find_places(const toy_executable *exe, places *out, sl_device_proof *proof,
                             sl_error *e) {
    uint32_t barriers = 0;
    for (uint32_t i = 0; i < exe->base.segment_count; i++, barriers++) {
        const uint32_t step = exe->base.segments[i].first;
        if (exe->base.segments[i].alone) out->first[step] = out->last[step] = barriers;
        for (uint32_t k = 0; k < exe->lists[i].count; k++) {
            const command *c = &exe->lists[i].commands[k];
            barriers += c->step == BARRIER;
            if (c->step < 0) continue;
            const bool first = c->launch == exe->base.steps[c->step].first_launch;
            if (first) out->first[c->step] = barriers;
            if (!first && out->last[c->step] == barriers)
                return sl_fail(e, SL_INVALID, "no barrier between launches of step %d", c->step);
            out->last[c->step] = barriers;
            proof->launches++;
        }
    }
    return SL_OK;
}

/* Steps are ordered where a barrier is between the last launch of one and the first of the other.
 */
static sl_status read_order(const sl_gpu_executable *base, sl_arena *arena, sl_edges *order,
                            sl_device_proof *out, sl_error *e) {
    places p = {.first = {0}};
    const uint32_t steps = base->binding.program->step_count;
    uint32_t count = 0;
    SL_TRY(find_places((const toy_executable *)base, &p, out, e));
    *order =
        (sl_edges){.first = SL_ARENA_NEW_ARRAY(arena, uint32_t, MOST_COMMANDS + 1),
                   .targets = SL_ARENA_NEW_ARRAY(arena, uint32_t, MOST_COMMANDS * MOST_COMMANDS)};
    assert_true(order->first && order->targets);
    for (uint32_t a = 0; a < steps; a++) {
        for (uint32_t b = a + 1; b < steps; b++)
            if (p.last[a] < p.first[b]) order->targets[count++] = b;
        order->first[a + 1] = count;
    }
    return SL_OK;
}

static const sl_gpu_calls calls = {
    .enter = enter,
    .leave = leave,
    .memory = memory,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .clear = clear,
    .wait = wait,
    .fence_create = fence_create,
    .fence_destroy = fence_destroy,
    .fence_record = fence_record,
    .fence_wait = fence_wait,
    .fence_seconds = fence_seconds,
    .executable_bytes = sizeof(toy_executable),
    .kernels = &kernels,
    .place_scratch = place_scratch,
    .record = record,
    .unrecord = unrecord,
    .submit_segment = submit_segment,
    .submit_step = submit_step,
    .read_order = read_order,
};

/* ---- a program on the device ---- */

static float x[ELEMENTS], w[ELEMENTS];
static void fill(void) {
    for (int i = 0; i < ELEMENTS; i++) x[i] = (float)(i * 37 % 101) / 50, w[i] = (float)(i % 7);
}

static const sl_device_ops ops = {SL_GPU_DEVICE_OPS, .name = "toy"};
typedef struct {
    sl_gpu gpu;
    sl_program *program;
    sl_executable *exe;
} ready;

static sl_status compile(const char *text, sl_program **out) {
    const sl_compiler_options options = {
        .model = SL_SCHEDULE_GROUPS, .no_fusion = true, .target = &target};
    sl_graph *graph;
    must(sl_graph_parse(text, strlen(text), NULL, &graph, &err));
    const sl_status status = sl_compile_graph(graph, &options, NULL, out, &err);
    sl_graph_destroy(graph);
    return status;
}

static void make_ready(ready *r, const char *text) {
    *r = (ready){
        .gpu = {.base = {.ops = &ops}, .calls = &calls, .pinned = {.resize = pinned_resize}}};
    sl_buffer_id id;
    must(compile(text, &r->program));
    must(sl_gpu_init(&r->gpu, &err));
    must(ops.load(&r->gpu.base, r->program, &r->exe, &err));
    assert_true(sl_program_find(r->program, "x", &id));
    must(ops.bind(r->exe, id, x, &err));
    assert_true(sl_program_find(r->program, "w", &id));
    must(ops.bind(r->exe, id, w, &err));
}
static void drop(ready *r) {
    ops.unload(r->exe);
    sl_gpu_release_memory(&r->gpu);
    sl_gpu_deinit(&r->gpu);
    sl_program_destroy(r->program);
    assert_int_equal(toy.blocks, 0);
    assert_int_equal(toy.fences, 0);
    assert_int_equal(toy.recorded, 0);
}

#define SOFTMAXES                                                                                  \
    "graph \"g\" { input %x : f32[5,70] weight %w : f32[5,70] "                                    \
    "%a = softmax(%x) %b = softmax(%w) %c = add(%x, %w) %d = sub(%a, %b) %e = add(%d, %c) "        \
    "output \"e\" = %e }"

/* Three times x + x, by a loop, and w. */
#define LOOP                                                                                       \
    "graph \"loop\" { input %x : f32[5,70] weight %w : f32[5,70] constant %n : i32[] = {0} "       \
    "%v = add(%x, %x) %y, %m = while(%v, %n) {"                                                    \
    "  condition = graph \"c\" { input %x : f32[5,70] input %n : i32[] "                           \
    "    constant %most : i32[] = {2} %go = less(%n, %most) output \"go\" = %go },"                \
    "  body = graph \"b\" { input %x : f32[5,70] input %n : i32[] constant %one : i32[] = {1} "    \
    "    %y = add(%x, %x) %m = add(%n, %one) output \"y\" = %y output \"m\" = %m }} "              \
    "%s = add(%y, %w) output \"s\" = %s }"

static void softmaxes_are(const float *out) {
    for (int row = 0; row < ROWS; row++) {
        double sum_x = 0, sum_w = 0;
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++)
            sum_x += exp((double)x[i]), sum_w += exp((double)w[i]);
        for (int i = row * WIDTH; i < (row + 1) * WIDTH; i++) {
            const double want =
                exp((double)x[i]) / sum_x - exp((double)w[i]) / sum_w + (double)x[i] + (double)w[i];
            assert_true(fabs((double)out[i] - want) < 1e-5);
        }
    }
}

/* ---- tests ---- */

static void every_way_to_run_gives_the_same(void **state) {
    (void)state;
    ready r;
    sl_trace_event events[8];
    sl_trace trace = {.events = events, .capacity = 8};
    float first[ELEMENTS];
    make_ready(&r, SOFTMAXES);
    must(ops.run(r.exe, &err));
    memcpy(first, ops.output(r.exe, 0), sizeof first);
    softmaxes_are(first);
    assert_int_equal(sl_gpu_executable_of(r.exe)->segment_count, 1);
    toy.backwards = true;
    must(ops.run(r.exe, &err));
    assert_memory_equal(ops.output(r.exe, 0), first, sizeof first);
    must(ops.start(r.exe, &err));
    must(ops.start(r.exe, &err));
    must(ops.finish(r.exe, &err));
    must(ops.finish(r.exe, &err));
    assert_memory_equal(ops.output(r.exe, 0), first, sizeof first);
    toy.backwards = false;
    must(ops.run_serially(r.exe, NULL, &err));
    assert_memory_equal(ops.output(r.exe, 0), first, sizeof first);
    ops.attach(r.exe, &trace);
    must(ops.run(r.exe, &err));
    assert_memory_equal(ops.output(r.exe, 0), first, sizeof first);
    assert_int_equal(trace.count, r.program->step_count);
    drop(&r);
}

/* Before the loop, the loop, and after it. */
static void steps_of_the_host_cut_the_program(void **state) {
    (void)state;
    ready r;
    sl_device_proof proof;
    make_ready(&r, LOOP);
    const sl_gpu_executable *exe = sl_gpu_executable_of(r.exe);
    must(ops.run(r.exe, &err));
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(((const float *)ops.output(r.exe, 0))[i] == 8 * x[i] + w[i]);
    assert_int_equal(exe->segment_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(exe->segments[i].alone, i == 1);
        assert_int_equal(exe->segments[i].as_whole, i != 1);
        assert_int_equal(exe->segments[i].end, i + 1);
    }
    must(ops.prove(r.exe, &proof, &err));
    assert_int_equal(proof.segments, 3 + 1 + 1); /* with those of condition and body */
    assert_int_equal(proof.steps, 3 + 1 + 2);
    assert_int_equal(proof.launches, 2 + 1 + 2);
    drop(&r);
}

static void every_missing_barrier_is_found(void **state) {
    (void)state;
    ready r;
    sl_device_proof proof;
    make_ready(&r, SOFTMAXES);
    toy_executable *exe = (toy_executable *)r.exe;
    must(ops.prove(r.exe, &proof, &err));
    assert_int_equal(proof.launches, 7);
    uint32_t barriers = 0, found = 0;
    for (uint32_t k = 0; k < exe->lists[0].count; k++) {
        command *c = &exe->lists[0].commands[k];
        if (c->step != BARRIER) continue;
        c->step = NOTHING;
        barriers++;
        found += ops.prove(r.exe, &proof, &err) == SL_INVALID;
        c->step = BARRIER;
    }
    assert_int_equal(barriers, 4); /* two waves of the first group, and two more groups */
    assert_int_equal(found, 3);    /* all but the last */
    must(ops.prove(r.exe, &proof, &err));
    drop(&r);
}

static void scratch_is_proved(void **state) {
    (void)state;
    ready r;
    sl_device_proof proof;
    make_ready(&r, SOFTMAXES);
    must(ops.prove(r.exe, &proof, &err));
    sl_gpu_executable *exe = sl_gpu_executable_of(r.exe);
    uint32_t with = 0;
    for (uint32_t s = 0; s < r.program->step_count; s++) {
        with += exe->steps[s].scratch_bytes > 0;
        exe->steps[s].scratch_offset = 0; /* as if steps of a group could share it */
    }
    assert_int_equal(with, 2);
    assert_int_equal(ops.prove(r.exe, &proof, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "kernel scratch"));
    drop(&r);
}

static void what_has_no_kernel_is_refused(void **state) {
    (void)state;
    sl_program *program = NULL;
    assert_int_equal(
        compile("graph \"g\" { input %x : f16[4] %y = add(%x, %x) output \"y\" = %y }", &program),
        SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "the toy device has no kernel for add of f16[4]"));
    assert_int_equal(compile("graph \"g\" { input %x : f32[4,2] input %y : f32[2] "
                             "%z = sub(%x, %y) output \"z\" = %z }",
                             &program),
                     SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "broadcasts"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_run_gives_the_same),
        cmocka_unit_test(steps_of_the_host_cut_the_program),
        cmocka_unit_test(every_missing_barrier_is_found),
        cmocka_unit_test(scratch_is_proved),
        cmocka_unit_test(what_has_no_kernel_is_refused),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
