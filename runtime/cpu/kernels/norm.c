/* norm.c - Norms over the last axis: an item is a row. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

static sl_split split_rows(const sl_type *x, int64_t operations) {
    return (sl_split){rows_of(x), grain_of(last_dim(x) * operations), 0};
}

/* 1 / sqrt(mean(x^2) + eps). */
static float inverse_rms(const float *x, int64_t n, float eps) {
    return 1.0f / sqrtf(vdot(x, x, n) / (float)n + eps);
}

SPLIT(rms_norm) {
    return split_rows(&((const sl_rms_norm_args *)args)->x.type, 1);
}
RUN(rms_norm) {
    const sl_rms_norm_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const float *gain = a->gain.data;
    const vf offset = vsplat(a->attrs.offset);
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)a->x.data + row * n;
        float *out = (float *)a->out.data + row * n;
        const vf inverse = vsplat(inverse_rms(x, n, a->attrs.eps));
        FOR_VECTORS(i, count, n, {
            const vf factor = offset + vload_n(gain + i, count);
            vstore_n(out + i, vload_n(x + i, count) * inverse * factor, count);
        });
    }
    return SL_OK;
}

SPLIT(gated_rms_norm) {
    return split_rows(&((const sl_gated_rms_norm_args *)args)->x.type, 4);
}
RUN(gated_rms_norm) {
    const sl_gated_rms_norm_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const float *gain = a->gain.data;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)a->x.data + row * n;
        const float *z = (const float *)a->z.data + row * n;
        float *out = (float *)a->out.data + row * n;
        const vf inverse = vsplat(inverse_rms(x, n, a->attrs.eps));
        FOR_VECTORS(i, count, n, {
            const vf normed = vload_n(x + i, count) * inverse * vload_n(gain + i, count);
            vstore_n(out + i, normed * vsilu(vload_n(z + i, count)), count);
        });
    }
    return SL_OK;
}

SPLIT(l2_norm) {
    return split_rows(&((const sl_l2_norm_args *)args)->x.type, 1);
}
RUN(l2_norm) {
    const sl_l2_norm_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)a->x.data + row * n;
        float *out = (float *)a->out.data + row * n;
        const vf factor = vsplat(a->attrs.scale / sqrtf(vdot(x, x, n) + a->attrs.eps));
        FOR_VECTORS(i, count, n, vstore_n(out + i, vload_n(x + i, count) * factor, count););
    }
    return SL_OK;
}
