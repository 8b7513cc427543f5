/* combine.cu - What the experts of a token made, added up. */
#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/pointwise.cuh"
#include "runtime/cuda/kernels/walk.cuh"

DEVICE float scaled_add(float scale, float x, float y) {
    return fmaf(scale, x, y);
}
DEVICE float4 scaled_add(float scale, float4 x, float4 y) {
    return fma4(scale, x, y);
}
DEVICE float sum_of(float x, float y) {
    return x + y;
}
DEVICE float4 sum_of(float4 x, float4 y) {
    return add4(x, y);
}

/* Which parts an op has. */
enum { MIX = 1, SHARED = 2, RESIDUAL = 4 };

/* The weighted sum of k units, `step` apart.  Loads of a whole batch are in flight together. */
template <class UNIT>
DEVICE UNIT mix(const UNIT *y, const float *weights, int k, int64_t step) {
    enum { BATCH = 8 };
    UNIT result = {};
    int first = 0;
    for (; first + BATCH <= k; first += BATCH) {
        UNIT values[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) values[j] = y[(first + j) * step];
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            result = scaled_add(weights[first + j], values[j], result);
    }
    for (; first < k; first++) result = scaled_add(weights[first], y[first * step], result);
    return result;
}

/* UNIT i; its loads depend on nothing but i. */
template <int PARTS, class UNIT> DEVICE void combine_unit(const sl_mixture &a, int64_t i) {
    const int64_t row = quotient(i, a.row_units), inside = i - row * a.row_units;
    UNIT result = {}, shared = {}, residual = {};
    float gate = 0;
    if (PARTS & RESIDUAL) residual = ((const UNIT *)a.residual)[i];
    if (PARTS & SHARED) {
        shared = ((const UNIT *)a.shared)[i];
        gate = a.gate[row];
    }
    if (PARTS & MIX) {
        const UNIT *y = (const UNIT *)a.y + row * a.k * a.row_units + inside;
        result = mix(y, a.weights + row * a.k, a.k, a.row_units);
    } else {
        result = ((const UNIT *)a.routed)[i];
    }
    if (PARTS & SHARED) result = scaled_add(apply_sigmoid(gate), shared, result);
    if (PARTS & RESIDUAL) result = sum_of(residual, result);
    ((UNIT *)a.out)[i] = result;
}

template <int PARTS> DEVICE void combine(const sl_mixture &a) {
    const int64_t i = thread_number();
    if (i >= a.units) return;
    if (a.vectors)
        combine_unit<PARTS, float4>(a, i);
    else
        combine_unit<PARTS, float>(a, i);
}

SL_CUDA_KERNEL(sl_moe_combine, sl_mixture) {
    combine<MIX>(a);
}
SL_CUDA_KERNEL(sl_shared_combine, sl_mixture) {
    combine<SHARED>(a);
}
SL_CUDA_KERNEL(sl_moe_join, sl_mixture) {
    combine<MIX | SHARED | RESIDUAL>(a);
}
