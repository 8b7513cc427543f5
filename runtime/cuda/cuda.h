/* cuda.h - Creating the CUDA device, and which steps it supports. */
#ifndef SL_RUNTIME_CUDA_CUDA_H
#define SL_RUNTIME_CUDA_CUDA_H
#include "core/target.h"
#include "runtime/device.h"

/* On failure the message says why in one line: no driver, no device, no kernels built. */
SL_CHECKED sl_status sl_device_cuda_create(const sl_device_options *options,
                                           const sl_allocator *allocator, sl_device **out,
                                           sl_error *err);

/* Whether there is a driver with a device, even if sl_device_cuda_create cannot use it. */
bool sl_device_cuda_present(void);

/* Needs no driver. */
extern const sl_target sl_target_cuda;
#endif
