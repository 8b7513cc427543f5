/* experts.h - The cache of experts in device memory: slots under a budget, filled from the host's
 * expert source.
 *
 * If there is a slot for every expert, all are copied once and stay.  Otherwise the host reads
 * after each moe_group which experts a layer needs, and fetches those that are missing. */
#ifndef SL_RUNTIME_GPU_EXPERTS_H
#define SL_RUNTIME_GPU_EXPERTS_H
#include "runtime/gpu/gpu.h"

/* The address of each expert's slot, and where the three matrices lie in a slot.
 * table[layer * experts + expert] is 0 while an expert is not on the device. */
typedef struct {
    const void *const *table;
    struct {
        sl_dtype dtype;
        uint64_t offset;
    } gate, up, down; /* of one layer */
} sl_gpu_expert_places;

/* The experts that a program uses. */
enum { SL_GPU_MOST_LAYERS = 4096 };
typedef struct {
    uint32_t layers; /* the highest layer with experts, plus one */
    uint32_t experts;
    uint8_t named[SL_GPU_MOST_LAYERS / 8]; /* a bit per layer with experts */
} sl_gpu_experts_shape;

/* Creates the device's cache for the source unless there is one: a device serves one source.  Reads
 * an expert of each layer to learn types and sizes. */
SL_CHECKED sl_status sl_gpu_experts_open(sl_gpu *gpu, sl_expert_source *source,
                                         const sl_gpu_experts_shape *shape, sl_error *err);
void sl_gpu_experts_destroy(sl_gpu_experts *x); /* NULL is allowed */
/* Whether every expert has a slot, so that steps need not request any; true if there are none
 * (NULL). */
bool sl_gpu_experts_all_here(const sl_gpu_experts *x);
sl_gpu_expert_places sl_gpu_experts_places(const sl_gpu_experts *x, uint32_t layer);
void sl_gpu_experts_count(const sl_gpu_experts *x, sl_device_stats *out);

/* Releases the leases that a failed run still holds. */
void sl_gpu_experts_release_all(sl_gpu_experts *x);

/* For a step that streams: `used` are the experts that it needs, ascending.  Each round brings in
 * as many of them as there are slots for; after it the caller submits the step.  *out_left is how
 * many are still missing. */
SL_CHECKED sl_status sl_gpu_experts_begin(sl_gpu_experts *x, uint32_t layer, const int32_t *used,
                                          uint32_t count, sl_error *err);
SL_CHECKED sl_status sl_gpu_experts_round(sl_gpu_experts *x, uint32_t *out_left, sl_error *err);
#endif
