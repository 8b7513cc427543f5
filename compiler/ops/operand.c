#include "compiler/ops/operand.h"
#include <math.h>
#include <string.h>

sl_status sl_refuse(const sl_infer_args *a, uint32_t input, const char *name, const char *wanted,
                    sl_error *err) {
    char text[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s", a->label, name,
                   sl_type_format(&a->in[input], text, sizeof text), wanted);
}

static const char *kinds_text(uint32_t kinds) {
    switch (kinds) {
    case SL_FLOATS:
        return "floats";
    case SL_NUMBERS:
        return "floats or integers";
    case SL_NUMBERS | SL_COMPLEXES:
        return "floats, integers or c64";
    case SL_NUMBERS | SL_BOOLS:
        return "floats, integers or bools";
    default:
        return "of a plain type (not one of groups)";
    }
}

sl_status sl_check_kinds(const sl_infer_args *a, uint32_t input, const char *name, uint32_t kinds,
                         sl_error *err) {
    SL_TRY(sl_type_check_shape(&a->in[input], a->label, err));
    if (kinds >> sl_dtype_infos[a->in[input].dtype].kind & 1) return SL_OK;
    return sl_refuse(a, input, name, kinds_text(kinds), err);
}

sl_status sl_check_indices(const sl_infer_args *a, uint32_t input, const char *name,
                           sl_error *err) {
    SL_TRY(sl_type_check_shape(&a->in[input], a->label, err));
    const sl_dtype dtype = a->in[input].dtype;
    if (dtype == SL_DTYPE_i32 || dtype == SL_DTYPE_i64) return SL_OK;
    return sl_refuse(a, input, name, "i32 or i64", err);
}

sl_status sl_check_type(const sl_infer_args *a, uint32_t input, const char *name,
                        const sl_type *wanted, const char *why, sl_error *err) {
    SL_TRY(sl_type_check_shape(&a->in[input], a->label, err));
    if (sl_type_equal(&a->in[input], wanted)) return SL_OK;
    char found[SL_TYPE_TEXT], text[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s %s", a->label, name,
                   sl_type_format(&a->in[input], found, sizeof found),
                   sl_type_format(wanted, text, sizeof text), why);
}

sl_status sl_find_axis(const char *label, int64_t axis, uint32_t rank, uint32_t *out,
                       sl_error *err) {
    SL_TRY(sl_check_attr(label, "axis", axis, -(int64_t)rank, (int64_t)rank - 1, err));
    *out = sl_axis(axis, rank);
    return SL_OK;
}

sl_status sl_check_axes(const char *label, const sl_dims *axes, uint32_t rank,
                        bool found[SL_MAX_RANK], sl_error *err) {
    SL_TRY(sl_check_attr(label, "the number of axes", axes->rank, 0, rank, err));
    for (uint32_t i = 0; i < axes->rank; i++) {
        const int64_t given = axes->dims[i];
        SL_TRY(sl_check_attr(label, "an axis", given, -(int64_t)rank, (int64_t)rank - 1, err));
        const uint32_t axis = sl_axis(given, rank);
        if (found[axis]) return sl_fail(err, SL_INVALID, "%s: axis %u is given twice", label, axis);
        found[axis] = true;
    }
    return SL_OK;
}

int64_t sl_dims_head(const sl_dims *dims, uint32_t before) {
    int64_t product = 1;
    for (uint32_t i = 0; i < before; i++) product *= dims->dims[i];
    return product;
}

sl_status sl_eval_integers(const sl_eval_args *a, uint32_t input, int64_t **out, sl_error *err) {
    const sl_eval_args only = {.label = a->label, .in = &a->in[input], .scratch = a->scratch};
    const double *slots;
    SL_TRY(sl_eval_inputs(&only, 1, &slots, err));
    const int64_t count = sl_type_elements(&a->in[input].type);
    *out = SL_ARENA_NEW_ARRAY(a->scratch, int64_t, count + 1);
    if (!*out) return sl_no_memory(err, a->label, (uint64_t)count * sizeof **out);
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = sl_slot_integer(a->in[input].type.dtype, &slots[i]);
    return SL_OK;
}

sl_status sl_eval_index(const sl_eval_args *a, int64_t index, int64_t limit, int64_t *out,
                        sl_error *err) {
    *out = index < 0 ? index + limit : index;
    if (*out >= 0 && *out < limit) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: an index is %lld, must be %lld to %lld", a->label,
                   (long long)index, (long long)-limit, (long long)limit - 1);
}

/* ---- arithmetic ---- */

static bool is_signed(sl_dtype dtype) {
    return dtype == SL_DTYPE_i8 || dtype == SL_DTYPE_i16 || dtype == SL_DTYPE_i32 ||
           dtype == SL_DTYPE_i64;
}

int64_t sl_wrap(sl_dtype dtype, int64_t value) {
    const uint32_t bits = sl_dtype_infos[dtype].bytes * 8;
    if (bits == 64) return value;
    const uint64_t low = (uint64_t)value & (((uint64_t)1 << bits) - 1);
    const bool negative = is_signed(dtype) && low >> (bits - 1);
    return (int64_t)(negative ? low - ((uint64_t)1 << bits) : low);
}

static bool integer_less(sl_dtype dtype, int64_t x, int64_t y) {
    return dtype == SL_DTYPE_u64 ? (uint64_t)x < (uint64_t)y : x < y;
}

static void fold_integer(sl_dtype dtype, sl_fold kind, double *into, const double *slot) {
    const int64_t a = sl_slot_integer(dtype, into), x = sl_slot_integer(dtype, slot);
    int64_t result = x;
    if (kind == SL_FOLD_ADD) result = (int64_t)((uint64_t)a + (uint64_t)x);
    if (kind == SL_FOLD_MUL) result = (int64_t)((uint64_t)a * (uint64_t)x);
    if (kind == SL_FOLD_MAX) result = integer_less(dtype, a, x) ? x : a;
    if (kind == SL_FOLD_MIN) result = integer_less(dtype, x, a) ? x : a;
    sl_slot_set_integer(dtype, into, sl_wrap(dtype, result));
}

static double fold_real(sl_fold kind, double a, double x) {
    switch (kind) {
    case SL_FOLD_ADD:
        return a + x;
    case SL_FOLD_MUL:
        return a * x;
    case SL_FOLD_MAX:
        return isnan(a) || a > x ? a : x;
    case SL_FOLD_MIN:
        return isnan(a) || a < x ? a : x;
    default:
        return x;
    }
}

void sl_fold_slot(sl_dtype dtype, sl_fold fold_kind, double *into, const double *x) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    if (kind == SL_KIND_INT) {
        fold_integer(dtype, fold_kind, into, x);
    } else if (kind == SL_KIND_COMPLEX && fold_kind == SL_FOLD_MUL) {
        const double re = into[0] * x[0] - into[1] * x[1], im = into[0] * x[1] + into[1] * x[0];
        into[0] = re, into[1] = im;
    } else {
        for (int64_t i = 0; i < sl_unit(dtype); i++) into[i] = fold_real(fold_kind, into[i], x[i]);
    }
}

/* The smallest or largest value of an integer type. */
static int64_t last_integer(sl_dtype dtype, bool largest) {
    const uint32_t bits = sl_dtype_infos[dtype].bytes * 8;
    if (!is_signed(dtype)) return largest ? sl_wrap(dtype, -1) : 0;
    const int64_t most = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    return largest ? most : -most - 1;
}

void sl_fold_start(sl_dtype dtype, sl_fold fold_kind, double *slot) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    const bool extreme = fold_kind == SL_FOLD_MAX || fold_kind == SL_FOLD_MIN;
    for (int64_t i = 0; i < sl_unit(dtype); i++) slot[i] = 0;
    if (kind == SL_KIND_INT)
        sl_slot_set_integer(dtype, slot,
                            extreme ? last_integer(dtype, fold_kind == SL_FOLD_MIN)
                                    : fold_kind == SL_FOLD_MUL);
    else if (kind == SL_KIND_BOOL)
        *slot = fold_kind == SL_FOLD_MIN;
    else if (extreme)
        *slot = fold_kind == SL_FOLD_MAX ? -INFINITY : INFINITY;
    else
        *slot = fold_kind == SL_FOLD_MUL;
}

bool sl_slot_less(sl_dtype dtype, const double *x, const double *y) {
    if (sl_dtype_infos[dtype].kind == SL_KIND_INT)
        return integer_less(dtype, sl_slot_integer(dtype, x), sl_slot_integer(dtype, y));
    return isnan(*y) ? !isnan(*x) : *x < *y;
}
