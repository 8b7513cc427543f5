/* rope_apply.c - RoPE with angles from operands or from grid positions. */
#include "core/rope_apply.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/reals.h"
#include "runtime/cpu/kernels/rope.h"

enum { ROWS = 32 }; /* rows of an item */

typedef struct {
    sl_dtype dtype;
    const void *x, *cos, *sin;
    void *out;
    int64_t width, pairs; /* elements of a row; rotated pairs */
    bool interleaved, back;
    const sl_integers *sections; /* mrope only, else NULL */
    bool striped;
    int64_t kinds, plane; /* number of tables, and elements of each */
} turning;

#define REAL     float
#define NAMED(x) x##_f32
#include "runtime/cpu/kernels/rope_apply_row.h"
#undef REAL
#undef NAMED
#define REAL     double
#define NAMED(x) x##_f64
#include "runtime/cpu/kernels/rope_apply_row.h" /* NOLINT: once per REAL */

/* ---- rope_apply with tables: an item is ROWS rows ---- */

/* x, the tables and the output. */
typedef struct {
    const sl_cview *x, *cos, *sin;
    const sl_view *out;
} operands;

static sl_split split_rows(const sl_type *x) {
    const int64_t width = last_dim(x);
    return (sl_split){parts_of(rows_of(x), ROWS), grain_of(ROWS * width), /* x, out, cos, sin */
                      (size_t)(3 * width) * sizeof(double)};
}

/* Offset in a table of the row that belongs to a row of x; the table's first `skip` dims are not
 * batch dims. */
static int64_t table_row(const sl_dims *x, const sl_dims *table, uint32_t skip, int64_t row) {
    int64_t at = 0, stride = table->dims[table->rank - 1];
    for (uint32_t back = 2; back + skip <= table->rank; back++) {
        const int64_t size = table->dims[table->rank - back], whole = x->dims[x->rank - back];
        if (size != 1) at += row % whole * stride;
        row /= whole;
        stride *= size;
    }
    return at;
}

static void run_rows(const operands *o, turning t, int64_t begin, int64_t end, void *scratch) {
    const sl_type *x = &o->x->type, *table = &o->cos->type;
    t.dtype = x->dtype, t.x = o->x->data, t.cos = o->cos->data, t.sin = o->sin->data;
    t.out = o->out->data, t.width = last_dim(x);
    t.kinds = t.sections ? dim(table, 0) : 1;
    t.plane = sl_type_elements(table) / t.kinds;
    for (int64_t row = begin * ROWS; row < least(end * ROWS, rows_of(x)); row++) {
        const int64_t at = table_row(&x->shape, &table->shape, t.sections != NULL, row);
        if (t.dtype == SL_DTYPE_f64)
            turn_one_f64(&t, row, at, scratch);
        else
            turn_one_f32(&t, row, at, scratch);
    }
}

#define ROPE(OP, X, OUT, BACK)                                                                     \
    SPLIT(OP) {                                                                                    \
        return split_rows(&((const sl_##OP##_args *)args)->X.type);                                \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        const uint32_t rotary = a->attrs.rotary;                                                   \
        run_rows(&(operands){&a->X, &a->cos, &a->sin, &a->OUT},                                    \
                 (turning){.pairs = rotary ? rotary / 2 : last_dim(&a->cos.type),                  \
                           .interleaved = a->attrs.interleaved,                                    \
                           .back = BACK},                                                          \
                 begin, end, worker->scratch);                                                     \
        return SL_OK;                                                                              \
    }
ROPE(rope_apply, x, out, false)
ROPE(rope_apply_backward, dout, dx, true)

SPLIT(rope_apply_f32) {
    const sl_type *x = &((const sl_rope_apply_args *)args)->x.type;
    return (sl_split){parts_of(rows_of(x), ROWS), grain_of(ROWS * last_dim(x)), 0};
}
RUN(rope_apply_f32) {
    const sl_rope_apply_args *a = args;
    const int64_t width = last_dim(&a->x.type), last = least(end * ROWS, rows_of(&a->x.type));
    const head_turn turn =
        head_turn_of(&a->cos, &a->sin, width, a->attrs.rotary, a->attrs.interleaved);
    for (int64_t row = begin * ROWS; row < last; row++)
        rope_head(&turn, table_row(&a->x.type.shape, &a->cos.type.shape, 0, row),
                  (const float *)a->x.data + row * width, (float *)a->out.data + row * width);
    return SL_OK;
}

#define MROPE(OP, X, OUT, BACK)                                                                    \
    SPLIT(OP) {                                                                                    \
        return split_rows(&((const sl_##OP##_args *)args)->X.type);                                \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        run_rows(&(operands){&a->X, &a->cos, &a->sin, &a->OUT},                                    \
                 (turning){.pairs = last_dim(&a->cos.type),                                        \
                           .interleaved = a->attrs.interleaved,                                    \
                           .back = BACK,                                                           \
                           .sections = &a->attrs.sections,                                         \
                           .striped = a->attrs.striped},                                           \
                 begin, end, worker->scratch);                                                     \
        return SL_OK;                                                                              \
    }
MROPE(mrope, x, out, false)
MROPE(mrope_backward, dout, dx, true)

/* ---- rope_tables: an item is ROWS positions ---- */

SPLIT(rope_tables) {
    const sl_rope_tables_args *a = args;
    const int64_t width = dim(&a->frequencies.type, 0);
    return (sl_split){parts_of(sl_type_elements(&a->positions.type), ROWS),
                      grain_of(ROWS * width * 64), (size_t)(3 * width) * sizeof(double)};
}

static double position_at(const sl_cview *view, int64_t i) {
    switch (view->type.dtype) {
    case SL_DTYPE_i32:
        return (double)((const int32_t *)view->data)[i];
    case SL_DTYPE_i64:
        return (double)((const int64_t *)view->data)[i];
    case SL_DTYPE_f64:
        return ((const double *)view->data)[i];
    default:
        return (double)element_f32(view->type.dtype, view->data, i);
    }
}

RUN(rope_tables) {
    const sl_rope_tables_args *a = args;
    const sl_dtype dtype = a->frequencies.type.dtype;
    const int64_t width = dim(&a->frequencies.type, 0);
    const int64_t last = least(end * ROWS, sl_type_elements(&a->positions.type));
    const double magnitude = a->attrs.magnitude != 0 ? (double)a->attrs.magnitude : 1;
    double *frequencies = worker->scratch, *cosines = frequencies + width;
    double *sines = cosines + width;
    sl_decode_f64(dtype, a->frequencies.data, width, frequencies);
    for (int64_t i = begin * ROWS; i < last; i++) {
        const double position = position_at(&a->positions, i);
        const size_t at = (size_t)(i * width) * sl_dtype_infos[dtype].bytes;
        for (int64_t j = 0; j < width; j++) {
            cosines[j] = magnitude * cos(position * frequencies[j]);
            sines[j] = magnitude * sin(position * frequencies[j]);
        }
        sl_encode_f64(dtype, cosines, width, (char *)a->cos.data + at);
        sl_encode_f64(dtype, sines, width, (char *)a->sin.data + at);
    }
    return SL_OK;
}

/* ---- axial_rope2d: an item is a token, in all batches and heads ---- */

typedef struct {
    const sl_cview *x;
    const sl_view *out;
    int64_t width, height;
    double theta, sign;
} grid;

static sl_split split_tokens(const sl_type *x) {
    const int64_t tokens = dim(x, x->shape.rank - 2), dims = last_dim(x);
    return (sl_split){tokens, grain_of(sl_type_elements(x) / tokens + dims * 64),
                      (size_t)(3 * dims) * sizeof(double)};
}

/* Cosines and sines of a token's dims / 2 pairs. */
static void angles_of(const grid *g, int64_t token, int64_t dims, double *cosines, double *sines) {
    for (int64_t c = 0; c < dims / 4; c++) {
        const double frequency = pow(g->theta, -4.0 * (double)c / (double)dims);
        const double across = (double)(token % g->width) * frequency;
        const double down = (double)(token / g->width % g->height) * frequency;
        cosines[c] = cos(across), sines[c] = g->sign * sin(across);
        cosines[dims / 4 + c] = cos(down), sines[dims / 4 + c] = g->sign * sin(down);
    }
}

static void turn_token(const grid *g, int64_t token, double *scratch) {
    const sl_type *x = &g->x->type;
    const int64_t tokens = dim(x, x->shape.rank - 2), dims = last_dim(x);
    double *cosines = scratch, *sines = cosines + dims / 2, *row = sines + dims / 2;
    const size_t bytes = sl_dtype_infos[x->dtype].bytes;
    angles_of(g, token, dims, cosines, sines);
    for (int64_t at = token; at < rows_of(x); at += tokens) {
        const char *from = (const char *)g->x->data + (size_t)(at * dims) * bytes;
        sl_decode_f64(x->dtype, from, dims, row);
        for (int64_t j = 0; j < dims / 2; j++) {
            const double one = row[2 * j], other = row[2 * j + 1];
            row[2 * j] = one * cosines[j] - other * sines[j];
            row[2 * j + 1] = other * cosines[j] + one * sines[j];
        }
        sl_encode_f64(x->dtype, row, dims, (char *)g->out->data + (size_t)(at * dims) * bytes);
    }
}

#define AXIAL(OP, X, OUT, SIGN)                                                                    \
    SPLIT(OP) {                                                                                    \
        return split_tokens(&((const sl_##OP##_args *)args)->X.type);                              \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        const grid g = {&a->X, &a->OUT, a->attrs.width, a->attrs.height, (double)a->attrs.theta,   \
                        SIGN};                                                                     \
        for (int64_t token = begin; token < end; token++) turn_token(&g, token, worker->scratch);  \
        return SL_OK;                                                                              \
    }
AXIAL(axial_rope2d, x, out, 1)
AXIAL(axial_rope2d_backward, dout, dx, -1)
