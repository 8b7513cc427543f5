/* Input: the text of a graph.  What compiles is run, with zeros, small numbers and extreme ones. */
#include "compiler/graph.h"
#include "core/codec.h"
#include "sluice/graph.h"
#include "tests/support/graph_words.h"

enum { MOST_ELEMENTS = 1 << 12, MOST_VALUES = 64, MOST_NODES = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether running it takes little time. */
static int is_small(const sl_graph *graph) {
    if (graph->value_count > MOST_VALUES || graph->node_count > MOST_NODES) return 0;
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (sl_type_elements(&graph->values[v].type) > MOST_ELEMENTS) return 0;
    for (uint32_t n = 0; n < graph->node_count; n++) { /* loops may run for ever */
        const sl_op op = graph->nodes[n].op;
        if (op == SL_OP_while || op == SL_OP_scan) return 0;
    }
    return 1;
}

/* way 0: zeros, 1: small numbers, 2: whatever the bits make, 3: all ones. */
static void fill(unsigned char *bytes, size_t count, int way) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = way == 0   ? 0
                   : way == 1 ? (unsigned char)(i % 4 == 3 ? 0x3f : i)
                   : way == 2 ? (unsigned char)(i * 167 + 91)
                              : 0xff;
}

static void run(const sl_graph *graph, const char *device) {
    const sl_compile_options options = {
        .struct_size = sizeof options, .device = device, .threads = 1};
    sl_compiled *compiled = NULL;
    sl_error err;
    if (sl_compile(graph, &options, &compiled, &err) != SL_OK) return;
    static unsigned char room[16 * MOST_ELEMENTS + 4096];
    for (int way = 0; way < 4; way++) {
        sl_graph_item item = {.struct_size = sizeof item};
        for (uint32_t i = 0; sl_graph_item_at(graph, i, &item, NULL) == SL_OK; i++) {
            const sl_value_info *value = sl_graph_value(graph, sl_graph_find(graph, item.name));
            const uint64_t bytes = value ? sl_type_bytes(&value->type) : 0;
            if (bytes > sizeof room || strcmp(item.kind, "output") == 0) continue;
            fill(room, bytes, way);
            if (sl_compiled_set(compiled, item.name, room, bytes, &err) != SL_OK) continue;
        }
        if (sl_compiled_run(compiled, &err) != SL_OK) continue;
    }
    sl_compiled_destroy(compiled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_graph *graph = NULL;
    sl_error err;
    if (sl_graph_read((const char *)data, size, &graph, &err) != SL_OK) return 0;
    if (is_small(graph)) {
        run(graph, "cpu");
        run(graph, "ref");
    }
    sl_graph_destroy(graph);
    return 0;
}
