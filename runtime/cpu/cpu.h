/* cpu.h - Creation of the CPU device, and the ops that it supports. */
#ifndef SL_RUNTIME_CPU_CPU_H
#define SL_RUNTIME_CPU_CPU_H
#include "core/target.h"
#include "runtime/device.h"

SL_CHECKED sl_status sl_device_cpu_create(const sl_device_options *options,
                                          const sl_allocator *allocator, sl_device **out,
                                          sl_error *err);

extern const sl_target sl_target_cpu;
#endif
