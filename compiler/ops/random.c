/* random.c - Counter-based random numbers. */
#include "compiler/ops/check.h"
#include "core/philox.h"
#include <math.h>
#include <stdlib.h>

/* ---- operands ---- */

static bool is_words(const sl_type *type, int64_t count) {
    return type->dtype == SL_DTYPE_u32 && type->shape.rank == 1 && type->shape.dims[0] == count;
}
static bool is_u64(const sl_type *type) {
    return type->dtype == SL_DTYPE_u64 && type->shape.rank == 0;
}

/* Key and counter are inputs `at` and `at` + 1. */
static sl_status check_stream(const sl_infer_args *a, uint32_t at, sl_error *err) {
    const sl_type *key = &a->in[at], *counter = &a->in[at + 1];
    char text[SL_TYPE_TEXT];
    for (uint32_t i = 0; i < 2; i++) SL_TRY(sl_type_check(&a->in[at + i], a->label, err));
    if (!is_words(key, 2) && !is_u64(key))
        return sl_fail(err, SL_INVALID, "%s: key is %s, must be u32[2] or u64[]", a->label,
                       sl_type_format(key, text, sizeof text));
    if (!is_words(counter, 4) && !is_words(counter, 2) && !is_u64(counter))
        return sl_fail(err, SL_INVALID, "%s: counter is %s, must be u32[4], u32[2] or u64[]",
                       a->label, sl_type_format(counter, text, sizeof text));
    return SL_OK;
}

static void read_words(const sl_eval_tensor *tensor, const double *data, uint32_t *words) {
    if (tensor->type.dtype == SL_DTYPE_u64) {
        const uint64_t wide = (uint64_t)sl_slot_integer(SL_DTYPE_u64, data);
        words[0] = (uint32_t)wide, words[1] = (uint32_t)(wide >> 32);
        return;
    }
    for (int64_t i = 0; i < tensor->type.shape.dims[0]; i++) words[i] = (uint32_t)data[i];
}

static sl_status read_stream(const sl_eval_args *a, uint32_t at, sl_philox_stream *out,
                             sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, at + 2, in, err));
    *out = (sl_philox_stream){{0}, {0}};
    read_words(&a->in[at], in[at], out->key);
    read_words(&a->in[at + 1], in[at + 1], out->counter);
    return SL_OK;
}

/* ---- rng_uniform and rng_normal ---- */

static sl_status infer_numbers(const sl_infer_args *a, const sl_dims *shape, sl_dtype to,
                               sl_error *err) {
    SL_TRY(check_stream(a, 0, err));
    a->out[0] = (sl_type){to, *shape};
    return sl_type_check_shape(&a->out[0], a->label, err);
}

static sl_status refuse_dtype(const char *label, sl_dtype to, const char *wanted, sl_error *err) {
    return sl_fail(err, SL_INVALID, "%s: to is %s, must be %s", label,
                   (unsigned)to < SL_DTYPE_COUNT ? sl_dtype_infos[to].name : "no type", wanted);
}

static bool is_float(sl_dtype to) {
    return (unsigned)to < SL_DTYPE_COUNT && sl_dtype_infos[to].kind == SL_KIND_FLOAT;
}

sl_status sl_infer_rng_uniform(const sl_infer_args *a, sl_error *err) {
    const sl_rng_uniform_attrs *attrs = a->attrs;
    if (!is_float(attrs->to) && attrs->to != SL_DTYPE_u32 && attrs->to != SL_DTYPE_u64)
        return refuse_dtype(a->label, attrs->to, "a float type, u32 or u64", err);
    return infer_numbers(a, &attrs->shape, attrs->to, err);
}

sl_status sl_infer_rng_normal(const sl_infer_args *a, sl_error *err) {
    const sl_rng_normal_attrs *attrs = a->attrs;
    if (!is_float(attrs->to)) return refuse_dtype(a->label, attrs->to, "a float type", err);
    return infer_numbers(a, &attrs->shape, attrs->to, err);
}

/* Word i of the stream. */
static uint32_t word_at(const sl_philox_stream *s, int64_t i) {
    return sl_philox_block(s, i / 4).word[i % 4];
}

static double uniform_at(const sl_philox_stream *s, sl_dtype dtype, int64_t i) {
    switch (dtype) {
    case SL_DTYPE_f64:
        return sl_philox_f64(word_at(s, 2 * i), word_at(s, 2 * i + 1));
    case SL_DTYPE_f16:
        return (double)(word_at(s, i) >> 21) * 0x1p-11;
    case SL_DTYPE_bf16:
        return (double)(word_at(s, i) >> 24) * 0x1p-8;
    default:
        return (double)sl_philox_f32(word_at(s, i));
    }
}

sl_status sl_eval_rng_uniform(const sl_eval_args *a, sl_error *err) {
    const sl_type *type = &a->out[0].type;
    sl_philox_stream s;
    SL_TRY(read_stream(a, 0, &s, err));
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        double *to = &a->out[0].data[i];
        if (type->dtype == SL_DTYPE_u32)
            *to = word_at(&s, i);
        else if (type->dtype == SL_DTYPE_u64)
            sl_slot_set_integer(
                SL_DTYPE_u64, to,
                (int64_t)((uint64_t)word_at(&s, 2 * i + 1) << 32 | word_at(&s, 2 * i)));
        else
            *to = uniform_at(&s, type->dtype, i);
    }
    return SL_OK;
}

sl_status sl_eval_rng_normal(const sl_eval_args *a, sl_error *err) {
    const sl_type *type = &a->out[0].type;
    const sl_dtype from = type->dtype == SL_DTYPE_f64 ? SL_DTYPE_f64 : SL_DTYPE_f32;
    sl_philox_stream s;
    SL_TRY(read_stream(a, 0, &s, err));
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const double radius = sqrt(-2 * log1p(-uniform_at(&s, from, i & ~(int64_t)1)));
        const double angle = 2 * M_PI * uniform_at(&s, from, i | 1);
        a->out[0].data[i] = radius * (i & 1 ? sin(angle) : cos(angle));
    }
    return SL_OK;
}

/* ---- sample ---- */

sl_status sl_infer_sample(const sl_infer_args *a, sl_error *err) {
    const sl_sample_attrs *attrs = a->attrs;
    SL_TRY(sl_match(a, "logits float[..,V] -> i32[..]", err));
    if (a->in[0].shape.dims[a->in[0].shape.rank - 1] > INT32_MAX)
        return sl_fail(err, SL_INVALID, "%s: logits has more than 2^31 columns", a->label);
    SL_TRY(check_stream(a, 1, err));
    if (!(attrs->temperature >= 0) || isinf(attrs->temperature))
        return sl_fail(err, SL_INVALID, "%s: temperature is %g, must be 0 or positive", a->label,
                       (double)attrs->temperature);
    if (!(attrs->top_p >= 0 && attrs->top_p <= 1))
        return sl_fail(err, SL_INVALID, "%s: top_p is %g, must be 0 to 1", a->label,
                       (double)attrs->top_p);
    return SL_OK;
}

typedef struct {
    double weight;
    int64_t index;
} candidate;

/* Descending weight; ties: lower index first. */
static int by_weight(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

/* Sets the weights that top_k and top_p exclude to 0. */
static void drop_unlikely(double *weights, int64_t count, const sl_sample_attrs *attrs,
                          candidate *sorted) {
    for (int64_t i = 0; i < count; i++) sorted[i] = (candidate){weights[i], i};
    qsort(sorted, (size_t)count, sizeof *sorted, by_weight);
    const double least = attrs->top_k && attrs->top_k < count ? sorted[attrs->top_k - 1].weight : 0;
    double total = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) total += sorted[i].weight >= least ? sorted[i].weight : 0;
    const double share = attrs->top_p > 0 ? (double)attrs->top_p : 1;
    for (int64_t i = 0; i < count; i++) {
        const bool kept =
            sorted[i].weight >= least && (i == 0 || share == 1 || sum < share * total);
        sum += sorted[i].weight;
        if (!kept) weights[sorted[i].index] = 0;
    }
}

static int64_t pick(const double *weights, int64_t count, double u) {
    double total = 0, sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < count; i++) total += weights[i];
    for (int64_t i = 0; i < count; i++) {
        sum += weights[i];
        if (weights[i] > 0) last = i;
        if (u * total < sum) return i;
    }
    return last;
}

sl_status sl_eval_sample(const sl_eval_args *a, sl_error *err) {
    const sl_sample_attrs *attrs = a->attrs;
    const double *logits;
    double *weights, *room;
    sl_philox_stream s;
    const int64_t width = sl_eval_last_dim(a, 0);
    SL_TRY(sl_eval_inputs(a, 1, &logits, err));
    SL_TRY(read_stream(a, 1, &s, err));
    SL_TRY(sl_eval_scratch(a, width, &weights, err));
    SL_TRY(sl_eval_scratch(a, 2 * width, &room, err));
    for (int64_t row = 0; row < sl_type_elements(&a->out[0].type); row++) {
        const double *x = logits + row * width;
        int64_t best = 0;
        bool wrong = false;
        for (int64_t i = 0; i < width; i++) {
            wrong |= isnan(x[i]) || x[i] == INFINITY;
            if (x[i] > x[best]) best = i;
        }
        if (wrong || x[best] == -INFINITY)
            return sl_fail(err, SL_INVALID, "%s: the largest logit of row %lld is not finite",
                           a->label, (long long)row);
        a->out[0].data[row] = (double)best;
        if (attrs->temperature == 0) continue;
        for (int64_t i = 0; i < width; i++)
            weights[i] = exp((x[i] - x[best]) / (double)attrs->temperature);
        drop_unlikely(weights, width, attrs, (candidate *)(void *)room);
        a->out[0].data[row] = (double)pick(weights, width, uniform_at(&s, SL_DTYPE_f32, row));
    }
    return SL_OK;
}
