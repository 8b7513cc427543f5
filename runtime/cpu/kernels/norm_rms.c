/* norm_rms.c - Norms over the last axis: an item is a row. */
#include "runtime/cpu/kernels/norm_rms.h"
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/rows.h"

static sl_split split_rows(const sl_type *x, int64_t operations) {
    return (sl_split){rows_of(x), grain_of(last_dim(x) * operations), 0};
}

SPLIT(rms_norm) {
    return split_rows(&((const sl_rms_norm_args *)args)->x.type, 1);
}
RUN(rms_norm) {
    const sl_rms_norm_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const rms_norm norm = {a->gain.data, n, a->attrs.eps, a->attrs.offset};
    for (int64_t row = begin; row < end; row++)
        rms_norm_row(&norm, (const float *)a->x.data + row * n, (float *)a->out.data + row * n);
    return SL_OK;
}

SPLIT(add_rms_norm) {
    return split_rows(&((const sl_add_rms_norm_args *)args)->a.type, 2);
}
RUN(add_rms_norm) {
    const sl_add_rms_norm_args *a = args;
    const int64_t n = last_dim(&a->a.type);
    const rms_norm norm = {a->gain.data, n, a->attrs.eps, a->attrs.offset};
    for (int64_t at = begin * n; at < end * n; at += n)
        add_rms_norm_row(&norm, (const float *)a->a.data + at, (const float *)a->b.data + at,
                         (float *)a->sum.data + at, (float *)a->out.data + at);
    return SL_OK;
}

SPLIT(rms_norm_mul) {
    return split_rows(&((const sl_rms_norm_mul_args *)args)->x.type, 2);
}
RUN(rms_norm_mul) {
    const sl_rms_norm_mul_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const rms_norm norm = {a->gain.data, n, a->attrs.eps, a->attrs.offset};
    for (int64_t at = begin * n; at < end * n; at += n) {
        const float *x = (const float *)a->x.data + at, *y = (const float *)a->y.data + at;
        float *out = (float *)a->out.data + at;
        const vf inverse = vsplat(inverse_rms(x, n, norm.eps));
        FOR_VECTORS(i, count, n, {
            const vf normed = rms_normed(&norm, x, inverse, i, count);
            vstore_n(out + i, normed * vload_n(y + i, count), count);
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
    const rms_norm norm = {.gain = a->gain.data, .n = n, .eps = a->attrs.eps};
    for (int64_t at = begin * n; at < end * n; at += n)
        gated_rms_norm_row(&norm, (const float *)a->x.data + at, (const float *)a->z.data + at,
                           (float *)a->out.data + at);
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

/* ---- with quantised results ---- */

/* `scratch`: a row of scratch, for ops whose f32 result is not an output. */
static sl_split split_quantised(const sl_type *x, int64_t operations, bool scratch) {
    sl_split split = split_rows(x, operations);
    split.scratch_bytes = scratch ? (size_t)last_dim(x) * sizeof(float) : 0;
    return split;
}

SPLIT(rms_norm_quantise) {
    return split_quantised(&((const sl_rms_norm_quantise_args *)args)->x.type, 2, false);
}
RUN(rms_norm_quantise) {
    const sl_rms_norm_quantise_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const rms_norm norm = {a->gain.data, n, a->attrs.eps, a->attrs.offset};
    const rows8_out codes = rows8_made(&a->codes);
    for (int64_t row = begin; row < end; row++) {
        float *out = (float *)a->out.data + row * n;
        rms_norm_row(&norm, (const float *)a->x.data + row * n, out);
        rows8_row(out, n, &codes, row);
    }
    return SL_OK;
}

SPLIT(add_rms_norm_quantise) {
    return split_quantised(&((const sl_add_rms_norm_quantise_args *)args)->a.type, 3, false);
}
RUN(add_rms_norm_quantise) {
    const sl_add_rms_norm_quantise_args *a = args;
    const int64_t n = last_dim(&a->a.type);
    const rms_norm norm = {a->gain.data, n, a->attrs.eps, a->attrs.offset};
    const rows8_out codes = rows8_made(&a->codes);
    for (int64_t row = begin; row < end; row++) {
        float *out = (float *)a->out.data + row * n;
        add_rms_norm_row(&norm, (const float *)a->a.data + row * n,
                         (const float *)a->b.data + row * n, (float *)a->sum.data + row * n, out);
        rows8_row(out, n, &codes, row);
    }
    return SL_OK;
}

SPLIT(gated_rms_norm_quantise) {
    return split_quantised(&((const sl_gated_rms_norm_quantise_args *)args)->x.type, 6, true);
}
RUN(gated_rms_norm_quantise) {
    const sl_gated_rms_norm_quantise_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const rms_norm norm = {.gain = a->gain.data, .n = n, .eps = a->attrs.eps};
    const rows8_out codes = rows8_made(&a->codes);
    float *normed = worker->scratch;
    for (int64_t row = begin; row < end; row++) {
        gated_rms_norm_row(&norm, (const float *)a->x.data + row * n,
                           (const float *)a->z.data + row * n, normed);
        rows8_row(normed, n, &codes, row);
    }
    return SL_OK;
}
