/* executor.c - Opening a device for several graphs (sluice/executor.h). */
#include "api/executor.h"
#include "api/needs.h"
#include "base/structs.h"

static sl_status open_parts(sl_executor *executor, const sl_executor_options *options,
                            const sl_device_options *device, sl_error *err) {
    sl_device_options given = *device;
    given.threads = options->threads;
    given.isa = options->isa;
    SL_TRY(sl_device_find(options->device, &executor->row, err));
    SL_TRY(sl_queue_create(executor->allocator, &executor->queue, err));
    if (!executor->row->create) return SL_OK;
    return executor->row->create(&given, executor->allocator, &executor->device, err);
}

sl_status sl_executor_open(const sl_executor_options *options, const sl_device_options *device,
                           sl_executor **out, sl_error *err) {
    sl_executor *executor =
        sl_allocate(options->allocator, sizeof *executor, _Alignof(sl_executor));
    if (!executor) return sl_no_memory(err, "an executor", sizeof *executor);
    if (options->allocator) {
        executor->given = *options->allocator;
        executor->allocator = &executor->given;
    }
    atomic_init(&executor->holders, 1);
    const sl_status status = open_parts(executor, options, device, err);
    if (status == SL_OK)
        *out = executor;
    else
        sl_executor_destroy(executor);
    return status;
}

sl_status sl_executor_create(const sl_executor_options *given, sl_executor **out, sl_error *err) {
    SL_NEED(out);
    sl_executor_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_executor_options, &options, given, err));
    return sl_executor_open(&options, &(sl_device_options){0}, out, err);
}

sl_executor *sl_executor_take(sl_executor *executor) {
    atomic_fetch_add(&executor->holders, 1);
    return executor;
}

void sl_executor_destroy(sl_executor *executor) {
    if (!executor || atomic_fetch_sub(&executor->holders, 1) > 1) return;
    sl_queue_destroy(executor->queue);
    if (executor->device) executor->device->ops->destroy(executor->device);
    const sl_allocator given = executor->given;
    const bool own = executor->allocator != NULL;
    sl_release(own ? &given : NULL, executor, sizeof *executor, _Alignof(sl_executor));
}
