/* forward_fake.c - A KV cache as if its positions had been computed, for measurements. */
#include "core/codec.h"
#include "core/kv.h"
#include "engine/quant/noise.h"
#include "engine/session/forward.h"

enum { STATE_ALIGN = 64 };

static void fill_with_codes(const sl_type *type, void *into, uint64_t seed, float *row) {
    const int64_t rows = sl_kv_rows(type), width = sl_type_elements(type) / rows;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t d = 0; d < width; d++)
            row[d] = sl_noise_normal(seed, (uint64_t)(i * width + d));
        sl_kv_store_row(type, into, i, row);
    }
}

static sl_status fill_with_noise(const sl_forward_state *s, void *into, uint64_t seed,
                                 const sl_allocator *allocator, sl_error *err) {
    const uint64_t f32s = s->bytes_each / sizeof(float), f16s = s->bytes_each / sizeof(uint16_t);
    sl_type one = *s->type;
    one.shape.dims[0] = 1;
    if (s->type->dtype == SL_DTYPE_f32)
        for (uint64_t i = 0; i < f32s; i++) ((float *)into)[i] = sl_noise_normal(seed, i);
    else if (s->type->dtype == SL_DTYPE_f16)
        for (uint64_t i = 0; i < f16s; i++)
            ((uint16_t *)into)[i] = sl_f16_from_f32(sl_noise_normal(seed, i));
    else if (sl_dtype_infos[s->type->dtype].kind == SL_KIND_CACHE) {
        const size_t bytes = (size_t)(sl_type_elements(&one) / sl_kv_rows(&one)) * sizeof(float);
        float *row = sl_resize(allocator, NULL, 0, bytes, sizeof *row);
        if (!row) return sl_no_memory(err, "a row of the cache", bytes);
        fill_with_codes(&one, into, seed, row);
        sl_release(allocator, row, bytes, sizeof *row);
    } else
        return sl_fail(err, SL_UNSUPPORTED, "state '%s' is %s, which cannot be simulated", s->name,
                       sl_dtype_infos[s->type->dtype].name);
    return SL_OK;
}

sl_status sl_forward_fake_kv(sl_forward *forward, uint32_t slot, sl_error *err) {
    const sl_forward_options *options = sl_forward_options_of(forward);
    sl_device *device = options->device;
    sl_forward_state s;
    if (!device) return sl_fail(err, SL_UNSUPPORTED, "a context can only be simulated on a device");
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &s); i++) {
        if (s.kind != SL_STATE_KV) continue;
        void *noise = sl_resize(options->allocator, NULL, 0, s.bytes_each, STATE_ALIGN);
        if (!noise) return sl_no_memory(err, "a simulated context", s.bytes_each);
        sl_status status = fill_with_noise(&s, noise, i, options->allocator, err);
        if (status == SL_OK)
            status = device->ops->copy_in(device, s.data + slot * s.bytes_each, noise, s.bytes_each,
                                          err);
        sl_release(options->allocator, noise, s.bytes_each, STATE_ALIGN);
        SL_TRY(status);
    }
    return SL_OK;
}
