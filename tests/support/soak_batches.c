/* soak_batches.c - Lives through one batch: each pass has rows of some of them. */
#include "tests/support/soak.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 30 };

typedef struct {
    soak_life *life; /* NULL: nobody */
    size_t left;     /* tokens to choose before it ends */
    sl_token prompt[SOAK_CONTEXT];
    size_t prompt_count; /* to be added; 0: nothing */
    size_t began;        /* length before the tokens that are being computed */
    bool waits;          /* some of them are not computed yet */
    bool added;          /* to the pass */
    bool again;          /* the token that was chosen last was cancelled and is added again */
    sl_token chosen;
} place;

typedef struct {
    soak_world *world;
    soak_random *random;
    sl_batch *batch;
    place places[SOAK_LIVE];
    uint32_t to_begin;
} batches;

static void begin(batches *b, place *p) {
    if (!soak_begin(&b->world->pace)) {
        b->to_begin = 0;
        return;
    }
    b->to_begin--;
    *p = (place){.life = soak_life_begin(b->world, b->random)};
    p->left = soak_draw(b->random, MOST_TOKENS);
    if (b->world->disk_bytes && soak_one_in(b->random, 2)) soak_life_sync(p->life, b->random);
    const size_t room = SOAK_CONTEXT - MOST_TOKENS - sl_session_length(p->life->session);
    p->prompt_count = soak_prompt(b->world, b->random, p->prompt, room);
}

/* ---- what happens to a session between passes ---- */

static void save_and_load(batches *b, place *p) {
    char path[300];
    sl_error err;
    sl_session *other = NULL;
    (void)snprintf(path, sizeof path, "%s/life.kv", b->world->folder);
    soak_must(sl_session_save(p->life->session, path, NULL, 0, &err), &err);
    sl_session_destroy(p->life->session);
    soak_must(sl_session_create(b->world->model, NULL, &other, &err), &err);
    soak_must(sl_session_load(other, path, NULL, NULL, &err), &err);
    (void)remove(path);
    p->life->session = other;
    atomic_fetch_add(&b->world->counts->files, 1);
}

static void fork_it(batches *b, const place *p) {
    for (uint32_t i = 0; i < SOAK_LIVE; i++)
        if (!b->places[i].life) {
            b->places[i] = (place){.life = soak_life_fork(p->life), .left = p->left};
            b->places[i].prompt_count =
                soak_one_in(b->random, 2)
                    ? soak_prompt(b->world, b->random, b->places[i].prompt, 100)
                    : 0;
            return;
        }
}

static void go_back(batches *b, place *p) {
    sl_error err;
    const size_t length = sl_session_length(p->life->session);
    const size_t kept = soak_draw(b->random, (uint32_t)length);
    soak_must(sl_session_rewind(p->life->session, kept, &err), &err);
    soak_life_note(p->life, SOAK_REWIND, kept, NULL, 0);
    soak_life_divide(p->life);
    p->prompt_count = soak_prompt(b->world, b->random, p->prompt, 120);
    atomic_fetch_add(&b->world->counts->rewinds, 1);
}

static void live(batches *b, place *p) {
    if (!soak_life_has_room(p->life)) {
        p->left = 0;
        return;
    }
    switch (soak_draw(b->random, 90)) {
    case 0:
    case 1:
        save_and_load(b, p);
        break;
    case 2:
    case 3:
        fork_it(b, p);
        break;
    case 4:
        if (!b->world->only_bits) go_back(b, p);
        break;
    case 5:
        if (b->world->disk_bytes) soak_life_sync(p->life, b->random);
        break;
    case 6: /* another turn */
        p->prompt_count = soak_prompt(b->world, b->random, p->prompt, 100);
        break;
    default:
        break;
    }
}

/* ---- passes ---- */

static void add(batches *b, place *p, const sl_token *tokens, size_t count) {
    static const uint32_t most[] = {0, 1, 17, 64, 64, 130};
    sl_error err;
    const size_t before = sl_session_length(p->life->session);
    const uint32_t rows = most[soak_draw(b->random, sizeof most / sizeof most[0])];
    const sl_status status =
        sl_batch_add(b->batch, p->life->session, tokens, count, rows, NULL, &err);
    p->added = status == SL_OK;
    if (!p->added) {
        if (!strstr(err.message, "no room for")) soak_must(status, &err);
        return;
    }
    if (!p->waits) p->began = before;
    p->waits = true;
    if (soak_one_in(b->random, 40)) sl_session_cancel(p->life->session);
}

static void add_choice(batches *b, place *p) {
    soak_life *life = p->life;
    sl_error err;
    if (!p->again)
        soak_must(sl_session_sample_by(life->session, life->sampler, NULL, &p->chosen, &err), &err);
    add(b, p, &p->chosen, 1);
    if (!p->added) return;
    if (!p->again) soak_must(sl_sampler_accept(life->sampler, &p->chosen, 1, &err), &err);
    soak_life_note(life, SOAK_CHOOSE, 1, &p->chosen, 1);
    p->again = false;
    p->left--;
}

static void add_prompt(batches *b, place *p) {
    add(b, p, p->prompt, p->prompt_count);
    if (!p->added) return;
    soak_life_note(p->life, SOAK_EXTEND, p->prompt_count, p->prompt, p->prompt_count);
    p->prompt_count = 0;
}

static void add_next(batches *b, place *p) {
    p->added = false;
    if (soak_one_in(b->random, 8)) return;
    if (!p->waits && !p->prompt_count && !p->again && p->left) live(b, p);
    if (p->waits) {
        add(b, p, NULL, 0);
    } else if (p->prompt_count) {
        add_prompt(b, p);
    } else if (p->left) {
        add_choice(b, p);
    } else {
        soak_life_end(p->life, b->random);
        p->life = NULL;
    }
}

/* ---- what a pass has done ---- */

/* The tokens that came with a cancelled pass are gone; those that came before still wait. */
static void take_back(batches *b, place *p) {
    soak_life *life = p->life;
    soak_op *last = &life->ops[life->op_count - 1];
    const size_t length = sl_session_length(life->session);
    const size_t given = last->what == SOAK_EXTEND ? last->count : 1;
    atomic_fetch_add(&b->world->counts->cancels, 1);
    if (length == p->began + given) return;
    if (length != p->began) soak_fail(b->world->name, "a cancelled pass has left a part");
    p->waits = false;
    life->fed_count -= given;
    last->count -= given;
    if (last->count == 0) life->op_count--;
    if (given == 1 && last->what == SOAK_CHOOSE) {
        p->left++;
        p->again = b->world->only_bits || soak_one_in(b->random, 2);
        if (!p->again) soak_life_divide(life); /* the logits are computed again */
    } else if (soak_one_in(b->random, 2)) {
        p->prompt_count = given;
    } else {
        p->left = 0;
    }
}

static void look(batches *b, place *p) {
    sl_error err;
    const sl_status status = sl_batch_session_status(b->batch, p->life->session, &err);
    if (status == SL_CANCELLED) {
        take_back(b, p);
        return;
    }
    soak_must(status, &err);
    p->waits = !sl_session_logits(p->life->session, NULL);
}

static void run_pass(batches *b) {
    bool any = false;
    sl_error err;
    for (uint32_t i = 0; i < SOAK_LIVE; i++) {
        place *p = &b->places[i];
        if (!p->life && b->to_begin && soak_one_in(b->random, 3)) begin(b, p);
        if (p->life) add_next(b, p);
        any |= p->life && p->added;
    }
    if (!any) return;
    soak_must(sl_batch_run(b->batch, &err), &err);
    atomic_fetch_add(&b->world->counts->batches, 1);
    for (uint32_t i = 0; i < SOAK_LIVE; i++)
        if (b->places[i].life && b->places[i].added) look(b, &b->places[i]);
}

static bool is_over(const batches *b) {
    for (uint32_t i = 0; i < SOAK_LIVE; i++)
        if (b->places[i].life) return false;
    return b->to_begin == 0;
}

void soak_batches(soak_world *world, uint32_t lives) {
    batches *b = calloc(1, sizeof *b);
    sl_error err;
    if (!b) {
        soak_fail("a batch", "no memory");
        return;
    }
    *b = (batches){.world = world, .random = &world->random, .to_begin = lives};
    soak_must(sl_batch_create(world->model, NULL, &b->batch, &err), &err);
    while (!is_over(b)) run_pass(b);
    sl_batch_destroy(b->batch);
    free(b);
}
