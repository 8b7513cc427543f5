/* emit.c - Appending ops by name, with attributes in their text form. */
#include "core/codec.h"
#include "frontend/onnx/importer.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Parses the attributes into the op's struct; false after an error. */
static bool parse_attrs(sl_onnx_call *c, sl_op op, const char *format, va_list args, void *attrs) {
    va_list again;
    va_copy(again, args);
    const int bytes = format ? vsnprintf(NULL, 0, format, again) : 0;
    va_end(again);
    char *text = bytes < 0 ? NULL : sl_onnx_memory(c, (size_t)bytes, 1);
    if (!text) return false;
    if (format) (void)vsnprintf(text, (size_t)bytes + 1, format, args);
    sl_error err = {0};
    const sl_status status = sl_attrs_parse(op, text, (size_t)bytes, c->graph, attrs, &err);
    if (status == SL_OK) return true;
    sl_graph_mistake(c->graph, status, "attributes of %s: %s", sl_op_info_of(op)->name,
                     err.message);
    return false;
}

static void append(sl_onnx_call *c, const sl_onnx_step *step, const char *format, va_list args) {
    memset(step->out, 0, step->out_count * sizeof *step->out);
    if (sl_onnx_failed(c)) return;
    const sl_op op = sl_op_find(step->op, strlen(step->op));
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    if (op == SL_OP_COUNT) {
        sl_onnx_refuse(c, "it needs the op '%s', which does not exist", step->op);
        return;
    }
    if (!parse_attrs(c, op, format, args, attrs)) return;
    sl_graph_append_list(c->graph, op, (sl_values){step->in_count, step->in}, attrs,
                         (sl_value_slots){step->out_count, step->out});
}

void sl_onnx_append(sl_onnx_call *c, const sl_onnx_step *step, const char *format, ...) {
    va_list args;
    va_start(args, format);
    append(c, step, format, args);
    va_end(args);
}

sl_value sl_onnx_op1(sl_onnx_call *c, const char *op, sl_value x) {
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){op, 1, 1, &x, &out}, NULL);
    return out;
}

sl_value sl_onnx_op2(sl_onnx_call *c, const char *op, sl_value a, sl_value b) {
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){op, 2, 1, (sl_value[]){a, b}, &out}, NULL);
    return out;
}

sl_value sl_onnx_op3(sl_onnx_call *c, const char *op, sl_value a, sl_value b, sl_value d) {
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){op, 3, 1, (sl_value[]){a, b, d}, &out}, NULL);
    return out;
}

sl_value sl_onnx_with(sl_onnx_call *c, const char *op, sl_value x, const char *format, ...) {
    sl_value out;
    va_list args;
    va_start(args, format);
    append(c, &(sl_onnx_step){op, 1, 1, &x, &out}, format, args);
    va_end(args);
    return out;
}

sl_value sl_onnx_with2(sl_onnx_call *c, const char *op, const sl_value *two, const char *format,
                       ...) {
    sl_value out;
    va_list args;
    va_start(args, format);
    append(c, &(sl_onnx_step){op, 2, 1, two, &out}, format, args);
    va_end(args);
    return out;
}

/* ---- Constants ---- */

sl_value sl_onnx_constant(sl_onnx_call *c, sl_type type, const void *data) {
    char name[32];
    do (void)snprintf(name, sizeof name, "constant.%u", ++c->im->names);
    while (sl_graph_find(c->graph, name).v);
    return sl_graph_constant(c->graph, name, type, data);
}

double sl_onnx_slot(sl_onnx_call *c, sl_dtype dtype, double value) {
    const sl_dtype_info *info = &sl_dtype_infos[dtype];
    if (info->kind != SL_KIND_INT) return value;
    const bool sign = info->name[0] != 'u';
    const double limit = ldexp(1, (int)(8 * info->bytes) - sign), whole = trunc(value);
    if (!(whole < limit && whole >= (sign ? -limit : 0))) {
        sl_onnx_wrong(c, "the number %g is not representable as %s", value, info->name);
        return 0;
    }
    if (info->bytes < 8) return whole;
    double slot;
    const uint64_t bits = sign ? (uint64_t)(int64_t)whole : (uint64_t)whole;
    memcpy(&slot, &bits, sizeof slot);
    return slot;
}

sl_value sl_onnx_scalar(sl_onnx_call *c, sl_dtype dtype, double value) {
    _Alignas(16) unsigned char bytes[16] = {0};
    const double slots[2] = {sl_onnx_slot(c, dtype, value), 0};
    sl_encode_f64(dtype, slots, 1, bytes);
    return sl_onnx_constant(c, sl_type_make(dtype, 0), bytes);
}

sl_value sl_onnx_op_scalar(sl_onnx_call *c, const char *op, sl_value x, double value) {
    return sl_onnx_op2(c, op, x, sl_onnx_scalar(c, sl_onnx_type(c, x).dtype, value));
}

/* ---- Shapes ---- */

const char *sl_onnx_list(sl_onnx_call *c, const int64_t *items, uint32_t count) {
    const size_t room = (size_t)count * 24 + 3;
    char *text = sl_onnx_memory(c, room, 1), *at = text;
    if (!text) return "[]";
    *at++ = '[';
    for (uint32_t i = 0; i < count; i++)
        at +=
            snprintf(at, room - (size_t)(at - text), "%s%lld", i ? ", " : "", (long long)items[i]);
    *at = ']';
    return text;
}

const char *sl_onnx_dims(sl_onnx_call *c, const sl_dims *dims) {
    return sl_onnx_list(c, dims->dims, dims->rank);
}

sl_value sl_onnx_reshape(sl_onnx_call *c, sl_value x, const sl_dims *shape) {
    return sl_onnx_with(c, "reshape", x, "shape=%s", sl_onnx_dims(c, shape));
}

sl_value sl_onnx_expand(sl_onnx_call *c, sl_value x, const sl_dims *shape) {
    const sl_type type = sl_onnx_type(c, x);
    if (sl_dims_equal(&type.shape, shape)) return x;
    return sl_onnx_with(c, "expand", x, "shape=%s", sl_onnx_dims(c, shape));
}

sl_value sl_onnx_transpose(sl_onnx_call *c, sl_value x, const sl_dims *perm) {
    return sl_onnx_with(c, "transpose", x, "perm=%s", sl_onnx_dims(c, perm));
}

sl_value sl_onnx_cast(sl_onnx_call *c, sl_value x, sl_dtype to) {
    if (sl_onnx_type(c, x).dtype == to) return x;
    return sl_onnx_with(c, "cast", x, "to=%s", sl_dtype_infos[to].name);
}

sl_value sl_onnx_reduce(sl_onnx_call *c, const char *how, sl_value x, const sl_dims *axes,
                        bool keep) {
    char op[32];
    if (axes->rank == 0) return x;
    (void)snprintf(op, sizeof op, "reduce_%s", how);
    return sl_onnx_with(c, op, x, "axes=%s, keep=%d", sl_onnx_dims(c, axes), keep);
}

sl_value sl_onnx_slice(sl_onnx_call *c, sl_value x, uint32_t axis, int64_t start, int64_t length) {
    return sl_onnx_with(c, "slice", x, "axis=%u, start=%lld, length=%lld", axis, (long long)start,
                        (long long)length);
}
