/* sample.c - GridSample: interpolates an image at given positions.  x[N,C,H,W] is read as [N,C,H W]
 * with computed indices: per tap a row and a column, which padding clamps or masks to 0. */
#include "frontend/onnx/families.h"
#include <string.h>

typedef struct {
    sl_onnx_call *c;
    sl_value image; /* [N,C,H W] */
    sl_dims places; /* [N,1,P] */
    sl_dims out;    /* [N,C,P] */
    sl_dtype dtype;
    int64_t height, width;
    bool corners, zeros, reflect;
} sampler;

static sl_value with_number(const sampler *s, const char *op, sl_value x, double number) {
    return sl_onnx_op_scalar(s->c, op, x, number);
}

static sl_value within(const sampler *s, sl_value x, double least, double most) {
    return with_number(s, "minimum", with_number(s, "maximum", x, least), most);
}

/* From [-1, 1] to element coordinates. */
static sl_value denormalised(const sampler *s, sl_value x, int64_t size) {
    const double length = (double)size;
    if (s->corners) return with_number(s, "mul", with_number(s, "add", x, 1), (length - 1) / 2);
    x = with_number(s, "mul", with_number(s, "add", x, 1), length);
    return with_number(s, "div", with_number(s, "sub", x, 1), 2);
}

/* Reflected at the borders, repeatedly if necessary. */
static sl_value reflected(const sampler *s, sl_value x, int64_t size) {
    const double least = s->corners ? 0 : -0.5;
    const double most = s->corners ? (double)size - 1 : (double)size - 0.5;
    const double span = most - least;
    if (span <= 0) return with_number(s, "mul", x, 0);
    const sl_value two[] = {with_number(s, "sub", x, least),
                            sl_onnx_scalar(s->c, s->dtype, 2 * span)};
    const sl_value rest = sl_onnx_with2(s->c, "mod", two, "truncate=0");
    const sl_value back = sl_onnx_op2(s->c, "sub", sl_onnx_scalar(s->c, s->dtype, 2 * span), rest);
    return with_number(s, "add", sl_onnx_op2(s->c, "minimum", rest, back), least);
}

/* The integer coordinate of a tap, clamped to the image; *valid: whether it was inside, for zero
 * padding. */
static sl_value tap_index(const sampler *s, sl_value x, int64_t size, sl_value *valid) {
    const double most = (double)size - 1;
    if (s->zeros) {
        const sl_value inside =
            sl_onnx_op2(s->c, "logical_and", with_number(s, "greater_equal", x, 0),
                        with_number(s, "less_equal", x, most));
        *valid = valid->v ? sl_onnx_op2(s->c, "logical_and", *valid, inside) : inside;
    }
    if (s->reflect) x = sl_onnx_op1(s->c, "round", reflected(s, x, size));
    return within(s, x, 0, most);
}

/* The image at integer rows and columns [N,1,P]. */
static sl_value tap(const sampler *s, sl_value row, sl_value column) {
    sl_value valid = {0};
    row = tap_index(s, row, s->height, &valid);
    column = tap_index(s, column, s->width, &valid);
    sl_value index = sl_onnx_op2(s->c, "add", with_number(s, "mul", row, (double)s->width), column);
    index = sl_onnx_expand(s->c, sl_onnx_cast(s->c, index, SL_DTYPE_i64), &s->out);
    const sl_value two[] = {s->image, index};
    const sl_value x = sl_onnx_with2(s->c, "take_along", two, "axis=2");
    if (!s->zeros) return x;
    return sl_onnx_op3(s->c, "where", valid, x, sl_onnx_scalar(s->c, s->dtype, 0));
}

/* Cubic weights of four neighbours at distances 1 + t, t, 1 - t, 2 - t, with a = -0.75. */
static void cubic_weights(const sampler *s, sl_value t, sl_value *weights) {
    static const double a = -0.75;
    for (int i = 0; i < 4; i++) {
        const sl_value d = sl_onnx_op1(s->c, "abs", with_number(s, "sub", t, i - 1));
        const bool near = i == 1 || i == 2;
        const double k[4] = {near ? a + 2 : a, near ? -(a + 3) : -5 * a, near ? 0 : 8 * a,
                             near ? 1 : -4 * a};
        sl_value w = with_number(s, "add", with_number(s, "mul", d, k[0]), k[1]);
        w = with_number(s, "add", sl_onnx_op2(s->c, "mul", w, d), k[2]);
        weights[i] = with_number(s, "add", sl_onnx_op2(s->c, "mul", w, d), k[3]);
    }
}

static void linear_weights(const sampler *s, sl_value t, sl_value *weights) {
    weights[0] = sl_onnx_op2(s->c, "sub", sl_onnx_scalar(s->c, s->dtype, 1), t);
    weights[1] = t;
}

/* The weighted sum over count x count taps around each position. */
static sl_value weighted(const sampler *s, sl_value y, sl_value x, int count) {
    const sl_value row = sl_onnx_op1(s->c, "floor", y), column = sl_onnx_op1(s->c, "floor", x);
    const sl_value down = sl_onnx_op2(s->c, "sub", y, row);
    const sl_value right = sl_onnx_op2(s->c, "sub", x, column);
    sl_value rows[4], columns[4], sum = {0};
    if (count == 4) {
        cubic_weights(s, down, rows);
        cubic_weights(s, right, columns);
    } else {
        linear_weights(s, down, rows);
        linear_weights(s, right, columns);
    }
    const int first = count == 4 ? -1 : 0;
    for (int i = 0; i < count * count; i++) {
        const sl_value at = tap(s, with_number(s, "add", row, i / count + first),
                                with_number(s, "add", column, i % count + first));
        const sl_value weight = sl_onnx_op2(s->c, "mul", rows[i / count], columns[i % count]);
        const sl_value part = sl_onnx_op2(s->c, "mul", at, weight);
        sum = i ? sl_onnx_op2(s->c, "add", sum, part) : part;
    }
    return sum;
}

/* One coordinate of the grid, in elements of the image. */
static sl_value coordinate(const sampler *s, int64_t which, int64_t size, bool cubic) {
    const sl_value part = sl_onnx_slice(s->c, sl_onnx_in(s->c, 1), 3, which, 1);
    sl_value x = sl_onnx_reshape(s->c, sl_onnx_cast(s->c, part, s->dtype), &s->places);
    x = denormalised(s, x, size);
    if (cubic || s->zeros) return x;
    if (s->reflect) x = reflected(s, x, size);
    return within(s, x, 0, (double)size - 1);
}

void sl_onnx_grid_sample(sl_onnx_call *c) {
    const sl_type x = sl_onnx_in_type(c, 0), grid = sl_onnx_in_type(c, 1);
    const char *mode = sl_onnx_text(c, "mode", "linear");
    const char *padding = sl_onnx_text(c, "padding_mode", "zeros");
    if (x.shape.rank != 4 || grid.shape.rank != 4) {
        sl_onnx_refuse(c, "an image of %u dims is not supported, only 4", x.shape.rank);
        return;
    }
    const int64_t places = grid.shape.dims[1] * grid.shape.dims[2];
    sampler s = {.c = c,
                 .places = {3, {x.shape.dims[0], 1, places}},
                 .out = {3, {x.shape.dims[0], x.shape.dims[1], places}},
                 .dtype = x.dtype,
                 .height = x.shape.dims[2],
                 .width = x.shape.dims[3],
                 .corners = sl_onnx_int(c, "align_corners", 0) != 0,
                 .zeros = strcmp(padding, "zeros") == 0,
                 .reflect = strcmp(padding, "reflection") == 0};
    const sl_dims flat = {3, {x.shape.dims[0], x.shape.dims[1], s.height * s.width}};
    s.image = sl_onnx_reshape(c, sl_onnx_in(c, 0), &flat);
    const bool cubic = strstr(mode, "cubic") != NULL;
    const sl_value column = coordinate(&s, 0, s.width, cubic);
    const sl_value row = coordinate(&s, 1, s.height, cubic);
    sl_value y;
    if (strcmp(mode, "nearest") == 0)
        y = tap(&s, sl_onnx_op1(c, "round", row), sl_onnx_op1(c, "round", column));
    else
        y = weighted(&s, row, column, cubic ? 4 : 2);
    const sl_dims four = {
        4, {x.shape.dims[0], x.shape.dims[1], grid.shape.dims[1], grid.shape.dims[2]}};
    sl_onnx_set(c, 0, sl_onnx_reshape(c, y, &four));
}

/* The position of index i of `count` in [-1, 1]: the centre of the element, or with align_corners
 * including the ends. */
static double place_of(int64_t i, int64_t count, bool corners) {
    if (corners) return count > 1 ? 2 * (double)i / (double)(count - 1) - 1 : 0;
    return (2 * (double)i + 1) / (double)count - 1;
}

/* [places, dims + 1]: x, y (and z) of each position, then 1. */
static sl_value places_of(sl_onnx_call *c, const int64_t *dims, uint32_t count, sl_dtype dtype) {
    const bool corners = sl_onnx_int(c, "align_corners", 0) != 0;
    int64_t places = 1;
    for (uint32_t d = 0; d < count; d++) places *= dims[d];
    double *numbers = sl_onnx_memory(c, (size_t)places * (count + 1) + 1, sizeof *numbers);
    if (!numbers) return (sl_value){0};
    for (int64_t p = 0; p < places; p++) {
        double *row = numbers + p * (count + 1);
        int64_t left = p;
        for (uint32_t d = count; d-- > 0; left /= dims[d])
            row[count - 1 - d] = place_of(left % dims[d], dims[d], corners);
        row[count] = 1;
    }
    const sl_type type = {SL_DTYPE_f64, {2, {places, count + 1}}};
    return sl_onnx_cast(c, sl_onnx_constant(c, type, numbers), dtype);
}

/* theta[N, dims, dims + 1], size: N, C, then the dims of the grid. */
void sl_onnx_affine_grid(sl_onnx_call *c) {
    const sl_type theta = sl_onnx_in_type(c, 0);
    sl_integers size;
    if (!sl_onnx_integers_in(c, 1, &size)) return;
    const uint32_t count = size.count - 2;
    if ((size.count != 4 && size.count != 5) || theta.shape.rank != 3 ||
        theta.shape.dims[1] != count || theta.shape.dims[2] != (int64_t)count + 1) {
        sl_onnx_refuse(c, "a grid of %u dims with this theta is not supported", size.count);
        return;
    }
    int64_t places = 1;
    sl_dims shape = {.rank = size.count, .dims = {theta.shape.dims[0]}};
    for (uint32_t d = 0; d < count; d++) {
        shape.dims[1 + d] = size.items[2 + d];
        places *=
            size.items[2 + d] > 0 && size.items[2 + d] < 1 << 20 ? size.items[2 + d] : 1 << 20;
        if (places > 1 << 26 || size.items[2 + d] < 1) {
            sl_onnx_refuse(c, "a grid of size %s is not supported",
                           sl_onnx_list(c, size.items, size.count));
            return;
        }
    }
    shape.dims[size.count - 1] = count;
    const sl_value grid = places_of(c, size.items + 2, count, theta.dtype);
    const sl_value turned = sl_onnx_transpose(c, sl_onnx_in(c, 0), &(sl_dims){3, {0, 2, 1}});
    sl_onnx_set(c, 0, sl_onnx_reshape(c, sl_onnx_op2(c, "matmul", grid, turned), &shape));
}
