/* device.c - The CUDA device: its context and streams, and the calls that runtime/gpu makes. */
#include "runtime/cuda/device.h"
#include "base/sizes.h"
#include "runtime/cuda/executable.h"
#include "runtime/custom.h"
#include <string.h>

static const sl_cuda_device *cuda_of(const sl_gpu *gpu) {
    return (const sl_cuda_device *)gpu;
}
static const sl_cuda_driver *driver_of(const sl_gpu *gpu) {
    return &cuda_of(gpu)->driver;
}
static sl_cu_stream stream_of(const sl_gpu *gpu, sl_gpu_queue queue) {
    return queue == SL_GPU_COPIES ? cuda_of(gpu)->copies : cuda_of(gpu)->stream;
}

static sl_status enter(const sl_gpu *gpu, sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), context_push(cuda_of(gpu)->context), "entering the CUDA device",
                err);
    return SL_OK;
}
static void leave(const sl_gpu *gpu) {
    (void)driver_of(gpu)->context_pop(NULL);
}

/* ---- memory ---- */

static sl_status memory(const sl_gpu *gpu, uint64_t *out_free, uint64_t *out_total, sl_error *err) {
    size_t left = 0, total = 0;
    SL_TRY_CUDA(driver_of(gpu), memory_info(&left, &total), "querying free memory", err);
    *out_free = left;
    *out_total = total;
    return SL_OK;
}

static sl_status allocate(const sl_gpu *gpu, uint64_t bytes, const char *what, sl_gpu_block *out,
                          sl_error *err) {
    *out = (sl_gpu_block){0};
    const uint64_t wanted = bytes ? bytes : 1;
    const sl_cu_result result = driver_of(gpu)->memory_allocate(&out->address, wanted);
    if (result == SL_CU_OUT_OF_MEMORY) {
        uint64_t left = 0, total = 0;
        char want[16], have[16], all[16];
        (void)memory(gpu, &left, &total, NULL);
        return sl_fail(err, SL_NO_MEMORY,
                       "%s: %s of device memory wanted, %s of %s is free; a smaller "
                       "--device-budget leaves more",
                       what, sl_size_format(wanted, want, sizeof want),
                       sl_size_format(left, have, sizeof have),
                       sl_size_format(total, all, sizeof all));
    }
    if (result) return sl_cuda_fail(driver_of(gpu), result, what, err);
    out->bytes = wanted;
    return SL_OK;
}
static void release(const sl_gpu *gpu, sl_gpu_address address) {
    (void)driver_of(gpu)->memory_free(address);
}

/* The driver aligns small blocks to less than a page; the address that it returned is stored in
 * front of the block. */
static void *pinned_allocate(const sl_cuda_driver *driver, size_t bytes, size_t align) {
    const size_t room = align > sizeof(void *) ? align : sizeof(void *);
    void *given = NULL;
    if (driver->host_allocate(&given, bytes + 2 * room, SL_CU_HOST_PORTABLE)) return NULL;
    char *block = (char *)given + 2 * room - (uintptr_t)given % room;
    memcpy(block - sizeof given, &given, sizeof given);
    return block;
}
static void pinned_free(const sl_cuda_driver *driver, char *block) {
    void *given;
    memcpy(&given, block - sizeof given, sizeof given);
    (void)driver->host_free(given);
}

static void *pinned_resize(void *ctx, void *block, size_t old_bytes, size_t new_bytes,
                           size_t align) {
    const sl_cuda_device *device = ctx;
    if (enter(&device->gpu, NULL) != SL_OK) return NULL;
    void *fresh = new_bytes ? pinned_allocate(&device->driver, new_bytes, align) : NULL;
    if (fresh && block) memcpy(fresh, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    if (block && (fresh || !new_bytes)) pinned_free(&device->driver, block);
    leave(&device->gpu);
    return fresh;
}

/* ---- queues ---- */

static sl_status copy_in(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to, const void *from,
                         uint64_t bytes, sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), copy_in(to, from, bytes, stream_of(gpu, queue)),
                "copying to the device", err);
    return SL_OK;
}
static sl_status copy_out(const sl_gpu *gpu, sl_gpu_queue queue, void *to, sl_gpu_address from,
                          uint64_t bytes, sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), copy_out(to, from, bytes, stream_of(gpu, queue)),
                "copying from the device", err);
    return SL_OK;
}
static sl_status copy_within(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to,
                             sl_gpu_address from, uint64_t bytes, sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), copy_within(to, from, bytes, stream_of(gpu, queue)),
                "copying on the device", err);
    return SL_OK;
}
static sl_status clear(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_address to, uint64_t bytes,
                       sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), fill(to, 0, bytes, stream_of(gpu, queue)), "clearing memory", err);
    return SL_OK;
}
static sl_status wait(const sl_gpu *gpu, sl_gpu_queue queue, sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), stream_synchronise(stream_of(gpu, queue)),
                "running on the CUDA device", err);
    return SL_OK;
}

static sl_status launch_custom(const sl_gpu *gpu, sl_gpu_queue queue, const sl_custom_args *args,
                               const char *label, void *room, sl_error *err) {
    return sl_custom_launch(args, label, room, stream_of(gpu, queue), err);
}

/* A fence is an event of CUDA. */
static sl_cu_event event_of(sl_gpu_fence *fence) {
    return (sl_cu_event)(void *)fence;
}
static sl_status fence_create(const sl_gpu *gpu, bool timed, sl_gpu_fence **out, sl_error *err) {
    sl_cu_event event = NULL;
    SL_TRY_CUDA(driver_of(gpu),
                event_create(&event, timed ? SL_CU_EVENT_DEFAULT : SL_CU_EVENT_NO_TIMING),
                "creating an event", err);
    *out = (sl_gpu_fence *)(void *)event;
    return SL_OK;
}
static void fence_destroy(const sl_gpu *gpu, sl_gpu_fence *fence) {
    (void)driver_of(gpu)->event_destroy(event_of(fence));
}
static sl_status fence_record(const sl_gpu *gpu, sl_gpu_queue queue, sl_gpu_fence *fence,
                              sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), event_record(event_of(fence), stream_of(gpu, queue)),
                "recording an event", err);
    return SL_OK;
}
static sl_status fence_wait(const sl_gpu *gpu, sl_gpu_fence *fence, sl_error *err) {
    SL_TRY_CUDA(driver_of(gpu), event_synchronise(event_of(fence)), "running on the CUDA device",
                err);
    return SL_OK;
}
static double fence_seconds(const sl_gpu *gpu, sl_gpu_fence *from, sl_gpu_fence *to) {
    float milliseconds = 0;
    (void)driver_of(gpu)->event_elapsed(&milliseconds, event_of(from), event_of(to));
    return 1e-3 * (double)milliseconds;
}

const sl_gpu_calls sl_cuda_calls = {
    .enter = enter,
    .leave = leave,
    .memory = memory,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .clear = clear,
    .wait = wait,
    .launch_custom = launch_custom,
    .fence_create = fence_create,
    .fence_destroy = fence_destroy,
    .fence_record = fence_record,
    .fence_wait = fence_wait,
    .fence_seconds = fence_seconds,
    .executable_bytes = sizeof(sl_cuda_executable),
    .kernels = &sl_cuda_kernels,
    .place_scratch = sl_cuda_place_scratch,
    .record = sl_cuda_record,
    .unrecord = sl_cuda_unrecord,
    .submit_segment = sl_cuda_submit_segment,
    .submit_step = sl_cuda_submit_step,
    .read_order = sl_cuda_read_order,
};

/* ---- from creation to destruction ---- */

static sl_status ask(const sl_cuda_device *device, int attribute, uint32_t *out, sl_error *err) {
    int value = 0;
    SL_TRY_CUDA(&device->driver, device_attribute(&value, attribute, device->device),
                "asking what the CUDA device is", err);
    *out = (uint32_t)value;
    return SL_OK;
}

static sl_status open_context(sl_cuda_device *device, sl_error *err) {
    const sl_cuda_driver *driver = &device->driver;
    const sl_cu_result result = driver->device_get(&device->device, (int)device->gpu.options.index);
    if (result)
        return sl_fail(err, SL_INVALID, "there is no CUDA device %u", device->gpu.options.index);
    SL_TRY_CUDA(driver, context_retain(&device->context, device->device), "opening the CUDA device",
                err);
    SL_TRY(ask(device, SL_CU_ATTRIBUTE_MULTIPROCESSORS, &device->gpu.multiprocessors, err));
    return ask(device, SL_CU_ATTRIBUTE_SHARED_OPTIN, &device->gpu.shared_limit, err);
}

static sl_status open_parts(sl_cuda_device *device, sl_error *err) {
    const sl_cuda_driver *driver = &device->driver;
    SL_TRY_CUDA(driver, stream_create(&device->stream, SL_CU_STREAM_NON_BLOCKING),
                "creating a stream", err);
    SL_TRY_CUDA(driver, stream_create(&device->copies, SL_CU_STREAM_NON_BLOCKING),
                "creating a stream", err);
    SL_TRY(sl_gpu_init(&device->gpu, err));
    return sl_cuda_modules_load(device, err);
}

static void close_parts(sl_cuda_device *device) {
    const sl_cuda_driver *driver = &device->driver;
    if (enter(&device->gpu, NULL) == SL_OK) {
        sl_gpu_release_memory(&device->gpu);
        sl_cuda_modules_unload(device);
        if (device->copies) (void)driver->stream_destroy(device->copies);
        if (device->stream) (void)driver->stream_destroy(device->stream);
        leave(&device->gpu);
    }
    (void)driver->context_release(device->device);
}

static void destroy(sl_device *base) {
    sl_cuda_device *device = (sl_cuda_device *)base;
    if (device->context) close_parts(device);
    sl_cuda_driver_close(&device->driver);
    sl_cuda_ranges_close(&device->ranges);
    sl_gpu_deinit(&device->gpu);
    sl_release(device->gpu.allocator, device, sizeof *device, _Alignof(sl_cuda_device));
}

static void describe(const sl_device *base, sl_device_info *out) {
    enum { CHUNK_TOKENS = 2048 }; /* enough to give every expert some rows */
    const sl_cuda_device *device = (const sl_cuda_device *)base;
    (void)device->driver.device_name(out->hardware, sizeof out->hardware, device->device);
    out->chunk_tokens = CHUNK_TOKENS;
    out->kv_dtypes[0] = SL_DTYPE_f16;
    out->kv_dtypes[1] = SL_DTYPE_f32;
    out->kv_dtype_count = 2;
    out->unshared_single_row = true;
    out->own_memory = true;
    out->own_outputs = true;
    out->holds_experts = true;
    out->launch_modes = true;
    out->orders_by_rows = true;
    out->host_memory = &device->gpu.pinned;
}

const sl_device_ops sl_cuda_ops = {
    SL_GPU_DEVICE_OPS,          .name = "cuda", .destroy = destroy, .describe = describe,
    .measure = sl_cuda_measure,
};

sl_status sl_device_cuda_create(const sl_device_options *options, const sl_allocator *allocator,
                                sl_device **out, sl_error *err) {
    sl_cuda_device *device = sl_allocate(allocator, sizeof *device, _Alignof(sl_cuda_device));
    if (!device) return sl_no_memory(err, "the CUDA device", sizeof *device);
    device->gpu.base.ops = &sl_cuda_ops;
    device->gpu.calls = &sl_cuda_calls;
    device->gpu.allocator = allocator;
    device->gpu.options = *options;
    device->gpu.pinned = (sl_allocator){pinned_resize, device};
    sl_cuda_ranges_open(&device->ranges);
    sl_status status = sl_cuda_driver_open(options->driver, &device->driver, err);
    if (status == SL_OK) status = open_context(device, err);
    if (status == SL_OK) status = enter(&device->gpu, err);
    if (status == SL_OK) {
        status = open_parts(device, err);
        leave(&device->gpu);
    }
    if (status == SL_OK)
        *out = &device->gpu.base;
    else
        destroy(&device->gpu.base);
    return status;
}
