/* scheduler.h - Requests that generate at the same time, a step for all of them at a time.
 *
 * A step takes a row of every sequence that decodes and rows of prompts, in turns, runs one pass,
 * and samples.  Its own lock protects what submitting and polling threads see; the model's lock is
 * held during the pass.  Neither is held in a callback. */
#ifndef SL_ENGINE_SESSION_SCHEDULER_H
#define SL_ENGINE_SESSION_SCHEDULER_H
#include "engine/session/batch.h"
#include "engine/session/pace.h"

struct sl_ticket {
    sl_scheduler *scheduler;
    sl_ticket *next; /* in the queue */
    sl_arena arena;
    sl_request request; /* prompt, stops and sampling are copies */
    sl_sampling sampling;
    sl_ticket_phase phase;
    sl_ticket_end end;
    sl_error error;
    sl_token *tokens; /* [capacity]: generated */
    size_t count, capacity;
    bool has_begun;      /* the prompt was appended */
    atomic_bool cancels; /* it ends before the next step */
    bool released;
    bool reporting; /* it ended in this step */
    /* In the step: */
    uint32_t rows;  /* taken */
    bool has_token; /* sampled, not delivered yet */
};

struct sl_scheduler {
    sl_model *model;
    sl_allocator allocator;
    pthread_mutex_t lock;
    sl_batch *batch;
    sl_ticket **live;  /* [most_live] */
    sl_ticket **ended; /* [most_live + queue_length]: in this step, to be reported */
    uint32_t live_count, most_live, ended_count;
    sl_ticket *first, **last; /* the queue */
    uint32_t queued, most_queued;
    uint32_t turn; /* the live one whose prompt is served first */
    bool in_step;
    sl_pace pace;
    sl_scheduler_stats stats;
};

/* The options are complete. */
SL_CHECKED sl_status sl_scheduler_make(sl_model *model, const sl_scheduler_options *options,
                                       sl_scheduler **out, sl_error *err);
void sl_scheduler_release(sl_scheduler *scheduler);
SL_CHECKED sl_status sl_scheduler_queue(sl_scheduler *scheduler, const sl_request *request,
                                        const sl_sampling *sampling, sl_ticket **out,
                                        sl_error *err);
SL_CHECKED sl_status sl_scheduler_advance(sl_scheduler *scheduler, uint32_t *out_left,
                                          sl_error *err);
void sl_scheduler_drop(sl_ticket *ticket);
/* Its place in the queue, 0 for the first; with the scheduler's lock held. */
uint32_t sl_scheduler_place(const sl_ticket *ticket);
#endif
