#include "engine/choose/chain.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { BLOCK = 64, MIROSTAT_TOKENS = 100 };
#define LEAST_TEMPERATURE 1e-30 /* divided by it, logits are still numbers */

/* ---- the list of tokens ---- */

/* Lists the tokens whose logit is at least `least` and more than -infinity. */
static void list_tokens(sl_chain *c, float least) {
    const uint32_t vocab = c->plan->vocabulary.size;
    uint32_t count = 0;
    if (!(least > -FLT_MAX)) least = -FLT_MAX;
    for (uint32_t i = 0; i < vocab; i++)
        if (c->logits[i] >= least)
            c->items[count++] = (sl_kept_token){.logit = c->logits[i], .token = (sl_token)i};
    c->count = count;
    c->is_listed = true;
}

static void need_list(sl_chain *c) {
    if (!c->is_listed) list_tokens(c, -INFINITY);
}

float sl_largest_logit(const float *logits, uint32_t count) {
    float most[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    uint32_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            most[lane] = logits[i + lane] > most[lane] ? logits[i + lane] : most[lane];
    for (; i < count; i++) most[0] = logits[i] > most[0] ? logits[i] : most[0];
    for (int lane = 1; lane < 4; lane++) most[0] = most[lane] > most[0] ? most[lane] : most[0];
    return most[0];
}

static float largest_item(const sl_chain *c) {
    float most = -INFINITY;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->items[i].logit > most) most = c->items[i].logit;
    return most;
}

/* Sets the weights of all items; returns their sum. */
static double weigh(sl_chain *c) {
    const float largest = largest_item(c);
    double sum = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        c->items[i].weight = expf(c->items[i].logit - largest);
        sum += (double)c->items[i].weight;
    }
    return sum;
}

static void order_by_logit(sl_chain *c) {
    for (uint32_t i = 0; i < c->count; i++) c->items[i].key = -c->items[i].logit;
}

/* Keeps items whose logit is at least `least`. */
static void keep_from(sl_chain *c, float least) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->items[i].logit >= least) c->items[kept++] = c->items[i];
    c->count = kept;
}

static void keep_best(sl_chain *c) {
    order_by_logit(c);
    sl_candidates_select(c->items, c->count, 1);
    c->count = 1;
}

/* ---- samplers that drop tokens ---- */

/* The k blocks with the largest maxima have at least k tokens that are no worse than the smallest
 * of these maxima. */
static float bound_of_top_k(sl_chain *c, uint32_t k) {
    const uint32_t vocab = c->plan->vocabulary.size, blocks = (vocab + BLOCK - 1) / BLOCK;
    if (k >= blocks) return -INFINITY;
    for (uint32_t b = 0; b < blocks; b++) {
        const uint32_t begin = b * BLOCK, left = vocab - begin;
        const float most = sl_largest_logit(c->logits + begin, left < BLOCK ? left : BLOCK);
        c->items[b] = (sl_kept_token){.key = -most, .token = (sl_token)b};
    }
    sl_candidates_select(c->items, blocks, k);
    float least = INFINITY;
    for (uint32_t i = 0; i < k; i++)
        if (-c->items[i].key < least) least = -c->items[i].key;
    return least;
}

static void keep_top_k(sl_chain *c, uint32_t k) {
    if (k == 0) return;
    if (!c->is_listed) list_tokens(c, bound_of_top_k(c, k));
    if (k >= c->count) return;
    order_by_logit(c);
    sl_candidates_select(c->items, c->count, k);
    c->count = k;
}

static void keep_top_p(sl_chain *c, double p) {
    if (p <= 0 || p >= 1) return;
    need_list(c);
    const double sum = weigh(c);
    order_by_logit(c);
    c->count = sl_candidates_select_mass(c->items, c->count, p * sum);
}

static void keep_min_p(sl_chain *c, double p) {
    if (p <= 0) return;
    if (p > 1) p = 1;
    if (!c->is_listed) { /* a bound, as rounding may go either way */
        const float largest = sl_largest_logit(c->logits, c->plan->vocabulary.size);
        list_tokens(c, (float)((double)largest + log(p) - 1e-3));
    }
    (void)weigh(c);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if ((double)c->items[i].weight >= p) c->items[kept++] = c->items[i];
    c->count = kept;
}

/* Surprise is -log p; entropy is what is to be expected of it. */
static void keep_typical(sl_chain *c, double p) {
    if (p >= 1) return;
    need_list(c);
    const double sum = weigh(c), log_sum = log(sum);
    const double largest = (double)largest_item(c);
    double entropy = 0;
    for (uint32_t i = 0; i < c->count; i++)
        entropy +=
            (double)c->items[i].weight / sum * (log_sum + largest - (double)c->items[i].logit);
    for (uint32_t i = 0; i < c->count; i++)
        c->items[i].key = (float)fabs(log_sum + largest - (double)c->items[i].logit - entropy);
    c->count = sl_candidates_select_mass(c->items, c->count, p * sum);
}

/* Mean and deviation of all logits above -infinity. */
static void keep_top_n_sigma(sl_chain *c, double n) {
    if (n <= 0) return;
    const uint32_t size = c->is_listed ? c->count : c->plan->vocabulary.size;
    const float largest = c->is_listed ? largest_item(c) : sl_largest_logit(c->logits, size);
    double sum = 0, squares = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < size; i++) {
        const float logit = c->is_listed ? c->items[i].logit : c->logits[i];
        if (!(logit > -INFINITY)) continue;
        const double below = (double)logit - (double)largest;
        sum += below;
        squares += below * below;
        count++;
    }
    const double mean = sum / count, variance = squares / count - mean * mean;
    const float least = (float)((double)largest - n * sqrt(variance > 0 ? variance : 0));
    if (c->is_listed)
        keep_from(c, least);
    else
        list_tokens(c, least);
}

/* Drops the likely tokens but the least likely of them. */
static void exclude_top(sl_chain *c, double probability, double threshold) {
    if (probability <= 0 || threshold > 0.5 || c->aside >= probability) return;
    need_list(c);
    const double least = threshold * weigh(c);
    const sl_kept_token *last = NULL; /* of the likely ones */
    uint32_t likely = 0, kept = 0;
    order_by_logit(c);
    for (uint32_t i = 0; i < c->count; i++) {
        const sl_kept_token *item = &c->items[i];
        if ((double)item->weight < least) continue;
        likely++;
        if (!last || item->key > last->key || (item->key == last->key && item->token > last->token))
            last = item;
    }
    if (likely < 2) return;
    const sl_token stays = last->token;
    for (uint32_t i = 0; i < c->count; i++)
        if ((double)c->items[i].weight < least || c->items[i].token == stays)
            c->items[kept++] = c->items[i];
    c->count = kept;
}

/* ---- temperature ---- */

/* A temperature that follows the entropy of the tokens that are left. */
static double dynamic_temperature(sl_chain *c, const sl_sampler_options *o) {
    const double range = (double)o->dynatemp_range, middle = (double)o->temperature;
    const double low = middle > range ? middle - range : 0, high = middle + range;
    const double sum = weigh(c);
    double entropy = 0;
    if (c->count < 2) return middle;
    for (uint32_t i = 0; i < c->count; i++) {
        const double p = (double)c->items[i].weight / sum;
        if (p > 0) entropy -= p * log(p);
    }
    const double share = entropy / log(c->count);
    return low + (high - low) * pow(share, (double)o->dynatemp_exponent);
}

static void heat(sl_chain *c) {
    const sl_sampler_options *o = &c->plan->options;
    need_list(c);
    const double temperature =
        o->dynatemp_range > 0 ? dynamic_temperature(c, o) : (double)o->temperature;
    if (temperature <= 0) {
        keep_best(c);
        return;
    }
    const double divisor = temperature > LEAST_TEMPERATURE ? temperature : LEAST_TEMPERATURE;
    for (uint32_t i = 0; i < c->count; i++)
        c->items[i].logit = sl_finite_logit((double)c->items[i].logit / divisor);
}

/* ---- mirostat ---- */

static int likely_first(const void *a, const void *b) {
    const sl_kept_token *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* Version 1 estimates the exponent of Zipf's law from the likely tokens, and from it how many give
 * the surprise that is wanted. */
static uint32_t estimate_count(sl_chain *c) {
    uint32_t likely = c->count < MIROSTAT_TOKENS ? c->count : MIROSTAT_TOKENS;
    double products = 0, squares = 0;
    order_by_logit(c);
    sl_candidates_select(c->items, c->count, likely);
    qsort(c->items, likely, sizeof *c->items, likely_first);
    for (uint32_t i = 0; i + 1 < likely; i++) {
        const double t = log((i + 2.0) / (i + 1.0));
        products += t * ((double)c->items[i].logit - (double)c->items[i + 1].logit);
        squares += t * t;
    }
    if (!(products > 0)) return c->count;
    const double s = products / squares, epsilon = s - 1;
    const double tokens = c->plan->vocabulary.size;
    /* For an exponent of 1 the fraction has the limit 1 / log(tokens). */
    const double factor = fabs(epsilon) > 1e-9 ? epsilon / (1 - pow(tokens, -epsilon))
                                               : 1 / log(tokens > 1 ? tokens : 2);
    const double count = pow(factor * exp2((double)c->surprise), 1 / s);
    if (!(count > 1)) return 1;
    return count < c->count ? (uint32_t)count : c->count;
}

/* Version 2: the surprise of a token is -log2 of its probability. */
static void keep_surprise(sl_chain *c) {
    const double sum = weigh(c), least = sum * exp2(-(double)c->surprise);
    uint32_t kept = 0, likely = 0;
    for (uint32_t i = 0; i < c->count; i++) likely += (double)c->items[i].weight >= least;
    if (likely == 0) {
        keep_best(c);
        return;
    }
    for (uint32_t i = 0; i < c->count; i++)
        if ((double)c->items[i].weight >= least) c->items[kept++] = c->items[i];
    c->count = kept;
}

static void keep_mirostat(sl_chain *c) {
    if (c->plan->options.mirostat == 2)
        keep_surprise(c);
    else
        keep_top_k(c, estimate_count(c));
}

/* ---- the chain ---- */

static bool drops_tokens(sl_sampling_step step) {
    return step != SL_SAMPLING_PENALTIES && step != SL_SAMPLING_DRY &&
           step != SL_SAMPLING_TEMPERATURE;
}

static void apply(sl_chain *c, sl_sampling_step step) {
    const sl_sampler_options *o = &c->plan->options;
    const sl_penalised p = {.plan = c->plan,
                            .history = c->history,
                            .logits = c->logits,
                            .items = c->is_listed ? c->items : NULL,
                            .count = c->count,
                            .marks = c->marks,
                            .repeats = c->repeats};
    switch (step) {
    case SL_SAMPLING_PENALTIES:
        sl_penalise_repeated(&p);
        break;
    case SL_SAMPLING_DRY:
        sl_penalise_dry(&p);
        break;
    case SL_SAMPLING_TOP_N_SIGMA:
        keep_top_n_sigma(c, (double)o->top_n_sigma);
        break;
    case SL_SAMPLING_TOP_K:
        keep_top_k(c, o->top_k);
        break;
    case SL_SAMPLING_TYPICAL:
        keep_typical(c, (double)o->typical_p);
        break;
    case SL_SAMPLING_TOP_P:
        keep_top_p(c, (double)o->top_p);
        break;
    case SL_SAMPLING_MIN_P:
        keep_min_p(c, (double)o->min_p);
        break;
    case SL_SAMPLING_XTC:
        exclude_top(c, (double)o->xtc_probability, (double)o->xtc_threshold);
        break;
    case SL_SAMPLING_TEMPERATURE:
        heat(c);
        break;
    case SL_SAMPLING_COUNT:
        break;
    }
}

void sl_chain_run(sl_chain *c) {
    const uint32_t mirostat = c->plan->options.mirostat;
    c->is_listed = false;
    for (uint32_t i = 0; i < c->plan->order.count; i++)
        if (!mirostat || !drops_tokens(c->plan->order.steps[i])) apply(c, c->plan->order.steps[i]);
    need_list(c);
    if (mirostat) keep_mirostat(c);
    (void)weigh(c);
}

sl_token sl_chain_draw(sl_chain *c) {
    const sl_sampler_options *o = &c->plan->options;
    const double sum = sl_candidates_mass(c->items, c->count);
    order_by_logit(c);
    const uint32_t drawn = sl_candidates_select_mass(c->items, c->count, c->share * sum);
    const sl_kept_token *item = &c->items[drawn - 1];
    if (o->mirostat && item->weight > 0) {
        const double surprise = -log2((double)item->weight / sum);
        c->surprise -= o->mirostat_eta * (float)(surprise - (double)o->mirostat_tau);
    }
    return item->token;
}
