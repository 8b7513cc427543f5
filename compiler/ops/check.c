#include "compiler/ops/check.h"
#include "core/codec.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

enum { MAX_NAMES = 8, MAX_NAME = 12 };

typedef struct {
    char name[MAX_NAME];
    int64_t size;
    const char *operand; /* operand in which the dim first occurred */
    const sl_type *type;
} dim_name;

typedef struct {
    const sl_infer_args *args;
    const char *at; /* the rest of the signature */
    dim_name names[MAX_NAMES];
    uint32_t name_count;
    sl_dims rest; /* the dims that ".." matches */
    const char *rest_operand;
    const sl_type *rest_type;
    sl_error *err;
} matcher;

/* One operand or result of a signature, parsed. */
typedef struct {
    char name[MAX_NAME], dtype[MAX_NAME];
    bool has_rest;
    uint32_t dim_count;
    char dims[SL_MAX_RANK][MAX_NAME];
    char text[64]; /* "f32[T,K]" */
} pattern;

static void skip_spaces(matcher *m) {
    while (*m->at == ' ' || *m->at == ',') m->at++;
}

static void read_word(matcher *m, char *out) {
    size_t n = 0;
    while ((isalnum((unsigned char)*m->at) || *m->at == '_' || *m->at == '-') && n + 1 < MAX_NAME)
        out[n++] = *m->at++;
    out[n] = 0;
}

static void read_pattern(matcher *m, bool named, pattern *p) {
    memset(p, 0, sizeof *p);
    skip_spaces(m);
    if (named) {
        read_word(m, p->name);
        skip_spaces(m);
    }
    const char *start = m->at;
    read_word(m, p->dtype);
    m->at++; /* [ */
    if (strncmp(m->at, "..", 2) == 0) {
        p->has_rest = true;
        m->at += 2;
    }
    skip_spaces(m);
    while (*m->at && *m->at != ']' && p->dim_count < SL_MAX_RANK) {
        read_word(m, p->dims[p->dim_count++]);
        skip_spaces(m);
    }
    m->at++; /* ] */
    const size_t length = (size_t)(m->at - start);
    if (length < sizeof p->text) memcpy(p->text, start, length);
}

/* Types of a KV cache: floats, or codes. */
static bool may_be_cached(sl_dtype dtype, sl_dtype codes) {
    return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_f16 || dtype == codes;
}

static bool dtype_matches(const char *wanted, sl_dtype dtype) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    if (strcmp(wanted, "any") == 0) return true;
    if (strcmp(wanted, "plain") == 0) return sl_dtype_infos[dtype].bytes > 0;
    if (strcmp(wanted, "float") == 0) return kind == SL_KIND_FLOAT;
    if (strcmp(wanted, "weight") == 0)
        return (kind == SL_KIND_FLOAT && dtype != SL_DTYPE_f64) || kind == SL_KIND_PANEL;
    if (strcmp(wanted, "panels") == 0) return kind == SL_KIND_PANEL;
    if (strcmp(wanted, "rows") == 0) return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_a8;
    if (strcmp(wanted, "number") == 0) return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_i32;
    if (strcmp(wanted, "keys") == 0) return may_be_cached(dtype, SL_DTYPE_k16);
    if (strcmp(wanted, "values") == 0) return may_be_cached(dtype, SL_DTYPE_v16);
    return strcmp(wanted, sl_dtype_infos[dtype].name) == 0;
}

static const char *dtype_meaning(const char *wanted) {
    if (strcmp(wanted, "plain") == 0) return " (not a type of groups)";
    if (strcmp(wanted, "float") == 0) return " (f32, f16, bf16 or f64)";
    if (strcmp(wanted, "weight") == 0) return " (f32, f16, bf16 or a panel type)";
    if (strcmp(wanted, "panels") == 0) return " (a panel type, because x is a8)";
    if (strcmp(wanted, "rows") == 0) return " (f32 or a8)";
    if (strcmp(wanted, "number") == 0) return " (f32 or i32)";
    if (strcmp(wanted, "keys") == 0) return " (f32, f16 or k16)";
    if (strcmp(wanted, "values") == 0) return " (f32, f16 or v16)";
    return "";
}

static const char *ordinal(uint32_t dim) {
    static const char *const words[] = {"first", "second", "third",   "fourth",
                                        "fifth", "sixth",  "seventh", "eighth"};
    return words[dim < SL_MAX_RANK ? dim : SL_MAX_RANK - 1];
}

/* A dim as written: factor * name + offset, or only the factor. */
typedef struct {
    int64_t factor, offset;
    char name[MAX_NAME];
} dim_form;

static dim_form read_dim(const char *text) {
    dim_form form = {0};
    while (isdigit((unsigned char)*text)) form.factor = form.factor * 10 + (*text++ - '0');
    for (size_t n = 0; *text && *text != '-' && n + 1 < MAX_NAME; n++) form.name[n] = *text++;
    if (*text == '-') form.offset = -(int64_t)(text[1] - '0');
    if (form.name[0] && form.factor == 0) form.factor = 1;
    return form;
}

static dim_name *find_name(matcher *m, const char *name) {
    for (uint32_t i = 0; i < m->name_count; i++)
        if (strcmp(m->names[i].name, name) == 0) return &m->names[i];
    return NULL;
}

static sl_status wrong_dim(matcher *m, const char *operand, const sl_type *type, uint32_t dim,
                           int64_t wanted, const dim_name *source) {
    char text[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
    sl_type_format(type, text, sizeof text);
    if (!source)
        return sl_fail(m->err, SL_INVALID, "%s: %s is %s, its %s dim must be %lld", m->args->label,
                       operand, text, ordinal(dim), (long long)wanted);
    return sl_fail(m->err, SL_INVALID, "%s: %s is %s, its %s dim must be %lld as in %s %s",
                   m->args->label, operand, text, ordinal(dim), (long long)wanted, source->operand,
                   sl_type_format(source->type, other, sizeof other));
}

static sl_status match_dim(matcher *m, const char *operand, const sl_type *type, uint32_t dim,
                           const char *text) {
    const dim_form form = read_dim(text);
    const dim_name *known = form.name[0] ? find_name(m, form.name) : NULL;
    const int64_t found = type->shape.dims[dim];
    if (known || !form.name[0]) {
        const int64_t wanted = (known ? known->size : 1) * form.factor + form.offset;
        return found == wanted ? SL_OK : wrong_dim(m, operand, type, dim, wanted, known);
    }
    if ((found - form.offset) % form.factor != 0) {
        char shown[SL_TYPE_TEXT];
        return sl_fail(m->err, SL_INVALID, "%s: %s is %s, its %s dim must be a multiple of %lld",
                       m->args->label, operand, sl_type_format(type, shown, sizeof shown),
                       ordinal(dim), (long long)form.factor);
    }
    dim_name *fresh = &m->names[m->name_count++];
    *fresh =
        (dim_name){.size = (found - form.offset) / form.factor, .operand = operand, .type = type};
    memcpy(fresh->name, form.name, MAX_NAME);
    return SL_OK;
}

static sl_status match_rest(matcher *m, const pattern *p, const char *operand,
                            const sl_type *type) {
    sl_dims rest = {.rank = type->shape.rank - p->dim_count};
    memcpy(rest.dims, type->shape.dims, rest.rank * sizeof rest.dims[0]);
    if (!m->rest_operand) {
        m->rest = rest;
        m->rest_operand = operand;
        m->rest_type = type;
    } else if (!sl_dims_equal(&m->rest, &rest)) {
        char text[SL_TYPE_TEXT], other[SL_TYPE_TEXT];
        return sl_fail(m->err, SL_INVALID, "%s: %s is %s, its leading dims must be those of %s %s",
                       m->args->label, operand, sl_type_format(type, text, sizeof text),
                       m->rest_operand, sl_type_format(m->rest_type, other, sizeof other));
    }
    return SL_OK;
}

static sl_status match_input(matcher *m, const pattern *p, const char *operand,
                             const sl_type *type) {
    const sl_dims *shape = &type->shape;
    SL_TRY(sl_type_check(type, m->args->label, m->err));
    const bool rank_fits = p->has_rest ? shape->rank >= p->dim_count : shape->rank == p->dim_count;
    if (!rank_fits || !dtype_matches(p->dtype, type->dtype)) {
        char text[SL_TYPE_TEXT];
        return sl_fail(m->err, SL_INVALID, "%s: %s is %s, must be %s%s", m->args->label, operand,
                       sl_type_format(type, text, sizeof text), p->text, dtype_meaning(p->dtype));
    }
    if (p->has_rest) SL_TRY(match_rest(m, p, operand, type));
    const uint32_t first = shape->rank - p->dim_count;
    for (uint32_t d = 0; d < p->dim_count; d++)
        SL_TRY(match_dim(m, operand, type, first + d, p->dims[d]));
    return SL_OK;
}

static sl_status set_result(matcher *m, const pattern *p, sl_type *out) {
    (void)sl_dtype_find(p->dtype, strlen(p->dtype), &out->dtype);
    out->shape = p->has_rest ? m->rest : (sl_dims){0};
    if (out->shape.rank + p->dim_count > SL_MAX_RANK)
        return sl_fail(m->err, SL_INVALID, "%s: a result would have %u dims, at most %d",
                       m->args->label, out->shape.rank + p->dim_count, SL_MAX_RANK);
    for (uint32_t d = 0; d < p->dim_count; d++) {
        const dim_form form = read_dim(p->dims[d]);
        const dim_name *known = find_name(m, form.name);
        out->shape.dims[out->shape.rank++] = (known ? known->size : 1) * form.factor + form.offset;
    }
    return SL_OK;
}

sl_status sl_match(const sl_infer_args *a, const char *signature, sl_error *err) {
    matcher m = {.args = a, .at = signature, .err = err};
    pattern inputs[SL_MAX_INPUTS], result;
    uint32_t count = 0;
    for (skip_spaces(&m); *m.at && *m.at != '-'; skip_spaces(&m)) {
        read_pattern(&m, true, &inputs[count]);
        SL_TRY(match_input(&m, &inputs[count], inputs[count].name, &a->in[count]));
        count++;
    }
    if (*m.at) m.at += 2; /* -> */
    skip_spaces(&m);
    for (uint32_t o = 0; *m.at; o++, skip_spaces(&m)) {
        read_pattern(&m, false, &result);
        SL_TRY(set_result(&m, &result, &a->out[o]));
    }
    return SL_OK;
}

sl_status sl_match_second(const sl_infer_args *a, const char *signature, sl_error *err) {
    const sl_infer_args second = {a->label, &a->in[1],       a->attrs,
                                  a->out,   a->in_count - 1, a->out_count};
    return sl_match(&second, signature, err);
}

sl_status sl_broadcast(const char *label, const sl_dims *a, const sl_dims *b, sl_dims *out,
                       sl_error *err) {
    const sl_dims *longer = a->rank >= b->rank ? a : b;
    sl_dims shape = *longer;
    for (uint32_t back = 1; back <= shape.rank; back++) {
        const int64_t x = back <= a->rank ? a->dims[a->rank - back] : 1;
        const int64_t y = back <= b->rank ? b->dims[b->rank - back] : 1;
        if (x != y && x != 1 && y != 1)
            return sl_fail(err, SL_INVALID,
                           "%s: dims %lld and %lld (number %u from the end) do not broadcast: they "
                           "must be equal or 1",
                           label, (long long)x, (long long)y, back);
        shape.dims[shape.rank - back] = x == 1 ? y : x;
    }
    *out = shape;
    return SL_OK;
}

int64_t sl_broadcast_index(const sl_dims *from, const sl_dims *to, int64_t index) {
    int64_t offset = 0, stride = 1;
    for (uint32_t back = 1; back <= from->rank; back++) {
        const int64_t size = to->dims[to->rank - back], own = from->dims[from->rank - back];
        if (own != 1) offset += index % size * stride;
        index /= size;
        stride *= own;
    }
    return offset;
}

sl_status sl_check_attr(const char *label, const char *name, int64_t value, int64_t least,
                        int64_t most, sl_error *err) {
    if (value >= least && value <= most) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %lld, must be %lld to %lld", label, name,
                   (long long)value, (long long)least, (long long)most);
}

sl_status sl_eval_scratch(const sl_eval_args *a, int64_t count, double **out, sl_error *err) {
    *out = SL_ARENA_NEW_ARRAY(a->scratch, double, count);
    return *out ? SL_OK : sl_no_memory(err, a->label, (uint64_t)count * sizeof **out);
}

sl_status sl_eval_inputs(const sl_eval_args *a, uint32_t count, const double **out, sl_error *err) {
    for (uint32_t i = 0; i < count; i++) {
        const sl_eval_tensor *tensor = &a->in[i];
        out[i] = tensor->data;
        if (tensor->data) continue;
        if (!tensor->coded || sl_dtype_infos[tensor->type.dtype].kind == SL_KIND_PANEL)
            return sl_fail(err, SL_INVALID, "%s: input %u has no plain data", a->label, i);
        double *decoded;
        const int64_t elements = sl_type_slots(&tensor->type);
        SL_TRY(sl_eval_scratch(a, elements, &decoded, err));
        sl_decode_tensor(&tensor->type, tensor->coded, decoded);
        out[i] = decoded;
    }
    return SL_OK;
}

sl_status sl_eval_bounds(const sl_eval_args *a, const char *name, const double *values,
                         int64_t count, int64_t limit, sl_error *err) {
    for (int64_t i = 0; i < count; i++)
        if (!(values[i] >= 0 && values[i] < (double)limit))
            return sl_fail(err, SL_INVALID, "%s: %s[%lld] is %.0f, must be 0 to %lld", a->label,
                           name, (long long)i, values[i], (long long)limit - 1);
    return SL_OK;
}

int64_t sl_wrap_integer(sl_dtype dtype, int64_t value) {
    switch (dtype) {
    case SL_DTYPE_i8:
        return (int8_t)(uint8_t)value;
    case SL_DTYPE_u8:
        return (uint8_t)value;
    case SL_DTYPE_i16:
        return (int16_t)(uint16_t)value;
    case SL_DTYPE_u16:
        return (uint16_t)value;
    case SL_DTYPE_i32:
        return (int32_t)(uint32_t)value;
    case SL_DTYPE_u32:
        return (uint32_t)value;
    case SL_DTYPE_bool:
        return value != 0;
    default:
        return value;
    }
}

sl_status sl_eval_temp(const sl_eval_args *a, const sl_type *type, sl_eval_tensor *out,
                       sl_error *err) {
    *out = (sl_eval_tensor){.type = *type};
    return sl_eval_scratch(a, sl_type_elements(type), &out->data, err);
}

sl_status sl_eval_part(const sl_eval_args *a, sl_op op, const sl_eval_tensor *in, const void *attrs,
                       const sl_eval_tensor *out, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(op);
    const sl_eval_args args = {a->label,          in, attrs, out, a->scratch, info->input_count,
                               info->output_count};
    return sl_eval(op, &args, err);
}
