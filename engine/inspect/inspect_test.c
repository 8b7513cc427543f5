/* inspect_test.c - Reports and pictures of the bundled demo model, and of a shape without weights.
 */
#include "sluice/inspect.h"
#include "tests/support/described.h"
#include <dlfcn.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/inspect/inspect.h"

#define MODEL "models/fable"
#define SHAPE "qwen3.5-35b-a3b"
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_model *open_model(sl_model_options options) {
    sl_model *model = NULL;
    options.struct_size = sizeof options;
    must(sl_model_open(MODEL, &options, &model, &err));
    return model;
}

/* All reports, which are released at the end. */
enum { MOST_REPORTS = 256 };
static sl_inspect_report reports[MOST_REPORTS];
static uint32_t report_count;

static sl_inspect_report inspect(sl_model *model, sl_inspect_options options) {
    assert_true(report_count < MOST_REPORTS);
    sl_inspect_report *report = &reports[report_count++];
    options.struct_size = sizeof options;
    report->struct_size = sizeof *report;
    must(sl_inspect(model, &options, report, &err));
    return *report;
}

static int release_reports(void **state) {
    (void)state;
    while (report_count) sl_inspect_report_deinit(&reports[--report_count]);
    return 0;
}

static const char *temporary(char *path, const char *ending) {
    (void)snprintf(path, 64, "/tmp/sluice_inspect_%d.%s", (int)getpid(), ending);
    return path;
}

/* Released by the caller. */
static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    char *text = calloc(1, 1 << 24);
    const size_t bytes = fread(text, 1, (1 << 24) - 1, file);
    (void)fclose(file);
    assert_true(bytes > 0);
    return text;
}

static void check_report(const sl_inspect_report *r) {
    uint32_t groups = 0;
    for (int i = 0; i < 9; i++) groups += r->histogram[i];
    assert_true(r->steps > 50 && r->steps + r->fused <= r->nodes);
    assert_true(r->groups > 0 && r->groups <= r->steps);
    assert_int_equal(groups, r->groups);
    assert_int_equal(r->barriers_naive, r->steps - 1);
    assert_true(r->barriers <= r->barriers_naive && r->edges <= r->edges_naive);
    assert_true(r->live_bytes > 0 && r->live_bytes <= r->arena_bytes);
    assert_true(r->arena_bytes <= r->unshared_bytes);
}

static void every_schedule_makes_sense(void **state) {
    (void)state;
    static const char *const words[] = {"", "groups", "edges", "no-fusion", "no-reordering"};
    sl_model *model = open_model((sl_model_options){0});
    for (int i = 0; i < 5; i++)
        for (uint32_t tokens = 1; tokens <= 64; tokens += 63) {
            const sl_inspect_report r = inspect(
                model, (sl_inspect_options){.tokens = tokens, .compile = words[i], .verify = 1});
            check_report(&r);
            assert_true(r.verify_seconds > 0 && r.runs == 0);
            assert_true(r.prove_seconds == 0 && r.proved_steps == 0); /* of GPUs */
            if (i == 0) assert_true(r.fused > 0 && r.barriers < r.barriers_naive);
            if (i == 3) assert_int_equal(r.fused, 0);
            if (i == 4) assert_int_equal(r.barriers, r.barriers_naive);
        }
    const sl_inspect_report apart = inspect(model, (sl_inspect_options){.compile = "no-sharing"});
    assert_true(apart.arena_bytes >= apart.unshared_bytes);
    sl_model_close(model);
}

/* Slices by process and track, and how many were seen in all. */
static size_t count_slices(const json_t *events, int process, int track) {
    size_t count = 0, i;
    json_t *event;
    json_array_foreach(events, i, event) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        assert_non_null(kind);
        if (!kind || strcmp(kind, "X") != 0) continue;
        assert_true(json_number_value(json_object_get(event, "ts")) >= 0);
        assert_true(json_number_value(json_object_get(event, "dur")) >= 0);
        assert_non_null(json_string_value(json_object_get(event, "name")));
        count += json_integer_value(json_object_get(event, "pid")) == process &&
                 json_integer_value(json_object_get(event, "tid")) == track;
    }
    return count;
}

static void traces_show_members_levels_and_reads(void **state) {
    (void)state;
    char path[64];
    sl_model *model = open_model((sl_model_options){.threads = 2, .expert_budget_share = 0.1});
    const sl_inspect_report r =
        inspect(model, (sl_inspect_options){.tokens = 32, .trace_path = temporary(path, "json")});
    json_error_t where;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
    if (!root) fail_msg("line %d: %s", where.line, where.text);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_int_equal(count_slices(events, 1, 1), (size_t)r.runs * (1 + r.groups));
    assert_true(count_slices(events, 1, 2) > 0 && count_slices(events, 1, 3) > 0);
    assert_int_equal(count_slices(events, 1, 2) + count_slices(events, 1, 3), r.trace_events);
    assert_true(r.reads > 0 && count_slices(events, 2, 10000) > 0);
    assert_int_equal(r.trace_dropped, 0);
    json_decref(root);
    assert_int_equal(unlink(path), 0);
    sl_model_close(model);
}

static void profiles_add_up(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    const sl_inspect_report r = inspect(model, (sl_inspect_options){.runs = 3});
    double share = 0;
    uint64_t calls = 0;
    for (uint32_t i = 0; i < r.op_count; i++) {
        share += r.ops[i].share;
        calls += r.ops[i].calls;
        if (i) assert_true(r.ops[i].seconds <= r.ops[i - 1].seconds);
    }
    assert_true(r.op_count > 5 && r.label_count > 5);
    assert_true(share > 0.999 && share < 1.001);
    assert_int_equal(calls, 3 * (uint64_t)r.steps);
    calls = 0;
    for (uint32_t i = 0; i < r.label_count; i++) calls += r.labels[i].calls;
    assert_int_equal(calls, 3 * (uint64_t)r.steps); /* no label is left out */
    assert_true(r.label_count > 100);
    assert_true(r.run_seconds > 0 && r.busy_share > 0 && r.busy_share < 1.0001);
    char *text;
    must(sl_inspect_text(&r, &text, &err));
    assert_non_null(strstr(text, "barriers"));
    assert_non_null(strstr(text, r.ops[0].name));
    sl_free(text);
    sl_model_close(model);
}

/* Every element that is opened is closed, in order; no stray brackets or ampersands. */
static void check_xml(const char *text) {
    enum { DEEPEST = 16 };
    char open[DEEPEST][32];
    int depth = 0, elements = 0;
    for (const char *at = strchr(text, '<'); at; at = strchr(at, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        const bool closes = at[1] == '/';
        const size_t name = strcspn(at + 1 + closes, " >/");
        assert_true(name > 0 && name < 32);
        if (closes) {
            assert_true(depth-- > 0);
            assert_int_equal(strncmp(open[depth], at + 2, name), 0);
        } else if (end[-1] != '/') {
            assert_true(depth < DEEPEST);
            (void)snprintf(open[depth++], 32, "%.*s", (int)name, at + 1);
        }
        elements++;
        at = end;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 100);
}

static size_t count_text(const char *text, const char *what) {
    size_t count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) count++;
    return count;
}

/* A label in the picture is a whole label, its whole last word, or marked as shortened. */
static void check_labels(const char *svg) {
    size_t count = 0;
    for (const char *at = svg; (at = strstr(at, "font-size='9.5'")); count++) {
        char label[256] = "", found[260];
        at = strchr(at, '>') + 1;
        const size_t bytes = (size_t)(strstr(at, "</text>") - at);
        assert_true(bytes > 0 && bytes < sizeof label);
        memcpy(label, at, bytes);
        if (strstr(label, "…")) continue;
        (void)snprintf(found, sizeof found, "%s, ", label);
        const char *whole = strstr(svg, found);
        while (whole && whole[-1] != '>' && whole[-1] != ' ') whole = strstr(whole + 1, found);
        if (!whole) fail_msg("'%s' is a part of a label", label);
    }
    assert_true(count > 10);
}

static void pictures_are_well_formed(void **state) {
    (void)state;
    char svg[64], dot[64];
    sl_model *model = open_model((sl_model_options){0});
    const sl_inspect_report r =
        inspect(model, (sl_inspect_options){.memory_path = temporary(svg, "svg"),
                                            .dot_path = temporary(dot, "dot")});
    char *text = read_file(svg);
    check_xml(text);
    assert_true(count_text(text, "<title>") > r.groups / 2);
    assert_null(strstr(text, "<script"));
    check_labels(text);
    free(text);
    text = read_file(dot);
    assert_int_equal(count_text(text, "label="), r.steps);
    assert_int_equal(count_text(text, " -> "), r.edges);
    assert_int_equal(count_text(text, "{"), count_text(text, "}"));
    free(text);
    assert_int_equal(unlink(svg) + unlink(dot), 0);
    sl_model_close(model);
}

static void models_are_planned_without_weights(void **state) {
    (void)state;
    for (uint32_t tokens = 1; tokens <= 256; tokens += 255) {
        const sl_inspect_report r =
            inspect(NULL, (sl_inspect_options){.shape = SHAPE, .tokens = tokens, .verify = 1});
        check_report(&r);
        assert_true(r.nodes > 1000);
        assert_true((double)r.arena_bytes <= 1.10 * (double)r.live_bytes);
    }
}

static void mistakes_are_explained(void **state) {
    (void)state;
    static const sl_inspect_options wrong[] = {
        {.struct_size = sizeof(sl_inspect_options)},
        {.struct_size = sizeof(sl_inspect_options), .shape = "no such thing"},
        {.struct_size = sizeof(sl_inspect_options), .shape = SHAPE, .tokens = 1u << 20},
        {.struct_size = sizeof(sl_inspect_options), .shape = SHAPE, .tokens = 4, .wanted = 3},
        {.struct_size = sizeof(sl_inspect_options), .shape = SHAPE, .runs = 1},
        {.struct_size = sizeof(sl_inspect_options), .shape = SHAPE, .compile = "no-fun"},
        {.struct_size = sizeof(sl_inspect_options),
         .shape = SHAPE,
         .memory_path = "/no/such/folder/x.svg"},
    };
    sl_inspect_report report = {.struct_size = sizeof report};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        err.message[0] = '\0';
        if (sl_inspect(NULL, &wrong[i], &report, &err) == SL_OK) fail_msg("case %zu", i);
        assert_true(strlen(err.message) > 10);
    }
}

static void schedules_no_cpu_runs_are_refused(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    sl_inspect_report report = {.struct_size = sizeof report};
    const sl_inspect_options options = {
        .struct_size = sizeof options, .compile = "edges", .runs = 1};
    assert_int_equal(sl_inspect(model, &options, &report, &err), SL_UNSUPPORTED);
    const sl_inspect_report groups =
        inspect(model, (sl_inspect_options){.compile = "groups", .runs = 1});
    assert_int_equal(groups.runs, 1);
    sl_model_close(model);
}

/* Decoding continues after a simulated context, gives finite logits, and can be repeated from
 * there. */
static void contexts_are_imagined(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){.context_tokens = 256});
    sl_session *session;
    const sl_token token = 5;
    const uint32_t vocab = test_model_info(model).vocab;
    must(sl_session_create(model, NULL, &session, &err));
    assert_int_equal(sl_session_fake_context(session, 100, &err),
                     SL_INVALID); /* nothing computed */
    must(sl_session_extend(session, &token, 1, &err));
    assert_int_equal(sl_session_fake_context(session, 257, &err), SL_INVALID);
    must(sl_session_fake_context(session, 200, &err));
    assert_int_equal(sl_session_length(session), 200);
    assert_null(sl_session_logits(session, NULL));
    must(sl_session_extend(session, &token, 1, &err));
    float *first = malloc(vocab * sizeof *first);
    assert_non_null(first);
    memcpy(first, sl_session_logits(session, NULL), vocab * sizeof *first);
    for (uint32_t i = 0; i < vocab; i++) assert_true(first[i] > -1e6f && first[i] < 1e6f);
    must(sl_session_rewind(session, 200, &err));
    must(sl_session_extend(session, &token, 1, &err));
    assert_memory_equal(first, sl_session_logits(session, NULL), vocab * sizeof *first);
    free(first);
    sl_session_destroy(session);
    const sl_inspect_report deep = inspect(model, (sl_inspect_options){.runs = 2, .depth = 200});
    assert_true(deep.run_seconds > 0);
    sl_inspect_report report = {.struct_size = sizeof report};
    const sl_inspect_options beyond = {.struct_size = sizeof beyond, .runs = 1, .depth = 256};
    assert_int_equal(sl_inspect(model, &beyond, &report, &err), SL_INVALID);
    sl_model_close(model);
}

static void costs_follow_the_context(void **state) {
    (void)state;
    sl_model *small = open_model((sl_model_options){.context_tokens = 64});
    sl_model *large = open_model((sl_model_options){.context_tokens = 1024});
    const sl_token_cost a = test_token_cost(small), b = test_token_cost(large);
    assert_true(a.recurrent_bytes > 0 && a.recurrent_bytes == b.recurrent_bytes);
    assert_true(a.kv_bytes_per_position > 0 && a.operations_per_position > 0);
    const uint64_t states = test_model_info(large).state_bytes - test_model_info(small).state_bytes;
    assert_int_equal(states, (1024 - 64) * a.kv_bytes_per_position);
    sl_model_close(small);
    sl_model_close(large);
}

static void disks_are_measured(void **state) {
    (void)state;
    assert_int_equal(sl_disk_reads_in_flight(1 << 20, UINT64_MAX), 16);
    assert_int_equal(sl_disk_reads_in_flight(1 << 20, 10 << 20), 5);
    assert_int_equal(sl_disk_reads_in_flight(1 << 20, 0), 1);
    static const char *const readers[] = {"threads", NULL};
    for (int i = 0; i < 2; i++) {
        sl_model *model = open_model((sl_model_options){.reader = readers[i]});
        sl_disk_floor floor = {.struct_size = sizeof floor};
        must(sl_measure_disk(model, &floor, &err));
        assert_true(floor.reads_in_flight > 0 && floor.expert_bytes > 0);
        assert_true(floor.median_read_bytes_per_second > 1e4);
        assert_true(floor.median_read_bytes_per_second <= floor.read_bytes_per_second);
        sl_model_close(model);
    }
}

/* On the emulated driver, with all experts on the device and with some. */
static void launches_of_a_gpu_are_proved(void **state) {
    (void)state;
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    if (!driver || !dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
    for (int all = 0; all < 2; all++) {
        sl_model *model = open_model(
            (sl_model_options){.device = "cuda", .device_budget_share = all ? 1.0 : 0.25});
        for (uint32_t tokens = 1; tokens <= 9; tokens += 8) {
            const sl_inspect_report r =
                inspect(model, (sl_inspect_options){.tokens = tokens, .verify = 1});
            assert_true(r.verify_seconds > 0 && r.prove_seconds > 0);
            assert_int_equal(r.proved_steps, r.steps);
            assert_true(r.proved_launches > 50 && r.proved_edges > 50);
            assert_true(all ? r.proved_segments == 1 : r.proved_segments > 4);
            char *text;
            must(sl_inspect_text(&r, &text, &err));
            assert_non_null(strstr(text, "\nproved "));
            sl_free(text);
        }
        sl_model_close(model);
    }
}

/* Passes over the graph take time in proportion to it: in the square of it, minutes. */
static void many_layers(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\":\"qwen3\",\"vocab_size\":320,\"hidden_size\":128,"
        "\"num_hidden_layers\":4096,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"head_dim\":32,\"intermediate_size\":64,\"max_position_embeddings\":4096,"
        "\"rms_norm_eps\":1e-6}";
    char path[] = "/tmp/sluice-layers-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, config, sizeof config - 1) == sizeof config - 1);
    (void)close(fd);
    const sl_inspect_report report = inspect(NULL, (sl_inspect_options){.shape = path});
    (void)unlink(path);
    const double seconds = report.build_seconds + report.check_seconds + report.simplify_seconds +
                           report.legalise_seconds + report.quantise_seconds + report.fuse_seconds +
                           report.lower_seconds + report.schedule_seconds + report.plan_seconds;
    if (seconds > 60) fail_msg("%.1f s", seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_layers),
        cmocka_unit_test(every_schedule_makes_sense),
        cmocka_unit_test(traces_show_members_levels_and_reads),
        cmocka_unit_test(profiles_add_up),
        cmocka_unit_test(pictures_are_well_formed),
        cmocka_unit_test(models_are_planned_without_weights),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(schedules_no_cpu_runs_are_refused),
        cmocka_unit_test(contexts_are_imagined),
        cmocka_unit_test(costs_follow_the_context),
        cmocka_unit_test(disks_are_measured),
        cmocka_unit_test(launches_of_a_gpu_are_proved),
    };
    return cmocka_run_group_tests(tests, NULL, release_reports);
}
