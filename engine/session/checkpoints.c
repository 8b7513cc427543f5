#include "engine/session/checkpoints.h"

sl_checkpoint_memory sl_checkpoints_memory(const sl_forward *forward, uint32_t wanted) {
    const uint64_t bytes = sl_forward_recurrent_bytes(forward);
    if (wanted == 0) wanted = SL_DEFAULT_CHECKPOINTS;
    return (sl_checkpoint_memory){bytes, bytes ? wanted : 0};
}

sl_status sl_checkpoints_init(sl_checkpoints *checkpoints, sl_forward *forward, uint32_t slot,
                              uint32_t wanted, sl_error *err) {
    const sl_checkpoint_memory memory = sl_checkpoints_memory(forward, wanted);
    *checkpoints = (sl_checkpoints){.forward = forward, .slot = slot};
    if (memory.count > SL_MAX_CHECKPOINTS)
        return sl_fail(err, SL_INVALID, "%u checkpoints per session, wanted at most %d",
                       memory.count, SL_MAX_CHECKPOINTS);
    while (checkpoints->capacity < memory.count) {
        void *data = sl_forward_checkpoint_create(forward);
        if (!data) return sl_no_memory(err, "a checkpoint", memory.bytes_each);
        checkpoints->kept[checkpoints->capacity++].data = data;
    }
    return SL_OK;
}

void sl_checkpoints_deinit(sl_checkpoints *checkpoints) {
    for (uint32_t i = 0; i < checkpoints->capacity; i++)
        sl_forward_checkpoint_destroy(checkpoints->forward, checkpoints->kept[i].data);
}

size_t sl_checkpoints_last(const sl_checkpoints *checkpoints) {
    return checkpoints->count ? checkpoints->kept[checkpoints->count - 1].length : 0;
}

/* The gap that the loss of a checkpoint leaves, relative to its distance from the end: what is kept
 * lies densely near the end, where rewinding is most likely, and sparsely far from it. */
static uint32_t least_useful(const sl_checkpoints *checkpoints, size_t end) {
    const sl_checkpoint *kept = checkpoints->kept;
    uint32_t found = 0;
    double least = 2;
    for (uint32_t i = 0; i < checkpoints->count; i++) {
        const size_t before = i ? kept[i - 1].length : 0;
        const size_t after = i + 1 < checkpoints->count ? kept[i + 1].length : end;
        const double cost = (double)(after - before) / (double)(end - before);
        if (cost < least) {
            least = cost;
            found = i;
        }
    }
    return found;
}

sl_status sl_checkpoints_save(sl_checkpoints *checkpoints, size_t length, sl_error *err) {
    sl_checkpoint *kept = checkpoints->kept;
    if (checkpoints->capacity == 0 || sl_checkpoints_last(checkpoints) == length) return SL_OK;
    if (checkpoints->count == checkpoints->capacity) {
        const uint32_t lost = least_useful(checkpoints, length);
        const sl_checkpoint freed = kept[lost];
        checkpoints->count--;
        for (uint32_t i = lost; i < checkpoints->count; i++) kept[i] = kept[i + 1];
        kept[checkpoints->count] = freed;
    }
    sl_checkpoint *next = &kept[checkpoints->count];
    SL_TRY(sl_forward_save_recurrent(checkpoints->forward, checkpoints->slot, next->data, err));
    next->length = length;
    checkpoints->count++;
    return SL_OK;
}

size_t sl_checkpoints_restore(sl_checkpoints *checkpoints, size_t length) {
    if (checkpoints->capacity == 0) return length;
    while (checkpoints->count && sl_checkpoints_last(checkpoints) > length) checkpoints->count--;
    if (checkpoints->count == 0) return 0; /* position 0 resets the state */
    const sl_checkpoint *last = &checkpoints->kept[checkpoints->count - 1];
    return sl_forward_load_recurrent(checkpoints->forward, checkpoints->slot, last->data, NULL) ==
                   SL_OK
               ? last->length
               : 0;
}
