/* matmul_dequant.c - Products with low-bit weights (core/schemes.h). */
#include "compiler/ops/numbers.h"
#include "core/schemes.h"

static sl_status scheme_of(const char *label, const char *text, sl_scheme *out, sl_error *err) {
    char known[SL_SCHEMES_TEXT];
    if (sl_scheme_find(text, out)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: scheme is \"%s\", must be one of %s", label, text,
                   sl_schemes_known(known, sizeof known));
}
static sl_status gguf_scheme_of(const char *label, const char *text, sl_scheme *out,
                                sl_error *err) {
    SL_TRY(scheme_of(label, text, out, err));
    if (out->gguf) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: scheme is \"%s\", must be a type of GGUF (gguf_...)",
                   label, text);
}

/* The number of columns in rows of this many bytes; fails unless they are whole blocks. */
static sl_status cols_of(const char *label, const sl_scheme *scheme, int64_t bytes, int64_t *out,
                         sl_error *err) {
    const sl_gguf_layout *l = scheme->gguf;
    *out = bytes / l->bytes * l->cols;
    if (bytes % l->bytes == 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: rows of w have %lld bytes, must be whole blocks of %lld",
                   label, (long long)bytes, (long long)l->bytes);
}

/* ---- dequant_matmul ---- */

static sl_status check_w(const sl_infer_args *a, const sl_scheme *scheme, sl_error *err) {
    const sl_dtype dtype = a->in[1].dtype;
    const bool whole = scheme->kind == SL_SCHEME_INT8, either = scheme->kind == SL_SCHEME_INT8_ASYM;
    const bool fits = scheme->bits ? dtype == SL_DTYPE_u32
                      : whole      ? dtype == SL_DTYPE_i8
                                   : dtype == SL_DTYPE_u8 || (either && dtype == SL_DTYPE_i8);
    if (fits) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: w is %s, must be %s for %s", a->label,
                   sl_dtype_infos[dtype].name,
                   whole          ? "i8"
                   : either       ? "i8 or u8"
                   : scheme->bits ? "u32"
                                  : "u8",
                   scheme->name);
}

/* The block must be 0 if the scheme has a fixed one, else positive. */
static sl_status block_of(const sl_infer_args *a, const sl_scheme *scheme, int64_t *out,
                          sl_error *err) {
    const sl_dequant_matmul_attrs *attrs = a->attrs;
    const bool is_free = scheme->kind <= SL_SCHEME_INT4_ASYM || scheme->bits;
    SL_TRY(sl_check_attr(a->label, "block", attrs->block, is_free ? 1 : 0, is_free ? INT32_MAX : 0,
                         err));
    *out = scheme->kind == SL_SCHEME_NVFP4 ? SL_NVFP4_BLOCK : attrs->block;
    return SL_OK;
}

/* Checks the params after x and w: a scale per block and column, and others that the scheme has. */
static sl_status check_params(const sl_infer_args *a, const sl_scheme *scheme, int64_t block,
                              sl_error *err) {
    const int64_t inner = a->in[1].shape.dims[0];
    const sl_dims *scale = &a->in[2].shape;
    const sl_dtype dtype = scheme->kind == SL_SCHEME_NVFP4 ? SL_DTYPE_u8 : SL_DTYPE_f32;
    if (a->in[2].dtype != dtype)
        return sl_fail(err, SL_INVALID, "%s: the scale is %s, must be %s for %s", a->label,
                       sl_dtype_infos[a->in[2].dtype].name, sl_dtype_infos[dtype].name,
                       scheme->name);
    if (!block) return sl_check_param(a, 2, "the scale", a->in[1].shape.dims[1], err);
    const int64_t cols = scale->rank ? scale->dims[scale->rank - 1] : 1;
    const sl_dims wanted = {2, {(inner + block - 1) / block, cols}};
    const sl_dims packed = {2, {inner, scheme->nibbles ? (cols + 1) / 2 : cols}};
    SL_TRY(sl_check_dims(a, 2, "the scale", &wanted, err));
    SL_TRY(sl_check_dims(a, 1, "w", &packed, err));
    if (scheme->params < 2) return SL_OK;
    if (a->in[3].dtype != SL_DTYPE_f32)
        return sl_fail(err, SL_INVALID, "%s: the second of params is %s, must be f32", a->label,
                       sl_dtype_infos[a->in[3].dtype].name);
    if (scheme->kind == SL_SCHEME_NVFP4) return sl_check_param(a, 3, "the global scale", 1, err);
    return sl_check_dims(a, 3, "the zero", &wanted, err);
}

/* K, which a row of codes gives if they are whole groups, and the scale and bias of each group. */
static sl_status check_mlx(const sl_infer_args *a, const sl_scheme *scheme, int64_t block,
                           int64_t *out_inner, sl_error *err) {
    const sl_dims *w = &a->in[1].shape;
    const int64_t bits = w->dims[1] * 32, inner = bits / scheme->bits;
    const sl_dims wanted = {2, {w->dims[0], block ? inner / block : 0}};
    *out_inner = inner;
    if ((block != 32 && block != 64 && block != 128) || bits % scheme->bits || inner % block)
        return sl_fail(err, SL_INVALID,
                       "%s: block is %lld, must be 32, 64 or 128 and divide the %lld columns of "
                       "%u bits",
                       a->label, (long long)block, (long long)inner, scheme->bits);
    for (uint32_t i = 2; i < 4; i++) {
        const char *name = i == 2 ? "the scale" : "the bias";
        if (a->in[i].dtype != SL_DTYPE_f32)
            return sl_fail(err, SL_INVALID, "%s: %s is %s, must be f32", a->label, name,
                           sl_dtype_infos[a->in[i].dtype].name);
        SL_TRY(sl_check_dims(a, i, name, &wanted, err));
    }
    return SL_OK;
}

sl_status sl_infer_dequant_matmul(const sl_infer_args *a, sl_error *err) {
    const sl_dequant_matmul_attrs *attrs = a->attrs;
    sl_scheme scheme;
    int64_t block, inner, cols;
    SL_TRY(scheme_of(a->label, attrs->scheme, &scheme, err));
    SL_TRY(sl_match(a, "x float[..,K], w plain[A,B]", err));
    SL_TRY(sl_check_numbers(a, 0, "x", SL_NUMBERS_NARROW, err));
    SL_TRY(check_w(a, &scheme, err));
    SL_TRY(sl_check_inputs_after(a, 2, "params", scheme.params, scheme.params, err));
    SL_TRY(block_of(a, &scheme, &block, err));
    for (uint32_t i = 0; i < scheme.params; i++)
        SL_TRY(sl_type_check(&a->in[2 + i], a->label, err));
    const sl_dims *w = &a->in[1].shape;
    if (scheme.gguf) {
        SL_TRY(cols_of(a->label, &scheme, w->dims[1], &inner, err));
        cols = w->dims[0];
    } else if (scheme.bits) {
        SL_TRY(check_mlx(a, &scheme, block, &inner, err));
        cols = w->dims[0];
    } else {
        SL_TRY(check_params(a, &scheme, block, err));
        inner = w->dims[0];
        cols = block ? a->in[2].shape.dims[1] : w->dims[1];
    }
    a->out[0] = a->in[0];
    int64_t *last = &a->out[0].shape.dims[a->out[0].shape.rank - 1];
    SL_TRY(*last == inner ? SL_OK
                          : sl_fail(err, SL_INVALID, "%s: x has rows of %lld, must be %lld as w",
                                    a->label, (long long)*last, (long long)inner));
    *last = cols;
    return SL_OK;
}

/* An input of type u8, i8 or u32 as bytes. */
static sl_status bytes_of(const sl_eval_args *a, uint32_t input, uint8_t **out, sl_error *err) {
    const sl_eval_tensor *t = &a->in[input];
    const int64_t count = sl_type_elements(&t->type);
    const int64_t each = sl_dtype_infos[t->type.dtype].bytes;
    const sl_eval_args one = {.label = a->label, .in = t, .scratch = a->scratch};
    const double *values;
    SL_TRY(sl_eval_inputs(&one, 1, &values, err));
    *out = SL_ARENA_NEW_ARRAY(a->scratch, uint8_t, count * each);
    if (!*out) return sl_no_memory(err, a->label, (uint64_t)(count * each));
    for (int64_t i = 0; i < count * each; i++)
        (*out)[i] = (uint8_t)((int64_t)values[i / each] >> i % each * 8);
    return SL_OK;
}
static sl_status floats_of(const sl_eval_args *a, uint32_t input, float **out, sl_error *err) {
    const sl_eval_tensor *t = &a->in[input];
    const int64_t count = sl_type_elements(&t->type);
    const sl_eval_args one = {.label = a->label, .in = t, .scratch = a->scratch};
    const double *values;
    SL_TRY(sl_eval_inputs(&one, 1, &values, err));
    *out = SL_ARENA_NEW_ARRAY(a->scratch, float, count);
    if (!*out) return sl_no_memory(err, a->label, (uint64_t)count * sizeof **out);
    for (int64_t i = 0; i < count; i++) (*out)[i] = (float)values[i];
    return SL_OK;
}

/* Decodes the whole column n of the weights. */
static void decode_column(const sl_packed *p, int64_t n, float *out) {
    for (int64_t k = 0; k < p->inner; k += SL_PACKED_STEP) {
        const int64_t left = p->inner - k;
        const sl_packed_part part = {k, left < SL_PACKED_STEP ? left : SL_PACKED_STEP, n, 1};
        sl_packed_decode(p, &part, out + k, 1);
    }
}

static sl_status packed_of(const sl_eval_args *a, sl_packed *p, sl_error *err) {
    const sl_dequant_matmul_attrs *attrs = a->attrs;
    uint8_t *bytes;
    float *values;
    *p = (sl_packed){.inner = sl_eval_last_dim(a, 0), .block = attrs->block};
    SL_TRY(scheme_of(a->label, attrs->scheme, &p->scheme, err));
    SL_TRY(bytes_of(a, 1, &bytes, err));
    p->w = bytes;
    p->w_signed = a->in[1].type.dtype == SL_DTYPE_i8;
    if (p->scheme.kind == SL_SCHEME_NVFP4) p->block = SL_NVFP4_BLOCK;
    for (uint32_t i = 0; i < p->scheme.params; i++) {
        const bool codes = a->in[2 + i].type.dtype == SL_DTYPE_u8;
        SL_TRY(codes ? bytes_of(a, 2 + i, &bytes, err) : floats_of(a, 2 + i, &values, err));
        p->params[i] = codes ? (const void *)bytes : values;
    }
    if (p->scheme.params) p->one_scale = sl_type_elements(&a->in[2].type) == 1;
    const sl_dims *out = &a->out[0].type.shape;
    p->cols = out->dims[out->rank - 1];
    return SL_OK;
}

sl_status sl_eval_dequant_matmul(const sl_eval_args *a, sl_error *err) {
    sl_packed p;
    const double *x;
    float *column;
    SL_TRY(packed_of(a, &p, err));
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    column = SL_ARENA_NEW_ARRAY(a->scratch, float, p.inner);
    if (!column) return sl_no_memory(err, a->label, (uint64_t)p.inner * sizeof *column);
    for (int64_t n = 0; n < p.cols; n++) {
        decode_column(&p, n, column);
        for (int64_t row = 0; row < sl_type_elements(&a->in[0].type) / p.inner; row++) {
            double sum = 0;
            for (int64_t k = 0; k < p.inner; k++) sum += x[row * p.inner + k] * (double)column[k];
            a->out[0].data[row * p.cols + n] = sum;
        }
    }
    return SL_OK;
}

/* ---- experts ---- */

sl_status sl_infer_dequant_grouped_matmul(const sl_infer_args *a, sl_error *err) {
    const sl_dequant_grouped_matmul_attrs *attrs = a->attrs;
    sl_scheme scheme;
    int64_t inner;
    SL_TRY(gguf_scheme_of(a->label, attrs->scheme, &scheme, err));
    SL_TRY(sl_match(a, "x float[M,K], w u8[E,N,B], experts any[M] -> f32[M,N]", err));
    SL_TRY(sl_check_numbers(a, 0, "x", SL_NUMBERS_NARROW, err));
    SL_TRY(sl_check_numbers(a, 2, "experts", SL_NUMBERS_INDEX, err));
    SL_TRY(cols_of(a->label, &scheme, a->in[1].shape.dims[2], &inner, err));
    a->out[0].dtype = a->in[0].dtype;
    if (a->in[0].shape.dims[1] == inner) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: x has rows of %lld, must be %lld as w", a->label,
                   (long long)a->in[0].shape.dims[1], (long long)inner);
}

sl_status sl_eval_dequant_grouped_matmul(const sl_eval_args *a, sl_error *err) {
    const sl_dequant_grouped_matmul_attrs *attrs = a->attrs;
    sl_packed p = {.inner = sl_eval_dim(a, 0, 1), .cols = sl_eval_dim(a, 1, 1)};
    const int64_t experts = sl_eval_dim(a, 1, 0), bytes = sl_eval_dim(a, 1, 2);
    const double *in[3];
    uint8_t *w;
    float *column;
    SL_TRY(gguf_scheme_of(a->label, attrs->scheme, &p.scheme, err));
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    SL_TRY(bytes_of(a, 1, &w, err));
    column = SL_ARENA_NEW_ARRAY(a->scratch, float, p.inner);
    if (!column) return sl_no_memory(err, a->label, (uint64_t)p.inner * sizeof *column);
    for (int64_t row = 0; row < sl_eval_dim(a, 0, 0); row++) {
        const int64_t expert = sl_slot_integer(a->in[2].type.dtype, &in[2][row]);
        SL_TRY(sl_check_attr(a->label, "an index of experts", expert, 0, experts - 1, err));
        p.w = w + expert * p.cols * bytes;
        for (int64_t n = 0; n < p.cols; n++) {
            double sum = 0;
            decode_column(&p, n, column);
            for (int64_t k = 0; k < p.inner; k++)
                sum += in[0][row * p.inner + k] * (double)column[k];
            a->out[0].data[row * p.cols + n] = sum;
        }
    }
    return SL_OK;
}

sl_status sl_infer_dequant_moe_weights(const sl_infer_args *a, sl_error *err) {
    const sl_dequant_moe_weights_attrs *attrs = a->attrs;
    sl_scheme scheme;
    int64_t inner;
    SL_TRY(gguf_scheme_of(a->label, attrs->scheme, &scheme, err));
    SL_TRY(sl_match(a, "w u8[E,N,B]", err));
    SL_TRY(cols_of(a->label, &scheme, a->in[0].shape.dims[2], &inner, err));
    a->out[0] =
        sl_type_make(SL_DTYPE_f32, 3, a->in[0].shape.dims[0], inner, a->in[0].shape.dims[1]);
    return SL_OK;
}

sl_status sl_eval_dequant_moe_weights(const sl_eval_args *a, sl_error *err) {
    const sl_dequant_moe_weights_attrs *attrs = a->attrs;
    const sl_dims *out = &a->out[0].type.shape;
    sl_packed p = {.inner = out->dims[1], .cols = out->dims[2]};
    uint8_t *w;
    float *column;
    SL_TRY(gguf_scheme_of(a->label, attrs->scheme, &p.scheme, err));
    SL_TRY(bytes_of(a, 0, &w, err));
    column = SL_ARENA_NEW_ARRAY(a->scratch, float, p.inner);
    if (!column) return sl_no_memory(err, a->label, (uint64_t)p.inner * sizeof *column);
    for (int64_t e = 0; e < out->dims[0]; e++) {
        p.w = w + e * p.cols * sl_eval_dim(a, 0, 2);
        for (int64_t n = 0; n < p.cols; n++) {
            decode_column(&p, n, column);
            for (int64_t k = 0; k < p.inner; k++)
                a->out[0].data[(e * p.inner + k) * p.cols + n] = (double)column[k];
        }
    }
    return SL_OK;
}
