/* moe_route_groups.h - Arguments of the kernel in moe_route_groups.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_ROUTE_GROUPS_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_ROUTE_GROUPS_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

typedef struct {
    const float *logits; /* [rows, experts] */
    const float *bias;   /* [experts] */
    int32_t *chosen;     /* [rows, k] */
    float *weights;
    int32_t rows, experts, k, normalise;
    int32_t groups, groups_kept;
    int32_t team; /* adjacent lanes that work on one group, a power of two */
    float scale;
    sl_fault *fault;
} sl_route_grouped;

/* Shared memory per row: ranks of the experts and scores of the groups. */
#define SL_ROUTE_ROW_BYTES(EXPERTS, GROUPS) (4 * ((EXPERTS) + (GROUPS)))
#endif
