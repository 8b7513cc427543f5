/* policy.h - Which expert in memory is needed last.
 *
 * Each use adds one to an expert's weight, which halves every 64 requests of its layer: that gives
 * how often the expert is used.  The layers are visited in turn, which gives when its next chance
 * is.  Together they give the expected distance to its next use, in requests.  Measured against
 * others in docs/streaming.md. */
#ifndef SL_ENGINE_EXPERTS_POLICY_H
#define SL_ENGINE_EXPERTS_POLICY_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t layers, experts;
    float *weight; /* [layers * experts], in units of the layer */
    float *unit;   /* [layers]: what makes weights of different layers comparable */
} sl_expert_policy;

/* What init needs, aligned like a float. */
size_t sl_expert_policy_bytes(uint32_t layers, uint32_t experts);
void sl_expert_policy_init(sl_expert_policy *policy, uint32_t layers, uint32_t experts,
                           void *memory);
/* A request of a layer begins; then every expert in it is used. */
void sl_expert_policy_begin(sl_expert_policy *policy, uint32_t layer);
void sl_expert_policy_use(sl_expert_policy *policy, uint32_t layer, uint32_t expert);
/* Requests until an expert is expected to be used, seen after a request of layer `now`. */
float sl_expert_policy_distance(const sl_expert_policy *policy, uint32_t key, uint32_t now);
#endif
