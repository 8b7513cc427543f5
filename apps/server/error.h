/* error.h - Why a request is refused, in the forms of both vendors. */
#ifndef SL_APPS_SERVER_ERROR_H
#define SL_APPS_SERVER_ERROR_H
#include "sluice/status.h"
#include <jansson.h>
#include <stdbool.h>

typedef enum { SERVER_OPENAI, SERVER_ANTHROPIC } server_vendor;

typedef struct {
    int status;       /* of HTTP */
    const char *code; /* of OpenAI's form, constant; NULL: none */
    char param[64];   /* the field that is wrong; "": none */
    char message[512];
    uint32_t retry_seconds; /* 0: it is not said when to try again */
} server_error;

/* Fills in the error and returns false.  param: NULL for none. */
bool server_refuse(server_error *err, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same from an error of the library: what the request caused is 400, anything else 500. */
bool server_refuse_status(server_error *err, const sl_error *cause, const char *param);
/* The body of a response; NULL without memory. */
json_t *server_error_json(const server_error *err, server_vendor vendor, const char *request_id);
#endif
