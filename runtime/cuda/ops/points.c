/* points.c - Any elementwise op on operands of any plain type. */
#include "runtime/cuda/kernels/points.h"
#include "core/elementwise_region.h"
#include "runtime/cuda/ops/walk.h"
#include <string.h>

_Static_assert((int)SL_POINT_DIMS == (int)SL_MAX_RANK, "every shape fits");

/* Dims that lie in all operands as one are one. */
static void push_dim(sl_point_each *p, int64_t extent, const int64_t *steps) {
    int32_t last = p->rank - 1;
    bool joins = p->rank > 0;
    if (extent == 1) return;
    for (int o = 0; joins && o < SL_POINT_OPERANDS; o++)
        joins = p->steps[o][last] == extent * steps[o];
    if (!joins) last = p->rank++;
    p->dims[last] = joins ? p->dims[last] * extent : extent;
    for (int o = 0; o < SL_POINT_OPERANDS; o++) p->steps[o][last] = steps[o];
}

/* All views of an op's arguments have one layout: inputs, then the output, then attributes. */
static void plan_point(sl_cuda_planner *planner, const void *args, uint32_t inputs,
                       sl_point_each *launch) {
    const sl_view *views = args, *out = &views[inputs];
    const sl_dims *shape = &out->type.shape;
    launch->out = out->data;
    launch->point.out_type = (uint8_t)number_of(&out->type);
    launch->count = sl_type_elements(&out->type);
    for (uint32_t i = 0; i < inputs; i++) {
        launch->in[i] = views[i].data;
        launch->point.types[i] = (uint8_t)number_of(&views[i].type);
    }
    for (uint32_t d = 0; d < shape->rank; d++) {
        int64_t steps[SL_POINT_OPERANDS] = {0};
        for (uint32_t i = 0; i < inputs; i++)
            steps[i] = broadcast_stride(&views[i].type.shape, shape, d);
        push_dim(launch, shape->dims[d], steps);
    }
    ADD_PLAIN(planner, SL_CUDA_FN(sl_point), launch->count, *launch);
}

#define STEP(NUMBER, OP, OPERANDS)                                                                 \
    PLAN(any_##OP) {                                                                               \
        const sl_view *views = args;                                                               \
        const sl_elementwise_step step =                                                           \
            sl_elementwise_step_of(SL_OP_##OP, views + (OPERANDS) + 1);                            \
        sl_point_each launch = {.point = {(NUMBER), (uint8_t)step.attribute, {0}, 0}};             \
        plan_point(planner, args, OPERANDS, &launch);                                              \
        return SL_OK;                                                                              \
    }
SL_ELEMENTWISE_STEPS(STEP)
#undef STEP

/* The same bytes: as integers of their size. */
PLAN(bitcast) {
    static const uint8_t by_size[] = {
        [1] = SL_TYPE_u8, [2] = SL_TYPE_u16, [4] = SL_TYPE_u32, [8] = SL_TYPE_u64};
    const sl_bitcast_args *a = args;
    const int64_t count = sl_type_elements(&a->out.type);
    sl_point_each launch = {
        .point.number = SL_STEP_cast, .in = {a->x.data}, .out = a->out.data, .count = count};
    launch.point.types[0] = launch.point.out_type =
        by_size[sl_dtype_infos[a->out.type.dtype].bytes];
    launch.rank = 1;
    launch.dims[0] = count;
    launch.steps[0][0] = 1;
    ADD_PLAIN(planner, SL_CUDA_FN(sl_point), count, launch);
    return SL_OK;
}

PLAN(activation_backward) {
    static const char *const kinds[] = {
#define SLOPE(KIND) #KIND,
        SL_SLOPES(SLOPE)
#undef SLOPE
    };
    const sl_activation_backward_args *a = args;
    for (int32_t i = 0; i < SL_SLOPE_COUNT; i++)
        if (strcmp(kinds[i], a->attrs.kind) == 0) {
            sl_point_each launch = {.point.attribute = (uint8_t)i};
            plan_point(planner, args, 2, &launch);
            return SL_OK;
        }
    return sl_fail(err, SL_UNSUPPORTED, "%s: no slope of '%s'", planner->label, a->attrs.kind);
}
