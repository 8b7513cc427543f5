/* builtins.c - Calls of builtins; tests and global functions. */
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"
#include <string.h>

const jinja_builtin *sl_jinja_find(const jinja_builtin *table, jinja_text name) {
    for (; table->name; table++)
        if (sl_jinja_text_equal(name, (jinja_text){table->name, strlen(table->name)})) return table;
    return NULL;
}

const jinja_builtin *sl_jinja_find_filter(jinja_text name) {
    const jinja_builtin *found = sl_jinja_find(sl_jinja_scalar_filters, name);
    return found ? found : sl_jinja_find(sl_jinja_sequence_filters, name);
}

/* Splits a parameter list into words. */
static bool next_word(const char **list, jinja_text *out) {
    if (!**list) return false;
    const size_t bytes = strcspn(*list, " ");
    *out = (jinja_text){*list, bytes};
    *list += bytes + ((*list)[bytes] == ' ');
    return true;
}

static sl_status place_argument(jinja_run *run, const jinja_builtin *builtin,
                                const jinja_args *args, size_t index, size_t *out) {
    const char *list = builtin->parameters;
    const bool named = args->names && args->names[index].data;
    jinja_text word;
    for (size_t i = 0; next_word(&list, &word); i++) {
        if (named ? !sl_jinja_text_equal(word, args->names[index]) : i != index) continue;
        *out = i;
        return SL_OK;
    }
    if (named)
        return JINJA_FAIL(run, "'%s' takes no argument '%.*s'", builtin->name,
                          JINJA_SHOW(args->names[index]));
    return JINJA_FAIL(run, "'%s' got %zu arguments, more than it takes", builtin->name,
                      args->count);
}

sl_status sl_jinja_invoke(jinja_run *run, const jinja_builtin *builtin, const jinja_args *args,
                          jinja_value *out) {
    jinja_value values[JINJA_MAX_PARAMETERS] = {{.kind = JINJA_UNDEFINED}};
    uint32_t given = 0;
    if (args->self.kind == JINJA_STRING) SL_TRY(sl_jinja_charge(run, args->self.text.bytes / 64));
    if (!builtin->parameters) return builtin->call(run, args, out);
    for (size_t i = 0; i < args->count; i++) {
        size_t place = 0;
        SL_TRY(place_argument(run, builtin, args, i, &place));
        if (given & 1u << place)
            return JINJA_FAIL(run, "'%s' got an argument twice", builtin->name);
        values[place] = args->values[i];
        given |= 1u << place;
    }
    const uint32_t required = (1u << builtin->required) - 1;
    if ((given & required) != required)
        return JINJA_FAIL(run, "'%s' wants %zu arguments", builtin->name, builtin->required);
    const jinja_args bound = {.self = args->self, .values = values, .count = JINJA_MAX_PARAMETERS};
    return builtin->call(run, &bound, out);
}

sl_status sl_jinja_want_text(jinja_run *run, jinja_value value, const char *what, jinja_text *out) {
    *out = value.text;
    if (value.kind == JINJA_STRING) return SL_OK;
    return JINJA_FAIL(run, "%s wants a str, not a %s", what, sl_jinja_kind_name(value.kind));
}

sl_status sl_jinja_want_integer(jinja_run *run, jinja_value value, const char *what, int64_t *out) {
    if (value.kind != JINJA_INTEGER && value.kind != JINJA_BOOL)
        return JINJA_FAIL(run, "%s wants an int, not a %s", what, sl_jinja_kind_name(value.kind));
    *out = value.kind == JINJA_BOOL ? value.boolean : value.integer;
    return SL_OK;
}

/* ---- tests ---- */

#define TEST(name, expression)                                                                     \
    static sl_status test_##name(jinja_run *run, const jinja_args *args, jinja_value *out) {       \
        const jinja_value self = args->self;                                                       \
        (void)run;                                                                                 \
        *out = sl_jinja_bool(expression);                                                          \
        return SL_OK;                                                                              \
    }
TEST(defined, self.kind != JINJA_UNDEFINED)
TEST(undefined, self.kind == JINJA_UNDEFINED)
TEST(none, self.kind == JINJA_NONE)
TEST(boolean, self.kind == JINJA_BOOL)
TEST(true, self.kind == JINJA_BOOL && self.boolean)
TEST(false, self.kind == JINJA_BOOL && !self.boolean)
TEST(integer, self.kind == JINJA_INTEGER)
TEST(float, self.kind == JINJA_FLOAT)
TEST(number, sl_jinja_is_number(self))
TEST(string, self.kind == JINJA_STRING)
TEST(mapping, self.kind == JINJA_DICT)
TEST(iterable, self.kind == JINJA_UNDEFINED || self.kind == JINJA_LOOP ||
                   (self.kind >= JINJA_STRING && self.kind <= JINJA_DICT))
TEST(sequence,
     self.kind == JINJA_UNDEFINED || (self.kind >= JINJA_STRING && self.kind <= JINJA_DICT))
TEST(callable, self.kind == JINJA_MACRO || self.kind == JINJA_FUNCTION)
TEST(filter, self.kind == JINJA_STRING && sl_jinja_find_filter(self.text))
TEST(test, self.kind == JINJA_STRING && sl_jinja_find_test(self.text))
#undef TEST

#define COMPARISON(name, op)                                                                       \
    static sl_status test_##name(jinja_run *run, const jinja_args *args, jinja_value *out) {       \
        out->kind = JINJA_BOOL;                                                                    \
        return sl_jinja_compare(run, op, args->self, args->values[0], &out->boolean);              \
    }
COMPARISON(equal, JINJA_EQUAL)
COMPARISON(unequal, JINJA_NOT_EQUAL)
COMPARISON(less, JINJA_LESS)
COMPARISON(less_equal, JINJA_LESS_EQUAL)
COMPARISON(greater, JINJA_GREATER)
COMPARISON(greater_equal, JINJA_GREATER_EQUAL)
COMPARISON(in, JINJA_IN)
#undef COMPARISON

static sl_status remainder_is(jinja_run *run, jinja_value value, jinja_value by, int64_t wanted,
                              jinja_value *out) {
    jinja_value rest;
    SL_TRY(sl_jinja_binary(run, JINJA_MODULO, value, by, &rest));
    out->kind = JINJA_BOOL;
    return sl_jinja_equal(run, rest, sl_jinja_integer(wanted), &out->boolean);
}
static sl_status test_odd(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return remainder_is(run, args->self, sl_jinja_integer(2), 1, out);
}
static sl_status test_even(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return remainder_is(run, args->self, sl_jinja_integer(2), 0, out);
}
static sl_status test_divisible(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return remainder_is(run, args->self, args->values[0], 0, out);
}

/* Identity: equality for scalars, the same address for the others. */
static sl_status test_same(jinja_run *run, const jinja_args *args, jinja_value *out) {
    const jinja_value a = args->self, b = args->values[0];
    if (a.kind != b.kind || a.kind < JINJA_LIST) {
        out->kind = JINJA_BOOL;
        SL_TRY(sl_jinja_equal(run, a, b, &out->boolean));
        out->boolean = out->boolean && a.kind == b.kind;
        return SL_OK;
    }
    *out = sl_jinja_bool(a.list == b.list);
    return SL_OK;
}

static sl_status has_case(jinja_run *run, jinja_value self, const char *method, jinja_value *out) {
    jinja_text text;
    SL_TRY(sl_jinja_str(run, self, &text));
    const jinja_args args = {.self = sl_jinja_string(text.data, text.bytes)};
    const jinja_text name = {method, strlen(method)};
    return sl_jinja_invoke(run, sl_jinja_find(sl_jinja_string_methods, name), &args, out);
}
static sl_status test_lower(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return has_case(run, args->self, "islower", out);
}
static sl_status test_upper(jinja_run *run, const jinja_args *args, jinja_value *out) {
    return has_case(run, args->self, "isupper", out);
}

/* Always false: templates are not HTML, so nothing is escaped. */
static sl_status test_escaped(jinja_run *run, const jinja_args *args, jinja_value *out) {
    (void)run;
    (void)args;
    *out = sl_jinja_bool(false);
    return SL_OK;
}

const jinja_builtin *sl_jinja_find_test(jinja_text name) {
    static const jinja_builtin tests[] = {
        {"defined", "", 0, test_defined},
        {"undefined", "", 0, test_undefined},
        {"none", "", 0, test_none},
        {"boolean", "", 0, test_boolean},
        {"true", "", 0, test_true},
        {"false", "", 0, test_false},
        {"integer", "", 0, test_integer},
        {"float", "", 0, test_float},
        {"number", "", 0, test_number},
        {"string", "", 0, test_string},
        {"mapping", "", 0, test_mapping},
        {"iterable", "", 0, test_iterable},
        {"sequence", "", 0, test_sequence},
        {"callable", "", 0, test_callable},
        {"escaped", "", 0, test_escaped},
        {"filter", "", 0, test_filter},
        {"test", "", 0, test_test},
        {"lower", "", 0, test_lower},
        {"upper", "", 0, test_upper},
        {"odd", "", 0, test_odd},
        {"even", "", 0, test_even},
        {"divisibleby", "num", 1, test_divisible},
        {"sameas", "other", 1, test_same},
        {"equalto", "other", 1, test_equal},
        {"eq", "other", 1, test_equal},
        {"==", "other", 1, test_equal},
        {"ne", "other", 1, test_unequal},
        {"!=", "other", 1, test_unequal},
        {"lt", "other", 1, test_less},
        {"lessthan", "other", 1, test_less},
        {"<", "other", 1, test_less},
        {"le", "other", 1, test_less_equal},
        {"<=", "other", 1, test_less_equal},
        {"gt", "other", 1, test_greater},
        {"greaterthan", "other", 1, test_greater},
        {">", "other", 1, test_greater},
        {"ge", "other", 1, test_greater_equal},
        {">=", "other", 1, test_greater_equal},
        {"in", "seq", 1, test_in},
        {0},
    };
    return sl_jinja_find(tests, name);
}

/* ---- global functions ---- */

static sl_status call_range(jinja_run *run, const jinja_args *args, jinja_value *out) {
    int64_t start = 0, stop = 0, step = 1;
    SL_TRY(sl_jinja_want_integer(run, args->values[0], "range", &stop));
    if (args->values[1].kind != JINJA_UNDEFINED) {
        start = stop;
        SL_TRY(sl_jinja_want_integer(run, args->values[1], "range", &stop));
    }
    if (args->values[2].kind != JINJA_UNDEFINED)
        SL_TRY(sl_jinja_want_integer(run, args->values[2], "range", &step));
    if (step == 0) return JINJA_FAIL(run, "range with step 0");
    const uint64_t distance =
        step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    const uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    const bool some = step > 0 ? stop > start : stop < start;
    const uint64_t count = some ? (distance - 1) / stride + 1 : 0;
    if (count > JINJA_MAX_RANGE) return JINJA_FAIL(run, "a range of more than %d", JINJA_MAX_RANGE);
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, count, &list));
    for (size_t i = 0; i < count; i++) list->items[i] = sl_jinja_integer(start + (int64_t)i * step);
    *out = (jinja_value){.kind = JINJA_LIST, .list = list};
    return SL_OK;
}

/* The arguments of dict(mapping or pairs, name=value ...) and of namespace. */
static sl_status collect(jinja_run *run, const jinja_args *args, jinja_dict **out) {
    SL_TRY(sl_jinja_dict_new(run, out));
    for (size_t i = 0; i < args->count; i++) {
        const jinja_value value = args->values[i];
        if (args->names[i].data) {
            const jinja_text name = args->names[i];
            const jinja_value key = sl_jinja_string(name.data, name.bytes);
            SL_TRY(sl_jinja_dict_set(run, *out, key, value));
            continue;
        }
        const jinja_list *items;
        SL_TRY(sl_jinja_iterate(run, value, &items));
        for (size_t j = 0; j < items->count; j++) {
            const jinja_list *pair;
            if (value.kind == JINJA_DICT) {
                SL_TRY(sl_jinja_dict_set(run, *out, items->items[j], value.dict->values[j]));
                continue;
            }
            SL_TRY(sl_jinja_iterate(run, items->items[j], &pair));
            if (pair->count != 2)
                return JINJA_FAIL(run, "dict wants pairs, not %zu values", pair->count);
            SL_TRY(sl_jinja_dict_set(run, *out, pair->items[0], pair->items[1]));
        }
    }
    return SL_OK;
}
static sl_status call_dict(jinja_run *run, const jinja_args *args, jinja_value *out) {
    out->kind = JINJA_DICT;
    return collect(run, args, &out->dict);
}
static sl_status call_namespace(jinja_run *run, const jinja_args *args, jinja_value *out) {
    out->kind = JINJA_NAMESPACE;
    return collect(run, args, &out->dict);
}

static sl_status call_raise(jinja_run *run, const jinja_args *args, jinja_value *out) {
    jinja_text message;
    (void)out;
    SL_TRY(sl_jinja_str(run, args->values[0], &message));
    return JINJA_FAIL(run, "%.*s", (int)(message.bytes < 400 ? message.bytes : 400), message.data);
}

const jinja_builtin *sl_jinja_find_global(jinja_text name) {
    static const jinja_builtin globals[] = {
        {"range", "start stop step", 1, call_range},
        {"dict", NULL, 0, call_dict},
        {"namespace", NULL, 0, call_namespace},
        {"raise_exception", "message", 1, call_raise},
        {"strftime_now", "format", 1, sl_jinja_strftime_now},
        {0},
    };
    return sl_jinja_find(globals, name);
}
