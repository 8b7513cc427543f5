/* sequences.c - Filters of sequences.  Results that are lazy in Python are lists here. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <string.h>

static sl_status list_out(jinja_list *list, jinja_value *out) {
    *out = (jinja_value){.kind = JINJA_LIST, .list = list};
    return SL_OK;
}

/* A new list with the items of value. */
static sl_status copy_items(jinja_run *run, jinja_value value, jinja_list **out) {
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, value, &items));
    SL_TRY(sl_jinja_list_new(run, items->count, out));
    if (items->count) memcpy((*out)->items, items->items, items->count * sizeof *items->items);
    return SL_OK;
}

/* "a.b.0" of the item; if the path is undefined or none, the item itself. */
static sl_status get_path(jinja_run *run, jinja_value item, jinja_value path, jinja_value *out) {
    *out = item;
    if (path.kind == JINJA_INTEGER) return sl_jinja_item(run, item, path, out);
    if (!sl_jinja_given(path)) return SL_OK;
    jinja_text rest;
    SL_TRY(sl_jinja_want_text(run, path, "attribute", &rest));
    while (true) {
        const char *dot = rest.bytes ? memchr(rest.data, '.', rest.bytes) : NULL;
        const size_t bytes = dot ? (size_t)(dot - rest.data) : rest.bytes;
        jinja_value key = sl_jinja_string(rest.data, bytes);
        int64_t index = 0;
        bool digits = bytes > 0 && bytes < 10;
        for (size_t i = 0; digits && i < bytes; i++) {
            digits = rest.data[i] >= '0' && rest.data[i] <= '9';
            index = index * 10 + (rest.data[i] - '0');
        }
        if (digits) key = sl_jinja_integer(index);
        SL_TRY(sl_jinja_item(run, *out, key, out));
        if (!dot) return SL_OK;
        rest = (jinja_text){dot + 1, rest.bytes - bytes - 1};
    }
}

/* The sort keys of the items: the attribute, in lower case unless case_sensitive. */
static sl_status make_keys(jinja_run *run, const jinja_list *items, jinja_value path,
                           bool case_sensitive, jinja_list **out) {
    SL_TRY(sl_jinja_list_new(run, items->count, out));
    for (size_t i = 0; i < items->count; i++) {
        jinja_value *key = &(*out)->items[i];
        SL_TRY(get_path(run, items->items[i], path, key));
        if (!case_sensitive) SL_TRY(sl_jinja_lower_value(run, *key, key));
    }
    return SL_OK;
}

/* ---- order ---- */

typedef struct {
    jinja_value *keys, *items;
} half;

/* Merges [0, middle) and [middle, count) of `from` into `to`; stable. */
static sl_status merge(jinja_run *run, half from, half to, size_t middle, size_t count,
                       bool reverse) {
    size_t left = 0, right = middle;
    for (size_t i = 0; i < count; i++) {
        bool take_right = left == middle;
        if (left < middle && right < count) {
            int order;
            SL_TRY(sl_jinja_order(run, from.keys[left], from.keys[right], &order));
            take_right = reverse ? order < 0 : order > 0;
        }
        const size_t source = take_right ? right++ : left++;
        to.keys[i] = from.keys[source];
        to.items[i] = from.items[source];
    }
    return SL_OK;
}

static sl_status merge_sort(jinja_run *run, half data, half spare, size_t count, bool reverse) {
    if (count < 2) return SL_OK;
    const size_t middle = count / 2;
    const half right = {data.keys + middle, data.items + middle};
    SL_TRY(merge_sort(run, data, spare, middle, reverse));
    SL_TRY(merge_sort(run, right, spare, count - middle, reverse));
    SL_TRY(merge(run, data, spare, middle, count, reverse));
    memcpy(data.keys, spare.keys, count * sizeof *data.keys);
    memcpy(data.items, spare.items, count * sizeof *data.items);
    return SL_OK;
}

sl_status sl_jinja_sort(jinja_run *run, jinja_list *keys, jinja_list *items, bool reverse) {
    half spare;
    SL_TRY(sl_jinja_alloc(run, keys->count, sizeof *spare.keys, &spare.keys));
    SL_TRY(sl_jinja_alloc(run, keys->count, sizeof *spare.items, &spare.items));
    return merge_sort(run, (half){keys->items, items->items}, spare, keys->count, reverse);
}

/* Wraps each key in a list of one, whose comparison needs no order for equal values. */
static sl_status wrap_keys(jinja_run *run, jinja_list *keys) {
    for (size_t i = 0; i < keys->count; i++) {
        jinja_list *one;
        SL_TRY(sl_jinja_list_new(run, 1, &one));
        one->items[0] = keys->items[i];
        keys->items[i] = (jinja_value){.kind = JINJA_LIST, .list = one};
    }
    return SL_OK;
}

static sl_status filter_sort(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_list *items, *keys;
    SL_TRY(copy_items(run, args->self, &items));
    SL_TRY(make_keys(run, items, args->values[2], sl_jinja_truth(args->values[1]), &keys));
    if (sl_jinja_given(args->values[2])) SL_TRY(wrap_keys(run, keys));
    SL_TRY(sl_jinja_sort(run, keys, items, sl_jinja_truth(args->values[0])));
    return list_out(items, out);
}

static sl_status filter_dictsort(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_list *pairs, *keys;
    if (args->self.kind != JINJA_DICT)
        return JINJA_FAIL(run, "dictsort wants a dict, not a %s",
                          sl_jinja_kind_name(args->self.kind));
    jinja_text by = JINJA_TEXT("key");
    if (sl_jinja_given(args->values[1]))
        SL_TRY(sl_jinja_want_text(run, args->values[1], "dictsort", &by));
    const bool by_value = sl_jinja_text_equal(by, JINJA_TEXT("value"));
    if (!by_value && !sl_jinja_text_equal(by, JINJA_TEXT("key")))
        return JINJA_FAIL(run, "dictsort wants key or value, not '%.*s'", JINJA_SHOW(by));
    const jinja_dict *dict = args->self.dict;
    SL_TRY(sl_jinja_list_new(run, dict->count, &pairs));
    for (size_t i = 0; i < dict->count; i++)
        SL_TRY(sl_jinja_pair(run, dict->keys[i], dict->values[i], &pairs->items[i]));
    SL_TRY(
        make_keys(run, pairs, sl_jinja_integer(by_value), sl_jinja_truth(args->values[0]), &keys));
    SL_TRY(sl_jinja_sort(run, keys, pairs, sl_jinja_truth(args->values[2])));
    return list_out(pairs, out);
}

static sl_status extreme(jinja_run *run, const jinja_args *args, int sign, jinja_value *out) {
    const jinja_list *items;
    jinja_list *keys;
    size_t best = 0;
    SL_TRY(sl_jinja_iterate(run, args->self, &items));
    SL_TRY(make_keys(run, items, args->values[1], sl_jinja_truth(args->values[0]), &keys));
    for (size_t i = 1; i < items->count; i++) {
        int order;
        SL_TRY(sl_jinja_order(run, keys->items[i], keys->items[best], &order));
        if (sign > 0 ? order > 0 : order < 0) best = i;
    }
    const jinja_value none = sl_jinja_undefined(JINJA_TEXT("extreme of an empty sequence"));
    *out = items->count ? items->items[best] : none;
    return SL_OK;
}
static sl_status filter_min(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return extreme(run, args, -1, out);
}
static sl_status filter_max(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return extreme(run, args, 1, out);
}

static sl_status filter_unique(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_list *items, *keys;
    size_t kept = 0;
    SL_TRY(copy_items(run, args->self, &items));
    SL_TRY(make_keys(run, items, args->values[1], sl_jinja_truth(args->values[0]), &keys));
    for (size_t i = 0; i < items->count; i++) {
        bool seen = false;
        for (size_t j = 0; j < kept && !seen; j++)
            SL_TRY(sl_jinja_equal(run, keys->items[j], keys->items[i], &seen));
        if (seen) continue;
        keys->items[kept] = keys->items[i];
        items->items[kept++] = items->items[i];
    }
    items->count = kept;
    return list_out(items, out);
}

static sl_status filter_reverse(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value none = {.kind = JINJA_NONE};
    const jinja_value bounds[] = {none, none, sl_jinja_integer(-1)};
    jinja_list *items;
    if (args->self.kind == JINJA_STRING) return sl_jinja_slice(run, args->self, bounds, out);
    SL_TRY(copy_items(run, args->self, &items));
    const jinja_value list = {.kind = JINJA_LIST, .list = items};
    return sl_jinja_slice(run, list, bounds, out);
}

/* ---- parts ---- */

static sl_status filter_list(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_list *items;
    SL_TRY(copy_items(run, args->self, &items));
    return list_out(items, out);
}

static sl_status filter_first(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, args->self, &items));
    *out = items->count ? items->items[0] : sl_jinja_undefined(JINJA_TEXT("first of nothing"));
    return SL_OK;
}
static sl_status filter_last(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, args->self, &items));
    const jinja_value none = sl_jinja_undefined(JINJA_TEXT("last of nothing"));
    *out = items->count ? items->items[items->count - 1] : none;
    return SL_OK;
}

static sl_status filter_items(jinja_run *run, const jinja_args *args, jinja_value *out) {
    if (args->self.kind == JINJA_UNDEFINED) return filter_list(run, args, out);
    if (args->self.kind != JINJA_DICT)
        return JINJA_FAIL(run, "items wants a dict, not a %s", sl_jinja_kind_name(args->self.kind));
    return sl_jinja_find_method(JINJA_DICT, JINJA_TEXT("items"))->call(run, args, out);
}

static sl_status filter_join(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_iterate(run, args->self, &items));
    for (size_t i = 0; i < items->count; i++) {
        jinja_value item;
        if (i) SL_TRY(sl_jinja_append_value(run, &buffer, args->values[0]));
        SL_TRY(get_path(run, items->items[i], args->values[1], &item));
        SL_TRY(sl_jinja_append_value(run, &buffer, item));
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status filter_sum(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, args->self, &items));
    const bool given = args->values[1].kind != JINJA_UNDEFINED;
    *out = given ? args->values[1] : sl_jinja_integer(0);
    for (size_t i = 0; i < items->count; i++) {
        jinja_value item;
        SL_TRY(get_path(run, items->items[i], args->values[0], &item));
        SL_TRY(sl_jinja_binary(run, JINJA_ADD, *out, item, out));
    }
    return SL_OK;
}

static sl_status filter_batch(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    int64_t size;
    SL_TRY(sl_jinja_iterate(run, args->self, &items));
    SL_TRY(sl_jinja_want_integer(run, args->values[0], "batch", &size));
    if (size < 1 || size > JINJA_MAX_RANGE)
        return JINJA_FAIL(run, "batch wants a size of 1 to %d", JINJA_MAX_RANGE);
    const size_t width = (size_t)size, rows = (items->count + width - 1) / width;
    jinja_list *batches;
    SL_TRY(sl_jinja_list_new(run, rows, &batches));
    for (size_t i = 0; i < rows; i++) {
        const size_t left = items->count - i * width, used = left < width ? left : width;
        jinja_list *row;
        SL_TRY(sl_jinja_list_new(run, sl_jinja_given(args->values[1]) ? width : used, &row));
        for (size_t j = 0; j < row->count; j++)
            row->items[j] = j < used ? items->items[i * width + j] : args->values[1];
        SL_TRY(list_out(row, &batches->items[i]));
    }
    return list_out(batches, out);
}

/* ---- map and select ---- */

/* Any false value, including none, counts as an empty list. */
static sl_status iterate_true(jinja_run *run, jinja_value value, const jinja_list **out) {
    const jinja_value nothing = {.kind = JINJA_UNDEFINED};
    return sl_jinja_iterate(run, sl_jinja_truth(value) ? value : nothing, out);
}

/* The arguments after the first count. */
static jinja_args skip_args(const jinja_args *args, size_t count) {
    return (jinja_args){
        .values = args->values + count, .names = args->names + count, .count = args->count - count};
}

static sl_status map_attribute(jinja_run *run, const jinja_args *args, const jinja_list *items,
                               jinja_list *to) {
    jinja_value path = {.kind = JINJA_UNDEFINED}, fallback = path;
    for (size_t i = 0; i < args->count; i++) {
        const bool attribute = sl_jinja_text_equal(args->names[i], JINJA_TEXT("attribute"));
        if (!attribute && !sl_jinja_text_equal(args->names[i], JINJA_TEXT("default")))
            return JINJA_FAIL(run, "map takes attribute= and default=, or the name of a filter");
        *(attribute ? &path : &fallback) = args->values[i];
    }
    for (size_t i = 0; i < items->count; i++) {
        SL_TRY(get_path(run, items->items[i], path, &to->items[i]));
        if (to->items[i].kind == JINJA_UNDEFINED && sl_jinja_given(fallback))
            to->items[i] = fallback;
    }
    return SL_OK;
}

static sl_status filter_map(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    jinja_list *to;
    jinja_text name;
    SL_TRY(iterate_true(run, args->self, &items));
    SL_TRY(sl_jinja_list_new(run, items->count, &to));
    SL_TRY(list_out(to, out));
    if (args->count == 0) return JINJA_FAIL(run, "map wants the name of a filter or attribute=");
    if (args->names[0].data) return map_attribute(run, args, items, to);
    SL_TRY(sl_jinja_want_text(run, args->values[0], "map", &name));
    const jinja_builtin *filter = sl_jinja_find_filter(name);
    if (!filter) return JINJA_FAIL(run, "no filter named '%.*s'", JINJA_SHOW(name));
    jinja_args rest = skip_args(args, 1);
    SL_TRY(sl_jinja_deeper(run));
    for (size_t i = 0; i < items->count; i++) {
        rest.self = items->items[i];
        SL_TRY(sl_jinja_charge(run, 1));
        SL_TRY(sl_jinja_invoke(run, filter, &rest, &to->items[i]));
    }
    run->depth--;
    return SL_OK;
}

/* The items whose attribute (or which themselves, if path is undefined) pass the test that args
 * names first, or are true if there is no test. */
static sl_status choose(jinja_run *run, const jinja_args *args, jinja_value path, bool keep,
                        jinja_value *out) {
    const jinja_builtin *test = NULL;
    jinja_args rest = *args;
    const jinja_list *items;
    jinja_list *to;
    SL_TRY(iterate_true(run, args->self, &items));
    SL_TRY(sl_jinja_list_new(run, items->count, &to));
    to->count = 0;
    if (args->count) {
        jinja_text name;
        SL_TRY(sl_jinja_want_text(run, args->values[0], "select or reject", &name));
        test = sl_jinja_find_test(name);
        if (!test) return JINJA_FAIL(run, "no test named '%.*s'", JINJA_SHOW(name));
        rest = skip_args(args, 1);
    }
    for (size_t i = 0; i < items->count; i++) {
        jinja_value value;
        SL_TRY(sl_jinja_charge(run, 1));
        SL_TRY(get_path(run, items->items[i], path, &value));
        rest.self = value;
        if (test) SL_TRY(sl_jinja_invoke(run, test, &rest, &value));
        if (sl_jinja_truth(value) == keep) to->items[to->count++] = items->items[i];
    }
    return list_out(to, out);
}
static sl_status filter_select(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return choose(run, args, (jinja_value){.kind = JINJA_NONE}, true, out);
}
static sl_status filter_reject(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return choose(run, args, (jinja_value){.kind = JINJA_NONE}, false, out);
}
static sl_status choose_by(jinja_run *run, const jinja_args *args, bool keep, jinja_value *out) {
    if (args->count == 0) return JINJA_FAIL(run, "selectattr and rejectattr want an attribute");
    jinja_args rest = skip_args(args, 1);
    rest.self = args->self;
    return choose(run, &rest, args->values[0], keep, out);
}
static sl_status filter_selectattr(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return choose_by(run, args, true, out);
}
static sl_status filter_rejectattr(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return choose_by(run, args, false, out);
}

const jinja_builtin sl_jinja_sequence_filters[] = {
    {"list", "", 0, filter_list},
    {"first", "", 0, filter_first},
    {"last", "", 0, filter_last},
    {"items", "", 0, filter_items},
    {"join", "d attribute", 0, filter_join},
    {"sum", "attribute start", 0, filter_sum},
    {"batch", "linecount fill_with", 1, filter_batch},
    {"reverse", "", 0, filter_reverse},
    {"sort", "reverse case_sensitive attribute", 0, filter_sort},
    {"dictsort", "case_sensitive by reverse", 0, filter_dictsort},
    {"unique", "case_sensitive attribute", 0, filter_unique},
    {"min", "case_sensitive attribute", 0, filter_min},
    {"max", "case_sensitive attribute", 0, filter_max},
    {"map", NULL, 0, filter_map},
    {"select", NULL, 0, filter_select},
    {"reject", NULL, 0, filter_reject},
    {"selectattr", NULL, 0, filter_selectattr},
    {"rejectattr", NULL, 0, filter_rejectattr},
    {0},
};
