/* queue.h - The order in which threads use a device: one after another, first come first served.
 *
 * A thread either takes its place and waits until it is its turn (enter, leave), or hands over a
 * job, which a worker thread runs when it is the job's turn (start, wait).  Both are in one order.
 * The worker is created with the first job. */
#ifndef SL_RUNTIME_QUEUE_H
#define SL_RUNTIME_QUEUE_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct sl_queue sl_queue;

/* Owned by the caller; run and ctx are its own, the rest belongs to the queue. */
typedef struct sl_queue_job {
    void (*run)(void *ctx);
    void *ctx;
    uint64_t place;
    bool done;
    struct sl_queue_job *next;
} sl_queue_job;

SL_CHECKED sl_status sl_queue_create(const sl_allocator *allocator, sl_queue **out, sl_error *err);
void sl_queue_destroy(sl_queue *queue); /* after all jobs; NULL is allowed */

/* Does not nest; not from a job.  enter returns whether it had to wait. */
bool sl_queue_enter(sl_queue *queue);
void sl_queue_leave(sl_queue *queue);
/* Returns before the job has run.  Fails without a thread to run it. */
SL_CHECKED sl_status sl_queue_start(sl_queue *queue, sl_queue_job *job, sl_error *err);
/* Returns after the job, whose writes are visible then. */
void sl_queue_wait(sl_queue *queue, sl_queue_job *job);
#endif
