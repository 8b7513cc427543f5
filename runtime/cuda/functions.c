/* functions.c - Loads the compiled kernels and finds the functions that launches name. */
#include "runtime/cuda/device.h"
#include <string.h>

/* A driver with built-in kernels gets one empty image. */
static sl_status open_images(sl_cuda_device *device, sl_error *err) {
    static const char no_image[] = "";
    static const void *const built_in[] = {no_image, NULL};
    if (!device->driver.kernels_built_in) return sl_cuda_images_open(NULL, &device->images, err);
    device->images.images = built_in;
    return SL_OK;
}

sl_status sl_cuda_modules_load(sl_cuda_device *device, sl_error *err) {
    SL_TRY(open_images(device, err));
    const void *const *images = device->images.images;
    while (images[device->image_count]) device->image_count++;
    const uint64_t bytes = device->image_count * sizeof(sl_cu_module);
    device->modules = sl_resize(device->gpu.allocator, NULL, 0, bytes, 16);
    if (!device->modules) return sl_no_memory(err, "the CUDA kernels", bytes);
    for (uint32_t i = 0; images[i]; i++) {
        const sl_cu_result result = device->driver.module_load(&device->modules[i], images[i]);
        if (result == SL_CU_NO_BINARY)
            return sl_fail(err, SL_UNSUPPORTED,
                           "the CUDA kernels were built for other GPUs than this one; "
                           "`make CUDA=1` on this machine builds them for it (compute capability "
                           "8.0 or later)");
        if (result) return sl_cuda_fail(&device->driver, result, "loading the CUDA kernels", err);
        device->module_count++;
    }
    return SL_OK;
}

void sl_cuda_modules_unload(sl_cuda_device *device) {
    for (uint32_t i = 0; i < device->module_count; i++)
        (void)device->driver.module_unload(device->modules[i]);
    sl_release(device->gpu.allocator, device->modules, device->image_count * sizeof(sl_cu_module),
               16);
    sl_release(device->gpu.allocator, device->functions,
               device->function_capacity * sizeof *device->functions, 16);
    sl_cuda_images_close(&device->images);
}

static sl_status look_up(sl_cuda_device *device, const char *name, sl_cu_function *out,
                         sl_error *err) {
    for (uint32_t i = 0; i < device->module_count; i++) {
        const sl_cu_result result = device->driver.module_function(out, device->modules[i], name);
        if (!result) return SL_OK;
        if (result != SL_CU_NOT_FOUND)
            return sl_cuda_fail(&device->driver, result, "looking for a CUDA kernel", err);
    }
    return sl_fail(err, SL_UNSUPPORTED, "there is no CUDA kernel called '%s'", name);
}

static sl_status add_function(sl_cuda_device *device, const char *name, sl_cuda_function **out,
                              sl_error *err) {
    if (device->function_count == device->function_capacity) {
        const uint32_t capacity = device->function_capacity ? 2 * device->function_capacity : 128;
        sl_cuda_function *fresh =
            sl_resize(device->gpu.allocator, device->functions,
                      device->function_capacity * sizeof *fresh, capacity * sizeof *fresh, 16);
        if (!fresh) return sl_no_memory(err, "the table of kernels", capacity * sizeof *fresh);
        device->functions = fresh;
        device->function_capacity = capacity;
    }
    sl_cuda_function *f = &device->functions[device->function_count];
    *f = (sl_cuda_function){.name = name};
    SL_TRY(look_up(device, name, &f->function, err));
    device->function_count++;
    *out = f;
    return SL_OK;
}

sl_status sl_cuda_function_of(sl_cuda_device *device, const sl_cuda_launch *launch,
                              sl_cu_function *out, sl_error *err) {
    enum { ALWAYS_ALLOWED = 32 << 10 };
    sl_cuda_function *f = NULL;
    for (uint32_t i = 0; i < device->function_count && !f; i++)
        if (strcmp(device->functions[i].name, launch->function) == 0) f = &device->functions[i];
    if (!f) SL_TRY(add_function(device, launch->function, &f, err));
    if (launch->shared_bytes > ALWAYS_ALLOWED && launch->shared_bytes > f->shared_bytes) {
        if (launch->shared_bytes > device->shared_limit)
            return sl_fail(err, SL_UNSUPPORTED,
                           "%s: %u bytes of shared memory wanted, the CUDA device has %u",
                           launch->function, launch->shared_bytes, device->shared_limit);
        SL_TRY_CUDA(
            &device->driver,
            function_set(f->function, SL_CU_FUNCTION_SHARED_BYTES, (int)launch->shared_bytes),
            "allowing shared memory", err);
        f->shared_bytes = launch->shared_bytes;
    }
    *out = f->function;
    return SL_OK;
}
