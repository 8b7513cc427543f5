#include "engine/choose/sampler.h"
#include "base/clock.h"
#include "base/sizes.h"
#include "engine/choose/logprobs.h"
#include "engine/choose/share.h"
#include "runtime/cpu/choose.h"
#include <math.h>
#include <string.h>

/* ---- making ---- */

static void *room(const sl_sampler *s, size_t count, size_t bytes_each) {
    uint64_t bytes;
    if (!sl_multiply(count, bytes_each, &bytes) || bytes > SIZE_MAX / 2) return NULL;
    return sl_allocate(&s->allocator, bytes, _Alignof(max_align_t));
}

static void give_back(const sl_sampler *s, void *block, size_t bytes) {
    sl_release(&s->allocator, block, bytes, _Alignof(max_align_t));
}

static size_t bytes_of_candidates(const sl_choose_plan *plan) {
    const size_t vocab = plan->vocabulary.size;
    return plan->needs_chain ? vocab * sizeof(sl_kept_token)
                             : sl_choose_candidates((uint32_t)vocab) * sizeof(sl_candidate);
}

static sl_status allocate(sl_sampler *s, sl_error *err) {
    const sl_sampler_options *o = &s->plan->options;
    const size_t vocab = s->plan->vocabulary.size;
    s->candidate_bytes = bytes_of_candidates(s->plan);
    s->logits = room(s, vocab, sizeof *s->logits);
    s->marks = room(s, vocab, sizeof *s->marks);
    s->candidates = room(s, s->candidate_bytes, 1);
    s->logprobs = room(s, (size_t)o->logprobs + 1, sizeof *s->logprobs);
    if (s->logits && s->marks && s->candidates && s->logprobs) return SL_OK;
    return sl_no_memory(err, "a sampler", vocab);
}

/* Takes over the plan. */
static sl_status make(sl_choose_plan *plan, const sl_allocator *allocator, sl_sampler **out,
                      sl_error *err) {
    const sl_allocator *a = sl_allocator_or_default(allocator);
    sl_sampler *s = sl_allocate(a, sizeof *s, _Alignof(max_align_t));
    if (!s) {
        sl_choose_plan_release(plan);
        return sl_no_memory(err, "a sampler", sizeof *s);
    }
    s->allocator = *a;
    s->plan = plan;
    s->chosen = -1;
    s->info = (sl_sampler_info){.struct_size = sizeof s->info, .host_reason = plan->beyond_plain};
    sl_history_init(&s->history, a, sl_choose_plan_begin(plan));
    const sl_status status = allocate(s, err);
    if (status == SL_OK)
        *out = s;
    else
        sl_sampler_free(s);
    return status;
}

sl_status sl_sampler_make(const sl_choose_vocabulary *vocabulary, const sl_sampler_options *options,
                          const sl_allocator *allocator, sl_sampler **out, sl_error *err) {
    sl_choose_plan *plan;
    SL_TRY(sl_choose_plan_create(vocabulary, options, allocator, &plan, err));
    return make(plan, allocator, out, err);
}

static sl_status need_repeats(sl_sampler *s, sl_error *err) {
    if (s->plan->options.dry_multiplier <= 0 || s->repeats_room >= s->history.room) return SL_OK;
    uint32_t *larger = room(s, s->history.room, sizeof *larger);
    if (!larger) return sl_no_memory(err, "a sampler", s->history.room);
    give_back(s, s->repeats, s->repeats_room * sizeof *s->repeats);
    s->repeats = larger;
    s->repeats_room = s->history.room;
    return SL_OK;
}

sl_status sl_sampler_copy(const sl_sampler *sampler, sl_sampler **out, sl_error *err) {
    sl_sampler *copy;
    SL_TRY(make(sl_choose_plan_share(sampler->plan), &sampler->allocator, &copy, err));
    sl_status status = sl_history_copy(&copy->history, &sampler->history, err);
    if (status == SL_OK) status = need_repeats(copy, err);
    copy->chosen = sampler->chosen;
    copy->chosen_at = sampler->chosen_at;
    copy->surprise = sampler->surprise;
    if (status == SL_OK)
        *out = copy;
    else
        sl_sampler_free(copy);
    return status;
}

void sl_sampler_free(sl_sampler *s) {
    if (!s) return;
    const size_t vocab = s->plan->vocabulary.size;
    give_back(s, s->logits, vocab * sizeof *s->logits);
    give_back(s, s->marks, vocab * sizeof *s->marks);
    give_back(s, s->candidates, s->candidate_bytes);
    give_back(s, s->logprobs, ((size_t)s->plan->options.logprobs + 1) * sizeof *s->logprobs);
    give_back(s, s->repeats, s->repeats_room * sizeof *s->repeats);
    sl_history_deinit(&s->history);
    sl_choose_plan_release(s->plan);
    const sl_allocator allocator = s->allocator;
    sl_release(&allocator, s, sizeof *s, _Alignof(max_align_t));
}

uint64_t sl_sampler_bytes(const sl_sampler *s) {
    const uint64_t vocab = s->plan->vocabulary.size;
    const sl_text_matcher *breakers = s->plan->breakers;
    return sizeof *s + vocab * (sizeof *s->logits + sizeof *s->marks) + s->candidate_bytes +
           ((uint64_t)s->plan->options.logprobs + 1) * sizeof *s->logprobs +
           s->repeats_room * sizeof *s->repeats +
           s->history.room * (sizeof(sl_token) + sizeof(sl_token_state)) + sizeof *s->plan +
           (breakers ? sl_text_matcher_bytes(breakers) : 0);
}

uint64_t sl_sampler_most_bytes(uint32_t vocab, uint32_t context_tokens) {
    const uint64_t of_token = sizeof(float) + sizeof(uint32_t) + sizeof(sl_kept_token);
    const uint64_t of_history = sizeof(sl_token) + sizeof(sl_token_state) + sizeof(uint32_t);
    return vocab * of_token + 2 * ((uint64_t)context_tokens + 1024) * of_history;
}

/* ---- the sequence ---- */

static sl_status check_tokens(const sl_sampler *s, const sl_token *tokens, size_t count,
                              sl_error *err) {
    SL_TRY(sl_tokens_check(tokens, count, s->plan->vocabulary.size, err));
    if (count > SIZE_MAX / 2 - s->history.length)
        return sl_fail(err, SL_INVALID, "%zu tokens are too many", count);
    return SL_OK;
}

sl_status sl_sampler_append(sl_sampler *s, const sl_token *tokens, size_t count, bool of_answer,
                            sl_error *err) {
    SL_TRY(check_tokens(s, tokens, count, err));
    SL_TRY(sl_history_reserve(&s->history, s->history.length + count, err));
    SL_TRY(need_repeats(s, err));
    for (size_t i = 0; i < count; i++) {
        const bool is_chosen = of_answer && s->chosen == tokens[i] && s->plan->options.mirostat &&
                               s->chosen_at == s->history.length;
        sl_choose_plan_append(s->plan, &s->history, tokens[i], of_answer);
        if (is_chosen) s->history.states[s->history.length - 1].surprise = s->surprise;
        s->chosen = -1;
    }
    if (!of_answer) s->history.prompt = s->history.length;
    return SL_OK;
}

sl_status sl_sampler_follow(sl_sampler *s, const sl_token *tokens, size_t count, sl_error *err) {
    sl_history *h = &s->history;
    const size_t both = count < h->length ? count : h->length;
    size_t same = both;
    if (both && memcmp(h->tokens, tokens, both * sizeof *tokens) != 0)
        for (same = 0; h->tokens[same] == tokens[same];) same++;
    if (same < h->length) {
        s->chosen = -1;
        sl_history_rewind(h, same);
    }
    SL_TRY(sl_history_reserve(h, count + 1, err)); /* appending the next token cannot fail */
    SL_TRY(need_repeats(s, err));
    return same == count ? SL_OK : sl_sampler_append(s, tokens + same, count - same, false, err);
}

/* ---- choosing ---- */

sl_token sl_sampler_forced(const sl_sampler *s) {
    return sl_choose_plan_forced(s->plan, &s->history);
}

bool sl_sampler_is_plain(const sl_sampler *s, const uint32_t *allowed) {
    return !allowed && !s->plan->beyond_plain && !sl_bias_is_on(s->plan, &s->history) &&
           sl_sampler_forced(s) < 0;
}

sl_sampling sl_sampler_plain(const sl_sampler *s) {
    const sl_sampler_options *o = &s->plan->options;
    return (sl_sampling){.struct_size = sizeof(sl_sampling),
                         .temperature = o->temperature,
                         .top_k = o->top_k,
                         .top_p = o->top_p,
                         .min_p = o->min_p,
                         .seed = o->seed};
}

static double share_of(const sl_sampler *s) {
    return sl_share_of(s->plan->options.seed, s->history.length);
}

static sl_token choose_plainly(const sl_sampler *s, const float *logits) {
    const sl_sampler_options *o = &s->plan->options;
    const sl_choice choice = {.temperature = o->temperature,
                              .top_k = o->top_k,
                              .top_p = o->top_p,
                              .min_p = o->min_p,
                              .share = share_of(s)};
    return sl_choose(logits, s->plan->vocabulary.size, &choice, s->candidates);
}

/* The most likely token, the first of several; -1: none is possible. */
static sl_token most_likely(const float *logits, uint32_t vocab) {
    const float largest = sl_largest_logit(logits, vocab);
    uint32_t at = 0;
    if (largest == -INFINITY) return -1;
    while (logits[at] != largest) at++;
    return (sl_token)at;
}

static sl_chain begin_chain(sl_sampler *s) {
    const sl_history *h = &s->history;
    return (sl_chain){.plan = s->plan,
                      .history = h,
                      .logits = s->logits,
                      .marks = s->marks,
                      .repeats = s->repeats,
                      .items = s->candidates,
                      .share = share_of(s),
                      .aside = sl_share_aside(s->plan->options.seed, h->length),
                      .surprise = sl_history_state(h).surprise};
}

static sl_token choose_by_chain(sl_sampler *s, sl_token best) {
    if (isinf(s->logits[best])) return best;
    sl_chain chain = begin_chain(s);
    sl_chain_run(&chain);
    const sl_token token = sl_chain_draw(&chain);
    s->surprise = chain.surprise;
    return token;
}

/* Changes a copy of the logits by all but the chain. */
static void change_logits(sl_sampler *s, const float *logits, const uint32_t *allowed) {
    const uint32_t vocab = s->plan->vocabulary.size;
    memcpy(s->logits, logits, vocab * sizeof *logits);
    sl_bias_logits(s->plan, &s->history, s->logits);
    if (allowed) sl_mask_logits(allowed, s->logits, vocab);
    if (s->plan->needs_chain) return;
    const sl_penalised p = {.plan = s->plan,
                            .history = &s->history,
                            .logits = s->logits,
                            .marks = s->marks,
                            .repeats = s->repeats};
    sl_penalise_repeated(&p);
    sl_penalise_dry(&p);
}

uint32_t sl_sampler_left(sl_sampler *s, const float *logits, const uint32_t *allowed,
                         const sl_kept_token **out) {
    *out = s->candidates;
    change_logits(s, logits, allowed);
    if (!s->plan->needs_chain || most_likely(s->logits, s->plan->vocabulary.size) < 0) return 0;
    sl_chain chain = begin_chain(s);
    sl_chain_run(&chain);
    return chain.count;
}

static sl_status no_number(const sl_sampler *s, sl_error *err) {
    return sl_fail(err, SL_FORMAT,
                   "no logit after %zu tokens is a number: the weights of the model are damaged",
                   s->history.length);
}

static sl_status pick_changed(sl_sampler *s, const float *logits, const uint32_t *allowed,
                              sl_token *out, sl_error *err) {
    change_logits(s, logits, allowed);
    if (s->plan->needs_chain) {
        const sl_token best = most_likely(s->logits, s->plan->vocabulary.size);
        *out = best < 0 ? -1 : choose_by_chain(s, best);
    } else {
        *out = choose_plainly(s, s->logits);
        /* Sums are rounded, so that a draw may end on a token of no weight behind the last. */
        if (*out >= 0 && !(s->logits[*out] > -INFINITY))
            *out = most_likely(s->logits, s->plan->vocabulary.size);
    }
    if (*out >= 0) return SL_OK;
    if (most_likely(logits, s->plan->vocabulary.size) < 0) return no_number(s, err);
    return sl_fail(err, SL_INVALID,
                   "no token is possible after %zu: mask and biases exclude all of them",
                   s->history.length);
}

sl_status sl_sampler_pick(sl_sampler *s, const float *logits, const uint32_t *allowed,
                          sl_token *out, sl_error *err) {
    const double start = sl_clock_seconds();
    const uint32_t vocab = s->plan->vocabulary.size, wanted = s->plan->options.logprobs;
    const bool is_plain = sl_sampler_is_plain(s, allowed);
    const bool is_forced = sl_sampler_forced(s) >= 0;
    if (is_forced)
        *out = sl_sampler_forced(s);
    else if (is_plain)
        *out = choose_plainly(s, logits);
    else
        SL_TRY(pick_changed(s, logits, allowed, out, err));
    if (*out < 0) return no_number(s, err);
    s->logprob_count = 0;
    if (wanted) {
        SL_TRY(sl_logprobs_find(logits, vocab, *out, wanted - 1, s->logprobs, err));
        s->logprob_count = wanted - 1 < vocab ? wanted : vocab + 1;
    }
    s->chosen = *out;
    s->chosen_at = s->history.length;
    if (is_forced)
        s->info.forced_tokens++;
    else if (is_plain)
        s->info.plain_choices++;
    else {
        s->info.host_choices++;
        s->info.host_seconds += sl_clock_seconds() - start;
    }
    return SL_OK;
}
