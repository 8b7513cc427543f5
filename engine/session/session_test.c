/* session_test.c - Sessions on the bundled demo model: results that must be bit-identical are
 * compared bit by bit. */
#include "base/memory.h"
#include "engine/session/session.h"
#include "sluice/inspect.h"
#include "sluice/sluice.h"
#include "tests/support/described.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "models/fable"
#ifdef SL_DEBUG
enum { REPLAYED = 1000, TOKENS = 90 }; /* sanitizers are slow */
#else
enum { REPLAYED = 10000, TOKENS = 150 };
#endif
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

static sl_session *open_session(sl_model *model, uint32_t chunk) {
    sl_session *session = NULL;
    const sl_session_options options = {.struct_size = sizeof options, .chunk_tokens = chunk};
    must(sl_session_create(model, &options, &session, &err));
    return session;
}

static void fill_tokens(sl_token *tokens, size_t count) {
    for (size_t i = 0; i < count; i++) tokens[i] = (sl_token)((i * 7919 + i * i * 31) % 1200);
}

/* Logits after every one of TOKENS tokens, under the given options.  Released by the caller. */
static float *all_logits(sl_model_options options, uint32_t chunk, sl_stats *stats) {
    sl_model *model = open_model(options);
    sl_session *session = open_session(model, chunk);
    sl_token tokens[TOKENS];
    fill_tokens(tokens, TOKENS);
    float *logits = malloc(TOKENS * test_model_info(model).vocab * sizeof *logits);
    must(sl_session_extend_all(session, tokens, TOKENS, logits, NULL, &err));
    if (stats) *stats = test_session_stats(session);
    sl_session_destroy(session);
    sl_model_close(model);
    return logits;
}

/* Bit by bit, so that -0 and 0 differ too. */
static void same(const void *a, const void *b, size_t rows) {
    enum { ROW_BYTES = 1280 * sizeof(float) };
    for (size_t r = 0; r < rows; r++)
        if (memcmp((const char *)a + r * ROW_BYTES, (const char *)b + r * ROW_BYTES, ROW_BYTES) !=
            0)
            fail_msg("logits differ at token %zu", r);
}

static void threads_do_not_change_results(void **state) {
    (void)state;
    float *one = all_logits((sl_model_options){.threads = 1}, 64, NULL);
    for (uint32_t threads = 2; threads <= 5; threads++) {
        float *many = all_logits((sl_model_options){.threads = threads}, 64, NULL);
        same(one, many, TOKENS);
        free(many);
    }
    free(one);
}

static void budgets_do_not_change_results(void **state) {
    (void)state;
    static const double shares[] = {0.25, 0.03};
    sl_stats unlimited, stats;
    float *all = all_logits((sl_model_options){0}, 32, &unlimited);
    for (size_t i = 0; i < 2; i++) {
        float *some = all_logits((sl_model_options){.expert_budget_share = shares[i]}, 32, &stats);
        same(all, some, TOKENS);
        assert_true(stats.expert_misses > unlimited.expert_misses);
        assert_int_equal(stats.expert_hits + stats.expert_misses,
                         unlimited.expert_hits + unlimited.expert_misses);
        free(some);
    }
    assert_true(unlimited.expert_misses <= 8 * 32); /* nothing is read twice */
    free(all);
}

static void readers_do_not_change_results(void **state) {
    (void)state;
    float *first = all_logits((sl_model_options){.expert_budget_share = 0.1}, 32, NULL);
    float *second =
        all_logits((sl_model_options){.expert_budget_share = 0.1, .reader = "threads"}, 32, NULL);
    same(first, second, TOKENS);
    free(first);
    free(second);
}

static double distance(const float *a, const float *b, size_t count) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

/* For comparisons to a few units in the last place: where a key is rounded to a half or an
 * activation to 8 bits, the last bit of a float may decide about a thousandth of it. */
static const sl_model_options exact = {.compile = "exact"};

/* The delta net's chunked form rounds differently from its step form; nothing else may.  With
 * activations in 8 bits chunks matter more, but less than having 8 bits does. */
static void chunks_hardly_change_results(void **state) {
    (void)state;
    static const uint32_t chunks[] = {2, 7, 64, 150};
    const size_t count = (size_t)TOKENS * 1280;
    float *one = all_logits(exact, 1, NULL), *coded = all_logits((sl_model_options){0}, 1, NULL);
    for (size_t i = 0; i < 4; i++) {
        float *other = all_logits(exact, chunks[i], NULL);
        assert_true(distance(other, one, count) < 5e-6);
        free(other);
        other = all_logits((sl_model_options){0}, chunks[i], NULL);
        assert_true(distance(other, coded, count) < distance(one, coded, count) / 2);
        free(other);
    }
    free(one);
    free(coded);
}

/* Quantised experts go with keys and values of 16 bits, unless told otherwise. */
static void halves_hardly_change_results(void **state) {
    (void)state;
    float *singles = all_logits(exact, 64, NULL);
    static const char *const kinds[] = {"f16", "i16"};
    for (int i = 0; i < 2; i++) {
        float *halves =
            all_logits((sl_model_options){.compile = "exact", .kv = kinds[i]}, 64, NULL);
        const double off = distance(halves, singles, (size_t)TOKENS * 1280);
        print_message("  %s keys and values: off by %.3g\n", kinds[i], off);
        assert_true(off > 0 && off < 1e-3);
        free(halves);
    }
    free(singles);
    float *unasked = all_logits((sl_model_options){0}, 64, NULL);
    float *asked = all_logits((sl_model_options){.kv = "i16"}, 64, NULL);
    float *automatic = all_logits((sl_model_options){.kv = "auto"}, 64, NULL);
    same(unasked, asked, TOKENS);
    same(unasked, automatic, TOKENS);
    free(unasked), free(asked), free(automatic);
    sl_model *large = open_model(exact), *small = open_model((sl_model_options){0});
    assert_true(test_model_info(small).state_bytes < test_model_info(large).state_bytes);
    sl_model_close(large);
    sl_model_close(small);
    sl_model *none = NULL;
    const sl_model_options wrong = {.struct_size = sizeof wrong, .kv = "q8"};
    assert_int_equal(sl_model_open(MODEL, &wrong, &none, &err), SL_INVALID);
    assert_string_equal(err.message, "keys and values as 'q8', wanted auto, i16, f16 or f32");
}

static void rewinding_is_like_never_having_gone_on(void **state) {
    (void)state;
    sl_model *model = open_model(exact);
    sl_session *session = open_session(model, 64);
    sl_token tokens[TOKENS];
    fill_tokens(tokens, TOKENS);
    float wanted[1280];
    must(sl_session_extend(session, tokens, 40, &err));
    must(sl_session_extend(session, tokens + 40, 1, &err));
    memcpy(wanted, sl_session_logits(session, NULL), sizeof wanted);
    must(sl_session_extend(session, tokens + 41, 20, &err));
    static const size_t lengths[] = {40, 30, 0};
    for (size_t i = 0; i < 3; i++) {
        must(sl_session_rewind(session, lengths[i], &err));
        assert_int_equal(sl_session_length(session), lengths[i]);
        assert_null(sl_session_logits(session, NULL));
        if (lengths[i] < 40)
            must(sl_session_extend(session, tokens + lengths[i], 40 - lengths[i], &err));
        must(sl_session_extend(session, tokens + 40, 1, &err));
        assert_true(distance(sl_session_logits(session, NULL), wanted, 1280) < 5e-6);
    }
    assert_int_equal(sl_session_rewind(session, 999, &err), SL_INVALID);
    sl_session_destroy(session);
    sl_model_close(model);
}

static void cancelling_keeps_what_is_done(void **state) {
    (void)state;
    sl_model *model = open_model(exact);
    sl_session *session = open_session(model, 8);
    sl_token tokens[TOKENS];
    fill_tokens(tokens, TOKENS);
    must(sl_session_extend(session, tokens, 24, &err));
    sl_session_cancel(session);
    assert_int_equal(sl_session_extend(session, tokens + 24, 24, &err), SL_CANCELLED);
    assert_int_equal(sl_session_length(session), 24);
    must(sl_session_extend(session, tokens + 24, 24, &err)); /* one cancel stops one call */
    float resumed[1280];
    memcpy(resumed, sl_session_logits(session, NULL), sizeof resumed);
    must(sl_session_rewind(session, 0, &err));
    must(sl_session_extend(session, tokens, 48, &err));
    assert_true(distance(resumed, sl_session_logits(session, NULL), 1280) < 5e-6);
    sl_session_destroy(session);
    sl_model_close(model);
}

/* Tokens that were there before a call stay, even if they have to be computed again. */
static void cancelling_keeps_what_was_kept(void **state) {
    (void)state;
    sl_model *model = open_model(exact);
    sl_session *session = open_session(model, 8);
    sl_token tokens[TOKENS], token;
    float resumed[1280];
    fill_tokens(tokens, TOKENS);
    must(sl_session_extend(session, tokens, 40, &err));
    must(sl_session_rewind(session, 30, &err));
    sl_session_cancel(session);
    assert_int_equal(sl_session_extend(session, tokens + 30, 1, &err), SL_CANCELLED);
    assert_int_equal(sl_session_length(session), 30);
    sl_session_cancel(session);
    assert_int_equal(sl_session_sample(session, &(sl_sampling){.struct_size = sizeof(sl_sampling)},
                                       &token, &err),
                     SL_CANCELLED);
    assert_int_equal(sl_session_length(session), 30);
    must(sl_session_extend(session, tokens + 30, 1, &err));
    memcpy(resumed, sl_session_logits(session, NULL), sizeof resumed);
    must(sl_session_rewind(session, 0, &err));
    must(sl_session_extend(session, tokens, 31, &err));
    assert_true(distance(resumed, sl_session_logits(session, NULL), 1280) < 5e-6);
    sl_session_destroy(session);
    sl_model_close(model);
}

static sl_status cancel_session(void *ctx, const sl_layer_item *item, sl_error *no_err) {
    (void)item, (void)no_err;
    sl_session_cancel(ctx);
    return SL_OK;
}

static void cancelling_in_the_last_pass_is_told(void **state) {
    (void)state;
    sl_model *model = open_model(exact);
    sl_session *session = open_session(model, 8);
    const sl_layer_options options = {
        .struct_size = sizeof options, .layers = cancel_session, .ctx = session};
    sl_token tokens[TOKENS];
    fill_tokens(tokens, TOKENS);
    assert_int_equal(sl_session_extend_layers(session, tokens, 8, &options, &err), SL_CANCELLED);
    assert_int_equal(sl_session_length(session), 8);
    assert_non_null(sl_session_logits(session, NULL));
    must(sl_session_extend(session, tokens + 8, 8, &err));
    sl_session_destroy(session);
    sl_model_close(model);
}

static void logits_that_are_no_numbers(void **state) {
    (void)state;
    sl_model *model = open_model(exact);
    sl_session *session = open_session(model, 8);
    static float broken[1280];
    sl_token token;
    for (int i = 0; i < 1280; i++) broken[i] = NAN;
    static const sl_sampling hows[] = {
        {.struct_size = sizeof hows[0]},
        {.struct_size = sizeof hows[0], .temperature = 1},
        {.struct_size = sizeof hows[0], .temperature = 1, .top_k = 5}};
    for (int h = 0; h < 3; h++) {
        must(sl_session_rewind(session, 0, &err));
        must(sl_session_extend(session, (sl_token[]){1, 2, 3}, 3, &err));
        session->found = broken;
        assert_int_equal(sl_session_sample(session, &hows[h], &token, &err), SL_FORMAT);
        assert_non_null(strstr(err.message, "no logit after 3 tokens is a number"));
        assert_int_equal(sl_session_next(session, &hows[h], &token, &err), SL_FORMAT);
        assert_int_equal(sl_session_length(session), 3);
    }
    sl_session_destroy(session);
    sl_model_close(model);
}

/* Sessions of one model share programs and experts but not state. */
static void sessions_do_not_disturb_each_other(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){.max_sessions = 2});
    sl_session *a = open_session(model, 16), *b = open_session(model, 16), *none = NULL;
    assert_int_equal(sl_session_create(model, NULL, &none, &err), SL_INVALID);
    sl_token tokens[TOKENS], others[TOKENS];
    fill_tokens(tokens, TOKENS);
    for (int i = 0; i < TOKENS; i++) others[i] = 1199 - tokens[i];
    must(sl_session_extend(a, tokens, 20, &err));
    float alone[1280];
    must(sl_session_extend(a, tokens + 20, 1, &err));
    memcpy(alone, sl_session_logits(a, NULL), sizeof alone);
    must(sl_session_rewind(a, 20, &err));
    const sl_stats before = test_session_stats(a);
    assert_int_equal(test_session_stats(b).expert_hits + test_session_stats(b).expert_misses, 0);
    must(sl_session_extend(b, others, 33, &err));
    assert_true(test_session_stats(b).expert_hits > 0 && test_session_stats(b).expert_misses > 0);
    assert_int_equal(test_session_stats(a).expert_hits, before.expert_hits);
    assert_int_equal(test_session_stats(a).expert_misses, before.expert_misses);
    must(sl_session_extend(a, tokens + 20, 1, &err));
    assert_memory_equal(alone, sl_session_logits(a, NULL), sizeof alone);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_model_close(model);
}

/* Larger steps make the device's memory grow under programs that are kept; sessions come and go. */
static void growing_and_releasing_disturb_nothing(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){.max_sessions = 2});
    sl_session *a = open_session(model, 128), *b = open_session(model, 128);
    enum { MOST = 125 };
    sl_token tokens[MOST];
    fill_tokens(tokens, MOST);
    must(sl_session_extend(a, tokens, 3, &err));
    must(sl_session_extend(a, tokens + 3, 1, &err));
    float wanted[1280];
    memcpy(wanted, sl_session_logits(a, NULL), sizeof wanted);
    for (size_t count = 5; count <= MOST; count += 40) {
        must(sl_session_rewind(a, 3, &err));
        must(sl_session_extend(b, tokens, count, &err)); /* a new and larger shape */
        sl_session_destroy(b);
        b = open_session(model, 128);
        must(sl_session_extend(a, tokens + 3, 1, &err));
        same(wanted, sl_session_logits(a, NULL), 1);
    }
    sl_session_destroy(a);
    must(sl_session_extend(b, tokens, 3, &err));
    must(sl_session_extend(b, tokens + 3, 1, &err));
    same(wanted, sl_session_logits(b, NULL), 1);
    sl_session_destroy(b);
    sl_model_close(model);
}

static int slow_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)what, (void)done, (void)total;
    ++*(int *)ctx;
    (void)usleep(10000);
    return 0;
}

/* Programs are compiled before weights are read; what reading takes is not theirs. */
static void reading_weights_is_not_compiling(void **state) {
    (void)state;
    int calls = 0;
    sl_model *model = open_model(
        (sl_model_options){.device = "cpu", .progress = slow_progress, .progress_ctx = &calls});
    sl_session *session = open_session(model, 16);
    const sl_stats stats = test_session_stats(session);
    assert_true(calls > 50);
    const sl_model_info info = test_model_info(model);
    assert_true(info.weights_seconds > 0.01 * calls);
    assert_true(stats.compile_seconds > 0 && stats.compile_seconds <= info.memory_seconds);
    sl_session_destroy(session);
    sl_model_close(model);
}

static void mistakes_are_explained(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){.context_tokens = 32});
    sl_session *session = open_session(model, 16);
    sl_token tokens[40] = {0};
    sl_token out;
    assert_int_equal(
        sl_session_sample(session, &(sl_sampling){.struct_size = sizeof(sl_sampling)}, &out, &err),
        SL_INVALID);
    assert_int_equal(sl_session_extend(session, tokens, 40, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "40 tokens"));
    tokens[1] = 5000;
    assert_int_equal(sl_session_extend(session, tokens, 2, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "5000"));
    assert_int_equal(sl_session_extend(session, tokens, 0, &err), SL_INVALID);
    assert_int_equal(sl_session_length(session), 0);
    sl_session_destroy(session);
    sl_model_close(model);
    sl_model *none = NULL;
    const sl_model_options tiny = {.struct_size = sizeof tiny, .expert_budget_bytes = 1000};
    assert_int_equal(sl_model_open(MODEL, &tiny, &none, &err), SL_NO_MEMORY);
    const sl_model_options device = {.struct_size = sizeof device, .device = "abacus"};
    assert_int_equal(sl_model_open(MODEL, &device, &none, &err), SL_UNSUPPORTED);
    assert_int_equal(sl_model_open("no/such/model", NULL, &none, &err), SL_IO);
}

/* Counts what goes through the model's allocator. */
static void *counting_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                             size_t align) {
    if (new_bytes) ++*(uint64_t *)ctx;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void decoding_allocates_nothing(void **state) {
    (void)state;
    uint64_t allocations = 0;
    sl_model *model = open_model((sl_model_options){.allocator = {counting_resize, &allocations},
                                                    .expert_budget_share = 0.1});
    sl_session *session = open_session(model, 64);
    sl_token tokens[TOKENS];
    fill_tokens(tokens, TOKENS);
    must(sl_session_extend(session, tokens, 10, &err));
    const uint64_t before = allocations;
    assert_true(before > 0);
    for (int token = 0; token < REPLAYED; token++) {
        if (sl_session_length(session) == TOKENS) must(sl_session_rewind(session, 10, &err));
        sl_token next = tokens[token % TOKENS];
        const sl_sampling sampling = {.struct_size = sizeof(sl_sampling),
                                      .temperature = 1,
                                      .top_k = 40,
                                      .top_p = 0.9f,
                                      .seed = 1};
        if (sl_session_length(session) > 10)
            must(sl_session_sample(session, &sampling, &next, &err));
        must(sl_session_extend(session, &next, 1, &err));
    }
    assert_int_equal(allocations, before);
    assert_int_equal(test_session_stats(session).programs_compiled, 3); /* two when it was opened */
    sl_session_destroy(session);
    sl_model_close(model);
}

/* Fails the nth allocation; whatever fails must be reported, and nothing may leak. */
typedef struct {
    uint64_t count, fail_at;
    int64_t balance;
} failing;

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    failing *f = ctx;
    if (new_bytes && ++f->count == f->fail_at) return NULL;
    f->balance += (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0);
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

static void running_out_of_memory_is_survived(void **state) {
    (void)state;
    uint64_t failures = 0;
    for (uint64_t at = 1;; at += 1 + at / 8) {
        failing f = {.fail_at = at};
        sl_model *model = NULL;
        sl_session *session = NULL;
        const sl_model_options options = {.struct_size = sizeof options,
                                          .device = "cpu", /* not what is left without a GPU */
                                          .allocator = {failing_resize, &f}};
        sl_token tokens[4] = {1, 2, 3, 4};
        sl_status status = sl_model_open(MODEL, &options, &model, &err);
        if (status == SL_OK) status = sl_session_create(model, NULL, &session, &err);
        if (status == SL_OK) status = sl_session_extend(session, tokens, 4, &err);
        sl_session_destroy(session);
        sl_model_close(model);
        assert_int_equal(f.balance, 0);
        if (f.count < at) {
            must(status);
            break;
        }
        assert_int_equal(status, SL_NO_MEMORY);
        failures++;
    }
    assert_true(failures > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_results),
        cmocka_unit_test(budgets_do_not_change_results),
        cmocka_unit_test(readers_do_not_change_results),
        cmocka_unit_test(chunks_hardly_change_results),
        cmocka_unit_test(halves_hardly_change_results),
        cmocka_unit_test(rewinding_is_like_never_having_gone_on),
        cmocka_unit_test(cancelling_keeps_what_is_done),
        cmocka_unit_test(cancelling_keeps_what_was_kept),
        cmocka_unit_test(cancelling_in_the_last_pass_is_told),
        cmocka_unit_test(logits_that_are_no_numbers),
        cmocka_unit_test(sessions_do_not_disturb_each_other),
        cmocka_unit_test(growing_and_releasing_disturb_nothing),
        cmocka_unit_test(reading_weights_is_not_compiling),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(decoding_allocates_nothing),
        cmocka_unit_test(running_out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
