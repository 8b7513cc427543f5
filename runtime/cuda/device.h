/* device.h - The struct of the CUDA device, for the files of this folder. */
#ifndef SL_RUNTIME_CUDA_DEVICE_H
#define SL_RUNTIME_CUDA_DEVICE_H
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/images.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/ranges.h"
#include "runtime/gpu/gpu.h"

typedef struct {
    sl_cu_function function; /* NULL until it is first launched */
    uint32_t shared_bytes;   /* allowed so far */
} sl_cuda_function;

typedef struct {
    sl_gpu gpu;
    sl_cuda_driver driver;
    sl_cu_device device;
    sl_cu_context context;
    sl_cu_stream stream, copies; /* SL_GPU_WORK and SL_GPU_COPIES */
    sl_cuda_images images;
    sl_cu_module *modules; /* one per image that was loaded */
    uint32_t image_count, module_count;
    sl_cuda_function functions[SL_FN_COUNT];
    sl_cuda_ranges ranges;
} sl_cuda_device;

/* functions.c: loads modules and finds the functions of kernels. */
SL_CHECKED sl_status sl_cuda_modules_load(sl_cuda_device *device, sl_error *err);
void sl_cuda_modules_unload(sl_cuda_device *device);
SL_CHECKED sl_status sl_cuda_function_of(sl_cuda_device *device, const sl_gpu_launch *launch,
                                         sl_cu_function *out, sl_error *err);

/* device.c */
extern const sl_gpu_calls sl_cuda_calls;
extern const sl_device_ops sl_cuda_ops;
/* floors.c */
SL_CHECKED sl_status sl_cuda_measure(sl_device *base, sl_device_floors *out, sl_error *err);
#endif
