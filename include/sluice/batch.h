/* batch.h - Several sessions of a model at once.  May still change.
 *
 * A batch computes rows of several sessions in one forward pass: the next token of some, a part of
 * the prompt of others.  Weights are read once for all rows, and so is an expert that several rows
 * chose.
 *
 *   sl_batch_add(batch, a, &token, 1, 0, NULL, err);
 *   sl_batch_add(batch, b, prompt, count, 64, NULL, err);
 *   sl_batch_run(batch, err);
 *   sl_session_sample(a, &sampling, &token, err);      // as after sl_session_extend
 *
 * On a CPU, and on a GPU with sl_model_options.deterministic, tokens and logits of a session are
 * the same bits whatever else is in the batch.  In models with recurrent layers they depend on a
 * CPU on where its tokens are divided into calls; division of one call's tokens into passes changes
 * nothing, because it is at multiples of 64 tokens.
 *
 * Sessions keep their own calls (sluice.h), between passes.  Calls of one model's sessions, batches
 * and schedulers wait for each other.  Open the model with max_sessions. */
#ifndef SLUICE_BATCH_H
#define SLUICE_BATCH_H
#include "sluice/grammar.h"
#include "sluice/sampling.h"
#include "sluice/sessions.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_batch sl_batch;

typedef struct {
    size_t struct_size;
    uint32_t most_rows; /* of a pass; default: a chunk of sl_model_info, or max_sessions if that is
                         * more */
} sl_batch_options;
/* The model is borrowed. */
SL_API SL_CHECKED sl_status sl_batch_create(sl_model *model, const sl_batch_options *options,
                                            sl_batch **out, sl_error *err);
SL_API void sl_batch_destroy(sl_batch *batch); /* before the model; NULL is allowed */

/* Appends tokens to the session, and takes rows of the next pass for tokens of the session that are
 * not computed yet: at most most_rows of them (0: as many as there is room for).  Tokens that find
 * no place wait: add the session again, without tokens, after the pass.  out_rows may be NULL.
 * Fails, with no effect on the batch or the session, if the session is in the batch already, the
 * tokens are no tokens or do not fit the context, or there is no room for a row (in models with
 * recurrent layers for 64, unless fewer are left).  A session that is destroyed leaves the batch.
 */
SL_API SL_CHECKED sl_status sl_batch_add(sl_batch *batch, sl_session *session,
                                         const sl_token *tokens, size_t count, uint32_t most_rows,
                                         uint32_t *out_rows, sl_error *err);

/* Runs one forward pass.  Sessions that have no tokens waiting have logits then.  If it fails, each
 * session has the tokens that it had before it was added, and its state is restored.  The next
 * session that is added begins another pass. */
SL_API SL_CHECKED sl_status sl_batch_run(sl_batch *batch, sl_error *err);

/* What the last pass did for a session: SL_CANCELLED (sl_session_cancel before the pass, in which
 * it did not take part), the error of a failed pass, or SL_OK. */
SL_API SL_CHECKED sl_status sl_batch_session_status(const sl_batch *batch,
                                                    const sl_session *session, sl_error *err);

/* Of all passes since the batch was created.  Of their sessions' sl_stats they count tokens, and
 * for each session the whole time of a pass, but no experts. */
typedef struct {
    size_t struct_size; /* set by the caller */
    uint64_t passes, rows;
    uint64_t logits; /* rows with logits */
    double seconds;
    uint64_t expert_hits, expert_misses; /* an expert counts once per pass and layer */
    uint64_t expert_first_reads;         /* those of the misses that were never in memory before */
    uint64_t bytes_read;
    double stall_seconds;   /* in which threads only waited for reads */
    double compile_seconds; /* of `seconds`, for sizes that were not compiled yet */
} sl_batch_stats;
SL_API SL_CHECKED sl_status sl_batch_describe(const sl_batch *batch, sl_batch_stats *out,
                                              sl_error *err);

/* ---- Requests that generate at the same time ---- */

/* A scheduler computes requests step by step, on the thread that calls sl_scheduler_step: each step
 * is one pass with the next token of every sequence that decodes and parts of the prompts of
 * others.  Requests join and leave between steps.
 *
 * The parts of prompts are chosen from measured times such that a step stays below step_seconds
 * while some sequence decodes, but are at least 16 rows (64 in models with recurrent layers), and
 * prompts get them in turns.  Where the smallest part takes longer, steps without prompts come
 * between parts, up to eight, so that the mean stays below it.  If not all experts fit in memory,
 * another request begins only while the number of experts that are read again per token does not
 * grow with the number of sequences; the others wait in a queue, where owners take turns. */
typedef struct sl_scheduler sl_scheduler;
typedef struct sl_ticket sl_ticket; /* a request that was submitted */

typedef struct {
    size_t struct_size;
    double step_seconds;   /* default 0.25 */
    uint32_t queue_length; /* requests that may wait; default 64 */
    uint32_t most_live;    /* sequences computed at once; default: max_sessions */
    uint32_t most_rows;    /* as in sl_batch_options; at least most_live and one row, in models with
                            * recurrent layers 64, so that all get on */
} sl_scheduler_options;
/* The model is borrowed. */
SL_API SL_CHECKED sl_status sl_scheduler_create(sl_model *model,
                                                const sl_scheduler_options *options,
                                                sl_scheduler **out, sl_error *err);
/* Release its tickets first.  NULL is allowed. */
SL_API void sl_scheduler_destroy(sl_scheduler *scheduler);

typedef enum {
    SL_TICKET_QUEUED,
    SL_TICKET_PREFILL,
    SL_TICKET_DECODE,
    SL_TICKET_ENDED
} sl_ticket_phase;
typedef enum {
    SL_END_NONE,      /* it has not ended */
    SL_END_STOP,      /* a stop token, or the callback asked for it */
    SL_END_COUNT,     /* most_tokens were generated */
    SL_END_CONTEXT,   /* the context is full */
    SL_END_CANCELLED, /* sl_ticket_cancel, or sl_session_cancel */
    SL_END_FAILED     /* with an error, which concerns this request, or a whole pass that failed */
} sl_ticket_end;

typedef struct {
    size_t struct_size;
    sl_session *session;    /* borrowed until the request has ended; other calls may not use it */
    const sl_token *prompt; /* copied.  The session is extended by it, unless `whole` is set. */
    size_t prompt_count;
    size_t most_tokens;          /* to generate; 0: until the context is full */
    const sl_sampling *sampling; /* copied; NULL: greedy */
    const sl_token *stops;       /* copied.  A token that ends generation; it is generated too. */
    size_t stop_count;
    /* Both may be NULL; called by sl_scheduler_step, in which they may submit, cancel and release.
     * token returns nonzero to end generation. */
    int (*token)(void *ctx, sl_ticket *ticket, sl_token token);
    void (*end)(void *ctx, sl_ticket *ticket, sl_ticket_end end);
    void *ctx;
    /* Nonzero: the prompt is the whole conversation.  The session is brought to exactly these
     * tokens as by sl_session_sync, with rows in the passes of all; the prefix goes into the cache
     * in memory as soon as it is computed, and at the end all goes into the caches as by
     * sl_session_end_turn.  In models with recurrent layers tokens then agree with those of a
     * session that began anew within rounding, because what is reused was divided otherwise. */
    int whole;
    sl_sampler *sampler; /* borrowed, in place of `sampling`: tokens are those of sl_session_next_by
                          * alone.  `token` may ask sl_sampler_logprobs. */
    /* Borrowed; another thread of the scheduler computes its masks during passes.  Tokens that it
     * forces after a chosen one are computed in one pass with that, and given to `token` as others;
     * there are none where the sampler has log-probabilities.  Its end ends generation. */
    sl_grammar_state *grammar;
    int grammar_waits; /* nonzero: the grammar begins when sl_ticket_constrain is called */
    uint64_t owner;    /* in the queue, requests of one owner take turns with those of others */
    int32_t priority;  /* those with a higher one begin first */
    /* 1 + how many of the most likely tokens are wanted of each token of the prompt but the first;
     * 0: none.  Nothing is reused then.  prompt_token is called as `token` is: position 1 first,
     * with entries as of sl_logprobs_compute. */
    uint32_t prompt_logprobs;
    void (*prompt_token)(void *ctx, sl_ticket *ticket, size_t position, const sl_logprob *logprobs,
                         uint32_t count);
} sl_request;

/* May be called from any thread.  SL_BUSY: the queue is full.  Afterwards the session has the
 * prompt and all generated tokens, of which the last may not be computed yet. */
SL_API SL_CHECKED sl_status sl_scheduler_submit(sl_scheduler *scheduler, const sl_request *request,
                                                sl_ticket **out, sl_error *err);
/* One step; out_left (may be NULL): requests that are live or wait, and whole conversations that
 * are not copied for the disk yet.  With none it does nothing.  If the pass fails, the requests
 * that took part have ended with its error, which is returned too. */
SL_API SL_CHECKED sl_status sl_scheduler_step(sl_scheduler *scheduler, uint32_t *out_left,
                                              sl_error *err);

/* These may be called from any thread while the ticket is not released. */
typedef struct {
    size_t struct_size; /* set by the caller */
    sl_ticket_phase phase;
    sl_ticket_end end;
    uint32_t place;                            /* in the queue; 0: the next */
    size_t tokens;                             /* generated so far */
    size_t prompt_tokens, prompt_done, reused; /* done: computed so far, or reused */
} sl_ticket_state;
SL_API SL_CHECKED sl_status sl_ticket_look(const sl_ticket *ticket, sl_ticket_state *out,
                                           sl_error *err);
/* Copies generated tokens from the `first` on; returns how many. */
SL_API size_t sl_ticket_tokens(const sl_ticket *ticket, size_t first, sl_token *tokens,
                               size_t capacity);
/* The error of a request that failed, else SL_OK. */
SL_API SL_CHECKED sl_status sl_ticket_status(const sl_ticket *ticket, sl_error *err);
/* Of a `whole` request, from when its prompt has begun: as the report of sl_session_sync. */
SL_API SL_CHECKED sl_status sl_ticket_reuse(const sl_ticket *ticket, sl_sync_report *out,
                                            sl_error *err);
/* With grammar_waits, in `token`: the grammar holds from the next token on.  Tokens of a thinking
 * budget that were chosen in advance are chosen again. */
SL_API void sl_ticket_constrain(sl_ticket *ticket);
/* Ends the request before the next step. */
SL_API void sl_ticket_cancel(sl_ticket *ticket);
/* A request that has not ended is cancelled, without another callback; its session is free when no
 * step is running.  NULL is allowed. */
SL_API void sl_ticket_release(sl_ticket *ticket);

typedef struct {
    size_t struct_size; /* set by the caller */
    uint64_t steps, decoded_tokens, prefilled_tokens;
    double seconds;              /* of all steps */
    double longest_step_seconds; /* of those in which a sequence decoded */
    uint64_t steps_over;         /* those that took longer than step_seconds */
    uint64_t steps_held;         /* in which a request waited because experts would be read again */
    uint32_t live, queued, prefill_rows; /* now; rows of prompts in the next step beside others */
    uint64_t masks;                      /* of grammars, computed while passes ran */
    double mask_seconds;                 /* that took so long */
    double mask_wait_seconds;            /* and for which steps waited after their pass */
    uint64_t decode_steps;               /* in which a sequence decoded, */
    double decode_seconds;               /* and what they took together */
} sl_scheduler_stats;
SL_API SL_CHECKED sl_status sl_scheduler_describe(sl_scheduler *scheduler, sl_scheduler_stats *out,
                                                  sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
