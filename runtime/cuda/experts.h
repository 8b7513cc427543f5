/* experts.h - Experts in device memory: slots under a budget, filled from the host's source.
 *
 * When every expert has a slot of its own, all are copied once and never move.  Otherwise the host
 * learns after each moe_group which experts a layer needs, and fetches those that are missing. */
#ifndef SL_RUNTIME_CUDA_EXPERTS_H
#define SL_RUNTIME_CUDA_EXPERTS_H
#include "runtime/cuda/device.h"

/* What a program says of its experts. */
enum { SL_CUDA_MOST_LAYERS = 4096 };
typedef struct {
    uint32_t layers; /* highest layer that is named, and one */
    uint32_t experts;
    uint8_t named[SL_CUDA_MOST_LAYERS / 8]; /* a bit per layer: others have no experts */
} sl_cuda_experts_shape;

/* Makes the device's cache for source, or finds that there is one: a device serves one source.
 * Looks at an expert of each layer to learn types and sizes. */
SL_CHECKED sl_status sl_cuda_experts_open(sl_cuda_device *device, sl_expert_source *source,
                                          const sl_cuda_experts_shape *shape, sl_error *err);
void sl_cuda_experts_destroy(sl_cuda_experts *x); /* NULL is fine */
/* All have a slot, so that steps need not ask; so it is where there are none (NULL). */
bool sl_cuda_experts_all_here(const sl_cuda_experts *x);
sl_cuda_expert_places sl_cuda_experts_places(const sl_cuda_experts *x, uint32_t layer);
void sl_cuda_experts_count(const sl_cuda_experts *x, sl_device_stats *out);

/* Gives back what a run that failed still holds. */
void sl_cuda_experts_settle(sl_cuda_experts *x);

/* For a layer's step that streams: `used` are the experts it needs, ascending.  Each round brings
 * as many of them as there are slots for, and the caller launches its work after it on the device's
 * stream; *out_left says how many are still to come. */
SL_CHECKED sl_status sl_cuda_experts_begin(sl_cuda_experts *x, uint32_t layer, const int32_t *used,
                                           uint32_t count, sl_error *err);
SL_CHECKED sl_status sl_cuda_experts_round(sl_cuda_experts *x, uint32_t *out_left, sl_error *err);
#endif
