/* share.c - Common subexpression elimination: of nodes with the same op, attributes and operands
 * only the first is kept. */
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include <string.h>

/* Nodes seen so far, by hash: open addressing, entries are new node indices + 1. */
typedef struct {
    uint32_t *slots;
    uint32_t mask;
} table;

/* ---- attributes ---- */

typedef struct {
    sl_attr_visitor visitor; /* first */
    uint64_t hash;
} hasher;

static uint64_t mix(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): all are set */
        hash = (hash ^ at[i]) * 0x100000001b3u;
    }
    return hash;
}

/* What the attribute points to, or the attribute itself. */
static const void *content(sl_attr_kind kind, const sl_attr *attr, size_t *bytes) {
    *bytes = sl_attr_bytes(kind);
    switch (kind) {
    case SL_ATTR_list:
        *bytes = attr->list.count * sizeof *attr->list.items;
        return attr->list.items;
    case SL_ATTR_reals:
        *bytes = attr->reals.count * sizeof *attr->reals.items;
        return attr->reals.items;
    case SL_ATTR_text:
        *bytes = strlen(attr->text) + 1;
        return attr->text;
    case SL_ATTR_dims:
        *bytes = attr->dims.rank * sizeof attr->dims.dims[0];
        return attr->dims.dims;
    default: /* bodies are equal only if they are the same object */
        return attr;
    }
}

static void hash_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    hasher *h = (hasher *)visitor;
    (void)name;
    size_t bytes;
    const void *at = content(kind, value, &bytes);
    h->hash = mix(mix(h->hash, &bytes, sizeof bytes), at, bytes);
}

/* Attributes of one node in order, for comparing with another's. */
enum { MOST_ATTRS = 64 };
typedef struct {
    sl_attr_visitor visitor; /* first */
    uint32_t count;
    struct {
        sl_attr_kind kind;
        sl_attr_store value;
    } items[MOST_ATTRS];
} attr_list;

static void collect(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attr_list *list = (attr_list *)visitor;
    (void)name;
    if (list->count < MOST_ATTRS) {
        list->items[list->count].kind = kind;
        memcpy(&list->items[list->count].value, value, sl_attr_bytes(kind));
    }
    list->count++;
}

static void visit(const sl_node *node, sl_attr_visitor *visitor) {
    _Alignas(max_align_t) unsigned char copy[SL_MAX_ATTRS_BYTES];
    const sl_op_info *info = sl_op_info_of(node->op);
    memcpy(copy, node->attrs, info->attrs_bytes);
    info->visit_attrs(visitor, copy);
}

static bool attrs_equal(const sl_node *a, const sl_node *b) {
    attr_list x = {.visitor = {collect}}, y = {.visitor = {collect}};
    visit(a, &x.visitor);
    visit(b, &y.visitor);
    if (x.count > MOST_ATTRS) return false;
    for (uint32_t i = 0; i < x.count; i++) {
        size_t one, other;
        const void *p = content(x.items[i].kind, &x.items[i].value, &one);
        const void *q = content(y.items[i].kind, &y.items[i].value, &other);
        if (one != other || (one && memcmp(p, q, one) != 0)) return false;
    }
    return true;
}

/* ---- nodes ---- */

static uint64_t hash_node(const sl_rebuild *r, const sl_node *node) {
    hasher h = {.visitor = {hash_attr}, .hash = 0xcbf29ce484222325u + (uint64_t)node->op};
    visit(node, &h.visitor);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_value value = sl_rebuild_input(r, node, i);
        h.hash = mix(h.hash, &value, sizeof value);
    }
    return h.hash ^ h.hash >> 32;
}

static bool same(const sl_rebuild *r, const sl_node *old, const sl_node *fresh) {
    if (old->op != fresh->op || old->input_count != fresh->input_count ||
        old->output_count != fresh->output_count)
        return false;
    for (uint32_t i = 0; i < old->input_count; i++)
        if (sl_rebuild_input(r, old, i).v != fresh->inputs[i].v) return false;
    return attrs_equal(old, fresh);
}

static void share_node(sl_rebuild *r, const sl_node *node) {
    const table *t = r->ctx;
    if (!sl_op_is_pure(sl_op_info_of(node->op))) {
        sl_rebuild_same(r, node);
        return;
    }
    uint32_t at = (uint32_t)hash_node(r, node) & t->mask;
    for (; t->slots[at]; at = (at + 1) & t->mask) {
        const sl_node *seen = &r->graph->nodes[t->slots[at] - 1];
        if (!same(r, node, seen)) continue;
        for (uint32_t o = 0; o < node->output_count; o++)
            sl_rebuild_set(r, node, o, seen->outputs[o]);
        r->changed = true;
        return;
    }
    t->slots[at] = r->graph->node_count + 1;
    sl_rebuild_same(r, node);
}

sl_status sl_pass_share(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    (void)context;
    sl_arena arena;
    sl_arena_init(&arena, graph->arena.allocator);
    uint32_t size = 16;
    while (size < 2 * graph->node_count) size *= 2;
    table t = {SL_ARENA_NEW_ARRAY(&arena, uint32_t, size), size - 1};
    sl_rebuild r = {.graph = graph, .node = share_node, .ctx = &t};
    const sl_status status =
        t.slots ? sl_rebuild_graph(&r, err) : sl_no_memory(err, "sharing nodes", size);
    sl_arena_deinit(&arena);
    *changed = r.changed;
    return status;
}
