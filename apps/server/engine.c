/* engine.c - One thread computes; jobs wait in a queue for one of its sessions.
 *
 * Locks: the engine's lock guards the queue and the totals, a job's lock its events.  A job's lock
 * may be taken while the engine's is held, never the other way round. */
#include "apps/server/engine.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SESSIONS = 1024, OWNER_TURNS = 1024 };

typedef struct {
    server_task_fn *run;
    void *ctx;
    sl_session *session; /* NULL: it rests */
    bool done;
} task_slot;

struct server_engine {
    server_model *model;
    server_engine_options options;
    sl_scheduler *scheduler;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, task_done;
    bool stopping, started;
    server_answer *queue, **queue_end; /* in order of arrival */
    uint32_t queued, live;
    bool copies; /* what requests have computed is not copied for the folder yet */
    uint64_t arrivals, turns, last_turn[OWNER_TURNS];
    sl_session *free[MOST_SESSIONS];
    uint32_t free_count, session_count;
    task_slot *task;           /* what waits to be run between steps */
    pthread_mutex_t task_lock; /* held by the one who has a task */
    server_engine_stats totals;
    double rate_since;
    uint64_t rate_generated, rate_prefilled;
};

double server_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- Sessions ---- */

static size_t same_tokens(const sl_session *session, const server_answer *answer) {
    const sl_token *tokens = NULL;
    size_t count = sl_session_tokens(session, &tokens), same = 0;
    if (count > answer->prompt_count) count = answer->prompt_count;
    while (same < count && tokens[same] == answer->prompt[same]) same++;
    return same;
}

/* The free session that has most of the prompt already; a new one while there may be more and none
 * has anything; NULL: none is free. */
static sl_session *take_session(server_engine *e, const server_answer *answer) {
    uint32_t best = 0;
    size_t most = 0;
    for (uint32_t i = 0; answer && i < e->free_count; i++) {
        const size_t same = same_tokens(e->free[i], answer);
        if (same <= most) continue;
        most = same;
        best = i;
    }
    sl_session *made = NULL;
    if (most == 0 && e->session_count < e->options.sessions &&
        sl_session_create(e->model->model, NULL, &made, NULL) == SL_OK) {
        e->session_count++;
        return made;
    }
    if (e->free_count == 0) return NULL;
    sl_session *session = e->free[best];
    e->free_count--;
    for (uint32_t i = best; i < e->free_count; i++) e->free[i] = e->free[i + 1];
    return session;
}

/* Sessions that were used longest ago are in front. */
static void return_session(server_engine *e, sl_session *session) {
    e->free[e->free_count++] = session;
}

/* ---- The queue ---- */

static bool may_begin(const server_answer *a) {
    return !a->first || a->first->decodes || a->first->over;
}

static uint64_t *turn_of(server_engine *e, const server_answer *a) {
    return &e->last_turn[a->job->owner % OWNER_TURNS];
}

static bool comes_before(server_engine *e, const server_answer *a, const server_answer *b) {
    if (a->job->request->priority != b->job->request->priority)
        return a->job->request->priority > b->job->request->priority;
    const uint64_t turn_a = *turn_of(e, a), turn_b = *turn_of(e, b);
    return turn_a != turn_b ? turn_a < turn_b : a->number < b->number;
}

static server_answer *choose_next(server_engine *e) {
    server_answer *best = NULL;
    for (server_answer *a = e->queue; a; a = a->next)
        if (may_begin(a) && (!best || comes_before(e, a, best))) best = a;
    return best;
}

static void leave_queue(server_engine *e, server_answer *answer) {
    server_answer **at = &e->queue;
    while (*at && *at != answer) at = &(*at)->next;
    if (!*at) return;
    *at = answer->next;
    if (e->queue_end == &answer->next) e->queue_end = at;
    e->queued--;
}

/* ---- Beginning and ending, on the engine's thread without its lock ---- */

static void on_end(void *ctx, sl_ticket *ticket, sl_ticket_end end);

static sl_status submit(server_engine *e, server_answer *a, sl_error *err) {
    const server_request *r = a->job->request;
    const sl_request request = {
        .struct_size = sizeof request,
        .session = a->session,
        .prompt = a->prompt,
        .prompt_count = a->prompt_count,
        /* One token is computed where none is wanted, and not shown. */
        .most_tokens = r->most_tokens == SERVER_UNLIMITED ? 0
                       : r->most_tokens == 0              ? 1
                                                          : r->most_tokens,
        .token = server_answer_token,
        .end = on_end,
        .ctx = a,
        .whole = 1,
        .sampler = a->sampler,
        .grammar = a->grammar,
        .grammar_waits = a->grammar_waits,
        .owner = a->job->owner,
        .priority = r->priority,
        .prompt_logprobs = r->echo && r->logprobs ? 1 + r->top_logprobs : 0,
        .prompt_token = server_answer_prompt_token,
    };
    sl_ticket *ticket = NULL;
    const sl_status status = sl_scheduler_submit(e->scheduler, &request, &ticket, err);
    if (status != SL_OK) return status;
    (void)pthread_mutex_lock(&a->job->lock);
    a->ticket = ticket;
    if (a->job->cancelled) sl_ticket_cancel(ticket);
    (void)pthread_mutex_unlock(&a->job->lock);
    return SL_OK;
}

static void count_end(server_engine *e, const server_answer *a) {
    const server_result *result = &a->result;
    uint64_t *counter = result->finish == SERVER_FINISH_FAILED      ? &e->totals.failed
                        : result->finish == SERVER_FINISH_CANCELLED ? &e->totals.cancelled
                                                                    : &e->totals.finished;
    *counter += 1;
    e->totals.generated_tokens += result->tokens;
    e->totals.prompt_tokens += result->prompt_tokens;
    e->totals.reused_tokens += result->reused_tokens;
    e->totals.queries++;
    memcpy(e->totals.last_reuse, result->reuse, sizeof e->totals.last_reuse);
}

/* After this the job may be gone. */
static void finish(server_engine *e, server_answer *a, sl_ticket_end end) {
    const bool was_live = a->session != NULL;
    server_answer_end(a, end);
    (void)pthread_mutex_lock(&e->lock);
    if (was_live) {
        return_session(e, a->session);
        a->session = NULL;
        e->live--;
    }
    a->over = true;
    count_end(e, a);
    (void)pthread_mutex_unlock(&e->lock);
    server_job *job = a->job;
    (void)pthread_mutex_lock(&job->lock);
    a->ended = true;
    job->ended++;
    (void)pthread_cond_broadcast(&job->wake);
    (void)pthread_mutex_unlock(&job->lock);
}

static void on_end(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    server_answer *a = ctx;
    finish(a->job->engine, a, end);
    sl_ticket_release(ticket);
}

static void begin(server_engine *e, server_answer *a) {
    sl_error err;
    a->began = server_seconds();
    server_answer_begin(a);
    if (submit(e, a, &err) == SL_OK) return;
    a->result.error = err;
    finish(e, a, SL_END_FAILED);
}

/* Takes the next answer out of the queue if there is a session for it; NULL: none can begin.  An
 * answer without a session fails: there is no memory for a single one. */
static server_answer *take_next(server_engine *e) {
    (void)pthread_mutex_lock(&e->lock);
    server_answer *a = choose_next(e);
    if (a) a->session = take_session(e, a);
    if (a && !a->session && e->session_count > 0) a = NULL;
    if (a) {
        leave_queue(e, a);
        if (a->session) e->live++;
        *turn_of(e, a) = ++e->turns;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return a;
}

/* Gives free sessions to answers that wait. */
static void admit(server_engine *e) {
    for (server_answer *a; (a = take_next(e));) {
        if (a->session) {
            begin(e, a);
            continue;
        }
        a->result.error = (sl_error){SL_NO_MEMORY, "no memory for a session"};
        finish(e, a, SL_END_FAILED);
    }
}

/* ---- The thread ---- */

/* One piece of the task, if it has a session or one is free. */
static void run_task(server_engine *e) {
    (void)pthread_mutex_lock(&e->lock);
    task_slot *task = e->task;
    if (task && !task->session) task->session = take_session(e, NULL);
    (void)pthread_mutex_unlock(&e->lock);
    if (!task || !task->session) return;
    const server_task_state state = task->run(task->ctx, task->session);
    if (state == SERVER_TASK_GOES_ON) return;
    (void)pthread_mutex_lock(&e->lock);
    /* In front: what it has is of no use to others. */
    for (uint32_t i = e->free_count++; i > 0; i--) e->free[i] = e->free[i - 1];
    e->free[0] = task->session;
    task->session = NULL;
    if (state == SERVER_TASK_DONE) {
        task->done = true;
        e->task = NULL;
        (void)pthread_cond_broadcast(&e->task_done);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* Rates are of times in which something is computed. */
static void begin_rates(server_engine *e) {
    e->rate_since = server_seconds();
    e->rate_generated = e->totals.scheduler.decoded_tokens;
    e->rate_prefilled = e->totals.scheduler.prefilled_tokens;
}

/* Waits until there is something to do; false: the engine stops. */
static bool wait_for_work(server_engine *e) {
    (void)pthread_mutex_lock(&e->lock);
    while (!e->stopping && !e->queue && !e->live && !e->task && !e->copies) {
        (void)pthread_cond_wait(&e->wake, &e->lock);
        begin_rates(e);
    }
    const bool goes_on = !e->stopping || e->live > 0;
    (void)pthread_mutex_unlock(&e->lock);
    return goes_on;
}

static const double least_rate_seconds = 0.25;

static void measure_rates(server_engine *e, const sl_scheduler_stats *now) {
    const sl_scheduler_stats stats = *now;
    const double seconds = server_seconds() - e->rate_since;
    (void)pthread_mutex_lock(&e->lock);
    e->totals.scheduler = stats;
    if (seconds > least_rate_seconds) {
        e->totals.generated_per_second =
            (double)(stats.decoded_tokens - e->rate_generated) / seconds;
        e->totals.prefilled_per_second =
            (double)(stats.prefilled_tokens - e->rate_prefilled) / seconds;
        begin_rates(e);
    }
    (void)pthread_mutex_unlock(&e->lock);
}

/* Where memory for keys and values is short, sessions that no request uses have none: what they
 * have computed is in the prefix cache. */
static void empty_free_sessions(server_engine *e) {
    sl_error of_one;
    for (uint32_t i = 0; i < e->free_count; i++)
        if (sl_session_rewind(e->free[i], 0, &of_one) != SL_OK) continue; /* it is empty anyway */
}

static void *compute(void *ctx) {
    server_engine *e = ctx;
    while (wait_for_work(e)) {
        sl_scheduler_stats stats = {.struct_size = sizeof stats};
        uint32_t left = 0;
        run_task(e);
        admit(e);
        const sl_status status = sl_scheduler_step(e->scheduler, &left, NULL);
        if (sl_scheduler_describe(e->scheduler, &stats, NULL) != SL_OK) continue;
        e->copies = left > stats.live + stats.queued;
        if (e->options.limits_kv && !e->copies) empty_free_sessions(e);
        if (status == SL_OK) measure_rates(e, &stats); /* else those in the pass have been told */
    }
    return NULL;
}

bool server_engine_start(server_model *model, const server_engine_options *options,
                         server_engine **out, sl_error *err) {
    const sl_scheduler_options how = {.struct_size = sizeof how, .queue_length = options->sessions};
    server_engine *e = calloc(1, sizeof *e);
    *out = e;
    *err = (sl_error){SL_NO_MEMORY, "no memory for the engine"};
    if (!e) return false;
    e->model = model;
    e->options = *options;
    e->queue_end = &e->queue;
    if (e->options.sessions > MOST_SESSIONS) e->options.sessions = MOST_SESSIONS;
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_mutex_init(&e->task_lock, NULL);
    (void)pthread_cond_init(&e->wake, NULL);
    (void)pthread_cond_init(&e->task_done, NULL);
    if (sl_scheduler_create(model->model, &how, &e->scheduler, err) != SL_OK) return false;
    e->started = pthread_create(&e->thread, NULL, compute, e) == 0;
    if (!e->started) *err = (sl_error){SL_NO_MEMORY, "no thread for the engine"};
    return e->started;
}

void server_engine_stop(server_engine *e) {
    if (!e) return;
    (void)pthread_mutex_lock(&e->lock);
    e->stopping = true;
    (void)pthread_cond_broadcast(&e->wake);
    (void)pthread_cond_broadcast(&e->task_done);
    (void)pthread_mutex_unlock(&e->lock);
    if (e->started) (void)pthread_join(e->thread, NULL);
    sl_scheduler_destroy(e->scheduler);
    for (uint32_t i = 0; i < e->free_count; i++) sl_session_destroy(e->free[i]);
    (void)pthread_mutex_destroy(&e->lock);
    (void)pthread_mutex_destroy(&e->task_lock);
    (void)pthread_cond_destroy(&e->wake);
    (void)pthread_cond_destroy(&e->task_done);
    free(e);
}

bool server_engine_run(server_engine *e, server_task_fn *run, void *ctx) {
    task_slot task = {.run = run, .ctx = ctx};
    (void)pthread_mutex_lock(&e->task_lock);
    (void)pthread_mutex_lock(&e->lock);
    /* cppcheck-suppress autoVariables ; it is taken back below */
    e->task = &task;
    (void)pthread_cond_signal(&e->wake);
    while (!task.done && !e->stopping) (void)pthread_cond_wait(&e->task_done, &e->lock);
    if (e->task == &task) e->task = NULL;
    (void)pthread_mutex_unlock(&e->lock);
    (void)pthread_mutex_unlock(&e->task_lock);
    return task.done;
}

void server_engine_describe(server_engine *e, server_engine_stats *out) {
    (void)pthread_mutex_lock(&e->lock);
    *out = e->totals;
    out->live = e->live;
    out->queued = e->queued;
    if (server_seconds() - e->rate_since > 4) /* nothing was computed since */
        out->generated_per_second = out->prefilled_per_second = 0;
    (void)pthread_mutex_unlock(&e->lock);
}

server_model *server_engine_model(const server_engine *engine) {
    return engine->model;
}

/* ---- Jobs, on threads of connections ---- */

bool server_job_submit(server_job *job, server_error *err) {
    server_engine *e = job->engine;
    (void)pthread_mutex_lock(&e->lock);
    const bool full = e->queued >= e->options.queue, stopping = e->stopping;
    const uint32_t waiting = e->queued;
    for (uint32_t i = 0; !full && !stopping && i < job->count; i++) {
        server_answer *a = &job->answers[i];
        a->number = e->arrivals++;
        a->submitted = server_seconds();
        *e->queue_end = a;
        e->queue_end = &a->next;
        e->queued++;
    }
    if (full || stopping)
        e->totals.refused++;
    else
        job->submitted = true;
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->lock);
    if (stopping) return server_refuse(err, 503, NULL, "the server is shutting down");
    if (!full) return true;
    (void)server_refuse(err, 429, NULL, "the queue is full: %u requests wait; try again later",
                        waiting);
    err->retry_seconds = 1 + waiting / (4 * e->options.sessions);
    return false;
}

/* Takes those that wait out of the queue; the others end before the next step. */
void server_job_cancel(server_job *job) {
    server_engine *e = job->engine;
    (void)pthread_mutex_lock(&job->lock);
    job->cancelled = true;
    for (uint32_t i = 0; i < job->count; i++)
        if (job->answers[i].ticket && !job->answers[i].ended)
            sl_ticket_cancel(job->answers[i].ticket);
    (void)pthread_mutex_unlock(&job->lock);
    for (uint32_t i = 0; i < job->count; i++) {
        server_answer *a = &job->answers[i];
        (void)pthread_mutex_lock(&e->lock);
        const uint32_t before = e->queued;
        leave_queue(e, a);
        const bool waited = e->queued < before;
        (void)pthread_mutex_unlock(&e->lock);
        if (waited) finish(e, a, SL_END_CANCELLED);
    }
}

bool server_job_progress(server_job *job, sl_ticket_state *out) {
    const server_answer *a = &job->answers[0];
    *out = (sl_ticket_state){.struct_size = sizeof *out};
    (void)pthread_mutex_lock(&job->lock);
    const bool known = a->ticket && !a->ended && sl_ticket_look(a->ticket, out, NULL) == SL_OK;
    (void)pthread_mutex_unlock(&job->lock);
    return known;
}

uint32_t server_job_place(server_job *job) {
    server_engine *e = job->engine;
    uint32_t place = 0, found = 0;
    (void)pthread_mutex_lock(&e->lock);
    for (const server_answer *a = e->queue; a && !found; a = a->next) {
        place++;
        if (a == &job->answers[0]) found = place;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return found;
}

/* ---- Events ---- */

static bool is_text(server_event_kind kind) {
    return kind == SERVER_EVENT_REASONING || kind == SERVER_EVENT_CONTENT ||
           kind == SERVER_EVENT_ARGUMENTS;
}

/* The last event with more text, if that is where the text belongs; NULL: it is another. */
static server_event *extend(server_job *job, const server_event *event, const void *data) {
    server_event *last = job->last, **at = &job->events;
    if (!last || !is_text(event->kind) || last->kind != event->kind ||
        last->answer != event->answer || last->call != event->call)
        return NULL;
    if (last->bytes + event->bytes > last->capacity) {
        const size_t capacity = 2 * (last->bytes + event->bytes);
        while (*at != last) at = &(*at)->next;
        server_event *larger = realloc(last, sizeof *last + capacity);
        if (!larger) return NULL;
        larger->capacity = capacity;
        *at = job->last = last = larger;
    }
    memcpy(last->data + last->bytes, data, event->bytes);
    last->bytes += event->bytes;
    return last;
}

static bool append(server_job *job, const server_event *event, const void *data) {
    server_event *made = malloc(sizeof *made + event->bytes);
    if (!made) return false;
    *made = *event;
    made->next = NULL;
    made->capacity = event->bytes;
    if (event->bytes) memcpy(made->data, data, event->bytes);
    if (job->last)
        job->last->next = made;
    else
        job->events = made;
    job->last = made;
    return true;
}

void server_job_tell(server_job *job, const server_event *event, const void *data) {
    const size_t most = job->engine->options.buffer_bytes;
    (void)pthread_mutex_lock(&job->lock);
    if (!extend(job, event, data) && !append(job, event, data)) job->overflowed = true;
    job->bytes += event->bytes + sizeof *event;
    /* The client does not read: its answer must not fill the memory. */
    if (job->request->stream && job->bytes > most) job->overflowed = true;
    if (job->overflowed)
        for (uint32_t i = 0; i < job->count; i++)
            if (job->answers[i].ticket && !job->answers[i].ended)
                sl_ticket_cancel(job->answers[i].ticket);
    (void)pthread_cond_signal(&job->wake);
    (void)pthread_mutex_unlock(&job->lock);
}

static struct timespec time_after(double seconds) {
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    const double whole = floor(seconds);
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((seconds - whole) * 1e9);
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

server_event *server_job_take(server_job *job, double seconds, bool *out_ended) {
    const struct timespec until = time_after(seconds);
    (void)pthread_mutex_lock(&job->lock);
    while (!job->events && job->ended < job->count && !job->overflowed &&
           pthread_cond_timedwait(&job->wake, &job->lock, &until) != ETIMEDOUT) {}
    server_event *events = job->events;
    job->events = job->last = NULL;
    job->bytes = 0;
    *out_ended = job->ended == job->count;
    (void)pthread_mutex_unlock(&job->lock);
    return events;
}

bool server_job_wait(server_job *job, double seconds) {
    const struct timespec until = time_after(seconds);
    (void)pthread_mutex_lock(&job->lock);
    while (job->ended < job->count &&
           pthread_cond_timedwait(&job->wake, &job->lock, &until) != ETIMEDOUT) {}
    const bool ended = job->ended == job->count;
    (void)pthread_mutex_unlock(&job->lock);
    return ended;
}

void server_events_free(server_event *events) {
    while (events) {
        server_event *next = events->next;
        free(events);
        events = next;
    }
}
