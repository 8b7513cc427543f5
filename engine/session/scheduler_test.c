/* scheduler_test.c - Requests that generate together give what each gives alone, whenever they
 * join, leave, are cancelled or fail. */
#include "base/memory.h"
#include "sluice/batch.h"
#include "tests/support/described.h"
#include "tests/support/rounds.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODEL "models/fable"
enum { LIVE = 6, MOST_PROMPT = 200, MOST_TOKENS = 12, CONTEXT = 256 };
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_model *open_model(sl_model_options options) {
    sl_model *model = NULL;
    options.struct_size = sizeof options;
    options.max_sessions = LIVE + 2;
    options.context_tokens = CONTEXT;
    options.threads = 2;
    must(sl_model_open(MODEL, &options, &model, &err));
    return model;
}

static sl_session *open_session(sl_model *model) {
    sl_session *session = NULL;
    must(sl_session_create(model, NULL, &session, &err));
    return session;
}

static sl_scheduler *open_scheduler(sl_model *model, sl_scheduler_options options) {
    sl_scheduler *scheduler = NULL;
    options.struct_size = sizeof options;
    must(sl_scheduler_create(model, &options, &scheduler, &err));
    return scheduler;
}

typedef struct {
    sl_session *session;
    sl_ticket *ticket;
    sl_token prompt[MOST_PROMPT];
    size_t prompt_count;
    sl_sampling sampling;
    size_t most, wanted_count, found_count;
    sl_token wanted[MOST_TOKENS], found[MOST_TOKENS];
    sl_ticket_end end;
    int ends;
    size_t cancel_at; /* tokens after which it cancels itself; 0: never */
} request;

static int take_token(void *ctx, sl_ticket *ticket, sl_token token) {
    request *r = ctx;
    assert_true(r->found_count < MOST_TOKENS);
    r->found[r->found_count++] = token;
    if (r->cancel_at && r->found_count == r->cancel_at) sl_ticket_cancel(ticket);
    return 0;
}

static void take_end(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    request *r = ctx;
    sl_ticket_state state = {.struct_size = sizeof state};
    must(sl_ticket_look(ticket, &state, &err));
    assert_int_equal(state.phase, SL_TICKET_ENDED);
    assert_int_equal(state.end, end);
    assert_int_equal(state.tokens, r->found_count);
    r->end = end;
    r->ends++;
}

static void make_request(request *r, sl_model *model, uint32_t number) {
    *r = (request){.prompt_count = 1 + number * 37 % MOST_PROMPT,
                   .most = 1 + number * 5 % MOST_TOKENS,
                   .sampling = {.struct_size = sizeof(sl_sampling),
                                .temperature = number % 2 ? 0.8f : 0,
                                .seed = number}};
    for (size_t i = 0; i < r->prompt_count; i++)
        r->prompt[i] = (sl_token)((i * 7919 + number * 31 + i * i * 31) % 1200);
    sl_session *alone = open_session(model);
    must(sl_session_extend(alone, r->prompt, r->prompt_count, &err));
    for (size_t i = 0; i < r->most; i++)
        must(sl_session_next(alone, &r->sampling, &r->wanted[i], &err));
    r->wanted_count = r->most;
    sl_session_destroy(alone);
}

static void submit(sl_scheduler *scheduler, request *r) {
    const sl_request given = {.struct_size = sizeof given,
                              .session = r->session,
                              .prompt = r->prompt,
                              .prompt_count = r->prompt_count,
                              .most_tokens = r->most,
                              .sampling = &r->sampling,
                              .token = take_token,
                              .end = take_end,
                              .ctx = r};
    must(sl_scheduler_submit(scheduler, &given, &r->ticket, &err));
}

static void check_request(const request *r) {
    assert_int_equal(r->ends, 1);
    const bool cancelled = r->cancel_at && r->cancel_at < r->wanted_count;
    assert_int_equal(r->end, cancelled ? SL_END_CANCELLED : SL_END_COUNT);
    assert_int_equal(r->found_count, cancelled ? r->cancel_at : r->wanted_count);
    assert_memory_equal(r->found, r->wanted, r->found_count * sizeof *r->found);
    assert_int_equal(sl_session_length(r->session), r->prompt_count + r->found_count);
}

static void close_request(request *r) {
    sl_ticket_release(r->ticket);
    sl_session_destroy(r->session);
    r->ticket = NULL;
    r->session = NULL;
}

/* Requests join whenever a session is free. */
static void run_requests(sl_model_options options, sl_scheduler_options scheduling) {
    const uint32_t count = (uint32_t)rounds_of_kinds(20, LIVE + 2);
    sl_model *model = open_model(options);
    request *all = calloc(count, sizeof *all);
    assert_non_null(all);
    for (uint32_t i = 0; i < count; i++) make_request(&all[i], model, i);
    for (uint32_t i = 0; i < count; i += 7) all[i].cancel_at = 2;
    sl_scheduler *scheduler = open_scheduler(model, scheduling);
    uint32_t next = 0, left = 1, open = 0, step = 0;
    while (left || next < count) {
        while (next < count && open < LIVE && (step + next) % 3 != 0) {
            all[next].session = open_session(model);
            submit(scheduler, &all[next++]);
            open++;
        }
        must(sl_scheduler_step(scheduler, &left, &err));
        for (uint32_t i = 0; i < next; i++)
            if (all[i].ends && all[i].ticket) {
                check_request(&all[i]);
                close_request(&all[i]);
                open--;
            }
        assert_true(++step < 10000);
    }
    sl_scheduler_stats stats = {.struct_size = sizeof stats};
    must(sl_scheduler_describe(scheduler, &stats, &err));
    print_message("  %llu steps, %llu tokens decoded, %llu of prompts, %llu steps held\n",
                  (unsigned long long)stats.steps, (unsigned long long)stats.decoded_tokens,
                  (unsigned long long)stats.prefilled_tokens, (unsigned long long)stats.steps_held);
    assert_int_equal(stats.live + stats.queued, 0);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
    free(all);
}

static void requests_are_as_if_alone(void **state) {
    (void)state;
    run_requests((sl_model_options){0}, (sl_scheduler_options){0});
    run_requests((sl_model_options){0}, (sl_scheduler_options){.step_seconds = 1e-6});
    run_requests((sl_model_options){0}, (sl_scheduler_options){.most_live = 1});
    run_requests((sl_model_options){.expert_budget_share = 0.2}, (sl_scheduler_options){0});
}

/* A long prompt neither stops what decodes nor other prompts. */
static void prompts_take_turns(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    sl_scheduler *scheduler = open_scheduler(model, (sl_scheduler_options){.step_seconds = 1e-6});
    request *all = calloc(3, sizeof *all);
    assert_non_null(all);
    uint32_t left = 1;
    static const uint32_t numbers[] = {7, 5, 15}; /* 12 tokens; prompts of 186 and 156 */
    for (uint32_t i = 0; i < 3; i++) {
        make_request(&all[i], model, numbers[i]);
        all[i].session = open_session(model);
    }
    submit(scheduler, &all[0]);
    while (!all[0].found_count) must(sl_scheduler_step(scheduler, &left, &err));
    submit(scheduler, &all[1]);
    submit(scheduler, &all[2]);
    for (int step = 0; step < 4; step++) {
        const size_t before = all[0].found_count;
        must(sl_scheduler_step(scheduler, &left, &err));
        if (!all[0].ends) assert_int_equal(all[0].found_count, before + 1);
    }
    /* No step meets the target, so that every other one has a part: both prompts have begun. */
    for (int i = 1; i < 3; i++) {
        const sl_stats stats = test_session_stats(all[i].session);
        assert_int_equal(stats.prefill_tokens, 64);
    }
    while (left) must(sl_scheduler_step(scheduler, &left, &err));
    for (uint32_t i = 0; i < 3; i++) {
        check_request(&all[i]);
        close_request(&all[i]);
    }
    free(all);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

static sl_ticket *submit_plain(sl_scheduler *scheduler, sl_session *session, const sl_token *prompt,
                               size_t count, size_t most) {
    sl_ticket *ticket = NULL;
    const sl_request given = {.struct_size = sizeof given,
                              .session = session,
                              .prompt = prompt,
                              .prompt_count = count,
                              .most_tokens = most};
    must(sl_scheduler_submit(scheduler, &given, &ticket, &err));
    return ticket;
}

static sl_ticket_state look(const sl_ticket *ticket) {
    sl_ticket_state state = {.struct_size = sizeof state};
    must(sl_ticket_look(ticket, &state, &err));
    return state;
}

static void run_out(sl_scheduler *scheduler) {
    uint32_t left = 1;
    while (left) must(sl_scheduler_step(scheduler, &left, &err));
}

static void errors_end_one_request(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    sl_scheduler *scheduler = open_scheduler(model, (sl_scheduler_options){.queue_length = 3});
    sl_session *a = open_session(model), *b = open_session(model), *c = open_session(model);
    sl_session *d = open_session(model);
    const sl_token good[3] = {5, 6, 7}, bad[2] = {5, -1};
    sl_ticket *fails = submit_plain(scheduler, a, bad, 2, 4);
    sl_ticket *works = submit_plain(scheduler, b, good, 3, 4), *none;
    sl_ticket *empty = submit_plain(scheduler, c, NULL, 0, 4);
    sl_request given = {.struct_size = sizeof given, .session = b};
    assert_int_equal(sl_scheduler_submit(scheduler, &given, &none, &err), SL_INVALID);
    assert_string_equal(err.message, "the session has a request that has not ended");
    given.session = d;
    assert_int_equal(sl_scheduler_submit(scheduler, &given, &none, &err), SL_BUSY);
    assert_string_equal(err.message, "the queue is full: 3 requests wait");
    assert_int_equal(look(empty).place, 2);
    run_out(scheduler);
    assert_int_equal(look(fails).end, SL_END_FAILED);
    assert_int_equal(sl_ticket_status(fails, &err), SL_INVALID);
    assert_string_equal(err.message, "token 1 is -1, the vocabulary has 1280");
    assert_int_equal(look(empty).end, SL_END_FAILED);
    assert_int_equal(look(works).end, SL_END_COUNT);
    must(sl_ticket_status(works, &err));
    sl_token tokens[8];
    assert_int_equal(sl_ticket_tokens(works, 0, tokens, 8), 4);
    assert_int_equal(sl_ticket_tokens(works, 3, tokens + 4, 8), 1);
    assert_int_equal(tokens[3], tokens[4]);
    assert_int_equal(sl_ticket_tokens(works, 9, tokens, 8), 0);
    sl_ticket_release(fails);
    sl_ticket_release(works);
    sl_ticket_release(empty);
    /* It goes on where it was, without a prompt: the same as in one go. */
    works = submit_plain(scheduler, b, NULL, 0, 4);
    sl_ticket *whole = submit_plain(scheduler, d, good, 3, 8);
    run_out(scheduler);
    sl_token more[4], all[8];
    assert_int_equal(sl_ticket_tokens(works, 0, more, 4), 4);
    assert_int_equal(sl_ticket_tokens(whole, 0, all, 8), 8);
    assert_memory_equal(all + 4, more, sizeof more);
    /* Until the context is full. */
    sl_ticket_release(works);
    sl_ticket_release(whole);
    whole = submit_plain(scheduler, d, NULL, 0, 0);
    run_out(scheduler);
    assert_int_equal(look(whole).end, SL_END_CONTEXT);
    assert_int_equal(sl_session_length(d), CONTEXT);
    sl_ticket_release(whole);
    /* A stop token. */
    const sl_request stops = {.struct_size = sizeof stops,
                              .session = c,
                              .prompt = good,
                              .prompt_count = 3,
                              .stops = &all[2],
                              .stop_count = 1};
    must(sl_scheduler_submit(scheduler, &stops, &whole, &err));
    run_out(scheduler);
    assert_int_equal(look(whole).end, SL_END_STOP);
    assert_true(look(whole).tokens <= 3);
    sl_ticket_release(whole);
    sl_scheduler_destroy(scheduler);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(c);
    sl_session_destroy(d);
    sl_model_close(model);
}

static void tickets_are_released_at_any_time(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    sl_scheduler *scheduler = open_scheduler(model, (sl_scheduler_options){.most_live = 2});
    sl_session *sessions[4];
    sl_ticket *tickets[4];
    const sl_token prompt[3] = {5, 6, 7};
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++) {
            sessions[i] = open_session(model);
            tickets[i] = submit_plain(scheduler, sessions[i], prompt, 3, 0);
        }
        for (int i = 0; i < round; i++) must(sl_scheduler_step(scheduler, NULL, &err));
        sl_session_cancel(sessions[0]); /* as any call of the session */
        must(sl_scheduler_step(scheduler, NULL, &err));
        assert_int_equal(look(tickets[0]).end, SL_END_CANCELLED);
        for (int i = 3; i >= 0; i--) {
            sl_ticket_release(tickets[i]);
            sl_session_destroy(sessions[i]);
        }
        uint32_t left = 9;
        must(sl_scheduler_step(scheduler, &left, &err));
        assert_int_equal(left, 0);
    }
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* In its callback a request releases itself and submits the next. */
typedef struct {
    sl_scheduler *scheduler;
    sl_session *sessions[2];
    sl_ticket *ticket;
    int submitted, tokens;
} chain;

static int chain_token(void *ctx, sl_ticket *ticket, sl_token token);
static void chain_next(chain *c) {
    const sl_token prompt[3] = {5, 6, 7};
    const sl_request given = {.struct_size = sizeof given,
                              .session = c->sessions[c->submitted % 2],
                              .prompt = prompt,
                              .prompt_count = 3,
                              .token = chain_token,
                              .ctx = c};
    must(sl_scheduler_submit(c->scheduler, &given, &c->ticket, &err));
    c->submitted++;
}
static int chain_token(void *ctx, sl_ticket *ticket, sl_token token) {
    chain *c = ctx;
    (void)token;
    assert_ptr_equal(ticket, c->ticket);
    if (++c->tokens % 3) return 0;
    sl_ticket_release(ticket);
    if (c->submitted < 6) chain_next(c);
    return 0;
}

static void callbacks_submit_and_release(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    chain c = {.scheduler = open_scheduler(model, (sl_scheduler_options){0}),
               .sessions = {open_session(model), open_session(model)}};
    chain_next(&c);
    run_out(c.scheduler);
    assert_int_equal(c.submitted, 6);
    assert_int_equal(c.tokens, 18);
    sl_scheduler_destroy(c.scheduler);
    sl_session_destroy(c.sessions[0]);
    sl_session_destroy(c.sessions[1]);
    sl_model_close(model);
}

/* Two that end in one step: the second one looks at the first. */
typedef struct {
    sl_ticket *tickets[2];
    int tokens, ends;
} couple;

static int couple_token(void *ctx, sl_ticket *ticket, sl_token token) {
    couple *c = ctx;
    (void)token;
    c->tokens++;
    if (ticket == c->tickets[1]) assert_int_equal(look(c->tickets[0]).phase, SL_TICKET_DECODE);
    return 0;
}
static void couple_end(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    couple *c = ctx;
    (void)ticket;
    assert_int_equal(end, SL_END_COUNT);
    for (int i = 0; i < 2; i++) assert_int_equal(look(c->tickets[i]).phase, SL_TICKET_ENDED);
    c->ends++;
}

/* Who sees that a request has ended may destroy its session, which the step may still use. */
static void ends_are_seen_when_sessions_are_free(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    sl_scheduler *scheduler = open_scheduler(model, (sl_scheduler_options){0});
    sl_session *sessions[2] = {open_session(model), open_session(model)};
    const sl_token prompt[3] = {5, 6, 7};
    couple c = {0};
    for (int i = 0; i < 2; i++) {
        const sl_request given = {.struct_size = sizeof given,
                                  .session = sessions[i],
                                  .prompt = prompt,
                                  .prompt_count = 3,
                                  .most_tokens = 1,
                                  .token = couple_token,
                                  .end = couple_end,
                                  .ctx = &c};
        must(sl_scheduler_submit(scheduler, &given, &c.tickets[i], &err));
    }
    run_out(scheduler);
    assert_int_equal(c.tokens, 2);
    assert_int_equal(c.ends, 2);
    for (int i = 0; i < 2; i++) sl_ticket_release(c.tickets[i]);
    for (int i = 0; i < 2; i++) sl_session_destroy(sessions[i]);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

static void passes_have_room_for_all(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    const sl_scheduler_options few = {.struct_size = sizeof few, .most_live = 4, .most_rows = 67};
    sl_scheduler *scheduler = NULL;
    assert_int_equal(sl_scheduler_create(model, &few, &scheduler, &err), SL_INVALID);
    assert_string_equal(err.message, "passes of 67 rows, wanted at least 68: one for each live "
                                     "sequence, and 64 for a part of a prompt");
    assert_null(scheduler);
    sl_model_close(model);
    run_requests((sl_model_options){0}, (sl_scheduler_options){.most_live = 4, .most_rows = 68});
}

/* ---- threads that submit, poll and cancel while another steps ---- */

typedef struct {
    sl_model *model;
    sl_scheduler *scheduler;
    uint32_t number;
    atomic_uint *working;
} client;

static void *run_client(void *ctx) {
    const client *c = ctx;
    sl_error error;
    for (uint32_t i = 0; i < 6; i++) {
        sl_session *session = NULL;
        sl_ticket *ticket = NULL;
        const sl_token prompt[3] = {(sl_token)c->number, 6, (sl_token)i};
        const sl_request given = {.struct_size = sizeof given,
                                  .prompt = prompt,
                                  .prompt_count = 3,
                                  .most_tokens = 4,
                                  .session = session};
        sl_request one = given;
        if (sl_session_create(c->model, NULL, &session, &error) != SL_OK) abort();
        one.session = session;
        if (sl_scheduler_submit(c->scheduler, &one, &ticket, &error) != SL_OK) abort();
        sl_ticket_state state = {.struct_size = sizeof state};
        do {
            sl_token tokens[4];
            if (sl_ticket_look(ticket, &state, &error) != SL_OK) abort();
            (void)sl_ticket_tokens(ticket, 0, tokens, 4);
            if (i % 3 == 2 && state.tokens) sl_ticket_cancel(ticket);
        } while (state.phase != SL_TICKET_ENDED);
        sl_ticket_release(ticket);
        sl_session_destroy(session);
    }
    atomic_fetch_sub(c->working, 1);
    return NULL;
}

static void threads_submit_while_another_steps(void **state) {
    (void)state;
    enum { CLIENTS = 3 };
    sl_model *model = open_model((sl_model_options){0});
    sl_scheduler *scheduler = open_scheduler(model, (sl_scheduler_options){0});
    atomic_uint working = CLIENTS;
    client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (client){model, scheduler, i, &working};
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &clients[i]), 0);
    }
    uint32_t left = 0;
    while (atomic_load(&working) || left) must(sl_scheduler_step(scheduler, &left, &err));
    for (uint32_t i = 0; i < CLIENTS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    sl_scheduler_destroy(scheduler);
    sl_model_close(model);
}

/* ---- memory that runs out ---- */

typedef struct {
    uint64_t count, fail_at; /* 0: never */
    int64_t live;
} failing;

static void *failing_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    failing *f = ctx;
    if (new_bytes && f->fail_at && ++f->count == f->fail_at) return NULL;
    f->live += (int64_t)new_bytes - (int64_t)old_bytes;
    return sl_resize(NULL, ptr, old_bytes, new_bytes, align);
}

/* A batch and a scheduler with a request, of which the nth allocation fails. */
static sl_status make_all(sl_model *model, sl_session *session, sl_error *error) {
    static const sl_token prompt[3] = {5, 6, 7};
    const sl_request given = {.struct_size = sizeof given,
                              .session = session,
                              .prompt = prompt,
                              .prompt_count = 3,
                              .most_tokens = 2};
    sl_batch *batch = NULL;
    sl_scheduler *scheduler = NULL;
    sl_ticket *ticket = NULL;
    sl_status status = sl_batch_create(model, NULL, &batch, error);
    if (status == SL_OK) status = sl_scheduler_create(model, NULL, &scheduler, error);
    if (status == SL_OK) status = sl_scheduler_submit(scheduler, &given, &ticket, error);
    if (status == SL_OK) status = sl_scheduler_step(scheduler, NULL, error);
    sl_ticket_release(ticket);
    sl_scheduler_destroy(scheduler);
    sl_batch_destroy(batch);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    failing f = {0};
    sl_model *model = open_model((sl_model_options){.allocator = {failing_resize, &f}});
    sl_session *session = open_session(model);
    must(make_all(model, session, &err)); /* what is kept is there now */
    const int64_t live = f.live;
    uint64_t failures = 0;
    for (uint64_t at = 1;; at++) {
        f.count = 0;
        f.fail_at = at;
        const sl_status status = make_all(model, session, &err);
        const bool reached = f.count >= at;
        f.fail_at = 0;
        assert_true(f.live == live);
        if (!reached) {
            must(status);
            break;
        }
        assert_int_equal(status, SL_NO_MEMORY);
        failures++;
    }
    print_message("  %llu failures\n", (unsigned long long)failures);
    assert_true(failures >= 6);
    sl_session_destroy(session);
    sl_model_close(model);
    assert_true(f.live == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_as_if_alone),
        cmocka_unit_test(prompts_take_turns),
        cmocka_unit_test(errors_end_one_request),
        cmocka_unit_test(tickets_are_released_at_any_time),
        cmocka_unit_test(callbacks_submit_and_release),
        cmocka_unit_test(ends_are_seen_when_sessions_are_free),
        cmocka_unit_test(passes_have_room_for_all),
        cmocka_unit_test(threads_submit_while_another_steps),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
