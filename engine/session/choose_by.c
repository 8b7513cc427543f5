#include "engine/session/choose_by.h"

static sl_status check(const sl_session *session, const sl_sampler *sampler, sl_error *err) {
    const uint32_t vocab = sampler->plan->vocabulary.size;
    if (vocab == session->model->config.vocab) return SL_OK;
    return sl_fail(err, SL_INVALID, "the sampler is of a vocabulary of %u, the model has %u", vocab,
                   session->model->config.vocab);
}

/* With the sampler at the session's end.  A forced token needs no logits, so that the tokens of a
 * forced text are computed in one pass. */
static sl_status choose(sl_session *session, sl_sampler *sampler, const uint32_t *allowed,
                        sl_token *out, sl_error *err) {
    if (sl_sampler_forced(sampler) < 0 || sampler->plan->options.logprobs)
        SL_TRY(sl_session_need_logits(session, err));
    else
        SL_TRY(sl_session_drain(session, err));
    return sl_sampler_pick(sampler, session->found, allowed, out, err);
}

sl_status sl_session_choose_by(sl_session *session, sl_sampler *sampler, const uint32_t *allowed,
                               sl_token *out, sl_error *err) {
    SL_TRY(check(session, sampler, err));
    SL_TRY(sl_sampler_follow(sampler, session->tokens, session->length, err));
    return choose(session, sampler, allowed, out, err);
}

sl_status sl_session_generate_by(sl_session *session, sl_sampler *sampler, const uint32_t *allowed,
                                 sl_token *out, sl_error *err) {
    SL_TRY(check(session, sampler, err));
    SL_TRY(sl_sampler_follow(sampler, session->tokens, session->length, err));
    if (sl_sampler_is_plain(sampler, allowed)) {
        const sl_sampling sampling = sl_sampler_plain(sampler);
        SL_TRY(sl_session_generate(session, &sampling, out, err));
        sampler->info.plain_choices++;
    } else {
        SL_TRY(sl_session_need_room(session, err));
        SL_TRY(choose(session, sampler, allowed, out, err));
        SL_TRY(sl_session_append(session, out, 1, err));
        session->has_logits = false;
    }
    return sl_sampler_append(sampler, out, 1, true, err);
}
