#include "engine/session/forward_states.h"
#include <string.h>

void *sl_state_allocate(const sl_forward_options *options, uint64_t bytes) {
    sl_device *device = options->device;
    return device ? device->ops->allocate(device, bytes)
                  : sl_resize(options->allocator, NULL, 0, bytes, SL_STATE_ALIGN);
}

void sl_state_release(const sl_forward_options *options, void *data, uint64_t bytes) {
    sl_device *device = options->device;
    if (device && data)
        device->ops->release(device, data, bytes);
    else
        sl_release(options->allocator, data, bytes, SL_STATE_ALIGN);
}

sl_status sl_state_copy(const sl_forward *forward, void *to, const void *from, uint64_t bytes,
                        sl_error *err) {
    sl_device *device = sl_forward_options_of(forward)->device;
    if (device) return device->ops->copy_within(device, to, from, bytes, err);
    memcpy(to, from, bytes);
    return SL_OK;
}

static uint64_t bytes_of(const sl_forward *forward, sl_state_kind kind) {
    uint64_t bytes = 0;
    sl_forward_state s;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &s); i++)
        if (s.kind == kind) bytes += s.bytes_each;
    return bytes;
}

/* ---- recurrent state ---- */

uint64_t sl_forward_recurrent_bytes(const sl_forward *forward) {
    return bytes_of(forward, SL_STATE_RECURRENT);
}

void *sl_forward_checkpoint_create(sl_forward *forward) {
    return sl_state_allocate(sl_forward_options_of(forward), sl_forward_recurrent_bytes(forward));
}

void sl_forward_checkpoint_destroy(sl_forward *forward, void *checkpoint) {
    const uint64_t bytes = sl_forward_recurrent_bytes(forward);
    if (checkpoint) sl_state_release(sl_forward_options_of(forward), checkpoint, bytes);
}

/* Walks the recurrent states of a slot, in either direction. */
static sl_status copy_recurrent(sl_forward *forward, uint32_t slot, char *checkpoint, bool save,
                                sl_error *err) {
    sl_forward_state s;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &s); i++) {
        if (s.kind != SL_STATE_RECURRENT) continue;
        char *here = s.data + slot * s.bytes_each;
        char *to = save ? checkpoint : here, *from = save ? here : checkpoint;
        SL_TRY(sl_state_copy(forward, to, from, s.bytes_each, err));
        checkpoint += s.bytes_each;
    }
    return SL_OK;
}

sl_status sl_forward_save_recurrent(sl_forward *forward, uint32_t slot, void *checkpoint,
                                    sl_error *err) {
    return copy_recurrent(forward, slot, checkpoint, true, err);
}

sl_status sl_forward_load_recurrent(sl_forward *forward, uint32_t slot, void *checkpoint,
                                    sl_error *err) {
    return copy_recurrent(forward, slot, checkpoint, false, err);
}

/* ---- pages of the KV cache ---- */

uint64_t sl_forward_page_bytes(const sl_forward *forward) {
    return bytes_of(forward, SL_STATE_KV);
}

sl_status sl_forward_copy_page(void *ctx, int32_t from, int32_t to, sl_error *err) {
    const sl_forward *forward = ctx;
    sl_forward_state s;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &s); i++)
        if (s.kind == SL_STATE_KV)
            SL_TRY(sl_state_copy(forward, s.data + (uint64_t)to * s.bytes_each,
                                 s.data + (uint64_t)from * s.bytes_each, s.bytes_each, err));
    return SL_OK;
}
