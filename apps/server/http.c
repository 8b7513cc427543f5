/* http.c - HTTP by libmicrohttpd: one thread for each connection, which waits for its job. */
#include "apps/server/checks.h"
#include "apps/server/server.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    THREAD_BYTES = 2 << 20,      /* of stack: JSON is parsed by recursion */
    CONNECTION_BYTES = 64 << 10, /* for headers and what is sent */
    SEND_BYTES = 8 << 10,
    BODIES = 8 /* of the largest size that are held at once */
};

struct server_http {
    server *server;
    struct MHD_Daemon *daemon;
    atomic_uint exchanges;
    atomic_size_t body_bytes; /* of all requests, until they end: what is parsed takes more */
};

/* ---- What is wrong with a request, before its body is read ---- */

typedef struct {
    uint32_t lengths, encodings, hosts;
    bool bad_name, bad_length, bad_encoding, compressed;
    uint64_t length;
} header_facts;

static enum MHD_Result look_at_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                      const char *value) {
    header_facts *facts = ctx;
    (void)kind;
    facts->bad_name |= !server_header_name_is_sound(name);
    if (strcasecmp(name, "Content-Length") == 0) {
        facts->lengths++;
        facts->bad_length |= !value || !server_length_read(value, &facts->length);
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        facts->encodings++;
        facts->bad_encoding |= !value || strcasecmp(value, "chunked") != 0;
    }
    facts->hosts += strcasecmp(name, "Host") == 0;
    facts->compressed |=
        strcasecmp(name, "Content-Encoding") == 0 && value && strcasecmp(value, "identity") != 0;
    return MHD_YES;
}

static const char *header(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Two ways to tell where a body ends, or who is meant, are how requests are smuggled past proxies.
 */
static bool check_framing(server_exchange *x, const char *version, server_error *err) {
    header_facts facts = {0};
    (void)MHD_get_connection_values(x->connection, MHD_HEADER_KIND, look_at_header, &facts);
    if (facts.bad_name) return server_refuse(err, 400, NULL, "a header has a malformed name");
    if (facts.hosts > 1) return server_refuse(err, 400, NULL, "Host is given more than once");
    if (facts.bad_length) return server_refuse(err, 400, NULL, "Content-Length is not a number");
    if (facts.lengths > 1 || facts.encodings > 1 || (facts.lengths && facts.encodings))
        return server_refuse(err, 400, NULL, "the length of the body is given more than once");
    if (facts.bad_encoding || (facts.encodings && strcmp(version, MHD_HTTP_VERSION_1_1) != 0))
        return server_refuse(err, 400, NULL,
                             "Transfer-Encoding: only chunked is supported, and with HTTP/1.1");
    if (facts.compressed)
        return server_refuse(err, 415, NULL, "Content-Encoding: bodies may not be compressed");
    if (facts.length > x->server->options.body_bytes)
        return server_refuse(err, 413, NULL, "the body has %llu bytes, at most %zu are allowed",
                             (unsigned long long)facts.length, x->server->options.body_bytes);
    return true;
}

static bool check_path(const char *path, server_error *err) {
    for (const char *at = path; *at; at++)
        if (*at < 0x21 || *at > 0x7e || *at == '%')
            return server_refuse(err, 400, NULL, "the path has a character that is not allowed");
    return strlen(path) < sizeof((server_exchange *)0)->path ||
           server_refuse(err, 404, NULL, "the path is too long");
}

/* A page of another site may not use a server that asks for no key. */
static bool check_site(const server_exchange *x, server_error *err) {
    const server_options *o = &x->server->options;
    const char *host = header(x->connection, "Host"), *origin = header(x->connection, "Origin");
    if (o->key_count) return true;
    if (!server_host_is_safe(host, o->host))
        return server_refuse(err, 403, NULL,
                             "Host: the server is not known by this name; start it "
                             "with --api-key, or use localhost or its address");
    if (!origin || server_origin_is_host(origin, host) ||
        server_origin_is_listed(origin, o->origins, o->origin_count))
        return true;
    return server_refuse(err, 403, NULL,
                         "Origin: pages of this site are not allowed; start the "
                         "server with --cors %.100s",
                         origin);
}

static uint64_t hash(const char *text) {
    uint64_t value = 14695981039346656037u;
    for (; *text; text++) value = (value ^ (unsigned char)*text) * 1099511628211u;
    return value;
}

static void peer_name(const server_exchange *x, char *out, size_t capacity) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    out[0] = '\0';
    if (info && getnameinfo(info->client_addr,
                            info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                     : sizeof(struct sockaddr_in),
                            out, (socklen_t)capacity, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

static bool check_key(server_exchange *x, server_error *err) {
    const server_options *o = &x->server->options;
    const char *bearer = server_bearer_key(header(x->connection, "Authorization"));
    const char *other = header(x->connection, "X-Api-Key");
    char peer[64];
    peer_name(x, peer, sizeof peer);
    x->owner = hash(peer);
    if (o->key_count == 0) return true;
    int found = server_key_find(bearer, o->keys, o->key_count);
    if (found < 0) found = server_key_find(other, o->keys, o->key_count);
    if (found >= 0) x->owner = hash(o->keys[found]);
    if (found >= 0 || x->route->open) return true;
    (void)server_refuse(err, 401, NULL,
                        bearer || other ? "the API key is not valid" : "an API key is needed");
    err->code = "invalid_api_key";
    return false;
}

static bool check(server_exchange *x, const char *path, const char *version, server_error *err) {
    if (!check_path(path, err)) return false;
    (void)snprintf(x->path, sizeof x->path, "%s", path);
    if (!check_framing(x, version, err) || !check_site(x, err)) return false;
    if (strcmp(x->method, "OPTIONS") == 0) return true;
    x->route = server_route_find(x->method, path, x->argument, sizeof x->argument, err);
    if (err->status == 405) (void)server_route_methods(path, x->allowed, sizeof x->allowed);
    if (!x->route || !check_key(x, err)) return false;
    if (!x->server->draining || x->route->open) return true;
    return server_refuse(err, 503, NULL, "the server is shutting down");
}

/* ---- Answers ---- */

static void add_headers(const server_exchange *x, struct MHD_Response *response) {
    const server_options *o = &x->server->options;
    const char *origin = header(x->connection, "Origin");
    (void)MHD_add_response_header(response, "X-Request-Id", x->id);
    (void)MHD_add_response_header(response, "Request-Id", x->id);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (!origin || !server_origin_is_listed(origin, o->origins, o->origin_count)) return;
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    (void)MHD_add_response_header(response, "Vary", "Origin");
    (void)MHD_add_response_header(response, "Access-Control-Allow-Methods",
                                  "GET, POST, DELETE, OPTIONS");
    /* The vendors' clients send headers of their own; * does not include the first of these. */
    (void)MHD_add_response_header(response, "Access-Control-Allow-Headers", "Authorization, *");
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                  "Request-Id, X-Request-Id, Retry-After, X-Should-Retry");
    (void)MHD_add_response_header(response, "Access-Control-Max-Age", "600");
}

static enum MHD_Result queue(server_exchange *x, struct MHD_Response *response) {
    if (!response) return MHD_NO;
    add_headers(x, response);
    const enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)x->status, response);
    MHD_destroy_response(response);
    return result;
}

/* closes: the connection ends with this answer. */
static enum MHD_Result answer_error(server_exchange *x, const server_error *err, bool closes) {
    char text[32];
    /* Models have the same path for both. */
    const bool either = !x->route || strcmp(x->route->method, "GET") == 0;
    const server_vendor vendor = x->version && either ? SERVER_ANTHROPIC
                                 : x->route           ? x->route->vendor
                                                      : server_path_vendor(x->path);
    json_t *json = server_error_json(err, vendor, x->id);
    char *body = server_json_dump(json);
    json_decref(json);
    if (!body) return MHD_NO;
    x->status = err->status;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(body), body, MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    (void)snprintf(text, sizeof text, "%u", err->retry_seconds);
    if (err->retry_seconds) (void)MHD_add_response_header(response, "Retry-After", text);
    /* What fails for a reason of its own fails again. */
    if (err->status == 500) (void)MHD_add_response_header(response, "X-Should-Retry", "false");
    if (x->allowed[0]) (void)MHD_add_response_header(response, "Allow", x->allowed);
    if (err->status == 401) (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (closes) (void)MHD_add_response_header(response, "Connection", "close");
    return queue(x, response);
}

static enum MHD_Result answer_text(server_exchange *x, const server_reply *reply) {
    const char *known = header(x->connection, "If-None-Match");
    const bool same = reply->etag && known && strcmp(known, reply->etag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        same ? 0 : reply->bytes, reply->text,
        reply->constant ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    if (same) x->status = 304;
    (void)MHD_add_response_header(response, "Content-Type", reply->type);
    if (reply->etag) {
        (void)MHD_add_response_header(response, "ETag", reply->etag);
        (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
        (void)MHD_add_response_header(response, "Content-Security-Policy",
                                      "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
                                      "form-action 'none'; frame-ancestors 'none'");
        (void)MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    }
    return queue(x, response);
}

static ssize_t read_stream(void *ctx, uint64_t position, char *out, size_t capacity) {
    (void)position;
    const long count = server_stream_read(ctx, out, capacity);
    if (count > 0) return count;
    return count == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static enum MHD_Result answer_stream(server_exchange *x) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, SEND_BYTES, read_stream, x, NULL);
    if (!response) return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", "text/event-stream; charset=utf-8");
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    return queue(x, response);
}

static enum MHD_Result answer(server_exchange *x, server_reply *reply) {
    x->status = reply->status ? reply->status : 200;
    if (reply->streams) return answer_stream(x);
    if (!reply->json && !reply->text) {
        server_error err;
        (void)server_refuse(&err, 500, NULL, "no memory for the response");
        return answer_error(x, &err, false);
    }
    if (!reply->json) return answer_text(x, reply);
    reply->text = server_json_dump(reply->json);
    json_decref(reply->json);
    if (!reply->text) return MHD_NO;
    reply->bytes = strlen(reply->text);
    reply->type = "application/json";
    return answer_text(x, reply);
}

static enum MHD_Result handle(server_exchange *x) {
    server_reply reply = {0};
    server_error err = {0};
    if (x->refused) return answer_error(x, &x->refusal, false);
    if (strcmp(x->method, "OPTIONS") == 0) {
        reply = (server_reply){.text = "", .constant = true, .type = "text/plain", .status = 204};
        return answer(x, &reply);
    }
    /* Computing may take longer than a client may be silent. */
    (void)MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    const bool good = x->route->handle(x, &reply, &err);
    (void)MHD_set_connection_option(x->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                    (unsigned)x->server->options.idle_seconds);
    return good ? answer(x, &reply) : answer_error(x, &err, false);
}

/* ---- Callbacks ---- */

static server_exchange *begin_exchange(server_http *http, struct MHD_Connection *connection,
                                       const char *method) {
    server_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    x->server = http->server;
    x->connection = connection;
    x->begun = server_seconds();
    x->version = header(connection, "Anthropic-Version");
    (void)snprintf(x->method, sizeof x->method, "%s", method);
    for (char *at = x->method; *at; at++) /* it is printed */
        if (!isupper((unsigned char)*at)) *at = '?';
    server_random_id("req_", x->id, sizeof x->id);
    atomic_fetch_add(&http->exchanges, 1);
    return x;
}

static void forget_body(server_http *http, server_exchange *x) {
    atomic_fetch_sub(&http->body_bytes, x->body_bytes);
    x->body_bytes = 0;
    server_text_free(&x->body);
}

/* A request can only be answered after its body, of which the rest is skipped then.  false: there
 * is too much of it. */
static bool take_body(server_http *http, server_exchange *x, const char *data, size_t bytes) {
    const size_t most = http->server->options.body_bytes;
    x->received += bytes;
    if (x->refused) return x->received <= 2 * most;
    x->body_bytes += bytes;
    if (x->received > most)
        x->refused = !server_refuse(&x->refusal, 413, NULL,
                                    "the body has more than %zu bytes, which are allowed", most);
    if (atomic_fetch_add(&http->body_bytes, bytes) + bytes > BODIES * most && !x->refused) {
        x->refused = !server_refuse(&x->refusal, 503, NULL,
                                    "too many large requests are computed; try again later");
        x->refusal.retry_seconds = 1;
    }
    if (!x->refused) server_text_add(&x->body, data, bytes);
    if (x->refused) forget_body(http, x);
    return !x->body.failed;
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are libmicrohttpd's */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *bytes, void **state) {
    server_http *http = ctx;
    server_exchange *x = *state;
    if (!x) {
        x = *state = begin_exchange(http, connection, method);
        if (!x) return MHD_NO;
        if (check(x, path, version, &x->refusal)) return MHD_YES;
        return answer_error(x, &x->refusal, true);
    }
    if (*bytes == 0) return handle(x);
    const bool goes_on = take_body(http, x, data, *bytes);
    *bytes = 0;
    return goes_on ? MHD_YES : MHD_NO;
}

static void print_line(const server_exchange *x) {
    char peer[64], tokens[64] = "";
    peer_name(x, peer, sizeof peer);
    if (x->job) {
        const server_result *result = &x->job->answers[0].result;
        (void)snprintf(tokens, sizeof tokens, ", %zu + %zu tokens", result->prompt_tokens,
                       result->tokens);
    }
    (void)fprintf(stderr, "%s %s %s %d, %.0f ms%s\n", peer, x->method, x->path[0] ? x->path : "?",
                  x->status, (server_seconds() - x->begun) * 1e3, tokens);
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode reason) {
    server_http *http = ctx;
    server_exchange *x = *state;
    (void)connection, (void)reason;
    if (!x) return;
    if (x->job) server_job_end(x->job); /* its result is complete then */
    if (!http->server->options.quiet) print_line(x);
    forget_body(http, x);
    server_exchange_deinit(x);
    free(x);
    *state = NULL;
    atomic_fetch_sub(&http->exchanges, 1);
}

/* Paths have no escapes that mean anything here: a % is refused. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *connection, char *text) {
    (void)ctx, (void)connection;
    return strlen(text);
}

bool server_exchange_gone(const server_exchange *x) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info) return false;
    struct pollfd fd = {.fd = info->connect_fd, .events = POLLRDHUP};
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* ---- Starting and stopping ---- */

static int try_listen(const struct addrinfo *address) {
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 512) == 0) return fd;
    (void)close(fd);
    return -1;
}

static int listen_at(const char *host, uint16_t port, sl_error *err) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char service[8];
    int fd = -1;
    (void)snprintf(service, sizeof service, "%u", port);
    err->status = SL_IO;
    const int problem = getaddrinfo(host, service, &hints, &found);
    if (problem) {
        (void)snprintf(err->message, sizeof err->message, "--host %s: %s", host,
                       gai_strerror(problem));
        return -1;
    }
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) fd = try_listen(at);
    if (fd < 0)
        (void)snprintf(err->message, sizeof err->message, "%s port %u: cannot listen: %m", host,
                       port);
    freeaddrinfo(found);
    return fd;
}

static uint16_t port_of(int fd) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    socklen_t bytes = sizeof address;
    if (getsockname(fd, &address.any, &bytes) != 0) return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

bool server_http_start(server *s, server_http **out, uint16_t *out_port, sl_error *err) {
    const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
                           MHD_USE_POLL | MHD_USE_ITC;
    const int fd = listen_at(s->options.host, s->options.port, err);
    *out = NULL;
    if (fd < 0) return false;
    server_http *http = calloc(1, sizeof *http);
    *err = (sl_error){SL_NO_MEMORY, "the HTTP server cannot be started"};
    if (!http) {
        (void)close(fd);
        return false;
    }
    http->server = s;
    *out_port = port_of(fd);
    http->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, s->options.connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)s->options.idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        http, MHD_OPTION_END);
    if (http->daemon) {
        *out = http;
        return true;
    }
    (void)close(fd);
    free(http);
    return false;
}

void server_http_quiesce(server_http *http) {
    const int fd = MHD_quiesce_daemon(http->daemon);
    if (fd >= 0) (void)close(fd);
}

uint32_t server_http_exchanges(server_http *http) {
    return atomic_load(&http->exchanges);
}

void server_http_stop(server_http *http) {
    if (!http) return;
    MHD_stop_daemon(http->daemon);
    free(http);
}
