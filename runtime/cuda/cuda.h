/* cuda.h - Creating the CUDA device, and what it says of itself. */
#ifndef SL_RUNTIME_CUDA_CUDA_H
#define SL_RUNTIME_CUDA_CUDA_H
#include "core/target.h"
#include "runtime/device.h"

typedef struct {
    const char *driver; /* NULL: libcuda.so.1 */
    uint32_t index;     /* of the device */
    uint64_t
        expert_budget_bytes; /* of device memory for experts; 0: all of them, or what is free */
    bool eager;              /* steps are launched one by one instead of as a graph */
    bool chained;            /* a graph whose nodes follow each other, to measure against */
    bool apart;              /* a graph in which no steps share a launch, likewise */
} sl_cuda_options;
/* Fails with one line that says why there is none: no driver, no device, no kernels built. */
SL_CHECKED sl_status sl_device_cuda_create(const sl_cuda_options *options,
                                           const sl_allocator *allocator, sl_device **out,
                                           sl_error *err);

typedef struct {
    char name[128];
    uint32_t multiprocessors, major, minor;
    uint64_t total_bytes, free_bytes;
    uint64_t weight_bytes, state_bytes, workspace_bytes, expert_bytes; /* of device memory, taken */
    uint64_t expert_slots, expert_hits, expert_misses, expert_bytes_copied;
    uint64_t runs;         /* so far, */
    double launch_seconds; /* and the host's time for giving the device its work in them */
} sl_cuda_info;
sl_cuda_info sl_device_cuda_info(const sl_device *base);

/* What the device could do, the best of several passes: copying its own memory (bytes read and
 * written), multiplying tiles of bf16 by its tensor cores, copying from pinned host memory. */
typedef struct {
    double copy_bytes_per_second, bf16_operations_per_second, host_bytes_per_second;
} sl_cuda_floors;
SL_CHECKED sl_status sl_device_cuda_floors(sl_device *device, sl_cuda_floors *out, sl_error *err);

/* Reads the edges of an executable's graph back from the driver and proves that they order every
 * conflict on final addresses (core/check.h). */
SL_CHECKED sl_status sl_device_cuda_prove(sl_executable *executable, sl_error *err);

/* Needs no driver. */
extern const sl_target sl_target_cuda;

bool sl_device_is_cuda(const sl_device *device); /* NULL is none */
/* Whether steps wait for experts, because not all are on the device; known after the first run. */
bool sl_device_cuda_streams(const sl_device *device);
/* Memory that the device copies from at full speed; NULL where device is no CUDA device. */
const sl_allocator *sl_device_cuda_pinned(sl_device *device);
#endif
