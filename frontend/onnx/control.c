/* control.c - If, Loop and Scan. */
#include "frontend/onnx/bodies.h"
#include "frontend/onnx/families.h"
#include <string.h>

/* The operands of the graph op: some inputs of the node, then the captures. */
typedef struct {
    uint32_t count;
    sl_value items[2 * SL_ONNX_MOST_OPERANDS];
} operands;

static void add_operand(sl_onnx_call *c, operands *list, sl_value value) {
    if (list->count == 2 * SL_ONNX_MOST_OPERANDS)
        sl_onnx_refuse(c, "more than %d operands are not supported", 2 * SL_ONNX_MOST_OPERANDS);
    else
        list->items[list->count++] = value;
}

static void add_captures(sl_onnx_call *c, operands *list, const sl_onnx_captures *captures) {
    for (uint32_t i = 0; i < captures->count; i++)
        add_operand(c, list, sl_onnx_use(c->im, c->graph, captures->items[i]));
}

static const sl_onnx_graph *body_of(sl_onnx_call *c, const char *attr) {
    const sl_onnx_attr *found = sl_onnx_attr_of(c, attr);
    if (found && found->graph) return found->graph;
    sl_onnx_wrong(c, "there is no %s", attr);
    return NULL;
}

/* ---- If ---- */

/* Imports the branch that is known to be taken in place of the node. */
static void inline_branch(sl_onnx_call *c, const sl_onnx_graph *branch) {
    sl_onnx_scope *scope = sl_onnx_scope_open(c->im, c->scope, c->graph);
    if (!scope) return;
    sl_onnx_import_initializers(c->im, scope, branch);
    sl_onnx_import_nodes(c->im, scope, branch->nodes, branch->node_count);
    for (uint32_t i = 0; i < c->out_count && i < branch->output_count && !sl_onnx_failed(c); i++) {
        const sl_onnx_value *value = sl_onnx_scope_find(scope, branch->outputs[i].name);
        const char *name = c->out[i].name;
        if (!value) {
            sl_onnx_wrong(c, "the branch does not define '%s'", branch->outputs[i].name);
            return;
        }
        c->out[i] = *value;
        c->out[i].name = name;
    }
}

static sl_onnx_body make_branch(sl_onnx_call *c, const sl_onnx_graph *graph, const char *name,
                                const sl_onnx_captures *captures) {
    sl_onnx_body body = sl_onnx_body_open(c, name);
    sl_onnx_body_captures(&body, captures);
    sl_onnx_body_import(c, &body, graph);
    for (uint32_t i = 0; i < graph->output_count; i++)
        sl_onnx_body_output(c, &body, graph->outputs[i].name);
    return body;
}

static void choose_branch(sl_onnx_call *c, const sl_onnx_graph *then, const sl_onnx_graph *other) {
    sl_onnx_captures captures = {0};
    operands in = {0};
    sl_value out[SL_ONNX_MOST_OPERANDS];
    sl_onnx_capture(c, then, &captures);
    sl_onnx_capture(c, other, &captures);
    const sl_type type = sl_onnx_in_type(c, 0);
    sl_value condition = sl_onnx_in(c, 0);
    if (type.shape.rank) condition = sl_onnx_reshape(c, condition, &(sl_dims){0});
    add_operand(c, &in, condition);
    add_captures(c, &in, &captures);
    sl_onnx_body yes = make_branch(c, then, "then", &captures);
    sl_onnx_body no = make_branch(c, other, "otherwise", &captures);
    if (c->out_count > SL_ONNX_MOST_OPERANDS)
        sl_onnx_refuse(c, "%u outputs are not supported", c->out_count);
    if (sl_onnx_body_check(c, &yes) && sl_onnx_body_check(c, &no)) {
        const sl_onnx_setting settings[] = {{"then", 0, yes.graph}, {"otherwise", 0, no.graph}};
        sl_onnx_append_bodies(c, &(sl_onnx_step){"if", in.count, c->out_count, in.items, out},
                              settings, 2);
        for (uint32_t i = 0; i < c->out_count; i++) sl_onnx_set(c, i, out[i]);
    }
    sl_onnx_body_close(&yes);
    sl_onnx_body_close(&no);
}

void sl_onnx_if(sl_onnx_call *c) {
    const sl_onnx_graph *then = body_of(c, "then_branch"), *other = body_of(c, "else_branch");
    if (!then || !other) return;
    if (sl_onnx_is_known(c, 0))
        inline_branch(c, sl_onnx_integer_in(c, 0, 0) ? then : other);
    else
        choose_branch(c, then, other);
}

/* ---- Loop ---- */

typedef struct {
    const sl_onnx_graph *body;
    uint32_t vars, scanned; /* number of loop variables and of collected results */
    bool counted;           /* the number of iterations is known: `turns` */
    int64_t turns;
    sl_onnx_captures captures;
} loop;

static const sl_onnx_node *maker_of(const sl_onnx_graph *graph, const char *name) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t i = 0; i < graph->nodes[n].output_count; i++)
            if (strcmp(graph->nodes[n].outputs[i], name) == 0) return &graph->nodes[n];
    return NULL;
}

/* Whether the body always returns its condition input unchanged. */
static bool keeps_condition(const sl_onnx_graph *body) {
    const char *name = body->outputs[0].name;
    for (uint32_t i = 0; i <= body->node_count; i++) {
        if (strcmp(name, body->inputs[1].name) == 0) return true;
        const sl_onnx_node *node = maker_of(body, name);
        if (!node || strcmp(node->op, "Identity") != 0 || node->input_count != 1) return false;
        name = node->inputs[0];
    }
    return false;
}

static bool read_loop(sl_onnx_call *c, loop *l) {
    *l = (loop){.body = body_of(c, "body")};
    if (!l->body) return false;
    l->vars = c->in_count > 2 ? c->in_count - 2 : 0;
    if (l->body->input_count != l->vars + 2 || l->body->output_count < l->vars + 1 ||
        c->out_count > l->body->output_count - 1 || l->body->output_count > SL_ONNX_MOST_OPERANDS) {
        sl_onnx_wrong(c, "a body of %u inputs and %u outputs for %u variables",
                      l->body->input_count, l->body->output_count, l->vars);
        return false;
    }
    l->scanned = l->body->output_count - 1 - l->vars;
    const bool starts = !sl_onnx_has(c, 1) || sl_onnx_is_known(c, 1);
    const bool begins = !sl_onnx_has(c, 1) || (starts && sl_onnx_integer_in(c, 1, 1));
    l->counted = starts && sl_onnx_is_known(c, 0) && (!begins || keeps_condition(l->body));
    if (l->counted) l->turns = begins ? sl_onnx_integer_in(c, 0, 0) : 0;
    if (l->turns < 0) l->turns = 0;
    sl_onnx_capture(c, l->body, &l->captures);
    return !sl_onnx_failed(c);
}

static void declare_vars(sl_onnx_call *c, const loop *l, sl_onnx_body *body) {
    for (uint32_t i = 0; i < l->vars; i++)
        sl_onnx_body_input(body, l->body->inputs[i + 2].name, c->in[i + 2],
                           sl_onnx_in_type(c, i + 2));
}

/* A known number of iterations: a scan over their indices. */
static void count_turns(sl_onnx_call *c, const loop *l) {
    static const unsigned char yes = 1;
    const sl_type number = sl_type_make(SL_DTYPE_i64, 0), truth = sl_type_make(SL_DTYPE_bool, 0);
    sl_onnx_body body = sl_onnx_body_open(c, "body");
    operands in = {0};
    sl_value out[SL_ONNX_MOST_OPERANDS], turns = {0};
    declare_vars(c, l, &body);
    sl_onnx_body_captures(&body, &l->captures);
    sl_onnx_body_input(&body, l->body->inputs[0].name, NULL, number);
    if (body.scope) {
        const sl_onnx_value going = {.name = l->body->inputs[1].name, .type = truth, .data = &yes};
        (void)sl_onnx_scope_add(body.scope, &going);
    }
    sl_onnx_body_import(c, &body, l->body);
    for (uint32_t i = 0; i < l->vars + l->scanned; i++)
        sl_onnx_body_output(c, &body, l->body->outputs[i + 1].name);
    for (uint32_t i = 0; i < l->vars; i++) add_operand(c, &in, sl_onnx_in(c, i + 2));
    add_captures(c, &in, &l->captures);
    sl_onnx_append(c, &(sl_onnx_step){"iota", 0, 1, NULL, &turns},
                   "shape=[%lld], axis=0, dtype=i64", (long long)l->turns);
    add_operand(c, &in, turns);
    if (sl_onnx_body_check(c, &body)) {
        const sl_onnx_setting settings[] = {{"body", 0, body.graph},
                                            {"carries", l->vars, NULL},
                                            {"consts", l->captures.count, NULL},
                                            {"length", l->turns, NULL}};
        const uint32_t results = l->vars + l->scanned;
        sl_onnx_append_bodies(c, &(sl_onnx_step){"scan", in.count, results, in.items, out},
                              settings, 4);
        for (uint32_t i = 0; i < c->out_count; i++) sl_onnx_set(c, i, out[i]);
    }
    sl_onnx_body_close(&body);
}

/* The carries of a while: iteration, maximum number of iterations, condition, variables,
 * captures. */
static void declare_carries(sl_onnx_call *c, const loop *l, sl_onnx_body *body) {
    const sl_type number = sl_type_make(SL_DTYPE_i64, 0), truth = sl_type_make(SL_DTYPE_bool, 0);
    sl_onnx_body_input(body, l->body->inputs[0].name, NULL, number);
    sl_onnx_body_input(body, " most", NULL, number);
    sl_onnx_body_input(body, l->body->inputs[1].name, NULL, truth);
    declare_vars(c, l, body);
    sl_onnx_body_captures(body, &l->captures);
}

/* A value of the body by its ONNX name, to append nodes that are not in the model. */
static sl_value body_value(sl_onnx_body *body, const char *name) {
    const sl_onnx_value *value = body->scope ? sl_onnx_scope_find(body->scope, name) : NULL;
    return value ? value->value : (sl_value){0};
}

static sl_onnx_body make_condition(sl_onnx_call *c, const loop *l) {
    sl_onnx_body body = sl_onnx_body_open(c, "condition");
    declare_carries(c, l, &body);
    if (!body.scope) return body;
    sl_onnx_call inner = *c;
    inner.graph = body.graph;
    const sl_value more = sl_onnx_op2(&inner, "less", body_value(&body, l->body->inputs[0].name),
                                      body_value(&body, " most"));
    sl_graph_output(
        body.graph, "go",
        sl_onnx_op2(&inner, "logical_and", more, body_value(&body, l->body->inputs[1].name)));
    return body;
}

static sl_onnx_body make_turn(sl_onnx_call *c, const loop *l) {
    sl_onnx_body body = sl_onnx_body_open(c, "body");
    declare_carries(c, l, &body);
    sl_onnx_body_import(c, &body, l->body);
    if (!body.scope) return body;
    sl_onnx_call inner = *c;
    inner.graph = body.graph;
    const sl_value turn = body_value(&body, l->body->inputs[0].name);
    sl_graph_output(body.graph, " turn", sl_onnx_op_scalar(&inner, "add", turn, 1));
    sl_onnx_body_output(c, &body, " most");
    for (uint32_t i = 0; i < l->vars + 1; i++)
        sl_onnx_body_output(c, &body, l->body->outputs[i].name);
    for (uint32_t i = 0; i < l->captures.count; i++)
        sl_onnx_body_output(c, &body, l->captures.items[i]->name);
    return body;
}

/* A number of iterations that depends on data. */
static void repeat_turns(sl_onnx_call *c, const loop *l) {
    if (l->scanned) {
        if (keeps_condition(l->body)) { /* then the two inputs need only be constants */
            (void)sl_onnx_integer_in(c, 0, 0);
            (void)sl_onnx_integer_in(c, 1, 0);
        }
        sl_onnx_refuse(c,
                       "collecting results over an unknown number of iterations is not supported");
        return;
    }
    const sl_dims scalar = {0};
    operands in = {0};
    sl_value out[2 * SL_ONNX_MOST_OPERANDS];
    add_operand(c, &in, sl_onnx_scalar(c, SL_DTYPE_i64, 0));
    add_operand(c, &in,
                sl_onnx_has(c, 0) ? sl_onnx_reshape(c, sl_onnx_in(c, 0), &scalar)
                                  : sl_onnx_scalar(c, SL_DTYPE_i64, 9e18));
    add_operand(c, &in,
                sl_onnx_has(c, 1) ? sl_onnx_reshape(c, sl_onnx_in(c, 1), &scalar)
                                  : sl_onnx_scalar(c, SL_DTYPE_bool, 1));
    for (uint32_t i = 0; i < l->vars; i++) add_operand(c, &in, sl_onnx_in(c, i + 2));
    add_captures(c, &in, &l->captures);
    sl_onnx_body condition = make_condition(c, l), turn = make_turn(c, l);
    if (sl_onnx_body_check(c, &condition) && sl_onnx_body_check(c, &turn)) {
        const sl_onnx_setting settings[] = {{"condition", 0, condition.graph},
                                            {"body", 0, turn.graph}};
        sl_onnx_append_bodies(c, &(sl_onnx_step){"while", in.count, in.count, in.items, out},
                              settings, 2);
        for (uint32_t i = 0; i < c->out_count; i++) sl_onnx_set(c, i, out[3 + i]);
    }
    sl_onnx_body_close(&condition);
    sl_onnx_body_close(&turn);
}

void sl_onnx_loop(sl_onnx_call *c) {
    loop *l = sl_onnx_memory(c, 1, sizeof *l);
    if (!l || !read_loop(c, l)) return;
    if (l->counted)
        count_turns(c, l);
    else
        repeat_turns(c, l);
}

/* ---- Scan ---- */

/* Entry i of an optional list. */
static int64_t entry(sl_onnx_call *c, const char *name, uint32_t i) {
    sl_integers list;
    return sl_onnx_ints(c, name, &list) && i < list.count ? list.items[i] : 0;
}

/* Moves an axis to the front, or back from there. */
static sl_value move_axis(sl_onnx_call *c, sl_value x, int64_t axis, bool back) {
    const uint32_t rank = sl_onnx_type(c, x).shape.rank;
    const uint32_t from = sl_onnx_axis(c, axis, rank);
    sl_dims perm = {.rank = rank};
    if (from == 0) return x;
    for (uint32_t i = 0; i < rank; i++)
        if (back)
            perm.dims[i] = i < from ? i + 1 : i == from ? 0 : i;
        else
            perm.dims[i] = i == 0 ? from : i <= from ? i - 1 : i;
    return sl_onnx_transpose(c, x, &perm);
}

static sl_value reversed(sl_onnx_call *c, sl_value x) {
    return sl_onnx_with(c, "reverse", x, "axes=[0]");
}

/* Opset 8 has a leading batch dim everywhere; a batch of 1 is removed. */
static sl_value without_batch(sl_onnx_call *c, sl_value x) {
    const sl_dims shape = sl_onnx_type(c, x).shape;
    sl_dims rest = {.rank = shape.rank ? shape.rank - 1 : 0};
    if (!shape.rank || shape.dims[0] != 1)
        sl_onnx_refuse(c, "opset 8 with a batch size other than 1 is not supported");
    memcpy(rest.dims, shape.dims + 1, rest.rank * sizeof rest.dims[0]);
    return sl_onnx_reshape(c, x, &rest);
}

static sl_value with_batch(sl_onnx_call *c, sl_value x) {
    const sl_dims shape = sl_onnx_type(c, x).shape;
    sl_dims more = {.rank = shape.rank + 1, .dims = {1}};
    if (more.rank > SL_MAX_RANK) return x;
    memcpy(more.dims + 1, shape.dims, shape.rank * sizeof shape.dims[0]);
    return sl_onnx_reshape(c, x, &more);
}

static sl_type element_type(const sl_onnx_call *c, sl_value x) {
    sl_type type = sl_onnx_type(c, x);
    if (!type.shape.rank) return type;
    memmove(type.shape.dims, type.shape.dims + 1, --type.shape.rank * sizeof type.shape.dims[0]);
    return type;
}

typedef struct {
    const sl_onnx_graph *body;
    /* Index of the first among the node's inputs, and their numbers. */
    uint32_t first, states, inputs;
    bool batched;
    sl_onnx_captures captures;
} scan;

static bool read_scan(sl_onnx_call *c, scan *s) {
    *s = (scan){.body = body_of(c, "body"), .batched = c->opset < 9};
    s->first = s->batched ? 1 : 0;
    const int64_t inputs = sl_onnx_int(c, "num_scan_inputs", 0);
    if (!s->body) return false;
    if (inputs < 1 || inputs > c->in_count - s->first || c->in_count < s->first ||
        s->body->input_count != c->in_count - s->first || c->in_count > SL_ONNX_MOST_OPERANDS ||
        c->out_count > s->body->output_count || s->body->output_count > SL_ONNX_MOST_OPERANDS) {
        sl_onnx_wrong(c, "%u inputs with %lld scanned ones do not fit the body", c->in_count,
                      (long long)inputs);
        return false;
    }
    if (s->batched && sl_onnx_has(c, 0)) sl_onnx_refuse(c, "input sequence_lens is not supported");
    s->inputs = (uint32_t)inputs;
    s->states = c->in_count - s->first - s->inputs;
    sl_onnx_capture(c, s->body, &s->captures);
    return !sl_onnx_failed(c);
}

/* Scanned input i in the form of the graph op: time axis first, forwards. */
static sl_value scan_input(sl_onnx_call *c, const scan *s, uint32_t i) {
    sl_value x = sl_onnx_in(c, s->first + s->states + i);
    if (s->batched) x = without_batch(c, x);
    x = move_axis(c, x, entry(c, "scan_input_axes", i), false);
    const bool backwards = entry(c, s->batched ? "directions" : "scan_input_directions", i) == 1;
    return backwards ? reversed(c, x) : x;
}

static void set_scan_outputs(sl_onnx_call *c, const scan *s, const sl_value *out) {
    for (uint32_t i = 0; i < c->out_count; i++) {
        sl_value y = out[i];
        if (i >= s->states) {
            const uint32_t k = i - s->states;
            if (entry(c, "scan_output_directions", k) == 1) y = reversed(c, y);
            y = move_axis(c, y, entry(c, "scan_output_axes", k), true);
        }
        sl_onnx_set(c, i, s->batched ? with_batch(c, y) : y);
    }
}

static void run_scan(sl_onnx_call *c, const scan *s) {
    sl_onnx_body body = sl_onnx_body_open(c, "body");
    operands in = {0};
    sl_value out[SL_ONNX_MOST_OPERANDS];
    for (uint32_t i = 0; i < s->states; i++) {
        const sl_value x = sl_onnx_in(c, s->first + i);
        add_operand(c, &in, s->batched ? without_batch(c, x) : x);
        sl_onnx_body_input(&body, s->body->inputs[i].name, c->in[s->first + i],
                           sl_onnx_type(c, in.items[in.count - 1]));
    }
    add_captures(c, &in, &s->captures);
    sl_onnx_body_captures(&body, &s->captures);
    for (uint32_t i = 0; i < s->inputs; i++) {
        const sl_value x = scan_input(c, s, i);
        add_operand(c, &in, x);
        sl_onnx_body_input(&body, s->body->inputs[s->states + i].name,
                           c->in[s->first + s->states + i], element_type(c, x));
    }
    sl_onnx_body_import(c, &body, s->body);
    for (uint32_t i = 0; i < s->body->output_count; i++)
        sl_onnx_body_output(c, &body, s->body->outputs[i].name);
    if (sl_onnx_body_check(c, &body)) {
        const sl_onnx_setting settings[] = {{"body", 0, body.graph},
                                            {"carries", s->states, NULL},
                                            {"consts", s->captures.count, NULL}};
        const uint32_t results = s->body->output_count;
        sl_onnx_append_bodies(c, &(sl_onnx_step){"scan", in.count, results, in.items, out},
                              settings, 3);
        set_scan_outputs(c, s, out);
    }
    sl_onnx_body_close(&body);
}

void sl_onnx_scan(sl_onnx_call *c) {
    scan *s = sl_onnx_memory(c, 1, sizeof *s);
    if (s && read_scan(c, s)) run_scan(c, s);
}
