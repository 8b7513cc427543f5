/* soak.h - Many sessions with random lives: prompts that share beginnings, batches or a scheduler,
 * cancels, forks, files and caches; what some of them computed is compared with a session alone.
 *
 * Several threads take part, so a failure does not return: it prints a line and aborts. */
#ifndef SL_TESTS_SUPPORT_SOAK_H
#define SL_TESTS_SUPPORT_SOAK_H
#include "sluice/batch.h"
#include "sluice/sampling.h"
#include "sluice/sessions.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { SOAK_CONTEXT = 512, SOAK_LIVE = 8, SOAK_SESSIONS = SOAK_LIVE + 4 };

/* ---- what all share ---- */

_Noreturn void soak_fail(const char *what, const char *why);
void soak_must(sl_status status, const sl_error *err);

typedef struct {
    uint64_t state;
} soak_random;
uint32_t soak_draw(soak_random *random, uint32_t below);
static inline bool soak_one_in(soak_random *random, uint32_t n) {
    return soak_draw(random, n) == 0;
}

/* What happened, of all worlds. */
typedef struct {
    atomic_uint_fast64_t lives, tokens, batches, requests, cancels, forks, files, rewinds, syncs,
        reused, checked, checked_tokens, near;
} soak_counts;

/* Live allocations and their bytes. */
typedef struct {
    atomic_int_fast64_t blocks, bytes;
} soak_memory;
sl_allocator soak_allocator(soak_memory *memory);

/* How many sessions may have begun by now, so that they spread over the time that is given. */
typedef struct {
    uint64_t sessions;
    double start, seconds; /* 0: as fast as they go */
    atomic_uint_fast64_t begun;
} soak_pace;
bool soak_begin(soak_pace *pace); /* counts another session; false: none is left */
/* Waits until it is time for more of them; false: none is left. */
bool soak_wait(soak_pace *pace);

/* A model and what may be done with it. */
typedef struct {
    const char *name, *path;
    sl_model_options options;
    bool any_division;   /* bits do not depend on how tokens are divided into calls */
    bool only_bits;      /* nothing is done that may change bits in a session alone */
    uint64_t disk_bytes; /* of the cache on disk; 0: no caches */
    char folder[256];
    sl_model *model;
    uint32_t vocab;
    soak_memory memory;
    soak_counts *counts;
    soak_pace pace;
    soak_random random;
    int64_t idle_blocks, idle_bytes; /* most memory without any session */
} soak_world;

/* ---- a session and what was done with it ---- */

typedef enum {
    SOAK_EXTEND, /* by a number of tokens in one call */
    SOAK_CHOOSE, /* a number of times: a token is chosen and computed */
    SOAK_NEXT,   /* the same, but a token is computed when the next is asked for */
    SOAK_REWIND  /* to a length */
} soak_what;
typedef struct {
    soak_what what;
    size_t count;
} soak_op;

enum { SOAK_OPS = 64, SOAK_FED = 4096 };
typedef struct {
    soak_world *world;
    sl_session *session;
    sl_sampler *sampler;
    uint64_t sampling_seed; /* of the sampler's options */
    soak_op ops[SOAK_OPS];
    uint32_t op_count;
    sl_token fed[SOAK_FED]; /* tokens in the order of the operations */
    size_t fed_count;
    bool near; /* logits are those of a session alone but for rounding */
} soak_life;

/* A session of its own for a life that begins; released with soak_life_end. */
soak_life *soak_life_begin(soak_world *world, soak_random *random);
/* A copy that goes its own way. */
soak_life *soak_life_fork(const soak_life *life);
/* Maybe compares it with a session alone. */
void soak_life_end(soak_life *life, soak_random *random);
/* Notes an operation; tokens may be NULL. */
void soak_life_note(soak_life *life, soak_what what, size_t count, const sl_token *tokens,
                    size_t token_count);
/* What follows is divided into passes otherwise than with a session alone. */
void soak_life_divide(soak_life *life);
bool soak_life_has_room(const soak_life *life);
/* The plain part of its sampling. */
sl_sampling soak_life_sampling(const soak_life *life);
/* Makes a session of other tokens that begin alike, with what caches have of them. */
void soak_life_sync(soak_life *life, soak_random *random);
/* A prompt: one of a few beginnings, and tokens of its own. */
size_t soak_prompt(const soak_world *world, soak_random *random, sl_token *out, size_t most);

/* ---- what computes them ---- */

/* Some lives through one batch; none is left afterwards. */
void soak_batches(soak_world *world, uint32_t lives);
/* Some lives of several threads through one scheduler. */
void soak_requests(soak_world *world, uint32_t lives);
#endif
