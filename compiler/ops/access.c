#include "compiler/ops/access.h"
#include "compiler/ops/numbers.h"
#include "core/kv.h"
#include <string.h>

/* ---- boxes ---- */

/* The part [from, to) of every axis of an operand. */
typedef struct {
    int64_t from[SL_MAX_RANK], to[SL_MAX_RANK];
} box;

static box everything(const sl_dims *shape) {
    box b = {{0}, {0}};
    for (uint32_t d = 0; d < shape->rank; d++) b.to[d] = shape->dims[d];
    return b;
}

static void cut(box *b, uint32_t axis, int64_t from, int64_t to) {
    b->from[axis] = from;
    b->to[axis] = to;
}

static sl_access whole(const sl_operand *operand) {
    return sl_access_range(operand->buffer, operand->offset_bytes,
                           operand->offset_bytes + sl_type_bytes(&operand->type));
}

/* How many leading axes can be cut: all of plain types, only the slots of a KV cache. */
static uint32_t axes_of(const sl_type *type) {
    if (sl_dtype_infos[type->dtype].bytes) return type->shape.rank;
    return sl_dtype_infos[type->dtype].kind == SL_KIND_CACHE ? 1 : 0;
}

/* Runs along the innermost axis that is cut, for all rows of the outer axes from the first to the
 * last in the box: more than the box where several of them are cut. */
static sl_access access_box(const sl_operand *x, const box *b) {
    const sl_dims *shape = &x->type.shape;
    uint32_t axis = axes_of(&x->type);
    for (uint32_t d = 0; d < axis; d++)
        if (b->to[d] <= b->from[d])
            return sl_access_range(x->buffer, x->offset_bytes, x->offset_bytes);
    while (axis > 0 && b->from[axis - 1] == 0 && b->to[axis - 1] == shape->dims[axis - 1]) axis--;
    if (axis == 0 || !sl_type_bytes(&x->type)) return whole(x);
    axis--;
    int64_t rows = 1, first = 0, last = 0;
    for (uint32_t d = 0; d < axis; d++) {
        rows *= shape->dims[d];
        first = first * shape->dims[d] + b->from[d];
        last = last * shape->dims[d] + b->to[d] - 1;
    }
    if (last - first >= (int64_t)UINT32_MAX) return whole(x);
    const uint64_t row = sl_type_bytes(&x->type) / (uint64_t)rows;
    const uint64_t inner = row / (uint64_t)shape->dims[axis];
    return (sl_access){.buffer = x->buffer,
                       .begin = x->offset_bytes + (uint64_t)first * row +
                                (uint64_t)b->from[axis] * inner,
                       .bytes = (uint64_t)(b->to[axis] - b->from[axis]) * inner,
                       .stride = row,
                       .count = (uint32_t)(last - first + 1)};
}

/* ---- what is known of indices ---- */

typedef struct {
    const sl_program *program;
    const sl_step *step;
    uint32_t input; /* the one in question */
} question;

static const sl_dims *shape_of(const question *q, uint32_t input) {
    return &q->step->operands[input].type.shape;
}

static const void *constant_of(const question *q, uint32_t input) {
    const sl_operand *operand = &q->step->operands[input];
    const sl_buffer *buffer = &q->program->buffers[operand->buffer.v];
    return buffer->kind == SL_BUFFER_CONSTANT ? (const char *)buffer->data + operand->offset_bytes
                                              : NULL;
}

static int64_t constant_at(const question *q, uint32_t input, const void *data, int64_t i) {
    int32_t narrow;
    int64_t wide;
    if (q->step->operands[input].type.dtype == SL_DTYPE_i32) {
        memcpy(&narrow, (const char *)data + i * (int64_t)sizeof narrow, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const char *)data + i * (int64_t)sizeof wide, sizeof wide);
    return wide;
}

/* Cuts an axis to what constant indices, every `step`th from `first` on, select.  Not where they
 * are no constants, or one is out of range: that is an error of the run. */
static bool cut_to_indices(const question *q, uint32_t input, int64_t first, int64_t step,
                           uint32_t axis, box *b) {
    const void *data = constant_of(q, input);
    const int64_t size = shape_of(q, q->input)->dims[axis];
    const int64_t count = sl_type_elements(&q->step->operands[input].type);
    int64_t least = size, most = -1;
    for (int64_t i = first; data && i < count; i += step) {
        int64_t at = constant_at(q, input, data, i);
        if (at < 0) at += size;
        if (at < 0 || at >= size) return false;
        least = at < least ? at : least;
        most = at > most ? at : most;
    }
    if (!data || most < 0) return false;
    cut(b, axis, least, most + 1);
    return true;
}

/* ---- ops that read parts of an input ---- */

static bool narrow_slice(const question *q, box *b) {
    const sl_slice_attrs *attrs = q->step->attrs;
    const uint32_t axis = sl_axis(attrs->axis, shape_of(q, 0)->rank);
    cut(b, axis, attrs->start, (int64_t)attrs->start + attrs->length);
    return true;
}

static bool narrow_strided_slice(const question *q, box *b) {
    const sl_strided_slice_attrs *attrs = q->step->attrs;
    const sl_dims *x = shape_of(q, 0);
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t first;
        const int64_t step = attrs->steps.items[d];
        const int64_t count =
            sl_slice_range(attrs->starts.items[d], attrs->ends.items[d], step, x->dims[d], &first);
        const int64_t last = first + (count - 1) * step;
        if (count)
            cut(b, d, first < last ? first : last, (first < last ? last : first) + 1);
        else
            cut(b, d, 0, 0);
    }
    return true;
}

static bool narrow_dynamic_slice(const question *q, box *b) {
    const sl_dims *sizes = &((const sl_dynamic_slice_attrs *)q->step->attrs)->sizes;
    const void *starts = constant_of(q, 1);
    for (uint32_t d = 0; starts && d < sizes->rank; d++) {
        const int64_t given = constant_at(q, 1, starts, d);
        const int64_t most = shape_of(q, 0)->dims[d] - sizes->dims[d];
        const int64_t start = given < 0 ? 0 : given > most ? most : given;
        cut(b, d, start, start + sizes->dims[d]);
    }
    return starts != NULL;
}

/* Negative numbers remove elements; other modes may look anywhere. */
static bool narrow_pad(const question *q, box *b) {
    const sl_pad_attrs *attrs = q->step->attrs;
    const sl_dims *x = shape_of(q, 0);
    for (uint32_t d = 0; !attrs->mode && d < x->rank; d++) {
        const int64_t before = attrs->before.items[d], after = attrs->after.items[d];
        cut(b, d, before < 0 ? -before : 0, x->dims[d] + (after < 0 ? after : 0));
    }
    return true;
}

static bool narrow_embed(const question *q, box *b) {
    return cut_to_indices(q, 1, 0, 1, 0, b);
}
static bool narrow_gather(const question *q, box *b) {
    const sl_gather_attrs *attrs = q->step->attrs;
    return cut_to_indices(q, 1, 0, 1, sl_axis(attrs->axis, shape_of(q, 0)->rank), b);
}
static bool narrow_gather_nd(const question *q, box *b) {
    const uint32_t batch = ((const sl_gather_nd_attrs *)q->step->attrs)->batch_dims;
    const sl_dims *indices = shape_of(q, 1);
    const int64_t depth = indices->dims[indices->rank - 1];
    for (int64_t d = 0; d < depth; d++)
        if (!cut_to_indices(q, 1, d, depth, batch + (uint32_t)d, b)) return false;
    return true;
}

/* Other axes are read as far as there are indices. */
static bool narrow_take_along(const question *q, box *b) {
    const uint32_t axis =
        sl_axis(((const sl_take_along_attrs *)q->step->attrs)->axis, shape_of(q, 0)->rank);
    for (uint32_t d = 0; d < shape_of(q, 0)->rank; d++)
        if (d != axis) cut(b, d, 0, shape_of(q, 1)->dims[d]);
    (void)cut_to_indices(q, 1, 0, 1, axis, b);
    return true;
}

/* ---- ops on the states of sequences ---- */

static int input_named(const question *q, const char *name) {
    const sl_op_info *info = sl_op_info_of(q->step->op);
    for (uint32_t i = 0; i < info->input_count; i++)
        if (strcmp(info->input_names[i], name) == 0) return (int)i;
    return -1;
}

/* The rows of constant slots; of a cache, the blocks of constant positions: those that are written,
 * or all up to the last one that is read. */
static bool narrow_slots(const question *q, box *b) {
    const int positions = input_named(q, "positions");
    const sl_dims *shape = shape_of(q, q->input);
    const bool keys = input_named(q, "cache_k") == (int)q->input;
    const bool values = input_named(q, "cache_v") == (int)q->input;
    const bool writes = sl_input_kind(sl_op_info_of(q->step->op), q->input) == SL_OPERAND_STATE;
    const uint32_t slots = (uint32_t)input_named(q, "slots");
    if (shape_of(q, slots)->rank > 1) return false; /* pages: any number where none is read */
    if (!cut_to_indices(q, slots, 0, 1, 0, b)) return false;
    if (!keys && !values) return true;
    const void *data = constant_of(q, (uint32_t)positions);
    const int64_t count = sl_type_elements(&q->step->operands[positions].type);
    const int64_t blocks = keys ? shape->dims[2] : shape->dims[2] / SL_KV_LANES;
    int64_t first = blocks, last = -1;
    for (int64_t i = 0; data && i < count; i++) {
        const int64_t at = constant_at(q, (uint32_t)positions, data, i) / SL_KV_LANES;
        if (at < 0 || at >= blocks) return true;
        first = !writes ? 0 : at < first ? at : first;
        last = at > last ? at : last;
    }
    const int64_t unit = keys ? 1 : SL_KV_LANES;
    if (last >= first) cut(b, 2, first * unit, (last + 1) * unit);
    return true;
}

/* Which inputs are read in part: the first one, or with `slots` those that hold sequences. */
typedef bool narrow_fn(const question *q, box *b);
static const struct {
    sl_op op;
    narrow_fn *narrow;
} narrower[] = {
    {SL_OP_slice, narrow_slice},
    {SL_OP_strided_slice, narrow_strided_slice},
    {SL_OP_dynamic_slice, narrow_dynamic_slice},
    {SL_OP_pad, narrow_pad},
    {SL_OP_embed, narrow_embed},
    {SL_OP_gather, narrow_gather},
    {SL_OP_gather_nd, narrow_gather_nd},
    {SL_OP_take_along, narrow_take_along},
    {SL_OP_kv_append, narrow_slots},
    {SL_OP_norm_rope_append, narrow_slots},
    {SL_OP_sdpa, narrow_slots},
    {SL_OP_sdpa_sinks, narrow_slots},
    {SL_OP_sdpa_parts, narrow_slots},
    {SL_OP_causal_conv, narrow_slots},
    {SL_OP_delta_step, narrow_slots},
    {SL_OP_delta_chunk, narrow_slots},
    {SL_OP_resume, narrow_slots},
    {SL_OP_choose, narrow_slots},
};

static bool is_in_question(const question *q, narrow_fn *narrow) {
    static const char *const sequences[] = {"cache_k", "cache_v", "memory", "window", "chosen"};
    if (narrow != narrow_slots) return q->input == 0;
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++)
        if (input_named(q, sequences[i]) == (int)q->input) return true;
    return false;
}

static sl_access access_of(const question *q) {
    const sl_operand *operand = &q->step->operands[q->input];
    for (size_t i = 0; i < sizeof narrower / sizeof narrower[0]; i++) {
        if (narrower[i].op != q->step->op || !is_in_question(q, narrower[i].narrow)) continue;
        box b = everything(&operand->type.shape);
        if (narrower[i].narrow(q, &b)) return access_box(operand, &b);
    }
    return whole(operand);
}

void sl_op_accesses(const sl_program *program, const sl_step *step, sl_step_accesses *out) {
    const sl_op_info *info = sl_op_info_of(step->op);
    out->read_count = out->write_count = 0;
    for (uint32_t i = 0; i < step->input_count; i++) {
        const sl_operand_kind kind = sl_input_kind(info, i);
        if (kind == SL_OPERAND_EXPERTS) continue;
        const sl_access access = access_of(&(question){program, step, i});
        out->reads[out->read_count++] = access;
        if (kind == SL_OPERAND_STATE) out->writes[out->write_count++] = access;
    }
    for (uint32_t i = step->input_count; i < step->operand_count; i++)
        out->writes[out->write_count++] = whole(&step->operands[i]);
}

/* ---- results that are parts ---- */

static bool is_in_order(const question *q) {
    const sl_strided_slice_attrs *attrs = q->step->attrs;
    for (uint32_t d = 0; q->step->op == SL_OP_strided_slice && d < attrs->steps.count; d++)
        if (attrs->steps.items[d] < 0) return false;
    return true;
}

static void part_of_split(const question *q, uint32_t result, box *b) {
    const sl_split_attrs *attrs = q->step->attrs;
    const uint32_t axis = sl_axis(attrs->axis, shape_of(q, 0)->rank);
    int64_t at = 0;
    for (uint32_t i = 0; i < result; i++) at += attrs->sizes.items[i];
    cut(b, axis, at, at + attrs->sizes.items[result]);
}

bool sl_op_is_part(const sl_program *program, const sl_step *step, uint32_t result,
                   const sl_type *type, sl_access *out) {
    const question q = {program, step, 0};
    if (step->op == SL_OP_split) {
        box b = everything(shape_of(&q, 0));
        part_of_split(&q, result, &b);
        *out = access_box(&step->operands[0], &b);
    } else if (step->op == SL_OP_slice || step->op == SL_OP_strided_slice ||
               (step->op == SL_OP_dynamic_slice && constant_of(&q, 1))) {
        *out = access_of(&q);
    } else {
        return false;
    }
    return is_in_order(&q) && out->count == 1 && out->bytes == sl_type_bytes(type);
}
