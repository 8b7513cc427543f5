/* optimiser.cu - Writing states in place, and the steps of optimisers. */
#include "runtime/cuda/kernels/optimiser.h"
#include "runtime/cuda/kernels/strides.cuh"

template <class T> DEVICE void assign_as(const sl_assignment &a, int64_t i) {
    ((T *)a.x)[i] = ((const T *)a.value)[i];
}

SL_CUDA_KERNEL(sl_assign, sl_assignment) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    if (a.each == 1) assign_as<uint8_t>(a, i);
    if (a.each == 2) assign_as<uint16_t>(a, i);
    if (a.each == 4) assign_as<uint32_t>(a, i);
    if (a.each == 8) assign_as<uint64_t>(a, i);
}

SL_CUDA_KERNEL(sl_sgd_step, sl_optimiser_step) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const float x = a.x[i], g = a.gradient[i] + a.decay * x, m = a.beta1 * a.first[i] + g;
    a.first[i] = m;
    a.x[i] = x - *a.rate * (a.nesterov ? g + a.beta1 * m : m);
}

SL_CUDA_KERNEL(sl_adamw_step, sl_optimiser_step) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const float x = a.x[i], g = a.gradient[i];
    const float m = a.beta1 * a.first[i] + a.rest1 * g;
    const float v = a.beta2 * a.second[i] + a.rest2 * g * g;
    const float u = m / a.corrections[0] / (sqrtf(v / a.corrections[1]) + a.eps);
    a.first[i] = m;
    a.second[i] = v;
    a.x[i] = x - *a.rate * (u + a.decay * x);
}

SL_CUDA_KERNEL(sl_lion_step, sl_optimiser_step) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const float x = a.x[i], g = a.gradient[i], m = a.first[i];
    const float mixed = a.beta1 * m + a.rest1 * g;
    const float u = mixed > 0 ? 1.0f : mixed < 0 ? -1.0f : mixed;
    a.first[i] = a.beta2 * m + a.rest2 * g;
    a.x[i] = x - *a.rate * (u + a.decay * x);
}
