/* elementwise_region.c - elementwise_region: floats of one shape by the fast kernel of
 * elementwise.cu, everything else by the generic one of elementwise_any.cu. */
#include "core/elementwise_region.h"
#include "runtime/cuda/kernels/elementwise.h"
#include "runtime/cuda/kernels/elementwise_any.h"
#include "runtime/cuda/ops/strides.h"

enum {
    MOST_INPUTS = SL_POINT_INPUTS,
    MOST_STEPS = SL_POINT_STEPS,
};
_Static_assert((int)MOST_INPUTS >= SL_REGION_INPUTS && (int)MOST_STEPS >= SL_REGION_STEPS,
               "what fits the fast kernel fits the generic one");

/* The values of a region: its inputs, then the results of its steps. */
typedef struct {
    uint32_t inputs, steps;
    sl_elementwise_step code[MOST_STEPS];
    sl_dtype dtypes[MOST_INPUTS + MOST_STEPS];
    uint32_t last_use[MOST_INPUTS + MOST_STEPS]; /* the last instruction that reads it */
    uint8_t registers[MOST_INPUTS + MOST_STEPS]; /* its register */
} region;

static sl_status refuse(const sl_gpu_planner *planner, const char *why, sl_error *err) {
    return sl_fail(err, SL_UNSUPPORTED, "%s: the cuda device runs no region of %s", planner->label,
                   why);
}

static void decode(const sl_elementwise_region_args *a, region *r) {
    for (uint32_t i = 0; i < r->inputs; i++) r->dtypes[i] = a->inputs.items[i].type.dtype;
    for (uint32_t s = 0; s < r->steps; s++) {
        sl_dtype operands[3] = {0};
        r->code[s] = sl_elementwise_decode(&a->attrs.code, s, r->inputs);
        for (uint32_t o = 0; o < r->code[s].operands; o++) {
            r->last_use[r->code[s].registers[o]] = s;
            operands[o] = r->dtypes[r->code[s].registers[o]];
        }
        r->dtypes[r->inputs + s] = sl_elementwise_result(&r->code[s], operands);
    }
}

static bool is_free(const region *r, uint8_t reg, uint32_t step) {
    for (uint32_t v = 0; v < r->inputs + step; v++)
        if (r->registers[v] == reg && r->last_use[v] > step) return false;
    return true;
}

/* False if more than `count` registers are needed.  An instruction reads its operands before it
 * writes its result, which may reuse the register of an operand that is not read later. */
static bool allocate_registers(region *r, uint8_t count) {
    for (uint32_t i = 0; i < r->inputs; i++) r->registers[i] = (uint8_t)i;
    for (uint32_t s = 0; s < r->steps; s++) {
        uint8_t reg = 0;
        while (reg < count && !is_free(r, reg, s)) reg++;
        if (reg == count) return false;
        r->registers[r->inputs + s] = reg;
    }
    return true;
}

/* ---- floats of one shape ---- */

static bool has_float_kernel(sl_op op) {
    switch ((int)op) {
#define POINT(OP) case SL_OP_##OP:
        SL_POINTS_1(POINT)
        SL_POINTS_2(POINT)
#undef POINT
        return true;
    default:
        return false;
    }
}

static bool is_fast(const sl_elementwise_region_args *a, const region *r) {
    if (r->inputs > SL_REGION_INPUTS || r->steps > SL_REGION_STEPS) return false;
    if (a->out.type.dtype != SL_DTYPE_f32) return false;
    for (uint32_t i = 0; i < r->inputs; i++)
        if (!sl_type_equal(&a->inputs.items[i].type, &a->out.type)) return false;
    for (uint32_t s = 0; s < r->steps; s++)
        if (!has_float_kernel(r->code[s].op)) return false;
    return true;
}

static void plan_floats(sl_gpu_planner *planner, const sl_elementwise_region_args *a,
                        const region *r) {
    const int64_t count = sl_type_elements(&a->out.type);
    sl_region launch = {.out = a->out.data, .steps = (int32_t)r->steps};
    launch.vectors = count % VECTOR == 0 && is_aligned(a->out.data, VECTOR_BYTES);
    for (uint32_t i = 0; i < r->inputs; i++) {
        launch.inputs[i] = a->inputs.items[i].data;
        launch.vectors = launch.vectors && is_aligned(launch.inputs[i], VECTOR_BYTES);
    }
    for (uint32_t s = 0; s < r->steps; s++) {
        const sl_elementwise_step *step = &r->code[s];
        launch.code[s].number = (uint8_t)step->number;
        launch.code[s].x = r->registers[step->registers[0]];
        launch.code[s].y = r->registers[step->registers[step->operands > 1]];
        launch.code[s].to = r->registers[r->inputs + s];
    }
    launch.units = launch.vectors ? count / VECTOR : count;
    ADD_PLAIN(planner, SL_CUDA_FN(sl_elementwise_region), launch.units, launch);
}

/* ---- any types and shapes ---- */

static void set_step(const region *r, uint32_t s, sl_point_region *launch) {
    const sl_elementwise_step *step = &r->code[s];
    sl_point_op *point = &launch->code[s].point;
    point->number = (uint8_t)step->number;
    point->attribute = (uint8_t)step->attribute;
    point->out_type = (uint8_t)sl_elementwise_type(r->dtypes[r->inputs + s]);
    for (uint32_t o = 0; o < step->operands; o++) {
        point->types[o] = (uint8_t)sl_elementwise_type(r->dtypes[step->registers[o]]);
        launch->code[s].from[o] = r->registers[step->registers[o]];
    }
    launch->code[s].to = r->registers[r->inputs + s];
}

/* Adds a dim; it is merged with the previous one if all inputs are contiguous over both. */
static void push_dim(sl_point_region *launch, int64_t extent, const int64_t *strides) {
    const int32_t before = launch->rank - 1;
    bool joins = launch->rank > 0;
    for (int i = 0; joins && i < SL_POINT_INPUTS; i++)
        joins = launch->strides[i][before] == extent * strides[i];
    const int32_t to = joins ? before : launch->rank++;
    launch->dims[to] = joins ? launch->dims[to] * extent : extent;
    for (int i = 0; i < SL_POINT_INPUTS; i++) launch->strides[i][to] = strides[i];
}

static void set_strides(const sl_elementwise_region_args *a, const region *r,
                        sl_point_region *launch) {
    const sl_dims *shape = &a->out.type.shape;
    for (uint32_t d = 0; d < shape->rank; d++) {
        int64_t strides[SL_POINT_INPUTS] = {0};
        for (uint32_t i = 0; i < r->inputs; i++)
            strides[i] = broadcast_stride(&a->inputs.items[i].type.shape, shape, d);
        if (shape->dims[d] > 1) push_dim(launch, shape->dims[d], strides);
    }
}

static void plan_any(sl_gpu_planner *planner, const sl_elementwise_region_args *a,
                     const region *r) {
    sl_point_region launch = {
        .out = a->out.data, .count = sl_type_elements(&a->out.type), .steps = (int32_t)r->steps};
    for (uint32_t i = 0; i < r->inputs; i++) {
        launch.in[i] = a->inputs.items[i].data;
        launch.types[i] = (uint8_t)sl_elementwise_type(r->dtypes[i]);
    }
    for (uint32_t s = 0; s < r->steps; s++) set_step(r, s, &launch);
    set_strides(a, r, &launch);
    ADD_PLAIN(planner, SL_CUDA_FN(sl_point_steps), launch.count, launch);
}

/* The generic kernel has no bitcast. */
static bool has_bitcast(const region *r) {
    for (uint32_t s = 0; s < r->steps; s++)
        if (r->code[s].op == SL_OP_bitcast) return true;
    return false;
}

PLAN(elementwise_region) {
    const sl_elementwise_region_args *a = args;
    region r = {.inputs = SL_LIST_COUNT(a->inputs),
                .steps = a->attrs.code.count / SL_ELEMENTWISE_STEP_NUMBERS};
    if (a->attrs.prologue) return refuse(planner, "enlarged inputs", err);
    if (r.inputs > MOST_INPUTS || r.steps > MOST_STEPS)
        return refuse(planner, "so many inputs or steps", err);
    decode(a, &r);
    if (is_fast(a, &r) && allocate_registers(&r, SL_REGION_REGISTERS)) {
        plan_floats(planner, a, &r);
        return SL_OK;
    }
    if (has_bitcast(&r)) return refuse(planner, "bitcasts", err);
    if (!allocate_registers(&r, SL_POINT_REGISTERS))
        return refuse(planner, "so many values at a time", err);
    plan_any(planner, a, &r);
    return SL_OK;
}
