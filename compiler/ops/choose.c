/* choose.c - Sampling ops: resume (the last sampled token) and choose (the next one). */
#include "core/choose.h"
#include "compiler/ops/check.h"
#include <math.h>
#include <stdlib.h>

sl_status sl_infer_resume(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "tokens i32[T], slots i32[T], chosen i32[S] -> i32[T]", err);
}

sl_status sl_eval_resume(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t rows = sl_eval_dim(a, 0, 0);
    SL_TRY(sl_eval_bounds(a, "slots", in[1], rows, sl_eval_dim(a, 2, 0), err));
    for (int64_t t = 0; t < rows; t++)
        a->out[0].data[t] = in[0][t] == -1 ? in[2][(int64_t)in[1][t]] : in[0][t];
    return SL_OK;
}

sl_status sl_infer_choose(const sl_infer_args *a, sl_error *err) {
    return sl_match(a, "logits f32[T,V], how f64[T,5], slots i32[T], chosen i32[S] -> i32[T]", err);
}

typedef struct {
    double logit, weight;
    int64_t token;
} candidate;

static int by_logit(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : 1;
}

static double mass_of(const candidate *c, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += c[i].weight;
    return sum;
}

/* The length of the shortest prefix with at least this weight, at least one. */
static int64_t fewest(const candidate *c, int64_t count, double mass) {
    double sum = 0;
    int64_t kept = 0;
    while (kept < count && (kept == 0 || sum < mass)) sum += c[kept++].weight;
    return kept;
}

/* Candidates are in order of descending logit. */
static int64_t filtered(const candidate *c, int64_t count, const double *how) {
    const double k = floor(how[SL_CHOOSE_TOP_K]), p = how[SL_CHOOSE_TOP_P],
                 least = how[SL_CHOOSE_MIN_P];
    if (k > 0 && k < (double)count) count = (int64_t)k;
    if (p > 0 && p < 1) count = fewest(c, count, p * mass_of(c, count));
    while (count > 1 && c[count - 1].weight < least) count--;
    return c[fewest(c, count, how[SL_CHOOSE_SHARE] * mass_of(c, count)) - 1].token;
}

/* Candidates are in order of their ids. */
static int64_t unfiltered(const candidate *c, int64_t count, double share) {
    const double mass = share * mass_of(c, count);
    double sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < count && sum <= mass; i++) {
        sum += c[i].weight;
        if (c[i].weight > 0) last = i;
    }
    return c[last].token;
}

static int64_t choose(const double *logits, int64_t vocab, const double *how, candidate *room) {
    int64_t best = -1, count = 0;
    for (int64_t i = 0; i < vocab; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
    if (best < 0) return -1;
    if (how[SL_CHOOSE_TEMPERATURE] == 0 || isinf(logits[best])) return best;
    for (int64_t i = 0; i < vocab; i++)
        if (!isnan(logits[i]))
            room[count++] = (candidate){
                logits[i], exp((logits[i] - logits[best]) / how[SL_CHOOSE_TEMPERATURE]), i};
    const bool top_k = how[SL_CHOOSE_TOP_K] >= 1 && how[SL_CHOOSE_TOP_K] < (double)vocab;
    const bool top_p = how[SL_CHOOSE_TOP_P] > 0 && how[SL_CHOOSE_TOP_P] < 1;
    if (!top_k && !top_p && how[SL_CHOOSE_MIN_P] <= 0)
        return unfiltered(room, count, how[SL_CHOOSE_SHARE]);
    qsort(room, (size_t)count, sizeof *room, by_logit);
    return filtered(room, count, how);
}

sl_status sl_eval_choose(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    double *room;
    const int64_t rows = sl_eval_dim(a, 0, 0), vocab = sl_eval_dim(a, 0, 1);
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    SL_TRY(sl_eval_bounds(a, "slots", in[2], rows, sl_eval_dim(a, 3, 0), err));
    SL_TRY(sl_eval_scratch(a, 3 * vocab, &room, err));
    for (int64_t t = 0; t < rows; t++) {
        const double *how = in[1] + t * SL_CHOOSE_COLUMNS;
        a->out[0].data[t] = -1;
        if (!(how[SL_CHOOSE_TEMPERATURE] >= 0)) continue;
        const int64_t token = choose(in[0] + t * vocab, vocab, how, (candidate *)(void *)room);
        a->out[0].data[t] = (double)token;
        if (token >= 0) a->in[3].data[(int64_t)in[2][t]] = (double)token;
    }
    return SL_OK;
}
