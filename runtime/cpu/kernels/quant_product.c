/* quant_product.c - int8 matrix products and convolutions with 32-bit sums and requantised results.
 */
#include "runtime/cpu/kernels/channels.h"
#include "runtime/cpu/kernels/product.h"
#include <math.h>

/* Requantisation: parameters with one element, or one per channel. */
typedef struct {
    const sl_cview *multiplier, *out_zero;
    const sl_cview_list *bias;
    const sl_view *out;
} recode;

static int32_t zero_at(const sl_cview *zero, int64_t channel) {
    return (int32_t)element(zero, sl_type_elements(&zero->type) == 1 ? 0 : channel);
}
/* Requantises `count` sums.  to_and_step: offset in the output, and 1 if each sum has its own
 * channel (0: all have `channel`). */
static void store_codes(const recode *q, const uint32_t *sums, int64_t count, int64_t channel,
                        const int64_t to_and_step[2]) {
    const bool is_unsigned = q->out->type.dtype == SL_DTYPE_u8;
    const int32_t zero = zero_at(q->out_zero, 0);
    const bool one = sl_type_elements(&q->multiplier->type) == 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = channel + i * to_and_step[1];
        uint32_t sum = sums[i];
        if (SL_LIST_COUNT(*q->bias)) sum += ((const uint32_t *)q->bias->items[0].data)[at];
        const float factor = ((const float *)q->multiplier->data)[one ? 0 : at];
        const float scaled = rintf((float)(int32_t)sum * factor);
        const double code = (double)scaled + zero;
        const double low = is_unsigned ? 0 : -128, high = is_unsigned ? 255 : 127;
        const double kept = code < low ? low : code > high ? high : code;
        const int whole = isnan(code) ? zero : (int)kept;
        ((uint8_t *)q->out->data)[to_and_step[0] + i] = (uint8_t)whole;
    }
}

static uint32_t code_at(const sl_cview *v, int64_t at) {
    return v->type.dtype == SL_DTYPE_i8 ? (uint32_t)(int32_t)((const int8_t *)v->data)[at]
                                        : ((const uint8_t *)v->data)[at];
}

/* ---- q_matmul ---- */

typedef struct {
    const sl_q_matmul_args *args;
    recode codes;
} q_matmul;

/* Index of the operand's matrix that output matrix `batch` uses. */
static int64_t matrix_index(const sl_dims *operand, const sl_dims *out, int64_t batch) {
    int64_t index = 0, stride = 1;
    for (uint32_t back = 3; back <= out->rank; back++) {
        const int64_t extent = out->dims[out->rank - back], at = batch % extent;
        batch /= extent;
        if (back > operand->rank) continue;
        const int64_t own = operand->dims[operand->rank - back];
        if (own != 1) index += at * stride;
        stride *= own;
    }
    return index;
}

static void matmul_left(const product *p, const product_block *b, void *to) {
    const sl_q_matmul_args *m = ((const q_matmul *)p->context)->args;
    const int64_t matrix = matrix_index(&m->a.type.shape, &m->out.type.shape, b->batch);
    const uint32_t zero = (uint32_t)zero_at(&m->a_zero, 0);
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t k = 0; k < b->ks; k++)
            ((uint32_t *)to)[r * PRODUCT_INNER + k] =
                code_at(&m->a, (matrix * p->rows + b->row + r) * p->inner + b->k + k) - zero;
}
static void matmul_right(const product *p, const product_block *b, void *to) {
    const sl_q_matmul_args *m = ((const q_matmul *)p->context)->args;
    const int64_t matrix = matrix_index(&m->b.type.shape, &m->out.type.shape, b->batch);
    uint32_t zeros[PRODUCT_COLS];
    for (int64_t n = 0; n < b->cols; n++) zeros[n] = (uint32_t)zero_at(&m->b_zero, b->col + n);
    for (int64_t k = 0; k < b->ks; k++)
        for (int64_t n = 0; n < b->cols; n++)
            ((uint32_t *)to)[k * PRODUCT_COLS + n] =
                code_at(&m->b, (matrix * p->inner + b->k + k) * p->cols + b->col + n) - zeros[n];
}
static void matmul_finish(const product *p, const product_block *b, const void *sums) {
    const q_matmul *m = p->context;
    for (int64_t r = 0; r < b->rows; r++)
        store_codes(&m->codes, (const uint32_t *)sums + r * PRODUCT_COLS, b->cols, b->col,
                    (int64_t[2]){(b->batch * p->rows + b->row + r) * p->cols + b->col, 1});
}

static q_matmul matmul_of(const sl_q_matmul_args *a) {
    return (q_matmul){a, {&a->multiplier, &a->out_zero, &a->bias, &a->out}};
}
static product product_of_matmul(const q_matmul *m) {
    const sl_dims *out = &m->args->out.type.shape;
    product p = {.kind = PRODUCT_I32,
                 .rows = out->dims[out->rank - 2],
                 .cols = out->dims[out->rank - 1],
                 .inner = last_dim(&m->args->a.type),
                 .context = m,
                 .left = matmul_left,
                 .right = matmul_right,
                 .finish = matmul_finish};
    p.batches = sl_type_elements(&m->args->out.type) / (p.rows * p.cols);
    return p;
}

SPLIT(q_matmul) {
    const q_matmul m = matmul_of(args);
    const product p = product_of_matmul(&m);
    return product_split(&p);
}
RUN(q_matmul) {
    const q_matmul m = matmul_of(args);
    const product p = product_of_matmul(&m);
    product_items(&p, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- q_conv: for each image and group, weights times im2col patches ---- */

enum { SPACE = 3 }; /* missing spatial dims are leading ones */
typedef struct {
    const sl_q_conv_args *args;
    recode codes;
    int64_t groups, in, out; /* channels are per group */
    int64_t image[SPACE], kernel[SPACE], result[SPACE];
    int64_t strides[SPACE], pads[SPACE], dilations[SPACE];
} q_conv;

static int64_t item_or(sl_integers list, uint32_t i, int64_t missing) {
    return list.count ? list.items[i] : missing;
}

static q_conv conv_of(const sl_q_conv_args *a) {
    q_conv c = {.args = a, .codes = {&a->multiplier, &a->out_zero, &a->bias, &a->out}};
    const uint32_t space = a->x.type.shape.rank - 2;
    c.groups = a->attrs.groups ? a->attrs.groups : 1;
    c.in = dim(&a->x.type, 1) / c.groups;
    c.out = dim(&a->out.type, 1) / c.groups;
    for (uint32_t d = 0; d < SPACE; d++) {
        const bool there = d + space >= SPACE;
        const uint32_t i = d + space - SPACE;
        c.image[d] = there ? dim(&a->x.type, i + 2) : 1;
        c.kernel[d] = there ? dim(&a->w.type, i + 2) : 1;
        c.result[d] = there ? dim(&a->out.type, i + 2) : 1;
        c.strides[d] = there ? item_or(a->attrs.strides, i, 1) : 1;
        c.dilations[d] = there ? item_or(a->attrs.dilations, i, 1) : 1;
        c.pads[d] = there ? item_or(a->attrs.pads_before, i, 0) : 0;
    }
    return c;
}

/* Splits a linear index into coordinates. */
static void coordinates(const int64_t sizes[SPACE], int64_t index, int64_t out[SPACE]) {
    for (int d = SPACE; d-- > 0; index /= sizes[d]) out[d] = index % sizes[d];
}

/* The input under a tap, minus the zero point; 0 in the padding. */
static uint32_t tap(const q_conv *c, int64_t channel, const int64_t at[SPACE],
                    const int64_t tap_at[SPACE]) {
    int64_t index = channel;
    for (int d = 0; d < SPACE; d++) {
        const int64_t i = at[d] * c->strides[d] + tap_at[d] * c->dilations[d] - c->pads[d];
        if (i < 0 || i >= c->image[d]) return 0;
        index = index * c->image[d] + i;
    }
    return code_at(&c->args->x, index) - (uint32_t)zero_at(&c->args->x_zero, 0);
}

static void conv_left(const product *p, const product_block *b, void *to) {
    const q_conv *c = p->context;
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t channel = b->batch % c->groups * c->out + b->row + r;
        const uint32_t zero = (uint32_t)zero_at(&c->args->w_zero, channel);
        for (int64_t k = 0; k < b->ks; k++)
            ((uint32_t *)to)[r * PRODUCT_INNER + k] =
                code_at(&c->args->w, channel * p->inner + b->k + k) - zero;
    }
}
static void conv_right(const product *p, const product_block *b, void *to) {
    const q_conv *c = p->context;
    const int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    int64_t places[PRODUCT_COLS][SPACE];
    for (int64_t n = 0; n < b->cols; n++) coordinates(c->result, b->col + n, places[n]);
    for (int64_t k = 0; k < b->ks; k++) {
        int64_t tap_at[SPACE];
        coordinates(c->kernel, (b->k + k) % taps, tap_at);
        const int64_t channel = b->batch * c->in + (b->k + k) / taps;
        for (int64_t n = 0; n < b->cols; n++)
            ((uint32_t *)to)[k * PRODUCT_COLS + n] = tap(c, channel, places[n], tap_at);
    }
}
static void conv_finish(const product *p, const product_block *b, const void *sums) {
    const q_conv *c = p->context;
    for (int64_t r = 0; r < b->rows; r++) {
        const int64_t row = b->batch * c->out + b->row + r;
        store_codes(&c->codes, (const uint32_t *)sums + r * PRODUCT_COLS, b->cols,
                    b->batch % c->groups * c->out + b->row + r,
                    (int64_t[2]){row * p->cols + b->col, 0});
    }
}

static product product_of_conv(const q_conv *c) {
    return (product){.kind = PRODUCT_I32,
                     .batches = dim(&c->args->x.type, 0) * c->groups,
                     .rows = c->out,
                     .cols = c->result[0] * c->result[1] * c->result[2],
                     .inner = c->in * c->kernel[0] * c->kernel[1] * c->kernel[2],
                     .context = c,
                     .left = conv_left,
                     .right = conv_right,
                     .finish = conv_finish};
}

SPLIT(q_conv) {
    const q_conv c = conv_of(args);
    const product p = product_of_conv(&c);
    return product_split(&p);
}
RUN(q_conv) {
    const q_conv c = conv_of(args);
    const product p = product_of_conv(&c);
    product_items(&p, begin, end, worker->scratch);
    return SL_OK;
}
