/* attention.c - Attention without a cache, and its gradient. */
#include "compiler/ops/attention.h"
#include <string.h>

/* ---- checks ---- */

sl_status sl_check_one_type(const sl_infer_args *a, const char *const *names, uint32_t count,
                            sl_error *err) {
    for (uint32_t i = 1; i < count; i++)
        if (a->in[i].dtype != a->in[0].dtype)
            return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s as %s", a->label, names[i],
                           sl_dtype_infos[a->in[i].dtype].name, sl_dtype_infos[a->in[0].dtype].name,
                           names[0]);
    return SL_OK;
}

sl_status sl_check_extra(const sl_infer_args *a, uint32_t i, const char *name,
                         const sl_type *wanted, sl_error *err) {
    char found[SL_TYPE_TEXT], text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check(&a->in[i], a->label, err));
    if (sl_type_equal(&a->in[i], wanted)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s", a->label, name,
                   sl_type_format(&a->in[i], found, sizeof found),
                   sl_type_format(wanted, text, sizeof text));
}

sl_status sl_check_extra_count(const sl_infer_args *a, uint32_t named, uint32_t count,
                               const char *meaning, sl_error *err) {
    if (a->in_count == named + count) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %u operands after the first %u, must be %u%s", a->label,
                   a->in_count - named, named, count, meaning);
}

sl_status sl_check_attention_form(const char *label, const sl_attention_attrs_shared *attrs,
                                  sl_error *err) {
    const bool sliding = attrs->mask == SL_MASK_SLIDING;
    SL_TRY(sl_check_attr(label, "mask", attrs->mask, 0, SL_MASK_COUNT - 1, err));
    SL_TRY(sl_check_attr(label, "window", attrs->window, sliding, sliding ? INT32_MAX : 0, err));
    if (!isfinite(attrs->scale))
        return sl_fail(err, SL_INVALID, "%s: scale is %g, must be finite", label,
                       (double)attrs->scale);
    if (!(attrs->softcap >= 0) || isinf(attrs->softcap))
        return sl_fail(err, SL_INVALID, "%s: softcap is %g, must be 0 or positive", label,
                       (double)attrs->softcap);
    return SL_OK;
}

sl_status sl_check_mask(const sl_infer_args *a, uint32_t i, uint32_t mask, const sl_type *scores,
                        sl_error *err) {
    const sl_type *found = &a->in[i];
    const sl_dtype wanted = mask == SL_MASK_CUSTOM ? SL_DTYPE_bool : scores->dtype;
    char text[SL_TYPE_TEXT], target[SL_TYPE_TEXT];
    SL_TRY(sl_type_check(found, a->label, err));
    bool fits = found->dtype == wanted && found->shape.rank <= 4;
    for (uint32_t back = 1; fits && back <= found->shape.rank; back++) {
        const int64_t size = found->shape.dims[found->shape.rank - back];
        fits = size == 1 || size == scores->shape.dims[4 - back];
    }
    if (fits) return SL_OK;
    sl_type whole = *scores;
    whole.dtype = wanted;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must broadcast to %s", a->label,
                   mask == SL_MASK_CUSTOM ? "the mask" : "the bias",
                   sl_type_format(found, text, sizeof text),
                   sl_type_format(&whole, target, sizeof target));
}

/* Checks the operands of attention after the named ones. */
static sl_status check_extra(const sl_infer_args *a, uint32_t named,
                             const sl_attention_attrs *attrs, sl_error *err) {
    const uint32_t masks = sl_mask_is_tensor(attrs->mask);
    SL_TRY(SL_CHECK_ATTENTION_FORM(a->label, attrs, err));
    SL_TRY(sl_check_attr(a->label, "sinks", attrs->sinks, 0, 1, err));
    SL_TRY(
        sl_check_extra_count(a, named, masks + attrs->sinks, " (a mask or bias, then sinks)", err));
    const sl_dims *q = &a->in[0].shape;
    const sl_type scores =
        sl_type_make(a->in[0].dtype, 4, q->dims[0], q->dims[1], q->dims[2], a->in[1].shape.dims[2]);
    if (masks) SL_TRY(sl_check_mask(a, named, attrs->mask, &scores, err));
    const sl_type sinks = sl_type_make(a->in[0].dtype, 1, q->dims[1]);
    return attrs->sinks ? sl_check_extra(a, named + masks, "sinks", &sinks, err) : SL_OK;
}

#define ATTENTION_INPUTS "q float[B,Hq,S,D], k float[B,H,T,D], v float[B,H,T,V]"

static sl_status check_inputs(const sl_infer_args *a, uint32_t named,
                              const sl_attention_attrs *attrs, sl_error *err) {
    static const char *const names[] = {"q", "k", "v", "dout"};
    SL_TRY(sl_check_one_type(a, names, named, err));
    const int64_t heads = a->in[0].shape.dims[1], kv_heads = a->in[1].shape.dims[1];
    if (heads % kv_heads)
        return sl_fail(err, SL_INVALID, "%s: q has %lld heads, must be a multiple of k's %lld",
                       a->label, (long long)heads, (long long)kv_heads);
    return check_extra(a, named, attrs, err);
}

sl_status sl_infer_attention(const sl_infer_args *a, sl_error *err) {
    a->out[0].dtype = a->in[0].dtype;
    SL_TRY(sl_match(a, ATTENTION_INPUTS " -> float[B,Hq,S,V]", err));
    return check_inputs(a, 3, a->attrs, err);
}

/* attention_backward has the attributes of attention. */
static sl_attention_attrs forward_attrs(const sl_attention_backward_attrs *b) {
    return (sl_attention_attrs){.mask = b->mask,
                                .window = b->window,
                                .scale = b->scale,
                                .softcap = b->softcap,
                                .sinks = b->sinks};
}

sl_status sl_infer_attention_backward(const sl_infer_args *a, sl_error *err) {
    const sl_attention_attrs attrs = forward_attrs(a->attrs);
    SL_TRY(sl_match(a, ATTENTION_INPUTS ", dout float[B,Hq,S,V]", err));
    SL_TRY(check_inputs(a, 4, &attrs, err));
    const uint32_t bias = attrs.mask == SL_MASK_BIAS, floats = bias + attrs.sinks;
    for (int i = 0; i < 3; i++) a->out[i] = a->in[i];
    if (a->out_count != 3 && a->out_count != 3 + floats)
        return sl_fail(err, SL_INVALID, "%s: %u results, must be 3 or %u", a->label, a->out_count,
                       3 + floats);
    for (uint32_t i = 3; i < a->out_count; i++) a->out[i] = a->in[a->in_count - floats + i - 3];
    return SL_OK;
}

/* ---- evaluation ---- */

/* The indices of one query. */
typedef struct {
    int64_t batch, head, query, kv; /* kv: index over batches and KV heads */
    sl_seen seen;
} place;

static place place_of(const sl_plain_attention *t, int64_t row) {
    const int64_t query = row % t->queries, head = row / t->queries % t->heads;
    const int64_t batch = row / t->queries / t->heads;
    return (place){batch, head, query, batch * t->kv_heads + head / (t->heads / t->kv_heads),
                   sl_attention_seen(&t->form, t->queries, t->keys, query)};
}

static int64_t mask_at(const sl_plain_attention *t, const place *p, int64_t key) {
    const int64_t *by = t->mask_strides.by;
    return p->batch * by[0] + p->head * by[1] + p->query * by[2] + key * by[3];
}

static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Softmax weights of all keys, 0 where masked; slopes[j]: derivative of score j with respect to its
 * dot product.  Returns the sink's weight. */
static double weigh(const sl_plain_attention *t, int64_t row, double *weights, double *slopes) {
    const place p = place_of(t, row);
    const double cap = t->form.softcap;
    double largest = t->sinks ? t->sinks[p.head] : -INFINITY, sum = 0;
    for (int64_t j = 0; j < t->keys; j++) {
        const double *key = t->k + (p.kv * t->keys + j) * t->key_dim;
        double score = t->form.scale * dot(t->q + row * t->key_dim, key, t->key_dim);
        slopes[j] = t->form.scale;
        if (cap > 0) {
            const double share = tanh(score / cap);
            score = cap * share;
            slopes[j] *= 1 - share * share;
        }
        if (t->form.mask == SL_MASK_BIAS) score += t->mask[mask_at(t, &p, j)];
        const bool hidden = t->form.mask == SL_MASK_CUSTOM && t->mask[mask_at(t, &p, j)] == 0;
        weights[j] = hidden || j < p.seen.first || j >= p.seen.end ? -INFINITY : score;
        largest = fmax(largest, weights[j]);
    }
    for (int64_t j = 0; j < t->keys; j++)
        sum += weights[j] = weights[j] == -INFINITY ? 0 : exp(weights[j] - largest);
    const double sink =
        t->sinks && t->sinks[p.head] != -INFINITY ? exp(t->sinks[p.head] - largest) : 0;
    sum += sink;
    for (int64_t j = 0; j < t->keys && sum != 0; j++) weights[j] /= sum;
    return sum != 0 ? sink / sum : 0;
}

void sl_attend(const sl_plain_attention *t, double *out) {
    for (int64_t row = 0; row < t->batches * t->heads * t->queries; row++) {
        const double *values = t->v + place_of(t, row).kv * t->keys * t->value_dim;
        double *to = out + row * t->value_dim;
        (void)weigh(t, row, t->room, t->room + t->keys);
        memset(to, 0, (size_t)t->value_dim * sizeof *to);
        for (int64_t j = 0; j < t->keys; j++)
            for (int64_t d = 0; d < t->value_dim && t->room[j] != 0; d++)
                to[d] += t->room[j] * values[j * t->value_dim + d];
    }
}

static sl_status read_operands(const sl_eval_args *a, uint32_t named,
                               const sl_attention_attrs *attrs, sl_plain_attention *out,
                               sl_error *err) {
    const double *in[6];
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t key_dim = sl_eval_dim(a, 0, 3);
    *out = (sl_plain_attention){.form = SL_ATTENTION_FORM(attrs, key_dim),
                                .batches = sl_eval_dim(a, 0, 0),
                                .heads = sl_eval_dim(a, 0, 1),
                                .kv_heads = sl_eval_dim(a, 1, 1),
                                .queries = sl_eval_dim(a, 0, 2),
                                .keys = sl_eval_dim(a, 1, 2),
                                .key_dim = key_dim,
                                .value_dim = sl_eval_dim(a, 2, 3),
                                .q = in[0],
                                .k = in[1],
                                .v = in[2]};
    if (attrs->sinks) out->sinks = in[a->in_count - 1];
    if (sl_mask_is_tensor(attrs->mask)) {
        out->mask = in[named];
        out->mask_strides = sl_strides_of(&a->in[named].type.shape);
    }
    return sl_eval_scratch(a, 3 * out->keys, &out->room, err);
}

sl_status sl_eval_attention(const sl_eval_args *a, sl_error *err) {
    sl_plain_attention t;
    SL_TRY(read_operands(a, 3, a->attrs, &t, err));
    sl_attend(&t, a->out[0].data);
    return SL_OK;
}

/* Where gradients are accumulated; bias and sinks may be NULL. */
typedef struct {
    const double *dout;
    double *dq, *dk, *dv, *dbias, *dsinks;
} gradients;

static void backward_row(const sl_plain_attention *t, int64_t row, const gradients *g) {
    const place p = place_of(t, row);
    double *weights = t->room, *slopes = t->room + t->keys, *dweights = slopes + t->keys;
    const double sink = weigh(t, row, weights, slopes);
    const double *dout = g->dout + row * t->value_dim, *query = t->q + row * t->key_dim;
    double mean = 0;
    for (int64_t j = 0; j < t->keys; j++) {
        const int64_t at = p.kv * t->keys + j;
        dweights[j] = dot(dout, t->v + at * t->value_dim, t->value_dim);
        mean += weights[j] * dweights[j];
        for (int64_t d = 0; d < t->value_dim; d++)
            g->dv[at * t->value_dim + d] += weights[j] * dout[d];
    }
    if (g->dsinks) g->dsinks[p.head] -= sink * mean;
    for (int64_t j = 0; j < t->keys; j++) {
        const int64_t at = (p.kv * t->keys + j) * t->key_dim;
        const double dscore = weights[j] * (dweights[j] - mean), change = dscore * slopes[j];
        if (g->dbias) g->dbias[mask_at(t, &p, j)] += dscore;
        for (int64_t d = 0; d < t->key_dim; d++) {
            g->dq[row * t->key_dim + d] += change * t->k[at + d];
            g->dk[at + d] += change * query[d];
        }
    }
}

sl_status sl_eval_attention_backward(const sl_eval_args *a, sl_error *err) {
    const sl_attention_attrs attrs = forward_attrs(a->attrs);
    const double *in[4];
    sl_plain_attention t;
    SL_TRY(read_operands(a, 4, &attrs, &t, err));
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    for (uint32_t o = 0; o < a->out_count; o++)
        memset(a->out[o].data, 0, (size_t)sl_type_elements(&a->out[o].type) * sizeof(double));
    gradients g = {in[3], a->out[0].data, a->out[1].data, a->out[2].data, NULL, NULL};
    const bool more = a->out_count > 3;
    if (more && attrs.mask == SL_MASK_BIAS) g.dbias = a->out[3].data;
    if (more && attrs.sinks) g.dsinks = a->out[a->out_count - 1].data;
    for (int64_t row = 0; row < t.batches * t.heads * t.queries; row++) backward_row(&t, row, &g);
    return SL_OK;
}
