/* logprobs.h - Log-probabilities of tokens, from raw logits. */
#ifndef SL_ENGINE_CHOOSE_LOGPROBS_H
#define SL_ENGINE_CHOOSE_LOGPROBS_H
#include "base/error.h"
#include "sluice/sampling.h"

/* As sl_logprobs_compute.  token < count. */
SL_CHECKED sl_status sl_logprobs_find(const float *logits, uint32_t count, sl_token token,
                                      uint32_t top, sl_logprob *out, sl_error *err);
#endif
