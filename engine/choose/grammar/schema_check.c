/* schema_check.c - Whether a value satisfies a schema; for the values of enum and const. */
#include "engine/choose/grammar/schema_internal.h"
#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 100 };

uint32_t sl_schema_type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_NULL:
        return TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
        return TYPE_INTEGRAL;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? TYPE_INTEGRAL
                                                                       : TYPE_FRACTION;
    case JSON_OBJECT:
        return TYPE_OBJECT;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    }
    return 0;
}

static sl_status type_bit(compiler *c, const json_t *schema, const json_t *name, uint32_t *out) {
    static const struct {
        const char *name;
        uint32_t types;
    } known[] = {{"null", TYPE_NULL},        {"boolean", TYPE_BOOLEAN}, {"string", TYPE_STRING},
                 {"integer", TYPE_INTEGRAL}, {"number", TYPE_NUMBER},   {"object", TYPE_OBJECT},
                 {"array", TYPE_ARRAY},      {"any", TYPE_ALL}};
    const char *text = json_string_value(name);
    for (size_t i = 0; text && i < sizeof known / sizeof *known; i++) {
        if (strcmp(text, known[i].name) != 0) continue;
        *out |= known[i].types;
        return SL_OK;
    }
    return sl_schema_refuse(c, schema, "type", "there is no such type");
}

sl_status sl_schema_types(compiler *c, const json_t *schema, uint32_t *out) {
    const json_t *type = json_object_get(schema, "type"), *item;
    size_t index;
    *out = type ? 0 : TYPE_ALL;
    if (!type) return SL_OK;
    if (!json_is_array(type)) return type_bit(c, schema, type, out);
    json_array_foreach(type, index, item) SL_TRY(type_bit(c, schema, item, out));
    return SL_OK;
}

static sl_status number_holds(compiler *c, const json_t *value, const json_t *s, const char *only,
                              bool *out) {
    /* The rules for texts of numbers decide, so that both agree. */
    const fact f = {.kind = FACT_SCHEMA, .schema = s};
    const alternative a = {sl_schema_type_of(value), &f, NULL};
    static const char *const keywords[] = {"minimum", "maximum", "exclusiveMinimum",
                                           "exclusiveMaximum", "multipleOf"};
    bool any = false;
    sl_expr allowed, own;
    for (size_t i = 0; i < 5; i++)
        any |= json_object_get(s, keywords[i]) && (!only || strcmp(only, keywords[i]) == 0);
    *out = true;
    if (!any) return SL_OK;
    SL_TRY(sl_schema_number(c, &a, &allowed));
    SL_TRY(sl_schema_equal(c, value, true, &own));
    *out = sl_expr_alive(c->pool, sl_expr_and(c->pool, allowed, own));
    return sl_expr_pool_check(c->pool, c->err);
}

static sl_status string_holds(compiler *c, const json_t *value, const json_t *s, bool *out) {
    const fact f = {.kind = FACT_SCHEMA, .schema = s};
    const alternative a = {TYPE_STRING, &f, NULL};
    sl_expr e;
    bool plain;
    SL_TRY(sl_schema_string(c, &a, &e, &plain));
    *out =
        plain || sl_expr_matches(c->pool, e, json_string_value(value), json_string_length(value));
    return sl_expr_pool_check(c->pool, c->err);
}

static bool equal(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) {
        if (json_is_integer(a) && json_is_integer(b))
            return json_integer_value(a) == json_integer_value(b);
        return json_number_value(a) == json_number_value(b);
    }
    return json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
}

static sl_status array_holds(compiler *c, const json_t *value, const json_t *s, bool *out) {
    const fact f = {.kind = FACT_SCHEMA, .schema = s};
    const alternative a = {TYPE_ARRAY, &f, NULL};
    const size_t count = json_array_size(value);
    uint32_t min, max;
    SL_TRY(sl_schema_item_counts(c, &a, &min, &max));
    *out = count >= min && count <= max;
    if (json_object_get(s, "contains"))
        return sl_schema_refuse(c, s, "contains", "this keyword is not supported");
    for (size_t i = 0; *out && json_is_true(json_object_get(s, "uniqueItems")) && i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (equal(json_array_get(value, i), json_array_get(value, k))) *out = false;
    for (size_t i = 0; i < count && *out; i++) {
        const json_t *items = json_object_get(s, "items"), *prefix = items;
        if (!json_is_array(items)) prefix = json_object_get(s, "prefixItems");
        const json_t *item = json_array_get(prefix, i);
        if (!item) item = json_is_array(items) ? json_object_get(s, "additionalItems") : items;
        if (item) SL_TRY(sl_schema_holds(c, json_array_get(value, i), item, out));
    }
    return SL_OK;
}

static sl_status member_holds(compiler *c, const json_t *s, const char *name, const json_t *value,
                              bool *out) {
    const fact f = {.kind = FACT_SCHEMA, .schema = s};
    const alternative a = {TYPE_OBJECT, &f, NULL};
    uint32_t set;
    size_t count;
    SL_TRY(sl_schema_property_set(c, &a, name, &set));
    (void)sl_word_table_get(&c->sets, set, &count);
    for (size_t i = 0; i < count && *out; i += 2) {
        uint64_t key;
        memcpy(&key, sl_word_table_get(&c->sets, set, &count) + i, sizeof key);
        SL_TRY(sl_schema_holds(c, value, (const json_t *)(uintptr_t)(key & ~UINT64_C(1)), out));
    }
    return SL_OK;
}

static sl_status object_holds(compiler *c, const json_t *value, const json_t *s, bool *out) {
    const char *name;
    const json_t *item;
    size_t index;
    uint32_t min = 0, max = SL_EXPR_UNBOUNDED;
    bool found;
    SL_TRY(sl_schema_count(c, s, "minProperties", &min, &found));
    SL_TRY(sl_schema_count(c, s, "maxProperties", &max, &found));
    *out = json_object_size(value) >= min && json_object_size(value) <= max;
    json_array_foreach(json_object_get(s, "required"), index,
                       item) if (json_is_string(item) &&
                                 !json_object_get(value, json_string_value(item))) *out = false;
    const json_t *names = json_object_get(s, "propertyNames");
    json_object_foreach((json_t *)(uintptr_t)value, name, item) {
        if (!*out) break;
        SL_TRY(member_holds(c, s, name, item, out));
        if (!names || !*out) continue;
        json_t *text = json_string(name);
        if (!text) return sl_no_memory(c->err, "a JSON schema", 0);
        const sl_status status = sl_schema_holds(c, text, names, out);
        json_decref(text);
        SL_TRY(status);
    }
    return SL_OK;
}

static bool listed(const json_t *value, const json_t *s, const char *only) {
    const json_t *list = json_object_get(s, "enum"), *constant = json_object_get(s, "const");
    bool found = !list || (only && strcmp(only, "enum") != 0);
    for (size_t i = 0; !found && i < json_array_size(list); i++)
        found = equal(value, json_array_get(list, i));
    return found && (!constant || (only && strcmp(only, "const") != 0) || equal(value, constant));
}

sl_status sl_schema_keyword_holds(compiler *c, const json_t *value, const json_t *s,
                                  const char *only, bool *out) {
    uint32_t types;
    json_t *part = NULL;
    SL_TRY(sl_schema_types(c, s, &types));
    *out = (only || (sl_schema_type_of(value) & types)) && listed(value, s, only);
    if (!*out) return SL_OK;
    const json_t *own = s;
    if (only) { /* the schema without its other keywords */
        part = json_object();
        json_object_set(part, only, json_object_get(s, only));
        own = part;
    }
    sl_status status = part || !only ? SL_OK : sl_no_memory(c->err, "a JSON schema", 0);
    if (status == SL_OK && json_is_number(value)) status = number_holds(c, value, own, only, out);
    if (status == SL_OK && json_is_string(value)) status = string_holds(c, value, own, out);
    if (status == SL_OK && json_is_array(value)) status = array_holds(c, value, own, out);
    if (status == SL_OK && json_is_object(value)) status = object_holds(c, value, own, out);
    json_decref(part);
    return status;
}

static sl_status choices_hold(compiler *c, const json_t *value, const json_t *s, bool *out) {
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    for (size_t i = 0; i < 3 && *out; i++) {
        const json_t *list = json_object_get(s, lists[i]);
        size_t number = 0;
        for (size_t k = 0; k < json_array_size(list); k++) {
            bool holds = false;
            SL_TRY(sl_schema_holds(c, value, json_array_get(list, k), &holds));
            number += holds;
        }
        if (list)
            *out = i == 0 ? number == json_array_size(list) : i == 1 ? number > 0 : number == 1;
    }
    const json_t *not = json_object_get(s, "not"), *condition = json_object_get(s, "if");
    bool holds;
    if (*out && not ) {
        SL_TRY(sl_schema_holds(c, value, not, &holds));
        *out = !holds;
    }
    if (*out && condition) {
        SL_TRY(sl_schema_holds(c, value, condition, &holds));
        const json_t *next = json_object_get(s, holds ? "then" : "else");
        if (next) SL_TRY(sl_schema_holds(c, value, next, out));
    }
    return SL_OK;
}

static sl_status refuse_rest(compiler *c, const json_t *value, const json_t *s) {
    static const char *const keywords[] = {
        "dependencies",          "dependentRequired", "dependentSchemas", "unevaluatedItems",
        "unevaluatedProperties", "$dynamicRef",       "$recursiveRef"};
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (json_object_get(s, keywords[i]) && (json_is_object(value) || i == 3 || i > 4))
            return sl_schema_refuse(c, s, keywords[i], "not supported beside enum and const");
    return SL_OK;
}

sl_status sl_schema_holds(compiler *c, const json_t *value, const json_t *s, bool *out) {
    const json_t *target;
    *out = json_is_true(s);
    if (!json_is_object(s)) return SL_OK;
    if (c->depth > MAX_DEPTH)
        return sl_schema_refuse(c, s, "$ref", "references nested too deep for enum or const");
    *out = true;
    c->depth++;
    sl_status status = SL_OK;
    if (json_object_get(s, "$ref")) {
        status = sl_schema_resolve(c, s, &target);
        if (status == SL_OK) status = sl_schema_holds(c, value, target, out);
        if (c->old_references) goto done;
    }
    if (status == SL_OK) status = refuse_rest(c, value, s);
    if (status == SL_OK && *out) status = sl_schema_keyword_holds(c, value, s, NULL, out);
    if (status == SL_OK && *out) status = choices_hold(c, value, s, out);
done:
    c->depth--;
    return status;
}
