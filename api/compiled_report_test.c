/* compiled_report_test.c - What is reported about compiled graphs, and options for compiling them.
 */
#include "sluice/experimental.h"
#include "sluice/inspect.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static sl_error err;

/* The gain of the first norm may be fused; the second norm is an output. */
static const char norms[] =
    "graph \"norms\" { input %x : f32[4,8] input %z : f32[4,8] weight %g : f32[8]\n"
    "  %a = rms_norm(%x, %g) {eps = 1e-06}\n  %b = mul(%a, %z)\n"
    "  %c = rms_norm(%z, %g) {eps = 1e-06}\n  %d = mul(%c, %x)\n"
    "  %e = matmul(%b, %w)\n  output \"e\" = %e output \"c\" = %c output \"d\" = %d }";

static sl_graph *read_graph(const char *text) {
    sl_graph *graph = NULL;
    if (sl_graph_read(text, strlen(text), &graph, &err) != SL_OK) fail_msg("%s", err.message);
    return graph;
}

static sl_graph *two_norms(void) {
    char text[sizeof norms + 32];
    (void)snprintf(text, sizeof text, "%.*s weight %%w : f32[8,4]%s",
                   (int)(strstr(norms, "\n") - norms), norms, strstr(norms, "\n"));
    return read_graph(text);
}

static sl_inspect_report inspect(const sl_graph *graph, const char *words,
                                 sl_inspect_options options) {
    const sl_compile_options compile = {.struct_size = sizeof compile, .compile = words};
    sl_inspect_report report = {.struct_size = sizeof report};
    options.struct_size = sizeof options;
    if (sl_inspect_graph(graph, &compile, &options, &report, &err) != SL_OK)
        fail_msg("%s: %s", words, err.message);
    return report;
}

/* Chains of steps that no rule fuses, each on an input of its own. */
static sl_graph *many_steps(uint32_t chains, uint32_t length) {
    sl_graph *graph = NULL;
    assert_int_equal(sl_graph_create("many", NULL, &graph, &err), SL_OK);
    for (uint32_t c = 0; c < chains; c++) {
        char name[16];
        (void)snprintf(name, sizeof name, "x%u", c);
        sl_value v = sl_graph_add_input(graph, name, "f32", 2, (int64_t[]){8, 8});
        for (uint32_t i = 0; i < length; i++) {
            char label[32];
            (void)snprintf(label, sizeof label, "s%u_%u", c, i);
            sl_graph_set_label(graph, label);
            v = sl_graph_apply(graph, "cumsum", &v, 1, i % 2 ? "axis = 0" : "axis = 1");
        }
        (void)snprintf(name, sizeof name, "y%u", c);
        sl_graph_add_output(graph, name, v);
    }
    return graph;
}

static void words_are_understood_or_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"no-fuse",     "lookahead=",     "lookahead=0",
                                        "lookahead=x", "no-fusion,fast", "lookahead=99999999999"};
    sl_graph *graph = two_norms();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sl_compiled *compiled = NULL;
        const sl_compile_options options = {.struct_size = sizeof options, .compile = wrong[i]};
        assert_int_equal(sl_compile(graph, &options, &compiled, &err), SL_INVALID);
        assert_non_null(strstr(err.message, i == 4 ? "'fast'" : wrong[i]));
        assert_null(compiled);
    }
    sl_compiled *compiled = NULL;
    const sl_compile_options edges = {.struct_size = sizeof edges, .compile = "edges"};
    assert_int_equal(sl_compile(graph, &edges, &compiled, &err), SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "edges"));
    sl_graph_destroy(graph);
}

/* Whatever the words, the results are the same. */
static void words_change_the_program(void **state) {
    (void)state;
    static const char *const words[] = {"",
                                        "no-fusion",
                                        "no-reordering",
                                        "no-sharing,no-in-place",
                                        "groups,two-submits,lookahead=3",
                                        "no-simplify"};
    sl_graph *graph = two_norms();
    float x[32], z[32], w[32], g[8], first[16];
    for (int i = 0; i < 32; i++) x[i] = (float)i, z[i] = (float)(i % 5) - 2, w[i] = (float)(i % 3);
    for (int i = 0; i < 8; i++) g[i] = 1 + (float)i;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        sl_compiled *c = NULL;
        const sl_compile_options options = {.struct_size = sizeof options, .compile = words[i]};
        if (sl_compile(graph, &options, &c, &err) != SL_OK) fail_msg("%s", err.message);
        assert_int_equal(sl_compiled_set(c, "x", x, sizeof x, &err), SL_OK);
        assert_int_equal(sl_compiled_set(c, "z", z, sizeof z, &err), SL_OK);
        assert_int_equal(sl_compiled_set(c, "w", w, sizeof w, &err), SL_OK);
        assert_int_equal(sl_compiled_set(c, "g", g, sizeof g, &err), SL_OK);
        assert_int_equal(sl_compiled_run(c, &err), SL_OK);
        if (i == 0) memcpy(first, sl_compiled_get(c, "e", NULL), sizeof first);
        assert_memory_equal(sl_compiled_get(c, "e", NULL), first, sizeof first);
        sl_inspect_report r = {.struct_size = sizeof r};
        assert_int_equal(sl_compiled_report(c, NULL, &r, &err), SL_OK);
        assert_int_equal(r.fused, i == 1 ? 0 : 1);
        assert_int_equal(r.steps, i == 1 ? 5 : 4);
        if (i == 2) assert_int_equal(r.barriers, r.barriers_naive);
        assert_string_equal(r.schedule, i == 4 ? "groups" : "levels");
        sl_inspect_report_deinit(&r);
        sl_compiled_destroy(c);
    }
    sl_graph_destroy(graph);
}

static void counts_add_up(void **state) {
    (void)state;
    sl_graph *graph = many_steps(3, 70);
    sl_inspect_report r =
        inspect(graph, "groups,two-submits", (sl_inspect_options){.verify = 1, .list_steps = 1});
    uint32_t groups = 0, steps = 0;
    for (uint32_t i = 0; i < 9; i++) groups += r.histogram[i], steps += i * r.histogram[i];
    assert_int_equal(groups, r.groups);
    assert_int_equal(steps, r.steps);
    assert_int_equal(r.steps, 210);
    assert_int_equal(r.barriers, r.groups - 1);
    assert_true(r.early_steps >= 64 && r.early_steps < r.steps);
    char last[2][64]; /* of the first submit, and the first of the second: a group apart */
    for (uint32_t i = 0; i < 2; i++) {
        (void)snprintf(last[i], sizeof last[i], "\n%u level %u ", r.early_steps - 1 + i,
                       r.early_barriers + i);
        if (!strstr(r.step_list, last[i])) fail_msg("there is no%s", last[i]);
    }
    assert_int_equal(r.undeclared, 0);
    assert_true(r.verify_seconds > 0 && r.tokens == 0);
    assert_true(r.check_seconds > 0 && r.simplify_seconds > 0 && r.fuse_seconds > 0);
    assert_true(r.schedule_seconds > 0 && r.plan_seconds > 0 && r.quantise_seconds == 0);
    char *text;
    assert_int_equal(sl_inspect_text(&r, &text, &err), SL_OK);
    assert_non_null(strstr(text, "\nsubmits "));
    sl_free(text);
    sl_inspect_report_deinit(&r);
    r = inspect(graph, "groups", (sl_inspect_options){0});
    assert_true(r.early_steps == 0 && r.early_barriers == 0);
    sl_inspect_report_deinit(&r);
    sl_graph_destroy(graph);
}

/* Nodes that are rewritten are those that sl_graph_legality names. */
static void rewritten_nodes_are_counted(void **state) {
    (void)state;
    sl_graph *graph =
        read_graph("graph \"g\" { input %x : f16[2,8] weight %g : f16[8]\n"
                   "  %a = rms_norm(%x, %g) {eps = 1e-6}\n  %b = rms_norm(%a, %g) {eps = 1e-6}\n"
                   "  %c = neg(%b)\n  output \"y\" = %c }");
    sl_legality *legality;
    uint32_t rewritten = 0;
    assert_int_equal(sl_graph_legality(graph, "cpu", &legality, &err), SL_OK);
    for (uint32_t i = 0; i < sl_legality_count(legality); i++) {
        sl_legality_item item = {.struct_size = sizeof item};
        assert_int_equal(sl_legality_at(legality, i, &item, &err), SL_OK);
        rewritten += strcmp(item.status, "rewritten") == 0;
    }
    sl_legality_destroy(legality);
    sl_inspect_report r = inspect(graph, "", (sl_inspect_options){0});
    assert_int_equal(r.legalised, rewritten);
    assert_int_equal(rewritten, 2);
    sl_inspect_report_deinit(&r);
    sl_graph_destroy(graph);
}

static void fusions_have_reasons(void **state) {
    (void)state;
    sl_graph *graph = two_norms();
    sl_inspect_report r = inspect(graph, "", (sl_inspect_options){.list_fusions = 1});
    uint32_t applied = 0, refused = 0;
    for (uint32_t i = 0; i < r.fusion_count; i++) {
        if (strcmp(r.fusions[i].rule, "rms_norm_mul") != 0) continue;
        applied += !r.fusions[i].reason;
        refused += r.fusions[i].reason != NULL;
        if (r.fusions[i].reason) assert_non_null(strstr(r.fusions[i].reason, "is an output"));
    }
    assert_true(applied == 1 && refused >= 1);
    char *text;
    assert_int_equal(sl_inspect_text(&r, &text, &err), SL_OK);
    assert_non_null(strstr(text, "\nfused: rms_norm_mul at mul"));
    assert_non_null(strstr(text, "\nnot fused: rms_norm_mul at mul"));
    sl_free(text);
    sl_inspect_report_deinit(&r);
    r = inspect(graph, "", (sl_inspect_options){0});
    assert_true(r.fusion_count == 0 && r.wait_count == 0);
    sl_inspect_report_deinit(&r);
    sl_graph_destroy(graph);
}

/* Every barrier has a reason, and every edge has one. */
static void waits_have_reasons(void **state) {
    (void)state;
    static const char *const schedules[] = {"levels", "groups", "edges"};
    sl_graph *graph = many_steps(3, 7);
    for (int s = 0; s < 3; s++) {
        sl_inspect_report r = inspect(graph, schedules[s], (sl_inspect_options){.list_waits = 1});
        uint32_t levels = 0, level = 0;
        for (uint32_t i = 0; i < r.wait_count; i++) {
            const sl_inspect_wait *w = &r.waits[i];
            levels += w->level != level;
            level = w->level;
            assert_true(w->from < w->to && w->bytes == 256 && w->buffer[0]);
            if (!w->over[0]) assert_string_equal(w->kind, "RAW");
        }
        if (s == 2)
            assert_int_equal(r.wait_count, r.edges);
        else
            assert_int_equal(levels, r.barriers);
        sl_inspect_report_deinit(&r);
    }
    sl_graph_destroy(graph);
}

static const sl_inspect_wait *find_wait(const sl_inspect_report *r, const char *kind) {
    for (uint32_t i = 0; i < r->wait_count; i++)
        if (strcmp(r->waits[i].kind, kind) == 0) return &r->waits[i];
    return NULL;
}

/* A state that is updated after it was read; and memory that is used again. */
static void waits_name_kind_and_buffer(void **state) {
    (void)state;
    sl_graph *graph = read_graph(
        "graph \"g\" { input %k : f32[2,1,4] input %slots : i32[2] input %at : i32[2]\n"
        "  state %ck : f32[1,1,1,4,16] state %cv : f32[1,1,16,4]\n"
        "  %old = reduce_sum(%ck) {axes = [0]}\n"
        "  %nk, %nv = kv_append(%k, %k, %slots, %at, %ck, %cv)\n  output \"old\" = %old }");
    sl_inspect_report r = inspect(graph, "", (sl_inspect_options){.list_waits = 1});
    const sl_inspect_wait *war = find_wait(&r, "WAR");
    assert_non_null(war);
    assert_string_equal(war->buffer, "ck");
    assert_string_equal(war->over, "");
    assert_string_equal(war->from_label, "reduce_sum");
    assert_string_equal(war->to_label, "kv_append");
    assert_int_equal(war->bytes, 16 * 4 * sizeof(float));
    sl_inspect_report_deinit(&r);
    sl_graph_destroy(graph);
    graph = many_steps(2, 7);
    r = inspect(graph, "edges,no-in-place", (sl_inspect_options){.list_waits = 1});
    uint32_t shared = 0;
    for (uint32_t i = 0; i < r.wait_count; i++)
        shared += r.waits[i].over[0] && strcmp(r.waits[i].kind, "WAR") == 0;
    sl_inspect_report apart =
        inspect(graph, "edges,no-sharing", (sl_inspect_options){.list_waits = 1});
    for (uint32_t i = 0; i < apart.wait_count; i++) assert_string_equal(apart.waits[i].over, "");
    assert_int_equal(shared, r.edges - apart.edges);
    sl_inspect_report_deinit(&apart);
    sl_inspect_report_deinit(&r);
    sl_graph_destroy(graph);
}

static void graphs_are_drawn_and_run(void **state) {
    (void)state;
    char paths[3][64];
    for (int i = 0; i < 3; i++)
        (void)snprintf(paths[i], sizeof paths[i], "/tmp/sluice_report_%d_%d", (int)getpid(), i);
    sl_graph *graph = many_steps(3, 10);
    sl_compiled *c = NULL;
    const float x[64] = {1};
    assert_int_equal(sl_compile(graph, NULL, &c, &err), SL_OK);
    const sl_inspect_options options = {.struct_size = sizeof options,
                                        .trace_path = paths[0],
                                        .memory_path = paths[1],
                                        .dot_path = paths[2],
                                        .list_steps = 1};
    sl_inspect_report r = {.struct_size = sizeof r};
    assert_int_equal(sl_compiled_report(c, &options, &r, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "'x0' was never set"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            sl_compiled_set(c, (const char *[]){"x0", "x1", "x2"}[i], x, sizeof x, &err), SL_OK);
    if (sl_compiled_report(c, &options, &r, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(r.label_count, 30); /* all of them */
    assert_true(r.op_count == 1 && r.ops[0].calls == 4 * 30 && r.runs == 4);
    assert_non_null(strstr(r.step_list, "cumsum: s0_0\n"));
    for (int i = 0; i < 3; i++) assert_int_equal(unlink(paths[i]), 0);
    sl_inspect_report_deinit(&r);
    sl_compiled_destroy(c);
    sl_graph_destroy(graph);
}

static void mistakes_are_explained(void **state) {
    (void)state;
    static const struct {
        sl_inspect_options options;
        const char *message;
    } wrong[] = {{{.tokens = 2}, "for models"},
                 {{.compile = "no-fusion"}, "sl_compile_options"},
                 {{.runs = 1000000}, "runs"}};
    sl_graph *graph = many_steps(1, 2);
    sl_inspect_report r = {.struct_size = sizeof r};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sl_inspect_options options = wrong[i].options;
        options.struct_size = sizeof options;
        assert_int_equal(sl_inspect_graph(graph, NULL, &options, &r, &err), SL_INVALID);
        assert_non_null(strstr(err.message, wrong[i].message));
        assert_null(r.memory);
    }
    const sl_compile_options ref = {.struct_size = sizeof ref, .device = "ref"};
    assert_int_equal(sl_inspect_graph(graph, &ref, NULL, &r, &err), SL_UNSUPPORTED);
    r.struct_size = 0;
    assert_int_equal(sl_inspect_graph(graph, NULL, NULL, &r, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "struct_size is 0"));
    sl_inspect_report_deinit(NULL);
    sl_graph_destroy(graph);
}

static void a_gpu_counts_its_launches(void **state) {
    (void)state;
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    if (!driver || !dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
    sl_graph *graph = two_norms();
    const sl_compile_options cuda = {.struct_size = sizeof cuda, .device = "cuda"};
    const sl_inspect_options options = {.struct_size = sizeof options, .launches = 1};
    sl_inspect_report r = {.struct_size = sizeof r};
    if (sl_inspect_graph(graph, &cuda, &options, &r, &err) != SL_OK) fail_msg("%s", err.message);
    assert_string_equal(r.schedule, "edges");
    assert_int_equal(r.proved_steps, r.steps);
    assert_true(r.proved_segments == 1 && r.hosted_steps == 0);
    assert_true(r.graph_nodes == r.proved_launches && r.graph_nodes >= r.steps - r.joined_steps);
    sl_inspect_report_deinit(&r);
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_understood_or_refused),
        cmocka_unit_test(words_change_the_program),
        cmocka_unit_test(counts_add_up),
        cmocka_unit_test(rewritten_nodes_are_counted),
        cmocka_unit_test(fusions_have_reasons),
        cmocka_unit_test(waits_have_reasons),
        cmocka_unit_test(waits_name_kind_and_buffer),
        cmocka_unit_test(graphs_are_drawn_and_run),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(a_gpu_counts_its_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
