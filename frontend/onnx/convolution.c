/* convolution.c - Convolutions and pools. */
#include "frontend/onnx/families.h"
#include <string.h>

enum { MAX_SPATIAL = 6, LARGEST = 1 << 28 };

/* A window over the spatial dims, in ONNX's terms. */
typedef struct {
    uint32_t count;
    int64_t kernel[MAX_SPATIAL], strides[MAX_SPATIAL], dilations[MAX_SPATIAL];
    int64_t before[MAX_SPATIAL], after[MAX_SPATIAL];
    bool ceil;
    const char *auto_pad;
} window;

/* One number per spatial dim; false after an error. */
static bool read_list(sl_onnx_call *c, const char *name, uint32_t count, int64_t otherwise,
                      int64_t *out) {
    sl_integers list;
    const bool given = sl_onnx_ints(c, name, &list);
    if (given && list.count != count) {
        sl_onnx_wrong(c, "%s has %u entries, wanted %u", name, list.count, count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = given ? list.items[i] : otherwise;
        if (out[i] > LARGEST || out[i] < -LARGEST) {
            sl_onnx_wrong(c, "%s has an entry of %lld, which is out of range", name,
                          (long long)out[i]);
            return false;
        }
    }
    return true;
}

static bool read_window(sl_onnx_call *c, const sl_dims *x, const int64_t *kernel, window *w) {
    int64_t pads[2 * MAX_SPATIAL] = {0};
    *w = (window){.auto_pad = sl_onnx_text(c, "auto_pad", "NOTSET")};
    if (x->rank < 3 || x->rank - 2 > MAX_SPATIAL) {
        sl_onnx_refuse(c, "an input of %u dims is not supported", x->rank);
        return false;
    }
    w->count = x->rank - 2;
    w->ceil = sl_onnx_int(c, "ceil_mode", 0) != 0;
    if (!read_list(c, "kernel_shape", w->count, 1, w->kernel) ||
        !read_list(c, "strides", w->count, 1, w->strides) ||
        !read_list(c, "dilations", w->count, 1, w->dilations) ||
        !read_list(c, "pads", 2 * w->count, 0, pads))
        return false;
    for (uint32_t i = 0; i < w->count; i++) {
        if (kernel) w->kernel[i] = kernel[i];
        if (w->kernel[i] > LARGEST || x->dims[i + 2] > LARGEST)
            sl_onnx_refuse(c, "dim %u is too large", i + 2);
        if (w->kernel[i] < 1 || w->strides[i] < 1 || w->dilations[i] < 1)
            sl_onnx_wrong(c, "a kernel, stride or dilation is not positive");
        w->before[i] = pads[i];
        w->after[i] = pads[w->count + i];
    }
    return !sl_onnx_failed(c);
}

/* Splits padding in two; an odd element goes to the end (SAME_UPPER) or to the start. */
static void split_padding(window *w, uint32_t i, int64_t total) {
    const bool lower = strcmp(w->auto_pad, "SAME_LOWER") == 0;
    if (total < 0) total = 0;
    w->before[i] = lower ? total - total / 2 : total / 2;
    w->after[i] = total - w->before[i];
}

static bool is_same(const window *w) {
    return strncmp(w->auto_pad, "SAME", 4) == 0;
}

static int64_t reach(const window *w, uint32_t i) {
    return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

/* Pads such that there is one window per stride. */
static void pad_same(window *w, const sl_dims *x) {
    for (uint32_t i = 0; is_same(w) && i < w->count; i++) {
        const int64_t in = x->dims[i + 2];
        const int64_t out = (in + w->strides[i] - 1) / w->strides[i];
        split_padding(w, i, (out - 1) * w->strides[i] + reach(w, i) - in);
    }
}

static const char *window_text(sl_onnx_call *c, const window *w) {
    const char *text = sl_arena_format(
        &c->im->arena, "strides=%s, pads_before=%s, pads_after=%s, dilations=%s",
        sl_onnx_list(c, w->strides, w->count), sl_onnx_list(c, w->before, w->count),
        sl_onnx_list(c, w->after, w->count), sl_onnx_list(c, w->dilations, w->count));
    return text ? text : "";
}

/* ---- Convolutions ---- */

/* The convolution of x with w and an optional bias, with the node's attributes. */
static sl_value convolve(sl_onnx_call *c, const sl_value *operands, uint32_t count) {
    const sl_dims x = sl_onnx_type(c, operands[0]).shape, k = sl_onnx_type(c, operands[1]).shape;
    window w;
    sl_value out = {0};
    if (k.rank != x.rank)
        sl_onnx_wrong(c, "the weights have %u dims, wanted %u as x", k.rank, x.rank);
    if (sl_onnx_failed(c) || !read_window(c, &x, k.dims + 2, &w)) return out;
    pad_same(&w, &x);
    sl_onnx_append(c, &(sl_onnx_step){"conv", count, 1, operands, &out}, "%s, groups=%lld",
                   window_text(c, &w), (long long)sl_onnx_int(c, "group", 1));
    return out;
}

void sl_onnx_conv(sl_onnx_call *c) {
    const bool biased = sl_onnx_has(c, 2);
    const sl_value operands[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1),
                                 biased ? sl_onnx_in(c, 2) : (sl_value){0}};
    sl_onnx_set(c, 0, convolve(c, operands, biased ? 3 : 2));
}

/* x - zero in i32; zero has one element, or one per index of the first dim. */
static sl_value minus_zero(sl_onnx_call *c, uint32_t input, uint32_t zero) {
    const sl_value x = sl_onnx_cast(c, sl_onnx_in(c, input), SL_DTYPE_i32);
    if (!sl_onnx_has(c, zero)) return x;
    sl_value point = sl_onnx_cast(c, sl_onnx_in(c, zero), SL_DTYPE_i32);
    const sl_type type = sl_onnx_type(c, point);
    sl_dims shape = {.rank = sl_onnx_type(c, x).shape.rank};
    for (uint32_t i = 0; i < shape.rank; i++) shape.dims[i] = 1;
    if (shape.rank) shape.dims[0] = sl_type_elements(&type);
    return sl_onnx_op2(c, "sub", x, sl_onnx_reshape(c, point, &shape));
}

void sl_onnx_conv_integer(sl_onnx_call *c) {
    const sl_value operands[] = {minus_zero(c, 0, 2), minus_zero(c, 1, 3)};
    sl_onnx_set(c, 0, convolve(c, operands, 2));
}

/* A tensor of one element, or of one per channel, reshaped to broadcast to [N,C,..]. */
static sl_value per_channel(sl_onnx_call *c, sl_value x, uint32_t rank) {
    const sl_type type = sl_onnx_type(c, x);
    sl_dims shape = {.rank = rank};
    for (uint32_t i = 0; i < rank; i++) shape.dims[i] = i == 1 ? sl_type_elements(&type) : 1;
    return sl_onnx_reshape(c, x, &shape);
}

/* Inputs: x, its scale and zero point, w, its scale and zero point, those of y, bias. */
void sl_onnx_qlinear_conv(sl_onnx_call *c) {
    const sl_value operands[] = {minus_zero(c, 0, 2), minus_zero(c, 3, 5),
                                 sl_onnx_has(c, 8) ? sl_onnx_in(c, 8) : (sl_value){0}};
    const sl_value sum = convolve(c, operands, sl_onnx_has(c, 8) ? 3 : 2);
    const uint32_t rank = sl_onnx_type(c, sum).shape.rank;
    const sl_value scale =
        per_channel(c, sl_onnx_op2(c, "mul", sl_onnx_in(c, 1), sl_onnx_in(c, 4)), rank);
    const sl_value real =
        sl_onnx_op2(c, "mul", sl_onnx_cast(c, sum, sl_onnx_type(c, scale).dtype), scale);
    sl_onnx_set(c, 0, sl_onnx_quantized(c, real, 6, 7, 1));
}

/* Padding such that the output has the given shape, or stride times the input's.  If the output
 * would be too small, it is extended at the end; an odd element of padding goes to the start,
 * except with SAME_UPPER. */
static bool pad_transposed(sl_onnx_call *c, window *w, const sl_dims *x, int64_t *extra) {
    sl_integers shape;
    const bool given = sl_onnx_ints(c, "output_shape", &shape);
    if (given && shape.count != w->count && shape.count != w->count + 2) {
        sl_onnx_wrong(c, "output_shape has a wrong number of entries (%u)", shape.count);
        return false;
    }
    for (uint32_t i = 0; (given || is_same(w)) && i < w->count; i++) {
        const int64_t in = x->dims[i + 2];
        const int64_t out = given ? shape.items[shape.count - w->count + i] : in * w->strides[i];
        if (out < 0 || out > (int64_t)1 << 60)
            sl_onnx_wrong(c, "a dim of the output is %lld, which is out of range", (long long)out);
        if (sl_onnx_failed(c)) return false;
        const int64_t total = (in - 1) * w->strides[i] + extra[i] + reach(w, i) - out;
        if (total < 0) extra[i] -= total;
        split_padding(w, i, total);
        if (strcmp(w->auto_pad, "SAME_UPPER") != 0) {
            const int64_t larger = w->before[i] > w->after[i] ? w->before[i] : w->after[i];
            w->after[i] += w->before[i] - larger;
            w->before[i] = larger;
        }
    }
    return !sl_onnx_failed(c);
}

void sl_onnx_conv_transpose(sl_onnx_call *c) {
    const bool biased = sl_onnx_has(c, 2);
    const sl_value operands[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1),
                                 biased ? sl_onnx_in(c, 2) : (sl_value){0}};
    const sl_dims x = sl_onnx_in_type(c, 0).shape, k = sl_onnx_in_type(c, 1).shape;
    int64_t extra[MAX_SPATIAL];
    window w;
    sl_value out;
    if (k.rank != x.rank)
        sl_onnx_wrong(c, "the weights have %u dims, wanted %u as x", k.rank, x.rank);
    if (sl_onnx_failed(c) || !read_window(c, &x, k.dims + 2, &w) ||
        !read_list(c, "output_padding", w.count, 0, extra) || !pad_transposed(c, &w, &x, extra))
        return;
    sl_onnx_append(c, &(sl_onnx_step){"conv_transpose", biased ? 3 : 2, 1, operands, &out},
                   "%s, output_padding=%s, groups=%lld", window_text(c, &w),
                   sl_onnx_list(c, extra, w.count), (long long)sl_onnx_int(c, "group", 1));
    sl_onnx_set(c, 0, out);
}

/* ---- Pools ---- */

static bool read_pool(sl_onnx_call *c, window *w) {
    const sl_dims x = sl_onnx_in_type(c, 0).shape;
    if (sl_onnx_failed(c) || !read_window(c, &x, NULL, w)) return false;
    pad_same(w, &x);
    return true;
}

static const char *pool_text(sl_onnx_call *c, const window *w) {
    const char *text =
        sl_arena_format(&c->im->arena, "kernel=%s, %s, ceil=%d",
                        sl_onnx_list(c, w->kernel, w->count), window_text(c, w), w->ceil);
    return text ? text : "";
}

void sl_onnx_average_pool(sl_onnx_call *c) {
    window w;
    if (read_pool(c, &w))
        sl_onnx_set(c, 0,
                    sl_onnx_with(c, "pool_mean", sl_onnx_in(c, 0), "%s, include_pad=%d",
                                 pool_text(c, &w), sl_onnx_int(c, "count_include_pad", 0) != 0));
}

void sl_onnx_max_pool(sl_onnx_call *c) {
    window w;
    if (!read_pool(c, &w)) return;
    const sl_value x = sl_onnx_in(c, 0);
    sl_onnx_set(c, 0, sl_onnx_with(c, "pool_max", x, "%s", pool_text(c, &w)));
    if (sl_onnx_wants(c, 1))
        sl_onnx_set(c, 1,
                    sl_onnx_with(c, "max_pool_indices", x, "%s, column_major=%d", pool_text(c, &w),
                                 sl_onnx_int(c, "storage_order", 0) != 0));
}

void sl_onnx_lp_pool(sl_onnx_call *c) {
    window w;
    if (read_pool(c, &w))
        sl_onnx_set(c, 0,
                    sl_onnx_with(c, "lp_pool", sl_onnx_in(c, 0), "%s, p=%lld", pool_text(c, &w),
                                 (long long)sl_onnx_int(c, "p", 2)));
}

static sl_dims spatial_axes(sl_onnx_call *c) {
    const uint32_t rank = sl_onnx_in_type(c, 0).shape.rank;
    sl_dims axes = {0};
    for (uint32_t i = 2; i < rank; i++) axes.dims[axes.rank++] = i;
    return axes;
}

/* Pools over all positions; the row of the table gives the op. */
void sl_onnx_global_pool(sl_onnx_call *c) {
    const sl_dims axes = spatial_axes(c);
    sl_onnx_set(c, 0, sl_onnx_reduce(c, c->op, sl_onnx_in(c, 0), &axes, true));
}

void sl_onnx_global_lp_pool(sl_onnx_call *c) {
    const sl_dims axes = spatial_axes(c);
    const double p = (double)sl_onnx_int(c, "p", 2);
    const sl_value powers = sl_onnx_op_scalar(c, "pow", sl_onnx_op1(c, "abs", sl_onnx_in(c, 0)), p);
    const sl_value sum = sl_onnx_reduce(c, "sum", powers, &axes, true);
    sl_onnx_set(c, 0, sl_onnx_op_scalar(c, "pow", sum, 1 / p));
}

/* Pads with zeros at the end, up to the given shape. */
static sl_value enlarge(sl_onnx_call *c, sl_value x, const sl_integers *shape) {
    const sl_type type = sl_onnx_type(c, x);
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    for (uint32_t i = 0; i < type.shape.rank; i++) {
        const int64_t wanted = i < shape->count ? shape->items[i] : -1;
        after[i] = wanted - type.shape.dims[i];
        if (shape->count != type.shape.rank || wanted < type.shape.dims[i])
            sl_onnx_wrong(c, "output_shape is smaller than the result");
        if (sl_onnx_failed(c)) return x;
    }
    const sl_value two[] = {x, sl_onnx_scalar(c, type.dtype, 0)};
    return sl_onnx_with2(c, "pad", two, "before=%s, after=%s, mode=0",
                         sl_onnx_list(c, before, type.shape.rank),
                         sl_onnx_list(c, after, type.shape.rank));
}

/* Scatters each element to its original position in zeros; output_shape may add more zeros. */
void sl_onnx_max_unpool(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    window w;
    sl_integers given;
    sl_type out = type;
    if (sl_onnx_failed(c) || !read_window(c, &type.shape, NULL, &w)) return;
    for (uint32_t i = 0; i < w.count; i++)
        out.shape.dims[i + 2] =
            (type.shape.dims[i + 2] - 1) * w.strides[i] + w.kernel[i] - w.before[i] - w.after[i];
    if (sl_type_check_shape(&out, c->out[0].name, &c->graph->error) != SL_OK) return;
    const sl_dims flat = {1, {sl_type_elements(&type)}}, all = {1, {sl_type_elements(&out)}};
    const sl_value three[] = {sl_onnx_expand(c, sl_onnx_scalar(c, type.dtype, 0), &all),
                              sl_onnx_reshape(c, sl_onnx_in(c, 1), &flat),
                              sl_onnx_reshape(c, sl_onnx_in(c, 0), &flat)};
    sl_value filled;
    sl_onnx_append(c, &(sl_onnx_step){"scatter", 3, 1, three, &filled}, "axis=0, combine=0");
    filled = sl_onnx_reshape(c, filled, &out.shape);
    if (sl_onnx_integers_in(c, 2, &given)) filled = enlarge(c, filled, &given);
    sl_onnx_set(c, 0, filled);
}
