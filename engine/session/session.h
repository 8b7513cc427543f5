/* session.h - One conversation: its tokens, and how many of them the model's state includes.
 *
 * tokens[0 .. length) is the conversation; the slot's state stands after tokens[0 .. computed).
 * Recurrent state cannot be truncated, so rewinding restores the last checkpoint or starts over,
 * and the next extend recomputes the missing tokens.  The same recovers from a failed forward pass.
 *
 * All functions are called with the model's lock held; api/session.c takes it. */
#ifndef SL_ENGINE_SESSION_SESSION_H
#define SL_ENGINE_SESSION_SESSION_H
#include "engine/session/model.h"
#include "engine/session/sample.h"
#include <stdatomic.h>

struct sl_session {
    sl_model *model;
    sl_arena arena;
    uint32_t slot, chunk;
    sl_token *tokens; /* [context] */
    size_t length, computed;
    float *logits;      /* [vocab], after the last token */
    const float *found; /* where they are: there, or still in a step's result */
    bool has_logits;
    sl_candidate *candidates;   /* of sl_sample */
    int32_t *slots, *positions; /* [chunk] */
    void *checkpoint;           /* recurrent state after checkpoint_length tokens */
    size_t checkpoint_length;
    atomic_bool cancelled;
    sl_stats stats;
    sl_expert_stats experts_before;
    sl_sampling ahead; /* how the next token is being chosen, where model->ahead is this session */
};

/* Rows whose results are copied to the caller. */
typedef struct {
    float *logits, *hidden; /* NULL unless every row is wanted */
    size_t from;            /* the token of the first row in them */
} sl_wanted_rows;

/* Restores a valid state at or before `length`. */
void sl_session_restore(sl_session *session, size_t length);
/* Saves the recurrent state as the checkpoint. */
SL_CHECKED sl_status sl_session_save(sl_session *session, sl_error *err);
/* The result of the last forward pass is about to be overwritten: saves the logits of its session
 * unless that is `next`. */
void sl_session_keep_logits(sl_model *model, const sl_session *next);
/* Drains pending work before other work for a session; an error of another session is reported on
 * its next call.  The caller that destroys the session may ignore the status. */
sl_status sl_session_drain(sl_session *session, sl_error *err);
/* Adds tokens to the conversation without computing them. */
SL_CHECKED sl_status sl_session_append(sl_session *session, const sl_token *tokens, size_t count,
                                       sl_error *err);
/* Computes all tokens, and saves a checkpoint after them.  On failure the session keeps the tokens
 * computed so far. */
SL_CHECKED sl_status sl_session_advance(sl_session *session, const sl_wanted_rows *all, bool save,
                                        sl_error *err);
/* Samples from the logits after the last token, which are computed first if necessary. */
SL_CHECKED sl_status sl_session_choose(sl_session *session, const sl_sampling *sampling,
                                       sl_token *out, sl_error *err);
/* Samples the next token and appends it, one pass ahead where the device can. */
SL_CHECKED sl_status sl_session_generate(sl_session *session, const sl_sampling *sampling,
                                         sl_token *out, sl_error *err);
#endif
