/* session.h - One conversation: its tokens, and how many of them the model's state includes.
 *
 * tokens[0 .. length) is the conversation; the slot's state stands after tokens[0 .. computed).
 * Rewinding truncates the KV cache, which needs no computation; recurrent state goes back to a
 * checkpoint (checkpoints.h), and the next extend recomputes the missing tokens.  The same recovers
 * from a failed forward pass.
 *
 * All functions are called with the model's lock held; api/session.c takes it. */
#ifndef SL_ENGINE_SESSION_SESSION_H
#define SL_ENGINE_SESSION_SESSION_H
#include "engine/session/checkpoints.h"
#include "engine/session/model.h"
#include "engine/session/sample.h"
#include "sluice/inspect.h"
#include <stdatomic.h>

struct sl_session {
    sl_model *model;
    sl_arena arena;
    uint32_t slot, chunk;
    uint32_t context; /* tokens at most */
    sl_token *tokens; /* [context] */
    size_t length, computed;
    size_t known;  /* tokens that have been computed before; those between computed and known are
                    * computed again */
    float *logits; /* [vocab], after the last token */
    const float *found; /* where they are: there, or still in a step's result */
    bool has_logits;
    struct sl_batch *batch;     /* that it was added to last; NULL: none */
    sl_candidate *candidates;   /* of sl_sample */
    int32_t *slots, *positions; /* [chunk] */
    sl_checkpoints checkpoints;
    atomic_bool cancelled;
    sl_stats stats;
    sl_expert_stats experts_before; /* of the model, when the call in progress began */
    const sl_forward_watch *watch;  /* of its passes, which do not run ahead then; NULL: none */
    size_t draft_from;              /* the first token of its draft, and how many it has; draft.h */
    uint32_t draft_rows;
    sl_sampling ahead; /* how the next token is being chosen, where model->ahead is this session */
};

/* Rows whose results are given to the caller. */
typedef struct {
    float *logits, *hidden; /* NULL unless every row is wanted */
    size_t from;            /* the token of the first row in them */
    sl_layer_fn *layers;    /* is given the values of layers; NULL: none */
    void *layers_ctx;
} sl_wanted_rows;

/* Restores a valid state at or before `length`, up to where every forward pass has succeeded. */
void sl_session_restore(sl_session *session, size_t length);
/* The result of the last forward pass is about to be overwritten: saves the logits of its session
 * unless that is `next`. */
void sl_session_keep_logits(sl_model *model, const sl_session *next);
/* Drains pending work before other work for a session; an error of another session is reported on
 * its next call.  The caller that destroys the session may ignore the status. */
sl_status sl_session_drain(sl_session *session, sl_error *err);
/* Drains pending work of any session, whose errors are reported on its next call. */
void sl_session_drain_any(sl_model *model);
/* The next `rows` tokens have been computed. */
void sl_session_computed(sl_session *session, uint32_t rows);
/* Counts tokens that a call or a pass has computed: one is decode, more are prefill. */
void sl_session_account(sl_session *session, uint64_t tokens, double seconds);
/* Adds tokens to the conversation without computing them. */
SL_CHECKED sl_status sl_session_append(sl_session *session, const sl_token *tokens, size_t count,
                                       sl_error *err);
/* Computes all tokens and, if `save` is set, saves a checkpoint after them.  On failure the session
 * keeps the tokens computed so far. */
SL_CHECKED sl_status sl_session_advance(sl_session *session, const sl_wanted_rows *all, bool save,
                                        sl_error *err);
/* Drains pending work and computes the logits after the last token (session->found). */
SL_CHECKED sl_status sl_session_need_logits(sl_session *session, sl_error *err);
/* There is room for one more token, and nobody has cancelled the call. */
SL_CHECKED sl_status sl_session_need_room(sl_session *session, sl_error *err);
/* Samples from the logits after the last token, which are computed first if necessary (after
 * rewinding, by a forward pass over that token). */
SL_CHECKED sl_status sl_session_choose(sl_session *session, const sl_sampling *sampling,
                                       sl_token *out, sl_error *err);
/* Samples the next token and appends it, one pass ahead where the device can. */
SL_CHECKED sl_status sl_session_generate(sl_session *session, const sl_sampling *sampling,
                                         sl_token *out, sl_error *err);
#endif
