#include "compiler/ops/access.h"

static sl_access whole(const sl_operand *operand) {
    return sl_access_range(operand->buffer, operand->offset_bytes,
                           operand->offset_bytes + sl_type_bytes(&operand->type));
}

/* A slice reads one run for each index of the dims before its axis. */
sl_access sl_slice_access(const sl_operand *x, const sl_slice_attrs *attrs) {
    const sl_dims *shape = &x->type.shape;
    if (!attrs->length || !sl_type_bytes(&x->type)) /* nothing is read */
        return sl_access_range(x->buffer, x->offset_bytes, x->offset_bytes);
    const uint64_t element = sl_dtype_infos[x->type.dtype].bytes;
    const uint32_t axis = sl_axis(attrs->axis, shape->rank);
    const uint64_t inner = (uint64_t)sl_dims_tail(shape, axis + 1) * element;
    const uint64_t row = inner * (uint64_t)shape->dims[axis];
    const uint64_t rows = sl_type_bytes(&x->type) / row;
    sl_access access = {.buffer = x->buffer,
                        .begin = x->offset_bytes + attrs->start * inner,
                        .bytes = attrs->length * inner,
                        .stride = row,
                        .count = (uint32_t)rows};
    if (access.bytes == row) return whole(x);
    return rows > UINT32_MAX ? whole(x) : access;
}

static void access_slice(const sl_operand *operands, const void *attrs, sl_step_accesses *out) {
    out->reads[0] = sl_slice_access(&operands[0], attrs);
}

/* Ops that access only parts of their operands; each narrows the declared accesses. */
typedef void access_fn(const sl_operand *operands, const void *attrs, sl_step_accesses *out);
static const struct {
    sl_op op;
    access_fn *narrow;
} narrower[] = {
    {SL_OP_slice, access_slice},
};

void sl_op_accesses(const sl_step *step, sl_step_accesses *out) {
    const sl_op_info *info = sl_op_info_of(step->op);
    out->read_count = out->write_count = 0;
    for (uint32_t i = 0; i < step->operand_count; i++) {
        const sl_access access = whole(&step->operands[i]);
        const bool input = i < step->input_count;
        const sl_operand_kind kind = input ? sl_input_kind(info, i) : SL_OPERAND_IN;
        if (kind == SL_OPERAND_EXPERTS) continue;
        if (input) out->reads[out->read_count++] = access;
        if (!input || kind == SL_OPERAND_STATE) out->writes[out->write_count++] = access;
    }
    for (size_t i = 0; i < sizeof narrower / sizeof narrower[0]; i++)
        if (narrower[i].op == step->op) narrower[i].narrow(step->operands, step->attrs, out);
}
