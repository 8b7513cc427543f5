/* names.c - Values by name. */
#include "compiler/graph.h"
#include <string.h>

/* FNV-1a. */
static uint32_t hash_of(const char *name) {
    uint32_t hash = 0x811c9dc5u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x01000193u;
    return hash;
}

/* Where the name is, or would be. */
static uint32_t slot_of(const sl_graph *graph, const char *name) {
    const uint32_t mask = graph->name_capacity - 1;
    uint32_t slot = hash_of(name) & mask;
    while (graph->names[slot] && strcmp(graph->values[graph->names[slot]].name, name) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

sl_value sl_graph_find(const sl_graph *graph, const char *name) {
    if (!graph->name_count) return (sl_value){0};
    return (sl_value){graph->names[slot_of(graph, name)]};
}

/* A power of two, at most half full. */
static bool make_room(sl_graph *graph, uint32_t count) {
    uint32_t capacity = 64;
    while (capacity < 2 * count + 2) capacity *= 2;
    graph->names = SL_ARENA_NEW_ARRAY(&graph->arena, uint32_t, capacity);
    graph->name_capacity = graph->names ? capacity : 0;
    graph->name_count = 0;
    if (!graph->names)
        sl_graph_mistake(graph, SL_NO_MEMORY, "graph '%s': no memory for %u names", graph->name,
                         count);
    return graph->names;
}

static void enter(sl_graph *graph, uint32_t value) {
    graph->names[slot_of(graph, graph->values[value].name)] = value;
    graph->name_count++;
}

static void enter_all(sl_graph *graph, uint32_t last) {
    for (uint32_t v = 1; v <= last; v++)
        if (graph->values[v].name) enter(graph, v);
}

bool sl_graph_name(sl_graph *graph, uint32_t value) {
    if (2 * graph->name_count + 2 > graph->name_capacity) {
        if (!make_room(graph, 2 * graph->name_count + 2)) return false;
        enter_all(graph, value - 1);
    }
    enter(graph, value);
    return true;
}

bool sl_graph_name_all(sl_graph *graph) {
    if (graph->name_capacity >= 2 * graph->name_count + 2) {
        memset(graph->names, 0, graph->name_capacity * sizeof *graph->names);
        graph->name_count = 0;
    } else if (!make_room(graph, graph->value_count)) {
        return false;
    }
    enter_all(graph, graph->value_count);
    return true;
}
