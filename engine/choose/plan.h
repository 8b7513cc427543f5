/* plan.h - What does not change while a sampler chooses: its options, and what they refer to in the
 * vocabulary.  Copies of a sampler share it. */
#ifndef SL_ENGINE_CHOOSE_PLAN_H
#define SL_ENGINE_CHOOSE_PLAN_H
#include "engine/choose/history.h"
#include "engine/choose/options.h"
#include "engine/choose/text_matcher.h"
#include <stdatomic.h>

enum { SL_MOST_LOGPROBS = 4096 };

typedef struct {
    const sl_token *tokens;
    uint32_t count;
} sl_token_list;

/* What a sampler has to know of a model.  Everything is borrowed until the plan is made, but text
 * and ctx as long as it is used. */
typedef struct {
    uint32_t size;      /* logits */
    sl_token_list ends; /* of generation */
    const char *(*text)(const void *ctx, sl_token token, size_t *out_bytes);
    const void *ctx;
    /* Of a thought: what begins it, what ends it, and what is put in when its budget is used up.
     * Without a beginning or what is put in there is no budget. */
    sl_token_list thought_start, thought_end, thought_forced;
} sl_choose_vocabulary;

typedef struct {
    atomic_uint users;
    sl_arena arena;
    sl_choose_vocabulary vocabulary;
    sl_sampler_options options; /* complete */
    sl_sampling_order order;
    sl_text_matcher *breakers; /* of DRY; NULL: none */
    const char *beyond_plain;
    bool needs_chain, has_budget;
} sl_choose_plan;

SL_CHECKED sl_status sl_choose_plan_create(const sl_choose_vocabulary *vocabulary,
                                           const sl_sampler_options *options,
                                           const sl_allocator *allocator, sl_choose_plan **out,
                                           sl_error *err);
sl_choose_plan *sl_choose_plan_share(sl_choose_plan *plan); /* one more user */
void sl_choose_plan_release(sl_choose_plan *plan);          /* NULL is fine */

sl_token_state sl_choose_plan_begin(const sl_choose_plan *plan);
/* Appends a token to the history, which has room, with the state after it. */
void sl_choose_plan_append(const sl_choose_plan *plan, sl_history *history, sl_token token,
                           bool of_answer);
/* The token that the thinking budget puts next; -1: none. */
sl_token sl_choose_plan_forced(const sl_choose_plan *plan, const sl_history *history);
/* A breaker is inside this token. */
bool sl_choose_plan_breaks(const sl_choose_plan *plan, sl_token token);
#endif
