/* grammars.c - The grammar that the answer to a request follows.
 *
 * Where a call is required, or there are tools beside a schema, the answer is JSON of one of
 * several schemas: a call is {"name": ..., "parameters": {...}}, which the message family "json"
 * reads. */
#include "apps/server/engine.h"
#include <stdlib.h>
#include <string.h>

/* A copy of a schema that stands at `place` of another: its references to itself begin there. */
static json_t *moved(const json_t *schema, const char *place) {
    json_t *copy, *value;
    const char *key;
    size_t index;
    if (json_is_array(schema)) {
        copy = json_array();
        json_array_foreach(schema, index, value) {
            (void)json_array_append_new(copy, moved(value, place));
        }
        return copy;
    }
    if (!json_is_object(schema)) return json_incref((json_t *)schema);
    copy = json_object();
    json_object_foreach((json_t *)schema, key, value) {
        const char *text = json_string_value(value);
        const bool own = text && strcmp(key, "$ref") == 0 && text[0] == '#';
        (void)json_object_set_new(
            copy, key, own ? json_sprintf("#%s%s", place, text + 1) : moved(value, place));
    }
    return copy;
}

/* Puts a schema into the definitions and returns a reference to it. */
static json_t *define(json_t *definitions, const json_t *schema) {
    char name[32], place[64];
    (void)snprintf(name, sizeof name, "s%zu", json_object_size(definitions));
    (void)snprintf(place, sizeof place, "/$defs/%s", name);
    (void)json_object_set_new(definitions, name, moved(schema, place));
    return json_pack("{s:o}", "$ref", json_sprintf("#%s", place));
}

static json_t *call_schema(json_t *definitions, const json_t *function) {
    json_t *parameters = define(definitions, json_object_get(function, "parameters"));
    return json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                     "name", "const", json_object_get(function, "name"), "parameters", parameters,
                     "required", "name", "parameters", "additionalProperties", 0);
}

/* One of the tools that may be called, or the answer's own schema if there is one. */
static json_t *alternatives(const server_request *r) {
    json_t *definitions = json_object(), *any = json_array();
    size_t index;
    const json_t *tool;
    if (r->schema && r->choice == SERVER_TOOLS_AUTO)
        (void)json_array_append_new(any, define(definitions, r->schema));
    json_array_foreach(r->tools, index, tool) {
        const json_t *function = json_object_get(tool, "function");
        if (r->tool && strcmp(r->tool, server_json_string(function, "name")) != 0) continue;
        (void)json_array_append_new(any, call_schema(definitions, function));
    }
    return json_pack("{s:o, s:o}", "$defs", definitions, "anyOf", any);
}

static bool compile_schema(server_model *model, const json_t *schema, const char *param,
                           sl_grammar **out, server_error *err) {
    sl_error cause;
    char *text = server_json_dump(schema);
    if (!text) return server_refuse(err, 500, NULL, "no memory for the schema");
    const bool good = server_model_grammar(model, SL_GRAMMAR_JSON_SCHEMA, text, out, &cause);
    free(text);
    return good || server_refuse_status(err, &cause, param);
}

bool server_grammar_of(server_model *model, const server_request *r, sl_grammar **out,
                       server_error *err) {
    const bool tools = r->tools && r->choice != SERVER_TOOLS_NONE;
    sl_error cause;
    *out = NULL;
    if (r->grammar)
        return server_model_grammar(model, r->kind, r->grammar, out, &cause) ||
               server_refuse_status(err, &cause, "grammar");
    if (!tools || (r->choice == SERVER_TOOLS_AUTO && !r->schema))
        return !r->schema || compile_schema(model, r->schema, "schema", out, err);
    if (strcmp(model->family, "harmony") == 0)
        return server_refuse(err, 400, "tool_choice",
                             "this model writes calls in a form that cannot be required, or "
                             "combined with a schema");
    json_t *schema = alternatives(r);
    const bool good = compile_schema(model, schema, "tools", out, err);
    json_decref(schema);
    return good;
}
