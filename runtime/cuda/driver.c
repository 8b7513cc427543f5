#include "runtime/cuda/driver.h"
#include "runtime/cuda/cuda.h"
#include <dlfcn.h>

static const char default_path[] = "libcuda.so.1";

static sl_status find_functions(sl_cuda_driver *driver, const char *path, sl_error *err) {
    static const struct {
        const char *symbol;
        size_t at;
    } functions[] = {
#define FUNCTION(NAME, SYMBOL, ...) {#SYMBOL, offsetof(sl_cuda_driver, NAME)},
#include "runtime/cuda/driver.def"
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *found = dlsym(driver->library, functions[i].symbol);
        if (!found)
            return sl_fail(
                err, SL_UNSUPPORTED,
                "%s has no %s: the NVIDIA driver is too old, one for CUDA 12.3 is needed", path,
                functions[i].symbol);
        *(void **)((char *)driver + functions[i].at) = found;
    }
    return SL_OK;
}

static sl_status start(const sl_cuda_driver *driver, sl_error *err) {
    enum { NEEDED = 12030 }; /* 1000 * major + 10 * minor */
    int version = 0, devices = 0;
    const sl_cu_result result = driver->init(0);
    if (result == SL_CU_NO_DEVICE)
        return sl_fail(err, SL_UNSUPPORTED, "this machine has no CUDA device");
    if (result) return sl_cuda_fail(driver, result, "starting CUDA", err);
    SL_TRY_CUDA(driver, version(&version), "asking for the driver's version", err);
    if (version < NEEDED)
        return sl_fail(err, SL_UNSUPPORTED,
                       "the NVIDIA driver is for CUDA %d.%d, one for %d.%d or later is needed",
                       version / 1000, version % 1000 / 10, NEEDED / 1000, NEEDED % 1000 / 10);
    SL_TRY_CUDA(driver, device_count(&devices), "counting devices", err);
    if (devices < 1) return sl_fail(err, SL_UNSUPPORTED, "this machine has no CUDA device");
    return SL_OK;
}

sl_status sl_cuda_driver_open(const char *path, sl_cuda_driver *out, sl_error *err) {
    if (!path) path = default_path;
    *out = (sl_cuda_driver){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!out->library) return sl_fail(err, SL_UNSUPPORTED, "no CUDA driver: %s", dlerror());
    out->kernels_built_in = dlsym(out->library, "sluice_kernels_built_in") != NULL;
    sl_status status = find_functions(out, path, err);
    if (status == SL_OK) status = start(out, err);
    if (status != SL_OK) sl_cuda_driver_close(out);
    return status;
}

/* Uses only a function that drivers too old for sl_cuda_driver_open have as well. */
bool sl_device_cuda_present(void) {
    void *library = dlopen(default_path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    sl_cu_result (*init)(unsigned int);
    *(void **)&init = dlsym(library, "cuInit");
    const bool present = init && init(0) != SL_CU_NO_DEVICE;
    (void)dlclose(library);
    return present;
}

void sl_cuda_driver_close(sl_cuda_driver *driver) {
    if (driver->library) dlclose(driver->library);
    *driver = (sl_cuda_driver){0};
}

sl_status sl_cuda_fail(const sl_cuda_driver *driver, sl_cu_result result, const char *doing,
                       sl_error *err) {
    const char *name = NULL, *text = NULL;
    if (driver->error_name(result, &name) || !name) name = "an unknown error";
    if (driver->error_text(result, &text) || !text) text = "no explanation";
    return sl_fail(err, result == SL_CU_OUT_OF_MEMORY ? SL_NO_MEMORY : SL_DEVICE, "%s: %s (%d), %s",
                   doing, name, result, text);
}
