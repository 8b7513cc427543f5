/* cpu.h - Creating the CPU device, and what it says of itself. */
#ifndef SL_RUNTIME_CPU_CPU_H
#define SL_RUNTIME_CPU_CPU_H
#include "core/target.h"
#include "runtime/device.h"

typedef struct {
    uint32_t threads; /* 0: one per core */
    const char *isa;  /* NULL: the best this machine runs */
    bool pin;         /* each thread on a core of its own, see sl_team_pin */
} sl_cpu_options;
SL_CHECKED sl_status sl_device_cpu_create(const sl_cpu_options *options,
                                          const sl_allocator *allocator, sl_device **out,
                                          sl_error *err);

typedef struct {
    const char *isa;
    uint32_t threads;
    uint64_t workspace_bytes; /* activations and scratch, allocated so far */
} sl_cpu_info;
sl_cpu_info sl_device_cpu_info(const sl_device *device);

extern const sl_target sl_target_cpu;
#endif
