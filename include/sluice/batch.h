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
 * On a CPU, tokens and logits of a session are the same bits whatever else is in the batch.  In
 * models with recurrent layers they depend on where its tokens are divided into calls; division of
 * one call's tokens into passes changes nothing, because it is at multiples of 64 tokens.
 *
 * Sessions keep their own calls (sluice.h), between passes.  Calls of one model's sessions, batches
 * and schedulers wait for each other.  Open the model with max_sessions. */
#ifndef SLUICE_BATCH_H
#define SLUICE_BATCH_H
#include "sluice/sluice.h"
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
 * recurrent layers for 64, unless fewer are left).  A session that is destroyed leaves the batch. */
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
    double stall_seconds; /* in which threads only waited for reads */
} sl_batch_stats;
SL_API SL_CHECKED sl_status sl_batch_describe(const sl_batch *batch, sl_batch_stats *out,
                                              sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
