/* operate.c - Operators, attributes, items and slices, with Python's semantics. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <math.h>
#include <string.h>

static sl_status overflow(jinja_run *run) {
    return JINJA_FAIL(run, "an integer beyond 64 bits");
}
static sl_status by_zero(jinja_run *run) {
    return JINJA_FAIL(run, "division by zero");
}

static int64_t floor_divide(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
/* Has the sign of b. */
static int64_t floor_modulo(int64_t a, int64_t b) {
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static sl_status integer_power(jinja_run *run, int64_t base, int64_t exponent, jinja_value *out) {
    int64_t result = 1;
    if (exponent < 0) {
        if (base == 0) return by_zero(run);
        *out = sl_jinja_float(pow((double)base, (double)exponent));
        return SL_OK;
    }
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return overflow(run);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return overflow(run);
    }
    *out = sl_jinja_integer(result);
    return SL_OK;
}

static sl_status integers(jinja_run *run, jinja_op op, int64_t a, int64_t b, jinja_value *out) {
    int64_t result = 0;
    bool over = false;
    switch (op) {
    case JINJA_ADD:
        over = __builtin_add_overflow(a, b, &result);
        break;
    case JINJA_SUBTRACT:
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_MULTIPLY:
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_POWER:
        return integer_power(run, a, b, out);
    default:
        if (b == 0) return by_zero(run);
        if (op == JINJA_DIVIDE) {
            *out = sl_jinja_float((double)a / (double)b);
            return SL_OK;
        }
        over = a == INT64_MIN && b == -1;
        if (!over) result = floor_divide(a, b);
        if (!over && op == JINJA_MODULO) result = floor_modulo(a, b);
    }
    if (over) return overflow(run);
    *out = sl_jinja_integer(result);
    return SL_OK;
}

static sl_status reals(jinja_run *run, jinja_op op, double a, double b, jinja_value *out) {
    double result;
    switch (op) {
    case JINJA_ADD:
        result = a + b;
        break;
    case JINJA_SUBTRACT:
        result = a - b;
        break;
    case JINJA_MULTIPLY:
        result = a * b;
        break;
    case JINJA_POWER:
        result = pow(a, b);
        if (!isfinite(result) && isfinite(a) && isfinite(b))
            return JINJA_FAIL(run, "a power that is not a real number");
        break;
    default:
        if (b == 0) return by_zero(run);
        result = fmod(a, b);
        if (result != 0 && (result < 0) != (b < 0)) result += b;
        if (op == JINJA_DIVIDE) result = a / b;
        if (op == JINJA_FLOOR_DIVIDE) result = floor(a / b);
    }
    *out = sl_jinja_float(result);
    return SL_OK;
}

static sl_status join_texts(jinja_run *run, jinja_text a, jinja_text b, jinja_value *out) {
    char *text;
    if (a.bytes + b.bytes > JINJA_MAX_TEXT_BYTES)
        return JINJA_FAIL(run, "a text of more than %d bytes", JINJA_MAX_TEXT_BYTES);
    SL_TRY(sl_jinja_charge(run, (a.bytes + b.bytes) / 64));
    SL_TRY(sl_jinja_alloc(run, a.bytes + b.bytes + 1, 1, &text));
    if (a.bytes) memcpy(text, a.data, a.bytes);
    if (b.bytes) memcpy(text + a.bytes, b.data, b.bytes);
    *out = sl_jinja_string(text, a.bytes + b.bytes);
    return SL_OK;
}

static sl_status join_lists(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out) {
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, a.list->count + b.list->count, &list));
    if (a.list->count) memcpy(list->items, a.list->items, a.list->count * sizeof *list->items);
    if (b.list->count)
        memcpy(list->items + a.list->count, b.list->items, b.list->count * sizeof *list->items);
    *out = (jinja_value){.kind = a.kind, .list = list};
    return SL_OK;
}

static sl_status repeat_text(jinja_run *run, jinja_text text, int64_t times, jinja_value *out) {
    jinja_buffer buffer = {0};
    SL_TRY(sl_jinja_charge(run, text.bytes && times > 0 ? (uint64_t)times / 8 : 0));
    for (int64_t i = 0; text.bytes && i < times; i++)
        SL_TRY(sl_jinja_append(run, &buffer, text.data, text.bytes));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status repeat(jinja_run *run, jinja_value what, int64_t times, jinja_value *out) {
    if (what.kind == JINJA_STRING) return repeat_text(run, what.text, times, out);
    const size_t count = what.list->count;
    jinja_list *list;
    size_t total = 0;
    if (times > 0 && __builtin_mul_overflow(count, (size_t)times, &total)) return overflow(run);
    SL_TRY(sl_jinja_list_new(run, total, &list));
    for (size_t i = 0; i < total; i++) list->items[i] = what.list->items[i % count];
    *out = (jinja_value){.kind = what.kind, .list = list};
    return SL_OK;
}

static bool is_whole(jinja_value value) {
    return value.kind == JINJA_INTEGER || value.kind == JINJA_BOOL;
}
static int64_t whole(jinja_value value) {
    return value.kind == JINJA_BOOL ? value.boolean : value.integer;
}
static bool is_sequence(jinja_value value) {
    return value.kind == JINJA_STRING || value.kind == JINJA_LIST || value.kind == JINJA_TUPLE;
}

static sl_status undefined_used(jinja_run *run, jinja_value value) {
    return JINJA_FAIL(run, "'%.*s' is undefined", JINJA_SHOW(value.text));
}

sl_status sl_jinja_binary(jinja_run *run, jinja_op op, jinja_value a, jinja_value b,
                          jinja_value *out) {
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**", "~"};
    if (op == JINJA_CONCAT) {
        jinja_text left, right;
        SL_TRY(sl_jinja_str(run, a, &left));
        SL_TRY(sl_jinja_str(run, b, &right));
        return join_texts(run, left, right, out);
    }
    if (is_whole(a) && is_whole(b)) return integers(run, op, whole(a), whole(b), out);
    if (sl_jinja_is_number(a) && sl_jinja_is_number(b))
        return reals(run, op, sl_jinja_real(a), sl_jinja_real(b), out);
    if (op == JINJA_ADD && a.kind == b.kind && is_sequence(a))
        return a.kind == JINJA_STRING ? join_texts(run, a.text, b.text, out)
                                      : join_lists(run, a, b, out);
    if (op == JINJA_MULTIPLY && is_sequence(a) && is_whole(b)) return repeat(run, a, whole(b), out);
    if (op == JINJA_MULTIPLY && is_sequence(b) && is_whole(a)) return repeat(run, b, whole(a), out);
    if (op == JINJA_MODULO && a.kind == JINJA_STRING) return sl_jinja_percent(run, a.text, b, out);
    if (a.kind == JINJA_UNDEFINED) return undefined_used(run, a);
    if (b.kind == JINJA_UNDEFINED) return undefined_used(run, b);
    return JINJA_FAIL(run, "no '%s' of a %s and a %s", names[op], sl_jinja_kind_name(a.kind),
                      sl_jinja_kind_name(b.kind));
}

sl_status sl_jinja_compare(jinja_run *run, jinja_op op, jinja_value a, jinja_value b, bool *out) {
    int order;
    bool truth;
    switch (op) {
    case JINJA_EQUAL:
    case JINJA_NOT_EQUAL:
        SL_TRY(sl_jinja_equal(run, a, b, &truth));
        *out = truth == (op == JINJA_EQUAL);
        return SL_OK;
    case JINJA_IN:
    case JINJA_NOT_IN:
        SL_TRY(sl_jinja_contains(run, b, a, &truth));
        *out = truth == (op == JINJA_IN);
        return SL_OK;
    default:
        if (a.kind == JINJA_UNDEFINED) return undefined_used(run, a);
        if (b.kind == JINJA_UNDEFINED) return undefined_used(run, b);
        SL_TRY(sl_jinja_order(run, a, b, &order));
        *out = op == JINJA_LESS         ? order < 0
               : op == JINJA_LESS_EQUAL ? order <= 0
               : op == JINJA_GREATER    ? order > 0
                                        : order >= 0;
        return SL_OK;
    }
}

static bool loop_attribute(const jinja_loop *loop, jinja_text name, jinja_value *out) {
    const int64_t index = (int64_t)loop->index, count = (int64_t)loop->items->count;
    const struct {
        const char *name;
        jinja_value value;
    } rows[] = {
        {"index", sl_jinja_integer(index + 1)},
        {"index0", sl_jinja_integer(index)},
        {"revindex", sl_jinja_integer(count - index)},
        {"revindex0", sl_jinja_integer(count - index - 1)},
        {"first", sl_jinja_bool(index == 0)},
        {"last", sl_jinja_bool(index + 1 == count)},
        {"length", sl_jinja_integer(count)},
        {"depth", sl_jinja_integer(loop->depth + 1)},
        {"depth0", sl_jinja_integer(loop->depth)},
        {"previtem", index > 0 ? loop->items->items[index - 1] : sl_jinja_undefined(name)},
        {"nextitem", index + 1 < count ? loop->items->items[index + 1] : sl_jinja_undefined(name)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!sl_jinja_text_equal(name, (jinja_text){rows[i].name, strlen(rows[i].name)})) continue;
        *out = rows[i].value;
        return true;
    }
    return false;
}

/* Methods that would modify a list or dict: hidden, as in Jinja's immutable sandbox. */
static bool is_hidden(jinja_kind kind, jinja_text name) {
    static const char *const names[] = {"append",  "extend",     "insert", "remove",
                                        "sort",    "reverse",    "clear",  "pop",
                                        "popitem", "setdefault", "update"};
    const size_t first = kind == JINJA_DICT ? 6 : 0, end = kind == JINJA_DICT ? 11 : 8;
    if (kind != JINJA_LIST && kind != JINJA_DICT) return false;
    for (size_t i = first; i < end; i++)
        if (sl_jinja_text_equal(name, (jinja_text){names[i], strlen(names[i])})) return true;
    return false;
}

/* The attribute `name` of the object itself, not its items; false if there is none. */
static sl_status own_attribute(jinja_run *run, jinja_value object, jinja_text name,
                               jinja_value *out, bool *found) {
    *found = true;
    *out = sl_jinja_undefined(name);
    if (is_hidden(object.kind, name)) return SL_OK;
    if (object.kind == JINJA_LOOP && loop_attribute(object.loop, name, out)) return SL_OK;
    if (object.kind == JINJA_NAMESPACE) {
        const jinja_value *value;
        SL_TRY(sl_jinja_dict_find(run, object.dict, name, &value));
        if (value) *out = *value;
        if (value) return SL_OK;
    }
    if (object.kind == JINJA_MACRO && sl_jinja_text_equal(name, JINJA_TEXT("name"))) {
        const jinja_text macro = object.macro->node->text;
        *out = sl_jinja_string(macro.data, macro.bytes);
        return SL_OK;
    }
    const jinja_builtin *method = sl_jinja_find_method(object.kind, name);
    *found = method != NULL;
    if (!method) return SL_OK;
    jinja_function *function;
    SL_TRY(sl_jinja_alloc(run, 1, sizeof *function, &function));
    *function = (jinja_function){method, object};
    *out = (jinja_value){.kind = JINJA_FUNCTION, .function = function};
    return SL_OK;
}

sl_status sl_jinja_attribute(jinja_run *run, jinja_value object, jinja_text name,
                             jinja_value *out) {
    bool found;
    if (object.kind == JINJA_UNDEFINED) return undefined_used(run, object);
    SL_TRY(own_attribute(run, object, name, out, &found));
    if (found || object.kind != JINJA_DICT) return SL_OK;
    const jinja_value *value;
    SL_TRY(sl_jinja_dict_find(run, object.dict, name, &value));
    if (value) *out = *value;
    return SL_OK;
}

static sl_status indexed(jinja_run *run, jinja_value object, int64_t index, jinja_value *out) {
    const bool is_text = object.kind == JINJA_STRING;
    if (is_text) SL_TRY(sl_jinja_charge(run, object.text.bytes / 64));
    const size_t count = is_text ? sl_jinja_utf8_count(object.text) : object.list->count;
    if (index < 0) index += (int64_t)count;
    *out = sl_jinja_undefined(JINJA_TEXT("item beyond the end"));
    if (index < 0 || index >= (int64_t)count) return SL_OK;
    if (is_text) {
        const size_t start = sl_jinja_utf8_offset(object.text, (size_t)index);
        size_t width;
        (void)sl_jinja_utf8_decode(
            (jinja_text){object.text.data + start, object.text.bytes - start}, &width);
        *out = sl_jinja_string(object.text.data + start, width);
    } else {
        *out = object.list->items[index];
    }
    return SL_OK;
}

sl_status sl_jinja_item(jinja_run *run, jinja_value object, jinja_value key, jinja_value *out) {
    if (object.kind == JINJA_UNDEFINED) return undefined_used(run, object);
    *out = sl_jinja_undefined(key.kind == JINJA_STRING ? key.text : JINJA_TEXT("item"));
    if (is_sequence(object) && is_whole(key)) return indexed(run, object, whole(key), out);
    if (object.kind == JINJA_DICT) {
        const jinja_value *value = NULL;
        const bool hashable = key.kind != JINJA_LIST && key.kind != JINJA_DICT;
        if (hashable && key.kind != JINJA_UNDEFINED)
            SL_TRY(sl_jinja_dict_get(run, object.dict, key, &value));
        if (value) *out = *value;
        if (value) return SL_OK;
    }
    bool found;
    return key.kind == JINJA_STRING ? own_attribute(run, object, key.text, out, &found) : SL_OK;
}

/* If a bound is given, replaces *out (the default) by it, clamped to the range of count items. */
static sl_status slice_bound(jinja_run *run, jinja_value bound, int64_t count, bool backwards,
                             int64_t *out) {
    if (bound.kind == JINJA_NONE) return SL_OK;
    const int64_t low = backwards ? -1 : 0, high = backwards ? count - 1 : count;
    int64_t value;
    SL_TRY(sl_jinja_want_integer(run, bound, "a slice", &value));
    if (value < 0) value += count;
    *out = value < low ? low : value > high ? high : value;
    return SL_OK;
}

sl_status sl_jinja_slice(jinja_run *run, jinja_value object, const jinja_value *bounds,
                         jinja_value *out) {
    int64_t step = 1;
    const jinja_list *from;
    if (object.kind == JINJA_UNDEFINED) return undefined_used(run, object);
    if (!is_sequence(object))
        return JINJA_FAIL(run, "a %s has no slices", sl_jinja_kind_name(object.kind));
    SL_TRY(sl_jinja_iterate(run, object, &from));
    const int64_t count = (int64_t)from->count;
    if (bounds[2].kind != JINJA_NONE)
        SL_TRY(sl_jinja_want_integer(run, bounds[2], "a slice", &step));
    if (step == 0) return JINJA_FAIL(run, "a slice with step 0");
    int64_t start = step > 0 ? 0 : count - 1, stop = step > 0 ? count : -1;
    SL_TRY(slice_bound(run, bounds[0], count, step < 0, &start));
    SL_TRY(slice_bound(run, bounds[1], count, step < 0, &stop));
    size_t length = 0;
    if (step > 0 && stop > start) length = ((uint64_t)(stop - start) - 1) / (uint64_t)step + 1;
    if (step < 0 && stop < start) length = ((uint64_t)(start - stop) - 1) / -(uint64_t)step + 1;
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, length, &list));
    for (size_t i = 0; i < length; i++) list->items[i] = from->items[start + (int64_t)i * step];
    *out = (jinja_value){.kind = object.kind, .list = list};
    if (object.kind != JINJA_STRING) return SL_OK;
    jinja_buffer buffer = {0};
    for (size_t i = 0; i < length; i++) SL_TRY(sl_jinja_append_value(run, &buffer, list->items[i]));
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}
