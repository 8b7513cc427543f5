/* cuda_graph.h - A graph on the CUDA device: compiled for it, with all that is rewritten, and run.
 */
#ifndef SL_TESTS_SUPPORT_CUDA_GRAPH_H
#define SL_TESTS_SUPPORT_CUDA_GRAPH_H
#include "compiler/compile.h"
#include "tests/support/cuda_device.h"

typedef struct {
    sl_program *program;
    sl_executable *exe;
} cuda_graph;

/* SL_UNSUPPORTED where the device refuses it; the graph is destroyed. */
static sl_status cuda_graph_open(sl_graph *graph, cuda_graph *out, sl_error *err) {
    const sl_compiler_options options = {.model = SL_SCHEDULE_EDGES, .target = &sl_target_cuda};
    *out = (cuda_graph){0};
    sl_status status = sl_compile_graph(graph, &options, NULL, &out->program, err);
    sl_graph_destroy(graph);
    if (status == SL_OK)
        status = cuda_device()->ops->load(cuda_device(), out->program, &out->exe, err);
    return status;
}
static void cuda_graph_close(cuda_graph *g) {
    cuda_device()->ops->unload(g->exe);
    sl_program_destroy(g->program);
}

/* An input that the program may have done without. */
static void cuda_graph_bind(const cuda_graph *g, const char *name, void *data) {
    sl_buffer_id buffer;
    sl_error err = {0};
    if (sl_program_find(g->program, name, &buffer) &&
        cuda_device()->ops->bind(g->exe, buffer, data, &err) != SL_OK)
        fail_msg("%s: %s", name, err.message);
}
#endif
