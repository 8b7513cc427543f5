/* request.h - A request that generates, in one form for all endpoints. */
#ifndef SL_APPS_SERVER_REQUEST_H
#define SL_APPS_SERVER_REQUEST_H
#include "apps/server/json.h"
#include "sluice/grammar.h"

/* Endpoints that generate. */
typedef enum {
    SERVER_CHAT,
    SERVER_COMPLETIONS,
    SERVER_RESPONSES,
    SERVER_MESSAGES,
    SERVER_SHAPE_COUNT
} server_shape;

typedef enum { SERVER_TOOLS_AUTO, SERVER_TOOLS_NONE, SERVER_TOOLS_REQUIRED } server_tool_choice;
typedef enum { SERVER_THINK_DEFAULT, SERVER_THINK_ON, SERVER_THINK_OFF } server_think;

enum { SERVER_MOST_CHOICES = 128, SERVER_MOST_STOPS = 64, SERVER_MOST_TOP = 20 };
#define SERVER_UNLIMITED UINT32_MAX

typedef struct {
    server_shape shape;
    json_t *body;         /* what the client sent, which owns what is borrowed below */
    const char *model;    /* borrowed; NULL: the only one */
    json_t *messages;     /* in the form of OpenAI's chat; NULL: a completion */
    json_t *prompts;      /* of a completion: a list of texts and of lists of ids */
    json_t *tools;        /* in the form of OpenAI's chat; NULL: none */
    json_t *variables;    /* of the chat template, beside messages and tools */
    json_t *sampling;     /* options of sluice/samplers.def: name to text */
    json_t *bias;         /* list of [id or text, number or false]; NULL: none */
    json_t *breakers;     /* dry_breakers; NULL: the default */
    json_t *stops;        /* texts; NULL: none */
    json_t *stop_tokens;  /* ids; NULL: none */
    json_t *schema;       /* of the answer; NULL: none */
    char *grammar;        /* another grammar for the answer; NULL: none */
    sl_grammar_kind kind; /* of `grammar` */
    server_tool_choice choice;
    const char *tool; /* the only tool that may be called; borrowed; NULL: any */
    server_think think;
    bool serial_calls;     /* not more than one call */
    uint32_t n;            /* answers to each prompt */
    uint32_t most_tokens;  /* to generate, or SERVER_UNLIMITED */
    uint32_t top_logprobs; /* with each token */
    bool logprobs, echo;
    bool stream, include_usage, progress;
    bool raw_reasoning; /* it stays in the content */
    bool keeps;         /* the response is stored (responses) */
    bool continues;     /* the last message, an assistant's, is continued */
    int32_t priority;
    const char *previous; /* id of a stored response; borrowed; NULL: none */
} server_request;

/* Decodes a body, of which it takes the reference.  Looks at nothing else; false after filling err.
 * Released with server_request_deinit in either case. */
bool server_request_decode(server_shape shape, json_t *body, server_request *out,
                           server_error *err);
void server_request_deinit(server_request *request);
/* The body of count_tokens and of input_tokens: the same without a limit. */
bool server_request_decode_count(server_shape shape, json_t *body, server_request *out,
                                 server_error *err);

/* ---- What the decoders of the shapes share ---- */

bool server_decode_chat(server_request *r, server_error *err);        /* decode_chat.c */
bool server_decode_completions(server_request *r, server_error *err); /* decode_completions.c */
bool server_decode_responses(server_request *r, server_error *err);   /* decode_responses.c */
bool server_decode_messages(server_request *r, server_error *err);    /* decode_messages.c */
/* decode_chat.c: members of the same name and meaning elsewhere */
bool server_decode_tool_choice(server_request *r, server_error *err);
bool server_decode_grammar(server_request *r, server_error *err);
bool server_decode_choices(server_request *r, server_error *err);
bool server_decode_template(server_request *r, server_error *err);
/* decode_common.c */
bool server_decode_limit(server_request *r, const char *name, server_error *err);
bool server_decode_sampling(server_request *r, server_error *err);
bool server_decode_stops(server_request *r, const char *name, server_error *err);
bool server_decode_schema(server_request *r, json_t *schema, const char *param, server_error *err);
bool server_decode_effort(server_request *r, const char *effort, const char *param,
                          server_error *err);
/* A message of the list: {"role": role, "content": content}, taking the reference. */
json_t *server_message_add(json_t *messages, const char *role, json_t *content);
/* The content of a message as one string: a string, or a list of parts with text.  A part that is
 * not text is refused.  NULL after filling err. */
json_t *server_content_text(const json_t *content, const char *param, server_error *err);
/* How an API writes a tool: its type, the member that holds the function (NULL: the tool itself),
 * the name of the schema, and whether it may not be left out. */
typedef struct {
    const char *type, *nested, *schema;
    bool complete;
} server_tool_form;
bool server_decode_tools(server_request *r, const server_tool_form *form, server_error *err);
#endif
