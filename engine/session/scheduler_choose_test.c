/* scheduler_choose_test.c - Requests whose tokens are chosen by samplers and follow grammars: the
 * same tokens as of a session alone, in company. */
#include "tests/support/requests.h"

/* ---- samplers ---- */

static sl_sampler *new_sampler(const sl_model *model, int kind) {
    sl_sampler_options options = {.struct_size = sizeof options, .seed = 5 + (uint64_t)kind};
    sl_sampler *sampler = NULL;
    options.temperature = 0.9f;
    options.top_k = kind == 0 ? 0 : 50;
    if (kind >= 1) options.repeat_penalty = 1.2f, options.presence_penalty = 0.4f;
    if (kind >= 2) options.dry_multiplier = 0.8f, options.typical_p = 0.95f, options.mirostat = 2;
    if (kind >= 3) options.logprobs = 4;
    must(sl_sampler_create(model, &options, &sampler, &err));
    return sampler;
}

static void samplers_choose_as_alone(void **state) {
    (void)state;
    sl_model *model = open_with(MODEL, 0, NULL);
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
    sl_token prompt[90], wanted[MOST];
    draw_tokens(prompt, 90, 1000, 3);
    for (int kind = 0; kind < 4; kind++) {
        sl_session *alone = new_session(model, 0, 0);
        sl_sampler *sampler = new_sampler(model, kind);
        double logprob_sum = 0;
        size_t logprobs = 0;
        must(sl_session_extend(alone, prompt, 90, &err));
        for (int i = 0; i < 40; i++) {
            must(sl_session_next_by(alone, sampler, NULL, &wanted[i], &err));
            uint32_t entries = 0;
            const sl_logprob *items = sl_sampler_logprobs(sampler, &entries);
            for (uint32_t k = 0; k < entries; k++) logprob_sum += items[k].logprob;
            logprobs += entries;
        }
        sl_sampler_destroy(sampler);
        sl_session_destroy(alone);

        request r = {.given = {.session = new_session(model, 0, 0),
                               .sampler = new_sampler(model, kind),
                               .prompt = prompt,
                               .prompt_count = 90,
                               .most_tokens = 40}};
        company *others = join(model, scheduler);
        submit(scheduler, &r);
        run_out(scheduler);
        end_with(&r, SL_END_COUNT);
        same_tokens(&r, wanted, 40);
        assert_int_equal(r.logprobs, logprobs);
        assert_true(r.logprob_sum == logprob_sum);
        assert_int_equal(logprobs, kind == 3 ? 160 : 0);
        leave(others);
        sl_sampler_destroy(r.given.sampler);
        sl_session_destroy(r.given.session);
    }
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* ---- grammars ---- */

static const char schema[] =
    "{\"type\": \"object\", \"properties\": {\"name\": {\"enum\": [\"fox\", \"owl\"]},"
    " \"likes_to_sleep_in_the_sun\": {\"type\": \"boolean\"}, \"count\": {\"type\": \"integer\","
    " \"minimum\": 0, \"maximum\": 99}}, \"required\": [\"name\", \"likes_to_sleep_in_the_sun\","
    " \"count\"], \"additionalProperties\": false}";

typedef struct {
    sl_grammar *grammar;
    sl_grammar_vocabulary *vocabulary;
    uint32_t allowed[64];
} grammar;

static grammar *open_grammar(const sl_model *model) {
    grammar *g = calloc(1, sizeof *g);
    assert_non_null(g);
    must(sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), NULL, &g->grammar,
                            &err));
    must(sl_grammar_vocabulary_of_model(model, &g->vocabulary, &err));
    return g;
}

static void close_grammar(grammar *g) {
    sl_grammar_vocabulary_close(g->vocabulary);
    sl_grammar_close(g->grammar);
    free(g);
}

static sl_grammar_state *begin(const grammar *g) {
    sl_grammar_state *state = NULL;
    must(sl_grammar_state_create(g->grammar, g->vocabulary, &state, &err));
    return state;
}

static sl_sampler *plain_sampler(const sl_model *model, float temperature, uint64_t seed) {
    sl_sampler *sampler = NULL;
    const sl_sampler_options options = {
        .struct_size = sizeof options, .temperature = temperature, .seed = seed};
    must(sl_sampler_create(model, &options, &sampler, &err));
    return sampler;
}

/* As `sluice run --json-schema` does; returns how many tokens there are, *forced those that were
 * forced. */
static size_t follow_alone(sl_model *model, grammar *g, const sl_token *prompt, size_t free_tokens,
                           uint64_t seed, sl_token *out, size_t *forced) {
    sl_session *alone = new_session(model, 0, 0);
    sl_sampler *sampler = plain_sampler(model, 0.8f, seed);
    sl_grammar_state *state = begin(g);
    size_t count = 0;
    *forced = 0;
    must(sl_session_extend(alone, prompt, 40, &err));
    while (count < MOST && !sl_grammar_state_ended(state)) {
        const bool constrained = count >= free_tokens;
        size_t more = 0;
        if (constrained) must(sl_grammar_state_mask(state, g->allowed, 64, &err));
        must(
            sl_session_next_by(alone, sampler, constrained ? g->allowed : NULL, &out[count], &err));
        count++;
        if (!constrained) continue;
        must(sl_grammar_state_accept(state, out[count - 1], &err));
        if (count < MOST && !sl_grammar_state_ended(state))
            must(sl_grammar_state_forced(state, out + count, MOST - count, &more, &err));
        for (size_t i = 0; i < more; i++)
            must(sl_grammar_state_accept(state, out[count + i], &err));
        if (more) must(sl_sampler_accept(sampler, out + count, more, &err));
        if (more) must(sl_session_extend(alone, out + count, more, &err));
        count += more;
        *forced += more;
    }
    sl_grammar_state_destroy(state);
    sl_sampler_destroy(sampler);
    sl_session_destroy(alone);
    return count;
}

static void grammars_are_followed_as_alone(void **state) {
    (void)state;
    sl_model *model = open_with(MODEL, 0, NULL);
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
    grammar *g = open_grammar(model);
    sl_token prompt[40], wanted[MOST];
    size_t all_forced = 0;
    draw_tokens(prompt, 40, 1000, 4);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const size_t waits = seed % 2 * 5;
        size_t forced;
        const size_t count = follow_alone(model, g, prompt, waits, seed, wanted, &forced);
        all_forced += forced;
        request r = {.given = {.session = new_session(model, 0, 0),
                               .grammar = begin(g),
                               .grammar_waits = waits > 0,
                               .prompt = prompt,
                               .prompt_count = 40,
                               .most_tokens = MOST},
                     .constrain_at = waits};
        const sl_sampling plain = {.struct_size = sizeof plain, .temperature = 0.8f, .seed = seed};
        if (seed > 2)
            r.given.sampling = &plain; /* the scheduler makes a sampler of it */
        else
            r.given.sampler = plain_sampler(model, 0.8f, seed);
        company *others = join(model, scheduler);
        submit(scheduler, &r);
        run_out(scheduler);
        end_with(&r, count == MOST && !sl_grammar_state_ended(r.given.grammar) ? SL_END_COUNT
                                                                               : SL_END_STOP);
        same_tokens(&r, wanted, count);
        assert_int_equal(sl_grammar_state_length(r.given.grammar), count - waits);
        assert_int_equal(sl_session_length(r.given.session), 40 + count);
        leave(others);
        sl_grammar_state_destroy(r.given.grammar);
        sl_sampler_destroy(r.given.sampler);
        sl_session_destroy(r.given.session);
    }
    sl_scheduler_stats stats = {.struct_size = sizeof stats};
    must(sl_scheduler_describe(scheduler, &stats, &err));
    print_message("  %zu tokens forced; %llu masks took %.0f us each, steps waited %.0f us each\n",
                  all_forced, (unsigned long long)stats.masks,
                  1e6 * stats.mask_seconds / (double)stats.masks,
                  1e6 * stats.mask_wait_seconds / (double)stats.steps);
    assert_true(all_forced >= 20 && stats.masks > 0);
    close_grammar(g);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* A thinking budget ends the thought, its tokens computed in one pass; then the grammar begins. */
static void thoughts_end_before_grammars(void **state) {
    (void)state;
    sl_model *model = open_with(MODEL, 0, NULL);
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
    grammar *g = open_grammar(model);
    static const char text[] = "snail.<think>";
    const sl_sampler_options options = {.struct_size = sizeof options, .thinking_budget = 4};
    sl_token prompt[40], wanted[MOST], more[MOST];
    size_t count, tags, forced = 0;
    must(sl_model_tokenize(model, text, strlen(text), prompt, 40, &count, &err));
    must(sl_model_tokenize(model, "</think>", 8, more, MOST, &tags, &err));
    const size_t free_tokens = 4 + tags;
    assert_true(tags > 1);

    sl_session *alone = new_session(model, 0, 0);
    sl_sampler *sampler = NULL;
    sl_grammar_state *follows = begin(g);
    must(sl_sampler_create(model, &options, &sampler, &err));
    must(sl_session_extend(alone, prompt, count, &err));
    for (size_t i = 0; i < free_tokens; i++)
        must(sl_session_next_by(alone, sampler, NULL, &wanted[i], &err));
    assert_memory_equal(wanted + 4, more, tags * sizeof *more);
    must(sl_grammar_state_mask(follows, g->allowed, 64, &err));
    must(sl_session_next_by(alone, sampler, g->allowed, &wanted[free_tokens], &err));
    must(sl_grammar_state_accept(follows, wanted[free_tokens], &err));
    must(sl_grammar_state_forced(follows, wanted + free_tokens + 1, 8, &forced, &err));
    sl_grammar_state_destroy(follows);
    sl_sampler_destroy(sampler);
    sl_session_destroy(alone);

    request r = {.given = {.session = new_session(model, 0, 0),
                           .grammar = begin(g),
                           .grammar_waits = 1,
                           .prompt = prompt,
                           .prompt_count = count,
                           .most_tokens = free_tokens + 1 + forced},
                 .constrain_at = free_tokens};
    must(sl_sampler_create(model, &options, &r.given.sampler, &err));
    company *others = join(model, scheduler);
    submit(scheduler, &r);
    run_out(scheduler);
    end_with(&r, SL_END_COUNT);
    same_tokens(&r, wanted, free_tokens + 1 + forced);
    assert_int_equal(sl_grammar_state_length(r.given.grammar), 1 + forced);
    leave(others);
    sl_grammar_state_destroy(r.given.grammar);
    sl_sampler_destroy(r.given.sampler);
    sl_session_destroy(r.given.session);
    close_grammar(g);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* Of a burst of forced tokens, those behind a stop token are taken back. */
static void tokens_behind_a_stop_are_taken_back(void **state) {
    (void)state;
    sl_model *model = open_with(MODEL, 0, NULL);
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
    grammar *g = open_grammar(model);
    sl_token prompt[40], wanted[MOST];
    size_t forced;
    draw_tokens(prompt, 40, 1000, 4);
    const size_t count = follow_alone(model, g, prompt, 0, 1, wanted, &forced);
    assert_true(count > 12);
    for (size_t at = 0; at < 12; at++) {
        size_t first = 0;
        while (wanted[first] != wanted[at]) first++;
        request r = {.given = {.session = new_session(model, 0, 0),
                               .grammar = begin(g),
                               .sampler = plain_sampler(model, 0.8f, 1),
                               .stops = &wanted[at],
                               .stop_count = 1,
                               .prompt = prompt,
                               .prompt_count = 40}};
        submit(scheduler, &r);
        run_out(scheduler);
        end_with(&r, SL_END_STOP);
        same_tokens(&r, wanted, first + 1);
        assert_int_equal(sl_session_length(r.given.session), 41 + first);
        assert_int_equal(sl_grammar_state_length(r.given.grammar), first + 1);
        assert_int_equal(sl_sampler_length(r.given.sampler), 41 + first);
        /* The session goes on as if nothing had been chosen behind the stop. */
        sl_session *fresh = new_session(model, 0, 0);
        must(sl_session_extend(fresh, prompt, 40, &err));
        must(sl_session_extend(fresh, wanted, first + 1, &err));
        float *found, *expected;
        sl_token next, other;
        must(sl_session_sample(r.given.session, &(sl_sampling){.struct_size = sizeof(sl_sampling)},
                               &next, &err));
        must(sl_session_sample(fresh, &(sl_sampling){.struct_size = sizeof(sl_sampling)}, &other,
                               &err));
        found = copy_logits(r.given.session), expected = copy_logits(fresh);
        assert_int_equal(next, other);
        free(found), free(expected);
        sl_session_destroy(fresh);
        sl_grammar_state_destroy(r.given.grammar);
        sl_sampler_destroy(r.given.sampler);
        sl_session_destroy(r.given.session);
    }
    close_grammar(g);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samplers_choose_as_alone),
        cmocka_unit_test(grammars_are_followed_as_alone),
        cmocka_unit_test(thoughts_end_before_grammars),
        cmocka_unit_test(tokens_behind_a_stop_are_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
