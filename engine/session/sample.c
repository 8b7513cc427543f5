#include "engine/session/sample.h"

/* A well mixed 64-bit function of its argument (the finaliser of splitmix64). */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

sl_choice sl_sample_choice(const sl_sampling *sampling, uint64_t position) {
    return (sl_choice){.temperature = sampling->temperature,
                       .top_k = sampling->top_k,
                       .top_p = sampling->top_p,
                       .min_p = sampling->min_p,
                       .share = (double)(mix(mix(sampling->seed) ^ position) >> 11) * 0x1p-53};
}

sl_token sl_sample(const float *logits, uint32_t vocab, const sl_sampling *sampling,
                   uint64_t position, sl_candidate *candidates) {
    const sl_choice choice = sl_sample_choice(sampling, position);
    return sl_choose(logits, vocab, &choice, candidates);
}
