/* gemm.h - Products on tensor cores, for plans that have many rows. */
#ifndef SL_RUNTIME_CUDA_OPS_GEMM_H
#define SL_RUNTIME_CUDA_OPS_GEMM_H
#include "runtime/cuda/kernel.h"

/* out[t, r] = x[t] . w[r]: x a8, w of panels.  False where it adds no launch, since types are
 * others.  Up to 8 rows something else is faster. */
bool sl_cuda_gemm_a8(sl_cuda_planner *planner, const sl_cview *x, const sl_cview *w, float *out);

/* Into how many parts columns are divided where there are so many tiles, so that `blocks` of them
 * are on the device at once; each has `least_groups` groups.  Sets the groups of a part. */
int64_t sl_cuda_column_parts(int64_t tiles, int64_t blocks, int64_t groups, int64_t least_groups,
                             int32_t *out_groups);
/* Where those parts put `count` sums each: out itself where there is one. */
float *sl_cuda_parts_room(sl_cuda_planner *planner, int64_t parts, int64_t count, float *out);
/* Adds them up, where they are several. */
void sl_cuda_add_parts(sl_cuda_planner *planner, const float *sums, int64_t parts, int64_t count,
                       float *out);

/* Whether kernels find all of x, whose codes they count in 32 bits. */
bool sl_cuda_gemm_reaches(const sl_type *x);
/* Rows of a8 as halves; made once for all products of a step. */
sl_cuda_rows16 sl_cuda_as_halves(sl_cuda_planner *planner, sl_cuda_rows8 x, int64_t rows);
/* Bytes of shared memory of a tile of halves (kernels/gemm_half.h) with weights of this type. */
uint32_t sl_cuda_halves_shared(sl_dtype dtype, bool few);
#endif
