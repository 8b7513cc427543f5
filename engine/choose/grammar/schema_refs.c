/* schema_refs.c - References inside a schema: JSON pointers, anchors and ids. */
#include "engine/choose/grammar/schema_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 500, MAX_POINTER = 400 };

/* A schema and the one with an $id that it belongs to. */
typedef struct resource {
    const json_t *schema, *base;
    const char *anchor; /* NULL: the schema is a base itself, with an id */
    const char *id;
    struct resource *next;
} resource;

static bool find(const json_t *at, const json_t *wanted, char *path, size_t used, unsigned depth) {
    const char *key;
    const json_t *value;
    size_t index;
    if (at == wanted) return true;
    if (depth > MAX_DEPTH) return false;
    path[used] = 0;
    if (json_is_object(at)) {
        json_object_foreach((json_t *)(uintptr_t)at, key, value) {
            if (used + strlen(key) + 2 > MAX_POINTER) continue;
            const int length = snprintf(path + used, MAX_POINTER - used, "/%s", key);
            if (find(value, wanted, path, used + (size_t)length, depth + 1)) return true;
        }
    }
    json_array_foreach(at, index, value) {
        if (used + 12 > MAX_POINTER) return false;
        const int length = snprintf(path + used, MAX_POINTER - used, "/%zu", index);
        if (find(value, wanted, path, used + (size_t)length, depth + 1)) return true;
    }
    path[used] = 0;
    return false;
}

sl_status sl_schema_refuse(compiler *c, const json_t *where, const char *keyword, const char *why) {
    char path[MAX_POINTER + 1] = "";
    if (where) (void)find(c->root, where, path, 0, 0);
    return sl_fail(c->err, SL_UNSUPPORTED, "JSON schema, #%s/%s: %s", path, keyword, why);
}

static sl_status add(compiler *c, const resource *r) {
    resource *made = SL_ARENA_NEW(&c->arena, resource);
    if (!made) return sl_no_memory(c->err, "a JSON schema", sizeof *made);
    *made = *r;
    made->next = c->resources;
    c->resources = made;
    return SL_OK;
}

static sl_status collect(compiler *c, const json_t *at, const json_t *base, unsigned depth) {
    static const char *const names[] = {"$id", "id", "$anchor"};
    const char *key;
    const json_t *value;
    size_t index;
    if (depth > MAX_DEPTH)
        return sl_fail(c->err, SL_UNSUPPORTED, "JSON schema: nested more than %d deep", MAX_DEPTH);
    for (unsigned i = 0; i < 3; i++) {
        const char *id = json_string_value(json_object_get(at, names[i]));
        if (!id || at == c->root) continue;
        const bool anchors = i == 2 || id[0] == '#';
        if (!anchors) base = at;
        SL_TRY(add(c, &(resource){at, base, anchors ? id + (i != 2) : NULL, id, NULL}));
    }
    if (base == at) SL_TRY(add(c, &(resource){at, base, NULL, NULL, NULL}));
    if (json_is_object(at)) {
        json_object_foreach((json_t *)(uintptr_t)at, key, value) {
            if (strcmp(key, "enum") == 0 || strcmp(key, "const") == 0) continue;
            SL_TRY(collect(c, value, base, depth + 1));
        }
    }
    json_array_foreach(at, index, value) SL_TRY(collect(c, value, base, depth + 1));
    if (base != c->root && json_is_object(json_object_get(at, "$ref")) == 0 &&
        json_object_get(at, "$ref"))
        SL_TRY(add(c, &(resource){at, base, "", NULL, NULL}));
    return SL_OK;
}

sl_status sl_schema_collect(compiler *c) {
    return collect(c, c->root, c->root, 0);
}

static const json_t *base_of(const compiler *c, const json_t *schema) {
    for (const resource *r = c->resources; r; r = r->next)
        if (r->schema == schema && r->base) return r->base;
    return c->root;
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One part of a JSON pointer, decoded into out; returns what follows. */
static const char *take_part(const char *text, char *out) {
    while (*text && *text != '/') {
        if (text[0] == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
            *out = (char)(hex(text[1]) * 16 + hex(text[2]));
            text += 3;
        } else {
            *out = *text++;
        }
        if (*out == '~' && (*text == '0' || *text == '1')) *out = *text++ == '0' ? '~' : '/';
        out++;
    }
    *out = 0;
    return text;
}

static const json_t *follow(const json_t *at, const char *pointer, char *part) {
    while (at && *pointer == '/') {
        pointer = take_part(pointer + 1, part);
        if (json_is_object(at)) {
            at = json_object_get(at, part);
        } else {
            char *end;
            const unsigned long index = strtoul(part, &end, 10);
            at = *part && !*end ? json_array_get(at, index) : NULL;
        }
    }
    return *pointer ? NULL : at;
}

/* The part of an id after its last slash, with which relative references are compared. */
static const char *last_part(const char *id) {
    const char *slash = strrchr(id, '/');
    return slash ? slash + 1 : id;
}

static const json_t *find_base(const compiler *c, const json_t *base, const char *id,
                               size_t length) {
    const char *own = json_string_value(json_object_get(c->root, "$id"));
    if (!own) own = json_string_value(json_object_get(c->root, "id"));
    if (!length) return base;
    if (own && (strlen(own) == length || own[length] == '#') && strncmp(own, id, length) == 0)
        return c->root;
    const json_t *found = NULL;
    for (const resource *r = c->resources; r; r = r->next) {
        if (r->anchor || !r->id) continue;
        const bool absolute = strncmp(id, "http", 4) == 0 || strncmp(id, "urn:", 4) == 0;
        const char *other = absolute ? r->id : last_part(r->id);
        if (strlen(other) != length || strncmp(other, id, length) != 0) continue;
        if (found && found != r->schema) return NULL; /* ambiguous */
        found = r->schema;
    }
    return found;
}

static const json_t *find_anchor(const compiler *c, const json_t *base, const char *anchor) {
    for (const resource *r = c->resources; r; r = r->next)
        if (r->anchor && *r->anchor && r->base == base && strcmp(r->anchor, anchor) == 0)
            return r->schema;
    return NULL;
}

sl_status sl_schema_resolve(compiler *c, const json_t *schema, const json_t **out) {
    const json_t *ref = json_object_get(schema, "$ref");
    const char *text = json_string_value(ref);
    if (!text) return sl_schema_refuse(c, schema, "$ref", "not a text");
    const char *fragment = strchr(text, '#');
    const size_t length = fragment ? (size_t)(fragment - text) : strlen(text);
    const json_t *base = find_base(c, base_of(c, schema), text, length);
    char *part = sl_arena_alloc(&c->arena, strlen(text) + 1, 1);
    if (!part) return sl_no_memory(c->err, "a JSON schema", strlen(text));
    *out = base;
    if (base && fragment && fragment[1] == '/')
        *out = follow(base, fragment + 1, part);
    else if (base && fragment && fragment[1])
        *out = find_anchor(c, base, fragment + 1);
    if (json_is_object(*out) || json_is_boolean(*out)) return SL_OK;
    return sl_schema_refuse(c, schema, "$ref",
                            *out ? "its target is no schema" : "its target is not in this schema");
}
