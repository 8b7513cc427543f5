/* moe_route_groups.cu - Routing restricted to the best expert groups.  One warp per row. */
#include "runtime/cuda/kernels/moe_route_groups.h"
#include "runtime/cuda/kernels/rank.cuh"

DEVICE float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* ---- groups ---- */

/* The two largest ranks so far; 0 where there is none. */
struct two {
    unsigned first, second;
};
DEVICE two add_rank(two x, unsigned rank) {
    return {max(x.first, rank), max(x.second, min(x.first, rank))};
}

/* Computes scores[g], the sum of the two best experts of group g, for all groups; `team` adjacent
 * lanes work on each. */
DEVICE void score_groups(const sl_route_grouped &a, const unsigned *ranks, unsigned *scores) {
    const int size = a.experts / a.groups, member = lane_id() % a.team;
    for (int base = 0; base < a.groups; base += WARP / a.team) {
        const int group = base + lane_id() / a.team;
        two best = {0, 0};
        for (int i = member; group < a.groups && i < size; i += a.team)
            best = add_rank(best, ranks[group * size + i]);
        for (int d = 1; d < a.team; d *= 2) {
            const unsigned first = __shfl_xor_sync(ALL_LANES, best.first, d);
            const unsigned second = __shfl_xor_sync(ALL_LANES, best.second, d);
            best = add_rank(add_rank(best, first), second);
        }
        const float sum = best.second ? of_rank(best.first) + of_rank(best.second)
                                      : of_rank(best.first);
        if (member == 0 && group < a.groups) scores[group] = best.first ? rank_of(sum) : 0;
    }
    __syncwarp();
}

/* Removes the experts of all but the best groups_kept groups by setting their ranks to 0. */
DEVICE void keep_groups(const sl_route_grouped &a, unsigned *ranks, const unsigned *scores) {
    const int size = a.experts / a.groups;
    for (int group = lane_id() / a.team; group < a.groups; group += WARP / a.team) {
        int better = 0; /* groups that precede it; ties go to the lower index */
        for (int g = 0; g < a.groups; g++)
            better += scores[g] > scores[group] || (scores[g] == scores[group] && g < group);
        if (scores[group] && better < a.groups_kept) continue;
        for (int i = lane_id() % a.team; i < size; i += a.team) ranks[group * size + i] = 0;
    }
    __syncwarp();
}

/* ---- experts ---- */

/* A row's ranks: expert lane + 32 i is held[i]; experts beyond the registers are read from shared
 * memory in each pass. */
enum { HELD = 8 };
struct held_ranks {
    unsigned held[HELD];
};

struct choice {
    unsigned rank;
    int expert;
};
/* The best expert after `before` in the order of descending rank, then ascending expert; the same
 * on all lanes. */
DEVICE choice best_after(const held_ranks &x, const unsigned *ranks, int experts, choice before) {
    choice best = {0, 0};
    const auto see = [&](unsigned rank, int e) {
        const bool after = rank < before.rank || (rank == before.rank && e > before.expert);
        if (after && rank > best.rank) best = {rank, e};
    };
#pragma unroll
    for (int i = 0; i < HELD; i++) see(x.held[i], lane_id() + WARP * i);
    for (int e = lane_id() + WARP * HELD; e < experts; e += WARP) see(ranks[e], e);
    const unsigned most = __reduce_max_sync(ALL_LANES, best.rank);
    const unsigned own = best.rank == most ? (unsigned)best.expert : ~0u;
    return {most, (int)__reduce_min_sync(ALL_LANES, own)};
}

/* Writes the top k; lane j % 32 writes choice j. */
DEVICE void choose(const sl_route_grouped &a, int t, const unsigned *ranks, int32_t *chosen) {
    held_ranks x;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const int e = lane_id() + WARP * i;
        x.held[i] = e < a.experts ? ranks[e] : 0;
    }
    choice next = {~0u, -1};
    for (int j = 0; j < a.k; j++) {
        next = best_after(x, ranks, a.experts, next);
        if (next.rank == 0) /* all remaining experts are NaN or removed */
            next.expert = checked(a.fault, SL_FAULT_ROUTE, t, -1, a.experts);
        if (lane_id() == j % WARP) chosen[j] = next.expert;
    }
}

SL_CUDA_KERNEL(sl_route_groups, sl_route_grouped) {
    SL_DYNAMIC_SHARED(unsigned, all);
    const int t = (int)(blockIdx.x * (blockDim.x / WARP)) + warp_id(), lane = lane_id();
    if (t >= a.rows) return;
    unsigned *ranks = all + warp_id() * (a.experts + a.groups), *scores = ranks + a.experts;
    const float *logits = a.logits + (int64_t)t * a.experts;
    int32_t *chosen = a.chosen + (int64_t)t * a.k;
    float *weights = a.weights + (int64_t)t * a.k;
#pragma unroll 4
    for (int e = lane; e < a.experts; e += WARP) ranks[e] = rank_of(sigmoid(logits[e]) + a.bias[e]);
    __syncwarp();
    if (a.groups_kept < a.groups) {
        score_groups(a, ranks, scores);
        keep_groups(a, ranks, scores);
    }
    choose(a, t, ranks, chosen);
    float sum = 0;
    for (int j = lane; j < a.k; j += WARP) {
        const float share = sigmoid(logits[chosen[j]]);
        weights[j] = share;
        sum += share;
    }
    sum = warp_sum(sum) + 1e-20f;
    for (int j = lane; j < a.k; j += WARP)
        weights[j] = (a.normalise ? weights[j] / sum : weights[j]) * a.scale;
}
