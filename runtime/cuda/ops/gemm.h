/* gemm.h - Matrix products on tensor cores, for plans with many rows. */
#ifndef SL_RUNTIME_CUDA_OPS_GEMM_H
#define SL_RUNTIME_CUDA_OPS_GEMM_H
#include "runtime/cuda/kernel.h"

/* out[t, r] = x[t] . w[r]: x is a8, w has panels.  False, with no launch added, for other types.
 * Up to 8 rows another kernel is faster. */
bool sl_cuda_gemm_a8(sl_gpu_planner *planner, const sl_cview *x, const sl_cview *w, float *out);

/* The number of parts for split-K with `tiles` tiles, so that up to `blocks` blocks run at once;
 * each part has at least `least_groups` groups.  Sets the groups of a part. */
int64_t sl_cuda_column_parts(int64_t tiles, int64_t blocks, int64_t groups, int64_t least_groups,
                             int32_t *out_groups);
/* Memory for the partial sums, `count` per part: out itself if there is one part. */
float *sl_cuda_parts_room(sl_gpu_planner *planner, int64_t parts, int64_t count, float *out);
/* Adds up the parts, if there are several. */
void sl_cuda_add_parts(sl_gpu_planner *planner, const float *sums, int64_t parts, int64_t count,
                       float *out);

/* Whether x fits the kernels, which index its codes with 32 bits. */
bool sl_cuda_gemm_reaches(const sl_type *x);
/* Rows of a8 converted to f16; once for all products of a step. */
sl_cuda_rows16 sl_cuda_as_halves(sl_gpu_planner *planner, sl_cuda_rows8 x, int64_t rows);
/* Shared memory of an f16 tile (kernels/gemm_half.h) with weights of this type, in bytes. */
uint32_t sl_cuda_halves_shared(sl_dtype dtype, bool few);
#endif
