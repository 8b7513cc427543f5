/* json.c - JSON input (the variables of a rendering), and output like Python's json.dumps. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static sl_status convert(jinja_run *run, const json_t *json, jinja_value *out);

static sl_status convert_object(jinja_run *run, const json_t *json, jinja_value *out) {
    jinja_dict *dict;
    json_t *object = (json_t *)json; /* jansson's iteration is not const-correct */
    const size_t count = json_object_size(json);
    SL_TRY(sl_jinja_dict_new(run, &dict));
    SL_TRY(sl_jinja_alloc(run, count, sizeof(jinja_value), &dict->keys));
    SL_TRY(sl_jinja_alloc(run, count, sizeof(jinja_value), &dict->values));
    dict->capacity = count;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const size_t bytes = strlen(key);
        char *copy;
        SL_TRY(sl_jinja_alloc(run, bytes + 1, 1, &copy));
        memcpy(copy, key, bytes + 1);
        dict->keys[dict->count] = sl_jinja_string(copy, bytes);
        SL_TRY(convert(run, json_object_iter_value(at), &dict->values[dict->count++]));
    }
    *out = (jinja_value){.kind = JINJA_DICT, .dict = dict};
    return SL_OK;
}

static sl_status convert_array(jinja_run *run, const json_t *json, jinja_value *out) {
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, json_array_size(json), &list));
    for (size_t i = 0; i < list->count; i++)
        SL_TRY(convert(run, json_array_get(json, i), &list->items[i]));
    *out = (jinja_value){.kind = JINJA_LIST, .list = list};
    return SL_OK;
}

static sl_status convert_string(jinja_run *run, const json_t *json, jinja_value *out) {
    char *copy;
    const size_t bytes = json_string_length(json);
    SL_TRY(sl_jinja_alloc(run, bytes + 1, 1, &copy));
    memcpy(copy, json_string_value(json), bytes);
    *out = sl_jinja_string(copy, bytes);
    return SL_OK;
}

static sl_status convert(jinja_run *run, const json_t *json, jinja_value *out) {
    SL_TRY(sl_jinja_deeper(run));
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        SL_TRY(convert_object(run, json, out));
        break;
    case JSON_ARRAY:
        SL_TRY(convert_array(run, json, out));
        break;
    case JSON_STRING:
        SL_TRY(convert_string(run, json, out));
        break;
    case JSON_INTEGER:
        *out = sl_jinja_integer(json_integer_value(json));
        break;
    case JSON_REAL:
        *out = sl_jinja_float(json_real_value(json));
        break;
    case JSON_NULL:
        *out = (jinja_value){.kind = JINJA_NONE};
        break;
    default:
        *out = sl_jinja_bool(json_is_true(json));
    }
    run->depth--;
    return SL_OK;
}

sl_status sl_jinja_from_json(jinja_run *run, const char *json, size_t bytes, jinja_dict **out) {
    json_error_t error;
    json_t *root = json_loadb(json, bytes, JSON_ALLOW_NUL, &error);
    if (!root)
        return sl_fail(run->place.err, SL_INVALID, "chat template variables, line %d: %.200s",
                       error.line, error.text);
    jinja_value value;
    sl_status status = convert(run, root, &value);
    json_decref(root);
    if (status == SL_OK && value.kind != JINJA_DICT)
        status = sl_fail(run->place.err, SL_INVALID,
                         "chat template variables are a %s, wanted an object",
                         sl_jinja_kind_name(value.kind));
    if (status == SL_OK) *out = value.dict;
    return status;
}

/* ---- output ---- */

typedef struct {
    jinja_run *run;
    const jinja_json_style *style;
    jinja_buffer *buffer;
    size_t level;
} writer;

static sl_status put(const writer *to, const char *data, size_t bytes) {
    return sl_jinja_append(to->run, to->buffer, data, bytes);
}
static sl_status put_text(const writer *to, jinja_text text) {
    return put(to, text.data, text.bytes);
}
static sl_status put_literal(const writer *to, const char *text) {
    return put(to, text, strlen(text));
}

static sl_status put_unicode(const writer *to, uint32_t unit) {
    char escape[8];
    (void)snprintf(escape, sizeof escape, "\\u%04x", unit & 0xFFFF);
    return put(to, escape, 6);
}

static sl_status put_character(const writer *to, jinja_text text, uint32_t c, size_t width) {
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *known = c && c < 0x80 ? strchr(special, (int)c) : NULL;
    if (known) return put(to, (char[]){'\\', letters[known - special]}, 2);
    if (c < 0x20) return put_unicode(to, c);
    if (c < 0x80 || !to->style->ascii) return put(to, text.data, width);
    if (c < 0x10000) return put_unicode(to, c);
    SL_TRY(put_unicode(to, 0xD800 + ((c - 0x10000) >> 10)));
    return put_unicode(to, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

static sl_status put_string(const writer *to, jinja_text text) {
    SL_TRY(sl_jinja_charge(to->run, text.bytes / 64));
    SL_TRY(put(to, "\"", 1));
    while (text.bytes) {
        size_t width;
        const uint32_t c = sl_jinja_utf8_decode(text, &width);
        SL_TRY(put_character(to, text, c, width));
        text = (jinja_text){text.data + width, text.bytes - width};
    }
    return put(to, "\"", 1);
}

static sl_status put_line(const writer *to) {
    if (!to->style->indent.data) return SL_OK;
    SL_TRY(put(to, "\n", 1));
    for (size_t i = 0; i < to->level; i++) SL_TRY(put_text(to, to->style->indent));
    return SL_OK;
}

static sl_status put_value(writer *to, jinja_value value);

static sl_status put_list(writer *to, const jinja_list *list) {
    if (list->count == 0) return put(to, "[]", 2);
    SL_TRY(put(to, "[", 1));
    to->level++;
    for (size_t i = 0; i < list->count; i++) {
        if (i) SL_TRY(put_text(to, to->style->comma));
        SL_TRY(put_line(to));
        SL_TRY(put_value(to, list->items[i]));
    }
    to->level--;
    SL_TRY(put_line(to));
    return put(to, "]", 1);
}

static sl_status put_scalar(const writer *to, jinja_value value) {
    char text[400];
    switch (value.kind) {
    case JINJA_NONE:
        return put_literal(to, "null");
    case JINJA_BOOL:
        return put_literal(to, value.boolean ? "true" : "false");
    case JINJA_INTEGER:
        return sl_jinja_append_value(to->run, to->buffer, value);
    case JINJA_FLOAT:
        if (isnan(value.real)) return put_literal(to, "NaN");
        if (isinf(value.real)) return put_literal(to, value.real < 0 ? "-Infinity" : "Infinity");
        return put(to, text, sl_jinja_format_real(value.real, text, sizeof text));
    default:
        return JINJA_FAIL(to->run, "a %s cannot be written as JSON",
                          sl_jinja_kind_name(value.kind));
    }
}

/* Keys are strings; numbers and constants are converted to their text. */
static sl_status put_key(const writer *to, jinja_value key) {
    if (key.kind == JINJA_STRING) return put_string(to, key.text);
    SL_TRY(put(to, "\"", 1));
    SL_TRY(put_scalar(to, key));
    return put(to, "\"", 1);
}

static sl_status sorted(jinja_run *run, const jinja_dict *dict, jinja_dict *out) {
    jinja_list *keys, *values;
    SL_TRY(sl_jinja_list_new(run, dict->count, &keys));
    SL_TRY(sl_jinja_list_new(run, dict->count, &values));
    if (dict->count) {
        memcpy(keys->items, dict->keys, dict->count * sizeof *dict->keys);
        memcpy(values->items, dict->values, dict->count * sizeof *dict->values);
    }
    SL_TRY(sl_jinja_sort(run, keys, values, false));
    *out = (jinja_dict){keys->items, values->items, dict->count, dict->count};
    return SL_OK;
}

static sl_status put_dict(writer *to, const jinja_dict *given) {
    jinja_dict dict = *given;
    if (dict.count == 0) return put(to, "{}", 2);
    if (to->style->sorted) SL_TRY(sorted(to->run, given, &dict));
    SL_TRY(put(to, "{", 1));
    to->level++;
    for (size_t i = 0; i < dict.count; i++) {
        if (i) SL_TRY(put_text(to, to->style->comma));
        SL_TRY(put_line(to));
        SL_TRY(put_key(to, dict.keys[i]));
        SL_TRY(put_text(to, to->style->colon));
        SL_TRY(put_value(to, dict.values[i]));
    }
    to->level--;
    SL_TRY(put_line(to));
    return put(to, "}", 1);
}

static sl_status put_value(writer *to, jinja_value value) {
    SL_TRY(sl_jinja_deeper(to->run));
    if (value.kind == JINJA_STRING) {
        SL_TRY(put_string(to, value.text));
    } else if (value.kind == JINJA_LIST || value.kind == JINJA_TUPLE) {
        SL_TRY(put_list(to, value.list));
    } else if (value.kind == JINJA_DICT) {
        SL_TRY(put_dict(to, value.dict));
    } else {
        SL_TRY(put_scalar(to, value));
    }
    to->run->depth--;
    return SL_OK;
}

sl_status sl_jinja_to_json(jinja_run *run, const jinja_json_style *style, jinja_value value,
                           jinja_buffer *buffer) {
    writer to = {run, style, buffer, 0};
    return put_value(&to, value);
}
