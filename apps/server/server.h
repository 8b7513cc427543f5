/* server.h - What the parts of `sluice serve` share. */
#ifndef SL_APPS_SERVER_SERVER_H
#define SL_APPS_SERVER_SERVER_H
#include "apps/server/models.h"
#include "apps/server/store.h"
#include "apps/server/writer.h"
#include <stdatomic.h>

enum { SERVER_MOST_LIST = 64 };

/* What the server was started with; texts are borrowed. */
typedef struct {
    const char *host;
    uint16_t port;
    const char *keys[SERVER_MOST_LIST], *origins[SERVER_MOST_LIST];
    uint32_t key_count, origin_count;
    size_t body_bytes;      /* of the largest body */
    uint32_t connections;   /* at once */
    uint32_t sessions;      /* requests that are computed at once */
    double request_seconds; /* the longest a request may take; 0: as long as it wants */
    double ping_seconds, idle_seconds;
    bool quiet;
} server_options;

typedef struct server {
    server_options options;
    server_models models;
    server_model model; /* the one that is loaded, and what computes with it */
    server_engine *engine;
    server_store *store;
    double started;
    bool loopback; /* nothing but this machine reaches it */
    atomic_bool draining;
} server;

/* One request of HTTP and what becomes of it. */
typedef struct server_exchange {
    server *server;
    void *connection; /* of http.c */
    const struct server_route *route;
    char id[48], method[16], path[256], argument[160]; /* argument: what stands for {id} */
    char allowed[32];    /* the methods of the path, if it was asked with another one */
    const char *version; /* of the headers: anthropic-version; NULL: none */
    uint64_t owner;
    server_text body;
    size_t received;   /* bytes of the body, also of one that is refused */
    size_t body_bytes; /* counted against what all may have */
    double begun, last_sent;
    bool refused;
    bool holds; /* the model */
    server_error refusal;
    bool decoded;
    server_request request;
    server_job *job;
    bool writes;
    server_writer writer;
    size_t sent; /* bytes of writer.out */
    int status;
} server_exchange;

/* What a handler answers with: JSON, a text, or the exchange's stream. */
typedef struct {
    int status; /* default 200 */
    json_t *json;
    const char *type; /* of text; constant */
    char *text;       /* released with free, unless it is constant */
    size_t bytes;
    bool constant, streams;
    const char *etag;
} server_reply;

typedef bool server_handler(server_exchange *x, server_reply *reply, server_error *err);
typedef struct server_route {
    const char *method, *path; /* a path that ends in {id} has an argument */
    server_handler *handle;
    bool open; /* needs no key */
    server_vendor vendor;
} server_route;

/* route.c: the route of a path, with or without /v1; NULL after filling err. */
const server_route *server_route_find(const char *method, const char *path, char *argument,
                                      size_t capacity, server_error *err);
server_vendor server_path_vendor(const char *path);
/* The methods of a path, separated by commas; false if it has none. */
bool server_route_methods(const char *path, char *out, size_t capacity);

/* http.c */
typedef struct server_http server_http;
bool server_http_start(server *s, server_http **out, uint16_t *out_port, sl_error *err);
void server_http_quiesce(server_http *http); /* accepts no more connections */
uint32_t server_http_exchanges(server_http *http);
void server_http_stop(server_http *http);
/* Whether the client is gone. */
bool server_exchange_gone(const server_exchange *x);

/* generate.c: the next bytes of a stream: their number, 0 at its end, -1 if it breaks off. */
long server_stream_read(server_exchange *x, char *out, size_t capacity);
/* The body as a JSON object, which is the caller's; of its bytes nothing is kept. */
bool server_exchange_parse(server_exchange *x, json_t **out, server_error *err);
/* Holds the model of this name until the exchange ends; NULL or "": the one that is there. */
bool server_exchange_use(server_exchange *x, const char *name, server_error *err);
/* The same if it is there now; false: none is. */
bool server_exchange_use_present(server_exchange *x);
/* For what only looks at the model, and is quick: it does not wait for those that want another. */
bool server_exchange_look(server_exchange *x, server_error *err);
void server_exchange_deinit(server_exchange *x);

#define ROUTE(METHOD, PATH, HANDLER, ...) server_handler server_handle_##HANDLER;
#include "apps/server/route.def"
#endif
