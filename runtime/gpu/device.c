/* device.c - The device memory of a GPU, copies of weights, and the entries of sl_device_ops that
 * concern them. */
#include "base/sizes.h"
#include "runtime/gpu/experts.h"
#include "runtime/gpu/gpu.h"
#include <string.h>

/* ---- memory ---- */

void sl_gpu_release(const sl_gpu *gpu, sl_gpu_block *block) {
    if (block->address) gpu->calls->release(gpu, block->address);
    *block = (sl_gpu_block){0};
}

sl_status sl_gpu_ensure(const sl_gpu *gpu, sl_gpu_block *block, uint64_t bytes, const char *what,
                        sl_error *err) {
    if (bytes <= block->bytes) return SL_OK;
    sl_gpu_block fresh;
    if (gpu->begun) SL_TRY(gpu->calls->wait(gpu, SL_GPU_WORK, err)); /* they use the old block */
    SL_TRY(gpu->calls->allocate(gpu, bytes, what, &fresh, err));
    sl_gpu_release(gpu, block);
    *block = fresh;
    return SL_OK;
}

sl_status sl_gpu_init(sl_gpu *gpu, sl_error *err) {
    SL_TRY(gpu->calls->allocate(gpu, sizeof(sl_fault), "the fault report", &gpu->fault, err));
    return gpu->calls->clear(gpu, SL_GPU_WORK, gpu->fault.address, sizeof(sl_fault), err);
}

void sl_gpu_release_memory(sl_gpu *gpu) {
    (void)gpu->calls->wait(gpu, SL_GPU_WORK, NULL);
    sl_gpu_experts_destroy(gpu->experts);
    for (uint32_t i = 0; i < gpu->upload_count; i++) sl_gpu_release(gpu, &gpu->uploads[i].block);
    sl_gpu_release(gpu, &gpu->arena);
    sl_gpu_release(gpu, &gpu->scratch);
    sl_gpu_release(gpu, &gpu->fault);
}

void sl_gpu_deinit(sl_gpu *gpu) {
    sl_release(gpu->allocator, gpu->uploads, gpu->upload_capacity * sizeof *gpu->uploads, 16);
}

/* ---- weights ---- */

static sl_status add_upload(sl_gpu *gpu, sl_gpu_upload upload, sl_error *err) {
    if (gpu->upload_count == gpu->upload_capacity) {
        const uint32_t capacity = gpu->upload_capacity ? 2 * gpu->upload_capacity : 256;
        sl_gpu_upload *fresh =
            sl_resize(gpu->allocator, gpu->uploads, gpu->upload_capacity * sizeof *fresh,
                      capacity * sizeof *fresh, 16);
        if (!fresh) return sl_no_memory(err, "the table of weights", capacity * sizeof *fresh);
        gpu->uploads = fresh;
        gpu->upload_capacity = capacity;
    }
    gpu->uploads[gpu->upload_count++] = upload;
    gpu->weight_bytes += upload.block.bytes;
    return SL_OK;
}

static sl_gpu_upload *find_upload(const sl_gpu *gpu, const void *host, uint64_t bytes) {
    for (uint32_t i = 0; i < gpu->upload_count; i++)
        if (gpu->uploads[i].host == host && gpu->uploads[i].block.bytes >= bytes)
            return &gpu->uploads[i];
    return NULL;
}

sl_status sl_gpu_upload_weight(sl_gpu *gpu, const void *host, uint64_t bytes, const char *name,
                               sl_gpu_address *out, sl_error *err) {
    const sl_gpu_upload *found = find_upload(gpu, host, bytes);
    if (found) {
        *out = found->block.address;
        return SL_OK;
    }
    sl_gpu_upload upload = {.host = host};
    SL_TRY(gpu->calls->allocate(gpu, bytes, name, &upload.block, err));
    sl_status status = sl_gpu_copy_in(gpu, upload.block.address, host, bytes, err);
    if (status == SL_OK) status = add_upload(gpu, upload, err);
    if (status != SL_OK) {
        sl_gpu_release(gpu, &upload.block);
        return sl_fail_in(err, status, "%s", name);
    }
    *out = upload.block.address;
    return SL_OK;
}

/* Also of a smaller weight that begins at the same address. */
sl_status sl_gpu_weight_changed(sl_device *base, const void *host, uint64_t offset, uint64_t bytes,
                                sl_error *err) {
    sl_gpu *gpu = (sl_gpu *)base;
    for (uint32_t i = 0; i < gpu->upload_count; i++) {
        const sl_gpu_upload *upload = &gpu->uploads[i];
        if (upload->host != host || upload->block.bytes <= offset) continue;
        const uint64_t left = upload->block.bytes - offset;
        SL_TRY(sl_gpu_copy_in(gpu, upload->block.address + offset, (const char *)host + offset,
                              bytes < left ? bytes : left, err));
    }
    return SL_OK; /* also if it is not bound yet */
}

static void drop_upload(sl_gpu *gpu, sl_gpu_upload *upload) {
    sl_gpu_upload *end = gpu->uploads + gpu->upload_count--;
    if (gpu->calls->enter(gpu, NULL) == SL_OK) {
        (void)gpu->calls->wait(gpu, SL_GPU_WORK, NULL); /* a run may use it */
        gpu->weight_bytes -= upload->block.bytes;
        sl_gpu_release(gpu, &upload->block);
        gpu->calls->leave(gpu);
    }
    for (; upload + 1 < end; upload++) upload[0] = upload[1]; /* find_upload goes by their order */
}

void sl_gpu_hold_weight(sl_device *base, const void *host, uint64_t bytes, bool on) {
    sl_gpu *gpu = (sl_gpu *)base;
    sl_gpu_upload *upload = find_upload(gpu, host, bytes);
    if (!upload) return;
    if (on)
        upload->holders++;
    else if (upload->holders && --upload->holders == 0)
        drop_upload(gpu, upload);
}

/* ---- states ---- */

/* Zeros: kernels may load a state ahead of the step that writes it first. */
static sl_status take_states(sl_gpu *gpu, uint64_t bytes, sl_gpu_block *out) {
    SL_TRY(gpu->calls->allocate(gpu, bytes, "states", out, NULL));
    const sl_status status = gpu->calls->clear(gpu, SL_GPU_WORK, out->address, bytes, NULL);
    if (status != SL_OK) {
        sl_gpu_release(gpu, out);
        return status;
    }
    gpu->state_bytes += bytes;
    return SL_OK;
}

void *sl_gpu_device_allocate(sl_device *base, uint64_t bytes) {
    sl_gpu *gpu = (sl_gpu *)base;
    sl_gpu_block block = {0};
    if (gpu->calls->enter(gpu, NULL) != SL_OK) return NULL;
    const sl_status status = take_states(gpu, bytes, &block);
    gpu->calls->leave(gpu);
    return status == SL_OK ? (void *)(uintptr_t)block.address : NULL;
}

void sl_gpu_device_release(sl_device *base, void *memory, uint64_t bytes) {
    sl_gpu *gpu = (sl_gpu *)base;
    if (!memory || gpu->calls->enter(gpu, NULL) != SL_OK) return;
    gpu->calls->release(gpu, (sl_gpu_address)(uintptr_t)memory);
    gpu->state_bytes -= bytes;
    gpu->calls->leave(gpu);
}

/* ---- copies ---- */

static sl_status wait_and_leave(const sl_gpu *gpu, sl_status status, sl_error *err) {
    if (status == SL_OK) status = gpu->calls->wait(gpu, SL_GPU_WORK, err);
    gpu->calls->leave(gpu);
    return status;
}

sl_status sl_gpu_copy_in(sl_gpu *gpu, sl_gpu_address to, const void *from, uint64_t bytes,
                         sl_error *err) {
    SL_TRY(gpu->calls->enter(gpu, err));
    return wait_and_leave(gpu, gpu->calls->copy_in(gpu, SL_GPU_WORK, to, from, bytes, err), err);
}
sl_status sl_gpu_copy_out(sl_gpu *gpu, void *to, sl_gpu_address from, uint64_t bytes,
                          sl_error *err) {
    SL_TRY(gpu->calls->enter(gpu, err));
    return wait_and_leave(gpu, gpu->calls->copy_out(gpu, SL_GPU_WORK, to, from, bytes, err), err);
}

sl_status sl_gpu_device_copy_in(sl_device *base, void *to, const void *from, uint64_t bytes,
                                sl_error *err) {
    return sl_gpu_copy_in((sl_gpu *)base, (sl_gpu_address)(uintptr_t)to, from, bytes, err);
}
sl_status sl_gpu_device_copy_out(sl_device *base, void *to, const void *from, uint64_t bytes,
                                 sl_error *err) {
    return sl_gpu_copy_out((sl_gpu *)base, to, (sl_gpu_address)(uintptr_t)from, bytes, err);
}
/* In order with the steps before and after it: no need to wait. */
sl_status sl_gpu_device_copy_within(sl_device *base, void *to, const void *from, uint64_t bytes,
                                    sl_error *err) {
    const sl_gpu *gpu = (const sl_gpu *)base;
    SL_TRY(gpu->calls->enter(gpu, err));
    const sl_status status =
        gpu->calls->copy_within(gpu, SL_GPU_WORK, (sl_gpu_address)(uintptr_t)to,
                                (sl_gpu_address)(uintptr_t)from, bytes, err);
    gpu->calls->leave(gpu);
    return status;
}

/* ---- statistics ---- */

void sl_gpu_count(const sl_device *base, sl_device_stats *out) {
    const sl_gpu *gpu = (const sl_gpu *)base;
    if (gpu->calls->enter(gpu, NULL) == SL_OK) {
        (void)gpu->calls->memory(gpu, &out->free_bytes, &out->total_bytes, NULL);
        gpu->calls->leave(gpu);
    }
    out->workspace_bytes = gpu->arena.bytes + gpu->scratch.bytes;
    out->runs = gpu->runs;
    out->launch_seconds = gpu->launch_seconds;
    sl_gpu_experts_count(gpu->experts, out);
    out->taken_bytes =
        gpu->weight_bytes + gpu->state_bytes + out->workspace_bytes + out->expert_bytes;
}

bool sl_gpu_can_start(const sl_device *base) {
    return sl_gpu_experts_all_here(((const sl_gpu *)base)->experts);
}
