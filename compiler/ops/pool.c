/* pool.c - Pooling and its gradients. */
#include "core/pool.h"
#include "compiler/ops/windows.h"
#include <math.h>

/* Taps in padding cost time as all others do: their number must be in proportion to the input. */
static sl_status check_taps(const char *label, const int64_t *kernel, const int64_t *in,
                            uint32_t rank, sl_error *err) {
    enum { FREE_TAPS = 1 << 16, TAPS_PER_PLACE = 8 };
    double taps = 1, places = 1;
    for (uint32_t i = 0; i < rank; i++) {
        taps *= (double)kernel[i];
        places *= (double)in[i];
    }
    const double most = places * TAPS_PER_PLACE > FREE_TAPS ? places * TAPS_PER_PLACE : FREE_TAPS;
    if (taps <= most) return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%s: a window has %.0f taps, must have at most %.0f with %.0f positions of the "
                   "input",
                   label, taps, most, places);
}

/* Checks x and the attributes; places: the number of windows along each axis. */
static sl_status check_pool(const sl_infer_args *a, uint32_t classes, int64_t *places,
                            sl_error *err) {
    const sl_pool_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].shape;
    SL_TRY(sl_check_class(a, 0, "x", classes, err));
    SL_TRY(sl_check_rank(a, 0, "x", 3, 2 + SL_MAX_SPATIAL, err));
    SL_TRY(sl_check_attr(a->label, "ceil", attrs->ceil, 0, 1, err));
    SL_TRY(sl_check_spatial(a->label, "kernel", &attrs->kernel, x->rank - 2, 1, err));
    SL_TRY(check_taps(a->label, attrs->kernel.items, x->dims + 2, x->rank - 2, err));
    const sl_window_spec spec = {
        a->label,    x->rank - 2, SL_WINDOW_LISTS(attrs), attrs->kernel.items,
        x->dims + 2, attrs->ceil};
    return sl_check_windows(&spec, places, err);
}

static sl_status infer_pool(const sl_infer_args *a, uint32_t classes, sl_error *err) {
    sl_type out = a->in[0];
    if (out.shape.rank > SL_MAX_RANK) out.shape.rank = 0; /* check_pool rejects it */
    SL_TRY(check_pool(a, classes, out.shape.dims + 2, err));
    a->out[0] = out;
    return SL_OK;
}

static sl_window window_of(const sl_eval_args *a, const sl_type *x, const sl_type *y) {
    const sl_pool_attrs *attrs = a->attrs;
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    return sl_window_of(&lists, attrs->kernel.items, x, y);
}

/* ---- reduction of a window: reals, or integers modulo 2^64 ---- */

typedef struct {
    double real;
    int64_t whole;
} number;
typedef struct {
    number (*start)(sl_dtype dtype);
    number (*join)(sl_dtype dtype, number a, number b);
} fold;

static bool is_real(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_FLOAT;
}
static bool is_less(sl_dtype dtype, int64_t a, int64_t b) {
    return dtype == SL_DTYPE_u64 ? (uint64_t)a < (uint64_t)b : a < b;
}
static number least_of(sl_dtype dtype) {
    const uint32_t bits = sl_dtype_infos[dtype].bytes * 8;
    const bool is_signed = sl_dtype_infos[dtype].name[0] == 'i';
    return (number){-INFINITY, is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0};
}
static number greatest_of(sl_dtype dtype) {
    return (number){INFINITY, sl_wrap_integer(dtype, ~least_of(dtype).whole)};
}
static number zero_of(sl_dtype dtype) {
    (void)dtype;
    return (number){0, 0};
}
static number one_of(sl_dtype dtype) {
    (void)dtype;
    return (number){1, 1};
}
static number larger(sl_dtype dtype, number a, number b) {
    return (number){isnan(a.real) || a.real >= b.real ? a.real : b.real,
                    is_less(dtype, a.whole, b.whole) ? b.whole : a.whole};
}
static number smaller(sl_dtype dtype, number a, number b) {
    return (number){isnan(a.real) || a.real <= b.real ? a.real : b.real,
                    is_less(dtype, b.whole, a.whole) ? b.whole : a.whole};
}
static number sum(sl_dtype dtype, number a, number b) {
    (void)dtype;
    return (number){a.real + b.real, (int64_t)((uint64_t)a.whole + (uint64_t)b.whole)};
}
static number product(sl_dtype dtype, number a, number b) {
    (void)dtype;
    return (number){a.real * b.real, (int64_t)((uint64_t)a.whole * (uint64_t)b.whole)};
}

static sl_status eval_pool(const sl_eval_args *a, const fold *f, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_type *type = &a->out[0].type;
    const sl_dtype dtype = type->dtype;
    const sl_window w = window_of(a, &a->in[0].type, type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        number all = f->start(dtype);
        for (int64_t k = 0; k < sl_window_taps(&w); k++) {
            const int64_t place = sl_window_place(&w, i % outs, k);
            if (place < 0) continue;
            const double *at = &x[i / outs * ins + place];
            const number each = {is_real(dtype) ? *at : 0,
                                 is_real(dtype) ? 0 : sl_slot_integer(dtype, at)};
            all = f->join(dtype, all, each);
        }
        if (is_real(dtype))
            a->out[0].data[i] = all.real;
        else
            sl_slot_set_integer(dtype, &a->out[0].data[i], sl_wrap_integer(dtype, all.whole));
    }
    return SL_OK;
}

#define POOL(NAME, START, JOIN)                                                                    \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        return infer_pool(a, SL_NUMBERS, err);                                                     \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        return eval_pool(a, &(const fold){START, JOIN}, err);                                      \
    }
POOL(pool_max, least_of, larger)
POOL(pool_min, greatest_of, smaller)
POOL(pool_sum, zero_of, sum)
POOL(pool_prod, one_of, product)
#undef POOL

/* ---- means ---- */

sl_status sl_infer_pool_mean(const sl_infer_args *a, sl_error *err) {
    const sl_pool_mean_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "include_pad", attrs->include_pad, 0, 1, err));
    return infer_pool(a, SL_FLOATS, err);
}

/* The number of taps of window o that are inside x, or inside its padding if `padding`. */
static int64_t taps_counted(const sl_window *w, int64_t o, bool padding) {
    int64_t count = 1;
    for (int axis = SL_MAX_SPATIAL - 1; axis >= 0; axis--) {
        int64_t inside = 0;
        for (int64_t k = 0; k < w->kernel[axis]; k++) {
            const int64_t at = sl_window_at(w, axis, o % w->out[axis], k);
            inside += padding ? at < w->in[axis] + w->after[axis] : at >= 0 && at < w->in[axis];
        }
        count *= inside;
        o /= w->out[axis];
    }
    return count;
}

sl_status sl_eval_pool_mean(const sl_eval_args *a, sl_error *err) {
    const sl_pool_mean_attrs *attrs = a->attrs;
    SL_TRY(eval_pool(a, &(const fold){zero_of, sum}, err));
    const sl_window w = window_of(a, &a->in[0].type, &a->out[0].type);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        a->out[0].data[i] /= (double)taps_counted(&w, i % sl_window_outs(&w), attrs->include_pad);
    return SL_OK;
}

sl_status sl_infer_lp_pool(const sl_infer_args *a, sl_error *err) {
    const sl_lp_pool_attrs *attrs = a->attrs;
    if (!(attrs->p > 0) || isinf(attrs->p))
        return sl_fail(err, SL_INVALID, "%s: p is %g, must be positive", a->label,
                       (double)attrs->p);
    return infer_pool(a, SL_FLOATS, err);
}

sl_status sl_eval_lp_pool(const sl_eval_args *a, sl_error *err) {
    const sl_lp_pool_attrs *attrs = a->attrs;
    const double *x, p = (double)attrs->p;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_window w = window_of(a, &a->in[0].type, &a->out[0].type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        double all = 0;
        for (int64_t k = 0; k < sl_window_taps(&w); k++) {
            const int64_t place = sl_window_place(&w, i % outs, k);
            if (place >= 0) all += pow(fabs(x[i / outs * ins + place]), p);
        }
        a->out[0].data[i] = pow(all, 1 / p);
    }
    return SL_OK;
}

/* ---- max_pool_indices, and gradients ---- */

/* Position of the first maximum of window o in a channel; -1 if the window is empty. */
static int64_t largest_place(const sl_window *w, sl_dtype dtype, const double *x, int64_t o) {
    int64_t best = -1;
    for (int64_t k = 0; k < sl_window_taps(w); k++) {
        const int64_t place = sl_window_place(w, o, k);
        if (place < 0) continue;
        const bool above =
            best < 0 || (is_real(dtype) ? x[place] > x[best] || (isnan(x[place]) && !isnan(x[best]))
                                        : is_less(dtype, sl_slot_integer(dtype, &x[best]),
                                                  sl_slot_integer(dtype, &x[place])));
        if (above) best = place;
    }
    return best;
}

/* A position counted with the first spatial axis fastest. */
static int64_t column_major(const sl_window *w, int64_t place) {
    const int64_t c = place % w->in[2], b = place / w->in[2] % w->in[1];
    return place / w->in[2] / w->in[1] + w->in[0] * (b + w->in[1] * c);
}

sl_status sl_infer_max_pool_indices(const sl_infer_args *a, sl_error *err) {
    const sl_max_pool_indices_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "column_major", attrs->column_major, 0, 1, err));
    SL_TRY(infer_pool(a, SL_NUMBERS, err));
    a->out[0].dtype = SL_DTYPE_i64;
    return SL_OK;
}

sl_status sl_eval_max_pool_indices(const sl_eval_args *a, sl_error *err) {
    const sl_max_pool_indices_attrs *attrs = a->attrs;
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_window w = window_of(a, &a->in[0].type, &a->out[0].type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const int64_t first = i / outs * ins;
        const int64_t place = largest_place(&w, a->in[0].type.dtype, x + first, i % outs);
        const int64_t counted = attrs->column_major && place >= 0 ? column_major(&w, place) : place;
        sl_slot_set_integer(SL_DTYPE_i64, &a->out[0].data[i], place < 0 ? -1 : first + counted);
    }
    return SL_OK;
}

sl_status sl_infer_pool_max_backward(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_alike(a, 2, (const char *const[]){"x", "dy"}, SL_FLOATS, err));
    SL_TRY(infer_pool(a, SL_FLOATS, err));
    SL_TRY(sl_check_shape(a, 1, "dy", &a->out[0].shape, "as the result of pool_max", err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_pool_max_backward(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_window w = window_of(a, &a->in[0].type, &a->in[1].type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) a->out[0].data[i] = 0;
    for (int64_t i = 0; i < sl_type_elements(&a->in[1].type); i++) {
        const int64_t first = i / outs * ins;
        const int64_t place = largest_place(&w, a->in[0].type.dtype, in[0] + first, i % outs);
        if (place >= 0) a->out[0].data[first + place] += in[1][i];
    }
    return SL_OK;
}

sl_status sl_infer_pool_mean_backward(const sl_infer_args *a, sl_error *err) {
    const sl_pool_mean_backward_attrs *attrs = a->attrs;
    SL_TRY(sl_check_class(a, 0, "dy", SL_FLOATS, err));
    SL_TRY(sl_check_rank(a, 0, "dy", 3, 2 + SL_MAX_SPATIAL, err));
    SL_TRY(sl_check_attr(a->label, "include_pad", attrs->include_pad, 0, 1, err));
    sl_type x = a->in[0], y = x;
    SL_TRY(sl_check_spatial(a->label, "places", &attrs->places, x.shape.rank - 2, 1, err));
    for (uint32_t i = 2; i < x.shape.rank; i++) x.shape.dims[i] = attrs->places.items[i - 2];
    const sl_infer_args forward = {a->label, &x, attrs, &y, 1, 1};
    SL_TRY(infer_pool(&forward, SL_FLOATS, err));
    SL_TRY(sl_check_shape(a, 0, "dy", &y.shape, "as the result of pool_mean", err));
    a->out[0] = x;
    return SL_OK;
}

sl_status sl_eval_pool_mean_backward(const sl_eval_args *a, sl_error *err) {
    const sl_pool_mean_backward_attrs *attrs = a->attrs;
    const double *dy;
    SL_TRY(sl_eval_inputs(a, 1, &dy, err));
    const sl_window w = window_of(a, &a->out[0].type, &a->in[0].type);
    const int64_t outs = sl_window_outs(&w), ins = sl_window_ins(&w);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) a->out[0].data[i] = 0;
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++)
        for (int64_t k = 0; k < sl_window_taps(&w); k++) {
            const int64_t place = sl_window_place(&w, i % outs, k);
            if (place >= 0)
                a->out[0].data[i / outs * ins + place] +=
                    dy[i] / (double)taps_counted(&w, i % outs, attrs->include_pad);
        }
    return SL_OK;
}
