/* value.c - Creating, comparing and iterating values, within the limits of a rendering. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void sl_jinja_report(const jinja_place *place, sl_status status, const char *format, ...) {
    char message[sizeof place->err->message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    status = sl_fail(place->err, status, "chat template line %u: %.440s", place->line, message);
    (void)status;
}

sl_status sl_jinja_charge(jinja_run *run, uint64_t steps) {
    run->steps += steps;
    if (run->steps <= JINJA_MAX_STEPS) return SL_OK;
    return JINJA_FAIL(run, "more than %d evaluation steps", JINJA_MAX_STEPS);
}

sl_status sl_jinja_deeper(jinja_run *run) {
    SL_TRY(sl_jinja_charge(run, 1));
    if (run->depth++ < JINJA_MAX_DEPTH) return SL_OK;
    return JINJA_FAIL(run, "calls or values nested deeper than %d", JINJA_MAX_DEPTH);
}

sl_status sl_jinja_alloc(jinja_run *run, size_t count, size_t bytes_each, void *out) {
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)count, (uint64_t)bytes_each, &bytes) ||
        bytes + run->arena->used_bytes > JINJA_MAX_MEMORY_BYTES)
        return JINJA_FAIL(run, "more than %d bytes of values", JINJA_MAX_MEMORY_BYTES);
    void *block = sl_arena_array(run->arena, count, bytes_each, _Alignof(max_align_t));
    memcpy(out, &block, sizeof block); /* out points to a pointer of any type */
    if (!block) return sl_no_memory(run->place.err, "chat template values", bytes);
    return SL_OK;
}

sl_status sl_jinja_append(jinja_run *run, jinja_buffer *buffer, const char *data, size_t bytes) {
    if (bytes == 0) return SL_OK;
    if (bytes > JINJA_MAX_TEXT_BYTES - buffer->bytes)
        return JINJA_FAIL(run, "a text of more than %d bytes", JINJA_MAX_TEXT_BYTES);
    if (buffer->bytes + bytes > buffer->capacity) {
        const size_t capacity = (buffer->bytes + bytes) * 2;
        char *grown;
        SL_TRY(sl_jinja_alloc(run, capacity, 1, &grown));
        if (buffer->bytes) memcpy(grown, buffer->data, buffer->bytes);
        buffer->data = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
    return SL_OK;
}

sl_status sl_jinja_list_new(jinja_run *run, size_t count, jinja_list **out) {
    SL_TRY(sl_jinja_alloc(run, 1, sizeof **out, out));
    (*out)->count = count;
    return sl_jinja_alloc(run, count, sizeof(jinja_value), &(*out)->items);
}

sl_status sl_jinja_pair(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out) {
    jinja_list *list = NULL;
    SL_TRY(sl_jinja_list_new(run, 2, &list));
    list->items[0] = a;
    list->items[1] = b;
    *out = (jinja_value){.kind = JINJA_TUPLE, .list = list};
    return SL_OK;
}

sl_status sl_jinja_dict_new(jinja_run *run, jinja_dict **out) {
    return sl_jinja_alloc(run, 1, sizeof **out, out);
}

const jinja_value *sl_jinja_dict_find(const jinja_dict *dict, jinja_text key) {
    for (size_t i = 0; i < dict->count; i++)
        if (dict->keys[i].kind == JINJA_STRING && sl_jinja_text_equal(dict->keys[i].text, key))
            return &dict->values[i];
    return NULL;
}

static sl_status check_key(jinja_run *run, jinja_value key) {
    bool good = key.kind != JINJA_LIST && key.kind != JINJA_DICT && key.kind != JINJA_UNDEFINED;
    for (size_t i = 0; good && key.kind == JINJA_TUPLE && i < key.list->count; i++)
        good = key.list->items[i].kind != JINJA_LIST && key.list->items[i].kind != JINJA_DICT;
    if (good) return SL_OK;
    return JINJA_FAIL(run, "a %s cannot be a key", sl_jinja_kind_name(key.kind));
}

sl_status sl_jinja_dict_get(jinja_run *run, const jinja_dict *dict, jinja_value key,
                            const jinja_value **out) {
    *out = NULL;
    SL_TRY(check_key(run, key));
    SL_TRY(sl_jinja_charge(run, dict->count / 4));
    if (key.kind == JINJA_STRING) {
        *out = sl_jinja_dict_find(dict, key.text);
        return SL_OK;
    }
    for (size_t i = 0; i < dict->count; i++) {
        bool equal;
        SL_TRY(sl_jinja_equal(run, dict->keys[i], key, &equal));
        if (!equal) continue;
        *out = &dict->values[i];
        return SL_OK;
    }
    return SL_OK;
}

sl_status sl_jinja_dict_set(jinja_run *run, jinja_dict *dict, jinja_value key, jinja_value value) {
    const jinja_value *found;
    SL_TRY(sl_jinja_dict_get(run, dict, key, &found));
    if (found) {
        dict->values[found - dict->values] = value;
        return SL_OK;
    }
    if (dict->count == dict->capacity) {
        const size_t capacity = dict->capacity ? dict->capacity * 2 : 4;
        jinja_value *keys, *values;
        SL_TRY(sl_jinja_alloc(run, capacity, sizeof *keys, &keys));
        SL_TRY(sl_jinja_alloc(run, capacity, sizeof *values, &values));
        if (dict->count) {
            memcpy(keys, dict->keys, dict->count * sizeof *keys);
            memcpy(values, dict->values, dict->count * sizeof *values);
        }
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->count] = key;
    dict->values[dict->count++] = value;
    return SL_OK;
}

const char *sl_jinja_kind_name(jinja_kind kind) {
    static const char *const names[] = {"Undefined",   "NoneType", "bool",    "int",  "float",
                                        "str",         "list",     "tuple",   "dict", "Namespace",
                                        "LoopContext", "Macro",    "function"};
    return names[kind];
}

bool sl_jinja_truth(jinja_value value) {
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.boolean;
    case JINJA_INTEGER:
        return value.integer != 0;
    case JINJA_FLOAT:
        return value.real != 0;
    case JINJA_STRING:
        return value.text.bytes != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
        return value.list->count != 0;
    case JINJA_DICT:
        return value.dict->count != 0;
    default:
        return true;
    }
}

bool sl_jinja_is_number(jinja_value value) {
    return value.kind == JINJA_BOOL || value.kind == JINJA_INTEGER || value.kind == JINJA_FLOAT;
}

static int64_t whole(jinja_value number) {
    return number.kind == JINJA_BOOL ? number.boolean : number.integer;
}

double sl_jinja_real(jinja_value number) {
    return number.kind == JINJA_FLOAT ? number.real : (double)whole(number);
}

static int compare_numbers(jinja_value a, jinja_value b) {
    if (a.kind != JINJA_FLOAT && b.kind != JINJA_FLOAT)
        return (whole(a) > whole(b)) - (whole(a) < whole(b));
    const double x = sl_jinja_real(a), y = sl_jinja_real(b);
    return (x > y) - (x < y);
}

static int compare_texts(jinja_text a, jinja_text b) {
    const size_t shared = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int order = shared ? memcmp(a.data, b.data, shared) : 0;
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static sl_status lists_equal(jinja_run *run, const jinja_list *a, const jinja_list *b, bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++)
        SL_TRY(sl_jinja_equal(run, a->items[i], b->items[i], out));
    return SL_OK;
}

static sl_status dicts_equal(jinja_run *run, const jinja_dict *a, const jinja_dict *b, bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        const jinja_value *other;
        SL_TRY(sl_jinja_dict_get(run, b, a->keys[i], &other));
        *out = other != NULL;
        if (other) SL_TRY(sl_jinja_equal(run, a->values[i], *other, out));
    }
    return SL_OK;
}

sl_status sl_jinja_equal(jinja_run *run, jinja_value a, jinja_value b, bool *out) {
    SL_TRY(sl_jinja_deeper(run));
    *out = false;
    if (sl_jinja_is_number(a) && sl_jinja_is_number(b)) {
        const bool nan =
            sl_jinja_real(a) != sl_jinja_real(a) || sl_jinja_real(b) != sl_jinja_real(b);
        *out = !nan && compare_numbers(a, b) == 0;
    } else if (a.kind == b.kind) {
        switch (a.kind) {
        case JINJA_STRING:
            *out = sl_jinja_text_equal(a.text, b.text);
            break;
        case JINJA_LIST:
        case JINJA_TUPLE:
            SL_TRY(lists_equal(run, a.list, b.list, out));
            break;
        case JINJA_DICT:
            SL_TRY(dicts_equal(run, a.dict, b.dict, out));
            break;
        case JINJA_UNDEFINED:
        case JINJA_NONE:
            *out = true;
            break;
        default:
            *out = a.dict == b.dict;
        }
    }
    run->depth--;
    return SL_OK;
}

static sl_status order_lists(jinja_run *run, const jinja_list *a, const jinja_list *b, int *out) {
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        bool equal;
        SL_TRY(sl_jinja_equal(run, a->items[i], b->items[i], &equal));
        if (!equal) return sl_jinja_order(run, a->items[i], b->items[i], out);
    }
    *out = (a->count > b->count) - (a->count < b->count);
    return SL_OK;
}

sl_status sl_jinja_order(jinja_run *run, jinja_value a, jinja_value b, int *out) {
    SL_TRY(sl_jinja_deeper(run));
    if (sl_jinja_is_number(a) && sl_jinja_is_number(b)) {
        *out = compare_numbers(a, b);
    } else if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        *out = compare_texts(a.text, b.text);
    } else if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE)) {
        SL_TRY(order_lists(run, a.list, b.list, out));
    } else {
        return JINJA_FAIL(run, "a %s and a %s cannot be ordered", sl_jinja_kind_name(a.kind),
                          sl_jinja_kind_name(b.kind));
    }
    run->depth--;
    return SL_OK;
}

sl_status sl_jinja_contains(jinja_run *run, jinja_value container, jinja_value item, bool *out) {
    *out = false;
    if (container.kind == JINJA_STRING) {
        if (item.kind != JINJA_STRING)
            return JINJA_FAIL(run, "'in <str>' wants a str, not a %s",
                              sl_jinja_kind_name(item.kind));
        SL_TRY(sl_jinja_charge(run, container.text.bytes / 64));
        *out = item.text.bytes == 0 || memmem(container.text.data, container.text.bytes,
                                              item.text.data, item.text.bytes) != NULL;
        return SL_OK;
    }
    if (container.kind == JINJA_DICT) {
        const jinja_value *found;
        SL_TRY(sl_jinja_dict_get(run, container.dict, item, &found));
        *out = found != NULL;
        return SL_OK;
    }
    const jinja_list *list;
    SL_TRY(sl_jinja_iterate(run, container, &list));
    for (size_t i = 0; !*out && i < list->count; i++)
        SL_TRY(sl_jinja_equal(run, list->items[i], item, out));
    return SL_OK;
}

static sl_status characters(jinja_run *run, jinja_text text, const jinja_list **out) {
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, sl_jinja_utf8_count(text), &list));
    for (size_t i = 0; i < list->count; i++) {
        size_t width;
        (void)sl_jinja_utf8_decode(text, &width);
        list->items[i] = sl_jinja_string(text.data, width);
        text = (jinja_text){text.data + width, text.bytes - width};
    }
    *out = list;
    return SL_OK;
}

sl_status sl_jinja_iterate(jinja_run *run, jinja_value value, const jinja_list **out) {
    static const jinja_list empty = {NULL, 0};
    jinja_list *keys;
    switch (value.kind) {
    case JINJA_LIST:
    case JINJA_TUPLE:
        *out = value.list;
        return SL_OK;
    case JINJA_DICT:
        SL_TRY(sl_jinja_alloc(run, 1, sizeof *keys, &keys));
        *keys = (jinja_list){value.dict->keys, value.dict->count};
        *out = keys;
        return SL_OK;
    case JINJA_STRING:
        return characters(run, value.text, out);
    case JINJA_UNDEFINED:
        *out = &empty;
        return SL_OK;
    default:
        return JINJA_FAIL(run, "a %s cannot be iterated", sl_jinja_kind_name(value.kind));
    }
}
