/* tail.cuh - The last block of a launch, and what it does for steps that come next (tail.h). */
#ifndef SL_RUNTIME_CUDA_KERNELS_TAIL_CUH
#define SL_RUNTIME_CUDA_KERNELS_TAIL_CUH
#include "runtime/cuda/kernels/norm.cuh"
#include "runtime/cuda/kernels/route.cuh"
#include "runtime/cuda/kernels/tail.h"

/* Whether this is the last of `blocks` blocks to come here: then all that they wrote before can be
 * read by it.  All threads of a block call it; the count is 0 again when the last one has. */
DEVICE bool is_last_of(uint32_t *arrived, uint32_t blocks) {
    __shared__ int is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(arrived, 1u) + 1 == blocks;
        if (is_last) *arrived = 0;
        __threadfence();
    }
    __syncthreads();
    return is_last;
}

/* At the end of every block, by all of its threads.  `shared` is room for a table of group. */
DEVICE void finish_tail(const sl_cuda_tail &a, void *shared) {
    if (!is_last_of(a.arrived, gridDim.x * gridDim.y)) return;
    if (a.kind == SL_TAIL_NORM)
        norm_by_block<norm_rms>(a.of.norm);
    else if (a.kind == SL_TAIL_ADD_NORM)
        norm_by_block<norm_add>(a.of.norm);
    else {
        for (int t = warp_id(); t < a.of.route.rows; t += (int)(blockDim.x / WARP))
            route_row(a.of.route, t);
        if (!a.groups) return;
        __syncthreads();
        group_chunk(a.group, 0, (int32_t *)shared);
    }
}
#endif
