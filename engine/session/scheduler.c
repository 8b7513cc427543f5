#include "engine/session/scheduler.h"
#include <string.h>

static void free_ticket(sl_ticket *ticket) {
    sl_arena arena = ticket->arena; /* the ticket itself lives in it */
    sl_arena_deinit(&arena);
}

/* ---- creation ---- */

static sl_status allocate(sl_scheduler *s, uint32_t most_rows, sl_error *err) {
    const sl_allocator *allocator = &s->allocator;
    const size_t live = s->most_live, ended = (size_t)s->most_live + s->most_queued;
    s->live = sl_allocate(allocator, live * sizeof(sl_ticket *), _Alignof(sl_ticket *));
    s->ended = sl_allocate(allocator, ended * sizeof(sl_ticket *), _Alignof(sl_ticket *));
    if (!s->live || !s->ended) return sl_no_memory(err, "a scheduler", ended);
    return sl_batch_make(s->model, most_rows, &s->batch, err);
}

static bool streams(const sl_model *model) {
    const sl_expert_stats stats = sl_expert_store_stats(model->store);
    return stats.slot_count < sl_expert_table_count(&model->experts);
}

/* Tickets that were released in its last step are still in its lists. */
void sl_scheduler_release(sl_scheduler *s) {
    const sl_allocator allocator = s->allocator;
    const size_t ended = (size_t)s->most_live + s->most_queued;
    for (sl_ticket *t = s->first, *next; t; t = next) {
        next = t->next;
        if (t->released) free_ticket(t);
    }
    for (uint32_t i = 0; i < s->live_count; i++)
        if (s->live[i]->released) free_ticket(s->live[i]);
    if (s->batch) {
        (void)pthread_mutex_lock(&s->model->lock);
        sl_batch_release(s->batch);
        (void)pthread_mutex_unlock(&s->model->lock);
    }
    sl_release(&allocator, s->live, s->most_live * sizeof(sl_ticket *), _Alignof(sl_ticket *));
    sl_release(&allocator, s->ended, ended * sizeof(sl_ticket *), _Alignof(sl_ticket *));
    (void)pthread_mutex_destroy(&s->lock);
    sl_release(&allocator, s, sizeof *s, _Alignof(sl_scheduler));
}

sl_status sl_scheduler_make(sl_model *model, const sl_scheduler_options *options,
                            sl_scheduler **out, sl_error *err) {
    if (options->most_live > model->slots)
        return sl_fail(err, SL_INVALID, "%u live sequences, the model was opened for %u sessions",
                       options->most_live, model->slots);
    if (!(options->step_seconds >= 0))
        return sl_fail(err, SL_INVALID, "steps of %g seconds, wanted at least 0",
                       options->step_seconds);
    sl_scheduler *s = sl_allocate(&model->allocator, sizeof *s, _Alignof(sl_scheduler));
    if (!s) return sl_no_memory(err, "a scheduler", sizeof *s);
    s->model = model;
    s->allocator = model->allocator;
    s->most_live = options->most_live ? options->most_live : model->slots;
    s->most_queued = options->queue_length ? options->queue_length : 64;
    s->last = &s->first;
    (void)pthread_mutex_init(&s->lock, NULL);
    const sl_status status = allocate(s, options->most_rows, err);
    if (status != SL_OK) {
        sl_scheduler_release(s);
        return status;
    }
    sl_pace_init(&s->pace, options->step_seconds > 0 ? options->step_seconds : 0.25,
                 sl_batch_unit(model), s->batch->most_rows, streams(model));
    *out = s;
    return SL_OK;
}

/* ---- tickets ---- */

static sl_status copy_tokens(sl_arena *arena, const sl_token **tokens, size_t count,
                             sl_error *err) {
    sl_token *copy = SL_ARENA_NEW_ARRAY(arena, sl_token, count + 1);
    if (!copy) return sl_no_memory(err, "the tokens of a request", count);
    if (count) memcpy(copy, *tokens, count * sizeof *copy);
    *tokens = copy;
    return SL_OK;
}

static sl_status fill_ticket(sl_ticket *ticket, sl_error *err) {
    sl_request *request = &ticket->request;
    const size_t context = ticket->scheduler->model->context_tokens;
    ticket->capacity =
        request->most_tokens && request->most_tokens < context ? request->most_tokens : context;
    SL_TRY(copy_tokens(&ticket->arena, &request->prompt, request->prompt_count, err));
    SL_TRY(copy_tokens(&ticket->arena, &request->stops, request->stop_count, err));
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
    return SL_OK;
}

static bool uses(const sl_ticket *ticket, const sl_session *session) {
    return ticket->request.session == session && ticket->phase != SL_TICKET_ENDED;
}

/* With the lock held. */
static sl_status enqueue(sl_scheduler *s, sl_ticket *ticket, sl_error *err) {
    bool used = false;
    for (uint32_t i = 0; i < s->live_count; i++) used |= uses(s->live[i], ticket->request.session);
    for (const sl_ticket *t = s->first; t; t = t->next) used |= uses(t, ticket->request.session);
    if (used) return sl_fail(err, SL_INVALID, "the session has a request that has not ended");
    if (s->queued == s->most_queued)
        return sl_fail(err, SL_INVALID, "the queue is full: %u requests wait", s->queued);
    *s->last = ticket;
    s->last = &ticket->next;
    s->queued++;
    return SL_OK;
}

sl_status sl_scheduler_queue(sl_scheduler *s, const sl_request *request,
                             const sl_sampling *sampling, sl_ticket **out, sl_error *err) {
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
    sl_status status = fill_ticket(ticket, err);
    if (status == SL_OK) {
        (void)pthread_mutex_lock(&s->lock);
        status = enqueue(s, ticket, err);
        (void)pthread_mutex_unlock(&s->lock);
    }
    if (status == SL_OK)
        *out = ticket;
    else
        free_ticket(ticket);
    return status;
}

uint32_t sl_scheduler_place(const sl_ticket *ticket) {
    uint32_t place = 0;
    for (const sl_ticket *t = ticket->scheduler->first; t && t != ticket; t = t->next) place++;
    return ticket->phase == SL_TICKET_QUEUED ? place : 0;
}

static void unqueue(sl_scheduler *s, const sl_ticket *ticket) {
    sl_ticket **at = &s->first;
    while (*at != ticket) at = &(*at)->next;
    *at = ticket->next;
    if (!*at) s->last = at;
    s->queued--;
}

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
        unqueue(s, ticket);
    else if (!later && !has_ended)
        leave_live(s, ticket);
    (void)pthread_mutex_unlock(&s->lock);
    if (!later) free_ticket(ticket);
}

/* ---- a step: who takes part ---- */

/* With the lock held; the ticket is in no list any more, or leaves the live ones later. */
static void finish(sl_scheduler *s, sl_ticket *ticket, sl_ticket_end end, const sl_error *error) {
    if (ticket->phase == SL_TICKET_ENDED) return;
    ticket->phase = SL_TICKET_ENDED;
    ticket->end = end;
    if (error) ticket->error = *error;
    ticket->reporting = true;
    s->ended[s->ended_count++] = ticket;
}

static void finish_locked(sl_ticket *ticket, sl_ticket_end end, const sl_error *error) {
    (void)pthread_mutex_lock(&ticket->scheduler->lock);
    finish(ticket->scheduler, ticket, end, error);
    (void)pthread_mutex_unlock(&ticket->scheduler->lock);
}

static void sweep(sl_scheduler *s) {
    for (sl_ticket *t = s->first, *next; t; t = next) {
        next = t->next;
        if (!atomic_load(&t->cancels)) continue;
        unqueue(s, t);
        finish(s, t, SL_END_CANCELLED, NULL);
    }
    for (uint32_t i = s->live_count; i-- > 0;) {
        sl_ticket *t = s->live[i];
        if (!atomic_load(&t->cancels)) continue;
        leave_live(s, t);
        finish(s, t, SL_END_CANCELLED, NULL);
    }
}

static void admit(sl_scheduler *s) {
    while (s->first && s->live_count < s->most_live) {
        sl_ticket *t = s->first;
        if (!sl_pace_admits(&s->pace, s->live_count)) {
            s->stats.steps_held++;
            return;
        }
        unqueue(s, t);
        t->phase = SL_TICKET_PREFILL;
        s->live[s->live_count++] = t;
    }
}

static sl_status begin_step(sl_scheduler *s, sl_error *err) {
    sl_status status = SL_OK;
    (void)pthread_mutex_lock(&s->lock);
    if (s->in_step) {
        status = sl_fail(err, SL_INVALID, "another step of this scheduler is running");
    } else {
        s->in_step = true;
        s->ended_count = 0;
        sweep(s);
        admit(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- a step: its rows; the model's lock is held ---- */

static void take_decoding(sl_scheduler *s, sl_pace_step *step) {
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket *t = s->live[i];
        sl_error error;
        t->rows = 0;
        if (t->phase != SL_TICKET_DECODE) continue;
        if (sl_batch_take(s->batch, t->request.session, NULL, 0, 1, &t->rows, &error) != SL_OK)
            finish_locked(t, SL_END_FAILED, &error);
        step->decoded += t->rows;
    }
}

/* Tokens of its prompt that are not computed; a session that goes on without a prompt computes its
 * last token again unless it has logits. */
static sl_status begin_ticket(sl_ticket *t, sl_error *err) {
    sl_session *session = t->request.session;
    SL_TRY(sl_session_drain(session, err));
    if (t->request.prompt_count) {
        SL_TRY(sl_session_append(session, t->request.prompt, t->request.prompt_count, err));
        session->has_logits = false;
    } else if (session->length == 0)
        return sl_fail(err, SL_INVALID, "a request without tokens in a session without any");
    else if (!session->has_logits && session->computed == session->length)
        sl_session_restore(session, session->length - 1);
    t->has_begun = true;
    return SL_OK;
}

/* Rows for a ticket of `waiting` that share what is left. */
static void take_prompt(sl_scheduler *s, sl_ticket *t, uint32_t left, uint32_t waiting) {
    const uint32_t unit = s->pace.unit;
    const sl_session *session = t->request.session;
    sl_error error;
    if (!t->has_begun && begin_ticket(t, &error) != SL_OK) {
        finish_locked(t, SL_END_FAILED, &error);
        return;
    }
    const size_t pending = session->length - session->computed;
    uint32_t share = (left / waiting + unit - 1) / unit * unit;
    if (share > left || share == 0) share = left;
    if (pending == 0 || share == 0 || (share < unit && pending > share)) return;
    if (sl_batch_take(s->batch, t->request.session, NULL, 0, share, &t->rows, &error) != SL_OK)
        finish_locked(t, SL_END_FAILED, &error);
}

/* The first in turn gets its share first; what it leaves goes to those after it. */
static void take_prompts(sl_scheduler *s, sl_pace_step *step) {
    uint32_t left = sl_pace_rows(&s->pace, step->decoded > 0), waiting = 0, first = UINT32_MAX;
    const uint32_t room = s->batch->most_rows - step->decoded;
    if (left > room) left = room;
    for (uint32_t i = 0; i < s->live_count; i++) waiting += s->live[i]->phase == SL_TICKET_PREFILL;
    for (uint32_t i = 0; i < s->live_count && waiting; i++) {
        const uint32_t at = (s->turn + i) % s->live_count;
        sl_ticket *t = s->live[at];
        if (t->phase != SL_TICKET_PREFILL) continue;
        take_prompt(s, t, left, waiting--);
        if (t->rows && first == UINT32_MAX) first = at;
        left -= t->rows;
        step->prefilled += t->rows;
    }
    if (first != UINT32_MAX) s->turn = first + 1;
}

/* ---- a step: its results ---- */

static void end_entry(sl_ticket *t, const sl_error *error) {
    const bool stopped = error->status == SL_CANCELLED;
    finish_locked(t, stopped ? SL_END_CANCELLED : SL_END_FAILED, stopped ? NULL : error);
}

/* Samples the next token of a sequence and appends it. */
static void sample(sl_ticket *t) {
    sl_session *session = t->request.session;
    sl_token *to = &t->tokens[t->count];
    sl_error error;
    if (session->length == session->context) {
        finish_locked(t, SL_END_CONTEXT, NULL);
        return;
    }
    sl_status status = sl_session_choose(session, &t->sampling, to, &error);
    if (status == SL_OK) status = sl_session_append(session, to, 1, &error);
    if (status != SL_OK) {
        finish_locked(t, SL_END_FAILED, &error);
        return;
    }
    session->has_logits = false;
    t->has_token = true;
}

static void sample_all(sl_scheduler *s) {
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket *t = s->live[i];
        if (t->phase == SL_TICKET_ENDED || !t->has_begun) continue;
        const sl_batch_entry *entry =
            t->rows ? sl_batch_entry_of(s->batch, t->request.session) : NULL;
        if (entry && entry->error.status != SL_OK)
            end_entry(t, &entry->error);
        else if (t->request.session->has_logits)
            sample(t);
    }
}

static bool is_stop(const sl_ticket *t, sl_token token) {
    for (size_t i = 0; i < t->request.stop_count; i++)
        if (t->request.stops[i] == token) return true;
    return false;
}

/* Makes the new token known; the callback may release the ticket. */
static void deliver(sl_ticket *t) {
    sl_scheduler *s = t->scheduler;
    const sl_request *request = &t->request;
    (void)pthread_mutex_lock(&s->lock);
    const sl_token token = t->tokens[t->count++];
    t->phase = SL_TICKET_DECODE;
    t->has_token = false;
    const bool released = t->released;
    (void)pthread_mutex_unlock(&s->lock);
    const bool stops = request->token && !released && request->token(request->ctx, t, token) != 0;
    if (stops || is_stop(t, token))
        finish_locked(t, SL_END_STOP, NULL);
    else if (t->count == t->capacity)
        finish_locked(t, request->most_tokens ? SL_END_COUNT : SL_END_CONTEXT, NULL);
}

static void report_ends(sl_scheduler *s) {
    for (uint32_t i = 0; i < s->ended_count; i++) {
        sl_ticket *t = s->ended[i];
        (void)pthread_mutex_lock(&s->lock);
        const bool released = t->released;
        (void)pthread_mutex_unlock(&s->lock);
        if (t->request.end && !released) t->request.end(t->request.ctx, t, t->end);
    }
}

static uint32_t end_step(sl_scheduler *s) {
    (void)pthread_mutex_lock(&s->lock);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->live_count; i++)
        if (s->live[i]->phase != SL_TICKET_ENDED) s->live[kept++] = s->live[i];
    s->live_count = kept;
    for (uint32_t i = 0; i < s->ended_count; i++) {
        s->ended[i]->reporting = false;
        if (s->ended[i]->released) free_ticket(s->ended[i]);
    }
    s->ended_count = 0;
    s->in_step = false;
    const uint32_t left = s->live_count + s->queued;
    (void)pthread_mutex_unlock(&s->lock);
    return left;
}

static void count_step(sl_scheduler *s, const sl_pace_step *step) {
    sl_pace_note(&s->pace, step);
    (void)pthread_mutex_lock(&s->lock);
    sl_scheduler_stats *stats = &s->stats;
    stats->steps++;
    stats->seconds += step->seconds;
    stats->decoded_tokens += step->decoded;
    stats->prefilled_tokens += step->prefilled;
    if (step->decoded && step->seconds > stats->longest_step_seconds)
        stats->longest_step_seconds = step->seconds;
    stats->steps_over += step->decoded && step->seconds > s->pace.target;
    stats->prefill_rows = s->pace.chunk;
    (void)pthread_mutex_unlock(&s->lock);
}

/* With the model's lock held. */
static sl_status compute(sl_scheduler *s, sl_error *err) {
    sl_pace_step step = {0};
    sl_status status = SL_OK;
    const sl_batch_stats before = s->batch->stats;
    take_decoding(s, &step);
    take_prompts(s, &step);
    if (step.decoded + step.prefilled) {
        status = sl_batch_pass(s->batch, err);
        const sl_batch_stats *after = &s->batch->stats;
        step.seconds = after->seconds - before.seconds;
        step.read_again = (after->expert_misses - after->expert_first_reads) -
                          (before.expert_misses - before.expert_first_reads);
        if (status == SL_OK) count_step(s, &step);
    }
    sample_all(s);
    return status;
}

sl_status sl_scheduler_advance(sl_scheduler *s, uint32_t *out_left, sl_error *err) {
    SL_TRY(begin_step(s, err));
    (void)pthread_mutex_lock(&s->model->lock);
    const sl_status status = compute(s, err);
    (void)pthread_mutex_unlock(&s->model->lock);
    for (uint32_t i = 0; i < s->live_count; i++)
        if (s->live[i]->has_token) deliver(s->live[i]);
    report_ends(s);
    const uint32_t left = end_step(s);
    if (out_left) *out_left = left;
    return status;
}
