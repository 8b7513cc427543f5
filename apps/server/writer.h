/* writer.h - Answers in the form of an endpoint, as a stream of events or as a whole. */
#ifndef SL_APPS_SERVER_WRITER_H
#define SL_APPS_SERVER_WRITER_H
#include "apps/server/engine.h"

typedef enum { SERVER_PART_REASONING, SERVER_PART_CONTENT, SERVER_PART_CALL } server_part_kind;

/* A piece of an answer: adjacent text of one kind, or a call. */
typedef struct {
    server_part_kind kind;
    uint32_t call;
    char id[48], name[264]; /* of a call */
    char item[48];          /* id of the part itself */
    server_text text;
    json_t *logprobs; /* of its tokens, in the form of the chat */
    bool dropped;     /* a call that turned out to be none */
} server_part;

typedef struct {
    server_part *parts;
    uint32_t count, capacity;
    bool open;            /* the last part goes on */
    json_t *fresh;        /* log-probabilities of tokens whose text follows */
    json_t *prompt_probs; /* a list for each token of the prompt but the first */
    size_t characters;    /* of the text so far, the echo included (completions) */
    bool echoed;          /* (completions) */
    bool complete;
    const server_result *result;
} server_message;

typedef struct server_writer server_writer;

/* How an endpoint writes; each function appends to out.  NULL: nothing. */
typedef struct {
    const char *prefix; /* of ids */
    void (*begin)(server_writer *w);
    void (*open)(server_writer *w, uint32_t answer, server_part *part);
    void (*more)(server_writer *w, uint32_t answer, server_part *part, const json_t *text);
    void (*close)(server_writer *w, uint32_t answer, server_part *part);
    void (*end)(server_writer *w, uint32_t answer);
    void (*finish)(server_writer *w);
    void (*fail)(server_writer *w, const server_error *err);
    void (*wait)(server_writer *w); /* nothing has come for a while; it has begun */
    void (*progress)(server_writer *w, json_t *progress); /* takes the reference */
    json_t *(*whole)(server_writer *w);
} server_form;
extern const server_form server_chat_form, server_completions_form, server_responses_form,
    server_messages_form;

struct server_writer {
    const server_form *form;
    const server_request *request;
    const server_model *model;
    server_job *job;
    char id[48];
    time_t created;
    server_text out;
    server_message *messages;
    uint32_t count;
    bool begun, done;
    uint64_t sequence; /* number of the next event (responses) */
    size_t progress;   /* of the prompt, as told last */
};

/* The job is NULL in tests, which set the results of messages themselves. */
bool server_writer_init(server_writer *w, const server_request *request, const server_model *model,
                        server_job *job, uint32_t answers);
void server_writer_deinit(server_writer *w);
/* Takes events; if the request is streamed, out has what they become. */
void server_writer_take(server_writer *w, const server_event *events);
/* After the last event: the end of the stream. */
void server_writer_finish(server_writer *w);
/* Nothing has come for a while: keeps the connection alive, and tells the place in the queue or how
 * much of the prompt is computed.  Clients that count only events get one. */
void server_writer_ping(server_writer *w);
/* How much of the prompt is computed, if the request wants to know. */
void server_writer_progress(server_writer *w, const sl_ticket_state *state);
/* The whole response, after all events; NULL without memory. */
json_t *server_writer_whole(server_writer *w);
/* Whether an answer failed; fills err if so. */
bool server_writer_failed(const server_writer *w, server_error *err);

/* ---- What forms share ---- */

/* Appends an event with a line "event:" unless name is NULL, and gives up the reference. */
void server_writer_send(server_writer *w, const char *name, json_t *data);
void server_random_id(const char *prefix, char *out, size_t capacity);
/* Tokens of all answers; each prompt counts once. */
typedef struct {
    size_t prompt, reused, tokens, reasoning;
} server_usage;
server_usage server_writer_usage(const server_writer *w);
json_t *server_chat_usage(const server_writer *w);
/* Adds "timings", as of llama.cpp, and "sluice" to a response. */
void server_add_timings(const server_writer *w, json_t *response);
const char *server_finish_reason(server_finish finish);
/* A name for why a prefix was not reused, as both vendors have them; NULL: all of it was. */
const char *server_miss_reason(const server_result *result);
json_t *server_part_json(const server_part *part); /* its text */
/* The message as a history of the chat has it. */
json_t *server_message_json(const server_message *message);
#endif
