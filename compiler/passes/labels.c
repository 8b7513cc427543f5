/* labels.c - Labels of nodes that passes make.
 *
 * A label is "scope name"; the name is one word.  The label of a fused node is "scope name+name",
 * or "scope name, scope name" where its parts have several scopes. */
#include "compiler/passes/passes.h"
#include <string.h>

static size_t scope_bytes(const char *label, size_t bytes) {
    while (bytes > 0 && label[bytes - 1] != ' ') bytes--;
    return bytes; /* with the space */
}

const char *sl_label_rename(sl_arena *arena, const char *label, const char *name) {
    return sl_arena_format(arena, "%.*s%s", (int)scope_bytes(label, strlen(label)), label, name);
}

static const char *last_part(const char *label) {
    for (const char *comma; (comma = strstr(label, ", "));) label = comma + 2;
    return label;
}

/* Both labels in one: the scope is left out of the second one if it is that of the first. */
static const char *join_two(sl_arena *arena, const char *first, const char *second) {
    const char *end = last_part(first), *comma = strstr(second, ", ");
    const size_t scope = scope_bytes(end, strlen(end));
    const size_t next = comma ? (size_t)(comma - second) : strlen(second);
    if (strcmp(end, second) == 0) return first; /* parts of a node that was divided */
    if (scope == scope_bytes(second, next) && memcmp(end, second, scope) == 0)
        return sl_arena_format(arena, "%s+%s", first, second + scope);
    return sl_arena_format(arena, "%s, %s", first, second);
}

const char *sl_label_join(sl_graph *graph, const uint32_t *nodes, uint32_t count) {
    const char *label = graph->nodes[nodes[0]].label;
    for (uint32_t i = 1; label && i < count; i++)
        label = join_two(&graph->arena, label, graph->nodes[nodes[i]].label);
    return label;
}
