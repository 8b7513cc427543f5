/* json.h - Parsing of untrusted JSON, and shapes as JSON. */
#ifndef SL_ENGINE_FORMATS_JSON_H
#define SL_ENGINE_FORMATS_JSON_H
#include "core/type.h"
#include <jansson.h>

/* Parses a JSON object; duplicate keys are errors.  what names the text in messages. */
SL_CHECKED sl_status sl_json_load(const char *what, const char *text, size_t bytes, json_t **out,
                                  sl_error *err);

/* Reads an array of at most SL_MAX_RANK integers.  The caller must check their signs. */
SL_CHECKED sl_status sl_json_dims(const char *what, const json_t *array, sl_dims *out,
                                  sl_error *err);

/* The reverse, as a new array; NULL if out of memory. */
json_t *sl_json_of_dims(const sl_dims *dims);

/* False if a name is empty or has control characters, which would garble a message. */
bool sl_json_name_fits(const char *name);
#endif
