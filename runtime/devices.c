#include "runtime/devices.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cuda/cuda.h"
#include "runtime/null/null.h"
#include <stdio.h>
#include <string.h>

static const sl_device_row rows[] = {
    {.name = "cpu",
     .summary = "the CPU cores of this machine",
     .target = &sl_target_cpu,
     .create = sl_device_cpu_create},
    {.name = "cuda",
     .summary = "an NVIDIA GPU",
     .target = &sl_target_cuda,
     .create = sl_device_cuda_create,
     .present = sl_device_cuda_present,
     .accelerator = true},
    {.name = "null",
     .summary = "computes nothing; verifies programs and simulates their worst legal order",
     .create = sl_device_null_create,
     .checks_only = true},
    {.name = "ref", .summary = "reference evaluator in double precision, slow"},
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const sl_device_row *sl_device_row_at(uint32_t index) {
    return index < ROW_COUNT ? &rows[index] : NULL;
}

static void list_names(char *out, size_t capacity) {
    out[0] = 0;
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        const size_t used = strlen(out);
        const char *before = i == 0 ? "" : i + 1 == ROW_COUNT ? " or " : ", ";
        (void)snprintf(out + used, capacity - used, "%s%s", before, rows[i].name);
    }
}

sl_status sl_device_find(const char *name, const sl_device_row **out, sl_error *err) {
    char names[128];
    if (!name) name = rows[0].name;
    for (uint32_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *out = &rows[i];
            return SL_OK;
        }
    list_names(names, sizeof names);
    return sl_fail(err, SL_UNSUPPORTED, "unknown device '%s', wanted %s", name, names);
}

sl_status sl_device_open_best(const sl_device_options *options, const sl_allocator *allocator,
                              sl_best_device *out, sl_error *err) {
    *out = (sl_best_device){0};
    for (uint32_t i = 0; i < ROW_COUNT; i++) {
        sl_error failed;
        out->row = &rows[i];
        if (!rows[i].accelerator) continue;
        if (rows[i].create(options, allocator, &out->device, &failed) == SL_OK) return SL_OK;
        if (rows[i].present()) out->passed_over = failed;
    }
    out->row = &rows[0];
    return rows[0].create(options, allocator, &out->device, err);
}

sl_device_info sl_device_describe(const sl_device *device) {
    enum { CHUNK_TOKENS = 256 }; /* enough to reuse each weight many times */
    sl_device_info info = {.isa = "none", .threads = 1, .chunk_tokens = CHUNK_TOKENS};
    if (device) device->ops->describe(device, &info);
    return info;
}

sl_device_stats sl_device_stats_of(const sl_device *device) {
    sl_device_stats stats = {0};
    if (device && device->ops->count) device->ops->count(device, &stats);
    return stats;
}
