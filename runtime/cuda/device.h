/* device.h - The CUDA device inside: shared by the files of this folder. */
#ifndef SL_RUNTIME_CUDA_DEVICE_H
#define SL_RUNTIME_CUDA_DEVICE_H
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/kernel.h"

typedef struct {
    sl_cu_address address;
    uint64_t bytes;
} sl_cuda_block;

/* A weight on the device, known by where it lies on the host. */
typedef struct {
    const void *host;
    sl_cuda_block block;
} sl_cuda_upload;

typedef struct {
    sl_cu_function function; /* NULL until a launch has it */
    uint32_t shared_bytes;   /* allowed so far */
} sl_cuda_function;

typedef struct sl_cuda_experts sl_cuda_experts;

typedef struct {
    sl_device base;
    const sl_allocator *allocator;
    sl_allocator pinned;
    sl_device_options options;
    sl_cuda_driver driver;
    sl_cu_device device;
    sl_cu_context context;
    sl_cu_stream stream, copies; /* steps; experts on their way in */
    sl_cuda_images images;
    sl_cu_module *modules; /* of images, as many as were loaded */
    uint32_t image_count, module_count;
    sl_cuda_function functions[SL_FN_COUNT];
    sl_cuda_upload *uploads;
    uint32_t upload_count, upload_capacity;
    sl_cuda_block arena, scratch; /* shared by all executables: one runs at a time */
    sl_cuda_block fault;          /* sl_fault */
    sl_cuda_experts *experts;     /* of the one source that was bound; NULL: none */
    uint32_t multiprocessors, shared_limit;
    uint64_t weight_bytes, state_bytes;
    uint64_t runs;         /* so far, */
    double launch_seconds; /* and the host's time for giving the device its work in them */
} sl_cuda_device;

/* Between these the device is the calling thread's.  Calls nest. */
SL_CHECKED sl_status sl_cuda_enter(const sl_cuda_device *device, sl_error *err);
void sl_cuda_leave(const sl_cuda_device *device);

/* Device memory; `what` names it in the message when there is none. */
SL_CHECKED sl_status sl_cuda_take(const sl_cuda_device *device, uint64_t bytes, const char *what,
                                  sl_cuda_block *out, sl_error *err);
void sl_cuda_give(const sl_cuda_device *device, sl_cuda_block *block);
/* Only ever grows; what was in it is lost. */
SL_CHECKED sl_status sl_cuda_ensure(const sl_cuda_device *device, sl_cuda_block *block,
                                    uint64_t bytes, const char *what, sl_error *err);
/* Waits for everything that was launched; an error of any of it comes out here. */
SL_CHECKED sl_status sl_cuda_wait(const sl_cuda_device *device, sl_error *err);

/* The copy of a weight, made now unless there is one. */
SL_CHECKED sl_status sl_cuda_upload_weight(sl_cuda_device *device, const void *host, uint64_t bytes,
                                           const char *name, sl_cu_address *out, sl_error *err);

/* functions.c: what launches have. */
SL_CHECKED sl_status sl_cuda_modules_load(sl_cuda_device *device, sl_error *err);
void sl_cuda_modules_unload(sl_cuda_device *device);
SL_CHECKED sl_status sl_cuda_function_of(sl_cuda_device *device, const sl_cuda_launch *launch,
                                         sl_cu_function *out, sl_error *err);

/* executable.c */
extern const sl_device_ops sl_cuda_ops;
/* device.c, floors.c: its entries that are about the device. */
void sl_cuda_destroy(sl_device *base);
void sl_cuda_describe(const sl_device *base, sl_device_info *out);
void sl_cuda_count(const sl_device *base, sl_device_stats *out);
bool sl_cuda_can_start(const sl_device *base);
SL_CHECKED sl_status sl_cuda_measure(sl_device *base, sl_device_floors *out, sl_error *err);
#endif
