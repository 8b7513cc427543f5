#include "engine/choose/penalties.h"
#include <math.h>

/* ---- repetition, presence and frequency ---- */

typedef struct {
    float repeat, presence, frequency; /* 1, 0 and 0: off */
} strength;

static float penalised(float logit, uint32_t times, const strength *s) {
    if (s->repeat != 1) logit = logit <= 0 ? logit * s->repeat : logit / s->repeat;
    return sl_finite_logit((double)(logit - (float)times * s->frequency - s->presence));
}

/* The tokens [from, length) of the history are those that count. */
static void penalise(const sl_penalised *p, size_t from, const strength *s) {
    const sl_history *h = p->history;
    for (size_t i = from; i < h->length; i++) p->marks[h->tokens[i]]++;
    for (uint32_t i = 0; p->items && i < p->count; i++) {
        sl_kept_token *item = &p->items[i];
        const uint32_t times = p->marks[item->token];
        if (times) item->logit = penalised(item->logit, times, s);
    }
    for (size_t i = from; i < h->length; i++) {
        const sl_token token = h->tokens[i];
        const uint32_t times = p->marks[token];
        if (times && !p->items) p->logits[token] = penalised(p->logits[token], times, s);
        p->marks[token] = 0;
    }
}

/* Where the last n tokens begin; -1: all. */
static size_t window_of(const sl_history *h, int32_t last_n) {
    if (last_n == SL_SAMPLER_NONE) return h->length;
    return last_n > 0 && (size_t)last_n < h->length ? h->length - (size_t)last_n : 0;
}

void sl_penalise_repeated(const sl_penalised *p) {
    const sl_sampler_options *o = &p->plan->options;
    const sl_history *h = p->history;
    const size_t from = window_of(h, o->repeat_last_n);
    const bool of_answer = !o->penalty_prompt && h->prompt > from;
    if (o->repeat_penalty != 1) penalise(p, from, &(strength){.repeat = o->repeat_penalty});
    if (o->presence_penalty != 0 || o->frequency_penalty != 0)
        penalise(p, of_answer ? h->prompt : from,
                 &(strength){1, o->presence_penalty, o->frequency_penalty});
}

/* ---- DRY ---- */

/* Tokens that came after the last breaker, at most `most`. */
static size_t since_breaker(const sl_history *h, size_t most) {
    size_t count = 0;
    while (count < most && !h->states[h->length - 1 - count].breaks) count++;
    return count;
}

/* lengths[i] = how many tokens before the one that is i from the end are also the last tokens: the
 * Z function of the reversed sequence.  lengths[0] is unused. */
static void match_suffixes(const sl_token *last, size_t count, uint32_t *lengths) {
    size_t left = 0, right = 0; /* of the rightmost match so far */
    for (size_t i = 1; i < count; i++) {
        size_t n = 0;
        if (i < right) n = lengths[i - left] < right - i ? lengths[i - left] : right - i;
        while (i + n < count && *(last - n) == *(last - i - n)) n++;
        lengths[i] = (uint32_t)n;
        if (i + n > right) left = i, right = i + n;
    }
}

static float dry_penalty(const sl_sampler_options *o, uint32_t repeated) {
    const double most = 88.7228391; /* log of the largest float */
    double exponent = (double)(repeated - o->dry_allowed_length);
    const double log_base = log((double)o->dry_base);
    if (exponent * log_base > most) exponent = floor(most / log_base);
    return (float)((double)o->dry_multiplier * pow((double)o->dry_base, exponent));
}

static void apply_dry(const sl_penalised *p, const sl_token *last, size_t count) {
    const sl_sampler_options *o = &p->plan->options;
    for (uint32_t i = 0; p->items && i < p->count; i++) {
        const uint32_t repeated = p->marks[p->items[i].token];
        if (repeated && !sl_choose_plan_breaks(p->plan, p->items[i].token))
            p->items[i].logit -= dry_penalty(o, repeated);
    }
    for (size_t i = 0; i < count; i++) {
        const sl_token token = *(last - i);
        const uint32_t repeated = p->marks[token];
        p->marks[token] = 0;
        if (repeated && !p->items && !sl_choose_plan_breaks(p->plan, token))
            p->logits[token] -= dry_penalty(o, repeated);
    }
}

void sl_penalise_dry(const sl_penalised *p) {
    const sl_sampler_options *o = &p->plan->options;
    const sl_history *h = p->history;
    if (o->dry_multiplier <= 0) return;
    const size_t count = h->length - window_of(h, o->dry_penalty_last_n);
    if (count <= o->dry_allowed_length) return;
    const size_t limit = since_breaker(h, count);
    if (limit < o->dry_allowed_length) return;
    const sl_token *last = h->tokens + h->length - 1;
    match_suffixes(last, count, p->repeats);
    for (size_t i = 1; i < count; i++) {
        const uint32_t repeated = p->repeats[i] < limit ? p->repeats[i] : (uint32_t)limit;
        uint32_t *mark = &p->marks[*(last - i + 1)];
        if (repeated >= o->dry_allowed_length && repeated > *mark) *mark = repeated;
    }
    apply_dry(p, last, count);
}

/* ---- biases and impossible tokens ---- */

static bool bars_end(const sl_choose_plan *plan, const sl_history *h) {
    const sl_sampler_options *o = &plan->options;
    return o->ignore_eos || h->length - h->prompt < o->min_tokens;
}

bool sl_bias_is_on(const sl_choose_plan *plan, const sl_history *history) {
    return plan->options.logit_bias_count > 0 || bars_end(plan, history);
}

void sl_bias_logits(const sl_choose_plan *plan, const sl_history *history, float *logits) {
    const sl_sampler_options *o = &plan->options;
    const sl_token_list *ends = &plan->vocabulary.ends;
    for (uint32_t i = 0; i < o->logit_bias_count; i++) {
        float *logit = &logits[o->logit_bias[i].token];
        *logit = sl_finite_logit((double)*logit + (double)o->logit_bias[i].bias);
    }
    for (uint32_t i = 0; bars_end(plan, history) && i < ends->count; i++)
        logits[ends->tokens[i]] = -INFINITY;
}

void sl_mask_logits(const uint32_t *allowed, float *logits, uint32_t vocab) {
    for (uint32_t begin = 0; begin < vocab; begin += 32) {
        const uint32_t word = allowed[begin / 32];
        if (word == UINT32_MAX) continue;
        const uint32_t end = vocab - begin < 32 ? vocab : begin + 32;
        for (uint32_t i = begin; i < end; i++)
            if (!(word >> (i - begin) & 1)) logits[i] = -INFINITY;
    }
}
