/* import_fuzz.c - Input: an ONNX model. */
#include "frontend/onnx/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_graph *graph = NULL;
    sl_error err;
    if (sl_onnx_import(data, size, NULL, NULL, &graph, &err) != SL_OK) return 0;
    /* An imported graph must be valid. */
    if (sl_graph_verify(graph, &err) != SL_OK) __builtin_trap();
    sl_graph_destroy(graph);
    return 0;
}
