#include "apps/server/error.h"
#include "apps/server/json.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int status;
    const char *openai, *anthropic;
} types[] = {
    {400, "invalid_request_error", "invalid_request_error"},
    {401, "invalid_request_error", "authentication_error"},
    {403, "permission_error", "permission_error"},
    {404, "invalid_request_error", "not_found_error"},
    {405, "invalid_request_error", "invalid_request_error"},
    {413, "invalid_request_error", "request_too_large"},
    {415, "invalid_request_error", "invalid_request_error"},
    {429, "rate_limit_exceeded", "rate_limit_error"},
    {500, "server_error", "api_error"},
    {503, "unavailable_error", "overloaded_error"},
};

static const char *type_of(int status, server_vendor vendor) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].status == status)
            return vendor == SERVER_OPENAI ? types[i].openai : types[i].anthropic;
    return vendor == SERVER_OPENAI ? "server_error" : "api_error";
}

bool server_refuse(server_error *err, int status, const char *param, const char *format, ...) {
    va_list args;
    *err = (server_error){.status = status};
    if (param) (void)snprintf(err->param, sizeof err->param, "%s", param);
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return false;
}

bool server_refuse_status(server_error *err, const sl_error *cause, const char *param) {
    const bool callers = cause->status == SL_INVALID || cause->status == SL_FORMAT ||
                         cause->status == SL_UNSUPPORTED;
    return server_refuse(err, callers ? 400 : 500, param, "%s", cause->message);
}

/* A message may hold what a client sent, cut anywhere. */
static json_t *message_of(const server_error *err) {
    return server_json_text(err->message, strlen(err->message));
}

json_t *server_error_json(const server_error *err, server_vendor vendor, const char *request_id) {
    const char *type = type_of(err->status, vendor);
    if (vendor == SERVER_ANTHROPIC)
        return json_pack("{s:s, s:{s:s, s:o}, s:s}", "type", "error", "error", "type", type,
                         "message", message_of(err), "request_id", request_id);
    return json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", message_of(err), "type",
                     type, "param", err->param[0] ? err->param : NULL, "code", err->code);
}
