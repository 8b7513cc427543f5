/* filters.c - Filters of single values: text, numbers, defaults, JSON. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jinja_text tail(jinja_text text, size_t from) {
    return (jinja_text){text.data + from, text.bytes - from};
}

static sl_status filter_string(jinja_run *run, const jinja_args *args, jinja_value *out) {
    out->kind = JINJA_STRING;
    return sl_jinja_str(run, args->self, &out->text);
}

static sl_status filter_default(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    const bool missing = args->self.kind == JINJA_UNDEFINED ||
                         (sl_jinja_truth(args->values[1]) && !sl_jinja_truth(args->self));
    const bool given = args->values[0].kind != JINJA_UNDEFINED;
    *out = !missing ? args->self : given ? args->values[0] : sl_jinja_string("", 0);
    return SL_OK;
}

static sl_status filter_length(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value self = args->self;
    if (self.kind == JINJA_STRING) {
        *out = sl_jinja_integer((int64_t)sl_jinja_utf8_count(self.text));
        return SL_OK;
    }
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, self, &items));
    *out = sl_jinja_integer((int64_t)items->count);
    return SL_OK;
}

/* ---- case ---- */

typedef uint32_t character_map(uint32_t character);

static sl_status append_mapped(jinja_run *run, jinja_buffer *buffer, jinja_text text,
                               character_map *map) {
    size_t width;
    for (; text.bytes; text = tail(text, width)) {
        const uint32_t c = sl_jinja_utf8_decode(text, &width);
        char bytes[4];
        if (c == 0xDF && map == sl_jinja_upper) { /* sharp s, the only letter that becomes two */
            SL_TRY(sl_jinja_append(run, buffer, "SS", 2));
            continue;
        }
        SL_TRY(sl_jinja_append(run, buffer, bytes, sl_utf8_encode(map(c), bytes)));
    }
    return SL_OK;
}

static sl_status map_case(jinja_run *run, jinja_value value, character_map *map, jinja_value *out) {
    jinja_text text;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_str(run, value, &text));
    SL_TRY(append_mapped(run, &buffer, text, map));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}
static sl_status filter_upper(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return map_case(run, args->self, sl_jinja_upper, out);
}
static sl_status filter_lower(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return map_case(run, args->self, sl_jinja_lower, out);
}
sl_status sl_jinja_lower_value(jinja_run *run, jinja_value value, jinja_value *out) {
    *out = value;
    return value.kind == JINJA_STRING ? map_case(run, value, sl_jinja_lower, out) : SL_OK;
}

/* Appends the word with its first character in upper case and the rest in lower case. */
static sl_status append_capital(jinja_run *run, jinja_buffer *buffer, jinja_text word) {
    if (word.bytes == 0) return SL_OK;
    size_t width;
    (void)sl_jinja_utf8_decode(word, &width);
    SL_TRY(append_mapped(run, buffer, (jinja_text){word.data, width}, sl_jinja_upper));
    return append_mapped(run, buffer, tail(word, width), sl_jinja_lower);
}

static sl_status filter_capitalize(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_str(run, args->self, &text));
    SL_TRY(append_capital(run, &buffer, text));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* Words begin only after white space and after - ( { [ <. */
static sl_status filter_title(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_str(run, args->self, &text));
    for (size_t end = 0, width; text.bytes; text = tail(text, end), end = 0) {
        while (end < text.bytes) {
            const uint32_t c = sl_jinja_utf8_decode(tail(text, end), &width);
            end += width;
            if (sl_jinja_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c))) break;
        }
        SL_TRY(append_capital(run, &buffer, (jinja_text){text.data, end}));
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* ---- text ---- */

static sl_status filter_trim(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_args with_text = *args;
    with_text.self.kind = JINJA_STRING;
    SL_TRY(sl_jinja_str(run, args->self, &with_text.self.text));
    return sl_jinja_find(sl_jinja_string_methods, JINJA_TEXT("strip"))->call(run, &with_text, out);
}

static sl_status filter_replace(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text, old, new;
    int64_t limit = -1;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_str(run, args->self, &text));
    SL_TRY(sl_jinja_str(run, args->values[0], &old));
    SL_TRY(sl_jinja_str(run, args->values[1], &new));
    if (sl_jinja_given(args->values[2]))
        SL_TRY(sl_jinja_want_integer(run, args->values[2], "replace", &limit));
    while (limit != 0) {
        const char *hit = text.data;
        if (old.bytes) hit = text.bytes ? memmem(text.data, text.bytes, old.data, old.bytes) : NULL;
        if (!hit) break;
        SL_TRY(sl_jinja_append(run, &buffer, text.data, (size_t)(hit - text.data)));
        SL_TRY(sl_jinja_append(run, &buffer, new.data, new.bytes));
        text = tail(text, (size_t)(hit - text.data) + old.bytes);
        limit -= limit > 0;
        if (old.bytes) continue;
        if (text.bytes == 0) break;
        size_t width; /* an empty string matches before every character and at the end */
        (void)sl_jinja_utf8_decode(text, &width);
        SL_TRY(sl_jinja_append(run, &buffer, text.data, width));
        text = tail(text, width);
    }
    SL_TRY(sl_jinja_append(run, &buffer, text.data, text.bytes));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status filter_escape(jinja_run *run, const jinja_args *args, jinja_value *out) {
    static const char plain[] = "&<>'\"";
    static const char *const escaped[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    jinja_text text;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_str(run, args->self, &text));
    for (size_t i = 0; i < text.bytes; i++) {
        const char *found = text.data[i] ? strchr(plain, text.data[i]) : NULL;
        const char *piece = found ? escaped[found - plain] : text.data + i;
        SL_TRY(sl_jinja_append(run, &buffer, piece, found ? strlen(piece) : 1));
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* A width in spaces, or the text itself. */
static sl_status want_indent(jinja_run *run, jinja_value width, jinja_text *out) {
    int64_t spaces;
    jinja_value text;
    *out = width.text;
    if (width.kind == JINJA_STRING) return SL_OK;
    SL_TRY(sl_jinja_want_integer(run, width, "indent", &spaces));
    SL_TRY(sl_jinja_binary(run, JINJA_MULTIPLY, sl_jinja_string(" ", 1), sl_jinja_integer(spaces),
                           &text));
    *out = text.text;
    return SL_OK;
}

static sl_status filter_indent(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text, indent = JINJA_TEXT("    ");
    jinja_buffer buffer = {0};
    const bool first = sl_jinja_truth(args->values[1]), blank = sl_jinja_truth(args->values[2]);
    SL_TRY(sl_jinja_want_text(run, args->self, "indent", &text));
    if (args->values[0].kind != JINJA_UNDEFINED) SL_TRY(want_indent(run, args->values[0], &indent));
    for (bool begin = true;; begin = false) {
        const char *newline = text.bytes ? memchr(text.data, '\n', text.bytes) : NULL;
        const size_t bytes = newline ? (size_t)(newline - text.data) : text.bytes;
        if (begin ? first : bytes || blank)
            SL_TRY(sl_jinja_append(run, &buffer, indent.data, indent.bytes));
        SL_TRY(sl_jinja_append(run, &buffer, text.data, bytes + (newline != NULL)));
        if (!newline) break;
        text = tail(text, bytes + 1);
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status filter_wordcount(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text;
    bool inside = false;
    size_t width;
    *out = sl_jinja_integer(0);
    SL_TRY(sl_jinja_str(run, args->self, &text));
    for (; text.bytes; text = tail(text, width)) {
        const uint32_t c = sl_jinja_utf8_decode(text, &width);
        const bool word = c == '_' || (c >= '0' && c <= '9') || sl_jinja_is_alpha(c);
        out->integer += word && !inside;
        inside = word;
    }
    return SL_OK;
}

/* '%s'|format(a, b) */
static sl_status filter_format(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text;
    jinja_value values = {.kind = JINJA_TUPLE};
    jinja_dict *named;
    const jinja_list list = {(jinja_value *)args->values, args->count};
    values.list = &list;
    SL_TRY(sl_jinja_str(run, args->self, &text));
    if (args->count && args->names[0].data) {
        SL_TRY(sl_jinja_dict_new(run, &named));
        for (size_t i = 0; i < args->count; i++)
            SL_TRY(sl_jinja_dict_set(run, named,
                                     sl_jinja_string(args->names[i].data, args->names[i].bytes),
                                     args->values[i]));
        values = (jinja_value){.kind = JINJA_DICT, .dict = named};
    }
    return sl_jinja_percent(run, text, values, out);
}

/* ---- numbers ---- */

/* Parses the whole text as a number; surrounding white space is allowed. */
static bool read_number(jinja_text text, int base, bool whole, jinja_value *out) {
    char copy[400], *end;
    text = sl_jinja_strip_right(sl_jinja_strip_left(text));
    if (text.bytes == 0 || text.bytes >= sizeof copy) return false;
    /* strtod would also accept 0x1p3. */
    if (base == 10 && memchr(text.data, 'x', text.bytes)) return false;
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\0';
    errno = 0;
    *out = whole ? sl_jinja_integer(strtoll(copy, &end, base)) : sl_jinja_float(strtod(copy, &end));
    return end == copy + text.bytes && !(whole && errno);
}

/* Truncates to an integer; false beyond 64 bits and for NaN. */
static bool truncate(double real, jinja_value *out) {
    if (!(real > -9.2e18 && real < 9.2e18)) return false;
    *out = sl_jinja_integer((int64_t)real);
    return true;
}

static sl_status filter_int(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value self = args->self;
    int64_t base = 10;
    jinja_value real;
    if (self.kind == JINJA_UNDEFINED)
        return JINJA_FAIL(run, "'%.*s' is undefined", JINJA_SHOW(self.text));
    if (sl_jinja_given(args->values[1]))
        SL_TRY(sl_jinja_want_integer(run, args->values[1], "int", &base));
    if (base < 0 || base == 1 || base > 36) return JINJA_FAIL(run, "int wants a base of 2 to 36");
    const bool given = args->values[0].kind != JINJA_UNDEFINED;
    *out = given ? args->values[0] : sl_jinja_integer(0);
    if (self.kind == JINJA_STRING) {
        jinja_value whole;
        if (read_number(self.text, (int)base, true, &whole))
            *out = whole;
        else if (read_number(self.text, 10, false, &real))
            (void)truncate(real.real, out);
    } else if (self.kind == JINJA_FLOAT) {
        if (!truncate(self.real, out) && isfinite(self.real))
            return JINJA_FAIL(run, "int of a float beyond 64 bits");
    } else if (sl_jinja_is_number(self)) {
        *out = sl_jinja_integer(self.kind == JINJA_BOOL ? self.boolean : self.integer);
    }
    return SL_OK;
}

static sl_status filter_float(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value self = args->self;
    jinja_value real;
    if (self.kind == JINJA_UNDEFINED)
        return JINJA_FAIL(run, "'%.*s' is undefined", JINJA_SHOW(self.text));
    const bool given = args->values[0].kind != JINJA_UNDEFINED;
    *out = given ? args->values[0] : sl_jinja_float(0);
    if (sl_jinja_is_number(self)) *out = sl_jinja_float(sl_jinja_real(self));
    if (self.kind == JINJA_STRING && read_number(self.text, 10, false, &real)) *out = real;
    return SL_OK;
}

static sl_status filter_abs(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value self = args->self;
    if (!sl_jinja_is_number(self))
        return JINJA_FAIL(run, "abs wants a number, not a %s", sl_jinja_kind_name(self.kind));
    *out = self.kind == JINJA_FLOAT ? sl_jinja_float(fabs(self.real)) : self;
    if (self.kind == JINJA_FLOAT || sl_jinja_real(self) >= 0)
        return sl_jinja_binary(run, JINJA_ADD, *out, sl_jinja_integer(0), out);
    return sl_jinja_binary(run, JINJA_SUBTRACT, sl_jinja_integer(0), self, out);
}

/* Rounds to `precision` decimals; ties of the exact binary value go to even, as in Python. */
static double round_common(double real, int64_t precision) {
    char text[400];
    if (!isfinite(real) || precision > 300) return real;
    if (precision < 0) {
        const double unit = pow(10, (double)-precision);
        return isfinite(unit) ? nearbyint(real / unit) * unit : 0 * real;
    }
    (void)snprintf(text, sizeof text, "%.*f", precision > 60 ? 60 : (int)precision, real);
    return strtod(text, NULL);
}

static sl_status filter_round(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value self = args->self;
    int64_t precision = 0;
    jinja_text method = JINJA_TEXT("common");
    if (!sl_jinja_is_number(self))
        return JINJA_FAIL(run, "round wants a number, not a %s", sl_jinja_kind_name(self.kind));
    if (sl_jinja_given(args->values[0]))
        SL_TRY(sl_jinja_want_integer(run, args->values[0], "round", &precision));
    if (sl_jinja_given(args->values[1]))
        SL_TRY(sl_jinja_want_text(run, args->values[1], "round", &method));
    const double real = sl_jinja_real(self), unit = pow(10, (double)precision);
    if (sl_jinja_text_equal(method, JINJA_TEXT("common"))) {
        const bool whole = self.kind != JINJA_FLOAT;
        if (whole && precision >= 0)
            return sl_jinja_binary(run, JINJA_ADD, self, sl_jinja_integer(0), out);
        *out = sl_jinja_float(round_common(real, precision));
        if (whole) (void)truncate(out->real, out);
        return SL_OK;
    }
    const bool up = sl_jinja_text_equal(method, JINJA_TEXT("ceil"));
    if (!up && !sl_jinja_text_equal(method, JINJA_TEXT("floor")))
        return JINJA_FAIL(run, "round wants common, ceil or floor, not '%.*s'", JINJA_SHOW(method));
    *out = sl_jinja_float((up ? ceil(real * unit) : floor(real * unit)) / unit);
    return SL_OK;
}

/* ---- JSON ---- */

static sl_status filter_tojson(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_json_style style = {.comma = JINJA_TEXT(", "), .colon = JINJA_TEXT(": ")};
    jinja_buffer buffer = {0};
    style.ascii = sl_jinja_truth(args->values[0]);
    style.sorted = sl_jinja_truth(args->values[3]);
    if (sl_jinja_given(args->values[1])) {
        SL_TRY(want_indent(run, args->values[1], &style.indent));
        style.comma = JINJA_TEXT(",");
    }
    if (sl_jinja_given(args->values[2])) {
        const jinja_list *separators;
        SL_TRY(sl_jinja_iterate(run, args->values[2], &separators));
        if (separators->count != 2) return JINJA_FAIL(run, "tojson wants two separators");
        SL_TRY(sl_jinja_want_text(run, separators->items[0], "tojson", &style.comma));
        SL_TRY(sl_jinja_want_text(run, separators->items[1], "tojson", &style.colon));
    }
    SL_TRY(sl_jinja_to_json(run, &style, args->self, &buffer));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status filter_center(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text;
    SL_TRY(sl_jinja_str(run, args->self, &text));
    const jinja_value values[2] = {
        args->values[0].kind == JINJA_UNDEFINED ? sl_jinja_integer(80) : args->values[0],
        sl_jinja_undefined(JINJA_TEXT("")),
    };
    const jinja_args wanted = {
        .self = sl_jinja_string(text.data, text.bytes), .values = values, .count = 2};
    return sl_jinja_find(sl_jinja_string_methods, JINJA_TEXT("center"))->call(run, &wanted, out);
}

/* Only attributes in Python's sense: methods, and the names of a namespace. */
static sl_status filter_attr(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text name;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "attr", &name));
    *out = sl_jinja_undefined(name);
    if (args->self.kind == JINJA_UNDEFINED)
        return JINJA_FAIL(run, "'%.*s' is undefined", JINJA_SHOW(args->self.text));
    const bool method = sl_jinja_find_method(args->self.kind, name) != NULL;
    if (!method && args->self.kind != JINJA_NAMESPACE) return SL_OK;
    return sl_jinja_attribute(run, args->self, name, out);
}

const jinja_builtin sl_jinja_scalar_filters[] = {
    {"safe", "", 0, filter_string},
    {"string", "", 0, filter_string},
    {"default", "default_value boolean", 0, filter_default},
    {"d", "default_value boolean", 0, filter_default},
    {"length", "", 0, filter_length},
    {"count", "", 0, filter_length},
    {"upper", "", 0, filter_upper},
    {"lower", "", 0, filter_lower},
    {"capitalize", "", 0, filter_capitalize},
    {"title", "", 0, filter_title},
    {"trim", "chars", 0, filter_trim},
    {"replace", "old new count", 2, filter_replace},
    {"escape", "", 0, filter_escape},
    {"e", "", 0, filter_escape},
    {"indent", "width first blank", 0, filter_indent},
    {"center", "width", 0, filter_center},
    {"attr", "name", 1, filter_attr},
    {"wordcount", "", 0, filter_wordcount},
    {"format", NULL, 0, filter_format},
    {"int", "default base", 0, filter_int},
    {"float", "default", 0, filter_float},
    {"abs", "", 0, filter_abs},
    {"round", "precision method", 0, filter_round},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson},
    {0},
};
