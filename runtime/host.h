/* host.h - Memory functions for devices that use host memory. */
#ifndef SL_RUNTIME_HOST_H
#define SL_RUNTIME_HOST_H
#include "runtime/binding.h"
#include "runtime/device.h"

void *sl_host_allocate(const sl_allocator *allocator, uint64_t bytes);
void sl_host_release(const sl_allocator *allocator, void *memory, uint64_t bytes);
/* As sl_device_ops.copy_in, copy_out and copy_within. */
sl_status sl_host_copy(sl_device *device, void *to, const void *from, uint64_t bytes,
                       sl_error *err);
/* As sl_device_ops.weight_changed, where weights are not copied. */
sl_status sl_host_weight_changed(sl_device *device, const void *host, uint64_t offset,
                                 uint64_t bytes, sl_error *err);
SL_CHECKED sl_status sl_host_read(const sl_binding *binding, const sl_operand *operand, void *arena,
                                  void *to, sl_error *err);
SL_CHECKED sl_status sl_host_write(const sl_binding *binding, const sl_operand *operand,
                                   void *arena, const void *from, sl_error *err);
#endif
