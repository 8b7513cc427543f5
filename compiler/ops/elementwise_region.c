/* elementwise_region.c - A region is defined by its instructions in sequence. */
#include "core/elementwise_region.h"
#include "compiler/ops/elementwise.h"
#include "compiler/ops/numbers.h"

enum { MAX_REGISTERS = SL_ELEMENTWISE_MAX_INPUTS + SL_ELEMENTWISE_MAX_STEPS };

typedef struct {
    _Alignas(max_align_t) unsigned char bytes[SL_MAX_ATTRS_BYTES];
} attrs_room;

/* The shape of an input after the prologue (2x upsampling). */
static sl_status enlarge(const char *label, const char *name, sl_dims *shape, sl_error *err) {
    if (shape->rank < 2)
        return sl_fail(err, SL_INVALID, "%s: %s has rank %u, must be at least 2 to be upsampled",
                       label, name, shape->rank);
    for (uint32_t d = shape->rank - 2; d < shape->rank; d++) {
        if (shape->dims[d] > INT64_MAX / 2)
            return sl_fail(err, SL_INVALID, "%s: %s is too large", label, name);
        shape->dims[d] *= 2;
    }
    return SL_OK;
}

/* Infers the type of each register; the last is the region's result. */
static sl_status infer_steps(const char *label, const sl_integers *code, sl_type *registers,
                             uint32_t inputs, sl_error *err) {
    const uint32_t count = code->count / SL_ELEMENTWISE_STEP_NUMBERS;
    if (count < 1 || count > SL_ELEMENTWISE_MAX_STEPS || code->count % SL_ELEMENTWISE_STEP_NUMBERS)
        return sl_fail(err, SL_INVALID,
                       "%s: code has %u numbers, must have 5 for each of 1 to %d "
                       "steps",
                       label, code->count, SL_ELEMENTWISE_MAX_STEPS);
    for (uint32_t i = 0; i < count; i++) {
        const sl_elementwise_step step = sl_elementwise_decode(code, i, inputs);
        if (!step.operands)
            return sl_fail(err, SL_INVALID, "%s: step %u of code is not a valid step", label, i);
        attrs_room attrs = {{0}};
        sl_elementwise_attrs(&step, attrs.bytes);
        sl_type in[3];
        for (uint32_t o = 0; o < step.operands; o++) in[o] = registers[step.registers[o]];
        SL_TRY(sl_infer_plain(step.op, label, in, attrs.bytes, &registers[inputs + i], err));
    }
    return SL_OK;
}

/* Every register must broadcast to the result, because it is computed for every element of the
 * result. */
static sl_status check_shapes(const char *label, const sl_type *registers, uint32_t count,
                              sl_error *err) {
    const sl_dims *out = &registers[count - 1].shape;
    for (uint32_t i = 0; i < count; i++) {
        sl_dims shape;
        char text[SL_TYPE_TEXT], whole[SL_TYPE_TEXT];
        SL_TRY(sl_broadcast(label, &registers[i].shape, out, &shape, err));
        if (!sl_dims_equal(&shape, out))
            return sl_fail(err, SL_INVALID,
                           "%s: register %u is %s, must broadcast to the result %s", label, i,
                           sl_type_format(&registers[i], text, sizeof text),
                           sl_type_format(&registers[count - 1], whole, sizeof whole));
    }
    return SL_OK;
}

static sl_status check_inputs(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_check_attr(a->label, "the number of inputs", a->in_count, 1,
                         SL_ELEMENTWISE_MAX_INPUTS, err));
    for (uint32_t i = 0; i < a->in_count; i++)
        SL_TRY(sl_elementwise_class(a, i, "an input", SL_PLAIN, err));
    return SL_OK;
}

sl_status sl_infer_elementwise_region(const sl_infer_args *a, sl_error *err) {
    const sl_elementwise_region_attrs *attrs = a->attrs;
    sl_type registers[MAX_REGISTERS];
    SL_TRY(check_inputs(a, err));
    SL_TRY(sl_check_attr(a->label, "prologue", attrs->prologue, 0, SL_PROLOGUE_COUNT - 1, err));
    for (uint32_t i = 0; i < a->in_count; i++) registers[i] = a->in[i];
    SL_TRY(
        sl_check_attr(a->label, "prologue_input", attrs->prologue_input, 0, a->in_count - 1, err));
    if (attrs->prologue)
        SL_TRY(enlarge(a->label, "the prologue's input", &registers[attrs->prologue_input].shape,
                       err));
    SL_TRY(infer_steps(a->label, &attrs->code, registers, a->in_count, err));
    const uint32_t count = a->in_count + attrs->code.count / SL_ELEMENTWISE_STEP_NUMBERS;
    SL_TRY(check_shapes(a->label, registers, count, err));
    a->out[0] = registers[count - 1];
    return SL_OK;
}

/* ---- evaluation ---- */

/* Repeats each element of the last two axes four times. */
static sl_status repeat_elements(const sl_eval_args *a, const sl_eval_tensor *x,
                                 sl_eval_tensor *out, sl_error *err) {
    const double *data;
    const sl_eval_args only = {.label = a->label, .in = x, .scratch = a->scratch};
    SL_TRY(sl_eval_inputs(&only, 1, &data, err));
    const int64_t slots = x->type.dtype == SL_DTYPE_c64 ? 2 : 1;
    out->type = x->type;
    SL_TRY(enlarge(a->label, "x", &out->type.shape, err));
    SL_TRY(sl_eval_scratch(a, sl_type_slots(&out->type), &out->data, err));
    const uint32_t rank = x->type.shape.rank;
    const int64_t height = x->type.shape.dims[rank - 2], width = x->type.shape.dims[rank - 1];
    for (int64_t i = 0; i < sl_type_elements(&out->type); i++) {
        const int64_t column = i % (2 * width) / 2, row = i / (2 * width) % (2 * height) / 2;
        const int64_t from = (i / (4 * width * height) * height + row) * width + column;
        for (int64_t s = 0; s < slots; s++) out->data[i * slots + s] = data[from * slots + s];
    }
    return SL_OK;
}

/* 16-bit floats are rounded after each op, in a region too. */
static void round_register(const sl_eval_tensor *out) {
    const sl_dtype dtype = out->type.dtype;
    if (dtype != SL_DTYPE_f16 && dtype != SL_DTYPE_bf16) return;
    for (int64_t i = 0; i < sl_type_slots(&out->type); i++)
        out->data[i] = sl_round_to(dtype, out->data[i]);
}

static sl_status eval_steps(const sl_eval_args *a, const sl_integers *code,
                            sl_eval_tensor *registers, uint32_t inputs, sl_error *err) {
    const uint32_t count = code->count / SL_ELEMENTWISE_STEP_NUMBERS;
    sl_type types[MAX_REGISTERS];
    for (uint32_t i = 0; i < inputs; i++) types[i] = registers[i].type;
    SL_TRY(infer_steps(a->label, code, types, inputs, err));
    for (uint32_t i = 0; i < count; i++) {
        const sl_elementwise_step step = sl_elementwise_decode(code, i, inputs);
        attrs_room attrs = {{0}};
        sl_eval_tensor in[3], *out = &registers[inputs + i];
        sl_elementwise_attrs(&step, attrs.bytes);
        for (uint32_t o = 0; o < step.operands; o++) in[o] = registers[step.registers[o]];
        *out = a->out[0];
        if (i + 1 < count) {
            *out = (sl_eval_tensor){.type = types[inputs + i]};
            SL_TRY(sl_eval_scratch(a, sl_type_slots(&out->type), &out->data, err));
        }
        const sl_eval_args part = {a->label, in, attrs.bytes, out, a->scratch, step.operands, 1};
        SL_TRY(sl_eval(step.op, &part, err));
        round_register(out);
    }
    return SL_OK;
}

sl_status sl_eval_elementwise_region(const sl_eval_args *a, sl_error *err) {
    const sl_elementwise_region_attrs *attrs = a->attrs;
    sl_eval_tensor registers[MAX_REGISTERS];
    for (uint32_t i = 0; i < a->in_count; i++) registers[i] = a->in[i];
    if (attrs->prologue)
        SL_TRY(repeat_elements(a, &a->in[attrs->prologue_input], &registers[attrs->prologue_input],
                               err));
    return eval_steps(a, &attrs->code, registers, a->in_count, err);
}

/* ---- batch_elementwise_region: one region for each of several inputs ---- */

sl_status sl_infer_batch_elementwise_region(const sl_infer_args *a, sl_error *err) {
    const sl_batch_elementwise_region_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "the number of inputs", a->in_count, 1, SL_MAX_LIST, err));
    const sl_elementwise_region_attrs each = {.code = attrs->code, .prologue = attrs->prologue};
    const sl_infer_args first = {a->label, a->in, &each, a->out, 1, 1};
    SL_TRY(sl_infer_elementwise_region(&first, err));
    for (uint32_t i = 0; i < a->in_count; i++) {
        char text[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
        const sl_type *type = &a->in[i];
        SL_TRY(sl_elementwise_class(a, i, "an input", SL_PLAIN, err));
        if (sl_type_equal(type, &a->in[0]) && type->shape.rank && type->shape.dims[0] == 1)
            continue;
        return sl_fail(err, SL_INVALID, "%s: input %u is %s, must be like input 0 %s, [1,..]",
                       a->label, i, sl_type_format(type, text, sizeof text),
                       sl_type_format(&a->in[0], wanted, sizeof wanted));
    }
    if (attrs->prologue && a->in[0].shape.rank < 3)
        return sl_fail(err, SL_INVALID,
                       "%s: inputs have rank %u, must be at least 3 to be upsampled", a->label,
                       a->in[0].shape.rank);
    a->out[0].shape.dims[0] = a->in_count;
    return SL_OK;
}

sl_status sl_eval_batch_elementwise_region(const sl_eval_args *a, sl_error *err) {
    const sl_batch_elementwise_region_attrs *attrs = a->attrs;
    const sl_elementwise_region_attrs each = {.code = attrs->code, .prologue = attrs->prologue};
    sl_eval_tensor part = a->out[0];
    part.type.shape.dims[0] = 1;
    for (uint32_t i = 0; i < a->in_count; i++) {
        const sl_eval_args one = {a->label, &a->in[i], &each, &part, a->scratch, 1, 1};
        SL_TRY(sl_eval_elementwise_region(&one, err));
        part.data += sl_type_slots(&part.type);
    }
    return SL_OK;
}

/* ---- transforms ---- */

sl_status sl_infer_transform_region(const sl_infer_args *a, sl_error *err) {
    const sl_integers *steps = &((const sl_transform_region_attrs *)a->attrs)->steps;
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_PLAIN, err));
    SL_TRY(sl_check_attr(a->label, "the number of steps", steps->count, 1, 16, err));
    a->out[0] = a->in[0];
    for (uint32_t i = 0; i < steps->count; i++) {
        SL_TRY(sl_check_attr(a->label, "a step", steps->items[i], SL_PROLOGUE_RESIZE_NEAREST_2X,
                             SL_PROLOGUE_RESIZE_NEAREST_2X, err));
        SL_TRY(enlarge(a->label, "x", &a->out[0].shape, err));
    }
    return SL_OK;
}

sl_status sl_eval_transform_region(const sl_eval_args *a, sl_error *err) {
    const sl_integers *steps = &((const sl_transform_region_attrs *)a->attrs)->steps;
    sl_eval_tensor now = a->in[0];
    for (uint32_t i = 0; i < steps->count; i++) {
        sl_eval_tensor next;
        SL_TRY(repeat_elements(a, &now, &next, err));
        now = next;
    }
    for (int64_t i = 0; i < sl_type_slots(&a->out[0].type); i++) a->out[0].data[i] = now.data[i];
    return SL_OK;
}
