/* device.c - The CUDA device: its context, its memory, copies of weights. */
#include "runtime/cuda/device.h"
#include "base/sizes.h"
#include "runtime/cuda/experts.h"
#include <string.h>

sl_status sl_cuda_enter(const sl_cuda_device *device, sl_error *err) {
    SL_TRY_CUDA(&device->driver, context_push(device->context), "entering the CUDA device", err);
    return SL_OK;
}

void sl_cuda_leave(const sl_cuda_device *device) {
    (void)device->driver.context_pop(NULL);
}

/* ---- memory ---- */

sl_status sl_cuda_take(const sl_cuda_device *device, uint64_t bytes, const char *what,
                       sl_cuda_block *out, sl_error *err) {
    *out = (sl_cuda_block){0};
    const uint64_t wanted = bytes ? bytes : 1;
    const sl_cu_result result = device->driver.memory_allocate(&out->address, wanted);
    if (result == SL_CU_OUT_OF_MEMORY) {
        size_t left = 0, total = 0;
        char want[16], have[16], all[16];
        (void)device->driver.memory_info(&left, &total);
        return sl_fail(err, SL_NO_MEMORY,
                       "%s: %s of device memory wanted, %s of %s is free; a smaller "
                       "--device-budget leaves more",
                       what, sl_size_format(wanted, want, sizeof want),
                       sl_size_format(left, have, sizeof have),
                       sl_size_format(total, all, sizeof all));
    }
    if (result) return sl_cuda_fail(&device->driver, result, what, err);
    out->bytes = wanted;
    return SL_OK;
}

void sl_cuda_give(const sl_cuda_device *device, sl_cuda_block *block) {
    if (block->address) (void)device->driver.memory_free(block->address);
    *block = (sl_cuda_block){0};
}

sl_status sl_cuda_ensure(const sl_cuda_device *device, sl_cuda_block *block, uint64_t bytes,
                         const char *what, sl_error *err) {
    if (bytes <= block->bytes) return SL_OK;
    sl_cuda_block fresh;
    SL_TRY(sl_cuda_take(device, bytes, what, &fresh, err));
    sl_cuda_give(device, block);
    *block = fresh;
    return SL_OK;
}

sl_status sl_cuda_wait(const sl_cuda_device *device, sl_error *err) {
    SL_TRY_CUDA(&device->driver, stream_synchronise(device->stream), "running on the CUDA device",
                err);
    return SL_OK;
}

/* The driver aligns small blocks to less than a page.  What it gave stands in front of a block. */
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
    if (sl_cuda_enter(device, NULL) != SL_OK) return NULL;
    void *fresh = new_bytes ? pinned_allocate(&device->driver, new_bytes, align) : NULL;
    if (fresh && block) memcpy(fresh, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    if (block && (fresh || !new_bytes)) pinned_free(&device->driver, block);
    sl_cuda_leave(device);
    return fresh;
}

/* ---- weights ---- */

static sl_status add_upload(sl_cuda_device *device, sl_cuda_upload upload, sl_error *err) {
    if (device->upload_count == device->upload_capacity) {
        const uint32_t capacity = device->upload_capacity ? 2 * device->upload_capacity : 256;
        sl_cuda_upload *fresh =
            sl_resize(device->allocator, device->uploads, device->upload_capacity * sizeof *fresh,
                      capacity * sizeof *fresh, 16);
        if (!fresh) return sl_no_memory(err, "the table of weights", capacity * sizeof *fresh);
        device->uploads = fresh;
        device->upload_capacity = capacity;
    }
    device->uploads[device->upload_count++] = upload;
    device->weight_bytes += upload.block.bytes;
    return SL_OK;
}

static sl_status copy_in_and_wait(const sl_cuda_device *device, sl_cu_address to, const void *from,
                                  uint64_t bytes, const char *what, sl_error *err) {
    SL_TRY_CUDA(&device->driver, copy_in(to, from, bytes, device->stream), what, err);
    SL_TRY_CUDA(&device->driver, stream_synchronise(device->stream), what, err);
    return SL_OK;
}

sl_status sl_cuda_upload_weight(sl_cuda_device *device, const void *host, uint64_t bytes,
                                const char *name, sl_cu_address *out, sl_error *err) {
    for (uint32_t i = 0; i < device->upload_count; i++)
        if (device->uploads[i].host == host && device->uploads[i].block.bytes >= bytes) {
            *out = device->uploads[i].block.address;
            return SL_OK;
        }
    sl_cuda_upload upload = {.host = host};
    SL_TRY(sl_cuda_take(device, bytes, name, &upload.block, err));
    sl_status status = copy_in_and_wait(device, upload.block.address, host, bytes, name, err);
    if (status == SL_OK) status = add_upload(device, upload, err);
    if (status != SL_OK) {
        sl_cuda_give(device, &upload.block);
        return status;
    }
    *out = upload.block.address;
    return SL_OK;
}

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
    const sl_cu_result result = driver->device_get(&device->device, (int)device->options.index);
    if (result)
        return sl_fail(err, SL_INVALID, "there is no CUDA device %u", device->options.index);
    SL_TRY_CUDA(driver, context_retain(&device->context, device->device), "opening the CUDA device",
                err);
    SL_TRY(ask(device, SL_CU_ATTRIBUTE_MULTIPROCESSORS, &device->multiprocessors, err));
    return ask(device, SL_CU_ATTRIBUTE_SHARED_OPTIN, &device->shared_limit, err);
}

static sl_status open_parts(sl_cuda_device *device, sl_error *err) {
    const sl_cuda_driver *driver = &device->driver;
    SL_TRY_CUDA(driver, stream_create(&device->stream, SL_CU_STREAM_NON_BLOCKING),
                "creating a stream", err);
    SL_TRY_CUDA(driver, stream_create(&device->copies, SL_CU_STREAM_NON_BLOCKING),
                "creating a stream", err);
    SL_TRY(sl_cuda_take(device, sizeof(sl_fault), "the report of faults", &device->fault, err));
    SL_TRY_CUDA(driver, fill(device->fault.address, 0, sizeof(sl_fault), device->stream),
                "clearing the report of faults", err);
    return sl_cuda_modules_load(device, err);
}

static void close_parts(sl_cuda_device *device) {
    const sl_cuda_driver *driver = &device->driver;
    if (sl_cuda_enter(device, NULL) == SL_OK) {
        if (device->stream) (void)driver->stream_synchronise(device->stream);
        sl_cuda_experts_destroy(device->experts);
        for (uint32_t i = 0; i < device->upload_count; i++)
            sl_cuda_give(device, &device->uploads[i].block);
        sl_cuda_give(device, &device->arena);
        sl_cuda_give(device, &device->scratch);
        sl_cuda_give(device, &device->fault);
        sl_cuda_modules_unload(device);
        if (device->copies) (void)driver->stream_destroy(device->copies);
        if (device->stream) (void)driver->stream_destroy(device->stream);
        sl_cuda_leave(device);
    }
    (void)driver->context_release(device->device);
}

void sl_cuda_destroy(sl_device *base) {
    sl_cuda_device *device = (sl_cuda_device *)base;
    if (device->context) close_parts(device);
    sl_cuda_driver_close(&device->driver);
    sl_release(device->allocator, device->uploads,
               device->upload_capacity * sizeof *device->uploads, 16);
    sl_release(device->allocator, device, sizeof *device, _Alignof(sl_cuda_device));
}

sl_status sl_device_cuda_create(const sl_device_options *options, const sl_allocator *allocator,
                                sl_device **out, sl_error *err) {
    sl_cuda_device *device = sl_allocate(allocator, sizeof *device, _Alignof(sl_cuda_device));
    if (!device) return sl_no_memory(err, "the CUDA device", sizeof *device);
    device->base.ops = &sl_cuda_ops;
    device->allocator = allocator;
    device->options = *options;
    device->pinned = (sl_allocator){pinned_resize, device};
    sl_status status = sl_cuda_driver_open(options->driver, &device->driver, err);
    if (status == SL_OK) status = open_context(device, err);
    if (status == SL_OK) status = sl_cuda_enter(device, err);
    if (status == SL_OK) {
        status = open_parts(device, err);
        sl_cuda_leave(device);
    }
    if (status == SL_OK)
        *out = &device->base;
    else
        sl_cuda_destroy(&device->base);
    return status;
}

void sl_cuda_describe(const sl_device *base, sl_device_info *out) {
    enum { CHUNK_TOKENS = 2048 }; /* enough to give every expert some rows */
    const sl_cuda_device *device = (const sl_cuda_device *)base;
    (void)device->driver.device_name(out->hardware, sizeof out->hardware, device->device);
    out->chunk_tokens = CHUNK_TOKENS;
    out->kv_dtypes[0] = SL_DTYPE_f16;
    out->kv_dtypes[1] = SL_DTYPE_f32;
    out->kv_dtype_count = 2;
    out->unshared_single_row = true;
    out->own_outputs = true;
    out->holds_experts = true;
    out->launch_modes = true;
    out->host_memory = &device->pinned;
}

void sl_cuda_count(const sl_device *base, sl_device_stats *out) {
    const sl_cuda_device *device = (const sl_cuda_device *)base;
    size_t left = 0, total = 0;
    if (sl_cuda_enter(device, NULL) == SL_OK) {
        (void)device->driver.memory_info(&left, &total);
        sl_cuda_leave(device);
    }
    out->free_bytes = left;
    out->total_bytes = total;
    out->workspace_bytes = device->arena.bytes + device->scratch.bytes;
    out->runs = device->runs;
    out->launch_seconds = device->launch_seconds;
    sl_cuda_experts_count(device->experts, out);
    out->taken_bytes =
        device->weight_bytes + device->state_bytes + out->workspace_bytes + out->expert_bytes;
}

bool sl_cuda_can_start(const sl_device *base) {
    return sl_cuda_experts_all_here(((const sl_cuda_device *)base)->experts);
}
