/* eval.c - Expressions. */
#include "engine/text/jinja/run.h"

sl_status sl_jinja_lookup(jinja_run *run, jinja_text name, jinja_value *out) {
    for (const jinja_scope *scope = run->scope; scope; scope = scope->parent)
        for (const jinja_variable *at = scope->variables; at; at = at->next)
            if (sl_jinja_text_equal(at->name, name)) {
                *out = at->value;
                return SL_OK;
            }
    const jinja_value *given = sl_jinja_dict_find(run->variables, name);
    *out = given ? *given : sl_jinja_undefined(name);
    const jinja_builtin *global = given ? NULL : sl_jinja_find_global(name);
    if (!global) return SL_OK;
    jinja_function *function;
    SL_TRY(sl_jinja_alloc(run, 1, sizeof *function, &function));
    function->builtin = global;
    *out = (jinja_value){.kind = JINJA_FUNCTION, .function = function};
    return SL_OK;
}

static size_t chain_length(const jinja_node *chain) {
    size_t count = 0;
    for (; chain; chain = chain->next) count++;
    return count;
}

static sl_status eval_sequence(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_list *list;
    SL_TRY(sl_jinja_list_new(run, chain_length(node->list), &list));
    jinja_value *to = list->items;
    for (const jinja_node *item = node->list; item; item = item->next)
        SL_TRY(sl_jinja_eval(run, item, to++));
    const jinja_kind kind = node->kind == JINJA_NODE_TUPLE ? JINJA_TUPLE : JINJA_LIST;
    *out = (jinja_value){.kind = kind, .list = list};
    return SL_OK;
}

static sl_status eval_dict(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_dict *dict;
    SL_TRY(sl_jinja_dict_new(run, &dict));
    for (const jinja_node *key = node->list; key; key = key->next->next) {
        jinja_value name, value;
        SL_TRY(sl_jinja_eval(run, key, &name));
        SL_TRY(sl_jinja_eval(run, key->next, &value));
        SL_TRY(sl_jinja_dict_set(run, dict, name, value));
    }
    *out = (jinja_value){.kind = JINJA_DICT, .dict = dict};
    return SL_OK;
}

static sl_status eval_slice(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value object, bounds[3], *to = bounds;
    SL_TRY(sl_jinja_eval(run, node->first, &object));
    for (const jinja_node *bound = node->list; bound; bound = bound->next)
        SL_TRY(sl_jinja_eval(run, bound, to++));
    return sl_jinja_slice(run, object, bounds, out);
}

/* Grows the arrays of values and names by `more` entries. */
static sl_status make_room(jinja_run *run, size_t more, jinja_args *args) {
    jinja_value *values;
    jinja_text *names;
    const size_t room = args->count + more + 1; /* one extra for `caller` */
    SL_TRY(sl_jinja_alloc(run, room, sizeof *values, &values));
    SL_TRY(sl_jinja_alloc(run, room, sizeof *names, &names));
    for (size_t i = 0; i < args->count; i++) {
        values[i] = args->values[i];
        names[i] = args->names[i];
    }
    args->values = values;
    args->names = names;
    return SL_OK;
}

static void add_argument(jinja_args *args, jinja_text name, jinja_value value) {
    ((jinja_value *)args->values)[args->count] = value;
    ((jinja_text *)args->names)[args->count++] = name;
}

/* Unpacks *list or **dict; `rest` is the number of arguments that follow. */
static sl_status unpack_argument(jinja_run *run, const jinja_node *node, jinja_value value,
                                 size_t rest, jinja_args *args) {
    const jinja_list *items;
    if (node->takes_kwargs && value.kind != JINJA_DICT)
        return JINJA_FAIL(run, "** wants a dict, not a %s", sl_jinja_kind_name(value.kind));
    SL_TRY(sl_jinja_iterate(run, value, &items));
    SL_TRY(make_room(run, items->count + rest, args));
    for (size_t i = 0; i < items->count; i++) {
        const jinja_value key = items->items[i];
        if (node->takes_kwargs && key.kind != JINJA_STRING)
            return JINJA_FAIL(run, "** wants keys that are str, not a %s",
                              sl_jinja_kind_name(key.kind));
        if (node->takes_kwargs)
            add_argument(args, key.text, value.dict->values[i]);
        else
            add_argument(args, (jinja_text){NULL, 0}, key);
    }
    return SL_OK;
}

sl_status sl_jinja_eval_args(jinja_run *run, const jinja_node *list, jinja_args *out) {
    size_t left = chain_length(list);
    *out = (jinja_args){0};
    SL_TRY(make_room(run, left, out));
    for (; list; list = list->next, left--) {
        jinja_value value;
        SL_TRY(sl_jinja_eval(run, list->first, &value));
        if (list->takes_varargs || list->takes_kwargs)
            SL_TRY(unpack_argument(run, list, value, left, out));
        else
            add_argument(out, list->text, value);
    }
    return SL_OK;
}

sl_status sl_jinja_call_value(jinja_run *run, jinja_value callee, const jinja_args *args,
                              jinja_value *out) {
    if (callee.kind == JINJA_MACRO) return sl_jinja_call_macro(run, callee.macro, args, out);
    if (callee.kind == JINJA_LOOP) return sl_jinja_call_loop(run, callee.loop, args, out);
    if (callee.kind == JINJA_FUNCTION) {
        jinja_args with_self = *args;
        with_self.self = callee.function->self;
        return sl_jinja_invoke(run, callee.function->builtin, &with_self, out);
    }
    if (callee.kind == JINJA_UNDEFINED)
        return JINJA_FAIL(run, "'%.*s' is undefined", JINJA_SHOW(callee.text));
    return JINJA_FAIL(run, "a %s cannot be called", sl_jinja_kind_name(callee.kind));
}

static sl_status eval_call(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value callee;
    jinja_args args;
    SL_TRY(sl_jinja_eval(run, node->first, &callee));
    SL_TRY(sl_jinja_eval_args(run, node->list, &args));
    return sl_jinja_call_value(run, callee, &args, out);
}

static sl_status eval_filter_or_test(jinja_run *run, const jinja_node *node, jinja_value *out) {
    if (!node->builtin)
        return JINJA_FAIL(run, "no %s named '%.*s'",
                          node->kind == JINJA_NODE_FILTER ? "filter" : "test",
                          JINJA_SHOW(node->text));
    jinja_value self;
    jinja_args args;
    SL_TRY(sl_jinja_eval(run, node->first, &self));
    SL_TRY(sl_jinja_eval_args(run, node->list, &args));
    args.self = self;
    return sl_jinja_invoke(run, node->builtin, &args, out);
}

static sl_status eval_sign(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value value;
    SL_TRY(sl_jinja_eval(run, node->first, &value));
    const jinja_op op = node->kind == JINJA_NODE_NEGATE ? JINJA_SUBTRACT : JINJA_ADD;
    if (op == JINJA_SUBTRACT && value.kind == JINJA_FLOAT) {
        *out = sl_jinja_float(-value.real);
        return SL_OK;
    }
    return sl_jinja_binary(run, op, sl_jinja_integer(0), value, out);
}

static sl_status eval_binary(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value a, b;
    SL_TRY(sl_jinja_eval(run, node->first, &a));
    SL_TRY(sl_jinja_eval(run, node->second, &b));
    return sl_jinja_binary(run, node->op, a, b, out);
}

static sl_status eval_logic(jinja_run *run, const jinja_node *node, jinja_value *out) {
    SL_TRY(sl_jinja_eval(run, node->first, out));
    if (sl_jinja_truth(*out) == (node->kind == JINJA_NODE_OR)) return SL_OK;
    return sl_jinja_eval(run, node->second, out);
}

/* a < b < c: compares each pair of neighbours until one is false. */
static sl_status eval_compare(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value left, right;
    bool holds = true;
    SL_TRY(sl_jinja_eval(run, node->first, &left));
    for (const jinja_node *link = node->list; link && holds; link = link->next) {
        SL_TRY(sl_jinja_eval(run, link->first, &right));
        SL_TRY(sl_jinja_compare(run, link->op, left, right, &holds));
        left = right;
    }
    *out = sl_jinja_bool(holds);
    return SL_OK;
}

static sl_status eval_condition(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value test;
    SL_TRY(sl_jinja_eval(run, node->first, &test));
    const jinja_node *chosen = sl_jinja_truth(test) ? node->second : node->third;
    *out = sl_jinja_undefined(JINJA_TEXT("an if without else"));
    return chosen ? sl_jinja_eval(run, chosen, out) : SL_OK;
}

static sl_status eval_not(jinja_run *run, const jinja_node *node, jinja_value *out) {
    SL_TRY(sl_jinja_eval(run, node->first, out));
    *out = sl_jinja_bool(!sl_jinja_truth(*out));
    return SL_OK;
}

static sl_status eval_attribute(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value object;
    SL_TRY(sl_jinja_eval(run, node->first, &object));
    return sl_jinja_attribute(run, object, node->text, out);
}

static sl_status eval_item(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value object, key;
    SL_TRY(sl_jinja_eval(run, node->first, &object));
    SL_TRY(sl_jinja_eval(run, node->second, &key));
    return sl_jinja_item(run, object, key, out);
}

static sl_status eval_body(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_scope *scope;
    SL_TRY(sl_jinja_scope_new(run, run->scope, &scope));
    return sl_jinja_exec_to_text(run, node->body, scope, out);
}

static sl_status eval_name(jinja_run *run, const jinja_node *node, jinja_value *out) {
    return sl_jinja_lookup(run, node->text, out);
}

static sl_status eval_constant(jinja_run *run, const jinja_node *node, jinja_value *out) {
    (void)run;
    *out = node->value;
    return SL_OK;
}

sl_status sl_jinja_eval(jinja_run *run, const jinja_node *node, jinja_value *out) {
    static sl_status (*const table[])(jinja_run *, const jinja_node *, jinja_value *) = {
        [JINJA_NODE_CONSTANT] = eval_constant,
        [JINJA_NODE_NAME] = eval_name,
        [JINJA_NODE_LIST] = eval_sequence,
        [JINJA_NODE_TUPLE] = eval_sequence,
        [JINJA_NODE_DICT] = eval_dict,
        [JINJA_NODE_ATTRIBUTE] = eval_attribute,
        [JINJA_NODE_ITEM] = eval_item,
        [JINJA_NODE_SLICE] = eval_slice,
        [JINJA_NODE_CALL] = eval_call,
        [JINJA_NODE_FILTER] = eval_filter_or_test,
        [JINJA_NODE_TEST] = eval_filter_or_test,
        [JINJA_NODE_NOT] = eval_not,
        [JINJA_NODE_NEGATE] = eval_sign,
        [JINJA_NODE_POSITIVE] = eval_sign,
        [JINJA_NODE_BINARY] = eval_binary,
        [JINJA_NODE_AND] = eval_logic,
        [JINJA_NODE_OR] = eval_logic,
        [JINJA_NODE_COMPARE] = eval_compare,
        [JINJA_NODE_CONDITION] = eval_condition,
        [JINJA_NODE_BODY] = eval_body,
    };
    const uint32_t line = run->place.line;
    run->place.line = node->line;
    SL_TRY(sl_jinja_deeper(run));
    SL_TRY(table[node->kind](run, node, out));
    run->depth--;
    run->place.line = line;
    return SL_OK;
}
