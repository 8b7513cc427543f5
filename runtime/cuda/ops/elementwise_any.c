/* elementwise_any.c - Any elementwise op on operands of any plain type. */
#include "runtime/cuda/kernels/elementwise_any.h"
#include "core/elementwise_region.h"
#include "runtime/cuda/ops/strides.h"

_Static_assert((int)SL_POINT_DIMS == (int)SL_MAX_RANK, "every shape fits");

/* Merges dims that are contiguous in all operands. */
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
static void set_operands(const void *args, uint32_t inputs, sl_point_each *launch) {
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
}

/* A bitcast is a cast between unsigned integers of its size. */
static void plan_step(sl_gpu_planner *planner, const void *args, sl_op op, uint32_t inputs) {
    static const uint8_t by_size[] = {
        [1] = SL_TYPE_u8, [2] = SL_TYPE_u16, [4] = SL_TYPE_u32, [8] = SL_TYPE_u64};
    const sl_view *views = args;
    const sl_elementwise_step step = sl_elementwise_step_of(op, views + inputs + 1);
    sl_point_each launch = {.point = {(uint8_t)step.number, (uint8_t)step.attribute, {0}, 0}};
    set_operands(args, inputs, &launch);
    if (op == SL_OP_bitcast) {
        const uint8_t type = by_size[sl_dtype_infos[views[inputs].type.dtype].bytes];
        launch.point = (sl_point_op){SL_STEP_cast, 0, {type}, type};
    }
    ADD_PLAIN(planner, SL_CUDA_FN(sl_point), launch.count, launch);
}

#define STEP(NUMBER, OP, ...)                                                                      \
    PLAN(any_##OP) {                                                                               \
        plan_step(planner, args, SL_OP_##OP, SL_STEP_OPERANDS_##OP);                               \
        return SL_OK;                                                                              \
    }
#define ELEMENTWISE       STEP
#define ELEMENTWISE_OTHER STEP
#include "core/elementwise.def"
#undef STEP

PLAN(activation_backward) {
    const sl_activation_backward_args *a = args;
    const int32_t number = sl_elementwise_slope_find(a->attrs.kind);
    if (number < 0)
        return sl_fail(err, SL_UNSUPPORTED, "%s: no slope of '%s'", planner->label, a->attrs.kind);
    sl_point_each launch = {.point.attribute = (uint8_t)number};
    set_operands(args, 2, &launch);
    ADD_PLAIN(planner, SL_CUDA_FN(sl_point), launch.count, launch);
    return SL_OK;
}
