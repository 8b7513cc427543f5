/* driver.cpp - A libcuda without a GPU: device memory is memory, kernels run on fibers.
 *
 * Work is done when it is asked for, so streams and events are always ready.  A graph is launched in
 * another topological order each time, and fails if its kernels access memory that its edges leave
 * unordered (accesses.h).  Everything that is created is counted, and a call can be made to fail
 * (emulator/control.h). */
#include "runtime/cuda/emulator/accesses.h"
#include "runtime/cuda/emulator/control.h"
#include "runtime/cuda/emulator/fibers.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" {
#include "runtime/cuda/driver.h"
}

namespace {

enum { DEVICE_MEGABYTES = 8192, SHARED_BYTES = 227 << 10, UNORDERED = 700 };

struct failure {
    char symbol[64];
    int after, result;
    bool lasting;
} planned;
emulated_counts counts;
size_t allocated_bytes, memory_bytes = (size_t)DEVICE_MEGABYTES << 20;
uint64_t shuffler = 1;
int edges_before_drop = -1;
const char *unordered; /* what the last graph did */

/* Every entry point asks here first. */
int failing(const char *symbol) {
    if (!planned.result || std::strcmp(planned.symbol, symbol) != 0) return 0;
    if (planned.after-- > 0) return 0;
    const int result = planned.result;
    if (planned.lasting)
        planned.after = 0;
    else
        planned.result = 0;
    return result;
}
#define ENTER(SYMBOL)                                                                              \
    counts.calls++;                                                                                \
    if (const int result = failing(#SYMBOL)) return result

double now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

/* What fresh memory is full of: no numbers, and no indices. */
enum { UNKNOWN = 0xff };

int launch(const emulated::kernel *what, const unsigned grid[3], const unsigned block[3],
           unsigned shared, void *const *arguments, emulated::outcome *out) {
    if (shared > SHARED_BYTES) return 1;
    std::vector<unsigned char> dynamic(shared + 16, (unsigned char)UNKNOWN);
    const uintptr_t at = ((uintptr_t)dynamic.data() + 15) & ~(uintptr_t)15;
    const emulated::launch l = {what, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]},
                                (void *)at, arguments[0]};
    counts.launches++;
    return emulated::run(l, out) ? 0 : 1;
}
} // namespace

struct CUgraphNode_st {
    const emulated::kernel *what;
    unsigned grid[3], block[3], shared;
    std::vector<unsigned char> args;
    struct edge {
        CUgraphNode_st *from;
        sl_cu_edge data;
    };
    std::vector<edge> needs;
    size_t index;
};
struct CUgraph_st {
    std::vector<CUgraphNode_st *> nodes;
};
struct CUgraphExec_st {
    std::vector<CUgraphNode_st> nodes; /* needs as indices */
    std::vector<std::vector<emulated::need>> needs;
};
struct CUevent_st {
    double at;
};

namespace {
int run_node(const CUgraphExec_st &exec, size_t index) {
    const CUgraphNode_st &node = exec.nodes[index];
    void *argument = (void *)node.args.data();
    emulated::outcome outcome = {};
    emulated::accesses_begin_node(index, node.what->name, exec.needs[index]);
    const int result =
        launch(node.what, node.grid, node.block, node.shared, &argument, &outcome);
    emulated::accesses_end_node(outcome.followed, outcome.led_late);
    return result;
}

/* Any node whose needs are done may be next. */
int run_graph(const CUgraphExec_st &exec) {
    std::vector<bool> done(exec.nodes.size());
    std::vector<size_t> ready;
    emulated::accesses_begin(exec.nodes.size());
    for (size_t left = exec.nodes.size(); left > 0; left--) {
        ready.clear();
        for (size_t i = 0; i < exec.nodes.size(); i++) {
            bool all = !done[i];
            for (const emulated::need &need : exec.needs[i]) all = all && done[need.node];
            if (all) ready.push_back(i);
        }
        if (ready.empty()) return 1;
        shuffler = shuffler * 6364136223846793005u + 1442695040888963407u;
        const size_t next = ready[(shuffler >> 33) % ready.size()];
        if (const int result = run_node(exec, next)) return result;
        done[next] = true;
    }
    if (!(unordered = emulated::accesses_end())) return 0;
    return UNORDERED;
}
} // namespace

extern "C" {
void emulated_fail(const char *symbol, int after, int result, bool lasting) {
    std::snprintf(planned.symbol, sizeof planned.symbol, "%s", symbol);
    planned.after = after;
    planned.result = result;
    planned.lasting = lasting;
}
void emulated_set_memory(size_t bytes) {
    memory_bytes = bytes ? bytes : (size_t)DEVICE_MEGABYTES << 20;
}
void emulated_drop_edge(int after) {
    edges_before_drop = after;
}
emulated_counts emulated_count() {
    return counts;
}

#define API __attribute__((visibility("default")))
API int cuInit(unsigned) {
    ENTER(cuInit);
    return 0;
}
API int cuDriverGetVersion(int *out) {
    *out = planned.result && !std::strcmp(planned.symbol, "cuDriverGetVersion") ? planned.result
                                                                                : 13000;
    return 0;
}
API int cuGetErrorName(int result, const char **out) {
    *out = result == SL_CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_EMULATED";
    return 0;
}
API int cuGetErrorString(int result, const char **out) {
    *out = result == SL_CU_OUT_OF_MEMORY       ? "out of memory"
           : result == UNORDERED && unordered ? unordered
                                              : "an error that was asked for";
    return 0;
}
API int cuDeviceGetCount(int *out) {
    ENTER(cuDeviceGetCount);
    *out = 1;
    return 0;
}
API int cuDeviceGet(int *out, int index) {
    ENTER(cuDeviceGet);
    *out = index;
    return index == 0 ? 0 : 101;
}
API int cuDeviceGetName(char *out, int capacity, int) {
    std::snprintf(out, (size_t)capacity, "emulated");
    return 0;
}
API int cuDeviceGetAttribute(int *out, int attribute, int) {
    *out = attribute == SL_CU_ATTRIBUTE_MULTIPROCESSORS ? 12
           : attribute == SL_CU_ATTRIBUTE_SHARED_OPTIN  ? SHARED_BYTES
           : attribute == SL_CU_ATTRIBUTE_MAJOR         ? 9
                                                        : 0;
    return 0;
}
API int cuDevicePrimaryCtxRetain(CUctx_st **out, int) {
    ENTER(cuDevicePrimaryCtxRetain);
    *out = (CUctx_st *)&counts;
    counts.contexts++;
    return 0;
}
API int cuDevicePrimaryCtxRelease_v2(int) {
    counts.contexts--;
    return 0;
}
API int cuCtxPushCurrent_v2(CUctx_st *) {
    ENTER(cuCtxPushCurrent_v2);
    return 0;
}
API int cuCtxPopCurrent_v2(CUctx_st **out) {
    if (out) *out = (CUctx_st *)&counts;
    return 0;
}
API int cuMemGetInfo_v2(size_t *out_free, size_t *out_total) {
    *out_total = memory_bytes;
    *out_free = memory_bytes > allocated_bytes ? memory_bytes - allocated_bytes : 0;
    return 0;
}
API int cuMemAlloc_v2(uint64_t *out, size_t bytes) {
    ENTER(cuMemAlloc_v2);
    if (bytes == 0) return 1;
    if (allocated_bytes + bytes > memory_bytes) return SL_CU_OUT_OF_MEMORY;
    void *block = emulated::device_allocate(bytes);
    if (!block) return SL_CU_OUT_OF_MEMORY;
    std::memset(block, UNKNOWN, bytes);
    allocated_bytes += bytes;
    counts.device_blocks++;
    *out = (uint64_t)(uintptr_t)block;
    return 0;
}
API int cuMemFree_v2(uint64_t address) {
    allocated_bytes -= emulated::device_release((void *)(uintptr_t)address);
    counts.device_blocks--;
    return 0;
}
API int cuMemHostAlloc(void **out, size_t bytes, unsigned) {
    ENTER(cuMemHostAlloc);
    if (posix_memalign(out, 4096, bytes)) return SL_CU_OUT_OF_MEMORY;
    std::memset(*out, UNKNOWN, bytes);
    counts.host_blocks++;
    return 0;
}
API int cuMemFreeHost(void *block) {
    counts.host_blocks--;
    std::free(block);
    return 0;
}
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, CUstream_st *) {
    ENTER(cuMemcpyHtoDAsync_v2);
    std::memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}
API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, CUstream_st *) {
    ENTER(cuMemcpyDtoHAsync_v2);
    std::memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, CUstream_st *) {
    ENTER(cuMemcpyDtoDAsync_v2);
    std::memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return 0;
}
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, CUstream_st *) {
    ENTER(cuMemsetD8Async);
    std::memset((void *)(uintptr_t)to, value, bytes);
    return 0;
}
API int cuStreamCreate(CUstream_st **out, unsigned) {
    ENTER(cuStreamCreate);
    *out = (CUstream_st *)std::malloc(1);
    counts.streams++;
    return 0;
}
API int cuStreamDestroy_v2(CUstream_st *stream) {
    counts.streams--;
    std::free(stream);
    return 0;
}
API int cuStreamSynchronize(CUstream_st *) {
    ENTER(cuStreamSynchronize);
    return 0;
}
API int cuStreamWaitEvent(CUstream_st *, CUevent_st *, unsigned) {
    ENTER(cuStreamWaitEvent);
    return 0;
}
API int cuEventCreate(CUevent_st **out, unsigned) {
    ENTER(cuEventCreate);
    *out = new CUevent_st{0};
    counts.events++;
    return 0;
}
API int cuEventDestroy_v2(CUevent_st *event) {
    counts.events--;
    delete event;
    return 0;
}
API int cuEventRecord(CUevent_st *event, CUstream_st *) {
    ENTER(cuEventRecord);
    event->at = now();
    return 0;
}
API int cuEventQuery(CUevent_st *) {
    ENTER(cuEventQuery);
    return 0;
}
API int cuEventSynchronize(CUevent_st *) {
    ENTER(cuEventSynchronize);
    return 0;
}
API int cuEventElapsedTime(float *out, CUevent_st *from, CUevent_st *to) {
    *out = (float)(1e3 * (to->at - from->at));
    return 0;
}
const int sluice_kernels_built_in = 1;
API int cuModuleLoadData(CUmod_st **out, const void *) {
    ENTER(cuModuleLoadData);
    *out = (CUmod_st *)std::malloc(1);
    counts.modules++;
    return 0;
}
API int cuModuleUnload(CUmod_st *module) {
    counts.modules--;
    std::free(module);
    return 0;
}
API int cuModuleGetFunction(CUfunc_st **out, CUmod_st *, const char *name) {
    ENTER(cuModuleGetFunction);
    *out = (CUfunc_st *)emulated::find(name);
    return *out ? 0 : SL_CU_NOT_FOUND;
}
API int cuFuncSetAttribute(CUfunc_st *, int, int value) {
    return value <= SHARED_BYTES ? 0 : 1;
}
API int cuLaunchKernel(CUfunc_st *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream_st *, void **arguments,
                       void **) {
    ENTER(cuLaunchKernel);
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    emulated::outcome outcome;
    return launch((const emulated::kernel *)f, grid, block, shared, arguments, &outcome);
}
API int cuGraphCreate(CUgraph_st **out, unsigned) {
    ENTER(cuGraphCreate);
    *out = new CUgraph_st;
    counts.graphs++;
    return 0;
}
API int cuGraphDestroy(CUgraph_st *graph) {
    for (CUgraphNode_st *node : graph->nodes) delete node;
    delete graph;
    counts.graphs--;
    return 0;
}
API int cuGraphAddKernelNode_v2(CUgraphNode_st **out, CUgraph_st *graph, CUgraphNode_st *const *needs,
                                size_t count, const sl_cu_kernel_node *p) {
    ENTER(cuGraphAddKernelNode_v2);
    const unsigned char *args = (const unsigned char *)p->arguments[0];
    CUgraphNode_st *node = new CUgraphNode_st{
        (const emulated::kernel *)p->function,
        {p->grid_x, p->grid_y, p->grid_z},
        {p->block_x, p->block_y, p->block_z},
        p->shared_bytes,
        /* the size of an argument is the driver's to know: all that a launch can hold */
        std::vector<unsigned char>(args, args + EMULATED_ARGS_BYTES),
        {},
        graph->nodes.size()};
    for (size_t i = 0; i < count; i++) node->needs.push_back({needs[i], {}});
    graph->nodes.push_back(node);
    *out = node;
    return 0;
}
API int cuGraphAddDependencies_v2(CUgraph_st *, CUgraphNode_st *const *from,
                                  CUgraphNode_st *const *to, const sl_cu_edge *edges, size_t count) {
    ENTER(cuGraphAddDependencies_v2);
    for (size_t i = 0; i < count; i++)
        if (edges_before_drop < 0 || edges_before_drop-- > 0)
            to[i]->needs.push_back({from[i], edges ? edges[i] : sl_cu_edge{}});
    return 0;
}
API int cuGraphGetEdges_v2(CUgraph_st *graph, CUgraphNode_st **from, CUgraphNode_st **to,
                           sl_cu_edge *data, size_t *count) {
    size_t edges = 0;
    for (CUgraphNode_st *node : graph->nodes)
        for (const CUgraphNode_st::edge &need : node->needs) {
            if (from && edges < *count) {
                from[edges] = need.from;
                to[edges] = node;
                if (data) data[edges] = need.data;
            }
            edges++;
        }
    *count = edges;
    return 0;
}
API int cuGraphInstantiateWithFlags(CUgraphExec_st **out, CUgraph_st *graph, unsigned long long) {
    ENTER(cuGraphInstantiateWithFlags);
    CUgraphExec_st *exec = new CUgraphExec_st;
    for (const CUgraphNode_st *node : graph->nodes) {
        exec->nodes.push_back(*node);
        exec->needs.emplace_back();
        for (const CUgraphNode_st::edge &need : node->needs)
            exec->needs.back().push_back(
                {need.from->index, need.data.type == SL_CU_EDGE_PROGRAMMATIC});
    }
    *out = exec;
    counts.graphs++;
    return 0;
}
API int cuGraphExecDestroy(CUgraphExec_st *exec) {
    delete exec;
    counts.graphs--;
    return 0;
}
API int cuGraphLaunch(CUgraphExec_st *exec, CUstream_st *) {
    ENTER(cuGraphLaunch);
    return run_graph(*exec);
}
} // extern "C"
