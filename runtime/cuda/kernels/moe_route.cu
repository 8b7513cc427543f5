/* moe_route.cu - Choosing experts, and sorting pairs by expert. */
#include "runtime/cuda/kernels/moe_route.cuh"

/* ---- route ---- */

/* A warp is a row. */
SL_CUDA_KERNEL(sl_route, sl_route_rows) {
    const int t = (int)(blockIdx.x * (blockDim.x / WARP)) + warp_id();
    if (t < a.rows) (void)route_row(a, t);
}

SL_CUDA_KERNEL(sl_route_group, sl_route_grouping, WARP) {
    route_and_group(a);
}

/* ---- moe_group: a block is a chunk of pairs ---- */

/* Warps of a block that have pairs. */
DEVICE int warps_of(const sl_group_pairs &a) {
    return min((int)blockDim.x, a.pairs + WARP - 1) / WARP;
}

/* tables[warp][e]: how many of the warp's pairs chose e.  Returns how many of its lanes before
 * this one chose what this one did; e is -1 for a lane without a pair. */
DEVICE int count_pairs(int32_t *tables, int warps, int experts, int e) {
    for (int i = (int)threadIdx.x; i < warps * experts; i += (int)blockDim.x) tables[i] = 0;
    __syncthreads();
    const unsigned alike = __match_any_sync(ALL_LANES, e);
    const int before = __popc(alike & ((1u << lane_id()) - 1));
    if (e >= 0 && before == 0) tables[warp_id() * experts + e] = __popc(alike);
    __syncthreads();
    return before;
}

DEVICE int chosen_by(const sl_group_pairs &a, int pair) {
    return pair < a.pairs ? checked(a.fault, SL_FAULT_EXPERT, pair, a.chosen[pair], a.experts) : -1;
}

SL_CUDA_KERNEL(sl_moe_group_count, sl_group_pairs, 1024) {
    SL_DYNAMIC_SHARED(int32_t, tables);
    const int pair = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const int warps = warps_of(a);
    count_pairs(tables, warps, a.experts, chosen_by(a, pair));
    for (int e = (int)threadIdx.x; e < a.experts; e += (int)blockDim.x) {
        int count = 0;
        for (int w = 0; w < warps; w++) count += tables[w * a.experts + e];
        a.counts[(int64_t)blockIdx.x * a.experts + e] = count;
    }
}

/* The sum of `value` over the block's threads before this one, and over all of them. */
DEVICE int block_before(int value, int *out_all) {
    __shared__ int parts[WARP];
    const int warps = (int)(blockDim.x / WARP), lane = lane_id();
    int sum = value;
    for (int d = 1; d < WARP; d *= 2) {
        const int other = __shfl_up_sync(ALL_LANES, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == WARP - 1) parts[warp_id()] = sum;
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < warps; w++) {
        if (w < warp_id()) before += parts[w];
        all += parts[w];
    }
    __syncthreads();
    *out_all = all;
    return before + sum - value;
}

/* Turns the warps' counts of expert e into where each warp's pairs go, from `at` on. */
DEVICE void spread(int32_t *tables, int warps, int experts, int e, int at) {
    for (int w = 0; w < warps; w++) {
        const int count = tables[w * experts + e];
        tables[w * experts + e] = at;
        at += count;
    }
}

/* Pairs of expert e in earlier chunks, and in all. */
DEVICE void count_chunks(const sl_group_pairs &a, int e, int *out_before, int *out_all) {
    int before = 0, all = 0;
    for (int c = 0; c < a.chunks; c++) {
        const int count = a.counts[(int64_t)c * a.experts + e];
        if (c < (int)blockIdx.x) before += count;
        all += count;
    }
    *out_before = before;
    *out_all = all;
}

SL_CUDA_KERNEL(sl_moe_group, sl_group_pairs, 1024) {
    SL_DYNAMIC_SHARED(int32_t, tables);
    const int pair = (int)(blockIdx.x * blockDim.x + threadIdx.x), experts = a.experts;
    const int own = chosen_by(a, pair), warps = warps_of(a);
    const int before = count_pairs(tables, warps, experts, own);
    int start = 0; /* of the experts at hand */
    for (int first = 0; first < experts; first += (int)blockDim.x) {
        const int e = first + (int)threadIdx.x;
        int earlier = 0, count = 0, all;
        if (e < experts && a.chunks > 1)
            count_chunks(a, e, &earlier, &count);
        else if (e < experts)
            for (int w = 0; w < warps; w++) count += tables[w * experts + e];
        const int at = start + block_before(count, &all);
        if (e < experts) spread(tables, warps, experts, e, at + earlier);
        if (e < experts && blockIdx.x == 0) a.starts[e] = at;
        start += all;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) a.starts[experts] = start;
    __syncthreads();
    if (own >= 0) a.order[tables[warp_id() * experts + own] + before] = pair;
}
