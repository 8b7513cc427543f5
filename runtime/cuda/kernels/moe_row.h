/* moe_row.h - Arguments of the kernels in moe_row.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_ROW_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_ROW_H
#include "runtime/cuda/kernels/moe.h"
#include "runtime/cuda/kernels/moe_combine.h"
#include "runtime/cuda/kernels/moe_route.h"

enum {
    SL_MOE_ROW_WARPS = 16,
    SL_MOE_ROW_CHOICES = 16,                    /* upper bound of k */
    SL_MOE_ROW_EXPERTS = SL_MOE_ROW_WARPS * 32, /* upper bound: one per thread */
    SL_MOE_ROW_UP_SHARES = 4,                   /* warps that divide the K dimension of a panel */
    SL_MOE_ROW_DOWN_SHARES = 2
};

/* A warp's slice of a panel: its number of blocks and its bytes in shared memory.  Behind the
 * slices of all warps comes the a8 row, or the rows of all choices. */
typedef struct {
    int32_t blocks, bytes;
} sl_moe_row_share;

/* One row: order and starts of `places` are unset, a place is the number of a choice.  gridDim is
 * (blocks of 32 rows of gate and up, k + 1); the blocks of the additional choice store the
 * routing. */
typedef struct {
    sl_route_grouping choice;
    sl_moe_up up;
    sl_moe_row_share share;
} sl_moe_row_up;

/* One block per panel of the result; `mix` has the operands of the combine. */
typedef struct {
    sl_route_rows route;
    sl_moe_down down;
    sl_mixture mix; /* y unset */
    sl_moe_row_share share;
} sl_moe_row_down;

/* Bytes of shared memory: the slices of all warps, then the a8 rows. */
static inline uint32_t sl_moe_row_bytes(const sl_moe_row_share *share, int32_t rows,
                                        int32_t groups) {
    return (uint32_t)(SL_MOE_ROW_WARPS * share->bytes + rows * groups * (32 + 16));
}
#endif
