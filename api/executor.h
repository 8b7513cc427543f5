/* executor.h - A device with all that graphs on it share (sluice/executor.h). */
#ifndef SL_API_EXECUTOR_H
#define SL_API_EXECUTOR_H
#include "runtime/devices.h"
#include "runtime/queue.h"
#include "sluice/executor.h"
#include <stdatomic.h>

struct sl_executor {
    sl_allocator given;            /* the caller's */
    const sl_allocator *allocator; /* NULL: the C library's */
    const sl_device_row *row;
    sl_device *device; /* NULL: graphs are evaluated */
    sl_queue *queue;   /* whoever uses the device has entered it */
    atomic_uint holders;
};

/* Opens a device; `device` has the launch modes. */
SL_CHECKED sl_status sl_executor_open(const sl_executor_options *options,
                                      const sl_device_options *device, sl_executor **out,
                                      sl_error *err);
sl_executor *sl_executor_take(sl_executor *executor); /* destroy lets it go */
#endif
