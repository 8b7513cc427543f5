/* draft.h - Tokens of which the last may be taken back without computing the others again.
 *
 * KV caches are truncated.  Recurrent state goes back to a checkpoint from before the draft, and is
 * advanced again by the tokens that stay, from what the draft's pass kept of them
 * (sl_forward_replay).  The model keeps the rows of one draft, that of model->drafted. */
#ifndef SL_ENGINE_SESSION_DRAFT_H
#define SL_ENGINE_SESSION_DRAFT_H
#include "engine/session/session.h"

enum { SL_MOST_DRAFT_TOKENS = 64 };

/* Appends tokens and computes the logits after each: logits [count * vocab].  If it fails, the
 * session has none of them. */
SL_CHECKED sl_status sl_draft_run(sl_session *session, const sl_token *tokens, size_t count,
                                  float *logits, sl_error *err);
/* The state stands after session->computed tokens: advances it to `length`, if the tokens between
 * are of the session's draft. */
void sl_draft_replay(sl_session *session, size_t length);
/* Tokens from `length` on are replaced. */
void sl_draft_truncate(sl_session *session, size_t length);
#endif
