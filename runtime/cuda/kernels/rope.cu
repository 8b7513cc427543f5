/* rope.cu - Tables of RoPE angles, and RoPE of heads. */
#include "runtime/cuda/kernels/head.cuh"

/* One thread per angle. */
SL_CUDA_KERNEL(sl_rope_table, sl_rope_angles) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)a.rows * a.half) return;
    const int t = (int)(i / a.half), j = (int)(i % a.half);
    const int position = checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], INT32_MAX);
    const double angle = (double)position * sl_rope_frequency(&a.form, j);
    a.cosines[i] = (float)(a.form.magnitude * cos(angle));
    a.sines[i] = (float)(a.form.magnitude * sin(angle));
}

/* One warp per head of a row. */
SL_CUDA_KERNEL(sl_rope, sl_rope_heads) {
    const int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + warp_id();
    const sl_head_change &change = a.change;
    if (i >= (int64_t)a.rows * change.heads) return;
    const float *x = a.x + i * change.width;
    const int64_t angles = i / change.heads * change.columns;
    float *out = a.out + i * change.width;
    change_head(change, x, angles, [=](int i, float value) { out[lane_id() + WARP * i] = value; });
}
