/* norm_channels.c - Norms along a strided axis, batch norm with given statistics, and sums over all
 * axes but one. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/moments.h"

/* ---- layer_norm2d: an item is a block of positions of one sample ---- */

enum { PLACES = 64 };

static int64_t place_blocks(const sl_type *x) {
    return parts_of(sl_dims_tail(&x->shape, 2), PLACES);
}

SPLIT(layer_norm2d) {
    const sl_layer_norm2d_args *a = args;
    return (sl_split){dim(&a->x.type, 0) * place_blocks(&a->x.type),
                      grain_of(dim(&a->x.type, 1) * PLACES), 0};
}

static void norm_places(const sl_layer_norm2d_args *a, int64_t at, int64_t n) {
    const int64_t channels = dim(&a->x.type, 1), inner = sl_dims_tail(&a->x.type.shape, 2);
    const float *x = (const float *)a->x.data + at;
    const float *gain = a->gain.data, *bias = a->bias.data;
    double mean[PLACES] = {0}, variance[PLACES] = {0}, inverse[PLACES];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < n; i++) mean[i] += (double)x[c * inner + i];
    for (int64_t i = 0; i < n; i++) mean[i] /= (double)channels;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < n; i++) {
            const double d = (double)x[c * inner + i] - mean[i];
            variance[i] += d * d;
        }
    for (int64_t i = 0; i < n; i++)
        inverse[i] = 1 / sqrt(variance[i] / (double)channels + (double)a->attrs.eps);
    float *out = (float *)a->out.data + at;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < n; i++)
            out[c * inner + i] =
                (float)(((double)x[c * inner + i] - mean[i]) * inverse[i] * (double)gain[c] +
                        (double)bias[c]);
}

static void norm_place_any(const sl_layer_norm2d_args *a, int64_t at) {
    const int64_t channels = dim(&a->x.type, 1), inner = sl_dims_tail(&a->x.type.shape, 2);
    const sl_dtype dtype = a->x.type.dtype;
    const wide_moments m = wide_moments_of(&a->x, at, channels, inner, (double)a->attrs.eps);
    for (int64_t c = 0; c < channels; c++)
        put_real(dtype, a->out.data, at + c * inner,
                 (real_at(dtype, a->x.data, at + c * inner) - m.mean) * m.inverse *
                         real_at(dtype, a->gain.data, c) +
                     real_at(dtype, a->bias.data, c));
}

RUN(layer_norm2d) {
    const sl_layer_norm2d_args *a = args;
    const int64_t inner = sl_dims_tail(&a->x.type.shape, 2), blocks = place_blocks(&a->x.type);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % blocks * PLACES, n = least(PLACES, inner - first);
        const int64_t at = item / blocks * dim(&a->x.type, 1) * inner + first;
        if (a->x.type.dtype == SL_DTYPE_f32)
            norm_places(a, at, n);
        else
            for (int64_t i = 0; i < n; i++) norm_place_any(a, at + i);
    }
    return SL_OK;
}

/* ---- batch_norm_inference: x is [outer][channels][inner] ---- */

typedef struct {
    int64_t outer, channels, inner;
} extents;

static extents extents_of(const sl_type *x, int64_t axis) {
    const uint32_t at = (uint32_t)(axis < 0 ? axis + x->shape.rank : axis);
    const int64_t tail = sl_dims_tail(&x->shape, at);
    return (extents){sl_type_elements(x) / tail, dim(x, at), sl_dims_tail(&x->shape, at + 1)};
}

/* The affine function (x - mean) * factor + bias of one channel. */
typedef struct {
    double mean, factor, bias;
} line;

static line line_of(const sl_batch_norm_inference_args *a, int64_t c) {
    const sl_dtype dtype = a->x.type.dtype;
    const double root = sqrt(real_at(dtype, a->variance.data, c) + (double)a->attrs.eps);
    return (line){real_at(dtype, a->mean.data, c), real_at(dtype, a->gain.data, c) / root,
                  real_at(dtype, a->bias.data, c)};
}

INLINE void line_run(const line *l, const float *x, float *out, int64_t n) {
    const vf mean = vsplat((float)l->mean), factor = vsplat((float)l->factor);
    const vf bias = vsplat((float)l->bias);
    FOR_VECTORS(i, count, n,
                vstore_n(out + i, vfma(vload_n(x + i, count) - mean, factor, bias), count););
}

/* An item is the run of one channel; if inner is 1, one outer index with all channels. */
SPLIT(batch_norm_inference) {
    const sl_batch_norm_inference_args *a = args;
    const extents e = extents_of(&a->x.type, a->attrs.axis);
    const int64_t floats = (int64_t)sizeof(float) * (e.inner == 1 ? e.channels : 0);
    return (sl_split){e.inner == 1 ? e.outer : e.outer * e.channels,
                      grain_of((e.inner == 1 ? e.channels : e.inner) + 16), (size_t)floats};
}

/* Rows of all channels (inner is 1); the factors are computed once. */
static void batch_rows(const sl_batch_norm_inference_args *a, int64_t n, int64_t begin, int64_t end,
                       float *factors) {
    const float *mean = a->mean.data, *bias = a->bias.data;
    for (int64_t c = 0; c < n; c++) factors[c] = (float)line_of(a, c).factor;
    for (int64_t at = begin * n; at < end * n; at += n) {
        const float *x = (const float *)a->x.data + at;
        float *out = (float *)a->out.data + at;
        FOR_VECTORS(i, count, n, {
            const vf d = vload_n(x + i, count) - vload_n(mean + i, count);
            vstore_n(out + i, vfma(d, vload_n(factors + i, count), vload_n(bias + i, count)),
                     count);
        });
    }
}

RUN(batch_norm_inference) {
    const sl_batch_norm_inference_args *a = args;
    const extents e = extents_of(&a->x.type, a->attrs.axis);
    const sl_dtype dtype = a->x.type.dtype;
    if (e.inner == 1 && dtype == SL_DTYPE_f32) {
        batch_rows(a, e.channels, begin, end, worker->scratch);
        return SL_OK;
    }
    const int64_t runs = e.inner == 1 ? e.channels : 1;
    for (int64_t r = begin * runs; r < end * runs; r++) {
        const line l = line_of(a, r % e.channels);
        const int64_t at = r * e.inner;
        if (dtype == SL_DTYPE_f32)
            line_run(&l, (const float *)a->x.data + at, (float *)a->out.data + at, e.inner);
        else
            for (int64_t i = at; i < at + e.inner; i++)
                put_real(dtype, a->out.data, i,
                         (real_at(dtype, a->x.data, i) - l.mean) * l.factor + l.bias);
    }
    return SL_OK;
}

SPLIT(batch_norm_inference_backward_input) {
    const sl_batch_norm_inference_backward_input_args *a = args;
    const extents e = extents_of(&a->dy.type, a->attrs.axis);
    return (sl_split){e.outer, grain_of(e.channels * (e.inner + 16)), 0};
}
RUN(batch_norm_inference_backward_input) {
    const sl_batch_norm_inference_backward_input_args *a = args;
    const extents e = extents_of(&a->dy.type, a->attrs.axis);
    const sl_dtype dtype = a->dy.type.dtype;
    for (int64_t r = begin * e.channels; r < end * e.channels; r++) {
        const int64_t c = r % e.channels, at = r * e.inner;
        const double factor = real_at(dtype, a->gain.data, c) /
                              sqrt(real_at(dtype, a->variance.data, c) + (double)a->attrs.eps);
        if (dtype == SL_DTYPE_f32)
            line_run(&(const line){.factor = factor}, (const float *)a->dy.data + at,
                     (float *)a->dx.data + at, e.inner);
        else
            for (int64_t i = at; i < at + e.inner; i++)
                put_real(dtype, a->dx.data, i, real_at(dtype, a->dy.data, i) * factor);
    }
    return SL_OK;
}

/* ---- sums over all axes but one: an item is a block of channels ---- */

enum { CHANNELS = 16 };

static sl_split split_channels(const extents *e) {
    return (sl_split){parts_of(e->channels, CHANNELS), grain_of(e->outer * CHANNELS * e->inner), 0};
}

/* Sums dy, or dy (x - mean) if x is given. */
static void sum_channels(const extents *e, const sl_cview *dy, const sl_cview *x,
                         const sl_cview *mean, int64_t first, double *sums) {
    const sl_dtype dtype = dy->type.dtype;
    const int64_t n = least(CHANNELS, e->channels - first);
    for (int64_t c = 0; c < n; c++) {
        const double centre = x ? real_at(dtype, mean->data, first + c) : 0;
        sums[c] = 0;
        for (int64_t o = 0; o < e->outer; o++) {
            const int64_t at = (o * e->channels + first + c) * e->inner;
            if (!x && dtype == SL_DTYPE_f32)
                sums[c] += sum_long((const float *)dy->data + at, e->inner);
            else
                for (int64_t i = at; i < at + e->inner; i++)
                    sums[c] +=
                        real_at(dtype, dy->data, i) * (x ? real_at(dtype, x->data, i) - centre : 1);
        }
    }
}

static void run_sums(const extents *e, const sl_cview *dy, const sl_view *out, int64_t begin,
                     int64_t end) {
    for (int64_t item = begin; item < end; item++) {
        double sums[CHANNELS] = {0};
        const int64_t first = item * CHANNELS;
        sum_channels(e, dy, NULL, NULL, first, sums);
        for (int64_t c = 0; c < least(CHANNELS, e->channels - first); c++)
            put_real(dy->type.dtype, out->data, first + c, sums[c]);
    }
}

SPLIT(group_norm_backward_bias) {
    const extents e = extents_of(&((const sl_group_norm_backward_bias_args *)args)->dy.type, 1);
    return split_channels(&e);
}
RUN(group_norm_backward_bias) {
    const sl_group_norm_backward_bias_args *a = args;
    const extents e = extents_of(&a->dy.type, 1);
    run_sums(&e, &a->dy, &a->dbias, begin, end);
    return SL_OK;
}

SPLIT(batch_norm_inference_backward_bias) {
    const sl_batch_norm_inference_backward_bias_args *a = args;
    const extents e = extents_of(&a->dy.type, a->attrs.axis);
    return split_channels(&e);
}
RUN(batch_norm_inference_backward_bias) {
    const sl_batch_norm_inference_backward_bias_args *a = args;
    const extents e = extents_of(&a->dy.type, a->attrs.axis);
    run_sums(&e, &a->dy, &a->dbias, begin, end);
    return SL_OK;
}

SPLIT(batch_norm_inference_backward_gain) {
    const sl_batch_norm_inference_backward_gain_args *a = args;
    const extents e = extents_of(&a->x.type, a->attrs.axis);
    return split_channels(&e);
}
RUN(batch_norm_inference_backward_gain) {
    const sl_batch_norm_inference_backward_gain_args *a = args;
    const extents e = extents_of(&a->x.type, a->attrs.axis);
    const sl_dtype dtype = a->x.type.dtype;
    for (int64_t item = begin; item < end; item++) {
        double sums[CHANNELS] = {0};
        const int64_t first = item * CHANNELS;
        sum_channels(&e, &a->dy, &a->x, &a->mean, first, sums);
        for (int64_t c = 0; c < least(CHANNELS, e.channels - first); c++)
            put_real(dtype, a->dgain.data, first + c,
                     sums[c] /
                         sqrt(real_at(dtype, a->variance.data, first + c) + (double)a->attrs.eps));
    }
    return SL_OK;
}

/* ---- gradients of rms_norm: items are rows, then blocks of columns ---- */

static double row_inverse(const sl_cview *x, int64_t at, int64_t n, float eps) {
    double sum = 0;
    if (x->type.dtype == SL_DTYPE_f32)
        sum = squares_long((const float *)x->data + at, n);
    else
        for (int64_t i = at; i < at + n; i++)
            sum += real_at(x->type.dtype, x->data, i) * real_at(x->type.dtype, x->data, i);
    return 1 / sqrt(sum / (double)n + (double)eps);
}

SPLIT(rms_norm_backward_input) {
    const sl_rms_norm_backward_input_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type) * 4), 0};
}
RUN(rms_norm_backward_input) {
    const sl_rms_norm_backward_input_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const sl_dtype dtype = a->x.type.dtype;
    for (int64_t at = begin * n; at < end * n; at += n) {
        const double r = row_inverse(&a->x, at, n, a->attrs.eps);
        double mean = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = 0; i < n; i++) {
                const double x = real_at(dtype, a->x.data, at + i);
                const double g = ((double)a->attrs.offset + real_at(dtype, a->gain.data, i)) *
                                 real_at(dtype, a->dy.data, at + i);
                if (pass)
                    put_real(dtype, a->dx.data, at + i, r * (g - r * r * x * mean));
                else
                    mean += g * x / (double)n;
            }
    }
    return SL_OK;
}

enum { COLUMNS = 256 };

SPLIT(rms_norm_backward_gain) {
    const sl_rms_norm_backward_gain_args *a = args;
    return (sl_split){parts_of(last_dim(&a->x.type), COLUMNS),
                      grain_of(sl_type_elements(&a->x.type)), 0};
}
RUN(rms_norm_backward_gain) {
    const sl_rms_norm_backward_gain_args *a = args;
    const int64_t n = last_dim(&a->x.type), rows = rows_of(&a->x.type);
    const sl_dtype dtype = a->x.type.dtype;
    for (int64_t item = begin; item < end; item++) {
        double sums[COLUMNS] = {0};
        const int64_t first = item * COLUMNS, count = least(COLUMNS, n - first);
        for (int64_t row = 0; row < rows; row++) {
            const double r = row_inverse(&a->x, row * n, n, a->attrs.eps);
            for (int64_t i = 0; i < count; i++)
                sums[i] += real_at(dtype, a->dy.data, row * n + first + i) *
                           real_at(dtype, a->x.data, row * n + first + i) * r;
        }
        for (int64_t i = 0; i < count; i++) put_real(dtype, a->dgain.data, first + i, sums[i]);
    }
    return SL_OK;
}
