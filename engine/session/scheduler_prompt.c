/* Prompts of requests: what the session has of them, the parts that passes compute, and what is
 * kept of them. */
#include "engine/choose/history.h"
#include "engine/choose/logprobs.h"
#include "engine/session/keeper.h"
#include "engine/session/scheduler.h"

/* The prompt continues the session.  Without one, the last token is computed again unless there are
 * logits. */
static sl_status begin_more(sl_ticket *t, sl_error *err) {
    sl_session *session = t->request.session;
    const size_t count = t->request.prompt_count;
    t->before = session->length;
    if (count) {
        SL_TRY(sl_session_append(session, t->request.prompt, count, err));
        session->has_logits = false;
        t->appended = count;
    } else if (session->length == 0)
        return sl_fail(err, SL_INVALID, "a request without tokens in a session without any");
    else if (!session->has_logits && session->computed == session->length)
        sl_session_restore(session, session->length - 1);
    return SL_OK;
}

/* The session becomes the longest prefix of the prompt that is known. */
static sl_status begin_whole(sl_ticket *t, double seconds, sl_reuse *reuse, sl_error *err) {
    const size_t count = t->request.prompt_count;
    t->plan.most = t->scores.items ? 0 : count;
    t->plan.seconds = seconds;
    SL_TRY(sl_session_reuse(t->request.session, t->request.prompt, count, &t->plan, reuse, err));
    t->appended = reuse->reused;
    return SL_OK;
}

sl_status sl_ticket_begin_prompt(sl_ticket *t, double seconds, sl_error *err) {
    sl_reuse reuse = {0};
    SL_TRY(sl_session_drain(t->request.session, err));
    SL_TRY(t->request.whole ? begin_whole(t, seconds, &reuse, err) : begin_more(t, err));
    if (t->plan.unfinished) return SL_OK;
    (void)pthread_mutex_lock(&t->scheduler->lock);
    t->reuse = reuse;
    t->done = reuse.reused;
    t->has_begun = true;
    (void)pthread_mutex_unlock(&t->scheduler->lock);
    return SL_OK;
}

/* Up to where the next state is kept, as a call of sl_session_sync extends the session. */
static sl_status append_part(sl_ticket *t, sl_error *err) {
    const bool stops = t->next_stop < t->reuse.stop_count;
    const size_t end = stops ? t->reuse.stops[t->next_stop++] : t->request.prompt_count;
    SL_TRY(sl_session_append(t->request.session, t->request.prompt + t->appended, end - t->appended,
                             err));
    t->request.session->has_logits = false; /* those at the end of the part before */
    t->appended = end;
    return SL_OK;
}

sl_status sl_ticket_prompt_rows(sl_ticket *t, size_t *out, sl_error *err) {
    const sl_session *session = t->request.session;
    if (session->computed == session->length && t->appended < t->request.prompt_count)
        SL_TRY(append_part(t, err));
    *out = session->length - session->computed;
    return SL_OK;
}

/* The logits of a row belong to the token after it.  Rows before the prompt are those of tokens
 * that the session had not computed. */
static sl_status score(sl_ticket *t, const sl_batch_entry *entry, sl_error *err) {
    const sl_session *session = t->request.session;
    const uint32_t vocab = session->model->config.vocab;
    const size_t begin = session->computed - entry->rows, end = t->request.prompt_count;
    sl_ticket_scores *scores = &t->scores;
    for (uint32_t i = 0; i < entry->rows; i++) {
        if (begin + i < t->before || begin + i + 1 >= t->before + end) continue;
        const size_t position = begin + i + 1 - t->before;
        if (scores->count == 0) scores->first = position;
        SL_TRY(sl_logprobs_find(entry->logits + (size_t)i * vocab, vocab,
                                t->request.prompt[position], t->request.prompt_logprobs - 1,
                                scores->items + (size_t)scores->count * scores->each, err));
        scores->count++;
    }
    return SL_OK;
}

sl_status sl_ticket_prompt_passed(sl_ticket *t, const sl_batch_entry *entry, sl_error *err) {
    sl_session *session = t->request.session;
    if (t->scores.items) SL_TRY(score(t, entry, err));
    if (t->request.whole && session->computed == session->length) {
        SL_TRY(sl_checkpoints_save(&session->checkpoints, session->computed, err));
        sl_prefixes_keep(session, false);
    }
    (void)pthread_mutex_lock(&t->scheduler->lock);
    t->done = session->computed > t->before ? session->computed - t->before : 0;
    (void)pthread_mutex_unlock(&t->scheduler->lock);
    return SL_OK;
}

/* Without memory for the keeper, the turn is not on disk. */
static void write_turn(sl_session *session) {
    sl_model *model = session->model;
    sl_error of_keeper;
    if (!model->prefixes_on_disk) return;
    if (model->keeper || sl_keeper_create(model, &model->keeper, &of_keeper) == SL_OK)
        sl_keeper_add(model->keeper, session);
}

void sl_ticket_keep(sl_ticket *t) {
    sl_session *session = t->request.session;
    sl_error of_other;
    const bool keeps = t->has_begun && t->request.whole;
    if (!keeps && !t->plan.unfinished) return;
    if (sl_session_drain(session, &of_other) != SL_OK) return;
    if (!keeps) {
        sl_session_restore(session, session->computed);
        return;
    }
    const bool is_prompt = t->done < t->request.prompt_count;
    if (is_prompt && session->length > session->computed) session->length = session->computed;
    sl_prefixes_keep(session, false);
    if (!is_prompt) write_turn(session);
}
