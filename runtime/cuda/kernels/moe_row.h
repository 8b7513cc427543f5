/* moe_row.h - Arguments of the kernels in moe_row.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_ROW_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_ROW_H
#include "runtime/cuda/kernels/moe.h"
#include "runtime/cuda/kernels/moe_combine.h"
#include "runtime/cuda/kernels/moe_route.h"

enum {
    SL_MOE_ROW_WARPS = 16,
    SL_MOE_ROW_CHOICES = 16,                    /* k at most */
    SL_MOE_ROW_EXPERTS = SL_MOE_ROW_WARPS * 32, /* at most: a thread has one */
    SL_MOE_ROW_UP_SHARES = 4,                   /* warps that a panel is divided among */
    SL_MOE_ROW_DOWN_SHARES = 2
};

/* Shares of panels: so many blocks of a warp, in so many bytes; after all shares of a block
 * comes the row, or the rows of all choices. */
typedef struct {
    int32_t blocks, bytes;
} sl_moe_row_share;

/* One row: order and starts of `places` are unset, a place is the number of a choice.  Blocks are
 * (32 rows of gate and of up, choice); those of one choice more store what was chosen. */
typedef struct {
    sl_route_grouping choice;
    sl_moe_up up;
    sl_moe_row_share share;
} sl_moe_row_up;

/* Blocks are panels of the result, `mix` says what is added to it. */
typedef struct {
    sl_route_rows route;
    sl_moe_down down;
    sl_mixture mix; /* y: unset */
    sl_moe_row_share share;
} sl_moe_row_down;

/* Bytes of shared memory: shares, then rows of a8. */
static inline uint32_t sl_moe_row_bytes(const sl_moe_row_share *share, int32_t rows,
                                        int32_t groups) {
    return (uint32_t)(SL_MOE_ROW_WARPS * share->bytes + rows * groups * (32 + 16));
}
#endif
