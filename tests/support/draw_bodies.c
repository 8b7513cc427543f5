/* draw_bodies.c - Ops with bodies, which are drawn graphs themselves. */
#include "tests/support/draw_parts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8 };
typedef struct {
    sl_type items[MOST];
    uint32_t count;
} types;

static sl_value last_of(const generator *g, const sl_type *type, uint32_t skip) {
    for (uint32_t i = g->pooled; i > 0; i--)
        if (sl_type_equal(&g->graph->values[g->pool[i - 1].v].type, type) && skip-- == 0)
            return g->pool[i - 1];
    return (sl_value){0};
}

/* What a body takes, off by what an op before it may be: loops give it its own results. */
static void move_input(reference *r, sl_value value) {
    const sl_eval_tensor *tensor = &r->tensors[value.v];
    if (sl_dtype_infos[tensor->type.dtype].kind != SL_KIND_FLOAT || !tensor->data) return;
    for (int64_t i = 0; i < sl_type_slots(&tensor->type); i++)
        tensor->data[i] *= test_draw(&r->moves, 2) ? 1 + 0x1p-19 : 1 - 0x1p-19;
}

/* What these give of an operand that lies along the other one is nothing but rounding; and loops
 * can bring that about. */
static bool projects(sl_op op) {
    return op == SL_OP_rms_norm_backward_input || op == SL_OP_layer_norm_backward_input ||
           op == SL_OP_group_norm_backward_input;
}

/* Whether its results hardly change where all it takes and computes is off by what ops may be off:
 * its insides are not moved when the node is evaluated. */
static bool is_steady(const generator *g) {
    const sl_graph *graph = g->graph;
    bool steady = true;
    for (uint64_t k = 1; k <= 4 && steady; k++) {
        reference r;
        sl_error err = {0};
        reference_init(&r, graph, DRAWN_VALUES, k);
        for (uint32_t v = 1; v <= graph->value_count; v++)
            if (graph->values[v].kind != SL_VALUE_RESULT)
                reference_declare(&r, (sl_value){v}, g->drawn->bytes[v]);
        for (uint32_t v = 1; v <= graph->value_count; v++)
            if (graph->values[v].kind == SL_VALUE_INPUT) move_input(&r, (sl_value){v});
        for (uint32_t n = 0; n < graph->node_count && steady; n++)
            steady = !projects(graph->nodes[n].op) &&
                     reference_node(&r, &graph->nodes[n], &err) == SL_OK;
        for (uint32_t o = 0; o < graph->output_count && steady; o++)
            steady = reference_near(&g->drawn->plain.tensors[graph->outputs[o].value.v],
                                    &r.tensors[graph->outputs[o].value.v], 4);
        reference_deinit(&r);
    }
    return steady;
}

/* Draws a body: what it takes, what it gives, and as many results more, whose types follow.  Its
 * text goes to `out`; false: too long, or of no use. */
static bool body(generator *outer, const types *takes, const types *gives, types *more, char *out) {
    generator *g = malloc(sizeof *g);
    assert_non_null(g);
    generator_init(g, "body", draw(outer, 1u << 30));
    g->body = true;
    for (uint32_t i = 0; i < takes->count; i++) {
        g->body = false;
        g->pool[g->pooled++] = draw_declare(g, SL_VALUE_INPUT, &takes->items[i],
                                            draw_bytes(g, &takes->items[i], 0, 0));
        g->body = true;
    }
    const uint32_t nodes = draw(outer, 6);
    for (uint32_t tries = 0; g->graph->node_count < nodes && tries < 60; tries++) draw_node(g);
    char name[16];
    for (uint32_t o = 0; o < gives->count; o++) {
        (void)snprintf(name, sizeof name, "o%u", o);
        sl_value value = last_of(g, &gives->items[o], draw(outer, 2));
        if (!value.v) value = last_of(g, &gives->items[o], 0);
        sl_graph_output(g->graph, name, value);
    }
    for (uint32_t o = 0; more && o < more->count; o++) {
        (void)snprintf(name, sizeof name, "m%u", o);
        const sl_value value = g->pool[g->pooled - 1 - draw(outer, g->pooled < 3 ? g->pooled : 3)];
        more->items[o] = g->graph->values[value.v].type;
        sl_graph_output(g->graph, name, value);
    }
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    char *text = NULL;
    sl_error err = {0};
    if (sl_graph_print(g->graph, &arena, &text, &err)) fail_msg("%s", err.message);
    const bool fits = strlen(text) < (size_t)DRAW_TEXT * 3 && is_steady(g);
    if (fits) memcpy(out, text, strlen(text) + 1);
    sl_arena_deinit(&arena);
    drawn_destroy(g->drawn);
    free(g);
    return fits;
}

/* ---- operands ---- */

static bool is_plain(const sl_type *type) {
    return type->dtype != SL_DTYPE_a8;
}

static sl_value some_plain(generator *g) {
    for (int tries = 0; tries < 8 && g->pooled; tries++) {
        const sl_value value = g->pool[draw(g, g->pooled)];
        const sl_type *type = &g->graph->values[value.v].type;
        if (is_plain(type) && sl_type_elements(type) < 200) return value;
    }
    const sl_type type = sl_type_make(SL_DTYPE_f32, 1, (int64_t)1 + draw(g, 5));
    return draw_declare(g, SL_VALUE_INPUT, &type, draw_bytes(g, &type, 0, 0));
}

static sl_value of_type(generator *g, const sl_type *type) {
    const sl_value found = last_of(g, type, draw(g, 3));
    return found.v ? found : draw_declare(g, SL_VALUE_INPUT, type, draw_bytes(g, type, 0, 0));
}

static void push(generator *g, types *all, sl_value value, sl_value *values) {
    values[all->count] = value;
    all->items[all->count++] = g->graph->values[value.v].type;
}

/* ---- ops ---- */

typedef struct {
    char first[DRAW_TEXT * 3 + 1], second[DRAW_TEXT * 3 + 1], attrs[DRAW_TEXT * 7];
} texts;

static bool draw_if(generator *g, texts *t) {
    const sl_type truth = sl_type_make(SL_DTYPE_bool, 0);
    sl_value inputs[MOST + 1] = {of_type(g, &truth)}, outputs[MOST];
    types takes = {0}, gives = {0};
    for (uint32_t i = 0, count = 1 + draw(g, 3); i < count; i++)
        push(g, &takes, some_plain(g), inputs + 1);
    for (uint32_t i = 0, count = 1 + draw(g, 2); i < count; i++)
        gives.items[gives.count++] = takes.items[draw(g, takes.count)];
    if (!body(g, &takes, &gives, NULL, t->first) || !body(g, &takes, &gives, NULL, t->second))
        return false;
    (void)sprintf(t->attrs, "then = %s, otherwise = %s", t->first, t->second);
    return draw_append(g, SL_OP_if, (sl_values){takes.count + 1, inputs}, t->attrs, gives.count,
                       outputs);
}

static bool draw_function(generator *g, texts *t) {
    sl_value inputs[MOST], outputs[MOST];
    types takes = {0}, gives = {0}, more = {.count = 1 + draw(g, 2)};
    for (uint32_t i = 0, count = 1 + draw(g, 3); i < count; i++)
        push(g, &takes, some_plain(g), inputs);
    if (!body(g, &takes, &gives, &more, t->first)) return false;
    (void)sprintf(t->attrs, "body = %s", t->first);
    return draw_append(g, SL_OP_custom_fn, (sl_values){takes.count, inputs}, t->attrs, more.count,
                       outputs);
}

/* The first carry is below a number, or it ends after so many rounds. */
static bool draw_while(generator *g, texts *t) {
    const sl_type counter = sl_type_make(SL_DTYPE_i32, 0);
    sl_value inputs[MOST], outputs[MOST];
    types takes = {0};
    char declared[512], *at = declared;
    push(g, &takes, of_type(g, &counter), inputs);
    for (uint32_t i = 0, count = 1 + draw(g, 2); i < count; i++)
        push(g, &takes, some_plain(g), inputs);
    if (!body(g, &takes, &takes, NULL, t->first)) return false;
    for (uint32_t i = 0; i < takes.count; i++) {
        char type[SL_TYPE_TEXT];
        at +=
            sprintf(at, "input %%x%u : %s ", i, sl_type_format(&takes.items[i], type, sizeof type));
    }
    (void)sprintf(t->attrs,
                  "condition = graph \"c\" { %sconstant %%k : i32[] = {%u} "
                  "%%1 = %s(%%x0, %%k) output \"o\" = %%1 }, body = %s, most = %u",
                  declared, draw(g, 5), draw(g, 4) ? "less" : "greater", t->first, 1 + draw(g, 4));
    return draw_append(g, SL_OP_while, (sl_values){takes.count, inputs}, t->attrs, takes.count,
                       outputs);
}

typedef struct {
    sl_value inputs[MOST * 2];
    uint32_t carries, consts, xs, count;
    int64_t length;
    types takes, gives, ys;
} loop;

static sl_type stacked(const sl_type *type, int64_t length) {
    sl_type out = *type;
    out.shape.rank++;
    for (uint32_t d = out.shape.rank - 1; d > 0; d--) out.shape.dims[d] = out.shape.dims[d - 1];
    out.shape.dims[0] = length;
    return out;
}

/* The operands of a scan; floats alone where it has a gradient. */
static bool loop_operands(generator *g, loop *l, bool floats) {
    const sl_type small = sl_type_make(SL_DTYPE_f32, 1, (int64_t)1 + draw(g, 4));
    l->length = 1 + draw(g, 5);
    l->carries = 1 + draw(g, 2), l->consts = draw(g, 2), l->xs = 1;
    for (uint32_t i = 0; i < l->carries + l->consts; i++) {
        const sl_value value = floats ? of_type(g, &small) : some_plain(g);
        push(g, &l->takes, value, l->inputs);
        if (i < l->carries) l->gives.items[l->gives.count++] = l->takes.items[i];
    }
    const sl_type x = stacked(&small, l->length);
    l->inputs[l->takes.count] = of_type(g, &x);
    l->takes.items[l->takes.count++] = small;
    l->count = l->takes.count;
    return true;
}

static bool draw_scan(generator *g, texts *t) {
    loop l = {.ys.count = draw(g, 3)};
    sl_value outputs[MOST];
    if (!loop_operands(g, &l, false) || !body(g, &l.takes, &l.gives, &l.ys, t->first)) return false;
    (void)sprintf(t->attrs, "body = %s, carries = %u, consts = %u, length = %lld, reverse = %u",
                  t->first, l.carries, l.consts, draw(g, 2) ? (long long)l.length : 0, draw(g, 2));
    return draw_append(g, SL_OP_scan, (sl_values){l.count, l.inputs}, t->attrs,
                       l.carries + l.ys.count, outputs);
}

/* Its backward body is any that fits. */
static bool draw_backward(generator *g, texts *t, bool only_xs) {
    loop l = {.ys.count = 1};
    sl_value outputs[MOST * 2];
    if (!loop_operands(g, &l, true)) return false;
    types gives = l.gives, takes = l.takes;
    gives.items[gives.count++] = l.takes.items[0]; /* y, of a type that a gradient can have */
    if (!body(g, &l.takes, &gives, NULL, t->first)) return false;
    for (uint32_t i = 0; i < l.carries; i++) {
        l.inputs[l.count++] = of_type(g, &l.gives.items[i]);
        takes.items[takes.count++] = l.gives.items[i];
    }
    const sl_type dy = stacked(&l.takes.items[0], l.length);
    l.inputs[l.count++] = of_type(g, &dy);
    takes.items[takes.count++] = l.takes.items[0];
    if (!body(g, &takes, &l.takes, NULL, t->second)) return false;
    (void)sprintf(t->attrs,
                  "body = %s, backward = %s, carries = %u, consts = %u, reverse = %u, "
                  "checkpoints = %u",
                  t->first, t->second, l.carries, l.consts, draw(g, 2), draw(g, 4));
    return draw_append(g, only_xs ? SL_OP_scan_backward_xs : SL_OP_scan_backward,
                       (sl_values){l.count, l.inputs}, t->attrs, only_xs ? l.xs : l.takes.count,
                       outputs);
}

static bool draw_whole(generator *g, texts *t) {
    return draw_backward(g, t, false);
}
static bool draw_only_xs(generator *g, texts *t) {
    return draw_backward(g, t, true);
}

static const struct {
    sl_op op;
    bool (*draw)(generator *g, texts *t);
} all[] = {
    {SL_OP_if, draw_if},
    {SL_OP_while, draw_while},
    {SL_OP_scan, draw_scan},
    {SL_OP_custom_fn, draw_function},
    {SL_OP_scan_backward, draw_whole},
    {SL_OP_scan_backward_xs, draw_only_xs},
};
enum { CONTROLS = sizeof all / sizeof all[0] };

static bool draw_row(generator *g, size_t row) {
    texts *t = malloc(sizeof *t);
    assert_non_null(t);
    const bool done = all[row].draw(g, t);
    free(t);
    return done;
}

bool draw_control(generator *g) {
    const uint32_t row = draw(g, CONTROLS - 1); /* gradients as often as each other op */
    return draw_row(g, row + (row == CONTROLS - 2 ? draw(g, 2) : 0));
}

bool draw_control_of(generator *g, sl_op op) {
    for (size_t row = 0; row < CONTROLS; row++)
        if (all[row].op == op) return draw_row(g, row);
    return false;
}
