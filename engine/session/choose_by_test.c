/* choose_by_test.c - Samplers on sessions of the bundled model, through the public API. */
#include "sluice/sampling.h"
#include "tests/support/described.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ANSWER = 30, CONTEXT = 128 };
static const char question[] = "Tell me a story about a snail. <think>";
static sl_error err;
static sl_model *model;
static sl_session *session;
static sl_token prompt[CONTEXT];
static size_t prompt_count;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static int open_all(void **state) {
    const sl_model_options options = {
        .struct_size = sizeof options, .device = "cpu", .context_tokens = CONTEXT};
    (void)state;
    must(sl_model_open("models/fable", &options, &model, &err));
    must(sl_session_create(model, NULL, &session, &err));
    must(
        sl_model_tokenize(model, question, strlen(question), prompt, CONTEXT, &prompt_count, &err));
    return 0;
}

static int close_all(void **state) {
    (void)state;
    sl_session_destroy(session);
    sl_model_close(model);
    return 0;
}

static int start(void **state) {
    (void)state;
    must(sl_session_rewind(session, 0, &err));
    must(sl_session_extend(session, prompt, prompt_count, &err));
    return 0;
}

static sl_sampler_options warm(void) {
    return (sl_sampler_options){
        .struct_size = sizeof(sl_sampler_options), .temperature = 1.3f, .seed = 11};
}

static sl_sampler *make(sl_sampler_options options) {
    sl_sampler *sampler = NULL;
    must(sl_sampler_create(model, &options, &sampler, &err));
    return sampler;
}

static void answer(sl_sampler *sampler, sl_token *out, int count) {
    for (int i = 0; i < count; i++) must(sl_session_next_by(session, sampler, NULL, &out[i], &err));
    assert_int_equal(sl_sampler_length(sampler), sl_session_length(session));
}

static void plain_tokens_are_those_of_next(void **state) {
    sl_token wanted[ANSWER], found[ANSWER], sampled;
    const sl_sampling sampling = {.struct_size = sizeof sampling, .temperature = 1.3f, .seed = 11};
    for (int i = 0; i < ANSWER; i++) must(sl_session_next(session, &sampling, &wanted[i], &err));
    start(state);
    sl_sampler *sampler = make(warm());
    must(sl_session_sample_by(session, sampler, NULL, &sampled, &err));
    assert_int_equal(sampled, wanted[0]);
    answer(sampler, found, ANSWER);
    assert_memory_equal(found, wanted, sizeof found);
    sl_sampler_destroy(sampler);
}

static void rewound_sessions_repeat_their_tokens(void **state) {
    (void)state;
    sl_sampler_options options = warm();
    options.repeat_penalty = 1.5f;
    options.dry_multiplier = 1;
    options.xtc_probability = 0.5f;
    options.mirostat = 2;
    options.mirostat_tau = 2;
    sl_sampler *sampler = make(options);
    sl_token first[ANSWER], again[ANSWER];
    answer(sampler, first, ANSWER);
    must(sl_session_rewind(session, prompt_count + 10, &err));
    answer(sampler, again, ANSWER - 10);
    assert_memory_equal(again, first + 10, (ANSWER - 10) * sizeof *again);
    sl_sampler_destroy(sampler);
}

static void penalties_change_the_answer(void **state) {
    sl_token plain[ANSWER], penalised[ANSWER];
    sl_sampler_options options = {.struct_size = sizeof options}; /* greedy */
    sl_sampler *sampler = make(options);
    answer(sampler, plain, ANSWER);
    sl_sampler_destroy(sampler);
    start(state);
    options.presence_penalty = 90; /* no token twice */
    options.repeat_last_n = -1;
    sampler = make(options);
    answer(sampler, penalised, ANSWER);
    for (int i = 0; i < ANSWER; i++)
        for (int k = 0; k < i; k++) assert_int_not_equal(penalised[i], penalised[k]);
    assert_int_not_equal(memcmp(plain, penalised, sizeof plain), 0);
    sl_sampler_destroy(sampler);
}

/* The log-probabilities of an answer are those that the same tokens have as a prompt. */
static void answers_and_prompts_have_the_same_logprobs(void **state) {
    sl_sampler_options options = warm();
    options.logprobs = 4;
    sl_sampler *sampler = make(options);
    const uint32_t vocab = test_model_info(model).vocab;
    sl_logprob found[ANSWER][4];
    sl_token tokens[ANSWER];
    for (int i = 0; i < ANSWER; i++) {
        uint32_t count = 0;
        must(sl_session_next_by(session, sampler, NULL, &tokens[i], &err));
        const sl_logprob *items = sl_sampler_logprobs(sampler, &count);
        assert_int_equal(count, 4);
        memcpy(found[i], items, sizeof found[i]);
        assert_int_equal(items[0].token, tokens[i]);
        assert_true(items[0].logprob <= 0 && items[1].logprob >= items[2].logprob);
    }
    start(state);
    float *logits = malloc(ANSWER * vocab * sizeof *logits);
    assert_non_null(logits);
    must(sl_session_extend_all(session, tokens, ANSWER, logits, NULL, &err));
    for (int i = 1; i < ANSWER; i++) {
        sl_logprob wanted[4];
        must(sl_logprobs_compute(logits + (size_t)(i - 1) * vocab, vocab, tokens[i], 3, wanted,
                                 &err));
        assert_int_equal(wanted[0].token, tokens[i]);
        for (int k = 0; k < 4; k++) /* rows together and one by one differ in the last bits */
            assert_true(fabs(wanted[k].logprob - found[i][k].logprob) <
                        1e-3 * (1 - wanted[k].logprob));
    }
    free(logits);
    sl_sampler_destroy(sampler);
}

static void masks_are_obeyed(void **state) {
    (void)state;
    const uint32_t vocab = test_model_info(model).vocab;
    uint32_t *allowed = calloc(vocab / 32 + 1, sizeof *allowed);
    assert_non_null(allowed);
    sl_sampler *sampler = make(warm());
    sl_token token;
    for (uint32_t i = 40; i < 60; i++) {
        memset(allowed, 0, (vocab / 32 + 1) * sizeof *allowed);
        allowed[i / 32] = 1u << i % 32;
        must(sl_session_next_by(session, sampler, allowed, &token, &err));
        assert_int_equal(token, i);
    }
    memset(allowed, 0, (vocab / 32 + 1) * sizeof *allowed);
    const size_t length = sl_session_length(session);
    assert_int_equal(sl_session_next_by(session, sampler, allowed, &token, &err), SL_INVALID);
    assert_int_equal(sl_session_length(session), length);
    must(sl_session_next_by(session, sampler, NULL, &token, &err)); /* goes on */
    sl_sampler_destroy(sampler);
    free(allowed);
}

/* The prompt ends in a tag, which is several tokens of this vocabulary. */
static void thoughts_are_ended(void **state) {
    sl_sampler_options options = {.struct_size = sizeof options};
    options.thinking_budget = 5;
    options.thinking_start = "think>";
    options.thinking_message = "!";
    for (int with_logprobs = 0; with_logprobs < 2; with_logprobs++) {
        start(state);
        options.logprobs = with_logprobs;
        sl_sampler *sampler = make(options);
        sl_token tokens[ANSWER], forced[16];
        size_t count, bytes = 0;
        must(sl_model_tokenize(model, "!</think>", 9, forced, 16, &count, &err));
        answer(sampler, tokens, ANSWER);
        assert_memory_equal(tokens + 5, forced, count * sizeof *forced);
        assert_memory_not_equal(tokens, forced, count * sizeof *forced);
        sl_sampler_info info = {.struct_size = sizeof info};
        must(sl_sampler_describe(sampler, &info, &err));
        assert_int_equal(info.forced_tokens, count);
        (void)sl_model_token_text(model, tokens[0], &bytes);
        assert_true(bytes > 0);
        sl_sampler_destroy(sampler);
    }
}

static void forks_go_their_own_way(void **state) {
    (void)state;
    sl_sampler_options options = warm();
    options.frequency_penalty = 0.5f;
    sl_sampler *sampler = make(options), *fork = NULL;
    sl_token tokens[ANSWER], others[ANSWER];
    answer(sampler, tokens, 5);
    must(sl_sampler_fork(sampler, &fork, &err));
    answer(sampler, tokens + 5, 10);
    sl_sampler_destroy(sampler);
    must(sl_session_rewind(session, prompt_count + 5, &err));
    answer(fork, others + 5, 10);
    assert_memory_equal(others + 5, tokens + 5, 10 * sizeof *tokens);
    assert_int_equal(sl_sampler_rewind(fork, 1000, &err), SL_INVALID);
    must(sl_sampler_rewind(fork, prompt_count, &err));
    assert_int_equal(sl_sampler_length(fork), prompt_count);
    sl_sampler_destroy(fork);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plain_tokens_are_those_of_next, start),
        cmocka_unit_test_setup(rewound_sessions_repeat_their_tokens, start),
        cmocka_unit_test_setup(penalties_change_the_answer, start),
        cmocka_unit_test_setup(answers_and_prompts_have_the_same_logprobs, start),
        cmocka_unit_test_setup(masks_are_obeyed, start),
        cmocka_unit_test_setup(thoughts_are_ended, start),
        cmocka_unit_test_setup(forks_go_their_own_way, start),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
