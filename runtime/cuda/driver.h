/* driver.h - The functions of the CUDA driver API that are used, loaded at run time.
 *
 * Nothing of CUDA is needed to build this or to start the program: the library is opened by name,
 * and its types are declared here with its ABI. */
#ifndef SL_RUNTIME_CUDA_DRIVER_H
#define SL_RUNTIME_CUDA_DRIVER_H
#include "base/memory.h"
#include <stdbool.h>

typedef int sl_cu_result; /* 0: success */
typedef int sl_cu_device;
typedef uint64_t sl_cu_address; /* in device memory */
typedef struct CUctx_st *sl_cu_context;
typedef struct CUmod_st *sl_cu_module;
typedef struct CUfunc_st *sl_cu_function;
typedef struct CUstream_st *sl_cu_stream;
typedef struct CUevent_st *sl_cu_event;
typedef struct CUgraph_st *sl_cu_graph;
typedef struct CUgraphNode_st *sl_cu_node;
typedef struct CUgraphExec_st *sl_cu_graph_exec;

/* CUDA_KERNEL_NODE_PARAMS_v2 */
typedef struct {
    sl_cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **arguments;
    void **extra;
    void *kernel;
    sl_cu_context context;
} sl_cu_kernel_node;

/* CUgraphEdgeData */
typedef struct {
    unsigned char from_port, to_port, type, reserved[5];
} sl_cu_edge;

enum {
    SL_CU_OUT_OF_MEMORY = 2,
    SL_CU_DEINITIALIZED = 4,
    SL_CU_NO_DEVICE = 100,
    SL_CU_NO_BINARY = 209,
    SL_CU_NOT_FOUND = 500,
    SL_CU_NOT_READY = 600,

    SL_CU_ATTRIBUTE_SHARED_OPTIN = 97, /* of a device */
    SL_CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    SL_CU_ATTRIBUTE_L2_BYTES = 38,
    SL_CU_ATTRIBUTE_MAJOR = 75,
    SL_CU_ATTRIBUTE_MINOR = 76,
    SL_CU_FUNCTION_SHARED_BYTES = 8, /* of a function: the largest dynamic shared memory */

    SL_CU_STREAM_NON_BLOCKING = 1,
    SL_CU_EVENT_DEFAULT = 0,
    SL_CU_EVENT_NO_TIMING = 2,
    SL_CU_HOST_PORTABLE = 1,

    /* An edge whose successor may be launched before its predecessor has finished, and waits itself
     * (programmatic dependent launch). */
    SL_CU_PORT_PROGRAMMATIC = 1,
    SL_CU_EDGE_PROGRAMMATIC = 1
};

typedef struct {
    void *library;
    bool kernels_built_in; /* an emulated driver, which has the kernels built in */
#define FUNCTION(NAME, SYMBOL, ...) sl_cu_result (*NAME)(__VA_ARGS__);
#include "runtime/cuda/driver.def"
} sl_cuda_driver;

/* Opens the library at path (NULL: libcuda.so.1) and initialises it.  The message says in one line
 * what is missing: the library, a function (an old driver), a device. */
SL_CHECKED sl_status sl_cuda_driver_open(const char *path, sl_cuda_driver *out, sl_error *err);
void sl_cuda_driver_close(sl_cuda_driver *driver);

/* "copying weights: CUDA_ERROR_..., an explanation".  SL_NO_MEMORY if memory was short, else
 * SL_DEVICE. */
SL_CHECKED sl_status sl_cuda_fail(const sl_cuda_driver *driver, sl_cu_result result,
                                  const char *doing, sl_error *err);
/* SL_TRY_CUDA(driver, call, "doing", err) returns from the function unless the call succeeded. */
#define SL_TRY_CUDA(DRIVER, CALL, DOING, ERR)                                                      \
    do {                                                                                           \
        const sl_cu_result result_ = (DRIVER)->CALL;                                               \
        if (result_) return sl_cuda_fail((DRIVER), result_, (DOING), (ERR));                       \
    } while (0)
#endif
