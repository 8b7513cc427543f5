/* norm.c - Norms over contiguous runs of elements (layer_norm, group_norm), and their gradients.
 * An item is a run; for the gradient of gain, a block of its elements. */
#include "runtime/cpu/kernels/norm.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/moments.h"

/* Element i of run s uses entry (s % groups * width + i) / inner of gain and bias. */
typedef struct {
    int64_t stretches, width, groups, inner;
    double eps;
} extents;

static extents extents_of_layer(const sl_type *x, int64_t axis, float eps) {
    const uint32_t from = (uint32_t)(axis < 0 ? axis + x->shape.rank : axis);
    const int64_t width = sl_dims_tail(&x->shape, from);
    return (extents){sl_type_elements(x) / width, width, 1, 1, (double)eps};
}
static extents extents_of_groups(const sl_type *x, uint32_t groups, float eps) {
    const int64_t inner = sl_dims_tail(&x->shape, 2);
    return (extents){dim(x, 0) * groups, dim(x, 1) / groups * inner, groups, inner, (double)eps};
}
static int64_t first_factor(const extents *e, int64_t stretch) {
    return stretch % e->groups * (e->width / e->inner);
}

static sl_split split_stretches(const extents *e, int64_t operations) {
    return (sl_split){e->stretches, grain_of(e->width * operations), 0};
}

/* ---- forward ---- */

INLINE void apply_row(const moments *m, const float *x, const float *gain, const float *bias,
                      float *out, int64_t n) {
    const vf inverse = vsplat(m->inverse);
    FOR_VECTORS(i, count, n, {
        const vf normed = centred(m, vload_n(x + i, count)) * inverse;
        vstore_n(out + i, vfma(normed, vload_n(gain + i, count), vload_n(bias + i, count)), count);
    });
}
/* The same gain and bias for all elements. */
INLINE void apply_run(const moments *m, const float *x, float gain, float bias, float *out,
                      int64_t n) {
    const vf factor = vsplat(m->inverse * gain), offset = vsplat(bias);
    FOR_VECTORS(i, count, n,
                vstore_n(out + i, vfma(centred(m, vload_n(x + i, count)), factor, offset), count););
}

typedef struct {
    sl_cview x, gain, third; /* third: bias or dy */
    sl_view out;
} operands;

INLINE void norm_f32(const extents *e, const operands *o, int64_t stretch) {
    const float *x = (const float *)o->x.data + stretch * e->width;
    float *out = (float *)o->out.data + stretch * e->width;
    const float *gain = (const float *)o->gain.data + first_factor(e, stretch);
    const float *bias = (const float *)o->third.data + first_factor(e, stretch);
    const moments m = moments_of(x, e->width, e->eps);
    if (e->inner == 1) {
        apply_row(&m, x, gain, bias, out, e->width);
        return;
    }
    for (int64_t at = 0; at < e->width; at += e->inner)
        apply_run(&m, x + at, *gain++, *bias++, out + at, e->inner);
}

static void norm_any(const extents *e, const operands *o, int64_t stretch) {
    const sl_dtype dtype = o->x.type.dtype;
    const int64_t at = stretch * e->width, factor = first_factor(e, stretch);
    const wide_moments m = wide_moments_of(&o->x, at, e->width, 1, e->eps);
    for (int64_t i = 0; i < e->width; i++) {
        const double normed = (real_at(dtype, o->x.data, at + i) - m.mean) * m.inverse;
        put_real(dtype, o->out.data, at + i,
                 normed * real_at(dtype, o->gain.data, factor + i / e->inner) +
                     real_at(dtype, o->third.data, factor + i / e->inner));
    }
}

static void run_norm(const extents *e, const operands *o, int64_t begin, int64_t end) {
    const bool fast = o->x.type.dtype == SL_DTYPE_f32;
    for (int64_t s = begin; s < end; s++)
        if (fast)
            norm_f32(e, o, s);
        else
            norm_any(e, o, s);
}

void SL_KERNEL(sl_normalise_row)(const norm_row *row) {
    const sl_type type = {.dtype = row->dtype, .shape = {1, {row->width}}};
    const extents e = {1, row->width, 1, 1, row->eps};
    const operands o = {{.type = type, .data = row->x},
                        {.type = type, .data = row->gain},
                        {.type = type, .data = row->bias},
                        {.type = type, .data = row->out}};
    if (row->dtype == SL_DTYPE_f32)
        norm_f32(&e, &o, 0);
    else
        norm_any(&e, &o, 0);
}

SPLIT(layer_norm) {
    const sl_layer_norm_args *a = args;
    const extents e = extents_of_layer(&a->x.type, a->attrs.axis, a->attrs.eps);
    return split_stretches(&e, 2);
}
RUN(layer_norm) {
    const sl_layer_norm_args *a = args;
    const extents e = extents_of_layer(&a->x.type, a->attrs.axis, a->attrs.eps);
    run_norm(&e, &(const operands){a->x, a->gain, a->bias, a->out}, begin, end);
    return SL_OK;
}

SPLIT(group_norm) {
    const sl_group_norm_args *a = args;
    const extents e = extents_of_groups(&a->x.type, a->attrs.groups, a->attrs.eps);
    return split_stretches(&e, 2);
}
RUN(group_norm) {
    const sl_group_norm_args *a = args;
    const extents e = extents_of_groups(&a->x.type, a->attrs.groups, a->attrs.eps);
    run_norm(&e, &(const operands){a->x, a->gain, a->bias, a->out}, begin, end);
    return SL_OK;
}

/* ---- gradient of x ---- */

/* The means of g = gain dy and of g y, where y is the normed x; first as sums over a run of at most
 * a block of elements. */
typedef struct {
    double g, gy;
} means;

INLINE means sum_row(const moments *m, const float *x, const float *gain, int64_t gain_step,
                     const float *dy, int64_t n) {
    vf g_sum = vzero(), gy_sum = vzero();
    FOR_VECTORS(i, count, n, {
        const vf factor = gain_step ? vload_n(gain + i, count) : vsplat(*gain);
        const vf g = factor * vload_n(dy + i, count);
        g_sum += g;
        gy_sum = vfma(g, centred(m, vload_n(x + i, count)), gy_sum);
    });
    return (means){(double)vsum(g_sum), (double)vsum(gy_sum) * (double)m->inverse};
}

/* A run of at most a block of elements: n of them from `at` on, with one gain for each (inner == 1)
 * or one for all. */
typedef struct {
    int64_t at, n, factor;
} run;

static bool next_run(const extents *e, run *r) {
    r->at += r->n;
    if (r->at >= e->width) return false;
    const int64_t limit = e->inner == 1 ? e->width : (r->at / e->inner + 1) * e->inner;
    r->n = least(MOMENTS_BLOCK, limit - r->at);
    r->factor = r->at / e->inner;
    return true;
}

static void input_f32(const extents *e, const operands *o, int64_t stretch) {
    const float *x = (const float *)o->x.data + stretch * e->width;
    const float *dy = (const float *)o->third.data + stretch * e->width;
    float *out = (float *)o->out.data + stretch * e->width;
    const float *gain = (const float *)o->gain.data + first_factor(e, stretch);
    const moments m = moments_of(x, e->width, e->eps);
    const int64_t step = e->inner == 1;
    means mean = {0};
    for (run r = {0}; next_run(e, &r);) {
        const means part = sum_row(&m, x + r.at, gain + r.factor, step, dy + r.at, r.n);
        mean.g += part.g, mean.gy += part.gy;
    }
    const vf g_mean = vsplat((float)(mean.g / (double)e->width)), inverse = vsplat(m.inverse);
    const vf gy_mean = vsplat((float)(mean.gy / (double)e->width * (double)m.inverse));
    for (run r = {0}; next_run(e, &r);) {
        const float *px = x + r.at, *pdy = dy + r.at, *pg = gain + r.factor;
        FOR_VECTORS(i, count, r.n, {
            const vf factor = step ? vload_n(pg + i, count) : vsplat(*pg);
            const vf g = factor * vload_n(pdy + i, count) - g_mean;
            const vf y = centred(&m, vload_n(px + i, count));
            vstore_n(out + r.at + i, (g - y * gy_mean) * inverse, count);
        });
    }
}

static void input_any(const extents *e, const operands *o, int64_t stretch) {
    const sl_dtype dtype = o->x.type.dtype;
    const int64_t at = stretch * e->width, factor = first_factor(e, stretch);
    const wide_moments m = wide_moments_of(&o->x, at, e->width, 1, e->eps);
    double g_mean = 0, gy_mean = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < e->width; i++) {
            const double y = (real_at(dtype, o->x.data, at + i) - m.mean) * m.inverse;
            const double g = real_at(dtype, o->gain.data, factor + i / e->inner) *
                             real_at(dtype, o->third.data, at + i);
            if (pass)
                put_real(dtype, o->out.data, at + i, (g - g_mean - y * gy_mean) * m.inverse);
            else
                g_mean += g / (double)e->width, gy_mean += g * y / (double)e->width;
        }
    }
}

static void run_input(const extents *e, const operands *o, int64_t begin, int64_t end) {
    /* Short rows use doubles: subtracting the means from g cancels most of it. */
    const bool fast = o->x.type.dtype == SL_DTYPE_f32 && e->width >= 32;
    for (int64_t s = begin; s < end; s++)
        if (fast)
            input_f32(e, o, s);
        else
            input_any(e, o, s);
}

SPLIT(layer_norm_backward_input) {
    const sl_layer_norm_backward_input_args *a = args;
    const extents e = extents_of_layer(&a->x.type, a->attrs.axis, a->attrs.eps);
    return split_stretches(&e, 4);
}
RUN(layer_norm_backward_input) {
    const sl_layer_norm_backward_input_args *a = args;
    const extents e = extents_of_layer(&a->x.type, a->attrs.axis, a->attrs.eps);
    run_input(&e, &(const operands){a->x, a->gain, a->dy, a->dx}, begin, end);
    return SL_OK;
}

SPLIT(group_norm_backward_input) {
    const sl_group_norm_backward_input_args *a = args;
    const extents e = extents_of_groups(&a->x.type, a->attrs.groups, a->attrs.eps);
    return split_stretches(&e, 4);
}
RUN(group_norm_backward_input) {
    const sl_group_norm_backward_input_args *a = args;
    const extents e = extents_of_groups(&a->x.type, a->attrs.groups, a->attrs.eps);
    run_input(&e, &(const operands){a->x, a->gain, a->dy, a->dx}, begin, end);
    return SL_OK;
}

/* ---- gradient of gain: an item is up to FACTORS entries of a group ---- */

enum { FACTORS = 256 };

static int64_t factor_blocks(const extents *e) {
    return parts_of(e->width / e->inner, FACTORS);
}
static sl_split split_factors(const extents *e) {
    const int64_t items = e->groups * factor_blocks(e);
    return (sl_split){items, grain_of(e->stretches * e->width / e->groups),
                      FACTORS * sizeof(double)};
}

/* sums[f] += sum of dy y over the elements of entry f, for f in [0, n). */
static void add_products(const extents *e, const moments *m, const float *x, const float *dy,
                         int64_t n, double *sums) {
    const float mean = m->mean, rest = m->rest, inverse = m->inverse;
    if (e->inner == 1) {
        for (int64_t f = 0; f < n; f++)
            sums[f] += (double)(dy[f] * (((x[f] - mean) - rest) * inverse));
        return;
    }
    const float zero_step[1] = {1};
    for (int64_t f = 0; f < n; f++)
        for (int64_t at = f * e->inner; at < (f + 1) * e->inner; at += MOMENTS_BLOCK)
            sums[f] += sum_row(m, x + at, zero_step, 0, dy + at,
                               least(MOMENTS_BLOCK, (f + 1) * e->inner - at))
                           .gy;
}

static void run_gain(const extents *e, const operands *o, int64_t item, double *sums) {
    const sl_dtype dtype = o->x.type.dtype;
    const int64_t blocks = factor_blocks(e), group = item / blocks;
    const int64_t first = item % blocks * FACTORS, per_group = e->width / e->inner;
    const int64_t n = least(FACTORS, per_group - first);
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t s = group; s < e->stretches; s += e->groups) {
        const int64_t at = s * e->width, from = at + first * e->inner;
        if (dtype == SL_DTYPE_f32) {
            const moments m = moments_of((const float *)o->x.data + at, e->width, e->eps);
            add_products(e, &m, (const float *)o->x.data + from,
                         (const float *)o->third.data + from, n, sums);
            continue;
        }
        const wide_moments m = wide_moments_of(&o->x, at, e->width, 1, e->eps);
        for (int64_t i = 0; i < n * e->inner; i++)
            sums[i / e->inner] += real_at(dtype, o->third.data, from + i) *
                                  (real_at(dtype, o->x.data, from + i) - m.mean) * m.inverse;
    }
    for (int64_t f = 0; f < n; f++)
        put_real(dtype, o->out.data, group * per_group + first + f, sums[f]);
}

SPLIT(layer_norm_backward_gain) {
    const sl_layer_norm_backward_gain_args *a = args;
    const extents e = extents_of_layer(&a->x.type, a->attrs.axis, a->attrs.eps);
    return split_factors(&e);
}
RUN(layer_norm_backward_gain) {
    const sl_layer_norm_backward_gain_args *a = args;
    const extents e = extents_of_layer(&a->x.type, a->attrs.axis, a->attrs.eps);
    const operands o = {.x = a->x, .third = a->dy, .out = a->dgain};
    for (int64_t item = begin; item < end; item++) run_gain(&e, &o, item, worker->scratch);
    return SL_OK;
}

SPLIT(group_norm_backward_gain) {
    const sl_group_norm_backward_gain_args *a = args;
    const extents e = extents_of_groups(&a->x.type, a->attrs.groups, a->attrs.eps);
    return split_factors(&e);
}
RUN(group_norm_backward_gain) {
    const sl_group_norm_backward_gain_args *a = args;
    const extents e = extents_of_groups(&a->x.type, a->attrs.groups, a->attrs.eps);
    const operands o = {.x = a->x, .third = a->dy, .out = a->dgain};
    for (int64_t item = begin; item < end; item++) run_gain(&e, &o, item, worker->scratch);
    return SL_OK;
}
