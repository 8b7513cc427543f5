/* scheduler.h - Requests that generate at the same time, a step for all of them at a time.
 *
 * A step takes a row of every sequence that decodes and rows of prompts, in turns, runs one pass,
 * and samples.  Its own lock protects what submitting and polling threads see; the model's lock is
 * held during the pass.  Neither is held in a callback.
 *
 * scheduler.c: the step; scheduler_queue.c: tickets and who is next; scheduler_prompt.c: prompts,
 * from what is reused to what is kept; scheduler_choose.c: tokens. */
#ifndef SL_ENGINE_SESSION_SCHEDULER_H
#define SL_ENGINE_SESSION_SCHEDULER_H
#include "base/helper.h"
#include "engine/choose/sampler.h"
#include "engine/session/batch.h"
#include "engine/session/pace.h"
#include "engine/session/prefixes.h"

/* What is done with the grammars of requests, as sluice/grammar.h has it. */
typedef struct {
    sl_status (*mask)(sl_grammar_state *state, uint32_t *allowed, size_t words, sl_error *err);
    sl_status (*accept)(sl_grammar_state *state, sl_token token, sl_error *err);
    sl_status (*rollback)(sl_grammar_state *state, size_t tokens, sl_error *err);
    sl_status (*forced)(sl_grammar_state *state, sl_token *tokens, size_t capacity,
                        size_t *out_count, sl_error *err);
    int (*ended)(const sl_grammar_state *state);
} sl_grammar_calls;

/* The grammar of a request. */
typedef struct {
    atomic_bool holds; /* it does not wait any more */
    uint32_t *allowed; /* [words]: which tokens may come next */
    size_t words;
    bool wants_mask, has_mask; /* of the next token */
    bool ended;                /* an end token was accepted */
    uint32_t accepted;         /* tokens of this step that it has accepted */
    sl_error error;            /* of the mask; status SL_OK: none */
} sl_ticket_grammar;

/* Log-probabilities of tokens of a prompt, of one step. */
typedef struct {
    sl_logprob *items; /* [SL_SCORED_ROWS * each]; NULL: none are wanted */
    uint32_t each, count;
    size_t first; /* position in the prompt */
} sl_ticket_scores;

struct sl_ticket {
    sl_scheduler *scheduler;
    sl_ticket *next; /* in the queue, in the order in which they came */
    uint64_t turn;   /* in the queue: that of its owner among owners, */
    uint32_t rank;   /* and how many of the owner's requests come before it */
    sl_arena arena;
    sl_request request; /* prompt, stops and sampling are copies */
    sl_sampling sampling;
    sl_sampler *own_sampler; /* that was made for it; NULL: none */
    sl_ticket_phase phase;
    sl_ticket_end end;
    sl_error error;
    sl_token *tokens; /* [capacity]: generated */
    size_t count, capacity;
    bool has_begun;      /* its first step in a pass has come */
    atomic_bool cancels; /* it ends before the next step */
    bool released;
    bool reporting; /* it ended in this step */
    bool settled;   /* it has ended, and its session is not used any more */
    /* The prompt: */
    size_t before;   /* tokens that the session had */
    size_t appended; /* tokens that it has of the prompt */
    size_t done;     /* of them, those that are computed or reused */
    sl_reuse_plan plan;
    sl_reuse reuse;
    uint32_t next_stop;
    sl_ticket_scores scores;
    sl_ticket_grammar grammar;
    /* In the step: */
    uint32_t rows;  /* taken */
    uint32_t fresh; /* tokens behind `count` that are chosen, not delivered yet */
};

struct sl_scheduler {
    sl_model *model;
    sl_allocator allocator;
    sl_grammar_calls grammars;
    pthread_mutex_t lock;
    sl_batch *batch;
    sl_helper *helper;   /* computes masks during passes; NULL: there was no grammar yet */
    uint64_t masks;      /* that it has computed, */
    double mask_seconds; /* and how long that took */
    sl_ticket **live;    /* [most_live] */
    sl_ticket **ended;   /* [most_live + queue_length]: in this step, to be reported */
    uint32_t live_count, most_live, ended_count;
    sl_ticket *first, **last; /* the queue */
    uint32_t queued, most_queued;
    uint64_t turns;      /* of owners that were given */
    uint32_t kept_later; /* sessions that are not copied for the disk yet */
    uint32_t turn;       /* the live one whose prompt is served first */
    bool in_step;
    sl_pace pace;
    sl_scheduler_stats stats;
};

/* The options are complete. */
SL_CHECKED sl_status sl_scheduler_make(sl_model *model, const sl_scheduler_options *options,
                                       const sl_grammar_calls *grammars, sl_scheduler **out,
                                       sl_error *err);
void sl_scheduler_release(sl_scheduler *scheduler);
SL_CHECKED sl_status sl_scheduler_advance(sl_scheduler *scheduler, uint32_t *out_left,
                                          sl_error *err);

/* ---- tickets and the queue ---- */

/* own_sampler, which may be NULL, is the ticket's from here on, unless this fails. */
SL_CHECKED sl_status sl_scheduler_queue(sl_scheduler *scheduler, const sl_request *request,
                                        const sl_sampling *sampling, sl_sampler *own_sampler,
                                        sl_ticket **out, sl_error *err);
void sl_scheduler_drop(sl_ticket *ticket);
void sl_ticket_free(sl_ticket *ticket);
/* The others are called with the scheduler's lock held. */
/* As others may see it: one that has ended decodes or reads its prompt until its session is not
 * used any more. */
sl_ticket_phase sl_scheduler_phase(const sl_ticket *ticket);
/* How many begin before it; 0 unless it waits. */
uint32_t sl_scheduler_place(const sl_ticket *ticket);
/* The one that begins next; NULL: none waits. */
sl_ticket *sl_scheduler_next(sl_scheduler *scheduler);
/* Takes one out of the queue; served: its owner has had its turn. */
void sl_scheduler_unqueue(sl_scheduler *scheduler, sl_ticket *ticket, bool served);
/* The ticket is in no list any more, or leaves the live ones later.  error may be NULL. */
void sl_ticket_finish(sl_ticket *ticket, sl_ticket_end end, const sl_error *error);
/* The same, taking the lock. */
void sl_ticket_finish_locked(sl_ticket *ticket, sl_ticket_end end, const sl_error *error);

/* ---- prompts; the model's lock is held ---- */

/* Brings the session to where the first pass of the prompt begins.  It has begun afterwards, unless
 * that needs more than `seconds` of reading (0: any number): then call it again. */
SL_CHECKED sl_status sl_ticket_begin_prompt(sl_ticket *ticket, double seconds, sl_error *err);
/* Tokens of the prompt that can be computed without an interruption; 0: none is left. */
SL_CHECKED sl_status sl_ticket_prompt_rows(sl_ticket *ticket, size_t *out, sl_error *err);
/* After a pass in which the ticket took part: keeps prefixes and computes log-probabilities. */
SL_CHECKED sl_status sl_ticket_prompt_passed(sl_ticket *ticket, const sl_batch_entry *entry,
                                             sl_error *err);
/* At the end of a request: keeps what it has computed, and gives up what it has read in part. */
void sl_ticket_keep(sl_ticket *ticket);

/* ---- tokens ---- */

/* Lets the helper compute the masks that are missing; wait before tokens are chosen. */
void sl_scheduler_begin_masks(sl_scheduler *scheduler);
void sl_scheduler_wait_for_masks(sl_scheduler *scheduler);
/* Chooses the next token by the session's logits, and those that must follow it.  With the model's
 * lock held. */
void sl_ticket_choose(sl_ticket *ticket);
/* Makes tokens and log-probabilities of the step known; the callbacks may release the ticket. */
void sl_ticket_deliver(sl_ticket *ticket);
#endif
