/* forward_fake.c - A context that was not computed, for measurements. */
#include "core/codec.h"
#include "core/kv.h"
#include "engine/quant/noise.h"
#include "engine/session/forward.h"

enum { STATE_ALIGN = 64 };

static const sl_allocator *allocator_of(const sl_forward *forward) {
    return sl_forward_options_of(forward)->allocator;
}

static void fill_with_codes(const sl_type *type, void *into, uint64_t seed, float *row) {
    const int64_t rows = sl_kv_rows(type), width = sl_type_elements(type) / rows;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t d = 0; d < width; d++)
            row[d] = sl_noise_normal(seed, (uint64_t)(i * width + d));
        sl_kv_store_row(type, into, i, row);
    }
}

static sl_status fill_with_noise(sl_forward *forward, const sl_forward_state *s, void *into,
                                 uint64_t seed, sl_error *err) {
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
        float *row = sl_resize(allocator_of(forward), NULL, 0, bytes, sizeof *row);
        if (!row) return sl_no_memory(err, "a row of the cache", bytes);
        fill_with_codes(&one, into, seed, row);
        sl_release(allocator_of(forward), row, bytes, sizeof *row);
    } else
        return sl_fail(err, SL_UNSUPPORTED, "state '%s' is %s, which cannot be simulated", s->name,
                       sl_dtype_infos[s->type->dtype].name);
    return SL_OK;
}

/* One state of one page. */
static sl_status fake_page(sl_forward *forward, const sl_forward_state *s, int32_t page,
                           uint64_t seed, sl_error *err) {
    sl_device *device = sl_forward_options_of(forward)->device;
    void *noise = sl_resize(allocator_of(forward), NULL, 0, s->bytes_each, STATE_ALIGN);
    if (!noise) return sl_no_memory(err, "a simulated context", s->bytes_each);
    sl_status status = fill_with_noise(forward, s, noise, seed, err);
    if (status == SL_OK)
        status = device->ops->copy_in(device, s->data + (uint64_t)page * s->bytes_each, noise,
                                      s->bytes_each, err);
    sl_release(allocator_of(forward), noise, s->bytes_each, STATE_ALIGN);
    return status;
}

sl_status sl_forward_fake_kv(sl_forward *forward, uint32_t slot, uint32_t positions,
                             sl_error *err) {
    if (!sl_forward_options_of(forward)->device)
        return sl_fail(err, SL_UNSUPPORTED, "a context can only be simulated on a device");
    sl_kv_pages *pages = sl_forward_kv_pages(forward);
    SL_TRY(sl_kv_pages_write(pages, slot, 0, positions, err));
    const int32_t *table = sl_kv_pages_of(pages, slot, NULL);
    const uint64_t count = (uint64_t)sl_kv_page_count(positions);
    sl_forward_state state;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++)
        for (uint64_t page = 0; page < count && state.kind == SL_STATE_KV; page++)
            SL_TRY(fake_page(forward, &state, table[page], i * count + page, err));
    return SL_OK;
}
