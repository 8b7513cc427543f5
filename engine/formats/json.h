/* json.h - Parsing of untrusted JSON, and shapes as JSON. */
#ifndef SL_ENGINE_FORMATS_JSON_H
#define SL_ENGINE_FORMATS_JSON_H
#include "core/type.h"
#include <jansson.h>

typedef enum {
    SL_JSON_UNIQUE_KEYS = 1, /* duplicate keys are errors; else the last one counts */
    SL_JSON_ALL_REAL = 2,    /* integers become reals, whatever their size */
    SL_JSON_ALLOW_NUL = 4,   /* strings (keys not) may have a NUL character */
} sl_json_flags;
typedef struct {
    size_t position;  /* byte at which parsing stopped */
    const char *text; /* what was wrong there */
    bool no_memory;
} sl_json_problem;
/* Parses an array or an object; NULL after writing what is wrong. */
json_t *sl_json_parse(const char *text, size_t bytes, unsigned flags, sl_json_problem *problem);
/* The problem as an error; what names the text of so many bytes. */
SL_CHECKED sl_status sl_json_refuse(const char *what, size_t bytes, const sl_json_problem *problem,
                                    sl_error *err);

/* Parses a JSON object; duplicate keys are errors.  what names the text in messages. */
SL_CHECKED sl_status sl_json_load(const char *what, const char *text, size_t bytes, json_t **out,
                                  sl_error *err);

/* Appends value, or sets it under a key; value is taken over.  Without memory, or if value is NULL,
 * the array or object is released and *array is NULL: what is appended to or packed with NULL is
 * NULL again, so that it is enough to check the last result. */
void sl_json_append(json_t **array, json_t *value);
void sl_json_set(json_t **object, const char *key, json_t *value);

/* The value as text, released with free; NULL without memory.  (json_dumps leaves out keys when its
 * buffer cannot grow.) */
char *sl_json_dump(const json_t *value, size_t flags);

/* Reads an array of at most SL_MAX_RANK integers.  The caller must check their signs. */
SL_CHECKED sl_status sl_json_dims(const char *what, const json_t *array, sl_dims *out,
                                  sl_error *err);

/* The reverse, as a new array; NULL if out of memory. */
json_t *sl_json_of_dims(const sl_dims *dims);

/* False if a name is empty or has control characters, which would garble a message. */
bool sl_json_name_fits(const char *name);
#endif
