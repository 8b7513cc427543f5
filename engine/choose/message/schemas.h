/* schemas.h - The types of parameters, from the schemas of the tools that a model was offered. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_SCHEMAS_H
#define SL_ENGINE_CHOOSE_MESSAGE_SCHEMAS_H
#include "base/error.h"
#include <jansson.h>
#include <stdbool.h>

typedef enum {
    SL_TYPE_STRING = 1,
    SL_TYPE_NULL = 2,
    SL_TYPE_BOOLEAN = 4,
    SL_TYPE_OTHER = 8, /* numbers, arrays, objects */
} sl_schema_type;

/* An object with the schema of each tool's arguments by its name; NULL if tools_json is. */
SL_CHECKED sl_status sl_schemas_create(const char *tools_json, json_t **out, sl_error *err);
/* The types that a parameter may have, together; 0: nothing is known. */
unsigned sl_schemas_types(const json_t *schemas, const char *tool, const char *parameter);
#endif
