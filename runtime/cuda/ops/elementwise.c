/* elementwise.c - Elementwise ops on the types that models use. */
#include "runtime/cuda/kernels/elementwise.h"
#include "runtime/cuda/ops/strides.h"

/* ---- one operand ---- */

#define POINT(OP)                                                                                  \
    PLAN(OP) {                                                                                     \
        const sl_##OP##_args *a = args;                                                            \
        plan_unary(planner, SL_CUDA_FN(sl_##OP), &a->x, &a->out);                                  \
        return SL_OK;                                                                              \
    }
static void plan_unary(sl_gpu_planner *planner, sl_unary_fn function, const sl_cview *x,
                       const sl_view *out) {
    const int64_t count = sl_type_elements(&out->type);
    sl_unary launch = {.x = x->data, .out = out->data, .units = count};
    launch.vectors = count % VECTOR == 0 && is_aligned(x->data, VECTOR_BYTES) &&
                     is_aligned(out->data, VECTOR_BYTES);
    if (launch.vectors) launch.units /= VECTOR;
    ADD_PLAIN(planner, function, launch.units, launch);
}
SL_POINTS_1(POINT)
#undef POINT

/* ---- two operands ---- */

/* Whether an operand can be read as float4, or as one broadcast element per vector. */
static bool in_vectors(const sl_walk *w, const int64_t *strides, const void *data) {
    const int last = w->rank - 1;
    if (strides[last] == 0) return true;
    for (int i = 0; i < last; i++)
        if (strides[i] % VECTOR) return false;
    return strides[last] == 1 && is_aligned(data, VECTOR_BYTES);
}

static void plan_binary(sl_gpu_planner *planner, sl_binary_fn function, const sl_cview *x,
                        const sl_cview *y, const sl_view *out) {
    const sl_dims *shape = &out->type.shape;
    sl_binary launch = {.x = x->data, .y = y->data, .out = out->data};
    sl_walk *w = &launch.walk;
    for (uint32_t i = 0; i < shape->rank; i++)
        walk_push(w, shape->dims[i], broadcast_stride(&x->type.shape, shape, i),
                  broadcast_stride(&y->type.shape, shape, i));
    walk_end(w);
    const int last = w->rank - 1;
    launch.vectors = w->dims[last] % VECTOR == 0 && is_aligned(out->data, VECTOR_BYTES) &&
                     in_vectors(w, w->x, x->data) && in_vectors(w, w->y, y->data);
    if (launch.vectors) {
        launch.x_step = (int32_t)w->x[last];
        launch.y_step = (int32_t)w->y[last];
        w->dims[last] /= VECTOR;
        w->x[last] *= VECTOR;
        w->y[last] *= VECTOR;
    }
    launch.units = walk_elements(w);
    ADD_PLAIN(planner, function, launch.units, launch);
}

#define BINARY(OP, FN, X, Y)                                                                       \
    PLAN(FN) {                                                                                     \
        const sl_##OP##_args *p = args;                                                            \
        plan_binary(planner, SL_CUDA_FN(sl_##FN), &p->X, &p->Y, &p->out);                          \
        return SL_OK;                                                                              \
    }
BINARY(add, add_f32, a, b)
BINARY(sub, sub_f32, a, b)
BINARY(mul, mul_f32, a, b)
BINARY(div, div_f32, a, b)
BINARY(maximum, maximum_f32, a, b)
BINARY(minimum, minimum_f32, a, b)
BINARY(sigmoid_gate, sigmoid_gate_f32, x, gate)
BINARY(swiglu, swiglu_f32, gate, up)
BINARY(add, add_i32, a, b)
BINARY(sub, sub_i32, a, b)
BINARY(mul, mul_i32, a, b)
BINARY(maximum, maximum_i32, a, b)
BINARY(minimum, minimum_i32, a, b)

/* ---- three, never broadcast ---- */

PLAN(add3) {
    const sl_add3_args *p = args;
    const int64_t count = sl_type_elements(&p->out.type);
    sl_sum3 launch = {.x = p->a.data, .y = p->b.data, .z = p->c.data, .out = p->out.data};
    launch.vectors = count % VECTOR == 0 && is_aligned(p->a.data, VECTOR_BYTES) &&
                     is_aligned(p->b.data, VECTOR_BYTES) && is_aligned(p->c.data, VECTOR_BYTES) &&
                     is_aligned(p->out.data, VECTOR_BYTES);
    launch.units = launch.vectors ? count / VECTOR : count;
    ADD_PLAIN(planner, SL_CUDA_FN(sl_add3), launch.units, launch);
    return SL_OK;
}
