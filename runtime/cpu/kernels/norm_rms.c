/* norm_rms.c - Norms over the last axis: an item is a row. */
#include "runtime/cpu/kernels/norm_rms.h"
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/reals.h"
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

/* ---- add_rms_norm ---- */

/* Data of a tensor that is not given is NULL. */
static const void *extra_of(const sl_add_rms_norm_args *a, uint32_t i) {
    return i < SL_LIST_COUNT(a->extra) ? a->extra.items[i].data : NULL;
}
enum { SHIFT, BIAS };
enum { NORM_ROOMS = 6 }; /* rows of scratch: shift, bias, gain, both operands, their sum */

static void add_to_row(float *x, const float *y, int64_t n) {
    FOR_VECTORS(i, count, n,
                vstore_n(x + i, vload_n(x + i, count) + vload_n(y + i, count), count););
}

/* sum = xy[0] + xy[1] (+ bias), out = its norm (+ shift). */
INLINE void add_norm_row(const rms_norm *norm, const float *const xy[2],
                         const float *const extra[2], float *sum, float *out) {
    if (extra[BIAS]) {
        FOR_VECTORS(i, count, norm->n, {
            const vf both = vload_n(xy[0] + i, count) + vload_n(xy[1] + i, count);
            vstore_n(sum + i, both + vload_n(extra[BIAS] + i, count), count);
        });
        rms_norm_row(norm, sum, out);
    } else {
        add_rms_norm_row(norm, xy[0], xy[1], sum, out);
    }
    if (extra[SHIFT]) add_to_row(out, extra[SHIFT], norm->n);
}

SPLIT(add_rms_norm) {
    return split_rows(&((const sl_add_rms_norm_args *)args)->a.type, 2);
}
RUN(add_rms_norm) {
    const sl_add_rms_norm_args *a = args;
    const int64_t n = last_dim(&a->a.type);
    const rms_norm norm = {a->gain.data, n, a->attrs.eps, a->attrs.offset};
    const float *const extra[] = {extra_of(a, SHIFT), extra_of(a, BIAS)};
    for (int64_t at = begin * n; at < end * n; at += n) {
        const float *const xy[] = {(const float *)a->a.data + at, (const float *)a->b.data + at};
        add_norm_row(&norm, xy, extra, (float *)a->sum.data + at, (float *)a->out.data + at);
    }
    return SL_OK;
}

/* f16 and bf16, by way of f32. */
static void add_norm_halves(const sl_add_rms_norm_args *a, int64_t begin, int64_t end,
                            float *scratch) {
    const sl_dtype dtype = a->a.type.dtype;
    const int64_t n = last_dim(&a->a.type);
    float *rooms[NORM_ROOMS];
    const float *extra[2];
    for (int i = 0; i < NORM_ROOMS; i++) rooms[i] = scratch + i * n;
    for (uint32_t i = 0; i < 2; i++)
        extra[i] = extra_of(a, i) ? load_f32(dtype, extra_of(a, i), 0, n, rooms[i]) : NULL;
    const float *gain = load_f32(dtype, a->gain.data, 0, n, rooms[2]);
    const rms_norm norm = {gain, n, a->attrs.eps, a->attrs.offset};
    for (int64_t row = begin; row < end; row++) {
        const float *const xy[] = {load_f32(dtype, a->a.data, row * n, n, rooms[3]),
                                   load_f32(dtype, a->b.data, row * n, n, rooms[4])};
        add_norm_row(&norm, xy, extra, rooms[5], rooms[3]);
        store_f32(dtype, a->sum.data, row * n, n, rooms[5]);
        store_f32(dtype, a->out.data, row * n, n, rooms[3]);
    }
}

static void add_norm_doubles(const sl_add_rms_norm_args *a, int64_t begin, int64_t end) {
    const int64_t n = last_dim(&a->a.type);
    const double *gain = a->gain.data, *shift = extra_of(a, SHIFT), *bias = extra_of(a, BIAS);
    for (int64_t at = begin * n; at < end * n; at += n) {
        const double *x = (const double *)a->a.data + at, *y = (const double *)a->b.data + at;
        double *sum = (double *)a->sum.data + at, *out = (double *)a->out.data + at, square = 0;
        for (int64_t i = 0; i < n; i++) {
            sum[i] = x[i] + y[i];
            if (bias) sum[i] += bias[i];
            square += sum[i] * sum[i];
        }
        const double inverse = 1 / sqrt(square / (double)n + (double)a->attrs.eps);
        for (int64_t i = 0; i < n; i++) {
            out[i] = sum[i] * inverse * ((double)a->attrs.offset + gain[i]);
            if (shift) out[i] += shift[i];
        }
    }
}

SPLIT(add_rms_norm_any) {
    const sl_type *x = &((const sl_add_rms_norm_args *)args)->a.type;
    sl_split split = split_rows(x, 4);
    split.scratch_bytes = (size_t)(NORM_ROOMS * last_dim(x)) * sizeof(float);
    return split;
}
RUN(add_rms_norm_any) {
    const sl_add_rms_norm_args *a = args;
    if (a->a.type.dtype == SL_DTYPE_f64)
        add_norm_doubles(a, begin, end);
    else
        add_norm_halves(a, begin, end, worker->scratch);
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
