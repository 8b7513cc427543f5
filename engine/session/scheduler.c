#include "engine/session/scheduler.h"
#include "engine/session/keeper.h"
#include <string.h>

/* ---- creation ---- */

/* With fewer rows, some sequences would get none as long as others decode. */
static sl_status check_rows(const sl_scheduler *s, uint32_t most_rows, sl_error *err) {
    const uint32_t unit = sl_batch_unit(s->model);
    if (most_rows == 0 || most_rows >= s->most_live + unit) return SL_OK;
    return sl_fail(
        err, SL_INVALID,
        "passes of %u rows, wanted at least %u: one for each live sequence, and %u for a "
        "part of a prompt",
        most_rows, s->most_live + unit, unit);
}

static sl_status allocate(sl_scheduler *s, uint32_t most_rows, sl_error *err) {
    SL_TRY(check_rows(s, most_rows, err));
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
        if (t->released) sl_ticket_free(t);
    }
    for (uint32_t i = 0; i < s->live_count; i++)
        if (s->live[i]->released) sl_ticket_free(s->live[i]);
    sl_helper_destroy(s->helper);
    (void)pthread_mutex_lock(&s->model->lock);
    while (sl_keeper_serve(s->model->keeper, true)) {}
    (void)pthread_mutex_unlock(&s->model->lock);
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
                            const sl_grammar_calls *grammars, sl_scheduler **out, sl_error *err) {
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
    s->grammars = *grammars;
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

/* ---- a step: who takes part ---- */

static void sweep(sl_scheduler *s) {
    for (sl_ticket *t = s->first, *next; t; t = next) {
        next = t->next;
        if (!atomic_load(&t->cancels)) continue;
        sl_scheduler_unqueue(s, t, false);
        sl_ticket_finish(t, SL_END_CANCELLED, NULL);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket *t = s->live[i];
        if (atomic_load(&t->cancels))
            sl_ticket_finish(t, SL_END_CANCELLED, NULL);
        else
            s->live[kept++] = t;
    }
    s->live_count = kept;
}

static void admit(sl_scheduler *s) {
    while (s->first && s->live_count < s->most_live) {
        sl_ticket *t = sl_scheduler_next(s);
        if (!sl_pace_admits(&s->pace, s->live_count)) {
            s->stats.steps_held++;
            return;
        }
        sl_scheduler_unqueue(s, t, true);
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

static const double reading_share = 0.2; /* of a step's time, for all prompts that begin */

/* What a step still has to give. */
typedef struct {
    uint32_t rows;   /* of the pass */
    uint32_t scored; /* of them, rows of prompts whose logits are wanted */
    double seconds;  /* for reading a prefix from disk; 0: any number */
} step_room;

static void fail(sl_ticket *t, const sl_error *error) {
    sl_ticket_finish_locked(t, SL_END_FAILED, error);
}

/* Rows that a ticket may have of the room for `pending` tokens: all, or whole units. */
static uint32_t fitting(const sl_scheduler *s, size_t pending, uint32_t room) {
    return pending <= room ? (uint32_t)pending : room - room % s->pace.unit;
}

static void take_rows(sl_scheduler *s, sl_ticket *t, size_t pending, step_room *room) {
    sl_error error;
    const uint32_t most = fitting(s, pending, room->rows);
    if (most == 0) return;
    if (sl_batch_take(s->batch, t->request.session, NULL, 0, most, &t->rows, &error) != SL_OK)
        fail(t, &error);
    room->rows -= t->rows;
}

/* A row of each sequence comes first, then the others of those that have several. */
static void take_decoding(sl_scheduler *s, sl_pace_step *step, step_room *room) {
    for (int several = 0; several < 2; several++)
        for (uint32_t i = 0; i < s->live_count; i++) {
            sl_ticket *t = s->live[(s->turn + i) % s->live_count];
            const sl_session *session = t->request.session;
            if (t->phase != SL_TICKET_DECODE) continue;
            const size_t pending = session->length - session->computed;
            if ((pending > 1) != several) continue;
            take_rows(s, t, pending, room);
            step->decoded += t->rows > 0;
            step->rows += t->rows;
        }
}

/* False: not yet. */
static bool begin_prompt(sl_scheduler *s, sl_ticket *t, const step_room *room) {
    sl_error error;
    if (sl_keeper_has(s->model->keeper, t->request.session)) return false;
    if (sl_ticket_begin_prompt(t, room->seconds, &error) != SL_OK) fail(t, &error);
    return t->has_begun;
}

/* Rows for a ticket of `waiting` that share what is left. */
static void take_prompt(sl_scheduler *s, sl_ticket *t, uint32_t waiting, step_room *room) {
    const uint32_t unit = s->pace.unit;
    size_t pending;
    sl_error error;
    if (!t->has_begun && !begin_prompt(s, t, room)) return;
    if (sl_ticket_prompt_rows(t, &pending, &error) != SL_OK) {
        fail(t, &error);
        return;
    }
    step_room share = *room;
    share.rows = (room->rows / waiting + unit - 1) / unit * unit;
    if (share.rows > room->rows || share.rows == 0) share.rows = room->rows;
    if (t->scores.items && share.rows > room->scored) share.rows = room->scored;
    take_rows(s, t, pending, &share);
    if (!t->rows) return;
    room->rows -= t->rows;
    if (!t->scores.items) return;
    room->scored -= t->rows;
    sl_batch_entry_of(s->batch, t->request.session)->wants_all = true;
}

/* The first in turn gets its share first; what it leaves goes to those after it. */
static void take_prompts(sl_scheduler *s, sl_pace_step *step, step_room *room) {
    const uint32_t most = sl_pace_rows(&s->pace, step->decoded > 0);
    uint32_t waiting = 0, begun = 0, first = UINT32_MAX;
    if (room->rows > most) room->rows = most;
    for (uint32_t i = 0; i < s->live_count; i++) {
        waiting += s->live[i]->phase == SL_TICKET_PREFILL;
        begun += s->live[i]->phase == SL_TICKET_PREFILL && s->live[i]->has_begun;
    }
    if (step->decoded && waiting > begun)
        room->seconds = s->pace.target * reading_share / (waiting - begun);
    for (uint32_t i = 0; i < s->live_count && waiting; i++) {
        const uint32_t at = (s->turn + i) % s->live_count;
        sl_ticket *t = s->live[at];
        if (t->phase != SL_TICKET_PREFILL) continue;
        take_prompt(s, t, waiting--, room);
        if (t->rows && first == UINT32_MAX) first = at;
        step->prefilled += t->rows;
    }
    if (first != UINT32_MAX) s->turn = first + 1;
}

/* ---- a step: its results ---- */

static void end_entry(sl_ticket *t, const sl_error *error) {
    const bool stopped = error->status == SL_CANCELLED;
    sl_ticket_finish_locked(t, stopped ? SL_END_CANCELLED : SL_END_FAILED, stopped ? NULL : error);
}

static void take_result(sl_scheduler *s, sl_ticket *t) {
    const sl_batch_entry *entry = t->rows ? sl_batch_entry_of(s->batch, t->request.session) : NULL;
    sl_error error;
    if (entry && entry->error.status != SL_OK)
        end_entry(t, &entry->error);
    else if (entry && t->phase == SL_TICKET_PREFILL &&
             sl_ticket_prompt_passed(t, entry, &error) != SL_OK)
        fail(t, &error);
    else if (t->request.session->has_logits && t->appended == t->request.prompt_count)
        sl_ticket_choose(t);
}

static void take_results(sl_scheduler *s) {
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket *t = s->live[i];
        if (t->phase != SL_TICKET_ENDED && t->has_begun) take_result(s, t);
    }
}

/* What requests that ended have computed goes into the caches.  From then on others see that they
 * have ended, and may use or destroy their sessions. */
static void keep_ended(sl_scheduler *s) {
    if (s->ended_count == 0) return;
    (void)pthread_mutex_lock(&s->model->lock);
    for (uint32_t i = 0; i < s->ended_count; i++) {
        sl_ticket *t = s->ended[i];
        (void)pthread_mutex_lock(&s->lock);
        const bool released = t->released;
        (void)pthread_mutex_unlock(&s->lock);
        if (!released) sl_ticket_keep(t);
    }
    (void)pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->ended_count; i++) s->ended[i]->settled = true;
    (void)pthread_mutex_unlock(&s->lock);
    s->kept_later = sl_keeper_serve(s->model->keeper, false);
    (void)pthread_mutex_unlock(&s->model->lock);
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
    for (uint32_t i = 0; i < s->live_count; i++) {
        sl_ticket *t = s->live[i];
        if (t->phase != SL_TICKET_ENDED && t->released)
            sl_ticket_free(t); /* nobody asks for its end, and its session may be gone */
        else if (t->phase != SL_TICKET_ENDED)
            s->live[kept++] = t;
    }
    s->live_count = kept;
    for (uint32_t i = 0; i < s->ended_count; i++) {
        s->ended[i]->reporting = false;
        if (s->ended[i]->released) sl_ticket_free(s->ended[i]);
    }
    s->ended_count = 0;
    s->in_step = false;
    const uint32_t left = s->live_count + s->queued + s->kept_later;
    (void)pthread_mutex_unlock(&s->lock);
    return left;
}

static void count_step(sl_scheduler *s, const sl_pace_step *step) {
    sl_pace_note(&s->pace, step);
    (void)pthread_mutex_lock(&s->lock);
    sl_scheduler_stats *stats = &s->stats;
    stats->steps++;
    stats->seconds += step->seconds;
    stats->decoded_tokens += step->rows;
    stats->prefilled_tokens += step->prefilled;
    stats->decode_steps += step->decoded > 0;
    if (step->decoded) stats->decode_seconds += step->seconds;
    if (step->decoded && step->seconds > stats->longest_step_seconds)
        stats->longest_step_seconds = step->seconds;
    stats->steps_over += step->decoded && step->seconds > s->pace.target;
    stats->prefill_rows = s->pace.chunk;
    (void)pthread_mutex_unlock(&s->lock);
}

/* With the model's lock held. */
static sl_status compute(sl_scheduler *s, sl_error *err) {
    sl_pace_step step = {0};
    step_room room = {.rows = s->batch->most_rows, .scored = SL_SCORED_ROWS};
    sl_status status = SL_OK;
    const sl_batch_stats before = s->batch->stats;
    for (uint32_t i = 0; i < s->live_count; i++) s->live[i]->rows = 0;
    take_decoding(s, &step, &room);
    take_prompts(s, &step, &room);
    sl_scheduler_begin_masks(s);
    if (step.decoded + step.prefilled) {
        status = sl_batch_pass(s->batch, err);
        const sl_batch_stats *after = &s->batch->stats;
        step.seconds = after->seconds - before.seconds;
        step.compile_seconds = after->compile_seconds - before.compile_seconds;
        step.read_again = (after->expert_misses - after->expert_first_reads) -
                          (before.expert_misses - before.expert_first_reads);
        if (status == SL_OK) count_step(s, &step);
    }
    sl_scheduler_wait_for_masks(s);
    take_results(s);
    const bool idle = step.decoded + step.prefilled == 0;
    s->kept_later = sl_keeper_serve(s->model->keeper, idle);
    return status;
}

sl_status sl_scheduler_advance(sl_scheduler *s, uint32_t *out_left, sl_error *err) {
    SL_TRY(begin_step(s, err));
    (void)pthread_mutex_lock(&s->model->lock);
    const sl_status status = compute(s, err);
    (void)pthread_mutex_unlock(&s->model->lock);
    for (uint32_t i = 0; i < s->live_count; i++) sl_ticket_deliver(s->live[i]);
    keep_ended(s);
    report_ends(s);
    const uint32_t left = end_step(s);
    if (out_left) *out_left = left;
    return status;
}
