/* tail.h - Small steps that end another step's launch: its last block does them.
 *
 * A tail runs when all that the launch itself wrote is in memory, so it may read and overwrite what
 * a launch after it may.  Launches that can have one have an sl_cuda_tail among their arguments. */
#ifndef SL_RUNTIME_CUDA_KERNELS_TAIL_H
#define SL_RUNTIME_CUDA_KERNELS_TAIL_H
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/kernels/route.h"

enum {
    SL_TAIL_NONE,
    SL_TAIL_NORM,     /* sl_norm_rows: one row */
    SL_TAIL_ADD_NORM, /* the same, of x + other */
    SL_TAIL_ROUTE,    /* sl_route_rows */
    SL_TAIL_GROUP     /* sl_group_pairs: one chunk; only after SL_TAIL_ROUTE */
};

typedef struct {
    uint32_t *arrived;    /* blocks that are done; 0 before a launch and after it */
    int32_t kind, groups; /* groups: then `group` too */
    union {
        sl_norm_rows norm;
        sl_route_rows route;
    } of;
    sl_group_pairs group;
} sl_cuda_tail;
#endif
