#include "compiler/ops/alike.h"
#include <string.h>

static const char *class_text(uint32_t classes) {
    if (classes == SL_FLOATS) return "f32, f16, bf16 or f64";
    return classes == SL_NUMBERS ? "a float or an integer type" : "a plain type";
}

sl_status sl_check_class(const sl_infer_args *a, uint32_t input, const char *name, uint32_t classes,
                         sl_error *err) {
    const sl_type *type = &a->in[input];
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(type, a->label, err));
    if (!(classes >> sl_dtype_infos[type->dtype].kind & 1))
        return sl_fail(err, SL_INVALID, "%s: %s is %s, its elements must be %s", a->label, name,
                       sl_type_format(type, text, sizeof text), class_text(classes));
    if (sl_type_elements(type) == 0)
        return sl_fail(err, SL_INVALID, "%s: %s is %s, must not be empty", a->label, name,
                       sl_type_format(type, text, sizeof text));
    return SL_OK;
}

sl_status sl_check_alike(const sl_infer_args *a, uint32_t count, const char *const *names,
                         uint32_t classes, sl_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        SL_TRY(sl_check_class(a, i, names[i], classes, err));
        if (a->in[i].dtype == a->in[0].dtype) continue;
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: %s is %s, its elements must be %s as those of %s",
                       a->label, names[i], sl_type_format(&a->in[i], text, sizeof text),
                       sl_dtype_infos[a->in[0].dtype].name, names[0]);
    }
    return SL_OK;
}

sl_status sl_check_shape(const sl_infer_args *a, uint32_t input, const char *name,
                         const sl_dims *wanted, const char *as, sl_error *err) {
    const sl_type *type = &a->in[input], want = {type->dtype, *wanted};
    char found[SL_TYPE_TEXT], text[SL_TYPE_TEXT];
    if (sl_dims_equal(&type->shape, wanted)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s, %s", a->label, name,
                   sl_type_format(type, found, sizeof found),
                   sl_type_format(&want, text, sizeof text), as);
}

sl_status sl_check_axis(const char *label, int64_t axis, uint32_t rank, uint32_t *out,
                        sl_error *err) {
    SL_TRY(sl_check_attr(label, "axis", axis, -(int64_t)rank, (int64_t)rank - 1, err));
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return SL_OK;
}

sl_status sl_check_rank(const sl_infer_args *a, uint32_t input, const char *name, uint32_t least,
                        uint32_t most, sl_error *err) {
    const sl_type *type = &a->in[input];
    char text[SL_TYPE_TEXT];
    if (type->shape.rank >= least && type->shape.rank <= most) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must have %u to %u dims", a->label, name,
                   sl_type_format(type, text, sizeof text), least, most);
}

sl_dims sl_dims_from(const sl_dims *dims, uint32_t from) {
    sl_dims tail = {.rank = dims->rank - from};
    memcpy(tail.dims, dims->dims + from, tail.rank * sizeof tail.dims[0]);
    return tail;
}
