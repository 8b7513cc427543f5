/* route.cu - Choosing experts, and grouping what chose the same. */
#include "runtime/cuda/kernels/route.cuh"

/* A warp is a row. */
SL_CUDA_KERNEL(sl_route, sl_route_rows) {
    const int t = (int)(blockIdx.x * (blockDim.x / WARP)) + warp_id();
    if (t < a.rows) route_row(a, t);
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

SL_CUDA_KERNEL(sl_moe_group, sl_group_pairs, 1024) {
    SL_DYNAMIC_SHARED(int32_t, tables);
    group_chunk(a, (int)blockIdx.x, tables);
}
