/* softmax.cu - Softmax over the last axis. */
#include "runtime/cuda/kernels/softmax.h"
#include "runtime/cuda/kernels/cuda.cuh"

/* One block per row. */
SL_CUDA_KERNEL(sl_softmax, sl_softmax_rows) {
    const float *x = a.x + (int64_t)blockIdx.x * a.count;
    float *out = a.out + (int64_t)blockIdx.x * a.count;
    float most = -INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) most = fmaxf(most, x[i]);
    most = block_max(most);
    for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) sum += expf(x[i] - most);
    const float scale = 1.0f / block_sum(sum);
    for (int64_t i = threadIdx.x; i < a.count; i += blockDim.x) out[i] = expf(x[i] - most) * scale;
}
