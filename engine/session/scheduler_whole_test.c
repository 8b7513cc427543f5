/* scheduler_whole_test.c - Requests of whole conversations, log-probabilities of prompts and turns
 * of owners: each as a session alone has it, in company, however requests end. */
#include "tests/support/requests.h"

static const char attention_only[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1280, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"tie_word_embeddings\": false}";

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

static size_t long_prompt(void) {
    return is_slow_run() ? 200 : 600;
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
    size_t count = write_prompt(p.alone, prompt, 1, long_prompt());
    both_take(&p, alone, session, prompt, count, "nothing");
    /* It goes on. */
    count = sl_session_tokens(alone, &tokens);
    memcpy(prompt, tokens, count * sizeof *tokens);
    draw_tokens(prompt + count, 30, 900, 5);
    both_take(&p, alone, session, prompt, count + 30, "session");
    /* Another session takes what the first has left, while others compute. */
    sl_session *next = new_session(p.alone, 0, 0), *other = new_session(p.shared, 0, 0);
    company *others = join(p.shared, p.scheduler);
    count = write_prompt(p.alone, prompt, 3, long_prompt());
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
        size_t count = write_prompt(model, prompt, 1, long_prompt());
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
    const size_t count = write_prompt(model, prompt, 1, long_prompt());
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

/* ---- requests that end early, and callbacks ---- */

static void requests_end_in_every_phase(void **state) {
    (void)state;
    sl_model *model = open_with(MODEL, 8 << 20, NULL);
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){.step_seconds = 1e-6});
    sl_token prompt[CONTEXT], usual[3][MOST];
    const size_t count = write_prompt(model, prompt, 1, is_slow_run() ? 150 : 300);
    company *others = join(model, scheduler);
    run_out(scheduler);
    for (int i = 0; i < 3; i++) memcpy(usual[i], others->requests[i].found, sizeof usual[i]);
    leave(others);
    for (int steps = 0; steps < 16; steps += is_slow_run() ? 5 : 3) {
        request r = {.given = {.session = new_session(model, 0, 0),
                               .prompt = prompt,
                               .prompt_count = count,
                               .whole = 1}};
        others = join(model, scheduler);
        submit(scheduler, &r);
        for (int i = 0; i < steps; i++) must(sl_scheduler_step(scheduler, NULL, &err));
        if (steps % 2) {
            sl_ticket_release(r.ticket);
            must(sl_scheduler_step(scheduler, NULL, &err));
            assert_int_equal(r.ends, 0);
        } else {
            sl_ticket_cancel(r.ticket);
            must(sl_scheduler_step(scheduler, NULL, &err));
            end_with(&r, SL_END_CANCELLED);
        }
        assert_true(sl_session_length(r.given.session) <= count + r.count);
        /* The session goes on with the same prompt. */
        r.given.most_tokens = 5;
        submit(scheduler, &r);
        run_out(scheduler);
        end_with(&r, SL_END_COUNT);
        assert_int_equal(r.count, 5);
        for (int i = 0; i < 3; i++)
            same_tokens(&others->requests[i], usual[i], others->requests[i].given.most_tokens);
        leave(others);
        sl_session_destroy(r.given.session);
    }
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* A conversation whose turns are submitted when the one before has ended. */
typedef struct {
    sl_scheduler *scheduler;
    sl_session *session;
    sl_token prompt[CONTEXT];
    size_t count;
    int turns, scores;
} talker;

static int hear_token(void *ctx, sl_ticket *ticket, sl_token token) {
    talker *t = ctx;
    (void)ticket;
    t->prompt[t->count++] = token;
    return t->count % 7 == 0;
}

static void say_more(void *ctx, sl_ticket *ticket, sl_ticket_end end);
static void submit_turn(talker *t) {
    sl_ticket *ticket;
    const sl_request given = {.struct_size = sizeof given,
                              .session = t->session,
                              .prompt = t->prompt,
                              .prompt_count = t->count,
                              .whole = 1,
                              .token = hear_token,
                              .end = say_more,
                              .ctx = t};
    must(sl_scheduler_submit(t->scheduler, &given, &ticket, &err));
}

static void say_more(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    talker *t = ctx;
    assert_int_equal(end, SL_END_STOP);
    sl_sync_report report = {.struct_size = sizeof report};
    must(sl_ticket_reuse(ticket, &report, &err));
    assert_true(t->turns == 0 || report.reused > 0);
    sl_ticket_release(ticket);
    draw_tokens(t->prompt + t->count, 20, 900, (uint32_t)t->turns);
    t->count += 20;
    if (++t->turns < 5) submit_turn(t);
}

static void release_at(void *ctx, sl_ticket *ticket, size_t position, const sl_logprob *logprobs,
                       uint32_t count) {
    talker *t = ctx;
    (void)position, (void)logprobs, (void)count;
    if (++t->scores == 5) sl_ticket_release(ticket);
}

/* The next turn begins in the end of the one before, also while that is still being written. */
static void callbacks_submit_and_release(void **state) {
    (void)state;
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s", test_path("kv"));
    sl_model *model = open_with(MODEL, 1 << 20, folder);
    talker *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->scheduler = new_scheduler(model, (sl_scheduler_options){0});
    t->session = new_session(model, 0, 0);
    t->count = write_prompt(model, t->prompt, 1, 200);
    submit_turn(t);
    run_out(t->scheduler);
    assert_int_equal(t->turns, 5);
    /* One that is released while it tells of its prompt: its session can be destroyed after the
     * step. */
    sl_ticket *ticket;
    sl_session *session = new_session(model, 0, 0);
    const sl_request given = {.struct_size = sizeof given,
                              .session = session,
                              .prompt = t->prompt,
                              .prompt_count = 100,
                              .prompt_logprobs = 1,
                              .prompt_token = release_at,
                              .token = hear_token,
                              .ctx = t};
    must(sl_scheduler_submit(t->scheduler, &given, &ticket, &err));
    while (t->scores < 5) must(sl_scheduler_step(t->scheduler, NULL, &err));
    assert_int_equal(t->scores, 5);
    sl_session_destroy(session);
    run_out(t->scheduler);
    /* A session may go, or change, before all of its turn is written. */
    submit_turn(t);
    while (t->turns < 6) must(sl_scheduler_step(t->scheduler, NULL, &err));
    sl_session_destroy(t->session);
    run_out(t->scheduler);
    sl_scheduler_destroy(t->scheduler);
    sl_model_close(model);
    free(t);
    remove_folder(folder);
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

enum { EACH = 4 };

/* Stops divide the prompt of a hybrid model otherwise, so that scores are near. */
static void same_scores(const request *r, const float *logits, uint32_t vocab, double near) {
    const size_t count = r->given.prompt_count;
    assert_int_equal(r->scored, count - 1);
    for (size_t i = 0; i < (count - 1) * EACH; i++) {
        const size_t row = i / EACH;
        sl_logprob wanted[EACH];
        must(sl_logprobs_compute(logits + row * vocab, vocab, r->given.prompt[row + 1], EACH - 1,
                                 wanted, &err));
        const double off = r->scores[i].logprob - wanted[i % EACH].logprob;
        if (near == 0) assert_int_equal(r->scores[i].token, wanted[i % EACH].token);
        if (!(off <= near && off >= -near))
            fail_msg("token %zu: %.9g is off by %.9g", row + 1, r->scores[i].logprob, off);
    }
}

static void score_prompt(sl_model *model, const float *logits, const sl_token *prompt, size_t count,
                         int whole) {
    sl_scheduler *scheduler = new_scheduler(model, (sl_scheduler_options){0});
    company *others = join(model, scheduler);
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
    if (whole) assert_int_equal(reuse_of(&r).reason, SL_REUSE_LOGITS);
    same_scores(&r, logits, model->config.vocab,
                whole && sl_forward_recurrent_bytes(model->forward) ? 1e-3 : 0);
    end_with(&r, SL_END_COUNT);
    if (!whole) { /* another prompt follows the last token, which is not computed yet */
        r.given.prompt_count = 20;
        submit(scheduler, &r);
        run_out(scheduler);
        assert_int_equal(r.scored, 19);
        end_with(&r, SL_END_COUNT);
    }
    leave(others);
    free(r.scores);
    sl_session_destroy(r.given.session);
    sl_scheduler_destroy(scheduler);
}

/* The same bits as those of all logits of a session alone. */
static void prompts_are_scored_as_alone(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sl_model *model = open_with(which ? test_path("m.sluice") : MODEL, 8 << 20, NULL);
        sl_token prompt[CONTEXT];
        const size_t count = write_prompt(model, prompt, 9, is_slow_run() ? 133 : 333);
        sl_session *alone = new_session(model, 0, 0);
        float *logits = malloc(count * model->config.vocab * sizeof *logits);
        assert_non_null(logits);
        must(sl_session_extend_all(alone, prompt, count, logits, NULL, &err));
        sl_session_destroy(alone);
        for (int whole = 0; whole < 2; whole++) score_prompt(model, logits, prompt, count, whole);
        free(logits);
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
        cmocka_unit_test(whole_conversations_are_synced),
        cmocka_unit_test(turns_are_found_on_disk),
        cmocka_unit_test(prompts_are_shared_at_once),
        cmocka_unit_test(requests_end_in_every_phase),
        cmocka_unit_test(callbacks_submit_and_release),
        cmocka_unit_test(prompts_are_scored_as_alone),
        cmocka_unit_test(owners_take_turns),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
