/* exec.c - Statements, scopes and macros. */
#include "engine/text/jinja/run.h"

sl_status sl_jinja_scope_new(jinja_run *run, jinja_scope *parent, jinja_scope **out) {
    SL_TRY(sl_jinja_alloc(run, 1, sizeof **out, out));
    (*out)->parent = parent;
    return SL_OK;
}

sl_status sl_jinja_scope_set(jinja_run *run, jinja_scope *scope, jinja_text name,
                             jinja_value value) {
    for (jinja_variable *at = scope->variables; at; at = at->next)
        if (sl_jinja_text_equal(at->name, name)) {
            at->value = value;
            return SL_OK;
        }
    jinja_variable *variable;
    SL_TRY(sl_jinja_alloc(run, 1, sizeof *variable, &variable));
    *variable = (jinja_variable){scope->variables, name, value};
    scope->variables = variable;
    return SL_OK;
}

static sl_status assign_attribute(jinja_run *run, const jinja_node *target, jinja_value value) {
    jinja_value object;
    SL_TRY(sl_jinja_eval(run, target->first, &object));
    if (object.kind != JINJA_NAMESPACE)
        return JINJA_FAIL(run, "cannot set '%.*s' of a %s, only of a namespace",
                          JINJA_SHOW(target->text), sl_jinja_kind_name(object.kind));
    const jinja_value key = sl_jinja_string(target->text.data, target->text.bytes);
    return sl_jinja_dict_set(run, object.dict, key, value);
}

static sl_status assign(jinja_run *run, const jinja_node *target, jinja_value value) {
    if (target->kind == JINJA_NODE_NAME)
        return sl_jinja_scope_set(run, run->scope, target->text, value);
    if (target->kind == JINJA_NODE_ATTRIBUTE) return assign_attribute(run, target, value);
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, value, &items));
    size_t i = 0;
    for (const jinja_node *item = target->list; item; item = item->next, i++) {
        if (i == items->count)
            return JINJA_FAIL(run, "cannot unpack %zu values into more names", items->count);
        SL_TRY(assign(run, item, items->items[i]));
    }
    if (i == items->count) return SL_OK;
    return JINJA_FAIL(run, "cannot unpack %zu values into %zu names", items->count, i);
}

static sl_status exec_text(jinja_run *run, const jinja_node *node) {
    return sl_jinja_append(run, run->out, node->text.data, node->text.bytes);
}

static sl_status exec_output(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    SL_TRY(sl_jinja_eval(run, node->first, &value));
    if (value.kind == JINJA_STRING) SL_TRY(sl_jinja_charge(run, value.text.bytes / 64));
    return sl_jinja_append_value(run, run->out, value);
}

static sl_status exec_if(jinja_run *run, const jinja_node *node) {
    jinja_value test;
    SL_TRY(sl_jinja_eval(run, node->first, &test));
    return sl_jinja_exec(run, sl_jinja_truth(test) ? node->body : node->otherwise);
}

static sl_status exec_set(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    SL_TRY(sl_jinja_eval(run, node->second, &value));
    return assign(run, node->first, value);
}

static sl_status exec_with(jinja_run *run, const jinja_node *node) {
    jinja_scope *outer = run->scope, *scope;
    SL_TRY(sl_jinja_scope_new(run, outer, &scope));
    for (const jinja_node *item = node->list; item; item = item->next) {
        jinja_value value;
        SL_TRY(sl_jinja_eval(run, item->first, &value));
        SL_TRY(sl_jinja_scope_set(run, scope, item->text, value));
    }
    run->scope = scope;
    SL_TRY(sl_jinja_exec(run, node->body));
    run->scope = outer;
    return SL_OK;
}

/* The items for which the condition of `for x in y if condition` holds. */
static sl_status filter_items(jinja_run *run, const jinja_node *node, const jinja_list *items,
                              const jinja_list **out) {
    jinja_scope *outer = run->scope;
    jinja_list *kept;
    SL_TRY(sl_jinja_list_new(run, items->count, &kept));
    kept->count = 0;
    for (size_t i = 0; i < items->count; i++) {
        jinja_value test;
        SL_TRY(sl_jinja_scope_new(run, outer, &run->scope));
        SL_TRY(assign(run, node->first, items->items[i]));
        SL_TRY(sl_jinja_eval(run, node->third, &test));
        if (sl_jinja_truth(test)) kept->items[kept->count++] = items->items[i];
    }
    run->scope = outer;
    *out = kept;
    return SL_OK;
}

/* Every iteration has its own scope: variables that it sets are gone in the next. */
static sl_status run_loop(jinja_run *run, const jinja_node *node, jinja_loop *loop) {
    jinja_scope *outer = run->scope;
    const jinja_value self = {.kind = JINJA_LOOP, .loop = loop};
    for (; loop->index < loop->items->count; loop->index++) {
        SL_TRY(sl_jinja_scope_new(run, outer, &run->scope));
        SL_TRY(sl_jinja_scope_set(run, run->scope, JINJA_TEXT("loop"), self));
        SL_TRY(assign(run, node->first, loop->items->items[loop->index]));
        SL_TRY(sl_jinja_exec(run, node->body));
        const jinja_signal signal = run->signal;
        run->signal = JINJA_GO_ON;
        if (signal == JINJA_BREAK) break;
    }
    run->scope = outer;
    return SL_OK;
}

static sl_status loop_over(jinja_run *run, const jinja_node *node, jinja_value value,
                           uint32_t depth) {
    const jinja_list *items;
    SL_TRY(sl_jinja_iterate(run, value, &items));
    if (node->third) SL_TRY(filter_items(run, node, items, &items));
    if (items->count) {
        jinja_loop *loop; /* allocated, because a namespace may keep it */
        SL_TRY(sl_jinja_alloc(run, 1, sizeof *loop, &loop));
        *loop = (jinja_loop){.items = items,
                             .node = node->recursive ? node : NULL,
                             .scope = run->scope,
                             .depth = depth};
        SL_TRY(run_loop(run, node, loop));
        if (loop->index == items->count) loop->index--;
        return SL_OK;
    }
    jinja_scope *outer = run->scope;
    SL_TRY(sl_jinja_scope_new(run, outer, &run->scope));
    SL_TRY(sl_jinja_exec(run, node->otherwise));
    run->scope = outer;
    return SL_OK;
}

static sl_status exec_for(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    SL_TRY(sl_jinja_eval(run, node->second, &value));
    return loop_over(run, node, value, 0);
}

/* loop(items) in a recursive loop: renders the same loop over other items. */
sl_status sl_jinja_call_loop(jinja_run *run, const jinja_loop *loop, const jinja_args *args,
                             jinja_value *out) {
    jinja_buffer buffer = {0}, *outer_out = run->out;
    jinja_scope *outer_scope = run->scope;
    if (!loop->node) return JINJA_FAIL(run, "only a loop marked 'recursive' can be called");
    if (args->count != 1 || args->names[0].data)
        return JINJA_FAIL(run, "a recursive loop takes one sequence, not %zu values", args->count);
    SL_TRY(sl_jinja_deeper(run));
    run->out = &buffer;
    run->scope = loop->scope;
    const sl_status status = loop_over(run, loop->node, args->values[0], loop->depth + 1);
    run->out = outer_out;
    run->scope = outer_scope;
    SL_TRY(status);
    run->depth--;
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static sl_status make_macro(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_macro *macro;
    SL_TRY(sl_jinja_alloc(run, 1, sizeof *macro, &macro));
    *macro = (jinja_macro){node, run->scope};
    *out = (jinja_value){.kind = JINJA_MACRO, .macro = macro};
    return SL_OK;
}

static sl_status exec_macro(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    SL_TRY(make_macro(run, node, &value));
    return sl_jinja_scope_set(run, run->scope, node->text, value);
}

/* Adds an argument to the call: caller=, the block as a macro. */
static sl_status exec_call_block(jinja_run *run, const jinja_node *node) {
    jinja_value callee, caller, result;
    jinja_args args;
    SL_TRY(sl_jinja_eval(run, node->first->first, &callee));
    SL_TRY(sl_jinja_eval_args(run, node->first->list, &args));
    SL_TRY(make_macro(run, node->second, &caller));
    ((jinja_value *)args.values)[args.count] = caller;
    ((jinja_text *)args.names)[args.count++] = JINJA_TEXT("caller");
    SL_TRY(sl_jinja_call_value(run, callee, &args, &result));
    return sl_jinja_append_value(run, run->out, result);
}

static sl_status exec_break(jinja_run *run, const jinja_node *node) {
    run->signal = node->kind == JINJA_NODE_BREAK ? JINJA_BREAK : JINJA_CONTINUE;
    return SL_OK;
}

sl_status sl_jinja_exec(jinja_run *run, const jinja_node *chain) {
    static sl_status (*const table[])(jinja_run *, const jinja_node *) = {
        [JINJA_NODE_TEXT] = exec_text,   [JINJA_NODE_OUTPUT] = exec_output,
        [JINJA_NODE_IF] = exec_if,       [JINJA_NODE_FOR] = exec_for,
        [JINJA_NODE_SET] = exec_set,     [JINJA_NODE_WITH] = exec_with,
        [JINJA_NODE_MACRO] = exec_macro, [JINJA_NODE_CALL_BLOCK] = exec_call_block,
        [JINJA_NODE_BREAK] = exec_break, [JINJA_NODE_CONTINUE] = exec_break,
    };
    SL_TRY(sl_jinja_deeper(run));
    for (; chain && run->signal == JINJA_GO_ON; chain = chain->next) {
        run->place.line = chain->line;
        SL_TRY(sl_jinja_charge(run, 1));
        SL_TRY(table[chain->kind](run, chain));
    }
    run->depth--;
    return SL_OK;
}

sl_status sl_jinja_exec_to_text(jinja_run *run, const jinja_node *chain, jinja_scope *scope,
                                jinja_value *out) {
    jinja_buffer buffer = {0}, *outer_out = run->out;
    jinja_scope *outer_scope = run->scope;
    run->out = &buffer;
    run->scope = scope;
    const sl_status status = sl_jinja_exec(run, chain);
    run->out = outer_out;
    run->scope = outer_scope;
    SL_TRY(status);
    *out = sl_jinja_buffer_value(&buffer);
    return SL_OK;
}

static const jinja_node *find_parameter(const jinja_node *macro, jinja_text name) {
    const jinja_node *parameter = macro->list;
    while (parameter && !sl_jinja_text_equal(parameter->text, name)) parameter = parameter->next;
    return parameter;
}

static bool has_variable(const jinja_scope *scope, jinja_text name) {
    for (const jinja_variable *at = scope->variables; at; at = at->next)
        if (sl_jinja_text_equal(at->name, name)) return true;
    return false;
}

static sl_status bind_keyword(jinja_run *run, const jinja_node *macro, jinja_scope *scope,
                              jinja_text name, jinja_value value, jinja_dict *kwargs) {
    const bool known = find_parameter(macro, name) != NULL;
    if (known && has_variable(scope, name))
        return JINJA_FAIL(run, "macro '%.*s' got '%.*s' twice", JINJA_SHOW(macro->text),
                          JINJA_SHOW(name));
    if (known || sl_jinja_text_equal(name, JINJA_TEXT("caller")))
        return sl_jinja_scope_set(run, scope, name, value);
    if (!macro->takes_kwargs)
        return JINJA_FAIL(run, "macro '%.*s' takes no argument '%.*s'", JINJA_SHOW(macro->text),
                          JINJA_SHOW(name));
    return sl_jinja_dict_set(run, kwargs, sl_jinja_string(name.data, name.bytes), value);
}

/* Sets the macro's parameters in its scope from the arguments. */
static sl_status bind_arguments(jinja_run *run, const jinja_node *macro, const jinja_args *args,
                                jinja_scope *scope) {
    jinja_list *varargs;
    jinja_dict *kwargs;
    SL_TRY(sl_jinja_list_new(run, args->count, &varargs));
    SL_TRY(sl_jinja_dict_new(run, &kwargs));
    varargs->count = 0;
    const jinja_node *parameter = macro->list;
    for (size_t i = 0; i < args->count; i++) {
        if (args->names && args->names[i].data) {
            SL_TRY(bind_keyword(run, macro, scope, args->names[i], args->values[i], kwargs));
        } else if (parameter) {
            SL_TRY(sl_jinja_scope_set(run, scope, parameter->text, args->values[i]));
            parameter = parameter->next;
        } else if (macro->takes_varargs) {
            varargs->items[varargs->count++] = args->values[i];
        } else {
            return JINJA_FAIL(run, "macro '%.*s' got more arguments than it takes",
                              JINJA_SHOW(macro->text));
        }
    }
    const jinja_value rest = {.kind = JINJA_TUPLE, .list = varargs};
    const jinja_value named = {.kind = JINJA_DICT, .dict = kwargs};
    if (macro->takes_varargs) SL_TRY(sl_jinja_scope_set(run, scope, JINJA_TEXT("varargs"), rest));
    if (macro->takes_kwargs) SL_TRY(sl_jinja_scope_set(run, scope, JINJA_TEXT("kwargs"), named));
    return SL_OK;
}

/* Missing parameters: the default, which may refer to earlier parameters, or undefined. */
static sl_status bind_defaults(jinja_run *run, const jinja_node *macro, jinja_scope *scope) {
    jinja_scope *outer = run->scope;
    run->scope = scope;
    for (const jinja_node *parameter = macro->list; parameter; parameter = parameter->next) {
        if (has_variable(scope, parameter->text)) continue;
        jinja_value value = sl_jinja_undefined(parameter->text);
        if (parameter->first) SL_TRY(sl_jinja_eval(run, parameter->first, &value));
        SL_TRY(sl_jinja_scope_set(run, scope, parameter->text, value));
    }
    run->scope = outer;
    return SL_OK;
}

sl_status sl_jinja_call_macro(jinja_run *run, const jinja_macro *macro, const jinja_args *args,
                              jinja_value *out) {
    jinja_scope *scope;
    SL_TRY(sl_jinja_scope_new(run, macro->scope, &scope));
    SL_TRY(bind_arguments(run, macro->node, args, scope));
    SL_TRY(bind_defaults(run, macro->node, scope));
    return sl_jinja_exec_to_text(run, macro->node->body, scope, out);
}
