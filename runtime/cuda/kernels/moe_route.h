/* moe_route.h - Arguments of the kernels in moe_route.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_ROUTE_H
#define SL_RUNTIME_CUDA_KERNELS_MOE_ROUTE_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

typedef struct {
    const float *logits; /* [rows, experts] */
    int32_t *chosen;     /* [rows, k] */
    float *weights;
    int32_t rows, experts, k, normalise;
    sl_fault *fault;
} sl_route_rows;

/* Pairs are sorted in chunks of one pair per thread of a block. */
typedef struct {
    const int32_t *chosen; /* [pairs] */
    int32_t *order;        /* [pairs] */
    int32_t *starts;       /* [experts + 1] */
    int32_t *counts;       /* [chunks, experts]: pairs per chunk; unused with one chunk */
    int32_t pairs, experts;
    int32_t chunks, reserved;
    sl_fault *fault;
} sl_group_pairs;

/* Routing and grouping of one row by one warp. */
typedef struct {
    sl_route_rows route;
    sl_group_pairs group;
} sl_route_grouping;
#endif
