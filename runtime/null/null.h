/* null.h - Creating the null device. */
#ifndef SL_RUNTIME_NULL_NULL_H
#define SL_RUNTIME_NULL_NULL_H
#include "runtime/device.h"

SL_CHECKED sl_status sl_device_null_create(const sl_allocator *allocator, sl_device **out,
                                           sl_error *err);
/* Loads without proof of order and values: what is wrong is left for runs to find. */
SL_CHECKED sl_status sl_device_null_create_trusting(const sl_allocator *allocator, sl_device **out,
                                                    sl_error *err);
#endif
