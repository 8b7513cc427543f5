/* recognise_attention.c - Replaces attention that is spelled as two products with a softmax between
 * them by the op.
 *
 * From the product with the values back to the product of queries and keys, each of these may
 * appear: NaN set to 0; masks, which are added or chosen by where; a soft cap; scaling by a number,
 * also of queries and keys; casts between floats; and reshapes that keep queries and positions.  A
 * constant mask that hides later positions becomes the mask `causal` or `sliding`, and keys and
 * values that were repeated for heads that share them are used unrepeated.
 *
 * Matches are found in the graph as it is; then it is rebuilt with the op in place of the last
 * product, and dead code elimination removes the other nodes. */
#include "compiler/ops/attention.h"
#include "compiler/ops/semantics.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include "compiler/passes/recognise.h"
#include "compiler/passes/rewrite.h"
#include "core/codec.h"
#include <math.h>

enum { MOST_MASKS = 2 };
/* Scores are assumed to be smaller by far: what such a number is added to, or is put in place of,
 * has weight 0 beside a score that is not hidden.  What is added to a number of size HUGE is lost,
 * so that a query all of whose positions are hidden has equal weights. */
static const double LARGE = 1e4, HUGE_SIZE = 1e30;

/* A mask on scores of this shape: a tensor that is added, or bools that choose `fill`. */
typedef struct {
    sl_value tensor;
    bool chosen, inverted; /* inverted: fill is where the bools are true */
    double fill;
    sl_dims scores;
} mask;

/* Keys or values of fewer heads, and the transposition that is left to do. */
typedef struct {
    sl_value value;
    sl_dims perm; /* rank 0: none */
} operand;

typedef struct {
    const sl_graph *graph;
    operand q, k, v;
    sl_dims frame; /* the scores as [B,H,S,T]; rank 0 while unknown */
    double scale, softcap;
    mask masks[MOST_MASKS];
    uint32_t mask_count;
    bool scaled;     /* masks cannot follow */
    bool guarded;    /* NaN becomes 0: a query with no positions gives 0 */
    const char *why; /* it looks like attention and is none; NULL: it does not look like it */
} spelled;

/* What the op gets in place of the masks. */
typedef struct {
    uint32_t kind, window; /* sl_mask */
    bool fits;
} seen_as;

static const sl_type *type_of(const sl_graph *g, sl_value v) {
    return &g->values[v.v].type;
}
static const sl_node *maker(const sl_graph *g, sl_value v) {
    const sl_value_info *info = &g->values[v.v];
    return info->kind == SL_VALUE_RESULT ? &g->nodes[info->node] : NULL;
}
static const sl_node *made_by(const sl_graph *g, sl_value v, sl_op op) {
    const sl_node *node = maker(g, v);
    return node && node->op == op ? node : NULL;
}
static int64_t from_end(const sl_dims *dims, uint32_t back) {
    return dims->rank >= back ? dims->dims[dims->rank - back] : 1;
}
static bool is_float(const sl_graph *g, sl_value v) {
    return sl_dtype_infos[type_of(g, v)->dtype].kind == SL_KIND_FLOAT;
}

/* x times a number, or divided by it; false if the node is something else. */
static bool is_scaling(const sl_graph *g, const sl_node *node, sl_value *x, double *factor) {
    if (!node || (node->op != SL_OP_mul && node->op != SL_OP_div)) return false;
    for (int i = node->op == SL_OP_mul ? 0 : 1; i < 2; i++) {
        const double number = sl_only_number(&g->values[node->inputs[i].v]);
        *x = node->inputs[1 - i];
        *factor = node->op == SL_OP_mul ? number : 1 / number;
        if (isfinite(*factor) && *factor != 0 &&
            sl_type_equal(type_of(g, *x), type_of(g, node->outputs[0])))
            return true;
    }
    return false;
}

/* A cast between floats, or a reshape that keeps queries and positions. */
static bool is_noise(const sl_graph *g, const sl_node *node) {
    const sl_dims *to = &type_of(g, node->outputs[0])->shape;
    const sl_dims *from = &type_of(g, node->inputs[0])->shape;
    if (node->op == SL_OP_cast) return is_float(g, node->inputs[0]);
    return node->op == SL_OP_reshape && from_end(to, 1) == from_end(from, 1) &&
           from_end(to, 2) == from_end(from, 2);
}

static void note(spelled *s, const char *why) {
    if (!s->why) s->why = why;
}

/* ---- the scores ---- */

static bool has_frame(spelled *s, sl_value scores) {
    const sl_dims *shape = &type_of(s->graph, scores)->shape;
    if (shape->rank != 4) return true;
    if (s->frame.rank && !sl_dims_equal(&s->frame, shape)) return false;
    s->frame = *shape;
    return true;
}

static bool walk_scores(spelled *s, sl_value scores);

/* The node's operands as a mask and the scores that it is applied to. */
static bool take_mask(spelled *s, const sl_node *node, mask m, sl_value scores) {
    const sl_type *whole = type_of(s->graph, node->outputs[0]);
    if (s->scaled || s->mask_count == MOST_MASKS ||
        !sl_type_equal(type_of(s->graph, scores), whole))
        return false;
    m.scores = whole->shape;
    s->masks[s->mask_count++] = m;
    return walk_scores(s, scores);
}

/* Undoes a failed attempt to match, and keeps its reason. */
static void walk_back(spelled *s, const spelled *before) {
    const char *why = s->why;
    *s = *before;
    s->why = why;
}

static bool walk_add(spelled *s, const sl_node *node) {
    const spelled before = *s;
    for (int i = 0; i < 2; i++) {
        walk_back(s, &before);
        if (take_mask(s, node, (mask){.tensor = node->inputs[1 - i]}, node->inputs[i])) return true;
    }
    return false;
}

static bool walk_where(spelled *s, const sl_node *node) {
    const spelled before = *s;
    for (int i = 1; i <= 2; i++) {
        const double fill = sl_only_number(&s->graph->values[node->inputs[3 - i].v]);
        const mask m = {node->inputs[0], true, i == 2, fill, {0}};
        walk_back(s, &before);
        if (fill < 0 && take_mask(s, node, m, node->inputs[i])) return true;
    }
    return false;
}

/* cap tanh(x); what x is a multiple of is scaled by that and cap. */
static bool walk_scaling(spelled *s, const sl_node *node) {
    sl_value x;
    double factor;
    if (!is_scaling(s->graph, node, &x, &factor)) return false;
    const sl_node *tanh_node = made_by(s->graph, x, SL_OP_tanh);
    s->scale *= factor;
    if (tanh_node) {
        if (s->scaled || !(factor > 0) || s->graph->values[x.v].use_count != 1) return false;
        s->softcap = factor;
        x = tanh_node->inputs[0];
    }
    s->scaled = true;
    return walk_scores(s, x);
}

/* The last product that makes the scores, with queries and transposed keys. */
static bool walk_product(spelled *s, const sl_node *node) {
    operand *const operands[] = {&s->q, &s->k};
    for (int i = 0; i < 2; i++) {
        sl_value x = node->inputs[i];
        double factor;
        while (is_scaling(s->graph, maker(s->graph, x), &x, &factor)) s->scale *= factor;
        operands[i]->value = x;
    }
    return true;
}

static bool walk_scores(spelled *s, sl_value scores) {
    const sl_node *node = maker(s->graph, scores);
    if (!node || !has_frame(s, scores)) return false;
    if (s->graph->values[scores.v].use_count != 1) {
        note(s, "its scores are used elsewhere too");
        return false;
    }
    switch ((int)node->op) {
    case SL_OP_reshape:
    case SL_OP_cast:
        return is_noise(s->graph, node) && walk_scores(s, node->inputs[0]);
    case SL_OP_add:
        return walk_add(s, node);
    case SL_OP_where:
        return walk_where(s, node);
    case SL_OP_mul:
    case SL_OP_div:
        return walk_scaling(s, node);
    case SL_OP_matmul:
        return walk_product(s, node);
    default:
        return false;
    }
}

/* ---- the weights ---- */

static bool is_softmax_of_last(const sl_graph *g, const sl_node *node) {
    const uint32_t rank = type_of(g, node->inputs[0])->shape.rank;
    return node->op == SL_OP_softmax &&
           sl_axis(((const sl_softmax_attrs *)node->attrs)->axis, rank) == rank - 1;
}

/* where(is_nan(x), 0, x): x; 0 if the node is something else. */
static sl_value without_nan(const sl_graph *g, const sl_node *node) {
    const sl_value none = {0}, x = node->inputs[2];
    const sl_node *test = made_by(g, node->inputs[0], SL_OP_is_nan);
    const bool is_guard = test && test->inputs[0].v == x.v &&
                          sl_only_number(&g->values[node->inputs[1].v]) == 0 &&
                          g->values[x.v].use_count == 2;
    return is_guard ? x : none;
}

static bool walk_weights(spelled *s, sl_value weights) {
    const sl_node *node = maker(s->graph, weights);
    if (!node || !has_frame(s, weights)) return false;
    const uint32_t uses = s->graph->values[weights.v].use_count;
    if (is_softmax_of_last(s->graph, node)) {
        if (uses == (s->guarded ? 2u : 1u)) return walk_scores(s, node->inputs[0]);
        note(s, "its weights are used elsewhere too");
        return false;
    }
    if (uses != 1) return false;
    if (node->op == SL_OP_where) {
        const sl_value x = without_nan(s->graph, node);
        s->guarded = x.v != 0;
        return x.v && walk_weights(s, x);
    }
    return is_noise(s->graph, node) && walk_weights(s, node->inputs[0]);
}

/* ---- keys and values ---- */

/* Keys from transposed keys. */
static void turn_keys(const sl_graph *g, operand *k) {
    const sl_node *node = made_by(g, k->value, SL_OP_transpose);
    const uint32_t rank = type_of(g, k->value)->shape.rank;
    sl_dims perm = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) perm.dims[i] = i;
    if (node) perm = ((const sl_transpose_attrs *)node->attrs)->perm;
    const int64_t last = perm.dims[rank - 1];
    perm.dims[rank - 1] = perm.dims[rank - 2];
    perm.dims[rank - 2] = last;
    bool turned = false;
    for (uint32_t i = 0; i < rank; i++) turned |= perm.dims[i] != (int64_t)i;
    if (node) k->value = node->inputs[0];
    if (turned) k->perm = perm;
}

/* [B,H,T,D] that is repeated as [B,H,n,T,D] for n query heads each; 0: it is not. */
static sl_value unrepeated(const sl_graph *g, const operand *x, int64_t *times) {
    const sl_value none = {0};
    const sl_node *merged = made_by(g, x->value, SL_OP_reshape);
    const sl_node *repeated = merged ? made_by(g, merged->inputs[0], SL_OP_expand) : NULL;
    const sl_node *apart = repeated ? made_by(g, repeated->inputs[0], SL_OP_reshape) : NULL;
    if (!apart || x->perm.rank) return none;
    const sl_dims *from = &type_of(g, apart->inputs[0])->shape;
    const sl_dims *wide = &type_of(g, repeated->outputs[0])->shape;
    const sl_dims one = {5, {from->dims[0], from->dims[1], 1, from->dims[2], from->dims[3]}};
    if (from->rank != 4 || wide->rank != 5) return none;
    sl_dims many = one;
    many.dims[2] = *times = wide->dims[2];
    const sl_dims all = {4, {one.dims[0], one.dims[1] * *times, one.dims[3], one.dims[4]}};
    const bool fits = sl_dims_equal(&type_of(g, apart->outputs[0])->shape, &one) &&
                      sl_dims_equal(wide, &many) &&
                      sl_dims_equal(&type_of(g, merged->outputs[0])->shape, &all);
    return fits ? apart->inputs[0] : none;
}

static void take_heads(spelled *s) {
    int64_t times_k, times_v;
    const sl_value k = unrepeated(s->graph, &s->k, &times_k);
    const sl_value v = unrepeated(s->graph, &s->v, &times_v);
    if (!k.v || !v.v || times_k != times_v) return;
    s->k.value = k;
    s->v.value = v;
}

/* ---- masks ---- */

/* Whether position j is hidden from query i by the constant mask, whose element it is; false if the
 * element is neither 0 nor large. */
static bool reads(const sl_graph *g, const mask *m, int64_t at, bool *hidden) {
    const sl_value_info *info = &g->values[m->tensor.v];
    double x;
    sl_decode_f64(info->type.dtype,
                  (const char *)info->data + (size_t)at * sl_dtype_infos[info->type.dtype].bytes, 1,
                  &x);
    *hidden = m->chosen ? (x != 0) == m->inverted : x != 0;
    return m->chosen || x == 0 || x <= -LARGE;
}

/* The range of positions that a query sees if it is one, from the first that it sees. */
typedef struct {
    sl_seen seen;
    bool plain, whole; /* numbers are 0 or large; the range has no gaps */
} row_of_mask;

static row_of_mask read_row(const sl_graph *g, const mask *m, int64_t at, int64_t step,
                            int64_t keys) {
    row_of_mask row = {{0, 0}, true, true};
    for (int64_t j = 0; j < keys && row.plain; j++) {
        bool hidden;
        row.plain = reads(g, m, at + j * step, &hidden);
        if (hidden) continue;
        if (row.seen.end == 0) row.seen = (sl_seen){j, j};
        row.whole &= row.seen.end == j;
        row.seen.end = j + 1;
    }
    return row;
}

/* A constant mask as one of the op's own, as far as it is one; open: every query sees something. */
static seen_as constant_mask(const sl_graph *g, const mask *m, const sl_dims *frame, bool *open) {
    const sl_dims *shape = &type_of(g, m->tensor)->shape;
    const sl_strides by = sl_strides_of(shape);
    const int64_t queries = frame->dims[2], keys = frame->dims[3];
    bool all = true, causal = true, sliding = true, plain = true;
    int64_t window = 0;
    *open = true;
    for (int64_t n = 0; n < frame->dims[0] * frame->dims[1] * queries; n++) {
        const int64_t i = n % queries, plane = n / queries, end = keys - queries + i + 1;
        if ((by.by[0] == 0 && plane >= frame->dims[1]) || (by.by[1] == 0 && plane % frame->dims[1]))
            continue; /* seen already */
        const int64_t at = plane / frame->dims[1] * by.by[0] + plane % frame->dims[1] * by.by[1];
        const row_of_mask row = read_row(g, m, at + i * by.by[2], by.by[3], keys);
        const int64_t width = row.seen.end - row.seen.first;
        if (width > window) window = width;
        plain &= row.plain;
        *open &= width > 0;
        all &= row.whole && width == keys;
        causal &= row.whole && row.seen.first == 0 && row.seen.end == end;
        sliding &= row.whole && row.seen.end == end;
    }
    /* A window is cut off at the first position. */
    for (int64_t i = 0; sliding && i < queries; i++) {
        const row_of_mask row = read_row(g, m, i * by.by[2], by.by[3], keys);
        const int64_t end = keys - queries + i + 1;
        sliding = row.seen.first == (end > window ? end - window : 0);
    }
    sliding &= by.by[0] == 0 && by.by[1] == 0;
    const bool own = plain && (all || (*open && (causal || sliding)));
    return (seen_as){all      ? SL_MASK_NONE
                     : causal ? SL_MASK_CAUSAL
                              : SL_MASK_SLIDING,
                     own && !all && !causal ? (uint32_t)window : 0, own};
}

static bool is_constant(const sl_graph *g, const mask *m) {
    const sl_value_info *info = &g->values[m->tensor.v];
    return info->kind == SL_VALUE_CONSTANT && sl_dtype_infos[info->type.dtype].bytes &&
           sl_dtype_infos[info->type.dtype].kind != SL_KIND_COMPLEX;
}

static bool frame_fits(const spelled *s, const mask *m) {
    if (m->scores.rank == 4) return sl_dims_equal(&m->scores, &s->frame);
    return m->scores.rank == 3 && s->frame.dims[0] == 1 && s->frame.dims[1] == m->scores.dims[0];
}

/* Drops masks that hide nothing and finds what the others are; false if the op has no such mask. */
static bool read_masks(spelled *s, seen_as *out) {
    uint32_t kept = 0;
    *out = (seen_as){SL_MASK_NONE, 0, true};
    for (uint32_t i = 0; i < s->mask_count; i++) {
        mask *m = &s->masks[i];
        bool open = false;
        seen_as as = {0};
        if (!frame_fits(s, m)) return false;
        if (is_constant(s->graph, m)) as = constant_mask(s->graph, m, &s->frame, &open);
        if (m->chosen && !(m->fill <= -LARGE)) {
            note(s, "its mask puts in a number that is not large");
            return false;
        }
        if (as.fits && as.kind == SL_MASK_NONE) continue;
        const bool lost = open || m->fill <= -HUGE_SIZE;
        if (m->chosen && !lost) {
            note(s, "its mask may hide all positions, and what it puts in is not minus infinity");
            return false;
        }
        s->masks[kept++] = *m;
        *out = as;
        if (as.fits) continue;
        out->kind = m->chosen && (open || isinf(m->fill)) ? SL_MASK_CUSTOM : SL_MASK_BIAS;
    }
    s->mask_count = kept;
    if (kept == 2) *out = (seen_as){SL_MASK_BIAS, 0, false};
    if (kept == 0) *out = (seen_as){SL_MASK_NONE, 0, true};
    return true;
}

/* ---- the match ---- */

/* Whether the value has one matrix for each head, in 3 or 4 dims. */
static bool has_heads(const spelled *s, const sl_dims *shape) {
    const int64_t *heads = s->frame.dims;
    if (shape->rank == 3) return shape->dims[0] == heads[0] * heads[1];
    return shape->rank == 4 && shape->dims[0] == heads[0] && shape->dims[1] == heads[1];
}

/* Operands of 3 dims get a first one, unless the scores are seen with 4. */
static bool find_frame(spelled *s, sl_value product) {
    const sl_dims *q = &type_of(s->graph, s->q.value)->shape;
    const sl_dims *k = &type_of(s->graph, s->k.value)->shape;
    const sl_dims *v = &type_of(s->graph, s->v.value)->shape;
    if (!s->frame.rank) s->frame = (sl_dims){4, {1, q->dims[0], from_end(q, 2), from_end(k, 1)}};
    return has_heads(s, q) && has_heads(s, k) && has_heads(s, v) &&
           has_heads(s, &type_of(s->graph, product)->shape) && from_end(q, 2) == s->frame.dims[2] &&
           from_end(k, 1) == s->frame.dims[3] && from_end(v, 2) == s->frame.dims[3];
}

static bool match_attention(const sl_graph *g, const sl_node *last, spelled *s, seen_as *as) {
    *s = (spelled){.graph = g, .scale = 1};
    if (last->op != SL_OP_matmul || !is_float(g, last->outputs[0])) return false;
    if (!walk_weights(s, last->inputs[0])) return false;
    s->v.value = last->inputs[1];
    const sl_dtype dtype = type_of(g, s->q.value)->dtype;
    if (!find_frame(s, last->outputs[0]) || type_of(g, s->k.value)->dtype != dtype ||
        type_of(g, s->v.value)->dtype != dtype || type_of(g, last->outputs[0])->dtype != dtype)
        return false;
    const float scale = (float)s->scale;
    if (!isfinite(scale) || scale == 0 || !read_masks(s, as)) return false;
    turn_keys(g, &s->k);
    take_heads(s);
    return true;
}

/* ---- building ---- */

typedef struct {
    sl_fusion_log log;
    const sl_graph *old; /* the nodes before the graph is rebuilt */
    sl_error *err;
    sl_status status;
} recogniser;

static const char rule_name[] = "attention";

/* A value as [B,H,rows,columns], where H is what is left. */
static sl_value framed(sl_rebuild *r, const operand *x, const sl_dims *frame, const char *label) {
    sl_value now = r->now[x->value.v];
    r->graph->kept_label = label;
    if (x->perm.rank) now = sl_rw_transpose(r->graph, now, &x->perm);
    const sl_dims shape = sl_rw_type(r->graph, now)->shape;
    if (shape.rank == 4) return now;
    const sl_dims four = {
        4, {frame->dims[0], frame->dims[1], from_end(&shape, 2), from_end(&shape, 1)}};
    r->graph->kept_label = label;
    return sl_rw_reshape(r->graph, now, &four);
}

/* The bools, true where attended to. */
static sl_value shown(sl_rebuild *r, const mask *m) {
    const sl_value now = r->now[m->tensor.v];
    return m->inverted ? sl_rw_unary(r->graph, SL_OP_logical_not, now) : now;
}

static sl_value added(sl_rebuild *r, const mask *m, sl_dtype dtype) {
    if (!m->chosen) return sl_rw_cast(r->graph, r->now[m->tensor.v], dtype);
    return sl_rw_where(r->graph, shown(r, m), sl_rw_number(r->graph, dtype, 0),
                       sl_rw_number(r->graph, dtype, m->fill));
}

static sl_value replace(sl_rebuild *r, const spelled *s, const seen_as *as, const char *label) {
    sl_value in[4] = {framed(r, &s->q, &s->frame, label), framed(r, &s->k, &s->frame, label),
                      framed(r, &s->v, &s->frame, label)};
    uint32_t count = 3;
    sl_value out = {0};
    const sl_dtype dtype = sl_rw_type(r->graph, in[0])->dtype;
    if (as->kind == SL_MASK_CUSTOM) in[count++] = shown(r, &s->masks[0]);
    if (as->kind == SL_MASK_BIAS) in[count++] = added(r, &s->masks[0], dtype);
    if (as->kind == SL_MASK_BIAS && s->mask_count == 2)
        in[3] = sl_rw_binary(r->graph, SL_OP_add, added(r, &s->masks[1], dtype), in[3]);
    const sl_attention_attrs attrs = {.mask = as->kind,
                                      .window = as->window,
                                      .scale = (float)s->scale,
                                      .softcap = (float)s->softcap};
    r->graph->kept_label = label;
    sl_graph_append_list(r->graph, SL_OP_attention, (sl_values){count, in}, &attrs,
                         (sl_value_slots){1, &out});
    return out;
}

static void note_row(recogniser *c, const sl_node *node, const char *why) {
    if (c->status == SL_OK)
        c->status = sl_fusion_note(&c->log, rule_name, node->label, why, c->err);
}

static void rebuild_node(sl_rebuild *r, const sl_node *node) {
    recogniser *c = r->ctx;
    spelled s;
    seen_as as;
    if (!match_attention(c->old, node, &s, &as)) {
        if (s.why) note_row(c, node, s.why);
        sl_rebuild_same(r, node);
        return;
    }
    const sl_dims shape = sl_rw_type(r->graph, node->outputs[0])->shape;
    const sl_value out = replace(r, &s, &as, node->label);
    r->graph->kept_label = node->label;
    sl_rebuild_set(r, node, 0, sl_rw_reshape(r->graph, out, &shape));
    r->graph->kept_label = NULL;
    r->changed = true;
    note_row(c, node, NULL);
}

/* Most graphs have no softmax that feeds a product. */
static bool is_worthwhile(const sl_graph *g) {
    for (uint32_t n = 0; n < g->node_count; n++)
        if (g->nodes[n].op == SL_OP_softmax) return true;
    return false;
}

sl_status sl_pass_attention(sl_graph *graph, sl_pass_context *context, bool *changed,
                            sl_error *err) {
    if (!is_worthwhile(graph)) return SL_OK;
    sl_graph old = *graph; /* its nodes and values stay in the arena while the graph is rebuilt */
    recogniser c = {.log = sl_fusion_begin(graph, context), .old = &old, .err = err};
    sl_rebuild r = {.graph = graph, .node = rebuild_node, .ctx = &c};
    SL_TRY(sl_rebuild_graph(&r, err));
    sl_fusion_end(&c.log, context);
    *changed = r.changed;
    return c.status;
}
