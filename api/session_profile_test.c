/* session_profile_test.c - Conversations that are recorded: the same tokens, every label, reads and
 * waits, traces, windows.  On the CPU and on the emulated CUDA device. */
#include "sluice/inspect.h"
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

enum { PROMPT = 10, CHUNK = 4, ANSWER = 3, LAYERS = 8 };
static sl_error err;
static char trace_path[64];

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* Few experts in memory, so that there are reads. */
static sl_model *open_model(const char *device) {
    sl_model *model = NULL;
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = device,
                                      .threads = 2,
                                      .expert_budget_share = 0.15,
                                      .device_budget_share = 0.15,
                                      .context_tokens = 64};
    must(sl_model_open("models/fable", &options, &model, &err));
    return model;
}

static sl_session *new_session(sl_model *model) {
    sl_session *session = NULL;
    const sl_session_options options = {.struct_size = sizeof options, .chunk_tokens = CHUNK};
    must(sl_session_create(model, &options, &session, &err));
    return session;
}

static void talk(sl_session *session, sl_token answer[ANSWER]) {
    const sl_sampling sampling = {.struct_size = sizeof sampling, .temperature = 1, .seed = 3};
    sl_token prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++) prompt[i] = 11 + 7 * i;
    must(sl_session_extend(session, prompt, PROMPT, &err));
    for (int i = 0; i < ANSWER; i++) must(sl_session_next(session, &sampling, &answer[i], &err));
}

static void start(sl_session *session, sl_session_profile_options options) {
    options.struct_size = sizeof options;
    must(sl_session_profile_begin(session, &options, &err));
}

static sl_session_profile stop(sl_session *session) {
    sl_session_profile profile = {.struct_size = sizeof profile};
    must(sl_session_profile_end(session, &profile, &err));
    return profile;
}

/* A recorded conversation from the beginning, with nothing in memory. */
static sl_session_profile record(const char *device, sl_session_profile_options options,
                                 sl_token answer[ANSWER], sl_stats *out_stats) {
    sl_model *model = open_model(device);
    sl_session *session = new_session(model);
    start(session, options);
    talk(session, answer);
    if (out_stats) must(sl_session_stats(session, out_stats, &err));
    const sl_session_profile profile = stop(session);
    sl_session_destroy(session);
    sl_model_close(model);
    return profile;
}

/* Of the program of one token. */
static uint32_t count_labels(const char *device) {
    sl_inspect_report report = {.struct_size = sizeof report};
    const sl_inspect_options options = {.struct_size = sizeof options, .runs = 1};
    sl_model *model = open_model(device);
    must(sl_inspect(model, &options, &report, &err));
    sl_model_close(model);
    const uint32_t labels = report.label_count;
    sl_inspect_report_deinit(&report);
    return labels;
}

static void check_rows(const sl_inspect_row *rows, uint32_t count, double seconds) {
    double sum = 0, share = 0;
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        sum += rows[i].seconds;
        share += rows[i].share;
        assert_true(rows[i].calls > 0);
        assert_true(i == 0 || rows[i].seconds <= rows[i - 1].seconds);
    }
    assert_true(sum > seconds * 0.999 && sum < seconds * 1.001);
    assert_true(share > 0.999 && share < 1.001);
}

static void check_phase(const sl_session_phase *p, uint64_t passes, uint64_t tokens) {
    double layers = 0;
    uint64_t reads = 0;
    assert_int_equal(p->passes, passes);
    assert_int_equal(p->tokens, tokens);
    assert_true(p->seconds > 0 && p->step_seconds > 0 && p->busy_share > 0);
    check_rows(p->ops, p->op_count, p->step_seconds);
    check_rows(p->labels, p->label_count, p->step_seconds);
    assert_int_equal(p->layer_count, LAYERS);
    for (uint32_t l = 0; l < p->layer_count; l++) {
        assert_int_equal(p->layers[l].layer, l);
        layers += p->layers[l].seconds;
        reads += p->layers[l].reads;
        assert_true(p->layers[l].seconds > 0);
        assert_true(!p->layers[l].reads == !p->layers[l].bytes_read);
    }
    assert_true(layers > 0.5 * p->step_seconds && layers <= p->step_seconds * 1.001);
    assert_int_equal(reads, p->reads);
}

/* Events by category; the trace is read as a viewer reads it. */
static size_t count_events(const char *category) {
    json_error_t problem;
    json_t *trace = json_load_file(trace_path, 0, &problem), *event;
    if (!trace) fail_msg("%s", problem.text);
    size_t count = 0, i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *found = json_string_value(json_object_get(event, "cat"));
        assert_true(!json_object_get(event, "dur") ||
                    json_number_value(json_object_get(event, "dur")) >= 0);
        count += found && strcmp(found, category) == 0;
    }
    json_decref(trace);
    return count;
}

/* Recording changes no token; what the session counts is what the profile has. */
static void everything_is_recorded(const char *device) {
    sl_model *model = open_model(device);
    sl_token plain[ANSWER], recorded[ANSWER];
    sl_session *session = new_session(model);
    talk(session, plain);
    sl_session_destroy(session);
    sl_model_close(model);
    sl_stats stats = {.struct_size = sizeof stats};
    sl_session_profile profile =
        record(device, (sl_session_profile_options){.trace_path = trace_path}, recorded, &stats);
    assert_memory_equal(plain, recorded, sizeof plain);
    /* The last token of an answer is computed when the next one is asked for. */
    check_phase(profile.prefill, 3, PROMPT);
    check_phase(profile.decode, ANSWER - 1, ANSWER - 1);
    assert_int_equal(profile.passes, 3 + ANSWER - 1);
    assert_int_equal(profile.events_dropped, 0);
    assert_int_equal(profile.decode->label_count, count_labels(device));
    assert_true(profile.decode->label_count > 100);
    const uint64_t reads = profile.prefill->reads + profile.decode->reads;
    assert_int_equal(reads, stats.expert_misses);
    assert_true(reads > 0);
    const double waited = profile.prefill->wait_seconds + profile.decode->wait_seconds;
    assert_true(waited > 0.99 * stats.stall_seconds && waited < 1.01 * stats.stall_seconds);
    assert_int_equal(count_events("read"), reads);
    assert_true(count_events("wait") > 0);
    assert_int_equal(count_events("prefill"), 3);
    assert_int_equal(count_events("decode"), ANSWER - 1);
    /* Passes without logits need no experts of the last layer. */
    assert_true(count_events("moe_ffn") >= (size_t)LAYERS * (3 + ANSWER - 1) - 2);
    char *text;
    must(sl_session_profile_text(&profile, &text, &err));
    for (uint32_t i = 0; i < profile.decode->label_count; i++)
        assert_non_null(strstr(text, profile.decode->labels[i].name));
    sl_free(text);
    sl_session_profile_deinit(&profile);
    (void)unlink(trace_path);
}

/* Layer 3 of two passes. */
static void windows_are_kept(const char *device) {
    const sl_session_profile_options window = {
        .labels = "layer 3 *", .first_pass = 2, .passes = 2, .trace_path = trace_path};
    sl_token plain[ANSWER], answer[ANSWER];
    sl_session_profile whole = record(device, (sl_session_profile_options){0}, plain, NULL);
    sl_session_profile profile = record(device, window, answer, NULL);
    assert_memory_equal(plain, answer, sizeof plain);
    assert_int_equal(profile.passes, whole.passes);
    assert_int_equal(profile.prefill->passes, 1);
    assert_int_equal(profile.prefill->tokens, PROMPT - 2 * CHUNK);
    assert_int_equal(profile.decode->passes, 1);
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < whole.decode->label_count; i++)
        wanted += strncmp(whole.decode->labels[i].name, "layer 3 ", 8) == 0;
    assert_int_equal(profile.decode->label_count, wanted);
    for (uint32_t i = 0; i < profile.decode->label_count; i++) {
        assert_memory_equal(profile.decode->labels[i].name, "layer 3 ", 8);
        assert_int_equal(profile.decode->labels[i].calls, 1);
    }
    for (uint32_t l = 0; l < LAYERS; l++)
        assert_true((profile.decode->layers[l].seconds > 0) == (l == 3));
    assert_true(count_events("moe_ffn") >= 2 && count_events("prefill") == 1);
    sl_session_profile_deinit(&whole);
    sl_session_profile_deinit(&profile);
    /* Beyond the end: nothing, and no failure. */
    profile = record("cpu", (sl_session_profile_options){.first_pass = 1000}, answer, NULL);
    assert_int_equal(profile.prefill->passes + profile.decode->passes, 0);
    assert_int_equal(profile.decode->label_count, 0);
    assert_int_equal(profile.passes, 3 + ANSWER - 1);
    sl_session_profile_deinit(&profile);
    (void)unlink(trace_path);
}

static void on_the_cpu(void **state) {
    (void)state;
    everything_is_recorded("cpu");
    windows_are_kept("cpu");
}

static void on_cuda(void **state) {
    (void)state;
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    if (!driver || !dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) skip();
    everything_is_recorded("cuda");
    windows_are_kept("cuda");
}

/* While it is recorded a session runs nothing ahead; after that it does again. */
static void recording_may_begin_and_end_anywhere(void **state) {
    (void)state;
    const sl_sampling likeliest = {.struct_size = sizeof likeliest};
    sl_model *model = open_model("cpu");
    sl_session *session = new_session(model);
    sl_token answer[ANSWER], token, more[3], again[3];
    talk(session, answer);
    const size_t length = sl_session_length(session);
    for (int i = 0; i < 3; i++) must(sl_session_next(session, &likeliest, &more[i], &err));
    must(sl_session_rewind(session, length, &err));
    must(sl_session_next(session, &likeliest, &again[0], &err));
    start(session, (sl_session_profile_options){0});
    must(sl_session_next(session, &likeliest, &again[1], &err));
    sl_session_profile profile = stop(session);
    must(sl_session_next(session, &likeliest, &again[2], &err));
    assert_memory_equal(more, again, sizeof more);
    assert_int_equal(profile.decode->tokens, 1);
    sl_session_profile_deinit(&profile);
    start(session, (sl_session_profile_options){0});
    must(sl_session_profile_end(session, NULL, &err));
    must(sl_session_next(session, &likeliest, &token, &err));
    sl_session_destroy(session);
    sl_model_close(model);
}

static void misuse_is_refused(void **state) {
    (void)state;
    sl_model *model = open_model("cpu");
    sl_session *session = new_session(model);
    sl_session_profile profile = {.struct_size = sizeof profile}, small = {.struct_size = 4};
    assert_int_equal(sl_session_profile_end(session, &profile, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "not being recorded"));
    start(session, (sl_session_profile_options){.trace_path = trace_path});
    assert_int_equal(sl_session_profile_begin(session, NULL, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "already"));
    assert_int_equal(sl_session_profile_end(session, &small, &err), SL_INVALID);
    sl_session_destroy(session); /* while it is recorded */
    assert_int_equal(access(trace_path, F_OK), -1);
    session = new_session(model);
    const sl_session_profile_options nowhere = {.struct_size = sizeof nowhere,
                                                .trace_path = "/nonexistent/trace.json"};
    assert_int_equal(sl_session_profile_begin(session, &nowhere, &err), SL_IO);
    assert_int_equal(sl_session_profile_end(session, NULL, &err), SL_INVALID);
    sl_session_destroy(session);
    sl_model_close(model);
    model = open_model("ref");
    session = new_session(model);
    assert_int_equal(sl_session_profile_begin(session, NULL, &err), SL_UNSUPPORTED);
    sl_session_destroy(session);
    sl_model_close(model);
    sl_session_profile_deinit(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_cuda),
        cmocka_unit_test(recording_may_begin_and_end_anywhere),
        cmocka_unit_test(misuse_is_refused),
    };
    (void)snprintf(trace_path, sizeof trace_path, "/tmp/sluice_session_profile_%d.json",
                   (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
