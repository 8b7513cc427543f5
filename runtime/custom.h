/* custom.h - Calls a custom op (sluice/experimental.h) on tensors in host or device memory. */
#ifndef SL_RUNTIME_CUSTOM_H
#define SL_RUNTIME_CUSTOM_H
#include "core/ops.h"

/* Whether the op has a kernel; if it has none, the message names the device. */
SL_CHECKED sl_status sl_custom_check(const char *label, const sl_custom_attrs *attrs,
                                     const char *device, sl_error *err);
/* What a call needs besides its tensors. */
size_t sl_custom_room_bytes(const sl_custom_args *args);
SL_CHECKED sl_status sl_custom_run(const sl_custom_args *args, const char *label, void *room,
                                   sl_error *err);
/* The same through its cuda_launch: tensors in device memory. */
SL_CHECKED sl_status sl_custom_launch(const sl_custom_args *args, const char *label, void *room,
                                      void *stream, sl_error *err);
#endif
