/* format.c - Formatting: the % operator, str.format, and dates. */
#include "engine/text/jinja/run.h"
#include <stdio.h>
#include <string.h>

/* One conversion, with the flags, width and precision between % and its letter. */
typedef struct {
    char letter;
    bool left, zero, plus;
    int width, precision; /* precision -1: not given */
} conversion;

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* At most 999, which keeps the buffers here small. */
static int read_number(const char **at, const char *end) {
    int number = 0;
    for (; *at < end && is_digit(**at); ++*at)
        if (number < 100) number = number * 10 + (**at - '0');
    return number;
}

static conversion read_conversion(const char **at, const char *end) {
    conversion spec = {.precision = -1};
    for (; *at < end && strchr("-0+ #", **at) && **at; ++*at) {
        spec.left |= **at == '-';
        spec.zero |= **at == '0';
        spec.plus |= **at == '+';
    }
    spec.width = read_number(at, end);
    if (*at < end && **at == '.') {
        ++*at;
        spec.precision = read_number(at, end);
    }
    if (*at < end) spec.letter = *(*at)++;
    return spec;
}

static sl_status append_padded(jinja_run *run, jinja_buffer *buffer, const conversion *spec,
                               jinja_text text) {
    const size_t width = (size_t)spec->width;
    const size_t padding = width > text.bytes ? width - text.bytes : 0;
    if (spec->left) SL_TRY(sl_jinja_append(run, buffer, text.data, text.bytes));
    for (size_t i = 0; i < padding; i++) SL_TRY(sl_jinja_append(run, buffer, " ", 1));
    return spec->left ? SL_OK : sl_jinja_append(run, buffer, text.data, text.bytes);
}

/* d i x X o with an integer, f F e E g G with any number. */
static sl_status append_number(jinja_run *run, jinja_buffer *buffer, const conversion *spec,
                               jinja_value value) {
    char pattern[16], text[2000];
    const bool real = strchr("fFeEgG", spec->letter) != NULL;
    if (!sl_jinja_is_number(value))
        return JINJA_FAIL(run, "%%%c wants a number, not a %s", spec->letter,
                          sl_jinja_kind_name(value.kind));
    const int precision = spec->precision < 0 ? (real ? 6 : 1) : spec->precision;
    const char *length = real ? "" : "ll";
    (void)snprintf(pattern, sizeof pattern, "%%%s%s%s*.*%s%c", spec->left ? "-" : "",
                   spec->plus ? "+" : "", spec->zero && (real || spec->precision < 0) ? "0" : "",
                   length, spec->letter);
    int bytes;
    /* C ignores "0" if an integer has a precision, so the width is passed as the precision. */
    const int digits =
        spec->zero && !real && !spec->left && spec->precision < 0 ? spec->width : precision;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (real) {
        bytes = snprintf(text, sizeof text, pattern, spec->width, precision, sl_jinja_real(value));
    } else {
        const double number = sl_jinja_real(value);
        if (value.kind == JINJA_FLOAT && !(number > -9e18 && number < 9e18))
            return JINJA_FAIL(run, "%%%c of a float beyond 64 bits", spec->letter);
        const long long whole = value.kind == JINJA_FLOAT     ? (long long)number
                                : value.kind == JINJA_INTEGER ? value.integer
                                                              : value.boolean;
        bytes = snprintf(text, sizeof text, pattern, spec->width,
                         whole < 0 && digits > precision ? digits - 1 : digits, whole);
    }
#pragma GCC diagnostic pop
    if (bytes < 0 || (size_t)bytes >= sizeof text) return JINJA_FAIL(run, "a number too wide");
    return sl_jinja_append(run, buffer, text, (size_t)bytes);
}

static sl_status append_converted(jinja_run *run, jinja_buffer *buffer, const conversion *spec,
                                  jinja_value value) {
    if (spec->letter && strchr("dixXofFeEgG", spec->letter))
        return append_number(run, buffer, spec, value);
    if (spec->letter != 's' && spec->letter != 'r')
        return JINJA_FAIL(run, "unknown conversion %%%c", spec->letter ? spec->letter : '?');
    jinja_buffer text = {0};
    if (spec->letter == 's') SL_TRY(sl_jinja_append_value(run, &text, value));
    if (spec->letter == 'r') SL_TRY(sl_jinja_repr(run, &text, value));
    return append_padded(run, buffer, spec, sl_jinja_buffer_value(&text).text);
}

sl_status sl_jinja_percent(jinja_run *run, jinja_text format, jinja_value values,
                           jinja_value *out) {
    const jinja_list single = {&values, 1};
    const jinja_list *list = values.kind == JINJA_TUPLE ? values.list : &single;
    size_t next = 0;
    jinja_buffer buffer = {0};
    const char *at = format.data, *end = format.data + format.bytes;
    while (at < end) {
        const char *mark = memchr(at, '%', (size_t)(end - at));
        const char *stop = mark ? mark : end;
        SL_TRY(sl_jinja_append(run, &buffer, at, (size_t)(stop - at)));
        if (!mark) break;
        at = mark + 1;
        jinja_value value = values;
        if (at < end && *at == '(') {
            const char *close = memchr(at, ')', (size_t)(end - at));
            if (!close || values.kind != JINJA_DICT)
                return JINJA_FAIL(run, "%%(name) wants a dict and ')'");
            SL_TRY(sl_jinja_item(run, values, sl_jinja_string(at + 1, (size_t)(close - at - 1)),
                                 &value));
            if (value.kind == JINJA_UNDEFINED)
                return JINJA_FAIL(run, "%%(name) is not in the dict");
            at = close + 1;
            const conversion spec = read_conversion(&at, end);
            SL_TRY(append_converted(run, &buffer, &spec, value));
            continue;
        }
        const conversion spec = read_conversion(&at, end);
        if (spec.letter == '%') {
            SL_TRY(sl_jinja_append(run, &buffer, "%", 1));
            continue;
        }
        if (next == list->count) return JINJA_FAIL(run, "%% wants more than %zu values", next);
        SL_TRY(append_converted(run, &buffer, &spec, list->items[next++]));
    }
    if (next < list->count && values.kind != JINJA_DICT && values.kind != JINJA_LIST)
        return JINJA_FAIL(run, "%% used %zu of %zu values", next, list->count);
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* The argument that a field of str.format refers to: "", "0" or "name". */
static sl_status find_field(jinja_run *run, const jinja_args *args, jinja_text name, size_t *next,
                            jinja_value *out) {
    size_t index = *next;
    if (name.bytes && is_digit(name.data[0])) {
        const char *at = name.data;
        index = (size_t)read_number(&at, name.data + name.bytes);
    } else if (name.bytes) {
        for (index = 0; index < args->count; index++)
            if (args->names[index].data && sl_jinja_text_equal(args->names[index], name)) break;
    } else {
        ++*next;
    }
    const bool found = index < args->count;
    if (!found) return JINJA_FAIL(run, "format has no argument for {%.*s}", JINJA_SHOW(name));
    *out = args->values[index];
    return SL_OK;
}

/* {name:spec}, where spec is like that of %: [<>][0][width][.precision][letter]. */
static sl_status append_field(jinja_run *run, jinja_buffer *buffer, const jinja_args *args,
                              jinja_text field, size_t *next) {
    jinja_value value;
    const char *end = field.data + field.bytes;
    const char *colon = field.bytes ? memchr(field.data, ':', field.bytes) : NULL;
    const jinja_text name = {field.data, (size_t)((colon ? colon : end) - field.data)};
    SL_TRY(find_field(run, args, name, next, &value));
    if (!colon) return sl_jinja_append_value(run, buffer, value);
    const char *at = colon + 1;
    const char side = at < end && (*at == '<' || *at == '>') ? *at++ : '\0';
    conversion spec = read_conversion(&at, end);
    const bool number = sl_jinja_is_number(value) && value.kind != JINJA_BOOL;
    if (!spec.letter) spec.letter = number && value.kind == JINJA_INTEGER ? 'd' : 's';
    spec.left = side == '<' || (!side && !number);
    return append_converted(run, buffer, &spec, value);
}

sl_status sl_jinja_format_method(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_text format = args->self.text;
    jinja_buffer buffer = {0};
    size_t next = 0;
    for (size_t i = 0; i < format.bytes; i++) {
        const char c = format.data[i];
        const bool doubled = i + 1 < format.bytes && format.data[i + 1] == c;
        if (c == '{' && !doubled) {
            const char *close = memchr(format.data + i, '}', format.bytes - i);
            if (!close) return JINJA_FAIL(run, "format has a '{' that is not closed");
            const jinja_text field = {format.data + i + 1, (size_t)(close - format.data) - i - 1};
            SL_TRY(append_field(run, &buffer, args, field, &next));
            i = (size_t)(close - format.data);
            continue;
        }
        if (c == '}' && !doubled) return JINJA_FAIL(run, "format has a '}' that closes nothing");
        SL_TRY(sl_jinja_append(run, &buffer, &c, 1));
        i += c == '{' || c == '}';
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* ---- dates ---- */

typedef struct {
    int year, month, day, hour, minute, second;
    int weekday, yearday; /* days since Sunday, and since January 1st */
} date;

static bool is_leap(int year) {
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static bool parse_date(jinja_text text, date *out) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    char copy[32];
    if (text.bytes >= sizeof copy) return false;
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\0';
    *out = (date){0};
    const int read = sscanf(copy, "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d", &out->year, &out->month,
                            &out->day, &out->hour, &out->minute, &out->second);
    if (read < 3 || out->year < 1 || out->month < 1 || out->month > 12 || out->day < 1)
        return false;
    const int leap = is_leap(out->year);
    const int days = before[out->month] - before[out->month - 1] + (leap && out->month == 2);
    if (out->day > days || out->hour < 0 || out->hour > 23 || out->minute < 0 || out->minute > 59 ||
        out->second < 0 || out->second > 59)
        return false;
    out->yearday = before[out->month - 1] + (leap && out->month > 2) + out->day - 1;
    const int past = out->year - 1; /* January 1st of year 1 was a Monday */
    out->weekday = (1 + past * 365 + past / 4 - past / 100 + past / 400 + out->yearday) % 7;
    return true;
}

/* Formats one conversion of strftime; returns 0 if it is unknown. */
static int format_date(const date *when, char letter, bool bare, char *text, size_t capacity) {
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    const int hour12 = when->hour % 12 ? when->hour % 12 : 12;
    const struct {
        char letter;
        int number, width;
    } numbers[] = {{'Y', when->year, 4},   {'m', when->month, 2},       {'d', when->day, 2},
                   {'H', when->hour, 2},   {'M', when->minute, 2},      {'S', when->second, 2},
                   {'I', hour12, 2},       {'j', when->yearday + 1, 3}, {'y', when->year % 100, 2},
                   {'w', when->weekday, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].letter == letter)
            return snprintf(text, capacity, "%0*d", bare ? 1 : numbers[i].width, numbers[i].number);
    switch (letter) {
    case 'B':
        return snprintf(text, capacity, "%s", months[when->month - 1]);
    case 'b':
        return snprintf(text, capacity, "%.3s", months[when->month - 1]);
    case 'A':
        return snprintf(text, capacity, "%s", days[when->weekday]);
    case 'a':
        return snprintf(text, capacity, "%.3s", days[when->weekday]);
    case 'e':
        return snprintf(text, capacity, "%2d", when->day);
    case 'p':
        return snprintf(text, capacity, "%s", when->hour < 12 ? "AM" : "PM");
    case 'F':
        return snprintf(text, capacity, "%04d-%02d-%02d", when->year, when->month, when->day);
    case 'T':
        return snprintf(text, capacity, "%02d:%02d:%02d", when->hour, when->minute, when->second);
    case '%':
        return snprintf(text, capacity, "%%");
    default:
        return 0;
    }
}

sl_status sl_jinja_strftime_now(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text format;
    date when;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_want_text(run, args->values[0], "strftime_now", &format));
    const jinja_value *now = sl_jinja_dict_find(run->variables, JINJA_TEXT("now"));
    if (!now || now->kind != JINJA_STRING || !parse_date(now->text, &when))
        return JINJA_FAIL(run, "strftime_now wants a variable 'now', as in 2024-07-26");
    for (size_t i = 0; i < format.bytes; i++) {
        if (format.data[i] != '%') {
            SL_TRY(sl_jinja_append(run, &buffer, format.data + i, 1));
            continue;
        }
        char text[32];
        const bool bare = i + 1 < format.bytes && format.data[i + 1] == '-';
        i += 1 + (size_t)bare;
        const char letter = i < format.bytes ? format.data[i] : '\0';
        const int bytes = format_date(&when, letter, bare, text, sizeof text);
        if (bytes <= 0) return JINJA_FAIL(run, "strftime_now does not know this letter after '%%'");
        SL_TRY(sl_jinja_append(run, &buffer, text, (size_t)bytes));
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}
