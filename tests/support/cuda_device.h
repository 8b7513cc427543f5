/* cuda_device.h - The CUDA device of a test program, opened once: the emulated one, or the
 * machine's own where SLUICE_CUDA says "device". */
#ifndef SL_TESTS_SUPPORT_CUDA_DEVICE_H
#define SL_TESTS_SUPPORT_CUDA_DEVICE_H
#include "runtime/cuda/cuda.h"
#include "runtime/gpu/experts.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sl_device *cuda_device(void) {
    static sl_device *opened;
    if (opened) return opened;
    const char *which = getenv("SLUICE_CUDA");
    const bool real = which && strcmp(which, "device") == 0;
    const sl_device_options options = {.driver = real ? NULL : getenv("SLUICE_CUDA_EMULATOR")};
    sl_error err = {0};
    if (!real && !options.driver) fail_msg("SLUICE_CUDA_EMULATOR names no emulated driver");
    if (sl_device_cuda_create(&options, NULL, &opened, &err)) fail_msg("%s", err.message);
    return opened;
}

/* The device keeps them by their source; that of the next case may lie in the same place. */
static inline void cuda_forget_experts(void) {
    sl_gpu *gpu = (sl_gpu *)cuda_device();
    sl_error err = {0};
    if (gpu->calls->enter(gpu, &err)) fail_msg("%s", err.message);
    sl_gpu_experts_destroy(gpu->experts);
    gpu->experts = NULL;
    gpu->calls->leave(gpu);
}
#endif
