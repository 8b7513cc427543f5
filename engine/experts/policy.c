#include "engine/experts/policy.h"

static const float half_life = 64;       /* requests of a layer */
static const float ageing = 0.98922801F; /* 2^(-1/64) */
static const float smallest_unit =
    2.3283e-10F; /* 2^-32: below this a layer's weights are rescaled */

size_t sl_expert_policy_bytes(uint32_t layers, uint32_t experts) {
    return ((size_t)layers * experts + layers) * sizeof(float);
}

void sl_expert_policy_init(sl_expert_policy *policy, uint32_t layers, uint32_t experts,
                           void *memory) {
    *policy = (sl_expert_policy){.layers = layers, .experts = experts, .weight = memory};
    policy->unit = policy->weight + (size_t)layers * experts;
    for (size_t i = 0; i < (size_t)layers * experts; i++) policy->weight[i] = 0;
    for (uint32_t l = 0; l < layers; l++) policy->unit[l] = 1;
}

/* Decays the weights of the whole layer by shrinking its unit. */
void sl_expert_policy_begin(sl_expert_policy *policy, uint32_t layer) {
    policy->unit[layer] *= ageing;
    if (policy->unit[layer] > smallest_unit) return;
    float *weight = policy->weight + (size_t)layer * policy->experts;
    for (uint32_t e = 0; e < policy->experts; e++) weight[e] *= policy->unit[layer];
    policy->unit[layer] = 1;
}

void sl_expert_policy_use(sl_expert_policy *policy, uint32_t layer, uint32_t expert) {
    policy->weight[(size_t)layer * policy->experts + expert] += 1 / policy->unit[layer];
}

/* An expert that is used in a share p of the requests has a weight of p * half_life / ln 2, and its
 * expected distance is 1 / p requests. */
float sl_expert_policy_distance(const sl_expert_policy *policy, uint32_t key, uint32_t now) {
    const uint32_t layer = key / policy->experts;
    const float full = half_life / 0.69314718F, most = 1e30F;
    const float weight = policy->weight[key] * policy->unit[layer];
    const float ahead = (float)(layer > now ? layer - now : layer + policy->layers - now);
    return weight > full / most ? (float)policy->layers * (full / weight) + ahead : most;
}
