/* json.h - JSON of clients and for clients, and a text that grows. */
#ifndef SL_APPS_SERVER_JSON_H
#define SL_APPS_SERVER_JSON_H
#include "apps/server/error.h"
#include <jansson.h>

/* A text that grows; begins as zeros.  After a lack of memory it is `failed` and takes no more. */
typedef struct {
    char *bytes; /* NUL-terminated where length > 0 */
    size_t length, capacity;
    bool failed;
} server_text;
void server_text_add(server_text *text, const char *bytes, size_t count);
void server_text_print(server_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void server_text_free(server_text *text);

/* The object that a body has; NULL after filling err.  Halves of surrogate pairs and \u0000 in
 * strings, which clients send where they cut a text, become U+FFFD, in the body too. */
json_t *server_json_parse(char *body, size_t bytes, server_error *err);
/* The value in one line, released with free; NULL without memory. */
char *server_json_dump(const json_t *value);
/* Appends the value in one line and gives up the reference; NULL is a lack of memory. */
void server_json_print(server_text *text, json_t *value);
/* A string; bytes that are no UTF-8 become U+FFFD. */
json_t *server_json_text(const char *bytes, size_t count);
/* The member, or NULL if it is missing or null. */
json_t *server_json_get(const json_t *object, const char *name);
/* The text of a string; NULL if it is something else. */
const char *server_json_string(const json_t *object, const char *name);
/* false if the member is there and is something else, after filling err. */
bool server_json_whole(const json_t *object, const char *name, int64_t least, int64_t most,
                       int64_t *out, server_error *err);
bool server_json_flag(const json_t *object, const char *name, bool *out, server_error *err);
#endif
