/* repr.c - str() and repr() of values. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as the same number, formatted as in Python: with an exponent
 * below 1e-4 and from 1e16 on, and always with a point or an exponent. */
size_t sl_jinja_format_real(double real, char *text, size_t capacity) {
    if (isnan(real)) return (size_t)snprintf(text, capacity, "nan");
    if (isinf(real)) return (size_t)snprintf(text, capacity, real < 0 ? "-inf" : "inf");
    char digits[40];
    for (int precision = 0; precision < 17; precision++) {
        (void)snprintf(digits, sizeof digits, "%.*e", precision, real);
        if (strtod(digits, NULL) == real) break;
    }
    char *mark = strchr(digits, 'e');
    const int exponent = atoi(mark + 1);
    /* Including the point, or 0. */
    const int places = (int)(mark - digits) - (digits[0] == '-') - 1;
    if (exponent < -4 || exponent >= 16)
        return (size_t)snprintf(text, capacity, "%.*se%c%02d", (int)(mark - digits), digits,
                                exponent < 0 ? '-' : '+', abs(exponent));
    const int decimals = (places > 0 ? places - 1 : 0) - exponent;
    return (size_t)snprintf(text, capacity, "%.*f", decimals > 1 ? decimals : 1, real);
}

static sl_status append_escaped(jinja_run *run, jinja_buffer *buffer, uint32_t c) {
    char escape[16];
    const char *names = "\tt\nn\rr";
    const char *known = c < 0x80 && c ? strchr(names, (int)c) : NULL;
    int bytes;
    if (known && (known - names) % 2 == 0) {
        bytes = snprintf(escape, sizeof escape, "\\%c", known[1]);
    } else if (c < 0x100) {
        bytes = snprintf(escape, sizeof escape, "\\x%02x", c);
    } else {
        bytes = snprintf(escape, sizeof escape, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
    return sl_jinja_append(run, buffer, escape, (size_t)bytes);
}

static sl_status repr_string(jinja_run *run, jinja_buffer *buffer, jinja_text text) {
    const bool has_single = text.bytes && memchr(text.data, '\'', text.bytes);
    const bool has_double = text.bytes && memchr(text.data, '"', text.bytes);
    const char quote = has_single && !has_double ? '"' : '\'';
    SL_TRY(sl_jinja_charge(run, text.bytes / 64));
    SL_TRY(sl_jinja_append(run, buffer, &quote, 1));
    while (text.bytes) {
        size_t width;
        const uint32_t c = sl_jinja_utf8_decode(text, &width);
        if (!sl_jinja_is_printable(c)) {
            SL_TRY(append_escaped(run, buffer, c));
        } else {
            if (c == '\\' || c == (uint32_t)quote) SL_TRY(sl_jinja_append(run, buffer, "\\", 1));
            SL_TRY(sl_jinja_append(run, buffer, text.data, width));
        }
        text = (jinja_text){text.data + width, text.bytes - width};
    }
    return sl_jinja_append(run, buffer, &quote, 1);
}

static sl_status repr_list(jinja_run *run, jinja_buffer *buffer, const jinja_list *list,
                           bool tuple) {
    SL_TRY(sl_jinja_append(run, buffer, tuple ? "(" : "[", 1));
    for (size_t i = 0; i < list->count; i++) {
        if (i) SL_TRY(sl_jinja_append(run, buffer, ", ", 2));
        SL_TRY(sl_jinja_repr(run, buffer, list->items[i]));
    }
    if (tuple && list->count == 1) SL_TRY(sl_jinja_append(run, buffer, ",", 1));
    return sl_jinja_append(run, buffer, tuple ? ")" : "]", 1);
}

static sl_status repr_dict(jinja_run *run, jinja_buffer *buffer, const jinja_dict *dict) {
    SL_TRY(sl_jinja_append(run, buffer, "{", 1));
    for (size_t i = 0; i < dict->count; i++) {
        if (i) SL_TRY(sl_jinja_append(run, buffer, ", ", 2));
        SL_TRY(sl_jinja_repr(run, buffer, dict->keys[i]));
        SL_TRY(sl_jinja_append(run, buffer, ": ", 2));
        SL_TRY(sl_jinja_repr(run, buffer, dict->values[i]));
    }
    return sl_jinja_append(run, buffer, "}", 1);
}

static sl_status append_literal(jinja_run *run, jinja_buffer *buffer, const char *text) {
    return sl_jinja_append(run, buffer, text, strlen(text));
}

static sl_status repr_value(jinja_run *run, jinja_buffer *buffer, jinja_value value) {
    char text[400];
    switch (value.kind) {
    case JINJA_UNDEFINED:
        return append_literal(run, buffer, "Undefined");
    case JINJA_NONE:
        return append_literal(run, buffer, "None");
    case JINJA_BOOL:
        return append_literal(run, buffer, value.boolean ? "True" : "False");
    case JINJA_INTEGER:
        (void)snprintf(text, sizeof text, "%" PRId64, value.integer);
        return append_literal(run, buffer, text);
    case JINJA_FLOAT:
        (void)sl_jinja_format_real(value.real, text, sizeof text);
        return append_literal(run, buffer, text);
    case JINJA_STRING:
        return repr_string(run, buffer, value.text);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return repr_list(run, buffer, value.list, value.kind == JINJA_TUPLE);
    case JINJA_DICT:
        return repr_dict(run, buffer, value.dict);
    case JINJA_NAMESPACE:
        SL_TRY(append_literal(run, buffer, "<Namespace "));
        SL_TRY(repr_dict(run, buffer, value.dict));
        return append_literal(run, buffer, ">");
    default:
        return JINJA_FAIL(run, "a %s cannot be converted to text", sl_jinja_kind_name(value.kind));
    }
}

sl_status sl_jinja_repr(jinja_run *run, jinja_buffer *buffer, jinja_value value) {
    SL_TRY(sl_jinja_deeper(run));
    SL_TRY(repr_value(run, buffer, value));
    run->depth--;
    return SL_OK;
}

sl_status sl_jinja_append_value(jinja_run *run, jinja_buffer *buffer, jinja_value value) {
    if (value.kind == JINJA_UNDEFINED) return SL_OK;
    if (value.kind == JINJA_STRING)
        return sl_jinja_append(run, buffer, value.text.data, value.text.bytes);
    return sl_jinja_repr(run, buffer, value);
}

sl_status sl_jinja_str(jinja_run *run, jinja_value value, jinja_text *out) {
    *out = value.text;
    if (value.kind == JINJA_STRING) return SL_OK;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_append_value(run, &buffer, value));
    *out = sl_jinja_buffer_value(&buffer).text;
    return SL_OK;
}
