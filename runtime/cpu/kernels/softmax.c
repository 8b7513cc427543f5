/* softmax.c - Softmax and log-softmax over one axis, and their gradients.  An item is a row if the
 * axis is the last, else some adjacent lines.  f16 and bf16 are computed in f32. */
#include "core/ops.h"
#include "runtime/cpu/kernels/vmath.h"
#include "runtime/cpu/kernels/wide.h"

/* Operands of all four ops. */
typedef struct {
    sl_cview first, second; /* x; or y and dy for gradients */
    sl_view out;
    int64_t axis;
} operands;

typedef struct {
    int64_t count, stride; /* elements of a line, and their stride */
    int64_t block, blocks; /* lines per item, and items per outer index */
    int64_t items;
} lines;

enum { MOST_LINES = 16 };

static lines lines_of(const sl_type *type, int64_t given) {
    const uint32_t axis = sl_axis(given, type->shape.rank);
    lines l = {type->shape.dims[axis], sl_dims_tail(&type->shape, axis + 1), 0, 0, 0};
    l.block = least(l.stride, MOST_LINES);
    l.blocks = parts_of(l.stride, l.block);
    l.items = sl_type_elements(type) / l.count / l.stride * l.blocks;
    return l;
}

/* ---- one contiguous line ---- */

typedef void floats_fn(const float *first, const float *second, float *out, int64_t n);
typedef void doubles_fn(const double *first, const double *second, double *out, int64_t n);

static void softmax_floats(const float *x, const float *none, float *out, int64_t n) {
    (void)none;
    memmove(out, x, (size_t)n * sizeof *out);
    const float sum = vsoftmax_terms(out, n);
    FOR_VECTORS(i, count, n, vstore_n(out + i, vload_n(out + i, count) / vsplat(sum), count););
}

static void log_softmax_floats(const float *x, const float *none, float *out, int64_t n) {
    (void)none;
    const vf most = vsplat(vlargest(x, n));
    memmove(out, x, (size_t)n * sizeof *out);
    const vf shift = vsplat((float)log((double)vsoftmax_terms(out, n)));
    FOR_VECTORS(i, count, n, vstore_n(out + i, (vload_n(x + i, count) - most) - shift, count););
}

/* Sum of a[i] * b[i], or of b[i] if a is NULL. */
static double long_dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i += 1024)
        sum += (double)(a ? vdot(a + i, b + i, least(1024, n - i))
                          : vtotal(b + i, least(1024, n - i)));
    return sum;
}

static void softmax_backward_floats(const float *y, const float *dy, float *out, int64_t n) {
    const vf sum = vsplat((float)long_dot(y, dy, n));
    FOR_VECTORS(i, count, n,
                vstore_n(out + i, vload_n(y + i, count) * (vload_n(dy + i, count) - sum), count););
}

static void log_softmax_backward_floats(const float *y, const float *dy, float *out, int64_t n) {
    const vf sum = vsplat((float)long_dot(NULL, dy, n));
    FOR_VECTORS(
        i, count, n,
        vstore_n(out + i, vload_n(dy + i, count) - vexp(vload_n(y + i, count)) * sum, count););
}

static double largest_double(const double *x, int64_t n) {
    double most = x[0];
    for (int64_t i = 1; i < n; i++) most = larger_real(most, x[i]);
    return most;
}

static void softmax_doubles(const double *x, const double *none, double *out, int64_t n) {
    (void)none;
    const double most = largest_double(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += out[i] = exp(x[i] - most);
    for (int64_t i = 0; i < n; i++) out[i] /= sum;
}

static void log_softmax_doubles(const double *x, const double *none, double *out, int64_t n) {
    (void)none;
    const double most = largest_double(x, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - most);
    /* cppcheck-suppress invalidFunctionArg ; one of the terms is 1 */
    const double shift = log(sum);
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - most - shift;
}

static void softmax_backward_doubles(const double *y, const double *dy, double *out, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += y[i] * dy[i];
    for (int64_t i = 0; i < n; i++) out[i] = y[i] * (dy[i] - sum);
}

static void log_softmax_backward_doubles(const double *y, const double *dy, double *out,
                                         int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += dy[i];
    for (int64_t i = 0; i < n; i++) out[i] = dy[i] - exp(y[i]) * sum;
}

/* ---- lines of a tensor ---- */

/* Reads `width` adjacent lines from `at` on as floats or doubles, one line after another. */
static void load_lines(const sl_cview *from, const lines *l, int64_t at, int64_t width, void *to) {
    const sl_dtype dtype = from->type.dtype;
    const size_t bytes = size_of(dtype);
    wide row[MOST_LINES];
    for (int64_t j = 0; j < l->count; j++) {
        widen(dtype, (const char *)from->data + (size_t)(at + j * l->stride) * bytes, width, row);
        for (int64_t c = 0; c < width; c++) {
            if (dtype == SL_DTYPE_f64)
                ((double *)to)[c * l->count + j] = row[c].real;
            else
                ((float *)to)[c * l->count + j] = (float)row[c].real;
        }
    }
}

static void store_lines(const sl_view *to, const lines *l, int64_t at, int64_t width,
                        const void *from) {
    const sl_dtype dtype = to->type.dtype;
    const size_t bytes = size_of(dtype);
    wide row[MOST_LINES];
    for (int64_t j = 0; j < l->count; j++) {
        for (int64_t c = 0; c < width; c++)
            row[c].real = dtype == SL_DTYPE_f64 ? ((const double *)from)[c * l->count + j]
                                                : (double)((const float *)from)[c * l->count + j];
        narrow(dtype, row, width, (char *)to->data + (size_t)(at + j * l->stride) * bytes);
    }
}

/* Contiguous rows of f32 or f64 are computed without scratch. */
static bool is_direct(const operands *o, const lines *l) {
    const sl_dtype dtype = o->out.type.dtype;
    return l->stride == 1 && (dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_f64);
}

static sl_split split_lines(const operands *o) {
    const lines l = lines_of(&o->out.type, o->axis);
    const size_t line = (size_t)(l.count * l.block) * sizeof(double);
    return (sl_split){l.items, grain_of(l.count * l.block * 4), is_direct(o, &l) ? 0 : 3 * line};
}

/* The function of a line. */
typedef struct {
    floats_fn *floats;
    doubles_fn *doubles;
} function;

static void run_rows(const operands *o, const lines *l, const function *f, int64_t begin,
                     int64_t end) {
    const bool both = o->second.data != NULL;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row * l->count;
        if (o->out.type.dtype == SL_DTYPE_f64)
            f->doubles((const double *)o->first.data + at,
                       both ? (const double *)o->second.data + at : NULL,
                       (double *)o->out.data + at, l->count);
        else
            f->floats((const float *)o->first.data + at,
                      both ? (const float *)o->second.data + at : NULL, (float *)o->out.data + at,
                      l->count);
    }
}

static void run_lines(const operands *o, const function *f, int64_t begin, int64_t end,
                      void *scratch) {
    const lines l = lines_of(&o->out.type, o->axis);
    if (is_direct(o, &l)) {
        run_rows(o, &l, f, begin, end);
        return;
    }
    const bool both = o->second.data != NULL;
    double *first = scratch, *second = first + l.count * l.block;
    double *out = second + l.count * l.block;
    for (int64_t item = begin; item < end; item++) {
        const int64_t column = item % l.blocks * l.block, width = least(l.block, l.stride - column);
        const int64_t at = item / l.blocks * l.count * l.stride + column;
        load_lines(&o->first, &l, at, width, first);
        if (both) load_lines(&o->second, &l, at, width, second);
        for (int64_t c = 0; c < width; c++) {
            const int64_t line = c * l.count;
            if (o->out.type.dtype == SL_DTYPE_f64)
                f->doubles(first + line, second + line, out + line, l.count);
            else
                f->floats((const float *)first + line, (const float *)second + line,
                          (float *)out + line, l.count);
        }
        store_lines(&o->out, &l, at, width, out);
    }
}

#define OVER_AXIS(OP, ...)                                                                         \
    static operands OP##_operands(const sl_##OP##_args *a) {                                       \
        return (operands){__VA_ARGS__, a->out, a->attrs.axis};                                     \
    }                                                                                              \
    SPLIT(OP) {                                                                                    \
        const operands o = OP##_operands(args);                                                    \
        return split_lines(&o);                                                                    \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const operands o = OP##_operands(args);                                                    \
        run_lines(&o, &(const function){OP##_floats, OP##_doubles}, begin, end, worker->scratch);  \
        return SL_OK;                                                                              \
    }
OVER_AXIS(softmax, a->x, {.data = NULL})
OVER_AXIS(log_softmax, a->x, {.data = NULL})
OVER_AXIS(softmax_backward, a->y, a->dy)
OVER_AXIS(log_softmax_backward, a->y, a->dy)
