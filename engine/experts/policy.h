/* policy.h - Eviction policy: the expert whose next use is expected last.
 *
 * Each use adds one to an expert's weight, which decays with a half-life of 64 requests of its
 * layer: an estimate of how often the expert is used.  The layers run in order, which gives the
 * number of requests until the expert's layer runs again.  Both together give the expected distance
 * to its next use, in requests.  docs/streaming.md compares it with other policies. */
#ifndef SL_ENGINE_EXPERTS_POLICY_H
#define SL_ENGINE_EXPERTS_POLICY_H
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t layers, experts;
    float *weight; /* [layers * experts], in units of the layer */
    float *unit;   /* [layers]: scale that makes weights of different layers comparable */
} sl_expert_policy;

/* Bytes of memory that init needs, aligned like a float. */
size_t sl_expert_policy_bytes(uint32_t layers, uint32_t experts);
void sl_expert_policy_init(sl_expert_policy *policy, uint32_t layers, uint32_t experts,
                           void *memory);
/* Begins a request of a layer; call use for every expert in it. */
void sl_expert_policy_begin(sl_expert_policy *policy, uint32_t layer);
void sl_expert_policy_use(sl_expert_policy *policy, uint32_t layer, uint32_t expert);
/* Expected number of requests until the next use of an expert, after a request of layer `now`. */
float sl_expert_policy_distance(const sl_expert_policy *policy, uint32_t key, uint32_t now);
#endif
