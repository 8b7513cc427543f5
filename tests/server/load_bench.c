/* load_bench.c - What a server of the OpenAI chat API bears: requests per second, time to the first
 * token and between tokens, its memory.
 *
 *   load_bench PORT CLIENTS REQUESTS [TOKENS [PID]]
 *
 * CLIENTS connections to 127.0.0.1:PORT are kept open; each sends a streamed request, reads the
 * answer to its end, and sends the next one, until REQUESTS were sent.  An answer has at most
 * TOKENS tokens (default 32).  With the PID of the server, its resident memory is read every
 * second. Prompts are sums of random numbers, so that no two answers need be the same. */
#include "base/clock.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CLIENTS = 1024, LINE_BYTES = 1 << 16, MOST_STATUS = 600 };

/* Where a reader of an HTTP answer stands. */
typedef enum { STATUS, HEADERS, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER, BODY } place;

typedef struct {
    int fd;
    bool busy;
    place at;
    int status;
    bool chunked;
    size_t left;                              /* bytes of a chunk or of a body */
    char line[LINE_BYTES], event[LINE_BYTES]; /* of HTTP, of the event stream */
    size_t line_bytes, event_bytes;
    bool finished, failed; /* the stream said so */
    size_t tokens;
    double sent, last;
} client;

/* Times, sorted when they are printed. */
typedef struct {
    double *items;
    size_t count, capacity;
} times;

static struct {
    int port, most_tokens;
    long requests, sent, done, incomplete, errors, by_status[MOST_STATUS];
    size_t tokens;
    times first, between, whole;
    uint64_t random;
    int epoll;
    client *clients;
} bench = {.random = 88172645463325252u, .most_tokens = 32};

static void add_time(times *t, double seconds) {
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 4096;
        t->items = realloc(t->items, t->capacity * sizeof *t->items);
        if (!t->items) abort();
    }
    t->items[t->count++] = seconds;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_times(const char *name, times *t) {
    if (t->count == 0) return;
    qsort(t->items, t->count, sizeof *t->items, compare);
    printf("  %-28s p50 %9.2f ms  p99 %9.2f ms  max %9.2f ms\n", name, t->items[t->count / 2] * 1e3,
           t->items[t->count * 99 / 100] * 1e3, t->items[t->count - 1] * 1e3);
}

static unsigned draw(unsigned below) {
    bench.random ^= bench.random << 13;
    bench.random ^= bench.random >> 7;
    bench.random ^= bench.random << 17;
    return (unsigned)(bench.random >> 33) % below;
}

/* ---- sending ---- */

static void connect_client(client *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)bench.port)};
    const int on = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0) {
        fprintf(stderr, "load_bench: port %d: %s\n", bench.port, strerror(errno));
        exit(1);
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    (void)epoll_ctl(bench.epoll, EPOLL_CTL_ADD, c->fd, &event);
}

static void send_request(client *c) {
    char body[512], request[1024];
    const int body_bytes = snprintf(
        body, sizeof body,
        "{\"model\":\"default\",\"stream\":true,\"max_tokens\":%d,\"temperature\":0.8,\"seed\":%u,"
        "\"messages\":[{\"role\":\"user\",\"content\":\"What is %u + %u?\"}]}",
        bench.most_tokens, draw(1u << 30), draw(100), draw(100));
    const int bytes = snprintf(request, sizeof request,
                               "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                               "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                               bench.port, body_bytes, body);
    c->at = STATUS;
    c->chunked = c->finished = c->failed = false;
    c->left = c->line_bytes = c->event_bytes = c->tokens = 0;
    c->status = 0;
    c->busy = true;
    c->sent = c->last = sl_clock_seconds();
    bench.sent++;
    if (send(c->fd, request, (size_t)bytes, MSG_NOSIGNAL) != bytes) c->failed = true;
}

/* ---- reading ---- */

/* A line of the event stream; one that carries text is a token. */
static void take_event(client *c, char *line) {
    static const char *const marks[] = {"\"content\":\"", "\"reasoning_content\":\"",
                                        "\"content\": \"", "\"arguments\":\""};
    bool text = false;
    if (strncmp(line, "data:", 5) != 0) return;
    if (strstr(line, "[DONE]")) c->finished = true;
    if (strstr(line, "\"error\":{")) c->failed = true;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(line, marks[i]);
        text |= at && at[strlen(marks[i])] != '"';
    }
    if (!text) return;
    const double now = sl_clock_seconds();
    add_time(c->tokens ? &bench.between : &bench.first, now - (c->tokens ? c->last : c->sent));
    c->last = now;
    c->tokens++;
}

static void take_text(client *c, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n') {
            if (c->event_bytes + 1 < sizeof c->event) c->event[c->event_bytes++] = text[i];
            continue;
        }
        c->event[c->event_bytes] = '\0';
        take_event(c, c->event);
        c->event_bytes = 0;
    }
}

static void end_answer(client *c) {
    c->busy = false;
    bench.done++;
    bench.tokens += c->tokens;
    bench.by_status[c->status < MOST_STATUS && c->status > 0 ? c->status : 0]++;
    bench.errors += c->failed || c->status != 200;
    bench.incomplete += c->status == 200 && !c->failed && !c->finished;
    add_time(&bench.whole, sl_clock_seconds() - c->sent);
}

static void take_header(client *c) {
    char *line = c->line;
    for (char *p = line; *p; p++) *p = (char)tolower((unsigned char)*p);
    if (c->at == STATUS) {
        const char *code = strchr(line, ' ');
        c->status = code ? atoi(code) : 0;
        c->at = HEADERS;
    } else if (*line == '\0') {
        c->at = c->status == 100 ? STATUS : c->chunked ? CHUNK_SIZE : BODY;
        if (c->at == BODY && c->left == 0) end_answer(c);
    } else if (strncmp(line, "content-length:", 15) == 0) {
        c->left = strtoul(line + 15, NULL, 10);
    } else if (strncmp(line, "transfer-encoding:", 18) == 0) {
        c->chunked = strstr(line, "chunked") != NULL;
    }
}

/* A line of the protocol is complete. */
static void take_line(client *c) {
    switch (c->at) {
    case STATUS:
    case HEADERS:
        take_header(c);
        break;
    case CHUNK_SIZE:
        c->left = strtoul(c->line, NULL, 16);
        c->at = c->left ? CHUNK : TRAILER;
        break;
    case CHUNK_END:
        c->at = CHUNK_SIZE;
        break;
    case TRAILER:
        if (c->line[0] == '\0') end_answer(c);
        break;
    case CHUNK:
    case BODY:
        break;
    }
}

static void take_bytes(client *c, const char *bytes, size_t count) {
    while (count && c->busy) {
        if (c->at == CHUNK || c->at == BODY) {
            const size_t now = count < c->left ? count : c->left;
            take_text(c, bytes, now);
            bytes += now;
            count -= now;
            c->left -= now;
            if (c->left == 0 && c->at == BODY) end_answer(c);
            if (c->left == 0) c->at = CHUNK_END;
            continue;
        }
        const char byte = *bytes++;
        count--;
        if (byte == '\n') {
            c->line[c->line_bytes] = '\0';
            c->line_bytes = 0;
            take_line(c);
        } else if (byte != '\r' && c->line_bytes + 1 < sizeof c->line)
            c->line[c->line_bytes++] = byte;
    }
}

/* ---- the run ---- */

static void begin_next(client *c) {
    if (bench.sent < bench.requests) send_request(c);
}

static void read_client(client *c) {
    static char bytes[1 << 16];
    const ssize_t count = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) { /* it closed the connection */
        const bool unanswered = c->busy && c->at == STATUS && c->line_bytes == 0;
        close(c->fd);
        if (unanswered) { /* as servers may between two requests: sent again */
            c->busy = false;
            bench.sent--;
        } else if (c->busy) {
            c->failed = true;
            end_answer(c);
        }
        connect_client(c);
    } else
        take_bytes(c, bytes, (size_t)count);
    if (!c->busy) begin_next(c);
}

static double resident_mb(long pid) {
    char path[64], line[256];
    double mb = 0;
    (void)snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *file = pid ? fopen(path, "r") : NULL;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS:", 6) == 0) mb = atof(line + 6) / 1024;
    if (file) fclose(file);
    return mb;
}

static void run(int clients, long pid) {
    struct epoll_event events[256];
    double least = 1e18, most = 0, looked = 0;
    const double start = sl_clock_seconds();
    for (int i = 0; i < clients; i++) {
        connect_client(&bench.clients[i]);
        begin_next(&bench.clients[i]);
    }
    while (bench.done < bench.requests) {
        const int count = epoll_wait(bench.epoll, events, 256, 1000);
        for (int i = 0; i < count; i++) read_client(events[i].data.ptr);
        const double now = sl_clock_seconds();
        if (pid && now - looked > 1) {
            const double mb = resident_mb(pid);
            looked = now;
            least = mb < least ? mb : least;
            most = mb > most ? mb : most;
        }
    }
    const double seconds = sl_clock_seconds() - start;
    printf("%d clients, %ld requests in %.2f s: %.1f requests/s, %.0f tokens/s\n", clients,
           bench.done, seconds, (double)bench.done / seconds, (double)bench.tokens / seconds);
    print_times("to the first token", &bench.first);
    print_times("between tokens", &bench.between);
    print_times("whole answer", &bench.whole);
    printf("  errors %ld, streams without an end %ld; status", bench.errors, bench.incomplete);
    for (int i = 0; i < MOST_STATUS; i++)
        if (bench.by_status[i]) printf(" %d: %ld", i, bench.by_status[i]);
    printf("\n");
    if (pid) printf("  resident memory of the server %.1f to %.1f MB\n", least, most);
}

int main(int argc, char **argv) {
    const int clients = argc > 2 ? atoi(argv[2]) : 0;
    bench.requests = argc > 3 ? atol(argv[3]) : 0;
    if (clients < 1 || clients > MOST_CLIENTS || bench.requests < 1) {
        fprintf(stderr, "usage: load_bench PORT CLIENTS REQUESTS [TOKENS [PID]]\n");
        return 2;
    }
    bench.port = atoi(argv[1]);
    if (argc > 4) bench.most_tokens = atoi(argv[4]);
    bench.epoll = epoll_create1(EPOLL_CLOEXEC);
    bench.clients = calloc((size_t)clients, sizeof *bench.clients);
    if (bench.epoll < 0 || !bench.clients) return 1;
    run(clients, argc > 5 ? atol(argv[5]) : 0);
    for (int i = 0; i < clients; i++) close(bench.clients[i].fd);
    close(bench.epoll);
    free(bench.clients);
    free(bench.first.items);
    free(bench.between.items);
    free(bench.whole.items);
    return bench.errors || bench.incomplete ? 1 : 0;
}
