#include "engine/choose/plan.h"
#include <math.h>
#include <string.h>

static const char *const usual_breakers[] = {"\n", ":", "\"", "*"};

/* ---- making ---- */

static sl_status copy_tokens(sl_choose_plan *plan, sl_token_list *list, sl_error *err) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->tokens[i] < 0 || (uint32_t)list->tokens[i] >= plan->vocabulary.size)
            return sl_fail(err, SL_INVALID, "sampling: token %d, the vocabulary has %u",
                           list->tokens[i], plan->vocabulary.size);
    sl_token *copy = SL_ARENA_NEW_ARRAY(&plan->arena, sl_token, list->count + 1);
    if (!copy) return sl_no_memory(err, "tokens of a sampler", list->count);
    if (list->count) memcpy(copy, list->tokens, list->count * sizeof *copy);
    list->tokens = copy;
    return SL_OK;
}

static sl_status copy_biases(sl_choose_plan *plan, sl_error *err) {
    sl_sampler_options *o = &plan->options;
    if (o->logit_bias_count == 0) return SL_OK;
    if (!o->logit_bias) return sl_fail(err, SL_INVALID, "sampling: logit_bias is NULL");
    sl_logit_bias *copy = SL_ARENA_NEW_ARRAY(&plan->arena, sl_logit_bias, o->logit_bias_count);
    if (!copy) return sl_no_memory(err, "biases of a sampler", o->logit_bias_count);
    for (uint32_t i = 0; i < o->logit_bias_count; i++) {
        const sl_logit_bias *bias = &o->logit_bias[i];
        if (bias->token < 0 || (uint32_t)bias->token >= plan->vocabulary.size)
            return sl_fail(err, SL_INVALID,
                           "sampling: logit_bias of token %d, the vocabulary has %u", bias->token,
                           plan->vocabulary.size);
        if (!(bias->bias < INFINITY))
            return sl_fail(err, SL_INVALID,
                           "sampling: logit_bias of token %d is %g, wanted a number or -inf",
                           bias->token, (double)bias->bias);
        copy[i] = *bias;
    }
    o->logit_bias = copy;
    return SL_OK;
}

static sl_status copy_order(sl_choose_plan *plan, sl_error *err) {
    sl_sampler_options *o = &plan->options;
    if (o->samplers) {
        o->samplers = sl_arena_copy_text(&plan->arena, o->samplers, strlen(o->samplers));
        if (!o->samplers) return sl_no_memory(err, "the order of samplers", 0);
    }
    return sl_sampling_order_parse(o->samplers, &plan->order, err);
}

static sl_status make_breakers(sl_choose_plan *plan, sl_error *err) {
    sl_sampler_options *o = &plan->options;
    const char *const *texts = o->dry_breakers ? o->dry_breakers : usual_breakers;
    const uint32_t usual = sizeof usual_breakers / sizeof usual_breakers[0];
    const uint32_t count = o->dry_breakers ? o->dry_breaker_count : usual;
    o->dry_breakers = NULL; /* the matcher has copies */
    if (o->dry_multiplier <= 0 || count == 0) return SL_OK;
    return sl_text_matcher_create("dry_breaker", texts, count, plan->arena.allocator,
                                  &plan->breakers, err);
}

static sl_status fill(sl_choose_plan *plan, sl_error *err) {
    sl_choose_vocabulary *v = &plan->vocabulary;
    SL_TRY(sl_options_complete(&plan->options, err));
    if (plan->options.logprobs > SL_MOST_LOGPROBS)
        return sl_fail(err, SL_INVALID, "sampling: %u logprobs, wanted at most %d",
                       plan->options.logprobs, SL_MOST_LOGPROBS);
    SL_TRY(copy_order(plan, err));
    SL_TRY(copy_biases(plan, err));
    SL_TRY(copy_tokens(plan, &v->ends, err));
    SL_TRY(copy_tokens(plan, &v->thought_start, err));
    SL_TRY(copy_tokens(plan, &v->thought_end, err));
    SL_TRY(copy_tokens(plan, &v->thought_forced, err));
    SL_TRY(make_breakers(plan, err));
    plan->beyond_plain = sl_options_beyond_plain(&plan->options);
    plan->needs_chain = sl_options_need_chain(&plan->options);
    plan->has_budget =
        plan->options.thinking_budget != -1 && v->thought_start.count && v->thought_forced.count;
    /* Resolved into tokens. */
    plan->options.thinking_start = plan->options.thinking_end = NULL;
    plan->options.thinking_message = NULL;
    return SL_OK;
}

sl_status sl_choose_plan_create(const sl_choose_vocabulary *vocabulary,
                                const sl_sampler_options *options, const sl_allocator *allocator,
                                sl_choose_plan **out, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, sl_allocator_or_default(allocator));
    sl_choose_plan *plan = SL_ARENA_NEW(&arena, sl_choose_plan);
    if (!plan) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a sampler", sizeof *plan);
    }
    plan->arena = arena;
    plan->vocabulary = *vocabulary;
    plan->options = *options;
    atomic_init(&plan->users, 1);
    const sl_status status = fill(plan, err);
    if (status == SL_OK)
        *out = plan;
    else
        sl_choose_plan_release(plan);
    return status;
}

sl_choose_plan *sl_choose_plan_share(sl_choose_plan *plan) {
    (void)atomic_fetch_add(&plan->users, 1);
    return plan;
}

void sl_choose_plan_release(sl_choose_plan *plan) {
    if (!plan || atomic_fetch_sub(&plan->users, 1) != 1) return;
    sl_text_matcher_destroy(plan->breakers);
    sl_arena arena = plan->arena; /* the plan itself lives in it */
    sl_arena_deinit(&arena);
}

/* ---- what is remembered after each token ---- */

sl_token_state sl_choose_plan_begin(const sl_choose_plan *plan) {
    return (sl_token_state){.surprise = 2 * plan->options.mirostat_tau, .thinking = -1};
}

static void match_breakers(const sl_choose_plan *plan, sl_token token, sl_token_state *state) {
    const sl_text_matcher *m = plan->breakers;
    size_t bytes = 0;
    const char *text = plan->vocabulary.text(plan->vocabulary.ctx, token, &bytes);
    state->breaks = false;
    for (size_t i = 0; i < bytes; i++) {
        state->breaker = sl_text_matcher_step(m, state->breaker, text[i]);
        state->breaks |= m->nodes[state->breaker].found != 0;
    }
}

bool sl_choose_plan_breaks(const sl_choose_plan *plan, sl_token token) {
    sl_token_state state = {.breaker = 0};
    if (!plan->breakers) return false;
    match_breakers(plan, token, &state);
    return state.breaks;
}

static uint32_t budget_of(const sl_choose_plan *plan) {
    const int32_t budget = plan->options.thinking_budget;
    return budget > 0 ? (uint32_t)budget : 0;
}

sl_token sl_choose_plan_forced(const sl_choose_plan *plan, const sl_history *history) {
    if (!plan->has_budget) return -1;
    const sl_token_state state = sl_history_state(history);
    if (state.thinking < 0) return -1;
    if (!state.forced && (uint32_t)state.thinking < budget_of(plan)) return -1;
    return plan->vocabulary.thought_forced.tokens[state.forced];
}

/* The token was appended already. */
static void follow_thought(const sl_choose_plan *plan, const sl_history *history, sl_token forced,
                           bool of_answer, sl_token_state *state) {
    const sl_choose_vocabulary *v = &plan->vocabulary;
    const sl_token token = history->tokens[history->length - 1];
    if (state->thinking < 0) {
        if (sl_history_ends_in(history, v->thought_start.tokens, v->thought_start.count))
            state->thinking = 0;
        return;
    }
    if (of_answer && token == forced) {
        if (++state->forced < v->thought_forced.count) return;
        state->thinking = -1;
    } else if (sl_history_ends_in(history, v->thought_end.tokens, v->thought_end.count)) {
        state->thinking = -1;
    } else if (of_answer && state->thinking < INT32_MAX) {
        state->thinking++;
    }
    state->forced = 0;
}

void sl_choose_plan_append(const sl_choose_plan *plan, sl_history *history, sl_token token,
                           bool of_answer) {
    sl_token_state state = sl_history_state(history);
    const sl_token forced = sl_choose_plan_forced(plan, history);
    sl_history_append(history, token, state);
    if (!of_answer) state.surprise = sl_choose_plan_begin(plan).surprise;
    if (plan->breakers) match_breakers(plan, token, &state);
    if (plan->has_budget) follow_thought(plan, history, forced, of_answer, &state);
    history->states[history->length - 1] = state;
}
