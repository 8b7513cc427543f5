/* moe_route.cu - Routing: top-k experts per token, and sorting the pairs by expert. */
#include "runtime/cuda/kernels/moe_route.cuh"

/* ---- route ---- */

/* One warp per row. */
SL_CUDA_KERNEL(sl_route, sl_route_rows) {
    const int t = (int)(blockIdx.x * (blockDim.x / WARP)) + warp_id();
    if (t < a.rows) (void)route_row(a, t);
}

SL_CUDA_KERNEL(sl_route_group, sl_route_grouping, WARP) {
    route_and_group(a);
}

/* ---- moe_group: counting sort of the pairs by expert, one block per chunk of pairs ---- */

/* Warps of the block that have pairs. */
DEVICE int warps_of(const sl_group_pairs &a) {
    return min((int)blockDim.x, a.pairs + WARP - 1) / WARP;
}

/* tables[warp][e]: number of the warp's pairs with expert e.  Returns the number of lower lanes of
 * the warp with the same expert; e is -1 for a lane without a pair. */
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

/* Exclusive prefix sum of `value` over the threads of the block; *out_all is the total. */
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

/* Replaces each warp's count for expert e by the index of its first pair, starting with `at`. */
DEVICE void spread(int32_t *tables, int warps, int experts, int e, int at) {
    for (int w = 0; w < warps; w++) {
        const int count = tables[w * experts + e];
        tables[w * experts + e] = at;
        at += count;
    }
}

/* Number of pairs of expert e in earlier chunks, and in all chunks. */
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
    int start = 0; /* index of the first pair of this batch of experts */
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
