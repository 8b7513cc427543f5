/* sort.h - Sorting, for plans that need it. */
#ifndef SL_RUNTIME_CUDA_OPS_SORT_H
#define SL_RUNTIME_CUDA_OPS_SORT_H
#include "runtime/cuda/kernels/sort.h"
#include "runtime/cuda/ops/ops.h"

/* Launches that sort by x, count, inner, elements, type and descending; the rest is set here, `now`
 * to the location of the sorted order. */
void sl_cuda_plan_order(sl_gpu_planner *planner, sl_order *order);
#endif
