#include "base/meter.h"
#include <stdatomic.h>

static void *metered_resize(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes,
                            size_t align) {
    sl_meter *meter = ctx;
    void *fresh = sl_resize(meter->base, ptr, old_bytes, new_bytes, align);
    if (!fresh && new_bytes) return NULL;
    const uint64_t before = atomic_fetch_add(&meter->bytes, new_bytes);
    atomic_fetch_sub(&meter->bytes, ptr ? old_bytes : 0);
    uint64_t peak = atomic_load(&meter->peak_bytes);
    while (before + new_bytes > peak &&
           !atomic_compare_exchange_weak(&meter->peak_bytes, &peak, before + new_bytes)) {}
    return fresh;
}

void sl_meter_init(sl_meter *meter, const sl_allocator *base) {
    meter->allocator = (sl_allocator){metered_resize, meter};
    meter->base = base;
    atomic_init(&meter->bytes, 0);
    atomic_init(&meter->peak_bytes, 0);
}
