/* moe_route.c - MoE routing, and grouping rows by expert. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* ---- route: an item is a row ---- */

/* Floats of a row that is padded to whole vectors. */
static int64_t padded(int64_t experts) {
    return parts_of(experts, LANES) * LANES;
}

SPLIT(route) {
    const sl_route_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1);
    return (sl_split){dim(&a->logits.type, 0), grain_of(experts * (a->attrs.k + 8) / 8),
                      (size_t)padded(experts) * sizeof(float)};
}

/* Index of the first element that equals x, -1 if there is none; n is a multiple of LANES. */
static int64_t first_equal(const float *from, int64_t n, float x) {
    for (int64_t i = 0; i < n; i += LANES) {
        const uint32_t equal = vbits(vload(from + i) == vsplat(x));
        if (equal) return i + __builtin_ctz(equal);
    }
    return -1;
}

/* The indices of the k largest elements in descending order; ties go to the lower index.
 * Overwrites them in x with NaN.  n is a multiple of LANES.  Returns false if fewer than k elements
 * are not NaN. */
static bool choose_best(float *x, int64_t n, uint32_t k, int32_t *chosen) {
    for (uint32_t j = 0; j < k; j++) {
        const int64_t best = first_equal(x, n, vlargest(x, n));
        if (best < 0) return false;
        chosen[j] = (int32_t)best;
        x[best] = NAN;
    }
    return true;
}

/* Softmax weights of the chosen experts, over all experts or (normalise) over the chosen ones
 * only. */
static void weigh(const float *logits, float *terms, int64_t experts, const int32_t *chosen,
                  const sl_route_attrs *attrs, float *weights) {
    float sum = 0;
    if (attrs->normalise) {
        const vf most = vsplat(logits[chosen[0]]);
        for (uint32_t j = 0; j < attrs->k; j++) weights[j] = logits[chosen[j]];
        FOR_VECTORS(j, n, attrs->k,
                    vstore_n(weights + j, vexp(vload_n(weights + j, n) - most), n););
        for (uint32_t j = 0; j < attrs->k; j++) sum += weights[j];
    } else {
        memcpy(terms, logits, (size_t)experts * sizeof *terms);
        sum = vsoftmax_terms(terms, experts);
        for (uint32_t j = 0; j < attrs->k; j++) weights[j] = terms[chosen[j]];
    }
    for (uint32_t j = 0; j < attrs->k; j++) weights[j] /= sum;
}

RUN(route) {
    const sl_route_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1), whole = padded(experts);
    const uint32_t k = a->attrs.k;
    float *terms = worker->scratch;
    for (int64_t t = begin; t < end; t++) {
        const float *logits = (const float *)a->logits.data + t * experts;
        int32_t *chosen = (int32_t *)a->experts.data + t * k;
        memcpy(terms, logits, (size_t)experts * sizeof *terms);
        for (int64_t i = experts; i < whole; i++) terms[i] = NAN;
        if (!choose_best(terms, whole, k, chosen))
            return sl_fail(worker->err, SL_INVALID,
                           "route: row %lld has fewer than %u logits that are not NaN",
                           (long long)t, k);
        weigh(logits, terms, experts, chosen, &a->attrs, (float *)a->weights.data + t * k);
    }
    return SL_OK;
}

/* ---- route_groups: an item is a row ---- */

/* Scratch: sigmoids, sigmoids plus bias (both padded to whole vectors), and a score per group. */
SPLIT(route_groups) {
    const sl_route_groups_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1);
    return (sl_split){dim(&a->logits.type, 0), grain_of(experts * (a->attrs.k + 32) / 8),
                      (size_t)(2 * padded(experts) + a->attrs.groups) * sizeof(float)};
}

/* The sum of the two largest elements that are not NaN, or the only one; NaN if there is none. */
static float group_score(const float *x, int64_t n) {
    float first = -INFINITY, second = -INFINITY;
    int64_t numbers = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] != x[i]) continue;
        const float lesser = x[i] > first ? first : x[i];
        numbers++;
        second = lesser > second ? lesser : second;
        first = x[i] > first ? x[i] : first;
    }
    return numbers == 0 ? NAN : numbers == 1 ? first : first + second;
}

/* Sets the experts outside the best groups to NaN. */
static void keep_groups(float *x, int64_t experts, const sl_route_groups_attrs *attrs,
                        float *scores) {
    const int64_t groups = attrs->groups, size = experts / groups;
    if (attrs->groups_kept == attrs->groups) return;
    for (int64_t g = 0; g < groups; g++) scores[g] = group_score(x + g * size, size);
    for (int64_t g = 0; g < groups; g++) {
        int64_t better = 0; /* number of groups that rank before g; ties go to the lower index */
        for (int64_t other = 0; other < groups; other++)
            better += scores[other] > scores[g] || (other < g && scores[other] == scores[g]);
        if (scores[g] == scores[g] && better < attrs->groups_kept) continue;
        for (int64_t i = g * size; i < (g + 1) * size; i++) x[i] = NAN;
    }
}

/* shares = sigmoid(logits), x = shares + bias; x is padded with NaN to whole vectors. */
static void score_experts(const float *logits, const float *bias, int64_t experts, float *shares,
                          float *x) {
    for (int64_t i = experts; i < padded(experts); i++) x[i] = NAN;
    FOR_VECTORS(i, n, experts, {
        const vf share = vsigmoid(vload_n(logits + i, n));
        vstore_n(shares + i, share, n);
        vstore_n(x + i, share + vload_n(bias + i, n), n);
    });
}

RUN(route_groups) {
    const sl_route_groups_args *a = args;
    const int64_t experts = dim(&a->logits.type, 1), whole = padded(experts);
    const uint32_t k = a->attrs.k;
    float *shares = worker->scratch, *x = shares + whole;
    for (int64_t t = begin; t < end; t++) {
        int32_t *chosen = (int32_t *)a->experts.data + t * k;
        float *weights = (float *)a->weights.data + t * k, sum = 1e-20f;
        score_experts((const float *)a->logits.data + t * experts, a->bias.data, experts, shares,
                      x);
        keep_groups(x, experts, &a->attrs, x + whole);
        if (!choose_best(x, whole, k, chosen))
            return sl_fail(worker->err, SL_INVALID,
                           "route_groups: row %lld has fewer than %u logits that are not NaN",
                           (long long)t, k);
        for (uint32_t j = 0; j < k; j++) sum += weights[j] = shares[chosen[j]];
        for (uint32_t j = 0; j < k; j++)
            weights[j] = (a->attrs.normalise ? weights[j] / sum : weights[j]) * a->attrs.scale;
    }
    return SL_OK;
}

/* ---- moe_group: one item ---- */

SPLIT(moe_group) {
    const sl_moe_group_args *a = args;
    return (sl_split){1, 1, (size_t)dim(&a->experts.type, 0) * sizeof(int32_t)};
}

/* Counting sort: starts[e] first holds the count of expert e, then the position of its next pair,
 * finally the start of its run.  `used` gets the experts that have pairs; returns their number. */
static uint32_t group_pairs(const int32_t *chosen, int64_t pairs, int32_t *order, int32_t *starts,
                            int64_t experts, int32_t *used) {
    memset(starts, 0, (size_t)(experts + 1) * sizeof *starts);
    for (int64_t p = 0; p < pairs; p++) starts[chosen[p]]++;
    uint32_t count = 0;
    int32_t next = 0;
    for (int64_t e = 0; e < experts; e++) {
        const int32_t size = starts[e];
        if (size) used[count++] = (int32_t)e;
        starts[e] = next;
        next += size;
    }
    for (int64_t p = 0; p < pairs; p++) order[starts[chosen[p]]++] = (int32_t)p;
    memmove(starts + 1, starts, (size_t)experts * sizeof *starts);
    starts[0] = 0;
    return count;
}

RUN(moe_group) {
    const sl_moe_group_args *a = args;
    const int64_t pairs = sl_type_elements(&a->chosen.type), experts = dim(&a->experts.type, 0);
    const int32_t *chosen = a->chosen.data;
    sl_expert_source *source = a->experts.source;
    if (begin == end) return SL_OK;
    if (!source) return sl_fail(worker->err, SL_INVALID, "moe_group: experts are not bound");
    for (int64_t p = 0; p < pairs; p++)
        SL_TRY(check_index(chosen[p], experts, "moe_group: expert", p, worker->err));
    int32_t *used = worker->scratch;
    const uint32_t count = group_pairs(chosen, pairs, a->order.data, a->starts.data, experts, used);
    return source->request(source, (sl_layer_id){a->attrs.layer}, used, count, worker->err);
}
