#include "engine/session/sample.h"
#include <math.h>
#include <stdlib.h>

static sl_token greedy(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (sl_token)best;
}

/* A well mixed 64-bit function of its argument (the finaliser of splitmix64). */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In [0, 1), from seed and position alone: a rewound session draws the same again. */
static double draw(uint64_t seed, uint64_t position) {
    return (double)(mix(mix(seed) ^ position) >> 11) * 0x1p-53;
}

static int better_first(const void *a, const void *b) {
    const sl_candidate *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->token < y->token ? -1 : 1;
}

static void swap(sl_candidate *a, sl_candidate *b) {
    const sl_candidate held = *a;
    *a = *b;
    *b = held;
}

/* Reorders so that the first keep entries are the best ones (quickselect). */
static void select_best(sl_candidate *c, uint32_t count, uint32_t keep) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        swap(&c[low], &c[low + (high - low) / 2]);
        const sl_candidate pivot = c[low];
        uint32_t split = low;
        for (uint32_t i = low + 1; i < high; i++)
            if (better_first(&c[i], &pivot) < 0) swap(&c[++split], &c[i]);
        swap(&c[low], &c[split]);
        if (split == keep || split + 1 == keep) return;
        if (split > keep)
            high = split;
        else
            low = split + 1;
    }
}

/* Turns scores into probabilities that sum to one. */
static void softmax(sl_candidate *c, uint32_t count) {
    float most = c[0].score;
    for (uint32_t i = 1; i < count; i++) most = c[i].score > most ? c[i].score : most;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        c[i].score = expf(c[i].score - most);
        sum += (double)c[i].score;
    }
    for (uint32_t i = 0; i < count; i++) c[i].score = (float)((double)c[i].score / sum);
}

/* The shortest prefix of the sorted candidates that holds probability p. */
static uint32_t nucleus(const sl_candidate *c, uint32_t count, double p) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (double)c[i].score;
        if (sum >= p) return i + 1;
    }
    return count;
}

static uint32_t filter(sl_candidate *c, uint32_t count, const sl_sampling *how) {
    if (how->top_k && how->top_k < count) {
        select_best(c, count, how->top_k);
        count = how->top_k;
    }
    softmax(c, count);
    const bool top_p = how->top_p > 0 && how->top_p < 1;
    if (!top_p && how->min_p <= 0) return count;
    qsort(c, count, sizeof *c, better_first);
    if (top_p) count = nucleus(c, count, (double)how->top_p);
    const float least = c[0].score * how->min_p;
    while (count > 1 && c[count - 1].score < least) count--;
    return count;
}

sl_token sl_sample(const float *logits, uint32_t vocab, const sl_sampling *how, uint64_t position,
                   sl_candidate *candidates) {
    if (how->temperature <= 0) return greedy(logits, vocab);
    for (uint32_t i = 0; i < vocab; i++)
        candidates[i] = (sl_candidate){logits[i] / how->temperature, (sl_token)i};
    const uint32_t count = filter(candidates, vocab, how);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += (double)candidates[i].score;
    double left = draw(how->seed, position) * sum;
    for (uint32_t i = 0; i < count; i++) {
        left -= (double)candidates[i].score;
        if (left < 0) return candidates[i].token;
    }
    return candidates[count - 1].token;
}
