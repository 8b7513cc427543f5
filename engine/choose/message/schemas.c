#include "engine/choose/message/schemas.h"
#include "base/memory.h"
#include "engine/formats/json.h"
#include <string.h>

/* Of one parameter: schemas that are larger are known in part. */
enum { MOST_DEPTH = 8, MOST_NODES = 256 };

sl_status sl_schemas_create(const char *tools_json, json_t **out, sl_error *err) {
    *out = NULL;
    if (!tools_json) return SL_OK;
    sl_json_problem problem;
    const size_t bytes = strlen(tools_json);
    json_t *tools = sl_json_parse(tools_json, bytes, SL_JSON_ALLOW_NUL, &problem), *tool;
    if (!tools) return sl_json_refuse("tools", bytes, &problem, err);
    if (!json_is_array(tools)) {
        json_decref(tools);
        return sl_fail(err, SL_INVALID, "tools are an object, wanted a list");
    }
    json_t *schemas = json_object();
    size_t i;
    json_array_foreach(tools, i, tool) {
        json_t *function = json_object_get(tool, "function");
        if (!function) function = tool; /* the flat form */
        const char *name = json_string_value(json_object_get(function, "name"));
        json_t *schema = json_object_get(function, "parameters");
        if (!schema) schema = json_object_get(function, "input_schema");
        if (name)
            sl_json_set(&schemas, name,
                        json_is_object(schema) ? json_incref(schema) : json_object());
    }
    json_decref(tools);
    *out = schemas;
    return schemas ? SL_OK : sl_no_memory(err, "tools", bytes);
}

typedef struct {
    const json_t *root;
    unsigned types, left; /* nodes that may be looked at */
} search;

static unsigned type_named(const char *name) {
    if (strcmp(name, "string") == 0) return SL_TYPE_STRING;
    if (strcmp(name, "null") == 0) return SL_TYPE_NULL;
    return strcmp(name, "boolean") == 0 ? SL_TYPE_BOOLEAN : SL_TYPE_OTHER;
}

static unsigned type_of(const json_t *value) {
    if (json_is_string(value)) return SL_TYPE_STRING;
    if (json_is_null(value)) return SL_TYPE_NULL;
    return json_is_boolean(value) ? SL_TYPE_BOOLEAN : SL_TYPE_OTHER;
}

/* What "#/$defs/name" points to, or NULL. */
static const json_t *resolve(const json_t *root, const char *pointer) {
    const json_t *at = root;
    if (strncmp(pointer, "#/", 2) != 0) return NULL;
    for (const char *part = pointer + 1; at && *part == '/';) {
        char key[256];
        const size_t bytes = strcspn(++part, "/");
        if (bytes >= sizeof key) return NULL;
        memcpy(key, part, bytes);
        key[bytes] = '\0';
        at = json_object_get(at, key);
        part += bytes;
    }
    return at;
}

static void collect(search *s, const json_t *schema, int depth);

static void collect_each(search *s, const json_t *list, int depth) {
    for (size_t i = 0; i < json_array_size(list); i++) collect(s, json_array_get(list, i), depth);
}

static void collect_values(search *s, const json_t *schema) {
    const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
    const json_t *constant = json_object_get(schema, "const");
    if (json_is_string(type)) s->types |= type_named(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type) && i < MOST_NODES; i++) {
        const char *name = json_string_value(json_array_get(type, i));
        if (name) s->types |= type_named(name);
    }
    if (type) return;
    if (constant) s->types |= type_of(constant);
    for (size_t i = 0; i < json_array_size(values) && i < MOST_NODES; i++)
        s->types |= type_of(json_array_get(values, i));
}

static void collect(search *s, const json_t *schema, int depth) {
    if (!json_is_object(schema) || depth == MOST_DEPTH || s->left == 0) return;
    s->left--;
    collect_values(s, schema);
    const char *pointer = json_string_value(json_object_get(schema, "$ref"));
    if (pointer) collect(s, resolve(s->root, pointer), depth + 1);
    collect_each(s, json_object_get(schema, "anyOf"), depth + 1);
    collect_each(s, json_object_get(schema, "oneOf"), depth + 1);
    collect_each(s, json_object_get(schema, "allOf"), depth + 1);
}

unsigned sl_schemas_types(const json_t *schemas, const char *tool, const char *parameter) {
    const json_t *root = json_object_get(schemas, tool);
    search s = {.root = root, .left = MOST_NODES};
    collect(&s, json_object_get(json_object_get(root, "properties"), parameter), 0);
    return s.types;
}
