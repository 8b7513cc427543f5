/* convolution.c - Convolutions, their gradients, and im2col. */
#include "compiler/ops/windows.h"
#include <string.h>

static uint32_t groups_of(uint32_t groups) {
    return groups ? groups : 1;
}

/* ---- type inference ---- */

/* Checks that input `input` is [N,C,..] with 1 to 3 spatial axes. */
static sl_status check_places(const sl_infer_args *a, uint32_t input, const char *name,
                              sl_error *err) {
    return sl_check_rank(a, input, name, 3, 2 + SL_MAX_SPATIAL, err);
}

static sl_status check_divides(const char *label, const char *what, int64_t channels,
                               uint32_t groups, sl_error *err) {
    if (channels % groups_of(groups) == 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s has %lld channels, must be a multiple of %u groups",
                   label, what, (long long)channels, groups);
}

/* Checks that there is no bias, or one element per output channel. */
static sl_status check_bias(const sl_infer_args *a, uint32_t named, int64_t channels,
                            sl_error *err) {
    if (a->in_count > named + 1)
        return sl_fail(err, SL_INVALID, "%s: %u biases, must be one or none", a->label,
                       a->in_count - named);
    const sl_dims wanted = sl_dims_of(channels);
    if (a->in_count == named) return SL_OK;
    return sl_check_shape(a, named, "bias", &wanted, "one for each channel of the result", err);
}

/* Checks that w has the rank of x, and `channels` as its second dim. */
static sl_status check_kernel(const sl_infer_args *a, const char *x_name, int64_t channels,
                              sl_error *err) {
    const sl_type *x = &a->in[0], *w = &a->in[1];
    char text[SL_TYPE_TEXT];
    if (w->shape.rank != x->shape.rank)
        return sl_fail(err, SL_INVALID, "%s: w is %s, must have %u dims as %s", a->label,
                       sl_type_format(w, text, sizeof text), x->shape.rank, x_name);
    if (w->shape.dims[1] == channels) return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "%s: w is %s, its second dim must be %lld, the channels of a "
                   "group",
                   a->label, sl_type_format(w, text, sizeof text), (long long)channels);
}

sl_status sl_infer_conv(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "w", "bias"};
    const sl_conv_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].shape, *w = &a->in[1].shape;
    SL_TRY(sl_check_alike(a, a->in_count < 3 ? a->in_count : 3, names, SL_NUMBERS, err));
    SL_TRY(check_places(a, 0, "x", err));
    SL_TRY(check_divides(a->label, "x", x->dims[1], attrs->groups, err));
    SL_TRY(check_kernel(a, "x", x->dims[1] / groups_of(attrs->groups), err));
    SL_TRY(check_divides(a->label, "w", w->dims[0], attrs->groups, err));
    SL_TRY(check_bias(a, 2, w->dims[0], err));
    a->out[0] = (sl_type){a->in[0].dtype, {x->rank, {x->dims[0], w->dims[0]}}};
    const sl_window_spec spec = {a->label,    x->rank - 2, SL_WINDOW_LISTS(attrs),
                                 w->dims + 2, x->dims + 2, false};
    return sl_check_windows(&spec, a->out[0].shape.dims + 2, err);
}

sl_status sl_infer_fused_conv_bias_act(const sl_infer_args *a, sl_error *err) {
    const sl_fused_conv_bias_act_attrs *attrs = a->attrs;
    const sl_conv_attrs conv = SL_CONV_ATTRS(attrs);
    sl_infer_args product = *a;
    product.attrs = &conv;
    SL_TRY(sl_check_class(a, 0, "x", SL_FLOATS, err));
    SL_TRY(sl_check_attr(a->label, "act", attrs->act, 0, SL_ACTIVATIONS - 1, err));
    return sl_infer_conv(&product, err);
}

/* The output size of a transposed convolution along each axis; its window slides over the
 * output. */
static sl_status transposed_places(const sl_infer_args *a, const sl_conv_transpose_attrs *attrs,
                                   int64_t *out, sl_error *err) {
    const uint32_t rank = a->in[0].shape.rank - 2;
    const int64_t *in = a->in[0].shape.dims + 2, *kernel = a->in[1].shape.dims + 2;
    int64_t ones[SL_MAX_SPATIAL];
    /* Checks the lists alone, with a one-tap window over one position. */
    sl_window_spec spec = {a->label,
                           rank,
                           SL_WINDOW_LISTS(attrs),
                           (const int64_t[]){1, 1, 1},
                           (const int64_t[]){1, 1, 1},
                           false};
    SL_TRY(sl_check_windows(&spec, ones, err));
    if (attrs->output_padding.count)
        SL_TRY(sl_check_spatial(a->label, "output_padding", &attrs->output_padding, rank, 0, err));
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t stride = attrs->strides.count ? attrs->strides.items[i] : 1;
        const int64_t dilation = attrs->dilations.count ? attrs->dilations.items[i] : 1;
        const int64_t extra = attrs->output_padding.count ? attrs->output_padding.items[i] : 0;
        int64_t reach;
        SL_TRY(sl_check_attr(a->label, "kernel", kernel[i], 1, INT32_MAX, err));
        if (extra >= stride && extra >= dilation)
            return sl_fail(err, SL_INVALID,
                           "%s: output_padding is %lld, must be less than the "
                           "stride or the dilation",
                           a->label, (long long)extra);
        if (__builtin_mul_overflow(in[i] - 1, stride, &reach) || reach > (int64_t)1 << 60)
            return sl_fail(err, SL_INVALID, "%s: too many positions along spatial axis %u",
                           a->label, i);
        out[i] = reach + dilation * (kernel[i] - 1) + 1 + extra -
                 (attrs->pads_before.count ? attrs->pads_before.items[i] : 0) -
                 (attrs->pads_after.count ? attrs->pads_after.items[i] : 0);
        if (out[i] < 1)
            return sl_fail(err, SL_INVALID,
                           "%s: the result would have %lld positions along spatial "
                           "axis %u",
                           a->label, (long long)out[i], i);
    }
    return SL_OK;
}

sl_status sl_infer_conv_transpose(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "w", "bias"};
    const sl_conv_transpose_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].shape, *w = &a->in[1].shape;
    SL_TRY(sl_check_alike(a, a->in_count < 3 ? a->in_count : 3, names, SL_NUMBERS, err));
    SL_TRY(check_places(a, 0, "x", err));
    SL_TRY(check_divides(a->label, "x", x->dims[1], attrs->groups, err));
    SL_TRY(check_kernel(a, "x", w->rank > 1 ? w->dims[1] : 0, err));
    if (w->dims[0] != x->dims[1])
        return sl_fail(err, SL_INVALID, "%s: w has %lld channels, must have %lld as x", a->label,
                       (long long)w->dims[0], (long long)x->dims[1]);
    int64_t channels;
    if (__builtin_mul_overflow(w->dims[1], groups_of(attrs->groups), &channels))
        return sl_fail(err, SL_INVALID, "%s: too many channels", a->label);
    SL_TRY(check_bias(a, 2, channels, err));
    a->out[0] = (sl_type){a->in[0].dtype, {x->rank, {x->dims[0], channels}}};
    return transposed_places(a, attrs, a->out[0].shape.dims + 2, err);
}

/* Checks that the windows over x give the spatial dims of dy. */
static sl_status check_match(const sl_infer_args *a, const sl_window_spec *spec, const sl_dims *dy,
                             sl_error *err) {
    int64_t out[SL_MAX_SPATIAL];
    SL_TRY(sl_check_windows(spec, out, err));
    for (uint32_t i = 0; i < spec->rank; i++)
        if (out[i] != dy->dims[i + 2])
            return sl_fail(err, SL_INVALID,
                           "%s: dy has %lld positions along spatial axis %u, must "
                           "have %lld",
                           a->label, (long long)dy->dims[i + 2], i, (long long)out[i]);
    return SL_OK;
}

sl_status sl_infer_conv_backward_input(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"dy", "w"};
    const sl_conv_backward_input_attrs *attrs = a->attrs;
    const sl_dims *dy = &a->in[0].shape, *w = &a->in[1].shape;
    SL_TRY(sl_check_alike(a, 2, names, SL_FLOATS, err));
    SL_TRY(check_places(a, 0, "dy", err));
    const uint32_t rank = dy->rank - 2;
    SL_TRY(check_kernel(a, "dy", w->rank > 1 ? w->dims[1] : 0, err));
    SL_TRY(check_divides(a->label, "dy", dy->dims[1], attrs->groups, err));
    if (w->dims[0] != dy->dims[1])
        return sl_fail(err, SL_INVALID, "%s: w has %lld channels, must have %lld as dy", a->label,
                       (long long)w->dims[0], (long long)dy->dims[1]);
    SL_TRY(sl_check_spatial(a->label, "places", &attrs->places, rank, 1, err));
    int64_t channels;
    if (__builtin_mul_overflow(w->dims[1], groups_of(attrs->groups), &channels))
        return sl_fail(err, SL_INVALID, "%s: too many channels", a->label);
    a->out[0] = (sl_type){a->in[0].dtype, {dy->rank, {dy->dims[0], channels}}};
    memcpy(a->out[0].shape.dims + 2, attrs->places.items, rank * sizeof(int64_t));
    const sl_window_spec spec = {
        a->label, rank, SL_WINDOW_LISTS(attrs), w->dims + 2, attrs->places.items, false};
    return check_match(a, &spec, dy, err);
}

sl_status sl_infer_conv_backward_weight(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "dy"};
    const sl_conv_backward_weight_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].shape, *dy = &a->in[1].shape;
    SL_TRY(sl_check_alike(a, 2, names, SL_FLOATS, err));
    SL_TRY(check_places(a, 0, "x", err));
    SL_TRY(sl_check_rank(a, 1, "dy", x->rank, x->rank, err));
    const uint32_t rank = x->rank - 2;
    SL_TRY(check_divides(a->label, "x", x->dims[1], attrs->groups, err));
    SL_TRY(check_divides(a->label, "dy", dy->dims[1], attrs->groups, err));
    if (x->dims[0] != dy->dims[0])
        return sl_fail(err, SL_INVALID, "%s: dy has a first dim of %lld, must be %lld as that of x",
                       a->label, (long long)dy->dims[0], (long long)x->dims[0]);
    SL_TRY(sl_check_spatial(a->label, "kernel", &attrs->kernel, rank, 1, err));
    a->out[0] =
        (sl_type){a->in[0].dtype, {x->rank, {dy->dims[1], x->dims[1] / groups_of(attrs->groups)}}};
    memcpy(a->out[0].shape.dims + 2, attrs->kernel.items, rank * sizeof(int64_t));
    const sl_window_spec spec = {a->label,    rank, SL_WINDOW_LISTS(attrs), attrs->kernel.items,
                                 x->dims + 2, false};
    return check_match(a, &spec, dy, err);
}

sl_status sl_infer_im2col(const sl_infer_args *a, sl_error *err) {
    const sl_im2col_attrs *attrs = a->attrs;
    const sl_dims *x = &a->in[0].shape;
    int64_t out[SL_MAX_SPATIAL];
    SL_TRY(sl_check_class(a, 0, "x", SL_NUMBERS, err));
    SL_TRY(check_places(a, 0, "x", err));
    const uint32_t rank = x->rank - 2;
    SL_TRY(sl_check_spatial(a->label, "kernel", &attrs->kernel, rank, 1, err));
    const sl_window_spec spec = {a->label,    rank, SL_WINDOW_LISTS(attrs), attrs->kernel.items,
                                 x->dims + 2, false};
    SL_TRY(sl_check_windows(&spec, out, err));
    int64_t rows = x->dims[0], cols = x->dims[1];
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(rows, out[i], &rows) ||
            __builtin_mul_overflow(cols, attrs->kernel.items[i], &cols))
            return sl_fail(err, SL_INVALID, "%s: the result would be too large", a->label);
    a->out[0] = (sl_type){a->in[0].dtype, {2, {rows, cols}}};
    return SL_OK;
}

sl_status sl_infer_causal_conv1d(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "w", "bias"};
    const sl_causal_conv1d_attrs *attrs = a->attrs;
    SL_TRY(sl_check_alike(a, a->in_count < 3 ? a->in_count : 3, names, SL_FLOATS, err));
    SL_TRY(sl_check_rank(a, 0, "x", 3, 3, err));
    SL_TRY(sl_check_rank(a, 1, "w", 2, 2, err));
    SL_TRY(sl_check_attr(a->label, "dilation", attrs->dilation, 0, INT32_MAX, err));
    const sl_dims wanted = {2, {a->in[0].shape.dims[1], a->in[1].shape.dims[1]}};
    SL_TRY(sl_check_shape(a, 1, "w", &wanted, "one row for each channel of x", err));
    a->out[0] = a->in[0];
    return check_bias(a, 2, a->in[0].shape.dims[1], err);
}

/* ---- evaluation ---- */

/* A sum of products: in doubles, or for integers modulo 2^64, truncated at the end. */
typedef struct {
    sl_dtype dtype;
    bool real;
    double sum;
    uint64_t whole;
} sum_of;

static sum_of sum_from(sl_dtype dtype, const double *bias) {
    sum_of s = {.dtype = dtype, .real = sl_dtype_infos[dtype].kind == SL_KIND_FLOAT};
    if (bias && s.real) s.sum = *bias;
    if (bias && !s.real) s.whole = (uint64_t)sl_slot_integer(dtype, bias);
    return s;
}
static void sum_add(sum_of *s, const double *x, const double *y) {
    if (s->real)
        s->sum += *x * *y;
    else
        s->whole += (uint64_t)sl_slot_integer(s->dtype, x) * (uint64_t)sl_slot_integer(s->dtype, y);
}
static void sum_store(const sum_of *s, double *out) {
    if (s->real)
        *out = s->sum;
    else
        sl_slot_set_integer(s->dtype, out, sl_wrap_integer(s->dtype, (int64_t)s->whole));
}

sl_status sl_eval_conv(const sl_eval_args *a, sl_error *err) {
    const sl_conv_attrs *attrs = a->attrs;
    const double *in[3] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const sl_type *type = &a->out[0].type;
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    const sl_window w = sl_window_of(&lists, a->in[1].type.shape.dims + 2, &a->in[0].type, type);
    const int64_t outs = sl_window_outs(&w), taps = sl_window_taps(&w), ins = sl_window_ins(&w);
    const int64_t each = sl_eval_dim(a, 1, 1), all = sl_eval_dim(a, 0, 1);
    const int64_t filters = sl_eval_dim(a, 1, 0), per_group = filters / groups_of(attrs->groups);
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const int64_t o = i % outs, m = i / outs % filters, n = i / outs / filters;
        sum_of sum = sum_from(type->dtype, in[2] ? &in[2][m] : NULL);
        for (int64_t ck = 0; ck < each * taps; ck++) {
            const int64_t place = sl_window_place(&w, o, ck % taps);
            const int64_t c = n * all + m / per_group * each + ck / taps;
            if (place >= 0) sum_add(&sum, &in[0][c * ins + place], &in[1][m * each * taps + ck]);
        }
        sum_store(&sum, &a->out[0].data[i]);
    }
    return SL_OK;
}

sl_status sl_eval_fused_conv_bias_act(const sl_eval_args *a, sl_error *err) {
    const sl_fused_conv_bias_act_attrs *attrs = a->attrs;
    const sl_conv_attrs conv = SL_CONV_ATTRS(attrs);
    sl_eval_args product = *a;
    product.attrs = &conv;
    SL_TRY(sl_eval_conv(&product, err));
    double *out = a->out[0].data;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++)
        out[i] = sl_activate(out[i], attrs->act);
    return SL_OK;
}

/* y[n,m,place] = sum of x[n,c,o] w[c,m,k] over all o and k such that tap k of window o is at
 * `place`: the transposed convolution, which is also the gradient of conv with respect to its
 * input. */
static sl_status eval_transposed(const sl_eval_args *a, const sl_window *w, uint32_t groups,
                                 sl_error *err) {
    const double *in[3] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const sl_type *type = &a->out[0].type;
    const int64_t outs = sl_window_outs(w), taps = sl_window_taps(w), ins = sl_window_ins(w);
    const int64_t sources = sl_eval_dim(a, 0, 1), each = sl_eval_dim(a, 1, 1);
    const int64_t results = each * groups, per_group = sources / groups;
    sum_of *sums = SL_ARENA_NEW_ARRAY(a->scratch, sum_of, sl_type_elements(type));
    if (!sums) return sl_no_memory(err, a->label, (uint64_t)sl_type_elements(type) * sizeof *sums);
    for (int64_t i = 0; i < sl_type_elements(type); i++)
        sums[i] = sum_from(type->dtype, in[2] ? &in[2][i / ins % results] : NULL);
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) {
        const int64_t o = i % outs, c = i / outs % sources, n = i / outs / sources;
        for (int64_t mk = 0; mk < each * taps; mk++) {
            const int64_t place = sl_window_place(w, o, mk % taps);
            const int64_t m = n * results + c / per_group * each + mk / taps;
            if (place >= 0)
                sum_add(&sums[m * ins + place], &in[0][i], &in[1][c * each * taps + mk]);
        }
    }
    for (int64_t i = 0; i < sl_type_elements(type); i++) sum_store(&sums[i], &a->out[0].data[i]);
    return SL_OK;
}

sl_status sl_eval_conv_transpose(const sl_eval_args *a, sl_error *err) {
    const sl_conv_transpose_attrs *attrs = a->attrs;
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    const sl_window w =
        sl_window_of(&lists, a->in[1].type.shape.dims + 2, &a->out[0].type, &a->in[0].type);
    return eval_transposed(a, &w, groups_of(attrs->groups), err);
}

sl_status sl_eval_conv_backward_input(const sl_eval_args *a, sl_error *err) {
    const sl_conv_backward_input_attrs *attrs = a->attrs;
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    const sl_window w =
        sl_window_of(&lists, a->in[1].type.shape.dims + 2, &a->out[0].type, &a->in[0].type);
    return eval_transposed(a, &w, groups_of(attrs->groups), err);
}

sl_status sl_eval_conv_backward_weight(const sl_eval_args *a, sl_error *err) {
    const sl_conv_backward_weight_attrs *attrs = a->attrs;
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_type *type = &a->out[0].type;
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    const sl_window w = sl_window_of(&lists, type->shape.dims + 2, &a->in[0].type, &a->in[1].type);
    const int64_t outs = sl_window_outs(&w), taps = sl_window_taps(&w), ins = sl_window_ins(&w);
    const int64_t channels = sl_eval_dim(a, 0, 1), filters = sl_eval_dim(a, 1, 1);
    const int64_t each = type->shape.dims[1], per_group = filters / groups_of(attrs->groups);
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const int64_t k = i % taps, m = i / taps / each;
        const int64_t c = m / per_group * each + i / taps % each;
        double sum = 0;
        for (int64_t no = 0; no < sl_eval_dim(a, 0, 0) * outs; no++) {
            const int64_t n = no / outs, place = sl_window_place(&w, no % outs, k);
            if (place >= 0)
                sum += in[0][(n * channels + c) * ins + place] *
                       in[1][(n * filters + m) * outs + no % outs];
        }
        a->out[0].data[i] = sum;
    }
    return SL_OK;
}

sl_status sl_eval_im2col(const sl_eval_args *a, sl_error *err) {
    const sl_im2col_attrs *attrs = a->attrs;
    const double *x;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const sl_window_lists lists = SL_WINDOW_LISTS(attrs);
    const sl_window w = sl_window_over(&lists, attrs->kernel.items, &a->in[0].type);
    const int64_t outs = sl_window_outs(&w), taps = sl_window_taps(&w), ins = sl_window_ins(&w);
    const int64_t cols = sl_eval_dim(a, 0, 1) * taps;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const int64_t row = i / cols, c = i % cols / taps;
        const int64_t place = sl_window_place(&w, row % outs, i % taps);
        const int64_t channel = row / outs * sl_eval_dim(a, 0, 1) + c;
        if (place >= 0)
            a->out[0].data[i] = x[channel * ins + place];
        else
            sl_slot_set_integer(a->out[0].type.dtype, &a->out[0].data[i], 0);
    }
    return SL_OK;
}

sl_status sl_eval_causal_conv1d(const sl_eval_args *a, sl_error *err) {
    const sl_causal_conv1d_attrs *attrs = a->attrs;
    const double *in[3] = {0};
    SL_TRY(sl_eval_inputs(a, a->in_count, in, err));
    const int64_t length = sl_eval_dim(a, 0, 2), taps = sl_eval_dim(a, 1, 1);
    const int64_t dilation = attrs->dilation ? attrs->dilation : 1;
    for (int64_t i = 0; i < sl_type_elements(&a->in[0].type); i++) {
        const int64_t t = i % length, c = i / length % sl_eval_dim(a, 0, 1);
        double sum = in[2] ? in[2][c] : 0;
        for (int64_t k = 0; k < taps; k++) {
            const int64_t back = dilation * (taps - 1 - k);
            if (back <= t) sum += in[1][c * taps + k] * in[0][i - back];
        }
        a->out[0].data[i] = sum;
    }
    return SL_OK;
}
