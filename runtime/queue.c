#include "runtime/queue.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>

struct sl_queue {
    const sl_allocator *allocator;
    pthread_mutex_t lock;
    pthread_cond_t moved;  /* whose turn it is, or a job is done */
    pthread_cond_t handed; /* a job, or the end: what an idle worker waits for */
    uint64_t places, now;  /* places given away so far; the one whose turn it is */
    sl_queue_job *first, *last;
    pthread_t worker;
    bool has_worker, ends;
};

sl_status sl_queue_create(const sl_allocator *allocator, sl_queue **out, sl_error *err) {
    sl_queue *queue = sl_allocate(allocator, sizeof *queue, _Alignof(sl_queue));
    if (!queue) return sl_no_memory(err, "the queue of a device", sizeof *queue);
    queue->allocator = allocator;
    (void)pthread_mutex_init(&queue->lock, NULL);
    (void)pthread_cond_init(&queue->moved, NULL);
    (void)pthread_cond_init(&queue->handed, NULL);
    *out = queue;
    return SL_OK;
}

void sl_queue_destroy(sl_queue *queue) {
    if (!queue) return;
    if (queue->has_worker) {
        pthread_mutex_lock(&queue->lock);
        queue->ends = true;
        pthread_cond_signal(&queue->handed);
        pthread_mutex_unlock(&queue->lock);
        (void)pthread_join(queue->worker, NULL);
    }
    (void)pthread_cond_destroy(&queue->handed);
    (void)pthread_cond_destroy(&queue->moved);
    (void)pthread_mutex_destroy(&queue->lock);
    sl_release(queue->allocator, queue, sizeof *queue, _Alignof(sl_queue));
}

/* With the lock held. */
static void await(sl_queue *queue, uint64_t place) {
    while (queue->now != place) pthread_cond_wait(&queue->moved, &queue->lock);
}
static void advance(sl_queue *queue) {
    queue->now++;
    pthread_cond_broadcast(&queue->moved);
}

bool sl_queue_enter(sl_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    const uint64_t place = queue->places++;
    const bool waits = queue->now != place;
    await(queue, place);
    pthread_mutex_unlock(&queue->lock);
    return waits;
}

void sl_queue_leave(sl_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    advance(queue);
    pthread_mutex_unlock(&queue->lock);
}

static sl_queue_job *next_job(sl_queue *queue) {
    while (!queue->first && !queue->ends) pthread_cond_wait(&queue->handed, &queue->lock);
    sl_queue_job *job = queue->first;
    if (!job) return NULL;
    queue->first = job->next;
    if (!queue->first) queue->last = NULL;
    await(queue, job->place);
    return job;
}

static void *work(void *argument) {
    sl_queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (sl_queue_job *job; (job = next_job(queue)) != NULL;) {
        pthread_mutex_unlock(&queue->lock);
        job->run(job->ctx);
        pthread_mutex_lock(&queue->lock);
        job->done = true;
        advance(queue);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* Blocks signals, so that they are delivered to the threads of the program. */
static int start_worker(sl_queue *queue) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int problem = pthread_create(&queue->worker, NULL, work, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return problem;
}

static void append(sl_queue *queue, sl_queue_job *job) {
    job->place = queue->places++;
    job->done = false;
    job->next = NULL;
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
    pthread_cond_signal(&queue->handed);
}

sl_status sl_queue_start(sl_queue *queue, sl_queue_job *job, sl_error *err) {
    int problem = 0;
    pthread_mutex_lock(&queue->lock);
    if (!queue->has_worker) {
        problem = start_worker(queue);
        queue->has_worker = !problem;
    }
    if (!problem) append(queue, job);
    pthread_mutex_unlock(&queue->lock);
    if (!problem) return SL_OK;
    return sl_fail(err, SL_NO_MEMORY, "the worker thread of a device: %s", strerror(problem));
}

void sl_queue_wait(sl_queue *queue, sl_queue_job *job) {
    pthread_mutex_lock(&queue->lock);
    while (!job->done) pthread_cond_wait(&queue->moved, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
}
