/* functions.c - The table of kernels by id; loads the compiled kernels and looks their functions
 * up. */
#include "runtime/cuda/device.h"

const sl_cuda_fn_info sl_cuda_fn_infos[SL_FN_COUNT] = {
    [SL_FN_none] = {.weight = SL_CUDA_ANY_WEIGHT},
#define FUNCTION(NAME, ARGS)                                                                       \
    [SL_FN_##NAME] = {#NAME, SL_FN_##NAME, SL_CUDA_ANY_WEIGHT, sizeof(ARGS)},
#define FAMILY(NAME, ARGS) [SL_FN_##NAME] = {NULL, SL_FN_##NAME, SL_CUDA_ANY_WEIGHT, sizeof(ARGS)},
#define MEMBER(NAME, FAMILY, WEIGHT, ARGS)                                                         \
    [SL_FN_##NAME] = {#NAME, SL_FN_##FAMILY, WEIGHT, sizeof(ARGS)},
#define OF_TYPE(NAME, ARGS, TYPE, ...) MEMBER(NAME##_##TYPE, NAME, SL_DTYPE_##TYPE, ARGS)
#define FORM(NAME, ARGS, SUFFIX)       MEMBER(NAME##_##SUFFIX, NAME, SL_CUDA_ANY_WEIGHT, ARGS)
#include "runtime/cuda/functions.def"
#undef MEMBER
};

/* Members come right after their family. */
sl_cuda_fn sl_cuda_fn_of_type(sl_cuda_fn family, sl_dtype weight) {
    for (int fn = (int)family + 1; fn < SL_FN_COUNT && sl_cuda_fn_infos[fn].family == family; fn++)
        if (sl_cuda_fn_infos[fn].weight == (int)weight) return (sl_cuda_fn)fn;
    return SL_FN_none;
}
sl_cuda_fn sl_cuda_fn_of_form(sl_cuda_fn family, int place) {
    const sl_cuda_fn fn = (sl_cuda_fn)((int)family + 1 + place);
    assert(place >= 0 && fn < SL_FN_COUNT && sl_cuda_fn_infos[fn].family == family);
    return fn;
}

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
    sl_cuda_images_close(&device->images);
}

static sl_status look_up(sl_cuda_device *device, const char *name, sl_cu_function *out,
                         sl_error *err) {
    for (uint32_t i = 0; i < device->module_count; i++) {
        sl_cu_function found = NULL;
        const sl_cu_result result =
            device->driver.module_function(&found, device->modules[i], name);
        *out = result ? NULL : found;
        if (!result) return SL_OK;
        if (result != SL_CU_NOT_FOUND)
            return sl_cuda_fail(&device->driver, result, "looking for a CUDA kernel", err);
    }
    return sl_fail(err, SL_UNSUPPORTED, "there is no CUDA kernel called '%s'", name);
}

sl_status sl_cuda_function_of(sl_cuda_device *device, const sl_gpu_launch *launch,
                              sl_cu_function *out, sl_error *err) {
    enum { ALWAYS_ALLOWED = 32 << 10 };
    sl_cuda_function *f = &device->functions[launch->function];
    const char *name = sl_cuda_fn_infos[launch->function].name;
    if (!f->function) SL_TRY(look_up(device, name, &f->function, err));
    if (launch->shared_bytes > ALWAYS_ALLOWED && launch->shared_bytes > f->shared_bytes) {
        if (launch->shared_bytes > device->gpu.shared_limit)
            return sl_fail(err, SL_UNSUPPORTED,
                           "%s: %u bytes of shared memory wanted, the CUDA device has %u", name,
                           launch->shared_bytes, device->gpu.shared_limit);
        SL_TRY_CUDA(
            &device->driver,
            function_set(f->function, SL_CU_FUNCTION_SHARED_BYTES, (int)launch->shared_bytes),
            "allowing shared memory", err);
        f->shared_bytes = launch->shared_bytes;
    }
    *out = f->function;
    return SL_OK;
}
