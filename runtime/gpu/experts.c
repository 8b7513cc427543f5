#include "runtime/gpu/experts.h"
#include "base/sizes.h"
#include <string.h>

enum {
    MATRIX_ALIGNMENT = 256,
    IN_FLIGHT = 8,           /* leases that are being copied */
    SPARED_BYTES = 512 << 20 /* of device memory, kept free for states and activations */
};

typedef struct {
    sl_gpu_expert_places places; /* table: unset */
    sl_type types[3];            /* gate, up, down */
    uint64_t bytes[3];
    uint64_t slot_bytes;
} layer_info;

typedef struct {
    int32_t owner; /* layer * experts + expert; -1: free */
    uint64_t last_use;
} slot;

typedef struct {
    sl_expert_lease lease;
    sl_gpu_fence *copied;
    bool busy;
} transfer;

struct sl_gpu_experts {
    sl_gpu *gpu;
    sl_expert_source *source;
    sl_gpu_experts_shape shape;
    sl_arena arena;
    layer_info *layers;
    slot *slots;
    uint32_t slot_count;
    uint64_t slot_bytes;
    int32_t *slot_of;           /* [layers * experts]; -1: not here */
    sl_gpu_block memory, table; /* slots; their addresses by owner */
    uint64_t *row;              /* pinned: one layer's part of the table */
    transfer transfers[IN_FLIGHT];
    uint32_t next_transfer;
    uint64_t clock;
    /* of the request in progress */
    uint32_t layer, wanted_count, missing_count;
    int32_t *wanted, *missing;
    bool first_round;
    uint64_t hits, misses, bytes_copied;
};

static int32_t *slot_of(sl_gpu_experts *x, uint32_t layer, int32_t expert) {
    return &x->slot_of[(uint64_t)layer * x->shape.experts + (uint32_t)expert];
}

static bool has_experts(const sl_gpu_experts *x, uint32_t layer) {
    return x->shape.named[layer / 8] >> layer % 8 & 1;
}

static uint64_t count_all(const sl_gpu_experts *x) {
    uint64_t count = 0;
    for (uint32_t l = 0; l < x->shape.layers; l++) count += has_experts(x, l);
    return count * x->shape.experts;
}

/* ---- types and sizes of experts ---- */

static sl_status learn_layer(sl_gpu_experts *x, uint32_t layer, sl_error *err) {
    const int32_t first = 0;
    const sl_layer_id id = {layer};
    sl_expert_lease lease;
    SL_TRY(x->source->request(x->source, id, &first, 1, err));
    SL_TRY(x->source->take(x->source, id, &lease, err));
    if (lease.expert < 0)
        return sl_fail(err, SL_INVALID, "layer %u: the source returned no expert", layer);
    layer_info *l = &x->layers[layer];
    const sl_cview *views[] = {&lease.gate, &lease.up, &lease.down};
    uint64_t offsets[3], at = 0;
    for (int i = 0; i < 3; i++) {
        l->types[i] = views[i]->type;
        l->bytes[i] = sl_type_bytes(&views[i]->type);
        offsets[i] = at;
        at += sl_round_up(l->bytes[i], MATRIX_ALIGNMENT);
    }
    l->slot_bytes = at;
    l->places.gate.dtype = lease.gate.type.dtype;
    l->places.up.dtype = lease.up.type.dtype;
    l->places.down.dtype = lease.down.type.dtype;
    l->places.gate.offset = offsets[0];
    l->places.up.offset = offsets[1];
    l->places.down.offset = offsets[2];
    x->source->release(x->source, &lease);
    return SL_OK;
}

/* As many slots as the budget has room for, at most one for each expert. */
static sl_status choose_slots(sl_gpu_experts *x, sl_error *err) {
    const uint64_t all = count_all(x);
    uint64_t budget = x->gpu->options.expert_budget_bytes, left = 0, total = 0;
    for (uint32_t l = 0; l < x->shape.layers; l++)
        if (x->layers[l].slot_bytes > x->slot_bytes) x->slot_bytes = x->layers[l].slot_bytes;
    SL_TRY(x->gpu->calls->memory(x->gpu, &left, &total, err));
    if (!budget) budget = left > SPARED_BYTES ? left - SPARED_BYTES : 0;
    const uint64_t fit = budget / x->slot_bytes;
    if (fit == 0) {
        char have[16], want[16];
        return sl_fail(err, SL_NO_MEMORY,
                       "%s of device memory for experts: one takes %s, give at least that as "
                       "--device-budget",
                       sl_size_format(budget, have, sizeof have),
                       sl_size_format(x->slot_bytes, want, sizeof want));
    }
    x->slot_count = (uint32_t)(fit < all ? fit : all);
    return SL_OK;
}

static sl_status allocate(sl_gpu_experts *x, sl_error *err) {
    const uint64_t all = (uint64_t)x->shape.layers * x->shape.experts;
    x->slots = SL_ARENA_NEW_ARRAY(&x->arena, slot, x->slot_count);
    x->slot_of = SL_ARENA_NEW_ARRAY(&x->arena, int32_t, all);
    x->wanted = SL_ARENA_NEW_ARRAY(&x->arena, int32_t, x->shape.experts);
    x->missing = SL_ARENA_NEW_ARRAY(&x->arena, int32_t, x->shape.experts);
    const sl_gpu_calls *calls = x->gpu->calls;
    x->row = sl_resize(&x->gpu->pinned, NULL, 0, x->shape.experts * sizeof *x->row, 64);
    if (!x->slots || !x->slot_of || !x->wanted || !x->missing || !x->row)
        return sl_no_memory(err, "the table of experts", all * sizeof *x->slot_of);
    for (uint32_t i = 0; i < x->slot_count; i++) x->slots[i].owner = -1;
    memset(x->slot_of, 0xff, all * sizeof *x->slot_of);
    for (int i = 0; i < IN_FLIGHT; i++)
        SL_TRY(calls->fence_create(x->gpu, false, &x->transfers[i].copied, err));
    SL_TRY(calls->allocate(x->gpu, x->slot_count * x->slot_bytes, "experts", &x->memory, err));
    SL_TRY(calls->allocate(x->gpu, all * sizeof(uint64_t), "the table of experts", &x->table, err));
    return calls->clear(x->gpu, SL_GPU_COPIES, x->table.address, all * sizeof(uint64_t), err);
}

/* ---- slots ---- */

static sl_gpu_address slot_address(const sl_gpu_experts *x, uint32_t index) {
    return x->memory.address + index * x->slot_bytes;
}

/* A free slot, or the least recently used one; never one that this round uses. */
static uint32_t find_slot(sl_gpu_experts *x) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < x->slot_count; i++) {
        if (x->slots[i].owner < 0) return i;
        if (x->slots[i].last_use < x->slots[oldest].last_use) oldest = i;
    }
    x->slot_of[x->slots[oldest].owner] = -1;
    return oldest;
}

/* The next transfer; no more are in flight than the source can lease. */
static transfer *next_transfer(sl_gpu_experts *x) {
    const uint32_t most = x->source->most_leases;
    return &x->transfers[x->next_transfer++ % (most && most < IN_FLIGHT ? most : IN_FLIGHT)];
}

static sl_status finish(sl_gpu_experts *x, transfer *t, sl_error *err) {
    if (!t->busy) return SL_OK;
    const sl_status status = x->gpu->calls->fence_wait(x->gpu, t->copied, err);
    x->source->release(x->source, &t->lease);
    t->busy = false;
    return status;
}

/* All of them, even if one fails. */
static sl_status finish_all(sl_gpu_experts *x, sl_error *err) {
    sl_status status = SL_OK;
    for (int i = 0; i < IN_FLIGHT; i++) {
        const sl_status one = finish(x, &x->transfers[i], status == SL_OK ? err : NULL);
        if (status == SL_OK) status = one;
    }
    return status;
}

static sl_status copy_matrices(sl_gpu_experts *x, const transfer *t, uint32_t layer,
                               sl_gpu_address to, sl_error *err) {
    const layer_info *l = &x->layers[layer];
    const sl_cview *views[] = {&t->lease.gate, &t->lease.up, &t->lease.down};
    const uint64_t offsets[] = {l->places.gate.offset, l->places.up.offset, l->places.down.offset};
    for (int i = 0; i < 3; i++) {
        if (!sl_type_equal(&views[i]->type, &l->types[i]))
            return sl_fail(err, SL_INVALID,
                           "layer %u: expert %d has other types or sizes than the others", layer,
                           t->lease.expert);
        SL_TRY(x->gpu->calls->copy_in(x->gpu, SL_GPU_COPIES, to + offsets[i], views[i]->data,
                                      l->bytes[i], err));
        x->bytes_copied += l->bytes[i];
    }
    return x->gpu->calls->fence_record(x->gpu, SL_GPU_COPIES, t->copied, err);
}

/* Takes the next expert that arrives into a slot; *out_expert -1 when there are no more. */
static sl_status bring_one(sl_gpu_experts *x, uint32_t layer, int32_t *out_expert, sl_error *err) {
    transfer *t = next_transfer(x);
    SL_TRY(finish(x, t, err));
    SL_TRY(x->source->take(x->source, (sl_layer_id){layer}, &t->lease, err));
    *out_expert = t->lease.expert;
    if (t->lease.expert < 0) return SL_OK;
    t->busy = true;
    if ((uint32_t)t->lease.expert >= x->shape.experts)
        return sl_fail(err, SL_INVALID, "layer %u: expert %d of %u", layer, t->lease.expert,
                       x->shape.experts);
    const uint32_t index = find_slot(x);
    slot *s = &x->slots[index];
    s->owner = -1;
    SL_TRY(copy_matrices(x, t, layer, slot_address(x, index), err));
    *slot_of(x, layer, t->lease.expert) = (int32_t)index;
    *s = (slot){(int32_t)(layer * x->shape.experts + (uint32_t)t->lease.expert), ++x->clock};
    return SL_OK;
}

/* Copies x->row to the layer's row of the table; steps submitted from now on see it, and all
 * copies. */
static sl_status publish(sl_gpu_experts *x, uint32_t layer, sl_error *err) {
    const uint64_t bytes = x->shape.experts * sizeof *x->row;
    SL_TRY(x->gpu->calls->copy_in(x->gpu, SL_GPU_COPIES, x->table.address + layer * bytes, x->row,
                                  bytes, err));
    return x->gpu->calls->wait(x->gpu, SL_GPU_COPIES, err);
}

static sl_status bring_all(sl_gpu_experts *x, sl_error *err) {
    for (uint32_t e = 0; e < x->shape.experts; e++) x->wanted[e] = (int32_t)e;
    for (uint32_t layer = 0; layer < x->shape.layers; layer++) {
        if (!has_experts(x, layer)) continue;
        int32_t expert = 0;
        SL_TRY(
            x->source->request(x->source, (sl_layer_id){layer}, x->wanted, x->shape.experts, err));
        while (expert >= 0) SL_TRY(bring_one(x, layer, &expert, err));
        SL_TRY(finish_all(x, err));
        for (uint32_t e = 0; e < x->shape.experts; e++)
            x->row[e] = slot_address(x, (uint32_t)*slot_of(x, layer, (int32_t)e));
        SL_TRY(publish(x, layer, err));
    }
    return SL_OK;
}

/* ---- from creation to destruction ---- */

static sl_status fill_cache(sl_gpu_experts *x, sl_error *err) {
    x->layers = SL_ARENA_NEW_ARRAY(&x->arena, layer_info, x->shape.layers);
    if (!x->layers) return sl_no_memory(err, "the table of experts", x->shape.layers);
    for (uint32_t l = 0; l < x->shape.layers; l++)
        if (has_experts(x, l)) SL_TRY(learn_layer(x, l, err));
    SL_TRY(choose_slots(x, err));
    SL_TRY(allocate(x, err));
    return sl_gpu_experts_all_here(x) ? bring_all(x, err) : SL_OK;
}

/* Whether every layer that the other uses is among its own. */
static bool knows_all(const sl_gpu_experts_shape *own, const sl_gpu_experts_shape *other) {
    for (uint32_t i = 0; i < sizeof own->named; i++)
        if (other->named[i] & ~own->named[i]) return false;
    return true;
}

sl_status sl_gpu_experts_open(sl_gpu *gpu, sl_expert_source *source,
                              const sl_gpu_experts_shape *shape, sl_error *err) {
    sl_gpu_experts *old = gpu->experts;
    if (old && old->source == source && old->shape.experts == shape->experts &&
        knows_all(&old->shape, shape))
        return SL_OK;
    sl_gpu_experts_shape both = *shape; /* programs that use other layers come in turns */
    if (old && old->source == source && old->shape.experts == shape->experts) {
        if (old->shape.layers > both.layers) both.layers = old->shape.layers;
        for (uint32_t i = 0; i < sizeof both.named; i++) both.named[i] |= old->shape.named[i];
    }
    sl_gpu_experts_destroy(old);
    gpu->experts = NULL;
    gpu->experts_opened++;
    sl_arena arena;
    sl_arena_init(&arena, gpu->allocator);
    sl_gpu_experts *x = SL_ARENA_NEW(&arena, sl_gpu_experts);
    if (!x) return sl_no_memory(err, "the cache of experts", sizeof *x);
    x->arena = arena;
    x->gpu = gpu;
    x->source = source;
    x->shape = both;
    const sl_status status = fill_cache(x, err);
    if (status == SL_OK)
        gpu->experts = x;
    else
        sl_gpu_experts_destroy(x);
    return status;
}

void sl_gpu_experts_destroy(sl_gpu_experts *x) {
    if (!x) return;
    (void)finish_all(x, NULL);
    for (int i = 0; i < IN_FLIGHT; i++)
        if (x->transfers[i].copied) x->gpu->calls->fence_destroy(x->gpu, x->transfers[i].copied);
    sl_gpu_release(x->gpu, &x->memory);
    sl_gpu_release(x->gpu, &x->table);
    if (x->row) (void)sl_resize(&x->gpu->pinned, x->row, x->shape.experts * sizeof *x->row, 0, 64);
    sl_arena arena = x->arena; /* the cache itself lives in it */
    sl_arena_deinit(&arena);
}

void sl_gpu_experts_release_all(sl_gpu_experts *x) {
    (void)finish_all(x, NULL);
}

bool sl_gpu_experts_all_here(const sl_gpu_experts *x) {
    return !x || x->slot_count == count_all(x);
}

sl_gpu_expert_places sl_gpu_experts_places(const sl_gpu_experts *x, uint32_t layer) {
    sl_gpu_expert_places places = x->layers[layer].places;
    places.table =
        (const void *const *)(uintptr_t)(x->table.address +
                                         (uint64_t)layer * x->shape.experts * sizeof(uint64_t));
    return places;
}

void sl_gpu_experts_count(const sl_gpu_experts *x, sl_device_stats *out) {
    if (!x) return;
    out->expert_bytes = x->memory.bytes;
    out->expert_slots = x->slot_count;
    out->expert_hits = x->hits;
    out->expert_misses = x->misses;
    out->expert_bytes_copied = x->bytes_copied;
}

/* ---- steps that stream ---- */

sl_status sl_gpu_experts_begin(sl_gpu_experts *x, uint32_t layer, const int32_t *used,
                               uint32_t count, sl_error *err) {
    x->layer = layer;
    x->wanted_count = x->missing_count = 0;
    x->first_round = true;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t at = *slot_of(x, layer, used[i]);
        if (at < 0)
            x->missing[x->missing_count++] = used[i];
        else
            x->slots[at].last_use = ++x->clock;
        x->wanted[x->wanted_count++] = used[i];
    }
    x->hits += x->wanted_count - x->missing_count;
    x->misses += x->missing_count;
    if (!x->missing_count) return SL_OK;
    return x->source->request(x->source, (sl_layer_id){layer}, x->missing, x->missing_count, err);
}

/* Hits are computed in the first round, so their slots cannot be reused in it. */
static uint32_t room_of_round(const sl_gpu_experts *x) {
    const uint32_t hits = x->wanted_count - x->missing_count;
    const uint32_t room = x->first_round ? x->slot_count - hits : x->slot_count;
    return x->missing_count < room ? x->missing_count : room;
}

sl_status sl_gpu_experts_round(sl_gpu_experts *x, uint32_t *out_left, sl_error *err) {
    const uint32_t room = room_of_round(x);
    memset(x->row, 0, x->shape.experts * sizeof *x->row);
    for (uint32_t i = 0; x->first_round && i < x->wanted_count; i++) {
        const int32_t at = *slot_of(x, x->layer, x->wanted[i]);
        if (at >= 0) x->row[x->wanted[i]] = slot_address(x, (uint32_t)at);
    }
    /* The work of the previous round reads the slots that are filled now. */
    if (!x->first_round) SL_TRY(x->gpu->calls->wait(x->gpu, SL_GPU_WORK, err));
    for (uint32_t i = 0; i < room; i++) {
        int32_t expert;
        SL_TRY(bring_one(x, x->layer, &expert, err));
        if (expert < 0)
            return sl_fail(err, SL_INVALID, "layer %u: the source returned %u of %u experts",
                           x->layer, i, x->missing_count);
        x->row[expert] = slot_address(x, (uint32_t)*slot_of(x, x->layer, expert));
    }
    SL_TRY(finish_all(x, err));
    SL_TRY(publish(x, x->layer, err));
    x->wanted_count = x->missing_count -= room;
    x->first_round = false;
    *out_left = x->missing_count;
    return SL_OK;
}
