/* elementwise.c - The functions of core/elementwise.def, their derivatives, and `where`. */
#include "compiler/ops/elementwise.h"
#include "core/elementwise_forms.h"
#include "core/elementwise_region.h"
#include <string.h>

/* ---- type inference ---- */

static const char *class_text(unsigned classes) {
    switch (classes) {
    case SL_FLOATS:
        return "a float type (f32, f16, bf16 or f64)";
    case SL_INTS:
        return "an integer type";
    case SL_NUMBERS:
        return "a float or integer type";
    case SL_BOOLS:
        return "bool";
    case SL_COMPLEXES:
        return "c64";
    case SL_FLOATS | SL_COMPLEXES:
        return "a float type or c64";
    case SL_NUMBERS | SL_COMPLEXES:
        return "a float or integer type or c64";
    case SL_NUMBERS | SL_COMPLEXES | SL_BOOLS:
        return "a plain type (not one of groups)";
    default:
        return "of another type";
    }
}

static unsigned class_of(sl_dtype dtype) {
    switch (sl_dtype_infos[dtype].kind) {
    case SL_KIND_FLOAT:
        return SL_FLOATS;
    case SL_KIND_INT:
        return SL_INTS;
    case SL_KIND_BOOL:
        return SL_BOOLS;
    case SL_KIND_COMPLEX:
        return SL_COMPLEXES;
    default:
        return 0;
    }
}

sl_status sl_elementwise_class(const sl_infer_args *a, uint32_t input, const char *name,
                               unsigned classes, sl_error *err) {
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(&a->in[input], a->label, err));
    if (class_of(a->in[input].dtype) & classes) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s", a->label, name,
                   sl_type_format(&a->in[input], text, sizeof text), class_text(classes));
}

sl_status sl_elementwise_alike(const sl_infer_args *a, uint32_t first, uint32_t second,
                               const char *const *names, sl_error *err) {
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(&a->in[second], a->label, err));
    const sl_dtype wanted = a->in[first].dtype;
    if (a->in[second].dtype == wanted) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s as %s", a->label, names[second],
                   sl_type_format(&a->in[second], text, sizeof text), sl_dtype_infos[wanted].name,
                   names[first]);
}

sl_status sl_elementwise_broadcast(const sl_infer_args *a, uint32_t count, sl_dims *out,
                                   sl_error *err) {
    sl_dims shape = a->in[0].shape;
    for (uint32_t i = 1; i < count; i++)
        SL_TRY(sl_broadcast(a->label, &shape, &a->in[i].shape, &shape, err));
    *out = shape;
    return SL_OK;
}

/* ---- the functions of the table ---- */

typedef struct {
    sl_op op;
    unsigned classes;
    bool is_boolean;
} function;

static sl_status infer_function(const sl_infer_args *a, function f, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(f.op);
    SL_TRY(sl_elementwise_class(a, 0, info->input_names[0], f.classes, err));
    for (uint32_t i = 1; i < info->input_count; i++)
        SL_TRY(sl_elementwise_alike(a, 0, i, info->input_names, err));
    a->out[0].dtype = f.is_boolean ? SL_DTYPE_bool : a->in[0].dtype;
    return sl_elementwise_broadcast(a, info->input_count, &a->out[0].shape, err);
}

/* One element of the result, from the elements of up to three operands of type `from`. */
static void eval_element(const sl_elementwise_step *step, sl_dtype from, const double *const x[3],
                         const sl_eval_tensor *out, int64_t i) {
    const sl_dtype to = out->type.dtype;
    const int bits = (int)sl_dtype_infos[from].bytes * 8;
    if (sl_dtype_infos[from].kind == SL_KIND_FLOAT) {
        out->data[i] = sl_elementwise_real(step->number, step->attribute, *x[0], *x[1], *x[2]);
    } else if (from == SL_DTYPE_c64) {
        const sl_complex z = sl_elementwise_complex(step->number, sl_complex_of(x[0][0], x[0][1]),
                                                    sl_complex_of(x[1][0], x[1][1]));
        if (to == SL_DTYPE_c64)
            out->data[2 * i] = z.re, out->data[2 * i + 1] = z.im;
        else
            out->data[i] = z.re;
    } else {
        const int64_t n[3] = {sl_slot_integer(from, x[0]), sl_slot_integer(from, x[1]),
                              sl_slot_integer(from, x[2])};
        const int64_t z =
            sl_dtype_infos[from].kind == SL_KIND_BOOL || from == SL_DTYPE_u64
                ? (int64_t)sl_elementwise_unsigned(step->number, step->attribute, bits,
                                                   (uint64_t)n[0], (uint64_t)n[1], (uint64_t)n[2])
                : sl_elementwise_signed(step->number, step->attribute, bits, n[0], n[1], n[2]);
        sl_slot_set_integer(to, out->data + i, sl_wrap_integer(to, z));
    }
}

static sl_status eval_function(const sl_eval_args *a, sl_op op, sl_error *err) {
    const sl_elementwise_step step = sl_elementwise_step_of(op, a->attrs);
    const sl_type *type = &a->out[0].type;
    const sl_dtype from = a->in[0].type.dtype;
    const int64_t slots = from == SL_DTYPE_c64 ? 2 : 1;
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, step.operands, in, err));
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const double *x[3] = {in[0]};
        for (uint32_t o = 0; o < step.operands; o++) {
            const sl_dims *shape = &a->in[o].type.shape;
            const bool flat = sl_dims_equal(shape, &type->shape);
            x[o] = in[o] + slots * (flat ? i : sl_broadcast_index(shape, &type->shape, i));
        }
        for (uint32_t o = step.operands; o < 3; o++) x[o] = x[0];
        eval_element(&step, from, x, &a->out[0], i);
    }
    return SL_OK;
}

enum {
    CLASS_floats = SL_FLOATS,
    CLASS_floats_c64 = SL_FLOATS | SL_COMPLEXES,
    CLASS_ints = SL_INTS,
    CLASS_bools = SL_BOOLS,
    CLASS_numbers = SL_NUMBERS,
    CLASS_numbers_c64 = SL_NUMBERS | SL_COMPLEXES,
    CLASS_plain = SL_PLAIN,
    IS_same = false,
    IS_boolean = true
};
#define CHECK_none
#define CHECK_ATTRIBUTE(OP, NAME, MOST)                                                            \
    SL_TRY(sl_check_attr(a->label, #NAME, ((const sl_##OP##_attrs *)a->attrs)->NAME, 0, MOST, err));
#define CHECK_truncate CHECK_ATTRIBUTE(mod, truncate, 1)
#define CHECK_which    CHECK_ATTRIBUTE(is_inf, which, 3)
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, ...)                          \
    sl_status sl_infer_##OP(const sl_infer_args *a, sl_error *err) {                               \
        CHECK_##ATTRIBUTES return infer_function(                                                  \
            a, (function){SL_OP_##OP, CLASS_##TYPES, IS_##RESULT}, err);                           \
    }                                                                                              \
    sl_status sl_eval_##OP(const sl_eval_args *a, sl_error *err) {                                 \
        return eval_function(a, SL_OP_##OP, err);                                                  \
    }
#include "core/elementwise.def"

/* ---- where ---- */

sl_status sl_infer_where(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"condition", "a", "b"};
    SL_TRY(sl_elementwise_class(a, 0, "condition", SL_BOOLS, err));
    SL_TRY(sl_elementwise_class(a, 1, "a", SL_PLAIN, err));
    SL_TRY(sl_elementwise_alike(a, 1, 2, names, err));
    a->out[0].dtype = a->in[1].dtype;
    return sl_elementwise_broadcast(a, 3, &a->out[0].shape, err);
}
sl_status sl_eval_where(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const sl_type *type = &a->out[0].type;
    const int64_t slots = type->dtype == SL_DTYPE_c64 ? 2 : 1;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const bool first = in[0][sl_broadcast_index(&a->in[0].type.shape, &type->shape, i)] != 0;
        const uint32_t from = first ? 1 : 2;
        const int64_t at = sl_broadcast_index(&a->in[from].type.shape, &type->shape, i);
        memcpy(a->out[0].data + slots * i, in[from] + slots * at, (size_t)slots * sizeof(double));
    }
    return SL_OK;
}

/* ---- derivatives ---- */

sl_status sl_infer_activation_backward(const sl_infer_args *a, sl_error *err) {
    const char *kind = ((const sl_activation_backward_attrs *)a->attrs)->kind;
    if (sl_elementwise_slope_find(kind) < 0)
        return sl_fail(err, SL_INVALID,
                       "%s: kind is '%s', must be the name of an op of one operand with a "
                       "derivative, such as 'gelu'",
                       a->label, kind);
    return infer_function(a, (function){SL_OP_activation_backward, SL_FLOATS, false}, err);
}
sl_status sl_eval_activation_backward(const sl_eval_args *a, sl_error *err) {
    const int32_t number =
        sl_elementwise_slope_find(((const sl_activation_backward_attrs *)a->attrs)->kind);
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double x = in[0][sl_broadcast_index(&a->in[0].type.shape, shape, i)];
        const double dy = in[1][sl_broadcast_index(&a->in[1].type.shape, shape, i)];
        a->out[0].data[i] = sl_elementwise_slope((uint32_t)number, x) * dy;
    }
    return SL_OK;
}
