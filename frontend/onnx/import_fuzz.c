/* import_fuzz.c - Input: an ONNX model. */
#include "frontend/onnx/import.h"
#include "tests/support/mutate_protobuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *mutation_word(uint32_t pick) {
    static const char *const words[] = {
#define ONNX(NAME, SINCE, FUNCTION, OP) #NAME,
#define TRAINING(NAME, SINCE, FUNCTION) #NAME,
#define NONE(NAME, REASON)              #NAME,
#include "frontend/onnx/ops.def"
        "",          "x",           "y",         "axis",          "axes",
        "perm",      "to",          "mode",      "linear",        "nearest",
        "cubic",     "keepdims",    "pads",      "strides",       "kernel_shape",
        "dilations", "group",       "auto_pad",  "SAME_UPPER",    "VALID",
        "alpha",     "beta",        "equation",  "ij,jk->ik",     "value",
        "body",      "then_branch", "direction", "bidirectional", "reduction",
        "ai.onnx",   "ai.onnx.ml"};
    return words[pick % (sizeof words / sizeof words[0])];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sl_graph *graph = NULL;
    sl_error err;
    if (sl_onnx_import(data, size, NULL, NULL, &graph, &err) != SL_OK) return 0;
    /* An imported graph must be valid. */
    if (sl_graph_verify(graph, &err) != SL_OK) __builtin_trap();
    sl_graph_destroy(graph);
    return 0;
}
