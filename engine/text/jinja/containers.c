/* containers.c - Methods of dicts, lists and loops.  None of them changes its object. */
#include "engine/text/jinja/run.h"
#include <string.h>

static sl_status dict_get(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value *found;
    SL_TRY(sl_jinja_dict_get(run, args->self.dict, args->values[0], &found));
    const bool fallback = args->values[1].kind != JINJA_UNDEFINED;
    *out = found ? *found : fallback ? args->values[1] : (jinja_value){.kind = JINJA_NONE};
    return SL_OK;
}

static sl_status copy_list(jinja_run *run, const jinja_value *items, size_t count,
                           jinja_value *out) {
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, count, &list));
    if (count) memcpy(list->items, items, count * sizeof *items);
    *out = (jinja_value){.kind = JINJA_LIST, .list = list};
    return SL_OK;
}
static sl_status dict_keys(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return copy_list(run, args->self.dict->keys, args->self.dict->count, out);
}
static sl_status dict_values(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return copy_list(run, args->self.dict->values, args->self.dict->count, out);
}

static sl_status dict_items(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_dict *dict = args->self.dict;
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, dict->count, &list));
    for (size_t i = 0; i < dict->count; i++)
        SL_TRY(sl_jinja_pair(run, dict->keys[i], dict->values[i], &list->items[i]));
    *out = (jinja_value){.kind = JINJA_LIST, .list = list};
    return SL_OK;
}

/* Values are immutable, so a copy is the value itself. */
static sl_status copy(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    *out = args->self;
    return SL_OK;
}

static sl_status list_index(jinja_run *run, const jinja_args *args, jinja_value *out) {
    for (size_t i = 0; i < args->self.list->count; i++) {
        bool equal;
        SL_TRY(sl_jinja_equal(run, args->self.list->items[i], args->values[0], &equal));
        if (!equal) continue;
        *out = sl_jinja_integer((int64_t)i);
        return SL_OK;
    }
    return JINJA_FAIL(run, "index: the value is not in the list");
}

static sl_status list_count(jinja_run *run, const jinja_args *args, jinja_value *out) {
    *out = sl_jinja_integer(0);
    for (size_t i = 0; i < args->self.list->count; i++) {
        bool equal;
        SL_TRY(sl_jinja_equal(run, args->self.list->items[i], args->values[0], &equal));
        out->integer += equal;
    }
    return SL_OK;
}

static sl_status loop_cycle(jinja_run *run, const jinja_args *args, jinja_value *out) {
    if (args->count == 0) return JINJA_FAIL(run, "cycle wants at least one value");
    *out = args->values[args->self.loop->index % args->count];
    return SL_OK;
}

/* Whether the arguments differ from those of the previous call. */
static sl_status loop_changed(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_loop *loop = args->self.loop;
    jinja_value *seen;
    bool same = false;
    SL_TRY(sl_jinja_alloc(run, 1, sizeof *seen, &seen));
    SL_TRY(copy_list(run, args->values, args->count, seen));
    if (loop->last_change) SL_TRY(sl_jinja_equal(run, *seen, *loop->last_change, &same));
    loop->last_change = seen;
    *out = sl_jinja_bool(!same);
    return SL_OK;
}

const jinja_builtin *sl_jinja_find_method(jinja_kind kind, jinja_text name) {
    static const jinja_builtin dict_methods[] = {
        {"get", "key default", 1, dict_get},
        {"keys", "", 0, dict_keys},
        {"values", "", 0, dict_values},
        {"items", "", 0, dict_items},
        {"copy", "", 0, copy},
        {0},
    };
    static const jinja_builtin list_methods[] = {
        {"index", "value", 1, list_index},
        {"count", "value", 1, list_count},
        {"copy", "", 0, copy},
        {0},
    };
    static const jinja_builtin loop_methods[] = {
        {"cycle", NULL, 0, loop_cycle},
        {"changed", NULL, 0, loop_changed},
        {0},
    };
    switch (kind) {
    case JINJA_STRING:
        return sl_jinja_find(sl_jinja_string_methods, name);
    case JINJA_DICT:
        return sl_jinja_find(dict_methods, name);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return sl_jinja_find(list_methods, name);
    case JINJA_LOOP:
        return sl_jinja_find(loop_methods, name);
    default:
        return NULL;
    }
}
