/* methods.c - Methods of strings, dicts, lists and loops. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <string.h>

static sl_status string_out(jinja_text text, jinja_value *out) {
    *out = sl_jinja_string(text.data, text.bytes);
    return SL_OK;
}
static jinja_text tail(jinja_text text, size_t from) {
    return (jinja_text){text.data + from, text.bytes - from};
}
static bool starts_with(jinja_text text, jinja_text start) {
    return text.bytes >= start.bytes &&
           sl_jinja_text_equal((jinja_text){text.data, start.bytes}, start);
}
static bool ends_with(jinja_text text, jinja_text end) {
    return text.bytes >= end.bytes && sl_jinja_text_equal(tail(text, text.bytes - end.bytes), end);
}
/* The offset of the first or last occurrence; text.bytes + 1 if there is none. */
static size_t find_first(jinja_text text, jinja_text part) {
    if (part.bytes == 0) return 0;
    const char *hit = text.bytes ? memmem(text.data, text.bytes, part.data, part.bytes) : NULL;
    return hit ? (size_t)(hit - text.data) : text.bytes + 1;
}
static size_t find_last(jinja_text text, jinja_text part) {
    for (size_t at = text.bytes + 1; at-- > 0;)
        if (starts_with(tail(text, at), part)) return at;
    return text.bytes + 1;
}

/* ---- strip ---- */

static bool is_one_of(jinja_text set, jinja_text character) {
    return find_first(set, character) <= set.bytes;
}

static jinja_text strip_set(jinja_text text, jinja_text set, bool left, bool right) {
    while (left && text.bytes) {
        size_t width;
        (void)sl_jinja_utf8_decode(text, &width);
        if (!is_one_of(set, (jinja_text){text.data, width})) break;
        text = tail(text, width);
    }
    while (right && text.bytes) {
        size_t start = text.bytes - 1;
        while (((unsigned char)text.data[start] & 0xC0) == 0x80) start--;
        if (!is_one_of(set, tail(text, start))) break;
        text.bytes = start;
    }
    return text;
}

static sl_status strip(jinja_run *run, const jinja_args *args, bool left, bool right,
                       jinja_value *out) {
    jinja_text text = args->self.text, set;
    if (sl_jinja_given(args->values[0])) {
        SL_TRY(sl_jinja_want_text(run, args->values[0], "strip", &set));
        return string_out(strip_set(text, set, left, right), out);
    }
    if (left) text = sl_jinja_strip_left(text);
    if (right) text = sl_jinja_strip_right(text);
    return string_out(text, out);
}
static sl_status string_strip(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return strip(run, args, true, true, out);
}
static sl_status string_lstrip(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return strip(run, args, true, false, out);
}
static sl_status string_rstrip(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return strip(run, args, false, true, out);
}

/* ---- split ---- */

typedef struct {
    jinja_value *items;
    size_t count, capacity;
} collection;

static sl_status collect(jinja_run *run, collection *to, jinja_text text) {
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity ? to->capacity * 2 : 8;
        jinja_value *grown;
        SL_TRY(sl_jinja_alloc(run, capacity, sizeof *grown, &grown));
        if (to->count) memcpy(grown, to->items, to->count * sizeof *grown);
        to->items = grown;
        to->capacity = capacity;
    }
    to->items[to->count++] = sl_jinja_string(text.data, text.bytes);
    return SL_OK;
}

static sl_status collected(jinja_run *run, const collection *from, jinja_value *out) {
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, 0, &list));
    *list = (jinja_list){from->items, from->count};
    *out = (jinja_value){.kind = JINJA_LIST, .list = list};
    return SL_OK;
}

/* The length of the word at the start of the text. */
static size_t word_bytes(jinja_text text) {
    size_t at = 0, width;
    while (at < text.bytes && !sl_jinja_is_space(sl_jinja_utf8_decode(tail(text, at), &width)))
        at += width;
    return at;
}

static sl_status split_words(jinja_run *run, jinja_text text, int64_t limit, jinja_value *out) {
    collection words = {0};
    text = sl_jinja_strip_left(text);
    while (text.bytes) {
        const bool last = limit >= 0 && (int64_t)words.count == limit;
        const size_t bytes = last ? text.bytes : word_bytes(text);
        SL_TRY(collect(run, &words, (jinja_text){text.data, bytes}));
        text = sl_jinja_strip_left(tail(text, bytes));
    }
    return collected(run, &words, out);
}

static sl_status split_forward(jinja_run *run, jinja_text text, jinja_text by, int64_t limit,
                               collection *parts) {
    for (; limit != 0; limit--) {
        const size_t at = find_first(text, by);
        if (at > text.bytes) break;
        SL_TRY(collect(run, parts, (jinja_text){text.data, at}));
        text = tail(text, at + by.bytes);
    }
    return collect(run, parts, text);
}

static sl_status split_backward(jinja_run *run, jinja_text text, jinja_text by, int64_t limit,
                                collection *parts) {
    for (; limit != 0; limit--) {
        const size_t at = find_last(text, by);
        if (at > text.bytes) break;
        SL_TRY(collect(run, parts, tail(text, at + by.bytes)));
        text.bytes = at;
    }
    SL_TRY(collect(run, parts, text));
    for (size_t i = 0, j = parts->count - 1; i < j; i++, j--) {
        const jinja_value swapped = parts->items[i];
        parts->items[i] = parts->items[j];
        parts->items[j] = swapped;
    }
    return SL_OK;
}

static sl_status split(jinja_run *run, const jinja_args *args, bool backward, jinja_value *out) {
    int64_t limit = -1;
    jinja_text by;
    collection parts = {0};
    if (sl_jinja_given(args->values[1]))
        SL_TRY(sl_jinja_want_integer(run, args->values[1], "split", &limit));
    if (!sl_jinja_given(args->values[0])) {
        if (backward && limit >= 0)
            return JINJA_FAIL(run, "rsplit of words takes no maxsplit here");
        return split_words(run, args->self.text, limit, out);
    }
    SL_TRY(sl_jinja_want_text(run, args->values[0], "split", &by));
    if (by.bytes == 0) return JINJA_FAIL(run, "split by an empty str");
    SL_TRY((backward ? split_backward : split_forward)(run, args->self.text, by, limit, &parts));
    return collected(run, &parts, out);
}
static sl_status string_split(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return split(run, args, false, out);
}
static sl_status string_rsplit(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return split(run, args, true, out);
}

static sl_status string_splitlines(jinja_run *run, const jinja_args *args, jinja_value *out) {
    collection lines = {0};
    const bool keep = sl_jinja_truth(args->values[0]);
    for (jinja_text text = args->self.text; text.bytes;) {
        size_t end = 0;
        while (end < text.bytes && text.data[end] != '\n' && text.data[end] != '\r') end++;
        size_t next = end + (end < text.bytes);
        if (next < text.bytes && text.data[end] == '\r' && text.data[next] == '\n') next++;
        SL_TRY(collect(run, &lines, (jinja_text){text.data, keep ? next : end}));
        text = tail(text, next);
    }
    return collected(run, &lines, out);
}

static sl_status partition(jinja_run *run, const jinja_args *args, bool last, jinja_value *out) {
    const jinja_text text = args->self.text;
    jinja_text by;
    jinja_list *list;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "partition", &by));
    if (by.bytes == 0) return JINJA_FAIL(run, "partition by an empty str");
    SL_TRY(sl_jinja_list_new(run, 3, &list));
    for (size_t i = 0; i < 3; i++) list->items[i] = sl_jinja_string("", 0);
    const size_t at = (last ? find_last : find_first)(text, by);
    *out = (jinja_value){.kind = JINJA_TUPLE, .list = list};
    if (at > text.bytes) return string_out(text, &list->items[last ? 2 : 0]);
    list->items[0] = sl_jinja_string(text.data, at);
    list->items[1] = sl_jinja_string(by.data, by.bytes);
    return string_out(tail(text, at + by.bytes), &list->items[2]);
}
static sl_status string_partition(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return partition(run, args, false, out);
}
static sl_status string_rpartition(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return partition(run, args, true, out);
}

/* ---- find ---- */

typedef bool affix_test(jinja_text text, jinja_text affix);
static sl_status has_affix(jinja_run *run, const jinja_args *args, affix_test *test,
                           jinja_value *out) {
    const jinja_value wanted = args->values[0];
    const jinja_list single = {(jinja_value *)&args->values[0], 1};
    const jinja_list *list = wanted.kind == JINJA_TUPLE ? wanted.list : &single;
    *out = sl_jinja_bool(false);
    for (size_t i = 0; i < list->count && !out->boolean; i++) {
        jinja_text affix;
        SL_TRY(sl_jinja_want_text(run, list->items[i], "startswith or endswith", &affix));
        out->boolean = test(args->self.text, affix);
    }
    return SL_OK;
}
static sl_status string_startswith(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return has_affix(run, args, starts_with, out);
}
static sl_status string_endswith(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return has_affix(run, args, ends_with, out);
}

static sl_status string_removeprefix(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text = args->self.text, affix;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "removeprefix", &affix));
    return string_out(starts_with(text, affix) ? tail(text, affix.bytes) : text, out);
}
static sl_status string_removesuffix(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text = args->self.text, affix;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "removesuffix", &affix));
    if (ends_with(text, affix)) text.bytes -= affix.bytes;
    return string_out(text, out);
}

/* The part of the text between two optional positions, which count characters; *out_start is the
 * first position in characters.  False: the start is after the end of the text. */
static sl_status window(jinja_run *run, const jinja_args *args, jinja_text *out, int64_t *out_start,
                        bool *out_inside) {
    const jinja_text text = args->self.text;
    const int64_t count = (int64_t)sl_jinja_utf8_count(text);
    int64_t bounds[2] = {0, count};
    for (size_t i = 0; i < 2; i++) {
        if (!sl_jinja_given(args->values[1 + i])) continue;
        SL_TRY(sl_jinja_want_integer(run, args->values[1 + i], "a position", &bounds[i]));
        if (bounds[i] < 0) bounds[i] += count;
        if (bounds[i] < 0) bounds[i] = 0;
        if (i == 1 && bounds[i] > count) bounds[i] = count;
    }
    *out_inside = bounds[0] <= count && bounds[0] <= bounds[1];
    *out_start = bounds[0];
    if (!*out_inside) return SL_OK;
    const size_t start = sl_jinja_utf8_offset(text, (size_t)bounds[0]);
    *out = (jinja_text){text.data + start, sl_jinja_utf8_offset(text, (size_t)bounds[1]) - start};
    return SL_OK;
}

/* The position in characters; -1 if the part does not occur. */
static sl_status find_position(jinja_run *run, const jinja_args *args, bool last, int64_t *out) {
    jinja_text text, part;
    bool inside;
    int64_t start;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "find", &part));
    SL_TRY(window(run, args, &text, &start, &inside));
    const size_t at = inside ? (last ? find_last : find_first)(text, part) : 0;
    *out = -1;
    if (inside && at <= text.bytes)
        *out = start + (int64_t)sl_jinja_utf8_count((jinja_text){text.data, at});
    return SL_OK;
}
static sl_status string_find(jinja_run *run, const jinja_args *args, jinja_value *out) {
    *out = sl_jinja_integer(0);
    return find_position(run, args, false, &out->integer);
}
static sl_status string_rfind(jinja_run *run, const jinja_args *args, jinja_value *out) {
    *out = sl_jinja_integer(0);
    return find_position(run, args, true, &out->integer);
}
static sl_status string_index(jinja_run *run, const jinja_args *args, jinja_value *out) {
    SL_TRY(string_find(run, args, out));
    return out->integer < 0 ? JINJA_FAIL(run, "index: substring not found") : SL_OK;
}

static sl_status string_rindex(jinja_run *run, const jinja_args *args, jinja_value *out) {
    SL_TRY(string_rfind(run, args, out));
    return out->integer < 0 ? JINJA_FAIL(run, "rindex: substring not found") : SL_OK;
}

static sl_status string_count(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text, part;
    bool inside;
    int64_t start, count = 0;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "count", &part));
    SL_TRY(window(run, args, &text, &start, &inside));
    *out = sl_jinja_integer(0);
    if (!inside) return SL_OK;
    if (part.bytes == 0) count = (int64_t)sl_jinja_utf8_count(text) + 1;
    for (size_t at; part.bytes && (at = find_first(text, part)) <= text.bytes; count++)
        text = tail(text, at + part.bytes);
    *out = sl_jinja_integer(count);
    return SL_OK;
}

/* ---- methods that are also filters ---- */

/* Calls the filter of the same name with the string and the same arguments. */
static sl_status as_filter(jinja_run *run, const char *name, const jinja_args *args,
                           jinja_value *out) {
    const jinja_text text = {name, strlen(name)};
    return sl_jinja_find_filter(text)->call(run, args, out);
}
static sl_status string_upper(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return as_filter(run, "upper", args, out);
}
static sl_status string_lower(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return as_filter(run, "lower", args, out);
}
static sl_status string_capitalize(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return as_filter(run, "capitalize", args, out);
}
static sl_status string_replace(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text text;
    SL_TRY(sl_jinja_want_text(run, args->values[0], "replace", &text));
    SL_TRY(sl_jinja_want_text(run, args->values[1], "replace", &text));
    return as_filter(run, "replace", args, out);
}

static sl_status string_join(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_list *items;
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_iterate(run, args->values[0], &items));
    for (size_t i = 0; i < items->count; i++) {
        jinja_text text;
        SL_TRY(sl_jinja_want_text(run, items->items[i], "join", &text));
        if (i) SL_TRY(sl_jinja_append_value(run, &buffer, args->self));
        SL_TRY(sl_jinja_append(run, &buffer, text.data, text.bytes));
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* A letter after another letter becomes lower case, any other upper case. */
static sl_status string_title(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_buffer buffer = {0};
    bool inside = false;
    size_t width;
    for (jinja_text text = args->self.text; text.bytes; text = tail(text, width)) {
        char bytes[4];
        const uint32_t c = sl_jinja_utf8_decode(text, &width);
        const uint32_t changed = inside ? sl_jinja_lower(c) : sl_jinja_upper(c);
        SL_TRY(sl_jinja_append(run, &buffer, bytes, sl_utf8_encode(changed, bytes)));
        inside = sl_jinja_is_alpha(c);
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status string_swapcase(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_buffer buffer = {0};
    size_t width;
    for (jinja_text text = args->self.text; text.bytes; text = tail(text, width)) {
        char bytes[4];
        const uint32_t c = sl_jinja_utf8_decode(text, &width), lower = sl_jinja_lower(c);
        const uint32_t changed = lower != c ? lower : sl_jinja_upper(c);
        SL_TRY(sl_jinja_append(run, &buffer, bytes, sl_utf8_encode(changed, bytes)));
    }
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* ---- padding ---- */

static sl_status append_times(jinja_run *run, jinja_buffer *buffer, jinja_text fill,
                              int64_t times) {
    if (times > JINJA_MAX_TEXT_BYTES)
        return JINJA_FAIL(run, "a text of more than %d bytes", JINJA_MAX_TEXT_BYTES);
    SL_TRY(sl_jinja_charge(run, times > 0 ? (uint64_t)times / 16 : 0));
    for (; times > 0; times--) SL_TRY(sl_jinja_append(run, buffer, fill.data, fill.bytes));
    return SL_OK;
}

/* The text with sides[0] fills before and sides[1] after it. */
static sl_status pad(jinja_run *run, jinja_text text, jinja_text fill, const int64_t sides[2],
                     jinja_value *out) {
    jinja_buffer buffer = {0};
    SL_TRY(append_times(run, &buffer, fill, sides[0]));
    SL_TRY(sl_jinja_append(run, &buffer, text.data, text.bytes));
    SL_TRY(append_times(run, &buffer, fill, sides[1]));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* The number of missing fills, and the fill. */
static sl_status missing(jinja_run *run, const jinja_args *args, int64_t *out, jinja_text *fill) {
    int64_t width = 0;
    *fill = JINJA_TEXT(" ");
    SL_TRY(sl_jinja_want_integer(run, args->values[0], "a width", &width));
    if (sl_jinja_given(args->values[1]))
        SL_TRY(sl_jinja_want_text(run, args->values[1], "a fill", fill));
    if (sl_jinja_utf8_count(*fill) != 1)
        return JINJA_FAIL(run, "a fill of other than one character");
    const int64_t count = (int64_t)sl_jinja_utf8_count(args->self.text);
    *out = width > count ? width - count : 0;
    return SL_OK;
}

static sl_status string_ljust(jinja_run *run, const jinja_args *args, jinja_value *out) {
    int64_t sides[2] = {0, 0};
    jinja_text fill;
    SL_TRY(missing(run, args, &sides[1], &fill));
    return pad(run, args->self.text, fill, sides, out);
}
static sl_status string_rjust(jinja_run *run, const jinja_args *args, jinja_value *out) {
    int64_t sides[2] = {0, 0};
    jinja_text fill;
    SL_TRY(missing(run, args, &sides[0], &fill));
    return pad(run, args->self.text, fill, sides, out);
}
/* If the padding is odd, the extra fill goes to the left if the width is odd, as in Python. */
static sl_status string_center(jinja_run *run, const jinja_args *args, jinja_value *out) {
    int64_t count, width = 0;
    jinja_text fill;
    SL_TRY(missing(run, args, &count, &fill));
    SL_TRY(sl_jinja_want_integer(run, args->values[0], "a width", &width));
    const int64_t left = count / 2 + (count & width & 1);
    const int64_t sides[2] = {left, count - left};
    return pad(run, args->self.text, fill, sides, out);
}
static sl_status string_zfill(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value values[2] = {args->values[0], sl_jinja_string("0", 1)};
    const jinja_text text = args->self.text;
    const bool sign = text.bytes && (text.data[0] == '-' || text.data[0] == '+');
    const jinja_args wanted = {.self = args->self, .values = values, .count = 2};
    jinja_buffer buffer = {0};
    int64_t count;
    jinja_text fill;
    SL_TRY(missing(run, &wanted, &count, &fill));
    if (sign) SL_TRY(sl_jinja_append(run, &buffer, text.data, 1));
    SL_TRY(append_times(run, &buffer, fill, count));
    SL_TRY(sl_jinja_append(run, &buffer, text.data + sign, text.bytes - sign));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

/* ---- character classes of a string ---- */

typedef bool character_test(uint32_t character);
static bool is_digit(uint32_t c) {
    return c >= '0' && c <= '9';
}
static bool is_alnum(uint32_t c) {
    return is_digit(c) || sl_jinja_is_alpha(c);
}

static sl_status all_are(jinja_text text, character_test *test, jinja_value *out) {
    size_t width;
    *out = sl_jinja_bool(text.bytes > 0);
    for (; text.bytes && out->boolean; text = tail(text, width))
        out->boolean = test(sl_jinja_utf8_decode(text, &width));
    return SL_OK;
}
static sl_status string_isdigit(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    return all_are(args->self.text, is_digit, out);
}
static sl_status string_isalpha(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    return all_are(args->self.text, sl_jinja_is_alpha, out);
}
static sl_status string_isalnum(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    return all_are(args->self.text, is_alnum, out);
}
static sl_status string_isspace(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    return all_are(args->self.text, sl_jinja_is_space, out);
}

static sl_status string_isascii(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    *out = sl_jinja_bool(true);
    for (size_t i = 0; i < args->self.text.bytes; i++)
        if ((unsigned char)args->self.text.data[i] >= 0x80) out->boolean = false;
    return SL_OK;
}

/* At least one cased letter, and none that the conversion would change. */
static sl_status is_cased(jinja_text text, bool upper, jinja_value *out) {
    size_t width;
    bool some = false, wrong = false;
    for (; text.bytes; text = tail(text, width)) {
        const uint32_t c = sl_jinja_utf8_decode(text, &width);
        const bool is_upper = sl_jinja_lower(c) != c, is_lower = sl_jinja_upper(c) != c;
        some |= upper ? is_upper : is_lower;
        wrong |= upper ? is_lower : is_upper;
    }
    *out = sl_jinja_bool(some && !wrong);
    return SL_OK;
}
static sl_status string_isupper(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    return is_cased(args->self.text, true, out);
}
static sl_status string_islower(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    return is_cased(args->self.text, false, out);
}

const jinja_builtin sl_jinja_string_methods[] = {
    {"strip", "chars", 0, string_strip},
    {"lstrip", "chars", 0, string_lstrip},
    {"rstrip", "chars", 0, string_rstrip},
    {"split", "sep maxsplit", 0, string_split},
    {"rsplit", "sep maxsplit", 0, string_rsplit},
    {"splitlines", "keepends", 0, string_splitlines},
    {"partition", "sep", 1, string_partition},
    {"rpartition", "sep", 1, string_rpartition},
    {"startswith", "prefix", 1, string_startswith},
    {"endswith", "suffix", 1, string_endswith},
    {"removeprefix", "prefix", 1, string_removeprefix},
    {"removesuffix", "suffix", 1, string_removesuffix},
    {"find", "sub start end", 1, string_find},
    {"rfind", "sub start end", 1, string_rfind},
    {"index", "sub start end", 1, string_index},
    {"rindex", "sub start end", 1, string_rindex},
    {"count", "sub start end", 1, string_count},
    {"swapcase", "", 0, string_swapcase},
    {"casefold", "", 0, string_lower},
    {"ljust", "width fillchar", 1, string_ljust},
    {"rjust", "width fillchar", 1, string_rjust},
    {"center", "width fillchar", 1, string_center},
    {"zfill", "width", 1, string_zfill},
    {"isascii", "", 0, string_isascii},
    {"replace", "old new count", 2, string_replace},
    {"upper", "", 0, string_upper},
    {"lower", "", 0, string_lower},
    {"title", "", 0, string_title},
    {"capitalize", "", 0, string_capitalize},
    {"join", "iterable", 1, string_join},
    {"format", NULL, 0, sl_jinja_format_method},
    {"isdigit", "", 0, string_isdigit},
    {"isdecimal", "", 0, string_isdigit},
    {"isnumeric", "", 0, string_isdigit},
    {"isalpha", "", 0, string_isalpha},
    {"isalnum", "", 0, string_isalnum},
    {"isspace", "", 0, string_isspace},
    {"isupper", "", 0, string_isupper},
    {"islower", "", 0, string_islower},
    {0},
};
