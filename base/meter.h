/* meter.h - An allocator that counts the bytes that are allocated through it. */
#ifndef SL_BASE_METER_H
#define SL_BASE_METER_H
#include "base/memory.h"

/* It must not move while it is in use. */
typedef struct {
    sl_allocator allocator; /* to be passed on */
    const sl_allocator *base;
    _Atomic uint64_t bytes, peak_bytes;
} sl_meter;
void sl_meter_init(sl_meter *meter, const sl_allocator *base); /* base is borrowed */
#endif
