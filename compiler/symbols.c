/* symbols.c - Symbolic sizes, and binding them to numbers. */
#include "compiler/graph.h"
#include <stdio.h>
#include <string.h>

bool sl_graph_find_symbol(const sl_graph *graph, const char *name, size_t bytes, uint32_t *out) {
    for (uint32_t s = 0; s < graph->symbol_count; s++)
        if (strlen(graph->symbols[s].name) == bytes &&
            memcmp(graph->symbols[s].name, name, bytes) == 0) {
            *out = s;
            return true;
        }
    return false;
}

/* Sizes that are seldom equal to others, so that what depends on one is not taken for a number. */
static int64_t stand_in(uint32_t index) {
    static const int64_t sizes[] = {7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67};
    const uint32_t count = sizeof sizes / sizeof sizes[0];
    return sizes[index % count] + (int64_t)64 * (index / count);
}

static bool is_name(const char *name) {
    for (const char *c = name; *c; c++) {
        const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!letter && !(c > name && *c >= '0' && *c <= '9')) return false;
    }
    return *name != 0;
}

int64_t sl_graph_symbol(sl_graph *graph, const char *name, int64_t size) {
    uint32_t index;
    if (graph->error.status != SL_OK) return 0;
    if (sl_graph_find_symbol(graph, name, strlen(name), &index)) {
        if (!size || size == graph->symbols[index].size) return -1 - (int64_t)index;
        sl_graph_mistake(graph, SL_INVALID, "symbol '%s' is %lld and was declared as %lld", name,
                         (long long)size, (long long)graph->symbols[index].size);
        return 0;
    }
    if (!is_name(name) || size < 0) {
        sl_graph_mistake(
            graph, SL_INVALID,
            "symbol '%s' of size %lld: must be letters, digits and _, and not negative", name,
            (long long)size);
        return 0;
    }
    index = graph->symbol_count;
    sl_symbol *symbols =
        sl_graph_grow(graph, graph->symbols, index, &graph->symbol_capacity, sizeof *symbols);
    const char *copy = sl_arena_copy_text(&graph->arena, name, strlen(name));
    if (!symbols || !copy) {
        sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for the symbol '%s'", name);
        return 0;
    }
    graph->symbols = symbols;
    symbols[graph->symbol_count++] = (sl_symbol){copy, size ? size : stand_in(index)};
    return -1 - (int64_t)index;
}

sl_status sl_graph_check_sizes(const sl_graph *graph, sl_error *err) {
    if (!graph->symbol_count) return SL_OK;
    return sl_fail(err, SL_INVALID, "graph '%s': its symbol '%s' has no size yet: bind it",
                   graph->name, graph->symbols[0].name);
}

/* ---- binding ---- */

typedef struct {
    const sl_graph *from;
    sl_graph *to;
    const sl_symbol *given;
    uint32_t given_count;
    int64_t *sizes; /* [symbol of from] */
    sl_value *now;  /* [value of from] */
    sl_arena *scratch;
    sl_error *err;
} binder;

static sl_status find_sizes(const binder *b) {
    for (uint32_t s = 0; s < b->from->symbol_count; s++) {
        const char *name = b->from->symbols[s].name;
        uint32_t g = 0;
        while (g < b->given_count && strcmp(b->given[g].name, name) != 0) g++;
        if (g == b->given_count)
            return sl_fail(b->err, SL_INVALID, "graph '%s': symbol '%s' is given no size",
                           b->from->name, name);
        if (b->given[g].size < 0)
            return sl_fail(b->err, SL_INVALID, "graph '%s': symbol '%s' is %lld, must be 0 or more",
                           b->from->name, name, (long long)b->given[g].size);
        b->sizes[s] = b->given[g].size;
    }
    return SL_OK;
}

static void bind_declared(const binder *b, uint32_t v) {
    const sl_value_info *info = &b->from->values[v];
    sl_type type = info->type;
    for (uint32_t d = 0; info->symbols && d < type.shape.rank; d++)
        if (info->symbols[d]) type.shape.dims[d] = b->sizes[info->symbols[d] - 1];
    if (info->kind != SL_VALUE_CONSTANT)
        b->now[v] = sl_graph_declare(b->to, sl_value_declared_kind(info), info->name, type);
    else if (!info->borrowed)
        b->now[v] = sl_graph_constant(b->to, info->name, type, info->data);
    else
        b->now[v] = sl_graph_constant_in_place(b->to, info->name, type, info->data);
}

/* Attributes with the sizes of symbols and with bodies that are bound too. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    const binder *b;
    const sl_node *node;
    sl_status status;
} attr_binder;

static sl_status bind_into(const sl_graph *graph, const sl_symbol *sizes, uint32_t count,
                           const sl_allocator *allocator, sl_graph **out, sl_error *err);

/* Lists are the node's until one of their entries is set. */
static void set_entry(attr_binder *v, uint32_t index, int64_t size, sl_integers *list) {
    int64_t *items = SL_ARENA_NEW_ARRAY(v->b->scratch, int64_t, (size_t)list->count + 1);
    if (!items) {
        v->status = sl_no_memory(v->b->err, "a list", list->count);
        return;
    }
    if (list->count) memcpy(items, list->items, list->count * sizeof *items);
    if (index < list->count) items[index] = size;
    list->items = items;
}

static void set_integer(attr_binder *v, const sl_attr_symbol *ref, sl_attr_kind kind,
                        sl_attr *attr) {
    const int64_t size = v->b->sizes[ref->symbol];
    if (kind == SL_ATTR_u32 && size <= UINT32_MAX)
        attr->u32 = (uint32_t)size;
    else if (kind == SL_ATTR_u32)
        v->status = sl_fail(v->b->err, SL_INVALID, "%s: %s is %lld, must be less than 2^32",
                            v->node->label, ref->attr, (long long)size);
    else if (kind == SL_ATTR_i64)
        attr->i64 = size;
    else if (kind == SL_ATTR_dims && ref->index < attr->dims.rank)
        attr->dims.dims[ref->index] = size;
    else if (kind == SL_ATTR_list)
        set_entry(v, ref->index, size, &attr->list);
}

static void bind_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attr_binder *v = (attr_binder *)visitor;
    const binder *b = v->b;
    sl_attr *attr = value;
    for (uint32_t i = 0; i < v->node->symbol_count && v->status == SL_OK; i++)
        if (strcmp(v->node->symbols[i].attr, name) == 0)
            set_integer(v, &v->node->symbols[i], kind, attr);
    if (kind != SL_ATTR_graph || !attr->graph || v->status != SL_OK) return;
    sl_graph *body = NULL;
    v->status =
        bind_into(attr->graph, b->given, b->given_count, b->to->arena.allocator, &body, b->err);
    if (body) sl_graph_own(b->to, body);
    attr->graph = body;
}

static sl_status bind_node(const binder *b, const sl_node *node) {
    const sl_op_info *info = sl_op_info_of(node->op);
    sl_node fresh = {0};
    attr_binder attrs = {.visitor = {bind_attr}, .b = b, .node = node};
    _Alignas(max_align_t) unsigned char copy[SL_MAX_ATTRS_BYTES];
    memcpy(copy, node->attrs, info->attrs_bytes);
    if (!sl_node_make_room(b->scratch, &fresh, node->input_count, node->output_count))
        return sl_no_memory(b->err, "a node", info->attrs_bytes);
    info->visit_attrs(&attrs.visitor, copy);
    SL_TRY(attrs.status);
    for (uint32_t i = 0; i < node->input_count; i++) fresh.inputs[i] = b->now[node->inputs[i].v];
    const uint32_t before = b->to->node_count;
    sl_graph_append_list(b->to, node->op, (sl_values){fresh.input_count, fresh.inputs}, copy,
                         (sl_value_slots){fresh.output_count, fresh.outputs});
    SL_TRY(sl_graph_check(b->to, b->err));
    const char *label = sl_arena_copy_text(&b->to->arena, node->label, strlen(node->label));
    if (!label) return sl_no_memory(b->err, "a label", strlen(node->label));
    b->to->nodes[before].label = label;
    for (uint32_t o = 0; o < node->output_count; o++) b->now[node->outputs[o].v] = fresh.outputs[o];
    return SL_OK;
}

/* In the order of values, so that they keep their ids. */
static sl_status bind_values(const binder *b) {
    for (uint32_t v = 1; v <= b->from->value_count; v++) {
        const sl_value_info *info = &b->from->values[v];
        if (info->kind != SL_VALUE_RESULT)
            bind_declared(b, v);
        else if (b->from->nodes[info->node].outputs[0].v == v)
            SL_TRY(bind_node(b, &b->from->nodes[info->node]));
        SL_TRY(sl_graph_check(b->to, b->err));
    }
    for (uint32_t o = 0; o < b->from->output_count; o++)
        sl_graph_output(b->to, b->from->outputs[o].name, b->now[b->from->outputs[o].value.v]);
    return sl_graph_check(b->to, b->err);
}

static sl_status bind_into(const sl_graph *graph, const sl_symbol *sizes, uint32_t count,
                           const sl_allocator *allocator, sl_graph **out, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, allocator);
    binder b = {.from = graph,
                .given = sizes,
                .given_count = count,
                .sizes = SL_ARENA_NEW_ARRAY(&scratch, int64_t, (size_t)graph->symbol_count + 1),
                .now = SL_ARENA_NEW_ARRAY(&scratch, sl_value, (size_t)graph->value_count + 1),
                .scratch = &scratch,
                .err = err};
    sl_status status = b.sizes && b.now ? sl_graph_create(graph->name, allocator, &b.to, err)
                                        : sl_no_memory(err, "binding a graph", graph->value_count);
    if (status == SL_OK) {
        b.to->customs = graph->customs;
        status = find_sizes(&b);
    }
    if (status == SL_OK) status = bind_values(&b);
    sl_arena_deinit(&scratch);
    if (status == SL_OK)
        *out = b.to;
    else
        sl_graph_destroy(b.to);
    return status;
}

/* "B = 5, S = 7: what went wrong". */
static sl_status explain(const sl_symbol *sizes, uint32_t count, sl_status status, sl_error *err) {
    char text[200];
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s = %lld", i ? ", " : "",
                                 sizes[i].name, (long long)sizes[i].size);
    return count && status == SL_INVALID ? sl_fail_in(err, status, "with %s", text) : status;
}

static bool has_symbol(const sl_graph *graph, const char *name) {
    uint32_t index;
    if (sl_graph_find_symbol(graph, name, strlen(name), &index)) return true;
    for (const sl_graph *body = graph->bodies; body; body = body->next)
        if (has_symbol(body, name)) return true;
    return false;
}

sl_status sl_graph_bind(const sl_graph *graph, const sl_symbol *sizes, uint32_t count,
                        const sl_allocator *allocator, sl_graph **out, sl_error *err) {
    sl_error inner = {0};
    SL_TRY(sl_graph_check(graph, err));
    for (uint32_t i = 0; i < count; i++)
        if (!has_symbol(graph, sizes[i].name))
            return sl_fail(err, SL_INVALID, "graph '%s' has no symbol '%s'", graph->name,
                           sizes[i].name);
    const sl_status status = bind_into(graph, sizes, count, allocator, out, &inner);
    if (status == SL_OK) return SL_OK;
    if (err) *err = inner;
    return explain(sizes, count, status, err);
}
