/* sample.h - Sampling a token with the options of the user. */
#ifndef SL_ENGINE_SESSION_SAMPLE_H
#define SL_ENGINE_SESSION_SAMPLE_H
#include "runtime/cpu/choose.h"
#include "sluice/sluice.h"

/* The random number depends only on seed and position: a rewound session samples the same token
 * again. */
sl_choice sl_sample_choice(const sl_sampling *sampling, uint64_t position);
/* candidates has room for sl_choose_candidates(vocab) entries. */
sl_token sl_sample(const float *logits, uint32_t vocab, const sl_sampling *sampling,
                   uint64_t position, sl_candidate *candidates);
#endif
