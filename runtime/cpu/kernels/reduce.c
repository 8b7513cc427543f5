/* reduce.c - Reductions over axes, for any plain type that supports them. */
#include "core/ops.h"
#include "runtime/cpu/kernels/vmath.h"
#include "runtime/cpu/kernels/wide.h"

/* ---- over any axes ---- */

/* Some dims of x with their strides; contiguous neighbours are merged. */
typedef struct {
    uint32_t rank;
    int64_t dims[SL_MAX_RANK], strides[SL_MAX_RANK];
} axes;

static void push_axis(axes *a, int64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (a->rank && a->strides[a->rank - 1] == extent * stride) {
        a->dims[a->rank - 1] *= extent;
        a->strides[a->rank - 1] = stride;
        return;
    }
    a->dims[a->rank] = extent;
    a->strides[a->rank++] = stride;
}

static int64_t axes_elements(const axes *a) {
    int64_t product = 1;
    for (uint32_t i = 0; i < a->rank; i++) product *= a->dims[i];
    return product;
}

static int64_t axes_offset(const axes *a, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = a->rank; i-- > 0;) {
        offset += index % a->dims[i] * a->strides[i];
        index /= a->dims[i];
    }
    return offset;
}

/* Removes the innermost axis if it is contiguous and returns its size, else returns 1. */
static int64_t pop_run(axes *a) {
    if (!a->rank || a->strides[a->rank - 1] != 1) return 1;
    return a->dims[--a->rank];
}

/* An item is `width` adjacent output elements, each a reduction of `runs` runs of `run` adjacent
 * elements of x.  width or run is 1. */
typedef struct {
    axes stay, go; /* kept and reduced axes, without width and run */
    int64_t columns, width, blocks, run, runs;
    int64_t count; /* number of elements reduced to one */
} reduction;

enum { MOST_WIDTH = 256, CHUNK = 1024 };

static reduction reduction_of(const sl_dims *x, const sl_dims *reduced) {
    bool gone[SL_MAX_RANK] = {false};
    reduction r = {0};
    for (uint32_t i = 0; i < reduced->rank; i++) gone[sl_axis(reduced->dims[i], x->rank)] = true;
    for (uint32_t i = 0; i < x->rank; i++)
        push_axis(gone[i] ? &r.go : &r.stay, x->dims[i], sl_dims_tail(x, i + 1));
    r.count = axes_elements(&r.go);
    r.columns = pop_run(&r.stay);
    r.width = least(r.columns, MOST_WIDTH);
    r.blocks = r.columns ? parts_of(r.columns, r.width) : 0;
    r.run = pop_run(&r.go);
    r.runs = r.run ? axes_elements(&r.go) : 0;
    return r;
}

static sl_split split_reduction(const sl_reduce_sum_args *a) {
    const reduction r = reduction_of(&a->x.type.shape, &a->attrs.axes);
    return (sl_split){axes_elements(&r.stay) * r.blocks, grain_of(r.width * r.count), 0};
}

/* Reduces n adjacent elements to one. */
static void fold_run(sl_dtype dtype, fold kind, const char *x, int64_t n, wide *into) {
    const int64_t unit = unit_of(dtype);
    wide values[2 * MOST_WIDTH];
    for (int64_t first = 0; first < n; first += MOST_WIDTH) {
        const int64_t count = least(MOST_WIDTH, n - first);
        widen(dtype, x + (size_t)first * size_of(dtype), count, values);
        for (int64_t i = 0; i < count; i++) fold_wide(dtype, kind, into, values + i * unit, 1);
    }
}

/* Sums f32 elements with vectors. */
static void sum_floats(const float *x, int64_t n, wide *into) {
    for (int64_t first = 0; first < n; first += CHUNK)
        into->real += (double)vtotal(x + first, least(CHUNK, n - first));
}
static void extreme_floats(const float *x, int64_t n, bool most, wide *into) {
    const vf sign = vsplat(most ? 1.0f : -1.0f);
    vf best = vsplat(-INFINITY);
    vi bad = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vf values = vload(x + i);
        bad |= values != values;
        best = vmax(values * sign, best);
    }
    const float found = most ? vmost(best) : -vmost(best);
    double result = (double)found;
    for (int lane = 0; lane < LANES; lane++)
        if (bad[lane]) result = (double)NAN;
    for (; i < n; i++)
        result = most ? larger_real(result, (double)x[i]) : smaller_real(result, (double)x[i]);
    into->real = most ? larger_real(into->real, result) : smaller_real(into->real, result);
}

static void reduce_run(sl_dtype dtype, fold kind, const char *x, int64_t n, wide *into) {
    const float *floats = (const float *)(const void *)x;
    if (dtype == SL_DTYPE_f32 && kind == FOLD_ADD)
        sum_floats(floats, n, into);
    else if (dtype == SL_DTYPE_f32 && kind != FOLD_MUL)
        extreme_floats(floats, n, kind == FOLD_MAX, into);
    else
        fold_run(dtype, kind, x, n, into);
}

static void divide(sl_dtype dtype, wide *sums, int64_t n, int64_t count) {
    for (int64_t i = 0; i < n * unit_of(dtype); i++) {
        if (is_real(dtype))
            sums[i].real /= (double)count;
        else if (dtype == SL_DTYPE_u64)
            sums[i].integer = (int64_t)((uint64_t)sums[i].integer / (uint64_t)count);
        else
            sums[i].integer /= count;
    }
}

static void reduce(const sl_reduce_sum_args *a, int64_t begin, int64_t end, fold kind, bool mean) {
    const reduction r = reduction_of(&a->x.type.shape, &a->attrs.axes);
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    for (int64_t item = begin; item < end; item++) {
        const int64_t outer = item / r.blocks, column = item % r.blocks * r.width;
        const int64_t width = least(r.width, r.columns - column);
        const int64_t first = axes_offset(&r.stay, outer) + column;
        wide result[2 * MOST_WIDTH], values[2 * MOST_WIDTH];
        start_fold(dtype, kind, result, width);
        for (int64_t i = 0; i < r.runs; i++) {
            const char *x =
                (const char *)a->x.data + (size_t)(first + axes_offset(&r.go, i)) * bytes;
            if (r.columns == 1) {
                reduce_run(dtype, kind, x, r.run, result);
                continue;
            }
            widen(dtype, x, width, values);
            fold_wide(dtype, kind, result, values, width);
        }
        if (mean) divide(dtype, result, width, r.count);
        narrow(dtype, result, width,
               (char *)a->out.data + (size_t)(outer * r.columns + column) * bytes);
    }
}

/* All reductions use the same code. */
_Static_assert(sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_mean_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_max_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_min_args) &&
                   sizeof(sl_reduce_sum_args) == sizeof(sl_reduce_prod_args),
               "reductions share their arguments");
#define REDUCTION(OP, HOW, MEAN)                                                                   \
    SPLIT(OP) {                                                                                    \
        return split_reduction(args);                                                              \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        reduce(args, begin, end, HOW, MEAN);                                                       \
        return SL_OK;                                                                              \
    }
REDUCTION(reduce_sum, FOLD_ADD, false)
REDUCTION(reduce_mean, FOLD_ADD, true)
REDUCTION(reduce_max, FOLD_MAX, false)
REDUCTION(reduce_min, FOLD_MIN, false)
REDUCTION(reduce_prod, FOLD_MUL, false)

/* ---- gradient of max and min: an item is one element of y ---- */

static void split_axes(const sl_dims *x, const sl_dims *reduced, axes *stay, axes *go) {
    bool gone[SL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < reduced->rank; i++) gone[sl_axis(reduced->dims[i], x->rank)] = true;
    *stay = *go = (axes){0};
    for (uint32_t i = 0; i < x->rank; i++)
        push_axis(gone[i] ? go : stay, x->dims[i], sl_dims_tail(x, i + 1));
}

SPLIT(reduce_max_backward) {
    const sl_reduce_max_backward_args *a = args;
    const int64_t items = sl_type_elements(&a->y.type);
    return (sl_split){items, grain_of(sl_type_elements(&a->x.type) / items * 4), 0};
}
RUN(reduce_max_backward) {
    const sl_reduce_max_backward_args *a = args;
    const sl_dtype dtype = a->x.type.dtype;
    const size_t bytes = size_of(dtype);
    axes stay, go;
    split_axes(&a->x.type.shape, &a->attrs.axes, &stay, &go);
    const int64_t count = axes_elements(&go);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = axes_offset(&stay, item);
        wide y, share, x, nothing = {.real = 0};
        int64_t ties = 0;
        widen(dtype, (const char *)a->y.data + (size_t)item * bytes, 1, &y);
        widen(dtype, (const char *)a->dy.data + (size_t)item * bytes, 1, &share);
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < count; i++) {
                const size_t at = (size_t)(first + axes_offset(&go, i)) * bytes;
                widen(dtype, (const char *)a->x.data + at, 1, &x);
                const bool chosen = x.real == y.real || (isnan(x.real) && isnan(y.real));
                ties += pass == 0 && chosen;
                if (pass) narrow(dtype, chosen ? &share : &nothing, 1, (char *)a->out.data + at);
            }
            if (pass == 0) share.real /= (double)ties;
        }
    }
    return SL_OK;
}
