/* gemm.h - Products on tensor cores, for plans that have many rows. */
#ifndef SL_RUNTIME_CUDA_OPS_GEMM_H
#define SL_RUNTIME_CUDA_OPS_GEMM_H
#include "runtime/cuda/kernel.h"

/* out[t, r] = x[t] . w[r], rows of out `out_stride` floats apart: x a8, w of panels.  False where
 * it adds no launch, since types are others.  Up to 8 rows something else is faster. */
bool sl_cuda_gemm_a8(sl_cuda_planner *planner, const sl_cview *x, const sl_cview *w, float *out,
                     int64_t out_stride);

/* Whether kernels find all of x, whose codes they count in 32 bits. */
bool sl_cuda_gemm_reaches(const sl_type *x);
/* Bytes of shared memory of a wide tile with weights of this type (kernels/gemm.h). */
uint32_t sl_cuda_gemm_shared(sl_dtype dtype);
#endif
