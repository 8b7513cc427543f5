/* elementwise_any.c - Elementwise ops on operands of any type and shape, and fused regions of them:
 * an item is a strip of the output. */
#include "core/ops.h"

#include "runtime/cpu/kernels/elementwise_machine.h"
#include <string.h>

/* The argument structs of all ops have one layout: input views, the output view, then the
 * attributes. */
static void machine_of_op(machine *m, sl_op op, const void *args, uint32_t inputs) {
    const sl_view *views = args;
    const sl_elementwise_step step = sl_elementwise_step_of(op, views + inputs + 1);
    SL_KERNEL(sl_machine_init)(m, args, inputs, &views[inputs], -1);
    SL_KERNEL(sl_machine_add)(m, &step);
    SL_KERNEL(sl_machine_place)(m);
}

#define ANY(OP, INPUTS)                                                                            \
    SPLIT(any_##OP) {                                                                              \
        machine m;                                                                                 \
        machine_of_op(&m, SL_OP_##OP, args, INPUTS);                                               \
        return machine_split(&m);                                                                  \
    }                                                                                              \
    RUN(any_##OP) {                                                                                \
        machine m;                                                                                 \
        machine_of_op(&m, SL_OP_##OP, args, INPUTS);                                               \
        SL_KERNEL(sl_machine_run)(&m, begin, end, worker->scratch);                                \
        return SL_OK;                                                                              \
    }
#define ELEMENTWISE(NUMBER, OP, ...)       ANY(OP, SL_STEP_OPERANDS_##OP)
#define ELEMENTWISE_OTHER(NUMBER, OP, ...) ANY(OP, SL_STEP_OPERANDS_##OP)
#include "core/elementwise.def"

/* ---- activation_backward ---- */

static void machine_of_backward(machine *m, const sl_activation_backward_args *a) {
    machine_of_op(m, SL_OP_relu_backward, a, 2);
    m->steps[0].fn = SL_KERNEL(sl_strip_slope)(a->attrs.kind, held_as(a->x.type.dtype));
}
SPLIT(activation_backward) {
    machine m;
    machine_of_backward(&m, args);
    return machine_split(&m);
}
RUN(activation_backward) {
    machine m;
    machine_of_backward(&m, args);
    SL_KERNEL(sl_machine_run)(&m, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- regions ---- */

static void machine_of_code(machine *m, const sl_integers *code) {
    for (uint32_t i = 0; i < code->count / SL_ELEMENTWISE_STEP_NUMBERS; i++) {
        const sl_elementwise_step step = sl_elementwise_decode(code, i, m->input_count);
        SL_KERNEL(sl_machine_add)(m, &step);
    }
    SL_KERNEL(sl_machine_place)(m);
}

static void machine_of_region(machine *m, const sl_elementwise_region_args *a) {
    SL_KERNEL(sl_machine_init)
    (m, a->inputs.items, SL_LIST_COUNT(a->inputs), &a->out,
     a->attrs.prologue ? (int64_t)a->attrs.prologue_input : -1);
    machine_of_code(m, &a->attrs.code);
}
SPLIT(elementwise_region) {
    machine m;
    machine_of_region(&m, args);
    return machine_split(&m);
}
RUN(elementwise_region) {
    machine m;
    machine_of_region(&m, args);
    SL_KERNEL(sl_machine_run)(&m, begin, end, worker->scratch);
    return SL_OK;
}

/* One input of a batched region, and its part of the output. */
static void machine_of_part(machine *m, const sl_batch_elementwise_region_args *a, int64_t input) {
    sl_view part = a->out;
    part.type.shape.dims[0] = 1;
    /* SPLIT runs before memory is bound: the address is NULL. */
    if (input) part.data = (char *)a->out.data + (uint64_t)input * sl_type_bytes(&part.type);
    SL_KERNEL(sl_machine_init)(m, &a->inputs.items[input], 1, &part, a->attrs.prologue ? 0 : -1);
    machine_of_code(m, &a->attrs.code);
}
SPLIT(batch_elementwise_region) {
    const sl_batch_elementwise_region_args *a = args;
    machine m;
    machine_of_part(&m, a, 0);
    sl_split split = machine_split(&m);
    split.items *= SL_LIST_COUNT(a->inputs);
    return split;
}
RUN(batch_elementwise_region) {
    const sl_batch_elementwise_region_args *a = args;
    machine m;
    machine_of_part(&m, a, 0);
    const int64_t strips = machine_split(&m).items;
    while (begin < end) {
        const int64_t input = begin / strips, first = begin % strips;
        const int64_t last = least(strips, first + end - begin);
        machine_of_part(&m, a, input);
        SL_KERNEL(sl_machine_run)(&m, first, last, worker->scratch);
        begin += last - first;
    }
    return SL_OK;
}

/* ---- transform_region: an item is a row of the output ---- */

SPLIT(transform_region) {
    const sl_type *out = &((const sl_transform_region_args *)args)->out.type;
    return (sl_split){rows_of(out), grain_of(last_dim(out)), 0};
}
RUN(transform_region) {
    const sl_transform_region_args *a = args;
    const uint32_t bytes = sl_dtype_infos[a->x.type.dtype].bytes, by = a->attrs.steps.count;
    const uint32_t rank = a->out.type.shape.rank;
    const int64_t width = last_dim(&a->out.type), height = dim(&a->out.type, rank - 2);
    for (int64_t row = begin; row < end; row++) {
        const int64_t image = row / height, own = row % height >> by;
        const char *from =
            (const char *)a->x.data + (image * (height >> by) + own) * (width >> by) * bytes;
        char *to = (char *)a->out.data + row * width * bytes;
        for (int64_t i = 0; i < width; i++) memcpy(to + i * bytes, from + (i >> by) * bytes, bytes);
    }
    return SL_OK;
}
