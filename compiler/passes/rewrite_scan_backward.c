/* rewrite_scan_backward.c - The gradient of a scan as two scans: a forward one that stores every
 * carry, and a reverse one that propagates the gradients of the carries and sums those of the
 * constants. */
#include "compiler/ops/body.h"
#include "compiler/passes/rewrite.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const sl_scan_backward_attrs *attrs;
    const sl_value *in;
    uint32_t carries, consts, xs, ys, inputs; /* inputs: those of the scan, those of its body */
    sl_value *kept;                           /* carries before each step, stacked */
    sl_value *room; /* operands and results of a scan and its body, one after the other */
} gradient;

static bool open_gradient(sl_graph *g, const sl_node *node, const sl_value *in, gradient *d) {
    const size_t count = (size_t)node->input_count + 1;
    *d = (gradient){.attrs = node->attrs, .in = in};
    d->carries = d->attrs->carries;
    d->consts = d->attrs->consts;
    d->inputs = sl_body_input_count(d->attrs->body);
    d->xs = d->inputs - d->carries - d->consts;
    d->ys = d->attrs->body->output_count - d->carries;
    d->kept = SL_ARENA_NEW_ARRAY(&g->arena, sl_value, 3 * count);
    d->room = SL_ARENA_NEW_ARRAY(&g->arena, sl_value, 6 * count);
    return d->kept && d->room;
}

static sl_graph *new_body(sl_graph *g) {
    sl_graph *body = NULL;
    sl_error err = {0};
    if (sl_graph_create("made", g->arena.allocator, &body, &err) != SL_OK)
        sl_graph_mistake(g, SL_NO_MEMORY, "no memory for a body");
    else
        body->customs = g->customs;
    return body;
}
static sl_value declare(sl_graph *body, sl_type type) {
    char name[16];
    (void)snprintf(name, sizeof name, "x%u", body->value_count);
    return sl_graph_declare(body, SL_VALUE_INPUT, name, type);
}
static void give(sl_graph *body, sl_value value) {
    char name[16];
    (void)snprintf(name, sizeof name, "y%u", body->output_count);
    sl_graph_output(body, name, value);
}
/* The slice of a stacked tensor that one iteration gets. */
static sl_type slice_of(const sl_graph *g, sl_value stack) {
    sl_type type = *sl_rw_type(g, stack);
    type.shape.rank--;
    memmove(type.shape.dims, type.shape.dims + 1, type.shape.rank * sizeof type.shape.dims[0]);
    return type;
}

static sl_type sum_type(const sl_graph *g, sl_value of) {
    sl_type type = *sl_rw_type(g, of);
    if (sl_dtype_infos[type.dtype].kind == SL_KIND_FLOAT) type.dtype = SL_DTYPE_f64;
    return type;
}
static sl_value sum_of(sl_graph *g, sl_value so_far, sl_value x) {
    return sl_rw_binary(g, SL_OP_add, so_far, sl_rw_cast(g, x, sl_rw_type(g, so_far)->dtype));
}

/* A scan over the first `count` values of `room`; the body is copied and no longer needed. */
static void append_scan(sl_graph *g, const gradient *d, sl_graph *body, sl_scan_attrs attrs,
                        uint32_t count, sl_value_slots out) {
    attrs.body = body;
    attrs.length = d->attrs->length;
    sl_graph_append_list(g, SL_OP_scan, (sl_values){count, d->room}, &attrs, out);
    sl_graph_destroy(body);
}

static void keep_carries(sl_graph *g, const gradient *d) {
    sl_value *inside = d->room + d->inputs, *out = inside + d->inputs;
    sl_graph *body = new_body(g);
    if (!body) return;
    for (uint32_t i = 0; i < d->inputs; i++) {
        const bool stacked = i >= d->carries + d->consts;
        d->room[i] = d->in[i];
        inside[i] = declare(body, stacked ? slice_of(g, d->in[i]) : *sl_rw_type(g, d->in[i]));
    }
    sl_rw_inline(body, d->attrs->body, inside, out);
    for (uint32_t i = 0; i < d->carries; i++) give(body, out[i]);
    for (uint32_t i = 0; i < d->carries; i++) give(body, inside[i]);
    const sl_scan_attrs attrs = {
        .carries = d->carries, .consts = d->consts, .reverse = d->attrs->reverse};
    append_scan(g, d, body, attrs, d->inputs, (sl_value_slots){2 * d->carries, d->kept});
}

/* One iteration of the reverse scan.  Its carries are the gradients of the carries and the sums;
 * then the constants; then the stacked tensors: carries, xs, gradients of ys. */
static void make_step(const sl_graph *g, const gradient *d, sl_graph *body, uint32_t count) {
    const uint32_t carried = d->carries + d->consts, fixed = carried + d->consts;
    sl_value *inside = d->room + count, *given = inside + count, *next = given;
    for (uint32_t i = 0; i < count; i++)
        inside[i] = declare(body, i < fixed ? *sl_rw_type(g, d->room[i]) : slice_of(g, d->room[i]));
    for (uint32_t i = 0; i < d->carries; i++) *next++ = inside[fixed + i];
    for (uint32_t i = 0; i < d->consts; i++) *next++ = inside[carried + i];
    for (uint32_t i = 0; i < d->xs; i++) *next++ = inside[fixed + d->carries + i];
    for (uint32_t i = 0; i < d->carries; i++) *next++ = inside[i];
    for (uint32_t i = 0; i < d->ys; i++) *next++ = inside[count - d->ys + i];
    sl_rw_inline(body, d->attrs->backward, given, next);
    for (uint32_t i = 0; i < d->inputs; i++) {
        const bool is_summed = i >= d->carries && i < carried;
        give(body, is_summed ? sum_of(body, inside[i], next[i]) : next[i]);
    }
}

/* Gradients of all inputs of the scan. */
static void go_back(sl_graph *g, const gradient *d, sl_value *out) {
    sl_value *next = d->room;
    sl_graph *body = new_body(g);
    if (!body) return;
    for (uint32_t i = 0; i < d->carries; i++) *next++ = d->in[d->inputs + i];
    for (uint32_t i = 0; i < d->consts; i++) {
        const sl_type type = sum_type(g, d->in[d->carries + i]);
        *next++ = sl_rw_filled(g, &type, 0);
    }
    for (uint32_t i = 0; i < d->consts; i++) *next++ = d->in[d->carries + i];
    for (uint32_t i = 0; i < d->carries; i++) *next++ = d->kept[d->carries + i];
    for (uint32_t i = 0; i < d->xs; i++) *next++ = d->in[d->carries + d->consts + i];
    for (uint32_t i = 0; i < d->ys; i++) *next++ = d->in[d->inputs + d->carries + i];
    const uint32_t count = (uint32_t)(next - d->room);
    make_step(g, d, body, count);
    const sl_scan_attrs attrs = {
        .carries = d->carries + d->consts, .consts = d->consts, .reverse = !d->attrs->reverse};
    append_scan(g, d, body, attrs, count, (sl_value_slots){d->inputs, out});
    for (uint32_t i = d->carries; i < d->carries + d->consts; i++)
        out[i] = sl_rw_cast(g, out[i], sl_rw_type(g, d->in[i])->dtype);
}

bool sl_rewrite_scan_backward(sl_graph *g, const sl_node *node, const sl_value *in, sl_value *out) {
    gradient d;
    if (!open_gradient(g, node, in, &d)) return false;
    keep_carries(g, &d);
    go_back(g, &d, out);
    return true;
}

bool sl_rewrite_scan_backward_xs(sl_graph *g, const sl_node *node, const sl_value *in,
                                 sl_value *out) {
    gradient d;
    if (!open_gradient(g, node, in, &d)) return false;
    sl_value *all = d.kept + d.carries + d.carries; /* as many as the scan has inputs */
    keep_carries(g, &d);
    go_back(g, &d, all);
    for (uint32_t i = 0; i < d.xs; i++) out[i] = all[d.carries + d.consts + i];
    return true;
}
