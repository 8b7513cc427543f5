/* soak_life.c - The life of one session: what was done with it, and the same with a session alone.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "tests/support/relative_error.h"
#include "tests/support/soak.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void soak_fail(const char *what, const char *why) {
    (void)fprintf(stderr, "soak: %s: %s\n", what, why);
    abort();
}

void soak_must(sl_status status, const sl_error *err) {
    if (status != SL_OK) soak_fail("a call failed", err->message);
}

uint32_t soak_draw(soak_random *random, uint32_t below) {
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random->state >> 33) % below;
}

static void *counted_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    soak_memory *memory = ctx;
    void *block = sl_resize(NULL, ptr, old_bytes, new_bytes, align);
    if (new_bytes && !block) return NULL;
    atomic_fetch_add(&memory->blocks, (new_bytes != 0) - (old_bytes != 0));
    atomic_fetch_add(&memory->bytes, (int64_t)new_bytes - (int64_t)old_bytes);
    return block;
}

sl_allocator soak_allocator(soak_memory *memory) {
    return (sl_allocator){counted_resize, memory};
}

bool soak_begin(soak_pace *pace) {
    return atomic_fetch_add(&pace->begun, 1) < pace->sessions;
}

bool soak_wait(soak_pace *pace) {
    const uint64_t number = atomic_load(&pace->begun);
    const double due = pace->start + pace->seconds * (double)number / (double)pace->sessions;
    while (sl_clock_seconds() < due) (void)usleep(20000);
    return number < pace->sessions;
}

/* ---- what is drawn ---- */

enum { BEGINNINGS = 6 };

size_t soak_prompt(const soak_world *world, soak_random *random, sl_token *out, size_t most) {
    soak_random shared = {77 + soak_draw(random, BEGINNINGS)};
    const size_t common = 20 + soak_draw(&shared, 150);
    const size_t own = soak_one_in(random, 6) ? soak_draw(random, 3) : soak_draw(random, 90);
    const size_t count = common + own + 1 < most ? common + own + 1 : most;
    for (size_t i = 0; i < count; i++)
        out[i] = (sl_token)soak_draw(i < common ? &shared : random, world->vocab);
    return count;
}

static const char *const settings[][2] = {
    {"temperature", "0.7"},
    {"temperature", "1.2"},
    {"top_k", "20"},
    {"top_p", "0.9"},
    {"min_p", "0.05"},
    {"typical_p", "0.8"},
    {"top_n_sigma", "1.5"},
    {"repeat_penalty", "1.2"},
    {"repeat_last_n", "-1"},
    {"presence_penalty", "0.4"},
    {"frequency_penalty", "0.3"},
    {"dry_multiplier", "0.8"},
    {"xtc_probability", "0.5"},
    {"dynatemp_range", "0.3"},
    {"mirostat", "1"},
    {"mirostat", "2"},
    {"min_tokens", "10"},
    {"ignore_eos", "1"},
    {"penalty_prompt", "1"},
    {"samplers", "top_k;temperature"},
};

static sl_sampler_options options_of(uint64_t seed) {
    sl_sampler_options options = {.struct_size = sizeof options};
    soak_random random = {seed};
    sl_error err;
    for (uint32_t i = soak_draw(&random, 6); i > 0; i--) {
        const uint32_t which = soak_draw(&random, sizeof settings / sizeof settings[0]);
        soak_must(sl_sampler_set(&options, settings[which][0], settings[which][1], &err), &err);
    }
    options.seed = seed;
    options.logprobs = soak_draw(&random, 4);
    return options;
}

static sl_sampler *new_sampler(const soak_world *world, uint64_t seed) {
    const sl_sampler_options options = options_of(seed);
    sl_sampler *sampler;
    sl_error err;
    soak_must(sl_sampler_create(world->model, &options, &sampler, &err), &err);
    return sampler;
}

sl_sampling soak_life_sampling(const soak_life *life) {
    const sl_sampler_options options = options_of(life->sampling_seed);
    return (sl_sampling){.struct_size = sizeof(sl_sampling),
                         .temperature = options.temperature,
                         .top_p = options.top_p,
                         .min_p = options.min_p,
                         .top_k = options.top_k,
                         .seed = options.seed};
}

/* ---- the same alone ---- */

typedef struct {
    sl_session *session;
    sl_sampler *sampler;
    sl_sampling sampling;
    bool forced; /* tokens are those of the life, whatever would be chosen */
} lone;

static void same_token(const soak_life *life, sl_token found, sl_token wanted, size_t at) {
    char why[160];
    if (found == wanted) return;
    (void)snprintf(why, sizeof why, "%s: token %zu of a session is %d, alone %d", life->world->name,
                   at, (int)wanted, (int)found);
    soak_fail("another choice", why);
}

static void choose_alone(const soak_life *life, lone *l, soak_what what, size_t at) {
    const sl_token wanted = life->fed[at];
    sl_token token = wanted;
    sl_error err;
    if (l->forced) {
        soak_must(sl_session_extend(l->session, &token, 1, &err), &err);
        return;
    }
    if (what == SOAK_NEXT) {
        soak_must(sl_session_next(l->session, &l->sampling, &token, &err), &err);
        same_token(life, token, wanted, at);
        return;
    }
    soak_must(sl_session_sample_by(l->session, l->sampler, NULL, &token, &err), &err);
    same_token(life, token, wanted, at);
    soak_must(sl_sampler_accept(l->sampler, &token, 1, &err), &err);
    soak_must(sl_session_extend(l->session, &token, 1, &err), &err);
}

static void replay(const soak_life *life, lone *l) {
    size_t at = 0;
    sl_error err;
    for (uint32_t i = 0; i < life->op_count; i++) {
        const soak_op op = life->ops[i];
        if (op.what == SOAK_REWIND) {
            soak_must(sl_session_rewind(l->session, op.count, &err), &err);
        } else if (op.what == SOAK_EXTEND) {
            if (op.count)
                soak_must(sl_session_extend(l->session, life->fed + at, op.count, &err), &err);
            at += op.count;
        } else {
            for (size_t n = 0; n < op.count; n++) choose_alone(life, l, op.what, at++);
        }
    }
    if (at != life->fed_count) soak_fail(life->world->name, "the notes of a life are wrong");
}

/* As in sync_test.c, where a wrong state is off by a hundred times as much. */
#define NEAR 2e-5

/* What is needed to do it again. */
static void print_life(const soak_life *life, double apart) {
    const sl_token *tokens;
    const size_t count = sl_session_tokens(life->session, &tokens);
    (void)fprintf(stderr, "soak: logits are %.3g apart; operations:", apart);
    for (uint32_t i = 0; i < life->op_count; i++)
        (void)fprintf(stderr, " %d:%zu", (int)life->ops[i].what, (size_t)life->ops[i].count);
    (void)fprintf(stderr, "\nsoak: tokens:");
    for (size_t i = 0; i < count; i++) (void)fprintf(stderr, " %d", (int)tokens[i]);
    (void)fprintf(stderr, "\n");
}

/* NULL: the last token waits, or was cancelled, and computing it would change bits. */
static const float *logits_of(const soak_life *life, sl_session *session) {
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    const bool computes = life->near || life->world->any_division;
    sl_token any;
    sl_error err;
    if (computes && sl_session_length(session) && !sl_session_logits(session, NULL))
        soak_must(sl_session_sample(session, &greedy, &any, &err), &err);
    return sl_session_logits(session, NULL);
}

static void compare(const soak_life *life, const lone *l) {
    const sl_token *tokens, *alone;
    const size_t vocab = life->world->vocab;
    const size_t count = sl_session_tokens(life->session, &tokens);
    if (sl_session_tokens(l->session, &alone) != count ||
        memcmp(tokens, alone, count * sizeof *tokens) != 0)
        soak_fail(life->world->name, "a session has other tokens than its life");
    const float *wanted = logits_of(life, l->session);
    const float *found = logits_of(life, life->session);
    atomic_fetch_add(&life->world->counts->checked, 1);
    atomic_fetch_add(&life->world->counts->checked_tokens, life->fed_count);
    if (!wanted || !found) return;
    if (life->near) {
        atomic_fetch_add(&life->world->counts->near, 1);
        const double apart = relative_error(found, wanted, vocab);
        if (apart <= NEAR) return;
        print_life(life, apart);
        soak_fail(life->world->name, "wrong logits");
    } else if (memcmp(found, wanted, vocab * sizeof *found) != 0) {
        soak_fail(life->world->name, "logits have other bits");
    }
}

static void check(const soak_life *life) {
    lone l = {.sampling = soak_life_sampling(life), .forced = life->near};
    sl_error err;
    soak_must(sl_session_create(life->world->model, NULL, &l.session, &err), &err);
    l.sampler = new_sampler(life->world, life->sampling_seed);
    replay(life, &l);
    compare(life, &l);
    sl_sampler_destroy(l.sampler);
    sl_session_destroy(l.session);
}

/* ---- lives ---- */

static soak_life *new_life(void) {
    soak_life *life = calloc(1, sizeof *life);
    if (!life) soak_fail("a life", "no memory");
    return life;
}

soak_life *soak_life_begin(soak_world *world, soak_random *random) {
    soak_life *life = new_life();
    sl_error err;
    life->world = world;
    life->sampling_seed = random->state;
    soak_must(sl_session_create(world->model, NULL, &life->session, &err), &err);
    life->sampler = new_sampler(world, life->sampling_seed);
    atomic_fetch_add(&world->counts->lives, 1);
    return life;
}

soak_life *soak_life_fork(const soak_life *life) {
    soak_life *copy = new_life();
    sl_error err;
    *copy = *life;
    soak_must(sl_session_fork(life->session, &copy->session, &err), &err);
    soak_must(sl_sampler_fork(life->sampler, &copy->sampler, &err), &err);
    atomic_fetch_add(&life->world->counts->forks, 1);
    return copy;
}

void soak_life_end(soak_life *life, soak_random *random) {
    sl_error err;
    if (soak_one_in(random, 3) && sl_session_length(life->session))
        soak_must(sl_session_end_turn(life->session, &err), &err);
    if (soak_one_in(random, 5)) check(life);
    sl_sampler_destroy(life->sampler);
    sl_session_destroy(life->session);
    free(life);
}

bool soak_life_has_room(const soak_life *life) {
    return life->op_count + 8 < SOAK_OPS && life->fed_count + SOAK_CONTEXT < SOAK_FED &&
           sl_session_length(life->session) + 150 < SOAK_CONTEXT;
}

void soak_life_divide(soak_life *life) {
    life->near |= !life->world->any_division;
}

void soak_life_note(soak_life *life, soak_what what, size_t count, const sl_token *tokens,
                    size_t token_count) {
    soak_op *last = life->op_count ? &life->ops[life->op_count - 1] : NULL;
    if (life->fed_count + token_count > SOAK_FED) soak_fail("a life", "it is too long");
    if (token_count) memcpy(life->fed + life->fed_count, tokens, token_count * sizeof *tokens);
    life->fed_count += token_count;
    atomic_fetch_add(&life->world->counts->tokens, token_count);
    if (last && last->what == what && (what == SOAK_CHOOSE || what == SOAK_NEXT)) {
        last->count += count;
        return;
    }
    if (life->op_count == SOAK_OPS) soak_fail("a life", "it has too many operations");
    life->ops[life->op_count++] = (soak_op){what, count};
}

static int stop_at_once(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)ctx, (void)what, (void)done, (void)total;
    return 1;
}

void soak_life_sync(soak_life *life, soak_random *random) {
    sl_token tokens[SOAK_CONTEXT];
    const sl_token *own;
    const size_t count = soak_prompt(life->world, random, tokens, SOAK_CONTEXT / 2);
    const size_t length = sl_session_tokens(life->session, &own);
    size_t common = 0;
    /* Half of the time it is its own beginning that goes on otherwise. */
    if (length && soak_one_in(random, 2)) {
        const size_t kept = 1 + soak_draw(random, (uint32_t)length);
        memcpy(tokens, own, (kept < count ? kept : count) * sizeof *tokens);
    }
    while (common < length && common < count && own[common] == tokens[common]) common++;
    sl_sync_report report = {.struct_size = sizeof report};
    const sl_sync_options stops = {.struct_size = sizeof stops, .progress = stop_at_once};
    sl_error err;
    sl_status status = sl_session_sync(life->session, tokens, count,
                                       soak_one_in(random, 8) ? &stops : NULL, &report, &err);
    if (status == SL_CANCELLED) {
        atomic_fetch_add(&life->world->counts->cancels, 1);
        status = sl_session_sync(life->session, tokens, count, NULL, &report, &err);
    }
    soak_must(status, &err);
    atomic_fetch_add(&life->world->counts->syncs, 1);
    atomic_fetch_add(&life->world->counts->reused, report.reused);
    if (length > common) soak_life_note(life, SOAK_REWIND, common, NULL, 0);
    soak_life_note(life, SOAK_EXTEND, count - common, tokens + common, count - common);
    soak_life_divide(life);
}
