/* sampler_test.c - Samplers against transformers and published formulas
 * (tools/make_sampling_fixtures.py), and what they promise: the tokens of sl_sample where nothing
 * else is set, reproducible draws, going back and copies. */
#include "engine/choose/sampler.h"
#include "engine/session/sample.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_LISTED = 8, VOCAB = 5000, WORDS_SIZE = 32 };

static sl_error err;
static const char *words[WORDS_SIZE];
static uint32_t word_count;

static const char *word_of(const void *ctx, sl_token token, size_t *bytes) {
    (void)ctx;
    const char *word = word_count ? words[(uint32_t)token % word_count] : "a";
    *bytes = strlen(word);
    return word;
}

static sl_sampler *make(const sl_choose_vocabulary *vocabulary, const sl_sampler_options *options) {
    sl_sampler *sampler = NULL;
    if (sl_sampler_make(vocabulary, options, NULL, &sampler, &err) != SL_OK)
        fail_msg("%s", err.message);
    return sampler;
}

static void append(sl_sampler *s, const sl_token *tokens, size_t count, bool of_answer) {
    if (sl_sampler_append(s, tokens, count, of_answer, &err) != SL_OK) fail_msg("%s", err.message);
}

/* ---- fixtures ---- */

typedef struct {
    sl_sampler_options options;
    sl_logit_bias biases[MOST_LISTED];
    const char *breakers[MOST_LISTED];
} listed_options;

static void read_options(const json_t *json, listed_options *out) {
    const char *name;
    json_t *value;
    *out = (listed_options){.options = {.struct_size = sizeof out->options}};
    json_object_foreach((json_t *)json, name, value) {
        sl_sampler_options *o = &out->options;
        char text[64];
        if (strcmp(name, "dry_breakers") == 0) {
            o->dry_breakers = out->breakers;
            o->dry_breaker_count = (uint32_t)json_array_size(value);
            for (size_t i = 0; i < json_array_size(value); i++)
                out->breakers[i] = json_string_value(json_array_get(value, i));
        } else if (strcmp(name, "logit_bias") == 0) {
            o->logit_bias = out->biases;
            o->logit_bias_count = (uint32_t)json_array_size(value);
            for (size_t i = 0; i < json_array_size(value); i++) {
                const json_t *pair = json_array_get(value, i), *bias = json_array_get(pair, 1);
                out->biases[i] = (sl_logit_bias){
                    (sl_token)json_integer_value(json_array_get(pair, 0)),
                    json_is_null(bias) ? -INFINITY : (float)json_number_value(bias)};
            }
        } else {
            const char *set = json_string_value(value);
            (void)snprintf(text, sizeof text, "%.17g", json_number_value(value));
            if (sl_option_set(o, name, set ? set : text, &err) != SL_OK)
                fail_msg("%s", err.message);
        }
    }
}

static void read_tokens(const json_t *json, sl_token *out, size_t most) {
    assert_true(json_array_size(json) <= most);
    for (size_t i = 0; i < json_array_size(json); i++)
        out[i] = (sl_token)json_integer_value(json_array_get(json, i));
}

static double weight_of(const sl_kept_token *items, uint32_t count, sl_token token) {
    for (uint32_t i = 0; i < count; i++)
        if (items[i].token == token) return (double)items[i].weight;
    return -1;
}

static void check_left(sl_sampler *s, const json_t *test, const float *logits, size_t number) {
    const json_t *left = json_object_get(test, "left");
    const sl_kept_token *items;
    const uint32_t count = sl_sampler_left(s, logits, NULL, &items);
    double sum = 0;
    char *options = json_dumps(json_object_get(test, "options"), 0);
    for (uint32_t i = 0; i < count; i++) sum += (double)items[i].weight;
    for (size_t i = 0; i < json_array_size(left); i++) {
        const json_t *pair = json_array_get(left, i);
        const sl_token token = (sl_token)json_integer_value(json_array_get(pair, 0));
        const double wanted = json_number_value(json_array_get(pair, 1));
        const double found = weight_of(items, count, token) / sum;
        if (fabs(found - wanted) > 1e-5)
            fail_msg("case %zu %s: token %d has probability %g, wanted %g", number, options, token,
                     found, wanted);
    }
    if (count != json_array_size(left))
        fail_msg("case %zu %s: %u tokens are left, wanted %zu", number, options, count,
                 json_array_size(left));
    free(options);
}

static void check_fixture(const json_t *test, size_t number) {
    enum { MOST = 512 };
    static sl_token tokens[MOST];
    static float logits[MOST];
    listed_options given;
    const json_t *of_logits = json_object_get(test, "logits");
    const json_t *of_tokens = json_object_get(test, "tokens");
    const size_t prompt = (size_t)json_integer_value(json_object_get(test, "prompt"));
    read_options(json_object_get(test, "options"), &given);
    read_tokens(of_tokens, tokens, MOST);
    for (size_t i = 0; i < json_array_size(of_logits); i++)
        logits[i] = (float)json_number_value(json_array_get(of_logits, i));
    if (!json_object_get(json_object_get(test, "options"), "temperature"))
        given.options.temperature = 0.8f;
    if (!given.options.samplers) /* a chain in any case */
        given.options.samplers =
            "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    const sl_choose_vocabulary vocabulary = {.size = (uint32_t)json_array_size(of_logits),
                                             .text = word_of};
    sl_sampler *s = make(&vocabulary, &given.options);
    append(s, tokens, prompt, false);
    append(s, tokens + prompt, json_array_size(of_tokens) - prompt, true);
    for (int again = 0; again < 2; again++) check_left(s, test, logits, number);
    sl_sampler_free(s);
}

static void what_others_compute(void **state) {
    (void)state;
    json_error_t problem;
    json_t *file = json_load_file("tests/data/choose/sampling.json", 0, &problem);
    if (!file) fail_msg("%s", problem.text);
    const json_t *of_words = json_object_get(file, "words"),
                 *cases = json_object_get(file, "cases");
    word_count = (uint32_t)json_array_size(of_words);
    assert_true(word_count <= WORDS_SIZE && json_array_size(cases) > 200);
    for (uint32_t i = 0; i < word_count; i++)
        words[i] = json_string_value(json_array_get(of_words, i));
    for (size_t i = 0; i < json_array_size(cases); i++) check_fixture(json_array_get(cases, i), i);
    word_count = 0;
    json_decref(file);
}

/* ---- random logits ---- */

static uint64_t random_state = 88172645463325252u;
static double uniform(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return ((double)(random_state >> 11) + 1) * 0x1p-53;
}
static uint32_t below(uint32_t limit) {
    return (uint32_t)(uniform() * limit * 0.999999);
}
static void fill(float *logits, uint32_t vocab) {
    for (uint32_t i = 0; i < vocab; i++)
        logits[i] = (float)(3 * sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
    for (uint32_t i = 0; i < 8; i++) logits[below(vocab)] = 12 - (float)i;
}

static sl_sampler_options random_plain(int trial) {
    return (sl_sampler_options){.temperature = trial % 7 ? 0.3f + (float)uniform() : 0,
                                .top_k = trial % 2 ? 1 + below(60) : 0,
                                .top_p = trial % 3 ? (float)uniform() : 0,
                                .min_p = trial % 5 ? (float)uniform() * 0.2f : 0,
                                .seed = (uint64_t)trial};
}

static const sl_choose_vocabulary plain_vocabulary = {.size = VOCAB, .text = word_of};
static float logits[VOCAB];
static sl_candidate room[2 * VOCAB];

/* Plain options, a mask of all tokens, and penalties that change nothing: sl_sample's tokens. */
static void plain_choices_are_those_of_today(void **state) {
    (void)state;
    static uint32_t all[VOCAB / 32 + 1];
    memset(all, 0xff, sizeof all);
    for (int trial = 0; trial < 300; trial++) {
        const sl_sampler_options options = random_plain(trial);
        sl_sampler_options changed = options;
        changed.presence_penalty = 1; /* of tokens of the answer: there is none */
        const sl_logit_bias ban = {.token = (sl_token)below(VOCAB), .bias = -INFINITY};
        sl_sampler *s = make(&plain_vocabulary, &options);
        sl_sampler *other = make(&plain_vocabulary, &changed);
        changed.logit_bias = &ban;
        changed.logit_bias_count = 1;
        sl_sampler *banning = make(&plain_vocabulary, &changed);
        assert_true(sl_sampler_is_plain(s, NULL) && !sl_sampler_is_plain(other, NULL));
        fill(logits, VOCAB);
        for (int i = 0; i < 4; i++) {
            const sl_token last = (sl_token)below(VOCAB);
            append(s, &last, 1, false);
            append(other, &last, 1, false);
            append(banning, &last, 1, false);
            const sl_sampling sampling = sl_sampler_plain(s);
            const sl_token wanted = sl_sample(logits, VOCAB, &sampling, (uint64_t)i + 1, room);
            sl_token found;
            assert_int_equal(sl_sampler_pick(s, logits, NULL, &found, &err), SL_OK);
            assert_int_equal(found, wanted);
            assert_int_equal(sl_sampler_pick(s, logits, all, &found, &err), SL_OK);
            assert_int_equal(found, wanted);
            assert_int_equal(sl_sampler_pick(other, logits, NULL, &found, &err), SL_OK);
            assert_int_equal(found, wanted);
            assert_int_equal(sl_sampler_pick(banning, logits, NULL, &found, &err), SL_OK);
            assert_int_not_equal(found, ban.token);
        }
        sl_sampler_free(s);
        sl_sampler_free(other);
        sl_sampler_free(banning);
    }
}

/* A chain in the order of sl_choose draws the same tokens, but where a sum is at its border. */
static void a_chain_in_the_same_order_draws_alike(void **state) {
    (void)state;
    int differing = 0, drawn = 0;
    for (int trial = 1; trial < 200; trial++) {
        sl_sampler_options options = random_plain(trial), chained = options;
        if (options.top_k == 0) options.top_k = chained.top_k = 50;
        chained.samplers = "penalties,dry,temperature,top_k,top_p,min_p";
        sl_sampler *s = make(&plain_vocabulary, &options), *c = make(&plain_vocabulary, &chained);
        for (int i = 0; i < 20; i++, drawn++) {
            sl_token token, other;
            fill(logits, VOCAB);
            assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
            assert_int_equal(sl_sampler_pick(c, logits, NULL, &other, &err), SL_OK);
            differing += token != other;
            append(s, &token, 1, true);
            append(c, &token, 1, true);
        }
        sl_sampler_free(s);
        sl_sampler_free(c);
    }
    if (differing * 1000 > drawn) fail_msg("%d of %d draws differ", differing, drawn);
}

/* ---- masks, ends, budgets ---- */

static void masks_leave_what_they_allow(void **state) {
    (void)state;
    static uint32_t allowed[VOCAB / 32 + 1];
    const char *const orders[] = {NULL, "top_k;top_p;temperature", "temperature"};
    for (int trial = 0; trial < 150; trial++) {
        sl_sampler_options options = random_plain(trial);
        options.samplers = orders[trial % 3];
        if (trial % 11 == 0) options.mirostat = 1 + (uint32_t)trial % 2;
        sl_sampler *s = make(&plain_vocabulary, &options);
        fill(logits, VOCAB);
        memset(allowed, 0, sizeof allowed);
        const uint32_t count = 1 + below(5);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t token = below(VOCAB);
            allowed[token / 32] |= 1u << token % 32;
        }
        for (sl_token i = 0; i < 50; i++) {
            sl_token token;
            assert_int_equal(sl_sampler_pick(s, logits, allowed, &token, &err), SL_OK);
            assert_true(allowed[token / 32] >> token % 32 & 1);
            append(s, &i, 1, true);
        }
        memset(allowed, 0, sizeof allowed);
        sl_token token;
        assert_int_equal(sl_sampler_pick(s, logits, allowed, &token, &err), SL_INVALID);
        assert_non_null(strstr(err.message, "no token is possible"));
        for (int i = 0; i < VOCAB; i++) logits[i] = NAN;
        assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_FORMAT);
        sl_sampler_free(s);
    }
}

/* A logit that is no number stays impossible when it is penalised, or has a bias. */
static void no_number_is_never_chosen(void **state) {
    (void)state;
    static const sl_token said[] = {4, 4, 6};
    static const sl_logit_bias bias = {8, 5};
    const sl_sampler_options options = {.temperature = 1,
                                        .top_k = 3,
                                        .repeat_penalty = 1.2f,
                                        .presence_penalty = 0.5f,
                                        .logit_bias = &bias,
                                        .logit_bias_count = 1};
    sl_sampler *s = make(&plain_vocabulary, &options);
    append(s, said, 3, true);
    for (uint32_t i = 0; i < 20; i++) {
        sl_token token;
        fill(logits, VOCAB);
        logits[4] = logits[6] = logits[8] = NAN;
        assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
        assert_false(isnan(logits[token]));
        append(s, said, 1, true);
    }
    sl_sampler_free(s);
}

static void ends_wait_for_min_tokens(void **state) {
    (void)state;
    static const sl_token ends[] = {7, 9};
    sl_choose_vocabulary vocabulary = plain_vocabulary;
    vocabulary.ends = (sl_token_list){ends, 2};
    sl_sampler_options options = {.min_tokens = 3};
    sl_sampler *s = make(&vocabulary, &options);
    const sl_token prompt[] = {1, 2, 3, 4, 5};
    sl_token token;
    fill(logits, VOCAB);
    logits[7] = 40, logits[9] = 39, logits[11] = 38;
    append(s, prompt, 5, false);
    for (int i = 0; i < 3; i++) {
        assert_false(sl_sampler_is_plain(s, NULL));
        assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
        assert_int_equal(token, 11);
        append(s, &token, 1, true);
    }
    assert_true(sl_sampler_is_plain(s, NULL));
    assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
    assert_int_equal(token, 7);
    sl_history_rewind(&s->history, 6); /* one token of the answer */
    assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
    assert_int_equal(token, 11);
    sl_sampler_free(s);
    options = (sl_sampler_options){.ignore_eos = 1};
    s = make(&vocabulary, &options);
    assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
    assert_int_equal(token, 11);
    sl_sampler_free(s);
}

/* Start 20 21, end 30, forced 40 30.  Returns what is chosen after the tokens. */
static sl_token after(const sl_choose_vocabulary *v, int32_t budget, const sl_token *prompt,
                      size_t prompt_count, const sl_token *answer, size_t answer_count) {
    const sl_sampler_options options = {.thinking_budget = budget};
    sl_sampler *s = make(v, &options);
    sl_token token;
    append(s, prompt, prompt_count, false);
    append(s, answer, answer_count, true);
    assert_int_equal(sl_sampler_pick(s, logits, NULL, &token, &err), SL_OK);
    sl_sampler_free(s);
    return token;
}

static void thoughts_end_with_their_budget(void **state) {
    (void)state;
    static const sl_token start[] = {20, 21}, end[] = {30}, forced[] = {40, 30};
    sl_choose_vocabulary v = plain_vocabulary;
    v.thought_start = (sl_token_list){start, 2};
    v.thought_end = (sl_token_list){end, 1};
    v.thought_forced = (sl_token_list){forced, 2};
    fill(logits, VOCAB);
    logits[77] = 50;
#define AFTER(BUDGET, PROMPT, ANSWER)                                                              \
    after(&v, BUDGET, (const sl_token[])PROMPT,                                                    \
          sizeof((const sl_token[])PROMPT) / sizeof(sl_token), (const sl_token[])ANSWER,           \
          sizeof((const sl_token[])ANSWER) / sizeof(sl_token))
#define LIST(...) {__VA_ARGS__}
    assert_int_equal(AFTER(3, LIST(1, 20, 21, 5, 5, 5), LIST(1, 2)),
                     77); /* only the answer counts */
    assert_int_equal(AFTER(3, LIST(1, 20, 21), LIST(1, 2, 3)), 40);
    assert_int_equal(AFTER(3, LIST(1, 20, 21), LIST(1, 2, 3, 40)), 30);
    assert_int_equal(AFTER(3, LIST(1, 20, 21), LIST(1, 2, 3, 40, 30)), 77);
    assert_int_equal(AFTER(3, LIST(1, 20, 21), LIST(1, 30, 3, 4, 5)), 77); /* it ended itself */
    assert_int_equal(AFTER(3, LIST(1, 20, 21, 30), LIST(1, 2, 3, 4)), 77);
    assert_int_equal(AFTER(3, LIST(1, 20), LIST(21, 2, 3)), 77);
    assert_int_equal(AFTER(3, LIST(1, 20), LIST(21, 2, 3, 4)), 40);
    assert_int_equal(AFTER(3, LIST(1), LIST(20, 21, 30, 20, 21, 1, 2, 3)), 40); /* each thought */
    assert_int_equal(AFTER(SL_SAMPLER_NONE, LIST(1, 20, 21), LIST(40)), 30);    /* at once */
    assert_int_equal(AFTER(-1, LIST(1, 20, 21), LIST(1, 2, 3, 4)), 77);
#undef AFTER
#undef LIST
}

/* ---- going back, copies, statistics ---- */

static const sl_sampler_options busy_options[] = {
    {.temperature = 1,
     .repeat_penalty = 1.3f,
     .repeat_last_n = 20,
     .frequency_penalty = 0.2f,
     .seed = 5},
    {.temperature = 1.2f,
     .dry_multiplier = 1,
     .dry_allowed_length = 1,
     .xtc_probability = 0.5f,
     .seed = 6},
    {.temperature = 0.9f, .mirostat = 2, .mirostat_tau = 3, .seed = 7},
    {.temperature = 0.9f, .mirostat = 1, .mirostat_tau = 3, .seed = 8},
    {.temperature = 1, .typical_p = 0.7f, .top_n_sigma = 2, .dynatemp_range = 0.4f, .seed = 9},
};
enum { BUSY = sizeof busy_options / sizeof busy_options[0], STEPS = 40, SMALL = 60 };

static const float *step_logits(size_t position) {
    static float of_step[SMALL];
    random_state = 88172645463325252u + position * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 10; i++) (void)uniform();
    for (int i = 0; i < SMALL; i++) of_step[i] = (float)(4 * uniform());
    return of_step;
}

static sl_token step(sl_sampler *s) {
    sl_token token;
    const float *of_step = step_logits(s->history.length);
    assert_int_equal(sl_sampler_pick(s, of_step, NULL, &token, &err), SL_OK);
    append(s, &token, 1, true);
    return token;
}

static void rewinding_and_copies_repeat_choices(void **state) {
    (void)state;
    const sl_choose_vocabulary vocabulary = {.size = SMALL, .text = word_of};
    for (int b = 0; b < BUSY; b++) {
        sl_token tokens[STEPS], other[STEPS];
        int differing = 0;
        sl_sampler *s = make(&vocabulary, &busy_options[b]), *copy = NULL;
        const sl_token prompt[] = {3, 4, 5, 3, 4};
        append(s, prompt, 5, false);
        for (int i = 0; i < STEPS; i++) tokens[i] = step(s);
        sl_history_rewind(&s->history, 5 + 11);
        assert_int_equal(sl_sampler_copy(s, &copy, &err), SL_OK);
        for (int i = 11; i < STEPS; i++) assert_int_equal(step(s), tokens[i]);
        const sl_token another = (tokens[11] + 1) % SMALL; /* the copy goes its own way */
        append(copy, &another, 1, true);
        for (int i = 12; i < STEPS; i++) differing += step(copy) != tokens[i];
        assert_true(differing > 0 || busy_options[b].repeat_penalty == 0);
        /* A sampler that is told the same sequence is where the first one is, but for mirostat,
         * which remembers how surprising its own choices were. */
        if (!busy_options[b].mirostat) {
            sl_sampler *told = make(&vocabulary, &busy_options[b]);
            append(told, prompt, 5, false);
            append(told, tokens, 20, true);
            for (int i = 20; i < STEPS; i++) other[i] = step(told);
            assert_memory_equal(other + 20, tokens + 20, (STEPS - 20) * sizeof *other);
            sl_sampler_free(told);
        }
        sl_sampler_free(copy);
        sl_sampler_free(s);
    }
}

/* After each choice mirostat's mu is less by eta * (surprise - tau). */
static void mirostat_remembers_surprise(void **state) {
    (void)state;
    const sl_choose_vocabulary vocabulary = {.size = SMALL, .text = word_of};
    for (uint32_t version = 1; version <= 2; version++) {
        const sl_sampler_options options = {.temperature = 1.1f,
                                            .mirostat = version,
                                            .mirostat_tau = 2,
                                            .mirostat_eta = 0.25f,
                                            .seed = 3};
        sl_sampler *s = make(&vocabulary, &options);
        double mu = 4;
        for (int i = 0; i < STEPS; i++) {
            const sl_kept_token *items;
            const float *of_step = step_logits(s->history.length);
            const uint32_t count = sl_sampler_left(s, of_step, NULL, &items);
            double sum = 0;
            sl_kept_token kept[SMALL];
            memcpy(kept, items, count * sizeof *kept);
            for (uint32_t k = 0; k < count; k++) sum += (double)kept[k].weight;
            const sl_token token = step(s);
            mu -= 0.25 * (-log2(weight_of(kept, count, token) / sum) - 2);
            assert_true(fabs((double)sl_history_state(&s->history).surprise - mu) < 1e-4);
        }
        const sl_token given = 1; /* not chosen */
        append(s, &given, 1, true);
        assert_true(fabs((double)sl_history_state(&s->history).surprise - mu) < 1e-4);
        append(s, &given, 1, false);
        assert_true(sl_history_state(&s->history).surprise == 4);
        sl_sampler_free(s);
    }
}

static void following_keeps_what_is_the_same(void **state) {
    (void)state;
    const sl_sampler_options options = {.presence_penalty = 1, .mirostat_tau = 1};
    sl_sampler *s = make(&plain_vocabulary, &options);
    const sl_token first[] = {1, 2, 3}, longer[] = {1, 2, 3, 4, 9}, changed[] = {1, 2, 8};
    assert_int_equal(sl_sampler_follow(s, first, 3, &err), SL_OK);
    assert_int_equal(s->history.prompt, 3);
    append(s, (const sl_token[]){4}, 1, true);
    assert_int_equal(sl_sampler_follow(s, longer, 4, &err), SL_OK);
    assert_int_equal(s->history.prompt, 3);
    assert_int_equal(sl_sampler_follow(s, longer, 5, &err), SL_OK);
    assert_int_equal(s->history.prompt, 5);
    assert_int_equal(sl_sampler_follow(s, changed, 3, &err), SL_OK);
    assert_int_equal(s->history.length, 3);
    assert_int_equal(s->history.tokens[2], 8);
    assert_int_equal(sl_sampler_follow(s, changed, 0, &err), SL_OK);
    assert_int_equal(s->history.length, 0);
    assert_int_equal(sl_sampler_append(s, (const sl_token[]){VOCAB}, 1, true, &err), SL_INVALID);
    sl_sampler_free(s);
}

/* XTC acts in as many choices as it should. */
static void xtc_follows_its_probability(void **state) {
    (void)state;
    const sl_sampler_options options = {
        .temperature = 1, .top_k = 2, .xtc_probability = 0.3f, .xtc_threshold = 0.1f, .seed = 4};
    const sl_choose_vocabulary vocabulary = {.size = 4, .text = word_of};
    const float two[] = {logf(0.5f), logf(0.5f), -20, -20}; /* of which XTC leaves token 1 */
    sl_sampler *s = make(&vocabulary, &options);
    int second = 0;
    enum { DRAWS = 20000 };
    for (int i = 0; i < DRAWS; i++) {
        sl_token token;
        assert_int_equal(sl_sampler_pick(s, two, NULL, &token, &err), SL_OK);
        second += token == 1;
        append(s, &token, 1, true);
    }
    const double share = (double)second / DRAWS;
    if (fabs(share - (0.3 + 0.7 * 0.5)) > 0.012) fail_msg("share %g", share);
    assert_int_equal(s->info.host_choices, DRAWS);
    assert_string_equal(s->info.host_reason, "xtc_probability");
    sl_sampler_free(s);
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    static const sl_logit_bias unknown = {.token = VOCAB}, endless = {.token = 1, .bias = INFINITY};
    const sl_sampler_options wrong[] = {
        {.temperature = -1},
        {.top_p = 1.5f},
        {.repeat_penalty = -1},
        {.mirostat = 3},
        {.samplers = "x"},
        {.samplers = " ; "},
        {.samplers = "dry;dry"},
        {.min_p = NAN},
        {.repeat_last_n = -2},
        {.logprobs = 5000},
        {.logit_bias = &unknown, .logit_bias_count = 1},
        {.logit_bias = &endless, .logit_bias_count = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sl_sampler *s = NULL;
        if (sl_sampler_make(&plain_vocabulary, &wrong[i], NULL, &s, &err) != SL_INVALID)
            fail_msg("options %zu are accepted", i);
    }
    sl_sampler_options o = {0};
    assert_int_equal(sl_option_set(&o, "repetition-penalty", "1.2", &err), SL_OK);
    assert_true(o.repeat_penalty == 1.2f);
    assert_int_equal(sl_option_set(&o, "penalty_last_n", "0", &err), SL_OK);
    assert_int_equal(o.repeat_last_n, SL_SAMPLER_NONE);
    assert_int_equal(sl_option_set(&o, "ignore_eos", "true", &err), SL_OK);
    assert_int_equal(o.ignore_eos, 1);
    assert_int_equal(sl_option_set(&o, "seed", "9223372036854775807", &err), SL_OK);
    assert_true(o.seed == INT64_MAX);
    assert_int_equal(sl_option_set(&o, "top_k", "1.5", &err), SL_INVALID);
    assert_string_equal(err.message, "top_k '1.5': wanted a whole number from 0 to 4294967295");
    assert_int_equal(sl_option_set(&o, "topk", "1", &err), SL_INVALID);
    assert_int_equal(sl_option_set(&o, "logit_bias", "1", &err), SL_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_compute),
        cmocka_unit_test(plain_choices_are_those_of_today),
        cmocka_unit_test(a_chain_in_the_same_order_draws_alike),
        cmocka_unit_test(masks_leave_what_they_allow),
        cmocka_unit_test(no_number_is_never_chosen),
        cmocka_unit_test(ends_wait_for_min_tokens),
        cmocka_unit_test(thoughts_end_with_their_budget),
        cmocka_unit_test(rewinding_and_copies_repeat_choices),
        cmocka_unit_test(mirostat_remembers_surprise),
        cmocka_unit_test(following_keeps_what_is_the_same),
        cmocka_unit_test(xtc_follows_its_probability),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
