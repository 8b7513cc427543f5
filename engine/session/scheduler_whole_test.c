/* scheduler_whole_test.c - What a server asks of a scheduler: tokens by samplers and grammars,
 * whole conversations, log-probabilities of prompts and turns of owners, each as a session alone
 * has it, in company. */
#include "sluice/batch.h"
#include "tests/support/conversation.h"

#define MODEL "models/fable"
enum { CONTEXT = 1024, LIVE = 6, MOST = 60, PROMPT = 700 };

static const char attention_only[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1280, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"tie_word_embeddings\": false}";

static void on_note(void *ctx, const char *line) {
    (void)ctx;
    fail_msg("%s", line);
}

/* folder: of a cache on disk; NULL: none.  With exact activations, another division of a prompt is
 * within rounding. */
static sl_model *open_with(const char *path, uint64_t cache, const char *folder) {
    sl_model *model = open_model(path, (sl_model_options){.context_tokens = CONTEXT,
                                                          .max_sessions = LIVE + 2,
                                                          .compile = "exact",
                                                          .prefix_cache_bytes = cache});
    const sl_disk_cache_options disk = {
        .struct_size = sizeof disk, .folder = folder, .note = on_note};
    if (folder) must(sl_model_cache_on_disk(model, &disk, &err));
    return model;
}

static sl_scheduler *new_scheduler(sl_model *model, sl_scheduler_options options) {
    sl_scheduler *scheduler = NULL;
    options.struct_size = sizeof options;
    must(sl_scheduler_create(model, &options, &scheduler, &err));
    return scheduler;
}

static void run_out(sl_scheduler *scheduler) {
    uint32_t left = 1;
    for (int step = 0; left; step++) {
        must(sl_scheduler_step(scheduler, &left, &err));
        assert_true(step < 10000);
    }
}

/* A request and what came of it. */
typedef struct {
    sl_request given;
    sl_ticket *ticket;
    sl_token found[MOST];
    size_t count;
    sl_ticket_end end;
    int ends;
    size_t constrain_at; /* tokens after which its grammar begins */
    size_t logprobs;     /* entries of the sampler */
    double logprob_sum;
    sl_logprob *scores; /* [prompt][each]; NULL: none are wanted */
    size_t scored;
} request;

static int take_token(void *ctx, sl_ticket *ticket, sl_token token) {
    request *r = ctx;
    assert_true(r->count < MOST);
    r->found[r->count++] = token;
    if (r->constrain_at && r->count == r->constrain_at) sl_ticket_constrain(ticket);
    uint32_t entries = 0;
    const sl_logprob *items =
        r->given.sampler ? sl_sampler_logprobs(r->given.sampler, &entries) : NULL;
    if (items) assert_int_equal(items[0].token, token);
    for (uint32_t i = 0; i < entries; i++) r->logprob_sum += items[i].logprob;
    r->logprobs += entries;
    return 0;
}

static void take_end(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    request *r = ctx;
    (void)ticket;
    r->end = end;
    r->ends++;
}

static void submit(sl_scheduler *scheduler, request *r) {
    r->given.struct_size = sizeof r->given;
    r->given.token = take_token;
    r->given.end = take_end;
    r->given.ctx = r;
    r->count = r->logprobs = r->scored = 0;
    r->logprob_sum = 0;
    r->ends = 0;
    must(sl_scheduler_submit(scheduler, &r->given, &r->ticket, &err));
}

static void end_with(request *r, sl_ticket_end end) {
    assert_int_equal(r->ends, 1);
    if (r->end == SL_END_FAILED) must(sl_ticket_status(r->ticket, &err));
    assert_int_equal(r->end, end);
    sl_ticket_release(r->ticket);
}

static void same_tokens(const request *r, const sl_token *wanted, size_t count) {
    assert_int_equal(r->count, count);
    assert_memory_equal(r->found, wanted, count * sizeof *wanted);
}

/* ---- company: requests that decode and read prompts at the same time ---- */

typedef struct {
    sl_token prompt[PROMPT];
    request requests[3];
} company;

static company *join(sl_model *model, sl_scheduler *scheduler) {
    company *c = calloc(1, sizeof *c);
    assert_non_null(c);
    draw_tokens(c->prompt, PROMPT, 1000, 77);
    for (int i = 0; i < 3; i++) {
        c->requests[i].given = (sl_request){.session = new_session(model, 0, 0),
                                            .prompt = c->prompt + i,
                                            .prompt_count = 3 + (size_t)i * 130,
                                            .most_tokens = MOST - (size_t)i * 7};
        submit(scheduler, &c->requests[i]);
        must(sl_scheduler_step(scheduler, NULL, &err));
    }
    return c;
}

static void leave(company *c) {
    for (int i = 0; i < 3; i++) {
        end_with(&c->requests[i], SL_END_COUNT);
        sl_session_destroy(c->requests[i].given.session);
    }
    free(c);
}

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

/* ---- whole conversations ---- */

enum { END_TOKEN = 2 };

/* A conversation of some messages; `what` is the last one. */
static size_t write_prompt(const sl_model *model, sl_token *out, uint32_t what, size_t count) {
    draw_tokens(out, count, 900, 8);
    for (size_t i = 0; i < count; i++) out[i] += 100;
    out[count / 3] = out[count / 2] = model->text.end_count ? model->text.end_tokens[0] : END_TOKEN;
    draw_tokens(out + count - 40, 40, 900, what);
    for (size_t i = count - 40; i < count; i++) out[i] += 100;
    return count;
}

static sl_sync_report reuse_of(const request *r) {
    sl_sync_report report = {.struct_size = sizeof report};
    must(sl_ticket_reuse(r->ticket, &report, &err));
    return report;
}

enum { ANSWER = 20 };

/* What a session alone makes of a prompt. */
typedef struct {
    sl_sync_report report;
    sl_token tokens[ANSWER];
} turn;

static turn take_turn(sl_session *alone, const sl_token *prompt, size_t count) {
    turn t = {.report = {.struct_size = sizeof t.report}};
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    must(sl_session_sync(alone, prompt, count, NULL, &t.report, &err));
    for (int i = 0; i < ANSWER; i++) must(sl_session_next(alone, &greedy, &t.tokens[i], &err));
    return t;
}

/* A request makes the same of it. */
static void same_turn(sl_scheduler *scheduler, sl_session *session, const sl_token *prompt,
                      size_t count, const turn *wanted) {
    request r = {.given = {.session = session,
                           .prompt = prompt,
                           .prompt_count = count,
                           .most_tokens = ANSWER,
                           .whole = 1}};
    submit(scheduler, &r);
    sl_sync_report found = {.struct_size = sizeof found};
    assert_int_equal(sl_ticket_reuse(r.ticket, &found, &err), SL_INVALID);
    run_out(scheduler);
    must(sl_ticket_status(r.ticket, &err));
    found = reuse_of(&r);
    print_message("  %4zu of %4zu tokens, %s: %s\n", found.reused, found.tokens, found.source,
                  found.text);
    assert_int_equal(found.tokens, wanted->report.tokens);
    assert_int_equal(found.reused, wanted->report.reused);
    assert_int_equal(found.same, wanted->report.same);
    assert_string_equal(found.source, wanted->report.source);
    assert_string_equal(found.text, wanted->report.text);
    sl_ticket_state state = {.struct_size = sizeof state};
    must(sl_ticket_look(r.ticket, &state, &err));
    assert_int_equal(state.prompt_tokens, count);
    assert_int_equal(state.prompt_done, count);
    assert_int_equal(state.reused, found.reused);
    end_with(&r, SL_END_COUNT);
    same_tokens(&r, wanted->tokens, ANSWER);
    const sl_token *all;
    assert_int_equal(sl_session_tokens(session, &all), count + ANSWER);
    assert_memory_equal(all, prompt, count * sizeof *prompt);
}

/* The same conversations in two models, by sessions alone and by requests in company. */
typedef struct {
    sl_model *alone, *shared;
    sl_scheduler *scheduler;
} pair;

static void both_take(const pair *p, sl_session *alone, sl_session *session, const sl_token *prompt,
                      size_t count, const char *source) {
    const turn wanted = take_turn(alone, prompt, count);
    assert_string_equal(wanted.report.source, source);
    must(sl_session_end_turn(alone, &err));
    same_turn(p->scheduler, session, prompt, count, &wanted);
}

static void talk(const char *path) {
    const uint64_t cache = 8 << 20;
    pair p = {open_with(path, cache, NULL), open_with(path, cache, NULL), NULL};
    p.scheduler = new_scheduler(p.shared, (sl_scheduler_options){.step_seconds = 1e-6});
    sl_token prompt[CONTEXT];
    const sl_token *tokens;
    sl_session *alone = new_session(p.alone, 0, 0), *session = new_session(p.shared, 0, 0);
    size_t count = write_prompt(p.alone, prompt, 1, 600);
    both_take(&p, alone, session, prompt, count, "nothing");
    /* It goes on. */
    count = sl_session_tokens(alone, &tokens);
    memcpy(prompt, tokens, count * sizeof *tokens);
    draw_tokens(prompt + count, 30, 900, 5);
    both_take(&p, alone, session, prompt, count + 30, "session");
    /* Another session takes what the first has left, while others compute. */
    sl_session *next = new_session(p.alone, 0, 0), *other = new_session(p.shared, 0, 0);
    company *others = join(p.shared, p.scheduler);
    count = write_prompt(p.alone, prompt, 3, 600);
    both_take(&p, next, other, prompt, count, "memory");
    leave(others);
    /* The same once more: only the last token is computed. */
    must(sl_session_sync(next, prompt, count, NULL, NULL, &err));
    must(sl_session_sync(other, prompt, count, NULL, NULL, &err));
    both_take(&p, next, other, prompt, count, "session");
    sl_session_destroy(next);
    sl_session_destroy(other);
    sl_session_destroy(alone);
    sl_session_destroy(session);
    sl_scheduler_destroy(p.scheduler);
    sl_model_close(p.alone);
    sl_model_close(p.shared);
}

static void whole_conversations_are_synced(void **state) {
    (void)state;
    talk(MODEL);
    talk(test_path("m.sluice"));
}

static void remove_folder(const char *folder) {
    DIR *directory = opendir(folder);
    char path[1024];
    assert_non_null(directory);
    for (const struct dirent *e; (e = readdir(directory));) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            assert_int_equal(remove(path), 0);
    }
    (void)closedir(directory);
    assert_int_equal(rmdir(folder), 0);
}

static void turns_are_found_on_disk(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        char path[512], folder[512];
        (void)snprintf(path, sizeof path, "%s", which ? test_path("m.sluice") : MODEL);
        (void)snprintf(folder, sizeof folder, "%s", test_path("kv"));
        sl_token prompt[CONTEXT];
        sl_model *model = open_with(path, 0, folder);
        sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
        size_t count = write_prompt(model, prompt, 1, 600);
        request r = {.given = {.session = new_session(model, 0, 0),
                               .prompt = prompt,
                               .prompt_count = count,
                               .most_tokens = ANSWER,
                               .whole = 1}};
        submit(scheduler, &r);
        run_out(scheduler);
        end_with(&r, SL_END_COUNT);
        memcpy(prompt + count, r.found, ANSWER * sizeof *prompt);
        draw_tokens(prompt + count + ANSWER, 50, 900, 6);
        count += ANSWER + 50;
        sl_session_destroy(r.given.session);
        sl_scheduler_destroy(scheduler);
        sl_model_close(model);

        model = open_with(path, 0, folder);
        sl_session *session = new_session(model, 0, 0);
        const turn wanted = take_turn(session, prompt, count);
        assert_string_equal(wanted.report.source, "disk");
        assert_int_equal(wanted.report.reused, count - 51);
        sl_session_destroy(session);
        sl_model_close(model);

        model = open_with(path, 0, folder);
        scheduler = new_scheduler(model, (sl_scheduler_options){0});
        company *others = join(model, scheduler);
        session = new_session(model, 0, 0);
        same_turn(scheduler, session, prompt, count, &wanted);
        leave(others);
        sl_session_destroy(session);
        sl_scheduler_destroy(scheduler);
        sl_model_close(model);
        remove_folder(folder);
    }
}

/* What one request computes of a prompt is there for the next before the first has ended. */
static void prompts_are_shared_at_once(void **state) {
    (void)state;
    sl_model *model = open_with(MODEL, 8 << 20, NULL);
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
    sl_token prompt[CONTEXT];
    request all[3] = {0};
    const size_t count = write_prompt(model, prompt, 1, 600);
    for (int i = 0; i < 3; i++) {
        all[i].given = (sl_request){.session = new_session(model, 0, 0),
                                    .prompt = prompt,
                                    .prompt_count = count,
                                    .most_tokens = ANSWER,
                                    .whole = 1};
        submit(scheduler, &all[i]);
        while (!all[i].count) must(sl_scheduler_step(scheduler, NULL, &err));
        assert_int_equal(all[0].ends, 0);
        const sl_sync_report report = reuse_of(&all[i]);
        assert_string_equal(report.source, i ? "memory" : "nothing");
        if (i) assert_int_equal(report.reused, count - 2);
    }
    run_out(scheduler);
    for (int i = 0; i < 3; i++) {
        same_tokens(&all[i], all[0].found, ANSWER);
        end_with(&all[i], SL_END_COUNT);
        sl_session_destroy(all[i].given.session);
    }
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* ---- log-probabilities of prompts ---- */

static void take_score(void *ctx, sl_ticket *ticket, size_t position, const sl_logprob *logprobs,
                       uint32_t count) {
    request *r = ctx;
    (void)ticket;
    assert_int_equal(position, r->scored + 1);
    assert_int_equal(count, r->given.prompt_logprobs);
    memcpy(r->scores + r->scored * count, logprobs, count * sizeof *logprobs);
    r->scored++;
}

/* The same bits as those of all logits of a session alone. */
static void prompts_are_scored_as_alone(void **state) {
    (void)state;
    enum { EACH = 4 };
    for (int which = 0; which < 2; which++) {
        const char *path = which ? test_path("m.sluice") : MODEL;
        sl_model *model = open_with(path, 8 << 20, NULL);
        sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
        const uint32_t vocab = model->config.vocab;
        sl_token prompt[CONTEXT];
        const size_t count = write_prompt(model, prompt, 9, 333);
        sl_session *alone = new_session(model, 0, 0);
        float *logits = malloc(count * vocab * sizeof *logits);
        assert_non_null(logits);
        must(sl_session_extend_all(alone, prompt, count, logits, NULL, &err));
        sl_session_destroy(alone);
        company *others = join(model, scheduler);
        for (int whole = 0; whole < 2; whole++) {
            request r = {.given = {.session = new_session(model, 0, 0),
                                   .prompt = prompt,
                                   .prompt_count = count,
                                   .most_tokens = ANSWER,
                                   .whole = whole,
                                   .prompt_logprobs = EACH,
                                   .prompt_token = take_score}};
            r.scores = calloc(count * EACH, sizeof *r.scores);
            assert_non_null(r.scores);
            if (whole) must(sl_session_extend(r.given.session, prompt, 100, &err));
            submit(scheduler, &r);
            run_out(scheduler);
            assert_int_equal(r.scored, count - 1);
            if (whole) assert_int_equal(reuse_of(&r).reason, SL_REUSE_LOGITS);
            for (size_t i = 1; i < count; i++) {
                sl_logprob wanted[EACH];
                /* Stops divide the prompt of a hybrid model otherwise. */
                const double near = whole && which == 0 ? 1e-3 : 0;
                must(sl_logprobs_compute(logits + (i - 1) * vocab, vocab, prompt[i], EACH - 1,
                                         wanted, &err));
                for (int k = 0; k < EACH; k++) {
                    const sl_logprob found = r.scores[(i - 1) * EACH + (size_t)k];
                    const double off = found.logprob - wanted[k].logprob;
                    if (near == 0) assert_int_equal(found.token, wanted[k].token);
                    if (!(off <= near && off >= -near))
                        fail_msg("model %d, whole %d, position %zu: %.9g, wanted %.9g", which,
                                 whole, i, found.logprob, wanted[k].logprob);
                }
            }
            end_with(&r, SL_END_COUNT);
            free(r.scores);
            sl_session_destroy(r.given.session);
        }
        leave(others);
        free(logits);
        sl_scheduler_destroy(scheduler);
        sl_model_close(model);
    }
}

/* ---- the queue ---- */

static void owners_take_turns(void **state) {
    (void)state;
    /* In the order in which they come; the one with the higher priority is first. */
    static const struct {
        uint64_t owner;
        int32_t priority;
        uint32_t place;
    } come[] = {{1, 0, 1}, {1, 0, 4}, {1, 0, 6}, {2, 0, 2}, {3, 0, 3}, {2, 0, 5}, {9, 1, 0}};
    enum { COUNT = sizeof come / sizeof come[0] };
    sl_model *model =
        open_model(MODEL, (sl_model_options){.context_tokens = 64, .max_sessions = COUNT + 1});
    sl_scheduler *scheduler =
        new_scheduler(model, (sl_scheduler_options){.most_live = 1, .queue_length = COUNT});
    sl_token prompt[3] = {5, 6, 7};
    request all[COUNT + 1] = {0};
    uint32_t next = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i].given = (sl_request){.session = new_session(model, 0, 0),
                                    .prompt = prompt,
                                    .prompt_count = 3,
                                    .most_tokens = 2,
                                    .owner = come[i].owner,
                                    .priority = come[i].priority};
        submit(scheduler, &all[i]);
    }
    all[COUNT].given = all[0].given;
    all[COUNT].given.session = new_session(model, 0, 0);
    assert_int_equal(sl_scheduler_submit(scheduler, &all[COUNT].given, &all[COUNT].ticket, &err),
                     SL_BUSY);
    assert_string_equal(sl_status_text(SL_BUSY), "a queue is full, try again later");
    for (uint32_t i = 0; i < COUNT; i++) {
        sl_ticket_state look = {.struct_size = sizeof look};
        must(sl_ticket_look(all[i].ticket, &look, &err));
        assert_int_equal(look.place, come[i].place);
    }
    /* They end in the order of their places. */
    while (next < COUNT) {
        must(sl_scheduler_step(scheduler, NULL, &err));
        for (uint32_t i = 0; i < COUNT; i++) {
            if (!all[i].ends || come[i].place < next) continue;
            assert_int_equal(come[i].place, next);
            next++;
        }
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        end_with(&all[i], SL_END_COUNT);
        sl_session_destroy(all[i].given.session);
    }
    sl_session_destroy(all[COUNT].given.session);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

static int set_up(void **state) {
    if (make_test_folder(state) != 0) return -1;
    const sl_synth_options options = {.struct_size = sizeof options, .force = 1};
    write_test_file("config.json", attention_only, sizeof attention_only - 1);
    must(sl_synth_write(test_path("config.json"), test_path("m.sluice"), &options, &err));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samplers_choose_as_alone),
        cmocka_unit_test(grammars_are_followed_as_alone),
        cmocka_unit_test(tokens_behind_a_stop_are_taken_back),
        cmocka_unit_test(whole_conversations_are_synced),
        cmocka_unit_test(turns_are_found_on_disk),
        cmocka_unit_test(prompts_are_shared_at_once),
        cmocka_unit_test(prompts_are_scored_as_alone),
        cmocka_unit_test(owners_take_turns),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
