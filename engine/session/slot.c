#include "engine/session/slot.h"
#include "engine/session/forward_states.h"
#include "runtime/devices.h"
#include <string.h>

enum { KEYS_RANK = 5, PAGE_BLOCKS = SL_KV_PAGE / SL_KV_LANES, STAGING_ALIGN = 64 };

sl_block_shape sl_block_shape_of(const sl_forward_state *state) {
    const int64_t *dims = state->type->shape.dims;
    const bool keys = state->type->shape.rank == KEYS_RANK;
    const uint64_t heads = (uint64_t)dims[1];
    const uint64_t blocks = (uint64_t)(keys ? dims[2] : dims[2] / SL_KV_LANES);
    return (sl_block_shape){heads, blocks, state->bytes_each / (heads * blocks), dims[3], keys};
}

uint64_t sl_slot_block_bytes(const sl_forward *forward) {
    sl_forward_state state;
    uint64_t bytes = 0;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        if (state.kind != SL_STATE_KV) continue;
        const sl_block_shape shape = sl_block_shape_of(&state);
        bytes += shape.heads * shape.bytes;
    }
    return bytes;
}

/* ---- copies ---- */

static sl_device *device_of(const sl_forward *forward) {
    return sl_forward_options_of(forward)->device;
}

static sl_status copy_out(const sl_forward *forward, void *to, const void *from, uint64_t bytes,
                          sl_error *err) {
    sl_device *device = device_of(forward);
    if (device) return device->ops->copy_out(device, to, from, bytes, err);
    memcpy(to, from, bytes);
    return SL_OK;
}

static sl_status copy_in(const sl_forward *forward, void *to, const void *from, uint64_t bytes,
                         sl_error *err) {
    sl_device *device = device_of(forward);
    if (device) return device->ops->copy_in(device, to, from, bytes, err);
    memcpy(to, from, bytes);
    return SL_OK;
}

typedef struct {
    const int32_t *pages; /* that have the blocks, in order */
    uint64_t first, count, stride;
    char *host;    /* `stride` bytes for each block */
    char *staging; /* room for one state of a page; NULL where the host sees the memory of states */
    bool read;
} block_range;

/* One state of the blocks of one page, which has `before` bytes of a block before it. */
static sl_status copy_blocks(const sl_forward *forward, const block_range *range,
                             const sl_forward_state *state, uint64_t before, sl_error *err) {
    const sl_block_shape shape = sl_block_shape_of(state);
    const uint64_t index = range->first % shape.blocks;
    const uint64_t page = (uint64_t)range->pages[range->first / shape.blocks];
    char *there = state->data + page * state->bytes_each, *staging = range->staging;
    char *here = staging ? staging : there;
    if (staging && (range->read || range->count < shape.blocks))
        SL_TRY(copy_out(forward, staging, there, state->bytes_each, err));
    for (uint64_t h = 0; h < shape.heads; h++)
        for (uint64_t b = 0; b < range->count; b++) {
            char *host = range->host + b * range->stride + before + h * shape.bytes;
            char *block = here + (h * shape.blocks + index + b) * shape.bytes;
            memcpy(range->read ? host : block, range->read ? block : host, shape.bytes);
        }
    if (!staging || range->read) return SL_OK;
    return copy_in(forward, there, staging, state->bytes_each, err);
}

/* Blocks of one page. */
static sl_status copy_states(const sl_forward *forward, const block_range *range, sl_error *err) {
    uint64_t before = 0;
    sl_forward_state state;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        if (state.kind != SL_STATE_KV) continue;
        const sl_block_shape shape = sl_block_shape_of(&state);
        SL_TRY(copy_blocks(forward, range, &state, before, err));
        before += shape.heads * shape.bytes;
    }
    return SL_OK;
}

static uint64_t most_bytes(const sl_forward *forward) {
    sl_forward_state state;
    uint64_t most = 0;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        if (state.kind != SL_STATE_KV) continue;
        if (state.bytes_each > most) most = state.bytes_each;
    }
    return most;
}

static sl_status copy_range(const sl_forward *forward, block_range range, sl_error *err) {
    sl_device *device = device_of(forward);
    const sl_allocator *allocator = sl_forward_options_of(forward)->allocator;
    const uint64_t end = range.first + range.count, bytes = most_bytes(forward);
    const bool stages = device && sl_device_describe(device).own_memory && bytes;
    sl_status status = SL_OK;
    if (stages && !(range.staging = sl_resize(allocator, NULL, 0, bytes, STAGING_ALIGN)))
        return sl_no_memory(err, "a copy of keys and values", bytes);
    range.stride = sl_slot_block_bytes(forward);
    while (range.first < end && status == SL_OK) {
        const uint64_t of_page = PAGE_BLOCKS - range.first % PAGE_BLOCKS;
        range.count = end - range.first < of_page ? end - range.first : of_page;
        status = copy_states(forward, &range, err);
        range.first += range.count;
        range.host += range.count * range.stride;
    }
    sl_release(allocator, range.staging, bytes, STAGING_ALIGN);
    return status;
}

sl_status sl_pages_read_blocks(const sl_forward *forward, const int32_t *pages, uint64_t first,
                               uint64_t count, void *out, sl_error *err) {
    return copy_range(
        forward,
        (block_range){.pages = pages, .first = first, .count = count, .host = out, .read = true},
        err);
}

sl_status sl_slot_read_blocks(const sl_forward *forward, uint32_t slot, uint64_t first,
                              uint64_t count, void *out, sl_error *err) {
    const int32_t *pages = sl_kv_pages_of(sl_forward_kv_pages(forward), slot, NULL);
    return sl_pages_read_blocks(forward, pages, first, count, out, err);
}

sl_status sl_slot_write_blocks(sl_forward *forward, uint32_t slot, uint64_t first, uint64_t count,
                               const void *from, sl_error *err) {
    sl_kv_pages *pages = sl_forward_kv_pages(forward);
    char *host = (char *)(uintptr_t)from; /* only read */
    SL_TRY(sl_kv_pages_write(pages, slot, first * SL_KV_LANES, (first + count) * SL_KV_LANES, err));
    const int32_t *table = sl_kv_pages_of(pages, slot, NULL);
    return copy_range(
        forward, (block_range){.pages = table, .first = first, .count = count, .host = host}, err);
}

/* ---- the end of a block ---- */

/* Elements of `width` bytes: keys [D, 16], values [16, D]. */
static void clear_plain(const sl_block_shape *shape, char *at, uint32_t used) {
    const uint64_t dim = (uint64_t)shape->dim, width = shape->bytes / (dim * SL_KV_LANES);
    if (!shape->keys) {
        memset(at + used * dim * width, 0, (SL_KV_LANES - used) * dim * width);
        return;
    }
    for (uint64_t d = 0; d < dim; d++)
        memset(at + (d * SL_KV_LANES + used) * width, 0, (SL_KV_LANES - used) * width);
}

static void clear_codes(const sl_block_shape *shape, char *at, uint32_t used) {
    int16_t *codes = (int16_t *)(void *)(at + SL_KV_SCALES_BYTES);
    memset(at + used * sizeof(float), 0, (SL_KV_LANES - used) * sizeof(float));
    for (int64_t position = used; position < SL_KV_LANES; position++) {
        if (shape->keys)
            for (int64_t pair = 0; pair < sl_kv_pairs(shape->dim); pair++)
                memset(codes + sl_k16_at(position) + pair * SL_KV_LANES * 2, 0, 2 * sizeof *codes);
        else
            for (int64_t d = 0; d < shape->dim; d++)
                codes[sl_v16_at(position, shape->dim) + d * 2] = 0;
    }
}

void sl_block_clear(const sl_forward *forward, void *block, uint32_t used) {
    const bool doubles = !device_of(forward);
    char *at = block;
    sl_forward_state state;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        if (state.kind != SL_STATE_KV) continue;
        const sl_block_shape shape = sl_block_shape_of(&state);
        const bool codes = !doubles && sl_dtype_infos[state.type->dtype].kind == SL_KIND_CACHE;
        for (uint64_t h = 0; h < shape.heads; h++, at += shape.bytes) {
            if (codes)
                clear_codes(&shape, at, used);
            else
                clear_plain(&shape, at, used);
        }
    }
}

/* ---- recurrent state ---- */

sl_status sl_slot_read_recurrent(const sl_forward *forward, uint32_t slot, void *out,
                                 sl_error *err) {
    char *to = out;
    sl_forward_state state;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        if (state.kind != SL_STATE_RECURRENT) continue;
        SL_TRY(copy_out(forward, to, state.data + slot * state.bytes_each, state.bytes_each, err));
        to += state.bytes_each;
    }
    return SL_OK;
}

sl_status sl_slot_write_recurrent(sl_forward *forward, uint32_t slot, const void *from,
                                  sl_error *err) {
    const char *at = from;
    sl_forward_state state;
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        if (state.kind != SL_STATE_RECURRENT) continue;
        SL_TRY(copy_in(forward, state.data + slot * state.bytes_each, at, state.bytes_each, err));
        at += state.bytes_each;
    }
    return SL_OK;
}

sl_status sl_checkpoint_read(const sl_forward *forward, const void *checkpoint, void *out,
                             sl_error *err) {
    return copy_out(forward, out, checkpoint, sl_forward_recurrent_bytes(forward), err);
}

sl_status sl_checkpoint_write(sl_forward *forward, void *checkpoint, const void *from,
                              sl_error *err) {
    return copy_in(forward, checkpoint, from, sl_forward_recurrent_bytes(forward), err);
}

/* ---- from slot to slot ---- */

sl_status sl_slot_share(sl_forward *forward, uint32_t from, uint32_t to, uint64_t positions,
                        sl_error *err) {
    sl_forward_state state;
    sl_kv_pages_share(sl_forward_kv_pages(forward), from, to, positions);
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++)
        if (state.kind == SL_STATE_RECURRENT && positions)
            SL_TRY(sl_state_copy(forward, state.data + to * state.bytes_each,
                                 state.data + from * state.bytes_each, state.bytes_each, err));
    return SL_OK;
}
