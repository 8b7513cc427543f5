/* Tokens of requests: the masks of their grammars, the choice by the logits, and delivery.
 *
 * A step chooses a token of each sequence that has logits.  Tokens that must follow it, by its
 * grammar or because a thinking budget is used up, are chosen in the same step and computed in the
 * next pass.  Where a callback ends the request before the last of them, those behind are taken
 * back: none is computed yet. */
#include "base/clock.h"
#include "engine/choose/history.h"
#include "engine/session/choose_by.h"
#include "engine/session/scheduler.h"

/* ---- masks ---- */

static void compute_masks(void *ctx) {
    sl_scheduler *s = ctx;
    const double begin = sl_clock_seconds();
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket_grammar *grammar = &s->live[i]->grammar;
        if (!grammar->wants_mask) continue;
        grammar->error.status = s->grammars.mask(s->live[i]->request.grammar, grammar->allowed,
                                                 grammar->words, &grammar->error);
        grammar->wants_mask = false;
        grammar->has_mask = true;
        s->masks++;
    }
    s->mask_seconds += sl_clock_seconds() - begin;
}

static bool is_constrained(const sl_ticket *t) {
    return t->request.grammar && atomic_load(&t->grammar.holds);
}

void sl_scheduler_begin_masks(sl_scheduler *s) {
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket *t = s->live[i];
        t->grammar.wants_mask =
            is_constrained(t) && !t->grammar.has_mask && t->phase != SL_TICKET_ENDED;
        wanted += t->grammar.wants_mask;
    }
    if (wanted) sl_helper_begin(s->helper, compute_masks, s);
}

void sl_scheduler_wait_for_masks(sl_scheduler *s) {
    if (!s->helper) return;
    const double begin = sl_clock_seconds();
    sl_helper_wait(s->helper);
    (void)pthread_mutex_lock(&s->lock);
    s->stats.mask_wait_seconds += sl_clock_seconds() - begin;
    s->stats.mask_seconds = s->mask_seconds;
    s->stats.masks = s->masks;
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- choosing ---- */

/* Of each token there must be logits. */
static bool wants_logprobs(const sl_ticket *t) {
    return t->request.sampler && t->request.sampler->plan->options.logprobs;
}

/* How many more tokens may be chosen. */
static size_t room_of(const sl_ticket *t) {
    const sl_session *session = t->request.session;
    const size_t context = session->context - session->length;
    const size_t most = t->capacity - t->count - t->fresh;
    return context < most ? context : most;
}

static sl_token *next_place(sl_ticket *t) {
    return &t->tokens[t->count + t->fresh];
}

/* Appends tokens at the next place to what follows the sequence. */
static sl_status append(sl_ticket *t, uint32_t count, sl_error *err) {
    sl_session *session = t->request.session;
    sl_sampler *sampler = t->request.sampler;
    const sl_token *tokens = next_place(t);
    SL_TRY(sl_session_append(session, tokens, count, err));
    session->has_logits = false;
    t->fresh += count;
    return sampler ? sl_sampler_append(sampler, tokens, count, true, err) : SL_OK;
}

static sl_status choose_one(sl_ticket *t, const uint32_t *allowed, sl_error *err) {
    sl_session *session = t->request.session;
    sl_sampler *sampler = t->request.sampler;
    SL_TRY(sampler ? sl_session_choose_by(session, sampler, allowed, next_place(t), err)
                   : sl_session_choose(session, &t->sampling, next_place(t), err));
    return append(t, 1, err);
}

/* The grammar takes the token that was chosen, and says which must follow. */
static sl_status follow_grammar(sl_ticket *t, sl_token chosen, sl_error *err) {
    const sl_grammar_calls *calls = &t->scheduler->grammars;
    sl_grammar_state *state = t->request.grammar;
    size_t forced = 0;
    t->grammar.has_mask = false;
    SL_TRY(calls->accept(state, chosen, err));
    t->grammar.accepted = 1;
    t->grammar.ended = calls->ended(state);
    const size_t room = t->grammar.ended || wants_logprobs(t) ? 0 : room_of(t);
    if (room) SL_TRY(calls->forced(state, next_place(t), room, &forced, err));
    for (size_t i = 0; i < forced; i++) {
        SL_TRY(calls->accept(state, next_place(t)[i], err));
        t->grammar.accepted++;
    }
    return forced ? append(t, (uint32_t)forced, err) : SL_OK;
}

/* The rest of what ends a thought. */
static sl_status end_thought(sl_ticket *t, sl_error *err) {
    const sl_sampler *sampler = t->request.sampler;
    while (sampler && sl_sampler_forced(sampler) >= 0 && !wants_logprobs(t) && room_of(t))
        SL_TRY(choose_one(t, NULL, err));
    return SL_OK;
}

static sl_status choose(sl_ticket *t, sl_error *err) {
    const bool constrained = is_constrained(t);
    sl_ticket_grammar *grammar = &t->grammar;
    grammar->accepted = 0;
    if (constrained && grammar->error.status != SL_OK) {
        if (err) *err = grammar->error;
        return grammar->error.status;
    }
    SL_TRY(choose_one(t, constrained ? grammar->allowed : NULL, err));
    return constrained ? follow_grammar(t, t->tokens[t->count], err) : end_thought(t, err);
}

/* Takes the tokens of the step back that are not delivered. */
static void take_back(sl_ticket *t) {
    sl_session *session = t->request.session;
    sl_sampler *sampler = t->request.sampler;
    sl_ticket_grammar *grammar = &t->grammar;
    sl_error of_rollback;
    session->length -= t->fresh;
    t->fresh = 0;
    if (sampler && sampler->history.length > session->length)
        sl_history_rewind(&sampler->history, session->length);
    if (!grammar->accepted) return;
    const sl_status status =
        t->scheduler->grammars.rollback(t->request.grammar, grammar->accepted, &of_rollback);
    if (status != SL_OK) sl_ticket_finish_locked(t, SL_END_FAILED, &of_rollback);
    grammar->accepted = 0;
    grammar->has_mask = grammar->ended = false;
}

void sl_ticket_choose(sl_ticket *t) {
    const sl_session *session = t->request.session;
    sl_error error;
    if (session->length == session->context) {
        sl_ticket_finish_locked(t, SL_END_CONTEXT, NULL);
        return;
    }
    if (choose(t, &error) == SL_OK) return;
    take_back(t);
    sl_ticket_finish_locked(t, SL_END_FAILED, &error);
}

/* ---- delivery ---- */

static bool is_released(const sl_ticket *t) {
    (void)pthread_mutex_lock(&t->scheduler->lock);
    const bool released = t->released;
    (void)pthread_mutex_unlock(&t->scheduler->lock);
    return released;
}

static void deliver_scores(sl_ticket *t) {
    const sl_request *request = &t->request;
    const sl_ticket_scores *scores = &t->scores;
    for (uint32_t i = 0; i < scores->count && request->prompt_token && !is_released(t); i++)
        request->prompt_token(request->ctx, t, scores->first + i,
                              scores->items + (size_t)i * scores->each, scores->each);
    t->scores.count = 0;
}

static bool is_stop(const sl_ticket *t, sl_token token) {
    for (size_t i = 0; i < t->request.stop_count; i++)
        if (t->request.stops[i] == token) return true;
    return false;
}

/* Makes the next token known; false: nothing follows it in this step. */
static bool deliver_token(sl_ticket *t) {
    sl_scheduler *s = t->scheduler;
    const sl_request *request = &t->request;
    const bool constrained = is_constrained(t);
    (void)pthread_mutex_lock(&s->lock);
    const sl_token token = t->tokens[t->count++];
    t->phase = SL_TICKET_DECODE;
    t->fresh--;
    if (t->grammar.accepted) t->grammar.accepted--;
    const bool released = t->released;
    (void)pthread_mutex_unlock(&s->lock);
    const bool stops = request->token && !released && request->token(request->ctx, t, token) != 0;
    if (stops || is_stop(t, token) || (t->grammar.ended && t->fresh == 0))
        sl_ticket_finish_locked(t, SL_END_STOP, NULL);
    else if (t->count == t->capacity)
        sl_ticket_finish_locked(t, request->most_tokens ? SL_END_COUNT : SL_END_CONTEXT, NULL);
    return t->phase != SL_TICKET_ENDED && !released && constrained == is_constrained(t);
}

void sl_ticket_deliver(sl_ticket *t) {
    sl_model *model = t->scheduler->model;
    if (t->scores.count) deliver_scores(t);
    while (t->fresh && deliver_token(t)) {}
    if (!t->fresh) return;
    (void)pthread_mutex_lock(&model->lock);
    take_back(t);
    (void)pthread_mutex_unlock(&model->lock);
}
