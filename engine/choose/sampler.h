/* sampler.h - Chooses the tokens of one sequence; see sluice/sampling.h.
 *
 * There are three ways, from fast to slow.  A plain choice is sl_choose (core/choose.h) of the
 * logits, which a GPU can do too.  Where logits are only changed (penalties, biases, masks), it is
 * sl_choose of the changed logits.  Other samplers, or an order of one's own, are a chain
 * (chain.h). */
#ifndef SL_ENGINE_CHOOSE_SAMPLER_H
#define SL_ENGINE_CHOOSE_SAMPLER_H
#include "engine/choose/chain.h"

struct sl_sampler {
    sl_allocator allocator;
    sl_choose_plan *plan;
    sl_history history;
    float *logits;     /* [vocab]: changed ones */
    void *candidates;  /* of sl_choose, or the items of a chain */
    uint32_t *marks;   /* [vocab]: zeros */
    uint32_t *repeats; /* [repeats_room], with DRY */
    sl_logprob *logprobs;
    size_t repeats_room, candidate_bytes;
    uint32_t logprob_count;
    /* What mirostat remembers if the token that was chosen last is accepted at this length. */
    sl_token chosen;
    size_t chosen_at;
    float surprise;
    sl_sampler_info info;
};

SL_CHECKED sl_status sl_sampler_make(const sl_choose_vocabulary *vocabulary,
                                     const sl_sampler_options *options,
                                     const sl_allocator *allocator, sl_sampler **out,
                                     sl_error *err);
SL_CHECKED sl_status sl_sampler_copy(const sl_sampler *sampler, sl_sampler **out, sl_error *err);
void sl_sampler_free(sl_sampler *sampler);

/* Appends tokens; of_answer: else of a prompt, after which the answer begins. */
SL_CHECKED sl_status sl_sampler_append(sl_sampler *sampler, const sl_token *tokens, size_t count,
                                       bool of_answer, sl_error *err);
/* Makes the sequence these tokens, of which those that it did not have are prompt. */
SL_CHECKED sl_status sl_sampler_follow(sl_sampler *sampler, const sl_token *tokens, size_t count,
                                       sl_error *err);
/* The token that comes next whatever the logits are; -1: none. */
sl_token sl_sampler_forced(const sl_sampler *sampler);
/* The next token is sl_choose of the logits as they are. */
bool sl_sampler_is_plain(const sl_sampler *sampler, const uint32_t *allowed);
sl_sampling sl_sampler_plain(const sl_sampler *sampler);
/* Chooses by the logits; the sequence stays as it is. */
SL_CHECKED sl_status sl_sampler_pick(sl_sampler *sampler, const float *logits,
                                     const uint32_t *allowed, sl_token *out, sl_error *err);
/* The tokens that a chain leaves, with their weights, until the next call; 0: there is no chain. */
uint32_t sl_sampler_left(sl_sampler *sampler, const float *logits, const uint32_t *allowed,
                         const sl_kept_token **out);
uint64_t sl_sampler_bytes(const sl_sampler *sampler);
/* What one takes at most, of a usual chain, with so many tokens. */
uint64_t sl_sampler_most_bytes(uint32_t vocab, uint32_t context_tokens);
#endif
