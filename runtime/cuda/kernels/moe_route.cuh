/* moe_route.cuh - Top-k routing of one row by one warp. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_ROUTE_CUH
#define SL_RUNTIME_CUDA_KERNELS_MOE_ROUTE_CUH
#include "runtime/cuda/kernels/rank.cuh"
#include "runtime/cuda/kernels/moe_route.h"

/* The order-preserving keys (rank.cuh) of a row's logits: expert lane + 32 i is held[i]; experts
 * beyond the registers are read again in each pass. */
enum { HELD = 8 };
struct ranks {
    const float *logits;
    int experts;
    unsigned held[HELD];
};
DEVICE ranks ranks_of(const float *logits, int experts) {
    ranks x = {logits, experts, {0}};
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int e = lane_id() + WARP * i;
        x.held[i] = e < experts ? rank_of(logits[e]) : 0;
    }
    return x;
}

struct choice {
    unsigned rank;
    int expert;
};
/* The best expert after `before` in the order of descending rank, then ascending expert; the same
 * on all lanes. */
DEVICE choice best_after(const ranks &x, choice before) {
    choice best = {0, 0};
    const auto see = [&](unsigned rank, int e) {
        const bool after = rank < before.rank || (rank == before.rank && e > before.expert);
        if (after && rank > best.rank) best = {rank, e};
    };
#pragma unroll
    for (int i = 0; i < HELD; i++) see(x.held[i], lane_id() + WARP * i);
    for (int e = lane_id() + WARP * HELD; e < x.experts; e += WARP) see(rank_of(x.logits[e]), e);
    const unsigned most = __reduce_max_sync(ALL_LANES, best.rank);
    const unsigned own = best.rank == most ? (unsigned)best.expert : ~0u;
    return {most, (int)__reduce_min_sync(ALL_LANES, own)};
}

/* Routes row t by one warp; returns the j-th choice on lane j, for j < 32. */
DEVICE int route_row(const sl_route_rows &a, int t) {
    const int lane = lane_id();
    const float *logits = a.logits + (int64_t)t * a.experts;
    int32_t *chosen = a.chosen + (int64_t)t * a.k;
    float *weights = a.weights + (int64_t)t * a.k;
    const ranks x = ranks_of(logits, a.experts);
    choice next = {~0u, -1};
    float most = 0, sum = 0, own = 0;
    int own_expert = 0;
    for (int j = 0; j < a.k; j++) {
        next = best_after(x, next);
        if (next.rank == 0) { /* all remaining logits are NaN */
            next.expert = checked(a.fault, SL_FAULT_ROUTE, t, -1, a.experts);
            next.rank = 0;
        }
        const float value = of_rank(next.rank);
        if (j == 0) most = value;
        const float share = expf(value - most);
        sum += share;
        if (lane == j % WARP) {
            chosen[j] = next.expert;
            if (j < WARP) {
                own = share;
                own_expert = next.expert;
            } else {
                weights[j] = share;
            }
        }
    }
    if (!a.normalise) {
        sum = 0;
        for (int e = lane; e < a.experts; e += WARP) sum += expf(logits[e] - most);
        sum = warp_sum(sum);
    }
    if (lane < a.k) weights[lane] = own / sum;
    for (int j = lane + WARP; j < a.k; j += WARP) weights[j] /= sum;
    return own_expert;
}

/* Routes one row with at most 32 choices, then sorts its pairs by expert. */
DEVICE void route_and_group(const sl_route_grouping &a) {
    enum { EACH = 8 }; /* experts per lane in one pass */
    const int lane = lane_id(), pairs = a.route.k, experts = a.group.experts;
    const int own = route_row(a.route, 0);
    int before = 0;
    for (int j = 0; j < pairs; j++) {
        const int other = __shfl_sync(ALL_LANES, own, j);
        before += (int)(other < own || (other == own && j < lane));
    }
    if (lane < pairs) a.group.order[before] = lane;
    for (int base = 0; base <= experts; base += EACH * WARP) { /* warp-uniform trip count */
        const int first = base + lane;
        int counts[EACH] = {0};
        for (int j = 0; j < pairs; j++) {
            const int other = __shfl_sync(ALL_LANES, own, j);
#pragma unroll
            for (int i = 0; i < EACH; i++) counts[i] += (int)(other < first + i * WARP);
        }
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (first + i * WARP <= experts) a.group.starts[first + i * WARP] = counts[i];
    }
}
#endif
