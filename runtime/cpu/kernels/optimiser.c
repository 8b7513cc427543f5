/* optimiser.c - Writing states in place, and the steps of optimisers: an item is an element. */
#include "core/ops.h"
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include <string.h>

static sl_split split_elements(const sl_type *type, int64_t operations) {
    return (sl_split){sl_type_elements(type), grain_of(operations), 0};
}

SPLIT(assign) {
    return split_elements(&((const sl_assign_args *)args)->x.type, 1);
}
RUN(assign) {
    const sl_assign_args *a = args;
    const size_t each = sl_dtype_infos[a->x.type.dtype].bytes;
    const size_t at = (size_t)begin * each;
    memmove((char *)a->x.data + at, (const char *)a->value.data + at, (size_t)(end - begin) * each);
    return SL_OK;
}

SPLIT(sgd_step) {
    return split_elements(&((const sl_sgd_step_args *)args)->x.type, 4);
}
RUN(sgd_step) {
    const sl_sgd_step_args *a = args;
    float *x = (float *)a->x.data + begin, *momentum = (float *)a->momentum.data + begin;
    const float *gradient = (const float *)a->gradient.data + begin;
    const vf rate = vsplat(*(const float *)a->rate.data);
    const vf mu = vsplat(a->attrs.mu), decay = vsplat(a->attrs.decay);
    FOR_VECTORS(i, count, end - begin, {
        const vf old = vload_n(x + i, count);
        const vf g = vload_n(gradient + i, count) + decay * old;
        const vf m = mu * vload_n(momentum + i, count) + g;
        const vf step = a->attrs.nesterov ? g + mu * m : m;
        vstore_n(momentum + i, m, count);
        vstore_n(x + i, old - rate * step, count);
    });
    return SL_OK;
}

SPLIT(adamw_step) {
    return split_elements(&((const sl_adamw_step_args *)args)->x.type, 16);
}
RUN(adamw_step) {
    const sl_adamw_step_args *a = args;
    float *x = (float *)a->x.data + begin, *mean = (float *)a->mean.data + begin;
    float *square = (float *)a->square.data + begin;
    const float *gradient = (const float *)a->gradient.data + begin, *c = a->corrections.data;
    const vf rate = vsplat(*(const float *)a->rate.data), first = vsplat(c[0]);
    const vf second = vsplat(c[1]), eps = vsplat(a->attrs.eps), decay = vsplat(a->attrs.decay);
    const vf beta1 = vsplat(a->attrs.beta1), beta2 = vsplat(a->attrs.beta2);
    const vf rest1 = vsplat((float)(1 - (double)a->attrs.beta1));
    const vf rest2 = vsplat((float)(1 - (double)a->attrs.beta2));
    FOR_VECTORS(i, count, end - begin, {
        const vf old = vload_n(x + i, count), g = vload_n(gradient + i, count);
        const vf m = beta1 * vload_n(mean + i, count) + rest1 * g;
        const vf v = beta2 * vload_n(square + i, count) + rest2 * g * g;
        const vf u = m / first / (vsqrt(v / second) + eps);
        vstore_n(mean + i, m, count);
        vstore_n(square + i, v, count);
        vstore_n(x + i, old - rate * (u + decay * old), count);
    });
    return SL_OK;
}

static float sign_of(float x) {
    return x > 0 ? 1.0f : x < 0 ? -1.0f : x; /* NaN stays */
}

SPLIT(lion_step) {
    return split_elements(&((const sl_lion_step_args *)args)->x.type, 8);
}
RUN(lion_step) {
    const sl_lion_step_args *a = args;
    float *x = a->x.data, *mean = a->mean.data;
    const float *gradient = a->gradient.data, rate = *(const float *)a->rate.data;
    const float beta1 = a->attrs.beta1, beta2 = a->attrs.beta2, decay = a->attrs.decay;
    const float rest1 = (float)(1 - (double)beta1), rest2 = (float)(1 - (double)beta2);
    for (int64_t i = begin; i < end; i++) {
        const float g = gradient[i], m = mean[i], old = x[i];
        mean[i] = beta2 * m + rest2 * g;
        x[i] = old - rate * (sign_of(beta1 * m + rest1 * g) + decay * old);
    }
    return SL_OK;
}
