/* elementwise.c - Elementwise f32 kernels.  An item is a block of BLOCK output elements.  An
 * element gives the same bits in a whole vector and in a partial last one. */
#include "runtime/cpu/kernels/elementwise.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"

enum { BLOCK = 1024 };

/* ---- unary ---- */

static sl_split split_elements(const sl_type *out, int64_t operations) {
    return (sl_split){parts_of(sl_type_elements(out), BLOCK), grain_of(BLOCK * operations), 0};
}

INLINE void unary(const sl_cview *x, const sl_view *out, int64_t begin, int64_t end,
                  vf apply(vf x, vf y, vf z)) {
    const int64_t first = begin * BLOCK, last = least(end * BLOCK, sl_type_elements(&out->type));
    const float *from = (const float *)x->data + first;
    float *to = (float *)out->data + first;
    FOR_VECTORS(i, n, last - first, {
        const vf v = vload_n(from + i, n);
        vstore_n(to + i, apply(v, v, v), n);
    });
}

#define UNARY(OP, OPERATIONS)                                                                      \
    SPLIT(OP) {                                                                                    \
        return split_elements(&((const sl_##OP##_args *)args)->out.type, OPERATIONS);              \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        unary(&a->x, &a->out, begin, end, apply_##OP);                                             \
        return SL_OK;                                                                              \
    }

UNARY(neg, 1)
UNARY(abs, 1)
UNARY(relu, 1)
UNARY(exp, 4)
UNARY(log, 16)
UNARY(sqrt, 2)
UNARY(rsqrt, 4)
UNARY(tanh, 16)
UNARY(sigmoid, 4)
UNARY(silu, 4)
UNARY(gelu, 16)

/* ---- binary, with broadcasting ---- */

/* Output element e is in row e / cols.  Within a row an operand has stride 0 or 1; the offset of
 * its row is a sum over the outer dims. */
typedef struct {
    const float *data;
    int64_t step;
    int64_t strides[SL_MAX_RANK]; /* per outer dim; 0 where broadcast */
} source;

static source source_of(const sl_cview *view, const sl_dims *out) {
    const sl_dims *shape = &view->type.shape;
    source s = {.data = view->data, .step = sl_type_elements(&view->type) > 1};
    if (out->rank == 1) return s;
    int64_t stride = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const uint32_t from = shape->rank - 1 - i, to = out->rank - 1 - i;
        s.strides[to] = shape->dims[from] == 1 ? 0 : stride;
        stride *= shape->dims[from];
    }
    s.step = s.strides[out->rank - 1];
    return s;
}

static const float *source_row(const source *s, const sl_dims *out, int64_t row) {
    int64_t offset = 0;
    for (uint32_t i = out->rank - 1; i-- > 0;) {
        offset += row % out->dims[i] * s->strides[i];
        row /= out->dims[i];
    }
    return s->data + offset;
}

INLINE vf source_load(const float *row, int64_t step, int64_t at, int64_t n) {
    return step ? vload_n(row + at, n) : vsplat(row[0]);
}

/* The output's shape, of rank at least 1; flattened to one row if nothing is broadcast. */
static sl_dims binary_shape(const sl_cview *x, const sl_cview *y, const sl_view *out) {
    sl_dims shape = out->type.shape;
    if (shape.rank &&
        !(sl_dims_equal(&x->type.shape, &shape) && sl_dims_equal(&y->type.shape, &shape)))
        return shape;
    return (sl_dims){1, {sl_type_elements(&out->type)}};
}

INLINE void binary(const sl_cview *x, const sl_cview *y, const sl_view *out, int64_t begin,
                   int64_t end, vf apply(vf x, vf y, vf z)) {
    const sl_dims shape = binary_shape(x, y, out);
    const int64_t cols = shape.dims[shape.rank - 1];
    const int64_t last = least(end * BLOCK, sl_type_elements(&out->type));
    const source a = source_of(x, &shape), b = source_of(y, &shape);
    for (int64_t e = begin * BLOCK; e < last;) {
        const int64_t row = e / cols, col = e % cols, run = least(cols - col, last - e);
        const float *pa = source_row(&a, &shape, row) + col * a.step;
        const float *pb = source_row(&b, &shape, row) + col * b.step;
        float *to = (float *)out->data + e;
        FOR_VECTORS(i, n, run, {
            const vf v = source_load(pa, a.step, i, n), w = source_load(pb, b.step, i, n);
            vstore_n(to + i, apply(v, w, w), n);
        });
        e += run;
    }
}

/* Integers use the same vector registers; arithmetic wraps. */
#define APPLY(FN, ...)                                                                             \
    INLINE vf apply_##FN(vf x, vf y, vf z) {                                                       \
        (void)z;                                                                                   \
        return __VA_ARGS__;                                                                        \
    }
APPLY(add_i32, (vf)((vu)x + (vu)y))
APPLY(sub_i32, (vf)((vu)x - (vu)y))
APPLY(mul_i32, (vf)((vu)x *(vu)y))
APPLY(maximum_i32, choose((vi)x > (vi)y, (vi)x, (vi)y))
APPLY(minimum_i32, choose((vi)x < (vi)y, (vi)x, (vi)y))
#undef APPLY

#define BINARY(OP, FN, APPLY, X, Y, OPERATIONS)                                                    \
    SPLIT(FN) {                                                                                    \
        return split_elements(&((const sl_##OP##_args *)args)->out.type, OPERATIONS);              \
    }                                                                                              \
    RUN(FN) {                                                                                      \
        const sl_##OP##_args *a = args;                                                            \
        binary(&a->X, &a->Y, &a->out, begin, end, apply_##APPLY);                                  \
        return SL_OK;                                                                              \
    }

BINARY(add, add_f32, add, a, b, 1)
BINARY(sub, sub_f32, sub, a, b, 1)
BINARY(mul, mul_f32, mul, a, b, 1)
BINARY(div, div_f32, div, a, b, 2)
BINARY(maximum, maximum_f32, maximum, a, b, 1)
BINARY(minimum, minimum_f32, minimum, a, b, 1)
BINARY(sigmoid_gate, sigmoid_gate, sigmoid_gate, x, gate, 4)
BINARY(swiglu, swiglu, swiglu, gate, up, 4)
BINARY(add, add_i32, add_i32, a, b, 1)
BINARY(sub, sub_i32, sub_i32, a, b, 1)
BINARY(mul, mul_i32, mul_i32, a, b, 1)
BINARY(maximum, maximum_i32, maximum_i32, a, b, 1)
BINARY(minimum, minimum_i32, minimum_i32, a, b, 1)

/* ---- add3, which does not broadcast ---- */

SPLIT(add3) {
    return split_elements(&((const sl_add3_args *)args)->out.type, 1);
}
RUN(add3) {
    const sl_add3_args *p = args;
    const int64_t first = begin * BLOCK, last = least(end * BLOCK, sl_type_elements(&p->out.type));
    const float *a = (const float *)p->a.data + first, *b = (const float *)p->b.data + first;
    const float *c = (const float *)p->c.data + first;
    float *out = (float *)p->out.data + first;
    FOR_VECTORS(i, n, last - first, {
        const vf sum = vload_n(a + i, n) + vload_n(b + i, n);
        vstore_n(out + i, sum + vload_n(c + i, n), n);
    });
    return SL_OK;
}
