/* schema_expand.c - Turns a set of terms into alternatives without choices. */
#include "engine/choose/grammar/schema_internal.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ALTERNATIVES = 2000, MAX_WORK = 200000, MAX_EMPTY_DEPTH = 3 };

/* A schema that holds or does not, or a keyword of one that is a choice. */
typedef struct pending {
    const json_t *schema;
    const char *choice; /* a keyword, or NULL */
    const char *name;   /* of a property, for dependencies */
    bool denied;
    const struct pending *next;
} pending;

typedef struct partial {
    uint32_t types;
    const fact *facts;
    const pending *pending;
    struct partial *next;
} partial;

typedef struct {
    compiler *c;
    partial *stack;
    sl_status status;
} expansion;

static int by_term(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A set is numbered by the addresses of its schemas; bit 0: denied. */
sl_status sl_schema_put_set(compiler *c, const term *terms, size_t count, uint32_t *out) {
    uint64_t *keys = SL_ARENA_NEW_ARRAY(&c->arena, uint64_t, count + 1);
    size_t kept = 0;
    if (!keys) return sl_no_memory(c->err, "a JSON schema", count);
    for (size_t i = 0; i < count; i++)
        if (!(json_is_true(terms[i].schema) && !terms[i].denied))
            keys[kept++] = (uint64_t)(uintptr_t)terms[i].schema | terms[i].denied;
    if (kept > 1) qsort(keys, kept, sizeof *keys, by_term);
    size_t unique = 0;
    for (size_t i = 0; i < kept; i++)
        if (!unique || keys[unique - 1] != keys[i]) keys[unique++] = keys[i];
    *out = sl_word_table_put(c->allocator, &c->sets, (const uint32_t *)keys, unique * 2);
    if (*out == UINT32_MAX) return sl_no_memory(c->err, "a JSON schema", count);
    while (c->rules.count <= *out)
        if (!sl_word_list_add(c->allocator, &c->rules, 0))
            return sl_no_memory(c->err, "a JSON schema", count);
    return SL_OK;
}

static void *fail(expansion *x) {
    if (x->status == SL_OK) x->status = sl_no_memory(x->c->err, "a JSON schema", 0);
    return NULL;
}

static partial *branch(expansion *x, const partial *from) {
    partial *made = SL_ARENA_NEW(&x->c->arena, partial);
    if (!made) return fail(x);
    *made = *from;
    if (++x->c->work > MAX_WORK && x->status == SL_OK)
        x->status = sl_fail(x->c->err, SL_UNSUPPORTED,
                            "JSON schema: more than %d combinations of alternatives", MAX_WORK);
    made->next = x->stack;
    x->stack = made;
    return made;
}

static void add_fact(expansion *x, partial *p, const fact *given) {
    fact *made = p ? SL_ARENA_NEW(&x->c->arena, fact) : NULL;
    if (!made) {
        (void)fail(x);
        return;
    }
    *made = *given;
    made->next = p->facts;
    p->facts = made;
}

static void add_pending(expansion *x, partial *p, const pending *given) {
    pending *made = p ? SL_ARENA_NEW(&x->c->arena, pending) : NULL;
    if (!made) {
        (void)fail(x);
        return;
    }
    *made = *given;
    made->next = p->pending;
    p->pending = made;
}

static void add_term(expansion *x, partial *p, const json_t *schema, bool denied) {
    add_pending(x, p, &(pending){.schema = schema, .denied = denied});
}

static bool has_fact(const partial *p, fact_kind kind, const json_t *schema) {
    for (const fact *f = p->facts; f; f = f->next)
        if (f->kind == kind && f->schema == schema) return true;
    return false;
}

static sl_status check_list(expansion *x, const json_t *schema, const char *keyword,
                            const json_t *list) {
    size_t index;
    const json_t *item;
    if (!json_is_array(list)) return sl_schema_refuse(x->c, schema, keyword, "not an array");
    json_array_foreach(
        list, index,
        item) if (!json_is_object(item) &&
                  !json_is_boolean(item)) return sl_schema_refuse(x->c, schema, keyword,
                                                                  "one of its items is no schema");
    return SL_OK;
}

static const char *const choices[] = {
    "anyOf", "oneOf", "not", "if", "dependencies", "dependentRequired", "dependentSchemas"};
static const char *const refused[] = {"$dynamicRef", "$recursiveRef", "unevaluatedProperties",
                                      "unevaluatedItems"};

static sl_status hold_choices(expansion *x, partial *p, const json_t *s) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const json_t *value = json_object_get(s, choices[i]);
        const char *name;
        const json_t *ignored;
        if (!value) continue;
        if (i < 2) SL_TRY(check_list(x, s, choices[i], value));
        if (i < 4) {
            add_pending(x, p, &(pending){.schema = s, .choice = choices[i]});
            continue;
        }
        if (!json_is_object(value)) return sl_schema_refuse(x->c, s, choices[i], "not an object");
        json_object_foreach((json_t *)(uintptr_t)value, name, ignored)
            add_pending(x, p, &(pending){.schema = s, .choice = choices[i], .name = name});
    }
    return SL_OK;
}

static sl_status hold(expansion *x, partial *p, const json_t *s) {
    const json_t *all = json_object_get(s, "allOf"), *target;
    uint32_t types;
    size_t index;
    if (json_is_true(s) || has_fact(p, FACT_SCHEMA, s)) return SL_OK;
    if (!json_is_object(s)) {
        p->types = 0;
        return json_is_false(s) ? SL_OK
                                : sl_schema_refuse(x->c, s, "", "neither an object nor a boolean");
    }
    if (json_object_get(s, "$ref")) {
        SL_TRY(sl_schema_resolve(x->c, s, &target));
        add_term(x, p, target, false);
        if (x->c->old_references) return SL_OK;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *value = json_object_get(s, refused[i]);
        if (value && !json_is_true(value))
            return sl_schema_refuse(x->c, s, refused[i], "this keyword is not supported");
    }
    SL_TRY(sl_schema_types(x->c, s, &types));
    p->types &= types;
    add_fact(x, p, &(fact){.kind = FACT_SCHEMA, .schema = s});
    if (all) SL_TRY(check_list(x, s, "allOf", all));
    /* What is added last is expanded first, and properties keep the order of the list. */
    for (index = json_array_size(all); index-- > 0;)
        add_term(x, p, json_array_get(all, index), false);
    return hold_choices(x, p, s);
}

/* Keywords which, if they do not hold, say something about one type. */
static const struct {
    const char *name;
    uint32_t types;
} deniable[] = {{"minimum", TYPE_NUMBER},
                {"maximum", TYPE_NUMBER},
                {"exclusiveMinimum", TYPE_NUMBER},
                {"exclusiveMaximum", TYPE_NUMBER},
                {"multipleOf", TYPE_NUMBER},
                {"minLength", TYPE_STRING},
                {"maxLength", TYPE_STRING},
                {"pattern", TYPE_STRING},
                {"minItems", TYPE_ARRAY},
                {"maxItems", TYPE_ARRAY},
                {"enum", TYPE_ALL},
                {"const", TYPE_ALL},
                {"minProperties", TYPE_OBJECT},
                {"maxProperties", TYPE_OBJECT}};
/* Keywords whose denial is not supported. */
static const char *const undeniable[] = {"oneOf",
                                         "items",
                                         "prefixItems",
                                         "additionalItems",
                                         "additionalProperties",
                                         "if",
                                         "contains",
                                         "patternProperties",
                                         "propertyNames",
                                         "uniqueItems",
                                         "format",
                                         "dependencies",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "$dynamicRef",
                                         "$recursiveRef",
                                         "unevaluatedProperties",
                                         "unevaluatedItems"};

static sl_status deny_keyword(expansion *x, const partial *p, const json_t *s, const char *key,
                              const json_t *value) {
    const json_t *item;
    const char *name;
    size_t index;
    if (strcmp(key, "type") == 0) {
        uint32_t types;
        SL_TRY(sl_schema_types(x->c, s, &types));
        partial *made = branch(x, p);
        if (made) made->types &= ~types;
    } else if (strcmp(key, "required") == 0) {
        json_array_foreach(value, index, item) {
            partial *made = branch(x, p);
            if (made) made->types &= TYPE_OBJECT;
            add_fact(x, made, &(fact){.kind = FACT_FORBIDDEN, .name = json_string_value(item)});
        }
    } else if (strcmp(key, "properties") == 0) {
        json_object_foreach((json_t *)(uintptr_t)value, name, item) {
            partial *made = branch(x, p);
            if (made) made->types &= TYPE_OBJECT;
            add_fact(x, made, &(fact){.kind = FACT_REQUIRED, .name = name});
            add_fact(x, made, &(fact){.kind = FACT_PROPERTY, .name = name, .schema = item});
        }
    } else if (strcmp(key, "allOf") == 0) {
        SL_TRY(check_list(x, s, key, value));
        json_array_foreach(value, index, item) add_term(x, branch(x, p), item, true);
    } else if (strcmp(key, "anyOf") == 0) {
        partial *made = branch(x, p);
        SL_TRY(check_list(x, s, key, value));
        json_array_foreach(value, index, item) add_term(x, made, item, true);
    } else if (strcmp(key, "not") == 0) {
        add_term(x, branch(x, p), value, false);
    } else if (strcmp(key, "$ref") == 0) {
        const json_t *target;
        SL_TRY(sl_schema_resolve(x->c, s, &target));
        add_term(x, branch(x, p), target, true);
    }
    for (size_t i = 0; i < sizeof deniable / sizeof *deniable; i++) {
        if (strcmp(key, deniable[i].name) != 0) continue;
        partial *made = branch(x, p);
        if (made) made->types &= deniable[i].types;
        add_fact(x, made, &(fact){.kind = FACT_NOT_KEYWORD, .schema = s, .name = deniable[i].name});
    }
    for (size_t i = 0; i < sizeof undeniable / sizeof *undeniable; i++)
        if (strcmp(key, undeniable[i]) == 0)
            return sl_schema_refuse(x->c, s, key,
                                    "this keyword cannot be negated (not, oneOf, if)");
    return SL_OK;
}

/* One branch for each keyword that may not hold. */
static sl_status deny(expansion *x, const partial *p, const json_t *s) {
    const char *key;
    const json_t *value;
    if (json_is_true(s) || has_fact(p, FACT_DENIED, s)) {
        if (!json_is_true(s)) (void)branch(x, p);
        return SL_OK;
    }
    if (json_is_false(s)) {
        (void)branch(x, p);
        return SL_OK;
    }
    if (!json_is_object(s)) return sl_schema_refuse(x->c, s, "", "neither an object nor a boolean");
    partial denied = *p;
    add_fact(x, &denied, &(fact){.kind = FACT_DENIED, .schema = s});
    if (x->c->old_references && json_object_get(s, "$ref"))
        return deny_keyword(x, &denied, s, "$ref", json_object_get(s, "$ref"));
    json_object_foreach((json_t *)(uintptr_t)s, key, value) {
        SL_TRY(deny_keyword(x, &denied, s, key, value));
        if (x->status != SL_OK) return x->status;
    }
    return SL_OK;
}

static sl_status run(expansion *x, const partial *start, alternative **out);

/* Whether nothing satisfies two schemas together, beside the facts of p. */
static sl_status disjoint(compiler *c, const partial *p, const json_t *a, const json_t *b,
                          bool *out) {
    expansion x = {.c = c};
    alternative *found = NULL;
    partial both = {.types = p->types, .facts = p->facts};
    *out = false;
    if (c->depth >= MAX_EMPTY_DEPTH) return SL_OK;
    add_term(&x, &both, a, false);
    add_term(&x, &both, b, false);
    c->depth++;
    sl_error *kept = c->err, ignored = {0};
    c->err = &ignored;
    sl_status status = x.status == SL_OK ? run(&x, &both, &found) : x.status;
    bool empty = true;
    for (; status == SL_OK && found && empty; found = found->next)
        status = sl_schema_empty_alternative(c, found, MAX_EMPTY_DEPTH, &empty);
    c->err = kept;
    c->depth--;
    *out = status == SL_OK && empty;
    return status == SL_NO_MEMORY ? sl_no_memory(c->err, "a JSON schema", 0) : SL_OK;
}

static sl_status choose_one(expansion *x, const partial *p, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        partial *made = branch(x, p);
        add_term(x, made, json_array_get(list, i), false);
        for (size_t k = 0; k < json_array_size(list) && x->status == SL_OK; k++) {
            bool apart = false;
            if (k == i) continue;
            SL_TRY(disjoint(x->c, p, json_array_get(list, i), json_array_get(list, k), &apart));
            if (!apart) add_term(x, made, json_array_get(list, k), true);
        }
    }
    return x->status;
}

static sl_status choose_dependency(expansion *x, const partial *p, const pending *choice,
                                   const json_t *needs) {
    partial *without = branch(x, p);
    add_fact(x, without, &(fact){.kind = FACT_FORBIDDEN, .name = choice->name});
    partial *with = branch(x, p);
    const json_t *item;
    size_t index;
    if (with) with->types &= TYPE_OBJECT;
    add_fact(x, with, &(fact){.kind = FACT_REQUIRED, .name = choice->name});
    if (json_is_object(needs) || json_is_boolean(needs)) {
        add_term(x, with, needs, false);
    } else {
        if (json_is_string(needs))
            add_fact(x, with, &(fact){.kind = FACT_REQUIRED, .name = json_string_value(needs)});
        json_array_foreach(needs, index, item) {
            if (!json_is_string(item))
                return sl_schema_refuse(x->c, choice->schema, choice->choice,
                                        "not a list of names");
            add_fact(x, with, &(fact){.kind = FACT_REQUIRED, .name = json_string_value(item)});
        }
    }
    return x->status;
}

static sl_status choose(expansion *x, const partial *p, const pending *choice) {
    const json_t *s = choice->schema, *value = json_object_get(s, choice->choice), *item;
    size_t index;
    if (choice->name) return choose_dependency(x, p, choice, json_object_get(value, choice->name));
    if (strcmp(choice->choice, "oneOf") == 0) return choose_one(x, p, value);
    if (strcmp(choice->choice, "not") == 0) {
        add_term(x, branch(x, p), value, true);
    } else if (strcmp(choice->choice, "if") == 0) {
        const json_t *then = json_object_get(s, "then"), *otherwise = json_object_get(s, "else");
        if (!then && !otherwise) {
            (void)branch(x, p);
            return x->status;
        }
        partial *yes = branch(x, p), *no = branch(x, p);
        add_term(x, yes, value, false);
        if (then) add_term(x, yes, then, false);
        add_term(x, no, value, true);
        if (otherwise) add_term(x, no, otherwise, false);
    } else {
        json_array_foreach(value, index, item) add_term(x, branch(x, p), item, false);
    }
    return x->status;
}

static sl_status emit(expansion *x, const partial *p, alternative **out, uint32_t *count) {
    alternative *made = SL_ARENA_NEW(&x->c->arena, alternative);
    if (!made) return sl_no_memory(x->c->err, "a JSON schema", sizeof *made);
    if (++*count > MAX_ALTERNATIVES)
        return sl_fail(x->c->err, SL_UNSUPPORTED, "JSON schema: more than %d alternatives",
                       MAX_ALTERNATIVES);
    *made = (alternative){p->types, p->facts, *out};
    *out = made;
    return SL_OK;
}

/* A name that is required and forbidden makes objects impossible. */
static uint32_t possible_types(const partial *p) {
    uint32_t types = p->types;
    const alternative a = {types, p->facts, NULL};
    for (const fact *f = p->facts; f; f = f->next)
        if (f->kind == FACT_FORBIDDEN && sl_schema_requires(&a, f->name)) types &= ~TYPE_OBJECT;
    return types;
}

static sl_status run(expansion *x, const partial *start, alternative **out) {
    uint32_t count = 0;
    *out = NULL;
    (void)branch(x, start);
    while (x->stack && x->status == SL_OK) {
        partial *p = x->stack;
        x->stack = p->next;
        if (!p->types) continue;
        if (!p->pending) {
            p->types = possible_types(p);
            if (p->types) SL_TRY(emit(x, p, out, &count));
            continue;
        }
        /* What is no choice comes first. */
        const pending *next = p->pending;
        for (const pending *i = next; i; i = i->next)
            if (!i->choice && !i->denied) {
                next = i;
                break;
            }
        if (next == p->pending) {
            p->pending = next->next;
        } else {
            const pending *old = p->pending;
            p->pending = NULL;
            for (; old; old = old->next)
                if (old != next) add_pending(x, p, old);
        }
        if (next->choice) {
            SL_TRY(choose(x, p, next));
        } else if (next->denied) {
            SL_TRY(deny(x, p, next->schema));
        } else {
            SL_TRY(hold(x, p, next->schema));
            (void)branch(x, p);
        }
    }
    return x->status;
}

static sl_status start_of(compiler *c, uint32_t set, expansion *x, partial *start) {
    size_t count;
    *x = (expansion){.c = c};
    *start = (partial){.types = TYPE_ALL};
    const uint32_t *words = sl_word_table_get(&c->sets, set, &count);
    for (size_t i = 0; i < count; i += 2) {
        uint64_t key;
        memcpy(&key, words + i, sizeof key);
        add_term(x, start, (const json_t *)(uintptr_t)(key & ~UINT64_C(1)), key & 1);
    }
    return x->status;
}

sl_status sl_schema_expand(compiler *c, uint32_t set, alternative **out) {
    expansion x;
    partial start;
    SL_TRY(start_of(c, set, &x, &start));
    return run(&x, &start, out);
}

sl_status sl_schema_empty(compiler *c, uint32_t set, unsigned depth, bool *out) {
    alternative *found;
    *out = false;
    SL_TRY(sl_schema_expand(c, set, &found));
    *out = true;
    for (; found && *out; found = found->next)
        SL_TRY(sl_schema_empty_alternative(c, found, depth, out));
    return SL_OK;
}

static sl_status empty_values(compiler *c, const alternative *a, const json_t *s, bool *out) {
    const json_t *values = json_object_get(s, "enum"), *only = json_object_get(s, "const");
    for (size_t i = 0; i < (only ? 1 : json_array_size(values)); i++) {
        bool holds = true;
        const json_t *value = only ? only : json_array_get(values, i);
        if (!(sl_schema_type_of(value) & a->types)) continue;
        for (const fact *f = a->facts; f && holds; f = f->next)
            if (f->kind == FACT_SCHEMA) {
                SL_TRY(sl_schema_keyword_holds(c, value, f->schema, NULL, &holds));
            } else if (f->kind == FACT_NOT_KEYWORD) {
                SL_TRY(sl_schema_keyword_holds(c, value, f->schema, f->name, &holds));
                holds = !holds;
            }
        if (holds) *out = false;
    }
    return SL_OK;
}

sl_status sl_schema_empty_alternative(compiler *c, const alternative *a, unsigned depth,
                                      bool *out) {
    const json_t *values = sl_schema_enumerated(a);
    sl_expr e;
    bool plain;
    *out = true;
    if (values) return empty_values(c, a, values, out);
    if (a->types & (TYPE_NULL | TYPE_BOOLEAN)) *out = false;
    if (*out && a->types & TYPE_STRING) {
        SL_TRY(sl_schema_string(c, a, &e, &plain));
        *out = !plain && !sl_expr_alive(c->pool, e);
    }
    if (*out && a->types & TYPE_NUMBER) {
        SL_TRY(sl_schema_number(c, a, &e));
        *out = !sl_expr_alive(c->pool, e);
    }
    if (*out && a->types & TYPE_OBJECT) SL_TRY(sl_schema_empty_object(c, a, depth, out));
    if (*out && a->types & TYPE_ARRAY) {
        uint32_t min, max, set;
        SL_TRY(sl_schema_item_counts(c, a, &min, &max));
        *out = min > max;
        if (!*out && min && depth) {
            SL_TRY(sl_schema_item_set(c, a, 0, &set));
            SL_TRY(sl_schema_empty(c, set, depth - 1, out));
        }
    }
    return sl_expr_pool_check(c->pool, c->err);
}
