/* choose_by.h - Tokens of a session chosen by a sampler (engine/choose). */
#ifndef SL_ENGINE_SESSION_CHOOSE_BY_H
#define SL_ENGINE_SESSION_CHOOSE_BY_H
#include "engine/choose/sampler.h"
#include "engine/session/session.h"

/* Chooses from the logits after the last token.  The sampler follows the session. */
SL_CHECKED sl_status sl_session_choose_by(sl_session *session, sl_sampler *sampler,
                                          const uint32_t *allowed, sl_token *out, sl_error *err);
/* Chooses the next token and appends it to both. */
SL_CHECKED sl_status sl_session_generate_by(sl_session *session, sl_sampler *sampler,
                                            const uint32_t *allowed, sl_token *out, sl_error *err);
#endif
