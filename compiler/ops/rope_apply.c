/* rope_apply.c - RoPE with angles from operands or from grid positions, and gradients, which rotate
 * the other way. */
#include "core/rope_apply.h"
#include "compiler/ops/attention.h"
#include <string.h>

/* ---- rope_tables ---- */

sl_status sl_infer_rope_tables(const sl_infer_args *a, sl_error *err) {
    const sl_rope_tables_attrs *attrs = a->attrs;
    const sl_type *positions = &a->in[0], *frequencies = &a->in[1];
    SL_TRY(
        sl_match(a, "positions plain[..], frequencies float[R] -> float[..,R], float[..,R]", err));
    const bool whole = positions->dtype == SL_DTYPE_i32 || positions->dtype == SL_DTYPE_i64;
    if (!whole && sl_dtype_infos[positions->dtype].kind != SL_KIND_FLOAT)
        return sl_fail(err, SL_INVALID, "%s: positions is %s, must be i32, i64 or a float type",
                       a->label, sl_dtype_infos[positions->dtype].name);
    if (!isfinite(attrs->magnitude))
        return sl_fail(err, SL_INVALID, "%s: magnitude is %g, must be finite", a->label,
                       (double)attrs->magnitude);
    a->out[0].dtype = a->out[1].dtype = frequencies->dtype;
    return SL_OK;
}

sl_status sl_eval_rope_tables(const sl_eval_args *a, sl_error *err) {
    const float given = ((const sl_rope_tables_attrs *)a->attrs)->magnitude;
    const double magnitude = given != 0 ? (double)given : 1;
    const sl_dtype dtype = a->in[0].type.dtype;
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t width = sl_eval_dim(a, 1, 0);
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double *slot = &in[0][i / width];
        const double position =
            dtype == SL_DTYPE_i64 ? (double)sl_slot_integer(dtype, slot) : *slot;
        a->out[0].data[i] = magnitude * cos(position * in[1][i % width]);
        a->out[1].data[i] = magnitude * sin(position * in[1][i % width]);
    }
    return SL_OK;
}

/* ---- rope_apply ---- */

static sl_dims leading(const sl_dims *shape, uint32_t skip) {
    sl_dims out = {.rank = shape->rank - 1 - skip};
    memcpy(out.dims, shape->dims + skip, out.rank * sizeof out.dims[0]);
    return out;
}

/* Checks x, cos and sin; the tables have `kinds` (0 or 1) dims before those that broadcast to
 * x's. */
static sl_status infer_turned(const sl_infer_args *a, const char *x_name, uint32_t kinds,
                              sl_error *err) {
    const char *const names[] = {x_name, "cos", "sin"};
    char found[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
    for (int i = 0; i < 3; i++) {
        SL_TRY(sl_type_check(&a->in[i], a->label, err));
        const uint32_t least = i ? 1 + kinds : 1;
        if (sl_dtype_infos[a->in[i].dtype].kind != SL_KIND_FLOAT || a->in[i].shape.rank < least)
            return sl_fail(err, SL_INVALID, "%s: %s is %s, must be a float type of %u dims or more",
                           a->label, names[i], sl_type_format(&a->in[i], found, sizeof found),
                           least);
    }
    SL_TRY(sl_check_one_type(a, names, 3, err));
    SL_TRY(sl_check_extra(a, 2, "sin", &a->in[1], err));
    const sl_dims x = leading(&a->in[0].shape, 0), table = leading(&a->in[1].shape, kinds);
    bool fits = table.rank <= x.rank;
    for (uint32_t back = 1; fits && back <= table.rank; back++) {
        const int64_t size = table.dims[table.rank - back];
        fits = size == 1 || size == x.dims[x.rank - back];
    }
    if (!fits)
        return sl_fail(err, SL_INVALID,
                       "%s: cos is %s, its leading dims must broadcast to %s's, %s", a->label,
                       sl_type_format(&a->in[1], found, sizeof found), x_name,
                       sl_type_format(&a->in[0], other, sizeof other));
    a->out[0] = a->in[0];
    return SL_OK;
}

/* Parameters of the rotation of all rows. */
typedef struct {
    uint32_t kinds;
    int64_t pairs;
    bool interleaved, striped, back;
    const sl_integers *sections;
} turn;

static sl_status eval_turned(const sl_eval_args *a, const turn *t, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const sl_type *x = &a->in[0].type, *table = &a->in[1].type;
    const sl_dims rows = leading(&x->shape, 0), places = leading(&table->shape, t->kinds);
    const int64_t width = sl_eval_last_dim(a, 0), columns = sl_eval_last_dim(a, 1);
    const int64_t kinds = t->kinds ? table->shape.dims[0] : 1;
    const int64_t plane = sl_type_elements(table) / kinds;
    const int64_t step = sl_pair_step(t->interleaved, t->pairs);
    double *out = a->out[0].data;
    memmove(out, in[0], (size_t)sl_type_elements(x) * sizeof *out);
    for (int64_t row = 0; row < sl_type_elements(x) / width; row++)
        for (int64_t j = 0; j < t->pairs; j++) {
            const int64_t kind = t->kinds ? sl_mrope_kind(t->sections, t->striped, kinds, j) : 0;
            const int64_t at = kind * plane + sl_broadcast_index(&places, &rows, row) * columns + j;
            double *one = out + row * width + sl_pair_at(t->interleaved, j), *other = one + step;
            const double first = *one, second = *other;
            const double cosine = in[1][at], sine = t->back ? -in[2][at] : in[2][at];
            *one = first * cosine - second * sine;
            *other = second * cosine + first * sine;
        }
    return SL_OK;
}

static int64_t last_of(const sl_type *type) {
    return type->shape.dims[type->shape.rank - 1];
}

static sl_status check_rotary(const sl_infer_args *a, uint32_t rotary, uint32_t interleaved,
                              sl_error *err) {
    const int64_t width = last_of(&a->in[0]), columns = last_of(&a->in[1]);
    SL_TRY(sl_check_attr(a->label, "interleaved", interleaved, 0, 1, err));
    if (rotary == 0)
        return sl_check_attr(a->label, "twice the columns of cos", 2 * columns, 2, width, err);
    const int64_t most = width < 2 * columns ? width : 2 * columns;
    SL_TRY(sl_check_attr(a->label, "rotary", rotary, 2, most, err));
    return rotary % 2 ? sl_fail(err, SL_INVALID, "%s: rotary is %u, must be even", a->label, rotary)
                      : SL_OK;
}

static turn plain_turn(const sl_eval_args *a, uint32_t rotary, uint32_t interleaved, bool back) {
    return (turn){.pairs = rotary ? rotary / 2 : sl_eval_last_dim(a, 1),
                  .interleaved = interleaved,
                  .back = back};
}

#define ROPE(NAME, X, BACK)                                                                        \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        const sl_##NAME##_attrs *attrs = a->attrs;                                                 \
        SL_TRY(infer_turned(a, X, 0, err));                                                        \
        return check_rotary(a, attrs->rotary, attrs->interleaved, err);                            \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        const sl_##NAME##_attrs *attrs = a->attrs;                                                 \
        const turn t = plain_turn(a, attrs->rotary, attrs->interleaved, BACK);                     \
        return eval_turned(a, &t, err);                                                            \
    }
ROPE(rope_apply, "x", false)
ROPE(rope_apply_backward, "dout", true)
#undef ROPE

/* ---- mrope ---- */

static sl_status check_sections(const sl_infer_args *a, const sl_integers *sections,
                                uint32_t striped, sl_error *err) {
    const int64_t columns = last_of(&a->in[1]), kinds = a->in[1].shape.dims[0];
    int64_t sum = 0;
    SL_TRY(sl_check_attr(a->label, "the number of sections", sections->count, 1, 4096, err));
    for (uint32_t i = 0; i < sections->count; i++) {
        SL_TRY(sl_check_attr(a->label, "a section", sections->items[i], 0, columns, err));
        sum += sections->items[i];
    }
    if (sum != columns)
        return sl_fail(err, SL_INVALID, "%s: sections add up to %lld, must be cos's %lld columns",
                       a->label, (long long)sum, (long long)columns);
    if (striped && sections->count != kinds)
        return sl_fail(err, SL_INVALID, "%s: %u striped sections, must be cos's %lld kinds",
                       a->label, sections->count, (long long)kinds);
    return SL_OK;
}

#define MROPE(NAME, X, BACK)                                                                       \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        const sl_##NAME##_attrs *attrs = a->attrs;                                                 \
        SL_TRY(infer_turned(a, X, 1, err));                                                        \
        SL_TRY(check_rotary(a, 0, attrs->interleaved, err));                                       \
        SL_TRY(sl_check_attr(a->label, "striped", attrs->striped, 0, 1, err));                     \
        return check_sections(a, &attrs->sections, attrs->striped, err);                           \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        const sl_##NAME##_attrs *attrs = a->attrs;                                                 \
        turn t = plain_turn(a, 0, attrs->interleaved, BACK);                                       \
        t.kinds = 1, t.sections = &attrs->sections, t.striped = attrs->striped;                    \
        return eval_turned(a, &t, err);                                                            \
    }
MROPE(mrope, "x", false)
MROPE(mrope_backward, "dout", true)
#undef MROPE

/* ---- axial_rope2d ---- */

typedef struct {
    uint32_t width, height;
    float theta;
} grid;

static sl_status infer_axial(const sl_infer_args *a, const grid *g, const char *signature,
                             sl_error *err) {
    SL_TRY(sl_match(a, signature, err));
    a->out[0] = a->in[0];
    SL_TRY(sl_check_attr(a->label, "width", g->width, 1, INT32_MAX, err));
    SL_TRY(sl_check_attr(a->label, "height", g->height, 1, INT32_MAX, err));
    const int64_t tokens = a->in[0].shape.dims[a->in[0].shape.rank - 2];
    const int64_t cells = (int64_t)g->width * g->height;
    if (tokens % cells)
        return sl_fail(err, SL_INVALID, "%s: %lld tokens, must be a multiple of %u x %u", a->label,
                       (long long)tokens, g->width, g->height);
    if (!(g->theta > 0) || isinf(g->theta))
        return sl_fail(err, SL_INVALID, "%s: theta is %g, must be positive", a->label,
                       (double)g->theta);
    return SL_OK;
}

static sl_status eval_axial(const sl_eval_args *a, const grid *g, double sign, sl_error *err) {
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const int64_t dims = sl_eval_last_dim(a, 0), rank = a->in[0].type.shape.rank;
    if (rank < 2 || dims < 4) return SL_OK; /* cannot happen after inference */
    const int64_t tokens = a->in[0].type.shape.dims[rank - 2];
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i += 2) {
        const int64_t token = i / dims % tokens, pair = i % dims / 2, c = pair % (dims / 4);
        const int64_t place = pair < dims / 4 ? token % g->width : token / g->width % g->height;
        const double angle =
            sign * (double)place * pow((double)g->theta, -4.0 * (double)c / (double)dims);
        const double one = x[i], other = x[i + 1];
        a->out[0].data[i] = one * cos(angle) - other * sin(angle);
        a->out[0].data[i + 1] = other * cos(angle) + one * sin(angle);
    }
    return SL_OK;
}

#define AXIAL(NAME, SIGNATURE, SIGN)                                                               \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        const sl_##NAME##_attrs *attrs = a->attrs;                                                 \
        return infer_axial(a, &(grid){attrs->width, attrs->height, attrs->theta}, SIGNATURE, err); \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        const sl_##NAME##_attrs *attrs = a->attrs;                                                 \
        return eval_axial(a, &(grid){attrs->width, attrs->height, attrs->theta}, SIGN, err);       \
    }
AXIAL(axial_rope2d, "x float[..,S,4D]", 1)
AXIAL(axial_rope2d_backward, "dout float[..,S,4D]", -1)
#undef AXIAL
