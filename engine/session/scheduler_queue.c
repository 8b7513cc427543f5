/* Tickets, and which of those that wait is next: the highest priority; of one priority, owners take
 * turns, those that have waited longest first; of one owner, in the order in which they came. */
#include "engine/session/scheduler.h"
#include <string.h>

void sl_ticket_free(sl_ticket *ticket) {
    sl_arena arena = ticket->arena; /* the ticket itself lives in it */
    sl_sampler_free(ticket->own_sampler);
    sl_arena_deinit(&arena);
}

/* ---- making ---- */

static sl_status copy_tokens(sl_arena *arena, const sl_token **tokens, size_t count,
                             sl_error *err) {
    sl_token *copy = SL_ARENA_NEW_ARRAY(arena, sl_token, count + 1);
    if (!copy) return sl_no_memory(err, "the tokens of a request", count);
    if (count) memcpy(copy, *tokens, count * sizeof *copy);
    *tokens = copy;
    return SL_OK;
}

static sl_status make_grammar(sl_ticket *ticket, sl_error *err) {
    const sl_model *model = ticket->scheduler->model;
    sl_ticket_grammar *grammar = &ticket->grammar;
    const uint32_t vocab = model->config.vocab;
    const uint32_t own = model->text.tokenizer ? sl_tokenizer_vocab(model->text.tokenizer) : 0;
    if (!ticket->request.grammar) return SL_OK;
    grammar->words = ((size_t)(own > vocab ? own : vocab) + 31) / 32;
    grammar->allowed = SL_ARENA_NEW_ARRAY(&ticket->arena, uint32_t, grammar->words);
    atomic_store(&grammar->holds, !ticket->request.grammar_waits);
    return grammar->allowed ? SL_OK : sl_no_memory(err, "the mask of a grammar", grammar->words);
}

static sl_status make_scores(sl_ticket *ticket, sl_error *err) {
    const uint32_t vocab = ticket->scheduler->model->config.vocab;
    const uint32_t wanted = ticket->request.prompt_logprobs;
    sl_ticket_scores *scores = &ticket->scores;
    if (!wanted) return SL_OK;
    scores->each = wanted - 1 < vocab ? wanted : vocab + 1;
    const size_t count = (size_t)scores->each * SL_SCORED_ROWS;
    scores->items = SL_ARENA_NEW_ARRAY(&ticket->arena, sl_logprob, count);
    return scores->items ? SL_OK : sl_no_memory(err, "log-probabilities of a prompt", count);
}

static sl_status fill_ticket(sl_ticket *ticket, sl_error *err) {
    sl_request *request = &ticket->request;
    const size_t context = ticket->scheduler->model->context_tokens;
    ticket->capacity =
        request->most_tokens && request->most_tokens < context ? request->most_tokens : context;
    SL_TRY(copy_tokens(&ticket->arena, &request->prompt, request->prompt_count, err));
    SL_TRY(copy_tokens(&ticket->arena, &request->stops, request->stop_count, err));
    SL_TRY(make_grammar(ticket, err));
    SL_TRY(make_scores(ticket, err));
    ticket->tokens = SL_ARENA_NEW_ARRAY(&ticket->arena, sl_token, ticket->capacity);
    return ticket->tokens ? SL_OK : sl_no_memory(err, "the tokens of a request", context);
}

static sl_status check_request(const sl_scheduler *s, const sl_request *request, sl_error *err) {
    const size_t context = s->model->context_tokens;
    if (request->session->model != s->model)
        return sl_fail(err, SL_INVALID, "the session is of another model than the scheduler");
    if (request->prompt_count > context || request->stop_count > context)
        return sl_fail(err, SL_INVALID,
                       "a request with %zu tokens and %zu stops, wanted at most %zu",
                       request->prompt_count, request->stop_count, context);
    if (request->whole && request->prompt_count == 0)
        return sl_fail(err, SL_INVALID, "a whole conversation without tokens");
    if (request->whole || request->prompt_logprobs)
        return sl_tokens_check(request->prompt, request->prompt_count, s->model->config.vocab, err);
    return SL_OK;
}

/* ---- the queue ---- */

sl_ticket_phase sl_scheduler_phase(const sl_ticket *ticket) {
    if (ticket->phase != SL_TICKET_ENDED || ticket->settled) return ticket->phase;
    return ticket->count ? SL_TICKET_DECODE : SL_TICKET_PREFILL;
}

static bool uses(const sl_ticket *ticket, const sl_session *session) {
    return ticket->request.session == session && sl_scheduler_phase(ticket) != SL_TICKET_ENDED;
}

static bool is_kin(const sl_ticket *a, const sl_ticket *b) {
    return a->request.owner == b->request.owner && a->request.priority == b->request.priority;
}

static bool is_before(const sl_ticket *a, const sl_ticket *b) {
    if (a->request.priority != b->request.priority)
        return a->request.priority > b->request.priority;
    if (a->rank != b->rank) return a->rank < b->rank;
    return a->turn < b->turn;
}

static void append(sl_scheduler *s, sl_ticket *ticket) {
    for (const sl_ticket *t = s->first; t; t = t->next) {
        if (!is_kin(t, ticket)) continue;
        ticket->rank++;
        ticket->turn = t->turn;
    }
    if (ticket->rank == 0) ticket->turn = ++s->turns;
    *s->last = ticket;
    s->last = &ticket->next;
    s->queued++;
}

/* With the lock held. */
static sl_status enqueue(sl_scheduler *s, sl_ticket *ticket, sl_error *err) {
    bool used = false;
    for (uint32_t i = 0; i < s->live_count; i++) used |= uses(s->live[i], ticket->request.session);
    for (const sl_ticket *t = s->first; t; t = t->next) used |= uses(t, ticket->request.session);
    if (used) return sl_fail(err, SL_INVALID, "the session has a request that has not ended");
    if (s->queued == s->most_queued)
        return sl_fail(err, SL_BUSY, "the queue is full: %u requests wait", s->queued);
    if (ticket->request.grammar && !s->helper)
        SL_TRY(sl_helper_create(&s->allocator, &s->helper, err));
    append(s, ticket);
    return SL_OK;
}

sl_status sl_scheduler_queue(sl_scheduler *s, const sl_request *request,
                             const sl_sampling *sampling, sl_sampler *own_sampler, sl_ticket **out,
                             sl_error *err) {
    SL_TRY(check_request(s, request, err));
    sl_arena arena;
    sl_arena_init(&arena, &s->allocator);
    sl_ticket *ticket = SL_ARENA_NEW(&arena, sl_ticket);
    if (!ticket) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a request", sizeof *ticket);
    }
    ticket->arena = arena;
    ticket->scheduler = s;
    ticket->request = *request;
    ticket->sampling = *sampling;
    if (own_sampler) ticket->request.sampler = own_sampler;
    sl_status status = fill_ticket(ticket, err);
    if (status == SL_OK) {
        (void)pthread_mutex_lock(&s->lock);
        ticket->own_sampler = own_sampler;
        status = enqueue(s, ticket, err);
        if (status != SL_OK) ticket->own_sampler = NULL;
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (status == SL_OK)
        *out = ticket;
    else
        sl_ticket_free(ticket);
    return status;
}

uint32_t sl_scheduler_place(const sl_ticket *ticket) {
    uint32_t place = 0;
    if (ticket->phase != SL_TICKET_QUEUED) return 0;
    for (const sl_ticket *t = ticket->scheduler->first; t; t = t->next)
        place += is_before(t, ticket);
    return place;
}

sl_ticket *sl_scheduler_next(sl_scheduler *s) {
    sl_ticket *next = s->first;
    for (sl_ticket *t = s->first; t; t = t->next)
        if (is_before(t, next)) next = t;
    return next;
}

void sl_scheduler_unqueue(sl_scheduler *s, sl_ticket *ticket, bool served) {
    sl_ticket **at = &s->first;
    if (served) s->turns++;
    while (*at != ticket) at = &(*at)->next;
    *at = ticket->next;
    if (!*at) s->last = at;
    s->queued--;
    for (sl_ticket *t = s->first; t; t = t->next) {
        if (!is_kin(t, ticket)) continue;
        if (t->rank > ticket->rank) t->rank--;
        if (served) t->turn = s->turns;
    }
}

/* ---- leaving ---- */

static void leave_live(sl_scheduler *s, const sl_ticket *ticket) {
    uint32_t i = 0;
    while (s->live[i] != ticket) i++;
    for (s->live_count--; i < s->live_count; i++) s->live[i] = s->live[i + 1];
}

/* During a step only the step takes tickets away. */
void sl_scheduler_drop(sl_ticket *ticket) {
    sl_scheduler *s = ticket->scheduler;
    (void)pthread_mutex_lock(&s->lock);
    const bool has_ended = ticket->phase == SL_TICKET_ENDED;
    const bool later = s->in_step && (!has_ended || ticket->reporting);
    ticket->released = true;
    atomic_store(&ticket->cancels, true);
    if (!later && ticket->phase == SL_TICKET_QUEUED)
        sl_scheduler_unqueue(s, ticket, false);
    else if (!later && !has_ended)
        leave_live(s, ticket);
    (void)pthread_mutex_unlock(&s->lock);
    if (!later) sl_ticket_free(ticket);
}

void sl_ticket_finish(sl_ticket *ticket, sl_ticket_end end, const sl_error *error) {
    sl_scheduler *s = ticket->scheduler;
    if (ticket->phase == SL_TICKET_ENDED) return;
    ticket->phase = SL_TICKET_ENDED;
    ticket->end = end;
    if (error) ticket->error = *error;
    ticket->reporting = true;
    s->ended[s->ended_count++] = ticket;
}

void sl_ticket_finish_locked(sl_ticket *ticket, sl_ticket_end end, const sl_error *error) {
    (void)pthread_mutex_lock(&ticket->scheduler->lock);
    sl_ticket_finish(ticket, end, error);
    (void)pthread_mutex_unlock(&ticket->scheduler->lock);
}
