/* null.h - Creating the null device. */
#ifndef SL_RUNTIME_NULL_NULL_H
#define SL_RUNTIME_NULL_NULL_H
#include "runtime/device.h"

SL_CHECKED sl_status sl_device_null_create(const sl_device_options *options,
                                           const sl_allocator *allocator, sl_device **out,
                                           sl_error *err);
#endif
