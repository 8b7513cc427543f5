/* ahead_test.c - Token after token: whatever is asked for in between, sl_session_next gives what
 * sampling and extending give.  On the CPU, and on GPUs, which get ahead: the emulated
 * one, or the machine's. */
#include "engine/session/session.h"
#include "runtime/devices.h"
#include "sluice/sampling.h"
#include "tests/support/described.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROMPT = 3, CONTEXT = 16 };
static const sl_token prompt[PROMPT] = {11, 7, 40};
static const sl_sampling likeliest = {.struct_size = sizeof(sl_sampling)};
static const sl_sampling any = {.struct_size = sizeof(sl_sampling), .temperature = 1.5f, .seed = 5};
static const sl_sampling few = {
    .struct_size = sizeof(sl_sampling), .temperature = 1, .top_k = 20, .top_p = 0.9f, .seed = 9};

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* ---- a model with two sessions: one goes on by itself, one token by token ---- */

typedef struct {
    sl_model *model;
    sl_session *session, *plain;
} pair;

static sl_status open_model(const char *device, sl_model **out) {
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = device,
                                      .context_tokens = CONTEXT,
                                      .max_sessions = 2};
    return sl_model_open("models/fable", &options, out, &err);
}

static pair open_pair(sl_model *model) {
    pair p = {.model = model};
    must(sl_session_create(p.model, NULL, &p.session, &err));
    must(sl_session_create(p.model, NULL, &p.plain, &err));
    must(sl_session_extend(p.session, prompt, PROMPT, &err));
    must(sl_session_extend(p.plain, prompt, PROMPT, &err));
    return p;
}
static void close_pair(pair *p) {
    sl_session_destroy(p->session);
    sl_session_destroy(p->plain);
}

static sl_token next(const pair *p, const sl_sampling *sampling) {
    sl_token token = -1;
    must(sl_session_next(p->session, sampling, &token, &err));
    return token;
}
static sl_token plainly(const pair *p, const sl_sampling *sampling) {
    sl_token token = -1;
    must(sl_session_sample(p->plain, sampling, &token, &err));
    must(sl_session_extend(p->plain, &token, 1, &err));
    return token;
}

/* By turns, so that each session finds the other's step under way or finished. */
static void both(const pair *p, const sl_sampling *sampling, int count) {
    for (int i = 0; i < count; i++) assert_int_equal(next(p, sampling), plainly(p, sampling));
    assert_int_equal(sl_session_length(p->session), sl_session_length(p->plain));
}
/* One after the other, so that the first stays ahead. */
static void each(const pair *p, const sl_sampling *sampling, int count) {
    sl_token tokens[CONTEXT];
    for (int i = 0; i < count; i++) tokens[i] = next(p, sampling);
    for (int i = 0; i < count; i++) assert_int_equal(plainly(p, sampling), tokens[i]);
}

/* Tokens that were computed together and one by one differ in the last bits. */
static void same_logits(const pair *p) {
    size_t count = 0;
    const float *found = sl_session_logits(p->session, &count);
    const float *wanted = sl_session_logits(p->plain, NULL);
    double error = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)found[i] - (double)wanted[i]) * ((double)found[i] - (double)wanted[i]);
        norm += (double)wanted[i] * (double)wanted[i];
    }
    assert_true(count > 0 && error <= 1e-10 * norm);
}

/* ---- the tests ---- */

static void tokens_are_the_same(sl_model *model) {
    pair p = open_pair(model);
    each(&p, &few, 4);
    each(&p, &any, 3);
    each(&p, &likeliest, 2);
    both(&p, &few, 2);
    close_pair(&p);
}

static void anything_may_come_between(sl_model *model) {
    static const sl_token given[] = {5, 6};
    pair p = open_pair(model);
    sl_token token;
    token = next(&p, &few);
    assert_null(sl_session_logits(p.session, NULL)); /* not yet */
    assert_int_equal(plainly(&p, &few), token);
    must(sl_session_sample(p.session, &any, &token, &err)); /* what would follow */
    same_logits(&p);
    assert_int_equal(next(&p, &any), token);
    assert_int_equal(plainly(&p, &any), token);
    must(sl_session_extend(p.session, given, 2, &err));
    must(sl_session_extend(p.plain, given, 2, &err));
    same_logits(&p);
    each(&p, &few, 2);
    must(sl_session_rewind(p.session, PROMPT + 2, &err));
    must(sl_session_rewind(p.plain, PROMPT + 2, &err));
    must(sl_session_extend(p.plain, given, 1, &err));
    must(sl_session_extend(p.session, given, 1, &err));
    same_logits(&p);
    each(&p, &any, 1);
    close_pair(&p);
}

/* A sampler of plain options gets as far ahead; one that needs the host sees the same logits. */
static void samplers_choose_alike(sl_model *model) {
    pair p = open_pair(model);
    sl_sampler *plain = NULL, *busy = NULL, *apart = NULL;
    sl_sampler_options options = {.struct_size = sizeof options,
                                  .temperature = few.temperature,
                                  .top_k = few.top_k,
                                  .top_p = few.top_p,
                                  .seed = few.seed};
    must(sl_sampler_create(p.model, &options, &plain, &err));
    options.presence_penalty = 1.5f;
    must(sl_sampler_create(p.model, &options, &busy, &err));
    must(sl_sampler_create(p.model, &options, &apart, &err));
    must(sl_sampler_begin(apart, prompt, PROMPT, &err));
    for (int i = 0; i < 6; i++) {
        sl_token token, wanted;
        const bool is_plain = i / 2 % 2 == 0;
        must(sl_session_next_by(p.session, is_plain ? plain : busy, NULL, &token, &err));
        assert_int_equal(p.model->ahead == p.session,
                         is_plain && sl_forward_can_choose(p.model->forward));
        if (is_plain) {
            wanted = plainly(&p, &few);
        } else {
            size_t count;
            const float *logits = sl_session_logits(p.plain, &count);
            if (i == 2) must(sl_sampler_begin(apart, p.session->tokens, PROMPT + (size_t)i, &err));
            must(sl_sampler_choose(apart, logits, count, NULL, &wanted, &err));
            must(sl_session_extend(p.plain, &wanted, 1, &err));
        }
        assert_int_equal(token, wanted);
        must(sl_sampler_accept(apart, &token, 1, &err));
    }
    sl_sampler_info info = {.struct_size = sizeof info};
    must(sl_sampler_describe(plain, &info, &err));
    assert_true(info.plain_choices == 4 && info.host_choices == 0 && !info.host_reason);
    must(sl_sampler_describe(busy, &info, &err));
    assert_true(info.plain_choices == 0 && info.host_choices == 2);
    assert_string_equal(info.host_reason, "presence_penalty");
    sl_sampler_destroy(plain);
    sl_sampler_destroy(busy);
    sl_sampler_destroy(apart);
    close_pair(&p);
}

static void ends_are_told(sl_model *model) {
    pair p = open_pair(model);
    sl_token token;
    const sl_sampling wrong = {.struct_size = sizeof(sl_sampling), .temperature = -1};
    assert_int_equal(sl_session_next(p.session, &wrong, &token, &err), SL_INVALID);
    (void)next(&p, &any);
    sl_session_cancel(p.session);
    assert_int_equal(sl_session_next(p.session, &any, &token, &err), SL_CANCELLED);
    for (int i = PROMPT + 1; i < CONTEXT; i++) (void)next(&p, &any);
    assert_int_equal(sl_session_next(p.session, &any, &token, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "context of 16 tokens is full"));
    must(sl_session_sample(p.session, &any, &token, &err));
    must(sl_session_rewind(p.session, 0, &err));
    assert_int_equal(sl_session_next(p.session, &any, &token, &err), SL_INVALID);
    assert_int_equal(test_session_stats(p.session).decode_tokens, CONTEXT - PROMPT);
    close_pair(&p);
}

/* Passes without logits need no experts of the last layer; those that come after them do, and the
 * device's cache of experts grows under programs that are built already. */
static void conversations_are_alike(const char *device) {
    enum { TOKENS = 4 };
    static const sl_token tokens[TOKENS] = {11, 7, 40, 23};
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = device,
                                      .context_tokens = CONTEXT,
                                      .device_budget_share = 0.15};
    const sl_session_options how = {.struct_size = sizeof how, .chunk_tokens = 2};
    sl_model *model = NULL;
    float *first = NULL;
    must(sl_model_open("models/fable", &options, &model, &err));
    for (int i = 0; i < 2; i++) {
        size_t count;
        sl_session *session = NULL;
        must(sl_session_create(model, &how, &session, &err));
        must(sl_session_extend(session, tokens, TOKENS, &err));
        const float *logits = sl_session_logits(session, &count);
        if (!first) {
            first = malloc(count * sizeof *first);
            assert_non_null(first);
            memcpy(first, logits, count * sizeof *first);
        }
        assert_memory_equal(first, logits, count * sizeof *first);
        sl_session_destroy(session);
    }
    free(first);
    sl_model_close(model);
}

/* Programs are compiled once for all of these, which takes longest where kernels are emulated. */
static void test_model(sl_model *model) {
    tokens_are_the_same(model);
    anything_may_come_between(model);
    samplers_choose_alike(model);
    ends_are_told(model);
    sl_model_close(model);
}

static void on_the_cpu(void **state) {
    (void)state;
    sl_model *model = NULL;
    conversations_are_alike("cpu");
    must(open_model("cpu", &model));
    test_model(model);
}

/* The emulated driver is found by its name, once it is loaded; SLUICE_CUDA=device: the machine's.
 */
static bool load_driver(void) {
    const char *which = getenv("SLUICE_CUDA"), *driver = getenv("SLUICE_CUDA_EMULATOR");
    if (which && strcmp(which, "device") == 0) return true;
    return driver && dlopen(driver, RTLD_NOW | RTLD_GLOBAL);
}

static void on_accelerators(void **state) {
    (void)state;
    bool ran = false;
    const sl_device_row *row;
    if (!load_driver()) print_message("no emulated driver was built\n");
    for (uint32_t i = 0; (row = sl_device_row_at(i)); i++) {
        sl_model *model = NULL;
        if (!row->accelerator) continue;
        const sl_status status = open_model(row->name, &model);
        if (status == SL_UNSUPPORTED) {
            print_message("skipped: %s\n", err.message);
            continue;
        }
        must(status);
        test_model(model);
        conversations_are_alike(row->name);
        ran = true;
    }
    if (!ran) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_accelerators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
