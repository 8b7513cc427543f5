#include "apps/server/server.h"
#include <string.h>

static const server_route routes[] = {
#define ROUTE(METHOD, PATH, HANDLER, OPEN, VENDOR)                                                 \
    {METHOD, PATH, server_handle_##HANDLER, OPEN, VENDOR},
#include "apps/server/route.def"
};
enum { ROUTE_COUNT = sizeof routes / sizeof routes[0] };

static const char *without_version(const char *path) {
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

/* Whether a route's path is this one; the argument is what stands for {id}. */
static bool matches(const server_route *route, const char *path, char *argument, size_t capacity) {
    const char *brace = strchr(route->path, '{');
    if (!brace) return strcmp(route->path, path) == 0;
    const size_t before = (size_t)(brace - route->path);
    const char *rest = path + before;
    if (strncmp(route->path, path, before) != 0 || !*rest || strlen(rest) >= capacity) return false;
    /* Names of models may have a slash, names of files not. */
    if (before == 1 && strchr(rest, '/')) return false;
    (void)snprintf(argument, capacity, "%s", rest);
    return true;
}

server_vendor server_path_vendor(const char *path) {
    return strncmp(without_version(path), "/messages", 9) == 0 ? SERVER_ANTHROPIC : SERVER_OPENAI;
}

/* The route of files of the page, which is the last one and matches every name. */
static bool is_file(const server_route *route) {
    return strcmp(route->path, "/{id}") == 0;
}

bool server_route_methods(const char *path, char *out, size_t capacity) {
    char argument[sizeof((server_exchange *)0)->argument];
    size_t length = 0;
    out[0] = '\0';
    path = without_version(path);
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        if (is_file(&routes[i]) || !matches(&routes[i], path, argument, sizeof argument)) continue;
        const int added =
            snprintf(out + length, capacity - length, "%s%s", length ? ", " : "", routes[i].method);
        length += added > 0 && (size_t)added < capacity - length ? (size_t)added : 0;
    }
    return length > 0;
}

const server_route *server_route_find(const char *method, const char *path, char *argument,
                                      size_t capacity, server_error *err) {
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    char methods[32];
    const bool known = server_route_methods(path, methods, sizeof methods);
    const char *rest = without_version(path);
    argument[0] = '\0';
    for (size_t i = 0; i < ROUTE_COUNT; i++)
        if (matches(&routes[i], rest, argument, capacity) &&
            strcmp(routes[i].method, wanted) == 0 && !(known && is_file(&routes[i])))
            return &routes[i];
    if (known)
        (void)server_refuse(err, 405, NULL, "%s %.100s: this method is not allowed", method, path);
    else
        (void)server_refuse(err, 404, NULL, "%s %.100s: there is no such endpoint", method, path);
    return NULL;
}
