#include "engine/session/sample.h"
#include "engine/choose/share.h"

sl_choice sl_sample_choice(const sl_sampling *sampling, uint64_t position) {
    return (sl_choice){.temperature = sampling->temperature,
                       .top_k = sampling->top_k,
                       .top_p = sampling->top_p,
                       .min_p = sampling->min_p,
                       .share = sl_share_of(sampling->seed, position)};
}

sl_token sl_sample(const float *logits, uint32_t vocab, const sl_sampling *sampling,
                   uint64_t position, sl_candidate *candidates) {
    const sl_choice choice = sl_sample_choice(sampling, position);
    return sl_choose(logits, vocab, &choice, candidates);
}
