/* soak_requests.c - Lives through a scheduler: some threads submit and cancel, one computes. */
#include "tests/support/soak.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 4, MOST_TOKENS = 30 };

typedef struct {
    soak_world *world;
    sl_scheduler *scheduler;
    atomic_uint to_begin, clients;
} desk;

typedef struct {
    desk *desk;
    soak_random random;
    soak_life *life;
    sl_token found[MOST_TOKENS];
    size_t found_count, cancel_at; /* 0: not by the number of tokens */
    sl_ticket_end end;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended;
} client;

static int take_token(void *ctx, sl_ticket *ticket, sl_token token) {
    client *c = ctx;
    if (c->found_count == MOST_TOKENS) soak_fail(c->desk->world->name, "too many tokens");
    c->found[c->found_count++] = token;
    if (c->found_count == c->cancel_at) sl_ticket_cancel(ticket);
    return 0;
}

static void take_end(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    client *c = ctx;
    (void)ticket;
    (void)pthread_mutex_lock(&c->lock);
    c->end = end;
    c->ended = true;
    (void)pthread_cond_signal(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
}

static void wait_for_end(client *c) {
    (void)pthread_mutex_lock(&c->lock);
    while (!c->ended) (void)pthread_cond_wait(&c->changed, &c->lock);
    (void)pthread_mutex_unlock(&c->lock);
}

/* Cancels it at once, after a moment, after some tokens, or not. */
static void maybe_cancel(client *c, sl_ticket *ticket) {
    sl_ticket_state state = {.struct_size = sizeof state};
    sl_error err;
    switch (soak_draw(&c->random, 12)) {
    case 0:
        break;
    case 1:
        (void)usleep(soak_draw(&c->random, 3000));
        break;
    case 2:
        (void)usleep(soak_draw(&c->random, 30000));
        break;
    default:
        return;
    }
    soak_must(sl_ticket_look(ticket, &state, &err), &err);
    sl_ticket_cancel(ticket);
}

/* Notes what the session has now: it may lack a part of the prompt, or all tokens. */
static void note_request(client *c, size_t before, const sl_token *prompt, size_t count) {
    soak_life *life = c->life;
    const sl_token *tokens;
    const size_t length = sl_session_tokens(life->session, &tokens) - before;
    const size_t kept = length < count ? length : count;
    if (memcmp(tokens + before, prompt, kept * sizeof *prompt) != 0 ||
        length - kept != c->found_count ||
        memcmp(tokens + before + kept, c->found, c->found_count * sizeof *c->found) != 0)
        soak_fail(life->world->name, "a request has left other tokens");
    if (kept) soak_life_note(life, SOAK_EXTEND, kept, prompt, kept);
    if (c->found_count) soak_life_note(life, SOAK_NEXT, c->found_count, c->found, c->found_count);
}

/* True: the session may go on. */
static bool make_request(client *c) {
    desk *d = c->desk;
    soak_life *life = c->life;
    sl_token prompt[SOAK_CONTEXT];
    sl_ticket *ticket;
    sl_error err;
    const sl_sampling sampling = soak_life_sampling(life);
    const size_t before = sl_session_length(life->session);
    const size_t room = SOAK_CONTEXT - MOST_TOKENS - before;
    const sl_request given = {.struct_size = sizeof given,
                              .session = life->session,
                              .prompt = prompt,
                              .prompt_count = soak_prompt(d->world, &c->random, prompt, room),
                              .most_tokens = 1 + soak_draw(&c->random, MOST_TOKENS),
                              .sampling = &sampling,
                              .token = take_token,
                              .end = take_end,
                              .ctx = c};
    c->found_count = 0;
    c->cancel_at = soak_one_in(&c->random, 10) ? 1 + soak_draw(&c->random, 10) : 0;
    c->ended = false;
    soak_must(sl_scheduler_submit(d->scheduler, &given, &ticket, &err), &err);
    atomic_fetch_add(&d->world->counts->requests, 1);
    maybe_cancel(c, ticket);
    wait_for_end(c);
    if (c->end == SL_END_FAILED) soak_must(sl_ticket_status(ticket, &err), &err);
    sl_ticket_release(ticket);
    note_request(c, before, prompt, given.prompt_count);
    if (c->end == SL_END_CANCELLED) atomic_fetch_add(&d->world->counts->cancels, 1);
    return c->end == SL_END_COUNT;
}

static void *run_client(void *ctx) {
    client *c = ctx;
    desk *d = c->desk;
    for (;;) {
        uint32_t left = atomic_load(&d->to_begin);
        while (left && !atomic_compare_exchange_weak(&d->to_begin, &left, left - 1)) {}
        if (!left || !soak_begin(&d->world->pace)) break;
        c->life = soak_life_begin(d->world, &c->random);
        if (d->world->disk_bytes && soak_one_in(&c->random, 2)) soak_life_sync(c->life, &c->random);
        bool goes_on = make_request(c);
        while (goes_on && soak_life_has_room(c->life) && soak_one_in(&c->random, 2))
            goes_on = make_request(c);
        soak_life_end(c->life, &c->random);
    }
    atomic_fetch_sub(&d->clients, 1);
    return NULL;
}

static void open_client(client *c, desk *d) {
    *c = (client){.desk = d, .random = {d->world->random.state}};
    (void)soak_draw(&d->world->random, 2);
    if (pthread_mutex_init(&c->lock, NULL) != 0 || pthread_cond_init(&c->changed, NULL) != 0)
        soak_fail("a client", "no lock");
}

void soak_requests(soak_world *world, uint32_t lives) {
    desk d = {.world = world};
    client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    sl_error err;
    const sl_scheduler_options options = {.struct_size = sizeof options, .most_live = CLIENTS - 1};
    soak_must(sl_scheduler_create(world->model, &options, &d.scheduler, &err), &err);
    atomic_store(&d.to_begin, lives);
    atomic_store(&d.clients, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        open_client(&clients[i], &d);
        if (pthread_create(&threads[i], NULL, run_client, &clients[i]) != 0)
            soak_fail("a client", "no thread");
    }
    while (atomic_load(&d.clients)) {
        uint32_t left = 0;
        soak_must(sl_scheduler_step(d.scheduler, &left, &err), &err);
        if (!left) (void)usleep(500);
    }
    for (int i = 0; i < CLIENTS; i++) {
        (void)pthread_join(threads[i], NULL);
        (void)pthread_mutex_destroy(&clients[i].lock);
        (void)pthread_cond_destroy(&clients[i].changed);
    }
    sl_scheduler_destroy(d.scheduler);
}
