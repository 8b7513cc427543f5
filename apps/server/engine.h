/* engine.h - The thread that computes, and the jobs that connections give it. */
#ifndef SL_APPS_SERVER_ENGINE_H
#define SL_APPS_SERVER_ENGINE_H
#include "apps/server/model.h"
#include "apps/server/request.h"
#include "sluice/batch.h"
#include "sluice/messages.h"
#include "sluice/sampling.h"
#include "sluice/sessions.h"
#include <pthread.h>

typedef struct server_engine server_engine;
typedef struct server_job server_job;

/* ---- What a job tells its connection ---- */

typedef enum {
    SERVER_EVENT_REASONING, /* text */
    SERVER_EVENT_CONTENT,   /* text */
    SERVER_EVENT_CALL,      /* a call begins: its id, NUL, its name */
    SERVER_EVENT_ARGUMENTS, /* text */
    SERVER_EVENT_CALL_END,
    SERVER_EVENT_CALL_DROP,
    SERVER_EVENT_LOGPROBS, /* sl_logprob of the token whose text follows, and the most likely ones
                            */
    SERVER_EVENT_PROMPT_LOGPROBS, /* of one token of the prompt; none for the first */
    SERVER_EVENT_END              /* the result of this answer is complete */
} server_event_kind;

typedef struct server_event {
    struct server_event *next;
    server_event_kind kind;
    uint32_t answer; /* index of the answer in the job */
    uint32_t call;
    size_t bytes, capacity;
    _Alignas(8) char data[];
} server_event;

typedef enum {
    SERVER_FINISH_STOP,
    SERVER_FINISH_TEXT, /* a stop text */
    SERVER_FINISH_LENGTH,
    SERVER_FINISH_CONTEXT,
    SERVER_FINISH_CALLS,
    SERVER_FINISH_CANCELLED,
    SERVER_FINISH_FAILED
} server_finish;

/* What an answer came to; complete after its SERVER_EVENT_END. */
typedef struct {
    server_finish finish;
    const char *stop_text; /* borrowed from the request */
    sl_error error;
    size_t prompt_tokens, reused_tokens, tokens, reasoning_tokens;
    double queued_seconds, prefill_seconds, decode_seconds;
    uint64_t hits, misses, bytes_read; /* of experts, of all sequences meanwhile */
    double stall_seconds;
    sl_reuse_reason reason;
    char reuse[160]; /* why not more of the prompt was reused */
} server_result;

/* One answer, computed as one sequence.  All but `result` is the engine's. */
typedef struct server_answer {
    server_job *job;
    uint32_t index;
    struct server_answer *next; /* in the queue */
    struct server_answer
        *first; /* the answer to the same prompt that is computed before; or NULL */
    sl_token *prompt;
    size_t prompt_count;
    sl_sampler *sampler;
    sl_grammar_state *grammar;
    bool grammar_waits;
    sl_message_parser *parser;
    sl_stop_stream stop_stream;
    sl_session *session;
    sl_ticket *ticket;
    bool over;  /* under the engine's lock: it has ended */
    bool ended; /* under the job's lock: the same */
    bool decodes, stopped;
    double submitted, began, first_token;
    uint64_t number; /* of its arrival */
    sl_expert_totals before;
    server_result result;
} server_answer;

struct server_job {
    server_engine *engine;
    const server_request *request;
    uint64_t owner;
    uint32_t count, ended;
    bool submitted;
    server_answer *answers;
    sl_stops *stops;
    sl_grammar *grammar;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t wake;
    server_event *events, *last;
    size_t bytes; /* of events */
    bool cancelled, overflowed;
};

/* What the engine is opened with. */
typedef struct {
    uint32_t sessions, queue;
    size_t buffer_bytes; /* of a job's events, beyond which it is cancelled if it is streamed */
    bool limits_kv;      /* sessions have not all the memory that they may need */
} server_engine_options;

bool server_engine_start(server_model *model, const server_engine_options *options,
                         server_engine **out, sl_error *err);
/* Nothing may be queued or live.  NULL is allowed. */
void server_engine_stop(server_engine *engine);

/* grammars.c: *out is NULL where the answer is free. */
bool server_grammar_of(server_model *model, const server_request *request, sl_grammar **out,
                       server_error *err);
/* prepare.c: the tokens of a prompt that fits the context, released with free. */
bool server_prompt_chat(const server_model *model, const server_request *request,
                        server_tokens *out, server_error *err);
bool server_prompt_text(const server_model *model, const json_t *prompt, server_tokens *out,
                        server_error *err);
/* prepare.c: a job with what its answers need; false after filling err. */
bool server_job_create(server_engine *engine, const server_request *request, uint64_t owner,
                       server_job **out, server_error *err);
/* Cancels it, and waits until the engine has let go of it. */
void server_job_end(server_job *job);
void server_job_destroy(server_job *job); /* the same before; NULL is allowed */
/* Gives a job to the engine; false if the queue is full or the server stops. */
bool server_job_submit(server_job *job, server_error *err);
void server_job_cancel(server_job *job);
/* Takes the events so far, waiting for the first of them until the time is over.  A list that is
 * released with server_events_free.  *out_ended: nothing follows. */
server_event *server_job_take(server_job *job, double seconds, bool *out_ended);
void server_events_free(server_event *events);
/* Waits until all answers are complete or the time is over; true if they are. */
bool server_job_wait(server_job *job, double seconds);
/* How much of the first answer's prompt is computed; false while it waits and when it has ended. */
bool server_job_progress(server_job *job, sl_ticket_state *out);
/* The place of the first answer in the queue, from 1 in order of arrival; 0: it does not wait. */
uint32_t server_job_place(server_job *job);

/* answer.c, called on the thread of the engine. */
void server_answer_begin(server_answer *answer);
int server_answer_token(void *ctx, sl_ticket *ticket, sl_token token);
void server_answer_prompt_token(void *ctx, sl_ticket *ticket, size_t position,
                                const sl_logprob *logprobs, uint32_t count);
/* Completes the result and tells the connection. */
void server_answer_end(server_answer *answer, sl_ticket_end end);
void server_job_tell(server_job *job, const server_event *event, const void *data);

/* Work that the thread does between steps with a session of its own: one piece per call. */
typedef enum {
    SERVER_TASK_DONE,
    SERVER_TASK_GOES_ON, /* it wants the same session, with what it has */
    SERVER_TASK_RESTS    /* others may have the session in between */
} server_task_state;
typedef server_task_state server_task_fn(void *ctx, sl_session *session);
/* Runs it and waits for its end; false if the server stops. */
bool server_engine_run(server_engine *engine, server_task_fn *task, void *ctx);

/* Totals since the start. */
typedef struct {
    uint64_t finished, cancelled, failed, refused;
    uint64_t prompt_tokens, reused_tokens, generated_tokens, queries;
    uint32_t live, queued;
    double generated_per_second, prefilled_per_second;
    sl_scheduler_stats scheduler;
    char last_reuse[160];
} server_engine_stats;
void server_engine_describe(server_engine *engine, server_engine_stats *out);
server_model *server_engine_model(const server_engine *engine);
double server_seconds(void); /* of a clock that only goes forward */
#endif
