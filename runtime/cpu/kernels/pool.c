/* pool.c - Pooling: an item is one channel of one sample. */
#include "core/pool.h"
#include "runtime/cpu/kernels/convolution_im2col.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/moments.h"

static sl_split split_planes(const sl_type *x, const sl_window *w, int64_t operations,
                             size_t scratch) {
    return (sl_split){dim(x, 0) * dim(x, 1),
                      grain_of(sl_window_outs(w) * sl_window_taps(w) * operations / 8), scratch};
}

typedef enum { MAX, MIN, SUM, PROD, POWERS } fold;

/* ---- f32 ---- */

INLINE float join(const fold f, float all, float x) {
    if (f == MAX) return x > all || x != x ? x : all;
    if (f == MIN) return x < all || x != x ? x : all;
    return f == SUM ? all + x : all * x;
}
INLINE float start_of(const fold f) {
    return f == MAX ? -INFINITY : f == MIN ? INFINITY : f == SUM ? 0.0f : 1.0f;
}

/* Combines the inputs under the taps of one row with part[0 .. out). */
INLINE void join_row(const sl_window *w, const fold f, const float *row, float *part) {
    const int64_t stride = w->stride[2];
    for (int64_t k = 0; k < w->kernel[2]; k++) {
        const int64_t at = sl_window_at(w, 2, 0, k);
        const int64_t first = at < 0 ? parts_of(-at, stride) : 0;
        const int64_t last = at >= w->in[2] ? 0 : least(parts_of(w->in[2] - at, stride), w->out[2]);
        const float *from = row + at;
        if (stride == 1)
            for (int64_t i = first; i < last; i++) part[i] = join(f, part[i], from[i]);
        else
            for (int64_t i = first; i < last; i++) part[i] = join(f, part[i], from[i * stride]);
    }
}

INLINE void pool_plane(const sl_window *w, const fold f, const float *x, float *part, float *out) {
    for (int64_t o = 0; o < w->out[0] * w->out[1]; o++, out += w->out[2]) {
        for (int64_t i = 0; i < w->out[2]; i++) out[i] = start_of(f);
        for (int64_t zy = 0; zy < w->kernel[0] * w->kernel[1]; zy++) {
            const int64_t z = sl_window_at(w, 0, o / w->out[1], zy / w->kernel[1]);
            const int64_t y = sl_window_at(w, 1, o % w->out[1], zy % w->kernel[1]);
            if (z < 0 || z >= w->in[0] || y < 0 || y >= w->in[1]) continue;
            /* Each kernel row is summed separately, so that no accumulation is long. */
            for (int64_t i = 0; i < w->out[2]; i++) part[i] = start_of(f);
            join_row(w, f, x + (z * w->in[1] + y) * w->in[2], part);
            for (int64_t i = 0; i < w->out[2]; i++) out[i] = join(f, out[i], part[i]);
        }
    }
}

/* The maximum; `all` if they are equal, NaN if either is NaN. */
INLINE vf larger(vf all, vf x) {
    const vi none = x != x;
    return (vf)(((vi)x & none) | ((vi)vmax(x, all) & ~none));
}

/* 2x2 pooling with stride 2 and no padding. */
static bool is_halving(const sl_window *w) {
    bool halves = w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1;
    for (int i = 1; i < SL_MAX_SPATIAL; i++)
        halves = halves && w->kernel[i] == 2 && w->stride[i] == 2 && w->dilation[i] == 1 &&
                 w->before[i] == 0 && 2 * w->out[i] <= w->in[i];
    return halves;
}
static void halve_max(const sl_window *w, const float *x, float *out) {
    for (int64_t o = 0; o < w->out[1]; o++, out += w->out[2]) {
        const float *top = x + 2 * o * w->in[2], *bottom = top + w->in[2];
        for (int64_t i = 0; i < w->out[2]; i += LANES) {
            const int64_t n = least(LANES, w->out[2] - i);
            const int64_t first = least(LANES, 2 * n), rest = 2 * n - first;
            const vf a = vload_n(top + 2 * i, first), b = vload_n(top + 2 * i + first, rest);
            const vf c = vload_n(bottom + 2 * i, first), d = vload_n(bottom + 2 * i + first, rest);
            const vf upper = larger(evens(a, b), odds(a, b));
            vstore_n(out + i, larger(upper, larger(evens(c, d), odds(c, d))), n);
        }
    }
}

/* Global pooling: one window that covers the whole input. */
static bool is_whole(const sl_window *w) {
    bool whole = true;
    for (int i = 0; i < SL_MAX_SPATIAL; i++)
        whole = whole && w->out[i] == 1 && w->kernel[i] == w->in[i] && w->dilation[i] == 1 &&
                w->before[i] == 0;
    return whole;
}

static void pool_f32(const sl_window *w, fold f, const float *x, float *part, float *out) {
    if (f == SUM && is_whole(w))
        out[0] = (float)sum_long(x, sl_window_ins(w));
    else if (f == MAX && is_halving(w))
        halve_max(w, x, out);
    else if (f == MAX)
        pool_plane(w, MAX, x, part, out);
    else if (f == MIN)
        pool_plane(w, MIN, x, part, out);
    else if (f == SUM)
        pool_plane(w, SUM, x, part, out);
    else
        pool_plane(w, PROD, x, part, out);
}

/* ---- any type ---- */

/* One window: floats other than f32, or lp_pool. */
static double pool_reals(const sl_window *w, fold f, double p, const sl_cview *x, int64_t first,
                         int64_t o) {
    double all = f == MAX ? -INFINITY : f == MIN ? INFINITY : f == PROD ? 1 : 0;
    for (int64_t k = 0; k < sl_window_taps(w); k++) {
        const int64_t place = sl_window_place(w, o, k);
        if (place < 0) continue;
        const double each = real_at(x->type.dtype, x->data, first + place);
        if (f == MAX)
            all = each > all || isnan(each) ? each : all;
        else if (f == MIN)
            all = each < all || isnan(each) ? each : all;
        else if (f == PROD)
            all *= each;
        else
            all += f == SUM ? each : p == 2 ? each * each : pow(fabs(each), p);
    }
    return f == POWERS ? (p == 2 ? sqrt(all) : pow(all, 1 / p)) : all;
}

static bool is_less(sl_dtype dtype, int64_t a, int64_t b) {
    return dtype == SL_DTYPE_u64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t pool_integers(const sl_window *w, fold f, const sl_cview *x, int64_t first,
                             int64_t o) {
    const sl_dtype dtype = x->type.dtype;
    const uint32_t bits = sl_dtype_infos[dtype].bytes * 8;
    const bool is_signed = sl_dtype_infos[dtype].name[0] == 'i';
    const int64_t lowest = is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
    const int64_t highest = is_signed ? ~lowest : (int64_t)(UINT64_MAX >> (64 - bits));
    int64_t all = f == MAX ? lowest : f == MIN ? highest : f == PROD;
    for (int64_t k = 0; k < sl_window_taps(w); k++) {
        const int64_t place = sl_window_place(w, o, k);
        if (place < 0) continue;
        const int64_t each = whole_at(dtype, x->data, first + place);
        if (f == MAX)
            all = is_less(dtype, all, each) ? each : all;
        else if (f == MIN)
            all = is_less(dtype, each, all) ? each : all;
        else
            all = (int64_t)(f == SUM ? (uint64_t)all + (uint64_t)each
                                     : (uint64_t)all * (uint64_t)each);
    }
    return all;
}

static void pool_any(const sl_window *w, fold f, double p, const sl_pool_args *a, int64_t item) {
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t outs = sl_window_outs(w), first = item * sl_window_ins(w);
    for (int64_t o = 0; o < outs; o++)
        if (is_real(dtype))
            put_real(dtype, a->out.data, item * outs + o, pool_reals(w, f, p, &a->x, first, o));
        else
            put_whole(dtype, a->out.data, item * outs + o, pool_integers(w, f, &a->x, first, o));
}

static void run_pool(const sl_pool_args *a, fold f, int64_t begin, int64_t end, float *part) {
    const sl_window w = sl_pool_window(&a->attrs, &a->x.type, &a->out.type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t item = begin; item < end; item++)
        if (a->x.type.dtype == SL_DTYPE_f32)
            pool_f32(&w, f, (const float *)a->x.data + item * ins, part,
                     (float *)a->out.data + item * outs);
        else
            pool_any(&w, f, 0, a, item);
}

static sl_split split_pool(const sl_pool_args *a) {
    const sl_window w = sl_pool_window(&a->attrs, &a->x.type, &a->out.type);
    return split_planes(&a->x.type, &w, 1, (size_t)w.out[2] * sizeof(float));
}
#define POOL(OP, FOLD)                                                                             \
    SPLIT(OP) {                                                                                    \
        return split_pool(args);                                                                   \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        run_pool(args, FOLD, begin, end, worker->scratch);                                         \
        return SL_OK;                                                                              \
    }
POOL(pool_max, MAX)
POOL(pool_min, MIN)
POOL(pool_sum, SUM)
POOL(pool_prod, PROD)
#undef POOL

SPLIT(lp_pool) {
    const sl_lp_pool_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->out.type);
    return split_planes(&a->x.type, &w, 64, 0);
}
RUN(lp_pool) {
    const sl_lp_pool_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->out.type);
    for (int64_t item = begin; item < end; item++)
        pool_any(&w, POWERS, (double)a->attrs.p, args, item);
    return SL_OK;
}

/* ---- means ---- */

/* Number of taps of window o along an axis that are inside x, or inside its padding if
 * `padding`. */
static int64_t axis_taps(const sl_window *w, int axis, int64_t o, bool padding) {
    int64_t inside = 0;
    for (int64_t k = 0; k < w->kernel[axis]; k++) {
        const int64_t at = sl_window_at(w, axis, o, k);
        inside += padding ? at < w->in[axis] + w->after[axis] : at >= 0 && at < w->in[axis];
    }
    return inside;
}
static double taps_counted(const sl_window *w, int64_t o, bool padding) {
    return (double)(axis_taps(w, 2, o % w->out[2], padding) *
                    axis_taps(w, 1, o / w->out[2] % w->out[1], padding) *
                    axis_taps(w, 0, o / w->out[2] / w->out[1], padding));
}

SPLIT(pool_mean) {
    const sl_pool_mean_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->out.type);
    return split_planes(&a->x.type, &w, 2, (size_t)(w.out[2] + sl_window_outs(&w)) * sizeof(float));
}
RUN(pool_mean) {
    const sl_pool_mean_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->out.type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    float *part = worker->scratch, *counts = part + w.out[2];
    for (int64_t o = 0; o < outs; o++) counts[o] = (float)taps_counted(&w, o, a->attrs.include_pad);
    for (int64_t item = begin; item < end; item++) {
        if (a->x.type.dtype != SL_DTYPE_f32) {
            for (int64_t o = 0; o < outs; o++)
                put_real(a->x.type.dtype, a->out.data, item * outs + o,
                         pool_reals(&w, SUM, 0, &a->x, item * ins, o) / (double)counts[o]);
            continue;
        }
        float *out = (float *)a->out.data + item * outs;
        pool_f32(&w, SUM, (const float *)a->x.data + item * ins, part, out);
        for (int64_t o = 0; o < outs; o++) out[o] /= counts[o];
    }
    return SL_OK;
}

/* ---- max_pool_indices, and gradients ---- */

/* Position of the first maximum of window o in the channel that starts at `first`; -1 if the window
 * is empty. */
static int64_t largest_place(const sl_window *w, const sl_cview *x, int64_t first, int64_t o) {
    const sl_dtype dtype = x->type.dtype;
    int64_t best = -1, most_whole = 0;
    double most = 0;
    for (int64_t k = 0; k < sl_window_taps(w); k++) {
        const int64_t place = sl_window_place(w, o, k);
        if (place < 0) continue;
        const double each = is_real(dtype) ? real_at(dtype, x->data, first + place) : 0;
        const int64_t whole = is_real(dtype) ? 0 : whole_at(dtype, x->data, first + place);
        const bool above = is_real(dtype) ? each > most || (isnan(each) && !isnan(most))
                                          : is_less(dtype, most_whole, whole);
        if (best >= 0 && !above) continue;
        best = place, most = each, most_whole = whole;
    }
    return best;
}

SPLIT(max_pool_indices) {
    const sl_max_pool_indices_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->indices.type);
    return split_planes(&a->x.type, &w, 16, 0);
}
RUN(max_pool_indices) {
    const sl_max_pool_indices_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->indices.type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t i = begin * outs; i < end * outs; i++) {
        const int64_t first = i / outs * ins;
        int64_t place = largest_place(&w, &a->x, first, i % outs);
        if (a->attrs.column_major && place >= 0)
            place = place / w.in[2] / w.in[1] +
                    w.in[0] * (place / w.in[2] % w.in[1] + w.in[1] * (place % w.in[2]));
        ((int64_t *)a->indices.data)[i] = place < 0 ? -1 : first + place;
    }
    return SL_OK;
}

/* Gradients are accumulated in doubles, one channel at a time. */
static void store_plane(const sl_view *dx, int64_t first, const double *sums, int64_t ins) {
    for (int64_t i = 0; i < ins; i++) put_real(dx->type.dtype, dx->data, first + i, sums[i]);
}

SPLIT(pool_max_backward) {
    const sl_pool_max_backward_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->dy.type);
    return split_planes(&a->x.type, &w, 16, (size_t)sl_window_ins(&w) * sizeof(double));
}
RUN(pool_max_backward) {
    const sl_pool_max_backward_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->x.type, &a->dy.type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    double *sums = worker->scratch;
    for (int64_t item = begin; item < end; item++) {
        memset(sums, 0, (size_t)ins * sizeof *sums);
        for (int64_t o = 0; o < outs; o++) {
            const int64_t place = largest_place(&w, &a->x, item * ins, o);
            if (place >= 0) sums[place] += real_at(a->dy.type.dtype, a->dy.data, item * outs + o);
        }
        store_plane(&a->dx, item * ins, sums, ins);
    }
    return SL_OK;
}

SPLIT(pool_mean_backward) {
    const sl_pool_mean_backward_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->dx.type, &a->dy.type);
    return split_planes(&a->dy.type, &w, 16, (size_t)sl_window_ins(&w) * sizeof(double));
}
RUN(pool_mean_backward) {
    const sl_pool_mean_backward_args *a = args;
    const sl_window w = sl_pool_window((const void *)&a->attrs, &a->dx.type, &a->dy.type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    double *sums = worker->scratch;
    for (int64_t item = begin; item < end; item++) {
        memset(sums, 0, (size_t)ins * sizeof *sums);
        for (int64_t o = 0; o < outs; o++) {
            const double each = real_at(a->dy.type.dtype, a->dy.data, item * outs + o) /
                                taps_counted(&w, o, a->attrs.include_pad);
            for (int64_t k = 0; k < sl_window_taps(&w); k++) {
                const int64_t place = sl_window_place(&w, o, k);
                if (place >= 0) sums[place] += each;
            }
        }
        store_plane(&a->dx, item * ins, sums, ins);
    }
    return SL_OK;
}
