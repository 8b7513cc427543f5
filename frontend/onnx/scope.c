/* scope.c - Resolves the names of a model to values. */
#include "frontend/onnx/importer.h"
#include <string.h>

struct sl_onnx_scope {
    sl_onnx_importer *im;
    sl_onnx_scope *outer;             /* the enclosing scope; NULL for models and functions */
    const sl_onnx_call *caller;       /* only for a function */
    const sl_onnx_function *function; /* NULL if it is not a function */
    sl_graph *graph;
    sl_onnx_value **slots; /* open-addressed hash table */
    uint32_t count, capacity;
};

enum { FEWEST_SLOTS = 64 };

static uint32_t hash(const char *name) {
    uint32_t sum = 2166136261u;
    for (; *name; name++) sum = (sum ^ (unsigned char)*name) * 16777619u;
    return sum;
}

/* The slot that holds the name, or where it belongs. */
static sl_onnx_value **slot_of(sl_onnx_value **slots, uint32_t capacity, const char *name) {
    uint32_t at = hash(name) & (capacity - 1);
    while (slots[at] && strcmp(slots[at]->name, name) != 0) at = (at + 1) & (capacity - 1);
    return &slots[at];
}

sl_onnx_scope *sl_onnx_scope_open(sl_onnx_importer *im, sl_onnx_scope *outer, sl_graph *graph) {
    sl_onnx_scope *scope = SL_ARENA_NEW(&im->arena, sl_onnx_scope);
    sl_onnx_value **slots = SL_ARENA_NEW_ARRAY(&im->arena, sl_onnx_value *, FEWEST_SLOTS);
    if (!scope || !slots) {
        sl_graph_mistake(graph, SL_NO_MEMORY, "no memory for the names of a graph");
        return NULL;
    }
    *scope = (sl_onnx_scope){im, outer, NULL, NULL, graph, slots, 0, FEWEST_SLOTS};
    if (outer) {
        scope->caller = outer->caller;
        scope->function = outer->function;
    }
    return scope;
}

sl_onnx_scope *sl_onnx_scope_open_function(const sl_onnx_call *caller, const sl_onnx_function *f) {
    sl_onnx_scope *scope = sl_onnx_scope_open(caller->im, NULL, caller->graph);
    if (!scope) return NULL;
    scope->caller = caller;
    scope->function = f;
    return scope;
}

sl_graph *sl_onnx_scope_graph(const sl_onnx_scope *scope) {
    return scope->graph;
}

sl_onnx_value *sl_onnx_scope_find(const sl_onnx_scope *scope, const char *name) {
    for (; scope; scope = scope->outer) {
        sl_onnx_value *value = *slot_of(scope->slots, scope->capacity, name);
        if (value) return value;
    }
    return NULL;
}

static bool grow(sl_onnx_scope *scope) {
    if (2 * scope->count < scope->capacity) return true;
    const uint32_t capacity = 2 * scope->capacity;
    sl_onnx_value **slots = SL_ARENA_NEW_ARRAY(&scope->im->arena, sl_onnx_value *, capacity);
    if (!slots) return false;
    for (uint32_t i = 0; i < scope->capacity; i++)
        if (scope->slots[i]) *slot_of(slots, capacity, scope->slots[i]->name) = scope->slots[i];
    scope->slots = slots;
    scope->capacity = capacity;
    return true;
}

sl_onnx_value *sl_onnx_scope_add(sl_onnx_scope *scope, const sl_onnx_value *value) {
    sl_onnx_value *copy = SL_ARENA_NEW(&scope->im->arena, sl_onnx_value);
    if (!copy || !grow(scope)) {
        sl_graph_mistake(scope->graph, SL_NO_MEMORY, "no memory for '%s'", value->name);
        return NULL;
    }
    *copy = *value;
    copy->home = scope->graph;
    sl_onnx_value **slot = slot_of(scope->slots, scope->capacity, value->name);
    if (*slot) {
        sl_graph_mistake(scope->graph, SL_FORMAT, "the name '%s' is defined twice", value->name);
        return NULL;
    }
    *slot = copy;
    scope->count++;
    return copy;
}

int64_t sl_onnx_scope_opset(const sl_onnx_scope *scope, const char *domain) {
    const sl_onnx_opsets *opsets = scope->function && scope->function->opsets.count
                                       ? &scope->function->opsets
                                       : &scope->im->model.opsets;
    for (uint32_t i = 0; i < opsets->count; i++)
        if (strcmp(opsets->items[i].domain, domain) == 0) return opsets->items[i].version;
    return 1;
}

static const sl_onnx_attr *find_attr(const sl_onnx_attr *attrs, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(attrs[i].name, name) == 0) return &attrs[i];
    return NULL;
}

const sl_onnx_attr *sl_onnx_scope_attr(const sl_onnx_scope *scope, const sl_onnx_node *node,
                                       const char *name) {
    const sl_onnx_attr *attr = find_attr(node->attrs, node->attr_count, name);
    if (!attr || !attr->refers[0] || !scope->caller) return attr;
    const sl_onnx_attr *given =
        sl_onnx_scope_attr(scope->caller->scope, scope->caller->node, attr->refers);
    if (given) return given;
    return find_attr(scope->function->defaults, scope->function->default_count, attr->refers);
}
