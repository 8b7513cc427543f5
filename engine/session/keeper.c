#include "engine/session/keeper.h"
#include "base/helper.h"
#include "engine/session/prefix_disk.h"
#include "engine/session/snapshot.h"
#include <string.h>
#include <time.h>

enum { WAIT_NANOSECONDS = 10000000 };

/* A session that is to be written. */
typedef struct job {
    struct job *next;
    sl_keeper *keeper;
    const sl_session *session; /* NULL: it is copied, or has changed */
    sl_state_content source;   /* of the session */
    sl_token *tokens;          /* a copy */
    uint64_t lengths[SL_MAX_CHECKPOINTS + 1];
} job;

/* A part of the first job's session that its writer waits for. */
typedef struct {
    bool blocks; /* else a recurrent state */
    uint32_t index;
    uint64_t first, count;
    void *out;
} part;

struct sl_keeper {
    sl_model *model;
    sl_prefix_disk *disk; /* the thread's own view of the folder */
    sl_helper *helper;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    job *first, **last;
    bool works;  /* the thread has jobs */
    bool leaves; /* the jobs that are left are given up */
    bool asks;   /* for the part */
    part part;
    sl_error answer; /* status SL_OK: the part is copied */
};

sl_status sl_keeper_create(sl_model *model, sl_keeper **out, sl_error *err) {
    sl_keeper *k = sl_allocate(&model->allocator, sizeof *k, _Alignof(sl_keeper));
    if (!k) return sl_no_memory(err, "a writer of prefixes", sizeof *k);
    k->model = model;
    k->last = &k->first;
    (void)pthread_mutex_init(&k->lock, NULL);
    (void)pthread_cond_init(&k->changed, NULL);
    const sl_prefix_disk_options options = sl_prefix_disk_options_of(model->prefixes_on_disk);
    sl_status status = sl_prefix_disk_create(&options, &k->disk, err);
    if (status == SL_OK) status = sl_helper_create(&model->allocator, &k->helper, err);
    if (status == SL_OK)
        *out = k;
    else
        sl_keeper_destroy(k);
    return status;
}

void sl_keeper_destroy(sl_keeper *k) {
    if (!k) return;
    (void)pthread_mutex_lock(&k->lock);
    k->leaves = true;
    (void)pthread_cond_broadcast(&k->changed);
    (void)pthread_mutex_unlock(&k->lock);
    sl_helper_destroy(k->helper);
    sl_prefix_disk_destroy(k->disk);
    (void)pthread_mutex_destroy(&k->lock);
    (void)pthread_cond_destroy(&k->changed);
    sl_release(&k->model->allocator, k, sizeof *k, _Alignof(sl_keeper));
}

/* ---- the thread ---- */

/* Waits until a part is copied. */
static sl_status ask(const job *j, part wanted, sl_error *err) {
    sl_keeper *k = j->keeper;
    (void)pthread_mutex_lock(&k->lock);
    k->part = wanted;
    k->asks = j->session && !k->leaves;
    k->answer = (sl_error){.status = k->asks ? SL_OK : SL_CANCELLED};
    (void)pthread_cond_broadcast(&k->changed);
    while (k->asks && !k->leaves) (void)pthread_cond_wait(&k->changed, &k->lock);
    if (k->asks) k->answer.status = SL_CANCELLED;
    k->asks = false;
    const sl_error answer = k->answer;
    (void)pthread_mutex_unlock(&k->lock);
    if (answer.status != SL_OK && err) *err = answer;
    return answer.status;
}

static sl_status ask_recurrent(void *ctx, uint32_t index, void *out, sl_error *err) {
    return ask(ctx, (part){.index = index, .out = out}, err);
}

static sl_status ask_blocks(void *ctx, uint64_t first, uint64_t count, void *out, sl_error *err) {
    return ask(ctx, (part){.blocks = true, .first = first, .count = count, .out = out}, err);
}

static size_t token_bytes(const job *j) {
    return j->source.to * sizeof *j->tokens;
}

static void free_job(job *j) {
    const sl_allocator *allocator = &j->keeper->model->allocator;
    sl_release(allocator, j->tokens, token_bytes(j), _Alignof(sl_token));
    sl_release(allocator, j, sizeof *j, _Alignof(job));
}

static void write_job(sl_keeper *k, job *j) {
    sl_state_content content = j->source;
    content.tokens = j->tokens;
    content.token_count = content.to;
    content.recurrent = ask_recurrent;
    content.blocks = ask_blocks;
    content.ctx = j;
    sl_prefix_disk_add(k->disk, &content);
}

static void write_jobs(void *ctx) {
    sl_keeper *k = ctx;
    (void)pthread_mutex_lock(&k->lock);
    while (k->first) {
        job *j = k->first;
        const bool wanted = j->session && !k->leaves;
        (void)pthread_mutex_unlock(&k->lock);
        if (wanted) write_job(k, j);
        (void)pthread_mutex_lock(&k->lock);
        k->first = j->next;
        if (!k->first) k->last = &k->first;
        (void)pthread_cond_broadcast(&k->changed);
        free_job(j);
    }
    k->works = false;
    (void)pthread_mutex_unlock(&k->lock);
}

/* ---- the sessions ---- */

static job *make_job(sl_keeper *k, const sl_session *session) {
    const sl_allocator *allocator = &k->model->allocator;
    job *j = sl_allocate(allocator, sizeof *j, _Alignof(job));
    if (!j) return NULL;
    j->keeper = k;
    j->session = session;
    j->source = sl_session_content(session, j->lengths);
    j->tokens = sl_allocate(allocator, token_bytes(j), _Alignof(sl_token));
    if (!j->tokens) {
        sl_release(allocator, j, sizeof *j, _Alignof(job));
        return NULL;
    }
    memcpy(j->tokens, session->tokens, token_bytes(j));
    return j;
}

void sl_keeper_add(sl_keeper *k, const sl_session *session) {
    job *j = k && session->computed ? make_job(k, session) : NULL;
    if (!j) return;
    (void)pthread_mutex_lock(&k->lock);
    *k->last = j;
    k->last = &j->next;
    const bool begins = !k->works;
    k->works = true;
    (void)pthread_mutex_unlock(&k->lock);
    if (!begins) return;
    sl_helper_wait(k->helper); /* it is about to return */
    sl_helper_begin(k->helper, write_jobs, k);
}

bool sl_keeper_has(sl_keeper *k, const sl_session *session) {
    bool found = false;
    if (!k) return false;
    (void)pthread_mutex_lock(&k->lock);
    for (const job *j = k->first; j; j = j->next) found |= j->session == session;
    (void)pthread_mutex_unlock(&k->lock);
    return found;
}

/* With the lock held: the thread is told that its part does not come. */
static void give_up(sl_keeper *k, job *j) {
    j->session = NULL;
    if (j != k->first || !k->asks) return;
    k->asks = false;
    k->answer.status = SL_CANCELLED;
    (void)pthread_cond_broadcast(&k->changed);
}

void sl_keeper_leave(sl_keeper *k, const sl_session *session) {
    if (!k) return;
    (void)pthread_mutex_lock(&k->lock);
    for (job *j = k->first; j; j = j->next)
        if (j->session == session) give_up(k, j);
    (void)pthread_mutex_unlock(&k->lock);
}

/* With the lock held. */
static void answer(sl_keeper *k) {
    const part *p = &k->part;
    job *j = k->first;
    const sl_state_content *source = &j->source;
    k->answer.status = p->blocks
                           ? source->blocks(source->ctx, p->first, p->count, p->out, &k->answer)
                           : source->recurrent(source->ctx, p->index, p->out, &k->answer);
    k->asks = false;
    if (p->blocks && p->first + p->count == sl_blocks_of(source->to)) j->session = NULL;
    (void)pthread_cond_broadcast(&k->changed);
}

static uint32_t count_left(const sl_keeper *k) {
    uint32_t left = 0;
    for (const job *j = k->first; j; j = j->next) left += j->session != NULL;
    return left;
}

uint32_t sl_keeper_serve(sl_keeper *k, bool waits) {
    if (!k) return 0;
    (void)pthread_mutex_lock(&k->lock);
    if (waits && !k->asks && count_left(k)) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_NANOSECONDS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&k->changed, &k->lock, &until);
    }
    if (k->asks) answer(k);
    const uint32_t left = count_left(k);
    (void)pthread_mutex_unlock(&k->lock);
    return left;
}

bool sl_keeper_is_busy(sl_keeper *k) {
    if (!k) return false;
    (void)pthread_mutex_lock(&k->lock);
    const bool busy = k->works;
    (void)pthread_mutex_unlock(&k->lock);
    return busy;
}
