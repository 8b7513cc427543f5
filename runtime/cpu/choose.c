/* Sampling.  The vocabulary is large and few of its tokens matter: the maximum of each block of
 * logits tells which blocks contain likely tokens, and only those tokens become candidates.
 * Nothing is sorted; ranks are found by selection (quickselect). */
#include "runtime/cpu/choose.h"
#include "runtime/cpu/kernels/vmath.h"

enum { BLOCK = 64 };

static uint32_t block_count(uint32_t vocab) {
    return (vocab + BLOCK - 1) / BLOCK;
}
uint32_t sl_choose_candidates(uint32_t vocab) {
    return vocab + block_count(vocab);
}

typedef struct {
    const float *logits;
    uint32_t vocab, blocks;
    float temperature, best;  /* best: the largest logit / temperature */
    sl_candidate *candidates; /* tokens and their weights relative to the best */
    sl_candidate *maxima;     /* [blocks]: the largest logit and the index of each block */
} sampler;

static uint32_t block_end(const sampler *s, uint32_t block) {
    const uint32_t end = (block + 1) * BLOCK;
    return end < s->vocab ? end : s->vocab;
}

/* ---- greedy ---- */

/* argmax, the first on ties; token 0 if all logits are NaN. */
static int32_t greedy(const float *logits, uint32_t vocab) {
    enum { STRETCH = 4096 };
    float best = -INFINITY;
    uint32_t at = 0;
    for (uint32_t i = 0; i < vocab; i += STRETCH) {
        const float most = vlargest(logits + i, vocab - i < STRETCH ? vocab - i : STRETCH);
        if (most > best) best = most, at = i;
    }
    while (at < vocab && logits[at] != best) at++;
    return at < vocab ? (int32_t)at : 0;
}

/* ---- selecting candidates ---- */

/* Weights may be equal (rounded) where logits are not.  For blocks, ties are in any order. */
static bool is_better(const float *logits, sl_candidate x, sl_candidate y) {
    if (x.score != y.score) return x.score > y.score;
    const float a = logits[x.token], b = logits[y.token];
    return a != b ? a > b : x.token < y.token;
}

static void swap(sl_candidate *a, sl_candidate *b) {
    const sl_candidate held = *a;
    *a = *b;
    *b = held;
}

/* Quickselect partition: moves one of c[low, high) to its rank and the better ones before it;
 * returns the rank. */
static uint32_t partition(const float *logits, sl_candidate *c, uint32_t low, uint32_t high) {
    swap(&c[low], &c[low + (high - low) / 2]);
    const sl_candidate pivot = c[low];
    uint32_t split = low;
    for (uint32_t i = low + 1; i < high; i++)
        if (is_better(logits, c[i], pivot)) swap(&c[++split], &c[i]);
    swap(&c[low], &c[split]);
    return split;
}

/* Reorders so that the first `keep` entries are the best ones. */
static void select_best(const float *logits, sl_candidate *c, uint32_t count, uint32_t keep) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t split = partition(logits, c, low, high);
        if (split == keep || split + 1 == keep) return;
        if (split > keep)
            high = split;
        else
            low = split + 1;
    }
}

static double mass_of(const sl_candidate *c, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += (double)c[i].score;
    return sum;
}

/* Reorders so that the best entries with a total weight of at least `mass` come first, the worst of
 * them last; returns how many, at least one. */
static uint32_t select_mass(const float *logits, sl_candidate *c, uint32_t count, double mass) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t split = partition(logits, c, low, high);
        const double better = mass_of(c + low, split - low);
        if (split > low && better >= mass) {
            high = split;
            continue;
        }
        mass -= better + (double)c[split].score;
        if (mass <= 0) return split + 1;
        low = split + 1;
    }
    return high;
}

/* ---- weights of the vocabulary ---- */

static void find_maxima(sampler *s) {
    float most = -INFINITY;
    for (uint32_t b = 0; b < s->blocks; b++) {
        const float largest = vlargest(s->logits + (size_t)b * BLOCK, block_end(s, b) - b * BLOCK);
        s->maxima[b] = (sl_candidate){largest, (int32_t)b};
        most = largest > most ? largest : most;
    }
    s->best = most / s->temperature;
}

/* e^(score - best) of a block's tokens, 0 for NaN; returns their sum. */
static float weigh_block(const sampler *s, uint32_t block, float *weights) {
    const uint32_t start = block * BLOCK, n = block_end(s, block) - start;
    memset(weights, 0, BLOCK * sizeof *weights);
    FOR_VECTORS(i, count, (int64_t)n, {
        const vf score = vload_n(s->logits + start + i, count) / vsplat(s->temperature);
        vstore_n(weights + i, vexp(vmax(score - vsplat(s->best), vsplat(-104.0f))), count);
    });
    return vtotal(weights, BLOCK);
}

/* The sum of all weights; out_sums, unless NULL, gets the sums of the blocks. */
static double weigh_all(const sampler *s, sl_candidate *out_sums) {
    double sum = 0;
    for (uint32_t b = 0; b < s->blocks; b++) {
        float weights[BLOCK];
        const float of_block = weigh_block(s, b, weights);
        if (out_sums) out_sums[b].score = of_block;
        sum += (double)of_block;
    }
    return sum;
}

/* Collects the tokens whose logit is at least `least`, with their weights, as candidates. */
static uint32_t gather(const sampler *s, float least) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->blocks; i++) {
        if (!(s->maxima[i].score >= least)) continue;
        const uint32_t block = (uint32_t)s->maxima[i].token, start = block * BLOCK;
        float weights[BLOCK];
        (void)weigh_block(s, block, weights);
        for (uint32_t t = start; t < block_end(s, block); t++)
            if (s->logits[t] >= least)
                s->candidates[count++] = (sl_candidate){weights[t - start], (int32_t)t};
    }
    return count;
}

/* A lower bound of the logits that have this weight, allowing for rounding of both. */
static float logit_of_weight(const sampler *s, double weight) {
    const double score = (double)s->best + log(weight);
    return (float)((score - 1e-5 * (1 + fabs(score))) * (double)s->temperature);
}

/* ---- filters ---- */

/* The k blocks with the largest maxima contain at least k tokens that are no worse than the
 * smallest of these maxima. */
static uint32_t keep_top_k(const sampler *s, uint32_t k) {
    float least = -INFINITY;
    if (k < s->blocks) {
        select_best(s->logits, s->maxima, s->blocks, k);
        least = s->maxima[0].score;
        for (uint32_t i = 1; i < k; i++)
            least = s->maxima[i].score < least ? s->maxima[i].score : least;
        /* Scores, and so weights, may be equal (rounded) where logits are not. */
        const double weight = exp((double)least / (double)s->temperature - (double)s->best);
        least = weight > 0 ? fminf(least, logit_of_weight(s, weight)) : -INFINITY;
    }
    const uint32_t count = gather(s, least);
    if (count > k) select_best(s->logits, s->candidates, count, k);
    return count < k ? count : k;
}

/* The fewest best tokens with a share of at least p of the total weight. */
static uint32_t keep_top_p(const sampler *s, double p) {
    const double mass = p * weigh_all(s, NULL);
    uint32_t count;
    static const double weights[] = {1e-2, 1e-4, 1e-8, 1e-16};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        count = gather(s, logit_of_weight(s, weights[i]));
        if (mass_of(s->candidates, count) >= mass)
            return select_mass(s->logits, s->candidates, count, mass);
    }
    count = gather(s, -INFINITY);
    return select_mass(s->logits, s->candidates, count, mass);
}

static uint32_t keep_min_p(sl_candidate *c, uint32_t count, float min_p) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (c[i].score >= min_p) c[kept++] = c[i];
    return kept;
}

/* Number of candidates that pass the filters; the best one always does. */
static uint32_t filter(const sampler *s, const sl_choice *chosen) {
    const bool top_k =
        chosen->top_k && chosen->top_k<s->vocab, top_p = chosen->top_p> 0 && chosen->top_p < 1;
    uint32_t count;
    if (top_k) {
        count = keep_top_k(s, chosen->top_k);
        if (top_p)
            count = select_mass(s->logits, s->candidates, count,
                                (double)chosen->top_p * mass_of(s->candidates, count));
    } else if (top_p) {
        count = keep_top_p(s, (double)chosen->top_p);
    } else {
        count = gather(s, logit_of_weight(s, (double)fminf(chosen->min_p, 1)));
    }
    return chosen->min_p > 0 ? keep_min_p(s->candidates, count, fminf(chosen->min_p, 1)) : count;
}

/* ---- inverse-CDF sampling ---- */

/* Samples from all tokens, in order of their ids. */
static int32_t draw_any(const sampler *s, double share) {
    double left = share * weigh_all(s, s->maxima);
    uint32_t block = 0;
    while (block + 1 < s->blocks && left >= (double)s->maxima[block].score)
        left -= (double)s->maxima[block++].score;
    float weights[BLOCK];
    (void)weigh_block(s, block, weights);
    uint32_t likely = block * BLOCK;
    for (uint32_t t = likely; t < block_end(s, block); t++) {
        const float weight = weights[t - block * BLOCK];
        left -= (double)weight;
        if (weight > 0) likely = t;
        if (left < 0) break;
    }
    return (int32_t)likely;
}

int32_t sl_choose(const float *logits, uint32_t vocab, const sl_choice *chosen,
                  sl_candidate *candidates) {
    if (chosen->temperature <= 0) return greedy(logits, vocab);
    sampler s = {.logits = logits,
                 .vocab = vocab,
                 .blocks = block_count(vocab),
                 .temperature = chosen->temperature,
                 .candidates = candidates,
                 .maxima = candidates + vocab};
    find_maxima(&s);
    if (!isfinite(s.best)) return greedy(logits, vocab);
    const bool top_k =
        chosen->top_k && chosen->top_k<vocab, top_p = chosen->top_p> 0 && chosen->top_p < 1;
    if (!top_k && !top_p && chosen->min_p <= 0) return draw_any(&s, chosen->share);
    const uint32_t count = filter(&s, chosen);
    const uint32_t drawn =
        select_mass(logits, candidates, count, chosen->share * mass_of(candidates, count));
    return candidates[drawn - 1].token;
}
