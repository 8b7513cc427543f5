/* page.c - The files of the page, which are part of the program (cmake/web_files.cmake). */
#include "apps/server/page.h"
#include "apps/server/server.h"
#include <string.h>

static const struct {
    const char *ending, *type;
} types[] = {{".html", "text/html; charset=utf-8"},
             {".js", "text/javascript; charset=utf-8"},
             {".css", "text/css; charset=utf-8"},
             {".svg", "image/svg+xml"},
             {".png", "image/png"},
             {".json", "application/json"}};

static const char *type_of(const char *name) {
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(dot, types[i].ending) == 0) return types[i].type;
    return "application/octet-stream";
}

static bool find(const char *name, server_reply *reply) {
    for (size_t i = 0; i < server_page_file_count; i++) {
        const server_page_file *file = &server_page_files[i];
        if (strcmp(file->name, name) != 0) continue;
        *reply = (server_reply){.type = type_of(name),
                                .text = (char *)(uintptr_t)file->bytes,
                                .bytes = file->count,
                                .constant = true,
                                .etag = file->etag};
        return true;
    }
    return false;
}

bool server_handle_page(server_exchange *x, server_reply *reply, server_error *err) {
    static char text[] =
        "sluice serves a model here.  The endpoints are described in docs/server.md.\n";
    (void)x, (void)err;
    if (!find("index.html", reply))
        *reply = (server_reply){
            .type = "text/plain", .text = text, .bytes = sizeof text - 1, .constant = true};
    return true;
}

bool server_handle_page_file(server_exchange *x, server_reply *reply, server_error *err) {
    return find(x->argument, reply) ||
           server_refuse(err, 404, NULL, "%s %.100s: there is no such endpoint", x->method,
                         x->path);
}
