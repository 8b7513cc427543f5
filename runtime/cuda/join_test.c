/* join_test.c - Steps that share launches: a hybrid model's step of one row on the emulated device.
 * Every rule of joining has steps to join here, the edges that the driver then has order every
 * conflict, and the results are those of steps apart. */
#include "compiler/compile.h"
#include "engine/session/model.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/emulator/control.h"
#include "runtime/cuda/joining.h"
#include "tests/support/bound_program.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONTEXT = 1152, VOCAB = 9232 };

/* Two delta nets and an attention, sizes as kernels for one row want them and no larger. */
static const char config[] =
    "{\"model_type\": \"qwen3_5_moe\", \"vocab_size\": 9232, \"hidden_size\": 256,"
    " \"num_hidden_layers\": 3, \"full_attention_interval\": 3, \"max_position_embeddings\": 1152,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 128,"
    " \"partial_rotary_factor\": 0.25, \"rope_theta\": 10000, \"rms_norm_eps\": 1e-6,"
    " \"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 128,"
    " \"linear_value_head_dim\": 128, \"linear_conv_kernel_dim\": 4, \"num_experts\": 24,"
    " \"num_experts_per_tok\": 4, \"moe_intermediate_size\": 96,"
    " \"shared_expert_intermediate_size\": 64, \"tie_word_embeddings\": false}";

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_model *model;
static const char *driver;

/* Whether the machine's own GPU is asked for. */
static bool on_device(void) {
    const char *which = getenv("SLUICE_CUDA");
    return which && strcmp(which, "device") == 0;
}

static int open_model(void **state) {
    (void)state;
    char folder[] = "/tmp/sluice-join-XXXXXX", shape[64], pack[64];
    driver = on_device() ? NULL : getenv("SLUICE_CUDA_EMULATOR");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(shape, sizeof shape, "%s/config.json", folder);
    (void)snprintf(pack, sizeof pack, "%s/model.sluice", folder);
    FILE *file = fopen(shape, "w");
    assert_non_null(file);
    assert_true(fputs(config, file) >= 0 && fclose(file) == 0);
    must(sl_synth_write(shape, pack, &(sl_synth_options){.struct_size = sizeof(sl_synth_options)},
                        &err));
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "ref",
                                      .reader = "threads",
                                      .context_tokens = CONTEXT};
    must(sl_model_open(pack, &options, &model, &err));
    assert_int_equal(unlink(shape) | unlink(pack) | rmdir(folder), 0);
    return 0;
}
static int close_model(void **state) {
    (void)state;
    sl_model_close(model);
    return 0;
}

/* As many positions as one part of them has, or more, which makes other steps of attention. */
static uint32_t capacity = CONTEXT;

static sl_program *make_program(bool no_sharing) {
    const sl_forward_shape shape = {.config = &model->config,
                                    .weights = &model->weights,
                                    .experts = &model->experts,
                                    .rows = 1,
                                    .wanted = 1,
                                    .slots = 1,
                                    .capacity = capacity,
                                    .kv_dtype = SL_DTYPE_f16};
    const sl_compiler_options options = {
        .model = SL_SCHEDULE_EDGES, .int8_activations = true, .no_sharing = no_sharing};
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    must(sl_graph_create("step", NULL, &graph, &err));
    must(
        sl_architecture_build(sl_architecture_find(model->config.model_type), &shape, graph, &err));
    must(sl_compile_graph(graph, &options, NULL, &program, &err));
    sl_graph_destroy(graph);
    return program;
}

/* A program on a device of its own, run once. */
typedef struct {
    sl_program *program;
    sl_device *device;
    bound_program bound;
} ready;
static ready make_ready_with(bool no_sharing, sl_device_options options) {
    ready r = {.program = make_program(no_sharing)};
    options.driver = driver;
    must(sl_device_cuda_create(&options, NULL, &r.device, &err));
    bound_program_init(&r.bound, r.program, r.device, model);
    (void)bound_program_run(&r.bound, NULL);
    return r;
}
static ready make_ready(bool no_sharing, bool apart) {
    return make_ready_with(no_sharing, (sl_device_options){.apart = apart});
}
static void drop(ready *r) {
    bound_program_deinit(&r->bound);
    r->device->ops->destroy(r->device);
    sl_program_destroy(r->program);
}

/* Launches of a function that some step was given instead of its own. */
static uint32_t joined_by(const sl_cuda_executable *exe, sl_cuda_fn function) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++)
        for (uint32_t i = 0; exe->tasks[s].joined && i < exe->base.steps[s].launch_count; i++)
            count += exe->tasks[s].joined[i].launch.function == function;
    return count;
}
static uint32_t members(const sl_cuda_executable *exe) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++)
        count += exe->tasks[s].leader != s;
    return count;
}

static void every_rule_is_used(void **state) {
    (void)state;
    ready r = make_ready(true, false);
    const sl_cuda_executable *exe = sl_cuda_executable_of(r.bound.executable);
    assert_int_equal(joined_by(exe, SL_FN_sl_delta_step_joined), 2);
    assert_int_equal(joined_by(exe, SL_FN_sl_sdpa_step_128), 1);
    assert_int_equal(joined_by(exe, SL_FN_sl_sdpa_merge_row), 1);
    if (!on_device()) /* whose head would have to be larger: to the host */
        assert_int_equal(joined_by(exe, SL_FN_sl_linear_stream_q8), 1);
    assert_int_equal(joined_by(exe, SL_FN_sl_row_q4_q4),
                     9); /* into mixers, out of them, shared down */
    assert_int_equal(joined_by(exe, SL_FN_sl_row_q4_q8), 3); /* into experts */
    assert_int_equal(joined_by(exe, SL_FN_sl_moe_row_up_q4), 3);
    assert_int_equal(joined_by(exe, SL_FN_sl_moe_row_down_q4), 3);
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++)
        if (exe->base.binding.program->steps[s].op == SL_OP_causal_conv)
            assert_int_not_equal(exe->tasks[s].leader, s);
    drop(&r);
}

/* Launches as they were planned, of a kernel or of one of a family. */
static uint32_t planned(const sl_cuda_executable *exe, sl_cuda_fn what) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < exe->base.launch_count; i++)
        count += sl_cuda_fn_is(exe->base.launches[i].function, what);
    return count;
}

/* What a rule looks for is what plans make, and what it says it makes is launched. */
static void check_rule(const sl_cuda_executable *exe, const sl_join_rule *rule) {
    const uint32_t taken = sizeof rule->takes / sizeof rule->takes[0];
    uint32_t uses = 0;
    for (uint32_t s = 0; s < exe->base.binding.program->step_count; s++) {
        const sl_cuda_task *task = &exe->tasks[s];
        if (!task->joined || task->rule != rule) continue;
        for (uint32_t i = 0; i < exe->base.steps[s].launch_count; i++)
            assert_true(sl_cuda_fn_is(task->joined[i].launch.function, rule->makes[i]));
        uses++;
    }
    if (!uses) fail_msg("rule '%s' joins nothing", rule->name);
    for (uint32_t i = 0; i < 2; i++)
        if (rule->first[i] && !planned(exe, rule->first[i]))
            fail_msg("rule '%s': no plan makes its kernel %u", rule->name, i);
    if (rule->second && !planned(exe, rule->second))
        fail_msg("rule '%s': no plan makes its second kernel", rule->name);
    for (uint32_t i = 0; i < taken; i++)
        if (rule->takes[i] && !planned(exe, rule->takes[i]))
            fail_msg("rule '%s': no plan makes kernel %u that it takes", rule->name, i);
}

/* Routing joins the experts themselves, except where buffers that share memory keep it from that.
 */
static void every_kernel_of_a_rule_is_planned(void **state) {
    (void)state;
    ready own = make_ready(true, false), shared = make_ready(false, false);
    for (uint32_t r = 0; r < SL_JOIN_RULES; r++) {
        const bool apart = sl_join_rules[r].join == sl_join_route;
        if (on_device() && sl_join_rules[r].join == sl_join_output) continue;
        check_rule(sl_cuda_executable_of((apart ? &shared : &own)->bound.executable),
                   &sl_join_rules[r]);
    }
    drop(&shared);
    drop(&own);
}

static void must_be_proved(const ready *r) {
    const sl_cuda_executable *exe = sl_cuda_executable_of(r->bound.executable);
    sl_device_proof proof;
    must(r->device->ops->prove(r->bound.executable, &proof, &err));
    assert_int_equal(proof.steps, r->program->step_count);
    assert_int_equal(proof.segments, exe->base.segment_count);
    assert_true(proof.edges > proof.steps / 4);
}

/* Whether or not buffers share memory, which leaves fewer to join. */
static void edges_order_every_conflict(void **state) {
    (void)state;
    for (int no_sharing = 0; no_sharing < 2; no_sharing++) {
        ready r = make_ready(no_sharing, false);
        assert_true(members(sl_cuda_executable_of(r.bound.executable)) > 0);
        must_be_proved(&r);
        drop(&r);
    }
}

/* The proof can fail: a step that is said to come with the first launch of another when it needs
 * what is made later. */
static void a_wrong_join_is_found(void **state) {
    (void)state;
    ready r = make_ready(true, false);
    sl_cuda_executable *exe = sl_cuda_executable_of(r.bound.executable);
    const uint32_t last = exe->base.binding.program->step_count - 1;
    sl_cuda_task *head = &exe->tasks[exe->tasks[0].leader], *task = &exe->tasks[last];
    assert_true(task->leader == last && task->next == UINT32_MAX);
    const sl_cuda_task before = *head;
    task->leader = head->leader;
    head->next = last;
    task->next = before.next;
    sl_device_proof proof;
    assert_int_equal(r.device->ops->prove(&exe->base.base, &proof, &err), SL_INVALID);
    *head = before;
    task->leader = last;
    task->next = UINT32_MAX;
    drop(&r);
}

/* Of a graph without one of its edges, the proof refuses at least what the emulated driver does:
 * where another path orders the same, both accept it. */
static void what_the_proof_accepts_runs(void **state) {
    (void)state;
    enum { EVERY = 7 };
    void (*drop_edge)(int after);
    void *library = driver ? dlopen(driver, RTLD_NOW) : NULL;
    if (!library) skip();
    *(void **)&drop_edge = dlsym(library, "emulated_drop_edge");
    assert_non_null(drop_edge);
    uint32_t accepted = 0, refused = 0;
    sl_device_proof whole, proof;
    ready r = make_ready(true, false);
    must(r.device->ops->prove(r.bound.executable, &whole, &err));
    drop(&r);
    for (uint32_t after = 0; after < whole.edges; after += EVERY) {
        r = (ready){.program = make_program(true)};
        const sl_device_options options = {.driver = driver};
        must(sl_device_cuda_create(&options, NULL, &r.device, &err));
        bound_program_init(&r.bound, r.program, r.device, model);
        drop_edge((int)after);
        if (r.device->ops->prove(r.bound.executable, &proof, &err) == SL_OK) {
            assert_int_equal(proof.edges, whole.edges - 1);
            (void)bound_program_run(&r.bound, NULL);
            accepted++;
        } else {
            refused++;
        }
        drop_edge(-1);
        drop(&r);
    }
    assert_true(refused > 2 * accepted);
    (void)dlclose(library);
}

/* Segment i and the one before it. */
static void swap_segments(sl_cuda_executable *exe, uint32_t i) {
    const sl_gpu_segment segment = exe->base.segments[i];
    const sl_cuda_graph graph = exe->graphs[i];
    exe->base.segments[i] = exe->base.segments[i - 1];
    exe->base.segments[i - 1] = segment;
    exe->graphs[i] = exe->graphs[i - 1];
    exe->graphs[i - 1] = graph;
}

/* Levels that run in another order. */
static void a_wrong_order_of_levels_is_found(void **state) {
    (void)state;
    sl_device_proof proof;
    ready r = make_ready_with(true, (sl_device_options){.expert_budget_bytes = 1 << 20});
    sl_cuda_executable *exe = sl_cuda_executable_of(r.bound.executable);
    assert_true(exe->graphs[0].leveled && exe->base.segments[1].alone);
    for (uint32_t i = 1; i < exe->base.segment_count; i++) {
        swap_segments(exe, i);
        assert_int_equal(r.device->ops->prove(&exe->base.base, &proof, &err), SL_INVALID);
        swap_segments(exe, i);
    }
    must_be_proved(&r);
    drop(&r);
}

static void check_alike(const ready *together, const ready *apart) {
    const float *a = together->device->ops->output(together->bound.executable, 0);
    const float *b = apart->device->ops->output(apart->bound.executable, 0);
    double difference = 0, size = 0;
    for (int i = 0; i < VOCAB; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    assert_true(size > 0 && difference <= 1e-8 * size);
}

static void results_are_those_of_steps_apart(void **state) {
    (void)state;
    ready together = make_ready(true, false), apart = make_ready(true, true);
    assert_int_equal(members(sl_cuda_executable_of(apart.bound.executable)), 0);
    check_alike(&together, &apart);
    assert_int_equal(bound_program_run(&together.bound, NULL),
                     bound_program_run(&together.bound, NULL));
    drop(&together);
    drop(&apart);
}

/* With room for some of the experts, down to those of one row in one layer. */
static void bits_are_the_same_when_experts_stream(void **state) {
    (void)state;
    static const uint64_t rooms[] = {71, 25, 4};
    ready all = make_ready(true, false);
    const uint64_t wanted = bound_program_run(&all.bound, NULL);
    const sl_device_stats info = sl_device_stats_of(all.device);
    assert_int_equal(info.expert_slots, 72);
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        const uint64_t bytes = rooms[i] * (info.expert_bytes / info.expert_slots);
        ready some = make_ready_with(true, (sl_device_options){.expert_budget_bytes = bytes});
        assert_true(sl_cuda_executable_of(some.bound.executable)->graphs[0].leveled);
        assert_int_equal(sl_cuda_executable_of(some.bound.executable)->base.segment_count,
                         2 * 3 + 1);
        must_be_proved(&some);
        assert_int_equal(bound_program_run(&some.bound, NULL), wanted);
        assert_int_equal(sl_device_stats_of(some.device).expert_slots, rooms[i]);
        drop(&some);
    }
    drop(&all);
}

/* Where one row's do not fit at once they come one by one, and are added up by a step apart. */
static void experts_without_room_come_in_rounds(void **state) {
    (void)state;
    ready all = make_ready(true, false);
    const sl_device_stats info = sl_device_stats_of(all.device);
    const uint64_t bytes = 3 * (info.expert_bytes / info.expert_slots);
    for (int chained = 0; chained < 2; chained++) {
        ready few = make_ready_with(
            true, (sl_device_options){.expert_budget_bytes = bytes, .chained = chained});
        assert_int_equal(sl_cuda_executable_of(few.bound.executable)->graphs[0].leveled, !chained);
        check_alike(&few, &all);
        drop(&few);
    }
    drop(&all);
}

static void run_at(ready *r, int32_t position) {
    for (uint32_t b = 0; b < r->program->buffer_count; b++)
        if (strcmp(r->program->buffers[b].name, "positions") == 0)
            *(int32_t *)r->bound.memory[b] = position;
    (void)bound_program_run(&r->bound, NULL);
}

/* The cache fills up, over the ends of what tiles and splits of positions there are. */
static void check_positions(const int32_t *positions, size_t count) {
    ready together = make_ready(true, false), apart = make_ready(true, true);
    assert_int_equal(
        joined_by(sl_cuda_executable_of(together.bound.executable), SL_FN_sl_sdpa_step_128), 1);
    for (size_t i = 0; i < count; i++) {
        run_at(&together, positions[i]);
        run_at(&apart, positions[i]);
        check_alike(&together, &apart);
    }
    drop(&together);
    drop(&apart);
}
static void positions_follow_each_other(void **state) {
    (void)state;
    static const int32_t few[] = {0,  1,  2,   7,   8,   9,   15,  16,  17, 63,
                                  64, 65, 126, 127, 128, 129, 130, 255, 256};
    static const int32_t many[] = {0, 1, 127, 128, 1023, 1024, 1151};
    capacity = 320;
    check_positions(few, sizeof few / sizeof few[0]);
    capacity = CONTEXT;
    check_positions(many, sizeof many / sizeof many[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_is_used),
        cmocka_unit_test(edges_order_every_conflict),
        cmocka_unit_test(a_wrong_join_is_found),
        cmocka_unit_test(what_the_proof_accepts_runs),
        cmocka_unit_test(a_wrong_order_of_levels_is_found),
        cmocka_unit_test(results_are_those_of_steps_apart),
        cmocka_unit_test(bits_are_the_same_when_experts_stream),
        cmocka_unit_test(experts_without_room_come_in_rounds),
        cmocka_unit_test(positions_follow_each_other),
        cmocka_unit_test(every_kernel_of_a_rule_is_planned),
    };
    if (!on_device() && !getenv("SLUICE_CUDA_EMULATOR")) {
        print_message("skipped: there is no emulated CUDA driver in this build\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, open_model, close_model);
}
