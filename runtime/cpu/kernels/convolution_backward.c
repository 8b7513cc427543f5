/* convolution_backward.c - Transposed convolutions, which are also the gradients of convolutions
 * with respect to their input, and gradients with respect to weights. */
#include "core/ops.h"
#include "runtime/cpu/kernels/blocked.h"
#include "runtime/cpu/kernels/convolution_im2col.h"
#include "runtime/cpu/kernels/element.h"

/* ---- conv_transpose: an item is a few output channels of one group of one sample ----
 *
 * A matrix product gives the contribution of every input position to every tap of these channels;
 * the contributions are then added to the output positions under the taps (col2im). */

enum { TILE = 128, ROWS = 64 };

typedef struct {
    sl_window w;                      /* over the output */
    int64_t groups, sources, results; /* per group: input channels, output channels */
    int64_t taps, outs, ins;          /* outs: input positions; ins: output positions */
    int64_t each, blocks;             /* output channels of an item; items per group */
    sl_cview x, weight;
    sl_view out;
    const sl_cview *bias; /* or NULL */
} plan;

static plan plan_of(const sl_cview *x, const sl_cview *weight, const sl_view *out,
                    const sl_window_lists *lists, uint32_t groups) {
    plan p = {.w = sl_window_of(lists, weight->type.shape.dims + 2, &out->type, &x->type),
              .groups = groups ? groups : 1,
              .x = *x,
              .weight = *weight,
              .out = *out};
    p.sources = dim(&x->type, 1) / p.groups;
    p.results = dim(&weight->type, 1);
    p.taps = sl_window_taps(&p.w);
    p.outs = sl_window_outs(&p.w);
    p.ins = sl_window_ins(&p.w);
    p.each = p.taps < ROWS ? ROWS / p.taps : 1;
    p.each = least(p.each, p.results);
    p.blocks = parts_of(p.results, p.each);
    return p;
}

static sl_split split_transposed(const plan *p) {
    const int64_t items = dim(&p->x.type, 0) * p->groups * p->blocks;
    const size_t floats = (size_t)(p->each * p->taps * TILE);
    return (sl_split){items, grain_of(p->each * p->taps * p->outs * p->sources / 16),
                      p->x.type.dtype == SL_DTYPE_f32 ? floats * sizeof(float) : 0};
}

/* col2im: adds the n contributions of tap k for windows [o, o + n) to a channel. */
static void spread(const sl_window *w, const float *from, int64_t o, int64_t n, int64_t k,
                   float *to) {
    const int64_t kx = k % w->kernel[2], ky = k / w->kernel[2] % w->kernel[1];
    const int64_t kz = k / w->kernel[2] / w->kernel[1];
    while (n > 0) {
        const int64_t ox = o % w->out[2], run = least(n, w->out[2] - ox);
        const int64_t y = sl_window_at(w, 1, o / w->out[2] % w->out[1], ky);
        const int64_t z = sl_window_at(w, 0, o / w->out[2] / w->out[1], kz);
        const int64_t at = sl_window_at(w, 2, ox, kx), stride = w->stride[2];
        if (y >= 0 && y < w->in[1] && z >= 0 && z < w->in[0]) {
            float *row = to + (z * w->in[1] + y) * w->in[2];
            const int64_t first = at < 0 ? parts_of(-at, stride) : 0;
            const int64_t last = at >= w->in[2] ? 0 : parts_of(w->in[2] - at, stride);
            for (int64_t i = first; i < least(last, run); i++) row[at + i * stride] += from[i];
        }
        o += run, n -= run, from += run;
    }
}

/* One tile of the products for `rows` taps, summed over the input channels. */
static void multiply(const plan *p, const float *x, const float *weight, int64_t rows, int64_t tile,
                     float *products) {
    const int64_t width = least(TILE, p->outs - tile), step = p->results * p->taps;
    memset(products, 0, (size_t)(rows * width) * sizeof *products);
    for (int64_t c = 0; c < p->sources; c += BLOCK_INNER)
        gemm_run(&(const gemm){.a = weight + c * step,
                               .a_row = 1,
                               .a_col = step,
                               .b = x + c * p->outs + tile,
                               .b_row = p->outs,
                               .c = products,
                               .c_row = width,
                               .rows = rows,
                               .cols = width,
                               .inner = least(BLOCK_INNER, p->sources - c),
                               .add = true,
                               .apart = true});
}

static void transposed_f32(const plan *p, int64_t item, float *scratch) {
    const int64_t first = item % p->blocks * p->each, group = item / p->blocks % p->groups;
    const int64_t n = item / p->blocks / p->groups, count = least(p->each, p->results - first);
    const int64_t channel = group * p->results + first, rows = count * p->taps;
    const float *x = (const float *)p->x.data + (n * p->groups + group) * p->sources * p->outs;
    const float *weight =
        (const float *)p->weight.data + (group * p->sources * p->results + first) * p->taps;
    float *out = (float *)p->out.data + (n * p->groups * p->results + channel) * p->ins;
    for (int64_t i = 0; i < count * p->ins; i++)
        out[i] = p->bias ? ((const float *)p->bias->data)[channel + i / p->ins] : 0;
    for (int64_t tile = 0; tile < p->outs; tile += TILE) {
        const int64_t width = least(TILE, p->outs - tile);
        multiply(p, x, weight, rows, tile, scratch);
        for (int64_t r = 0; r < rows; r++)
            spread(&p->w, scratch + r * width, tile, width, r % p->taps,
                   out + r / p->taps * p->ins);
    }
}

/* One output element, of any type. */
static void transposed_at(const plan *p, int64_t n, int64_t m, int64_t place) {
    const sl_dtype dtype = p->x.type.dtype;
    const int64_t group = m / p->results;
    double sum = p->bias && is_real(dtype) ? real_at(dtype, p->bias->data, m) : 0;
    uint64_t whole = p->bias && !is_real(dtype) ? (uint64_t)whole_at(dtype, p->bias->data, m) : 0;
    for (int64_t k = 0; k < p->taps; k++) {
        const int64_t o = sl_window_with(&p->w, place, k);
        for (int64_t c = group * p->sources; o >= 0 && c < (group + 1) * p->sources; c++) {
            const int64_t from = (n * p->groups * p->sources + c) * p->outs + o;
            const int64_t weight = (c * p->results + m % p->results) * p->taps + k;
            if (is_real(dtype))
                sum += real_at(dtype, p->x.data, from) * real_at(dtype, p->weight.data, weight);
            else
                whole += (uint64_t)whole_at(dtype, p->x.data, from) *
                         (uint64_t)whole_at(dtype, p->weight.data, weight);
        }
    }
    const int64_t to = (n * p->groups * p->results + m) * p->ins + place;
    if (is_real(dtype))
        put_real(dtype, p->out.data, to, sum);
    else
        put_whole(dtype, p->out.data, to, (int64_t)whole);
}

static void run_transposed(const plan *p, int64_t begin, int64_t end, float *scratch) {
    for (int64_t item = begin; item < end; item++) {
        if (p->x.type.dtype == SL_DTYPE_f32) {
            transposed_f32(p, item, scratch);
            continue;
        }
        const int64_t first = item % p->blocks * p->each, group = item / p->blocks % p->groups;
        for (int64_t i = 0; i < least(p->each, p->results - first) * p->ins; i++)
            transposed_at(p, item / p->blocks / p->groups, group * p->results + first + i / p->ins,
                          i % p->ins);
    }
}

SPLIT(conv_transpose) {
    const sl_conv_transpose_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    const plan p = plan_of(&a->x, &a->w, &a->out, &lists, a->attrs.groups);
    return split_transposed(&p);
}
RUN(conv_transpose) {
    const sl_conv_transpose_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    plan p = plan_of(&a->x, &a->w, &a->out, &lists, a->attrs.groups);
    if (SL_LIST_COUNT(a->bias)) p.bias = &a->bias.items[0];
    run_transposed(&p, begin, end, worker->scratch);
    return SL_OK;
}

SPLIT(conv_backward_input) {
    const sl_conv_backward_input_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    const plan p = plan_of(&a->dy, &a->w, &a->dx, &lists, a->attrs.groups);
    return split_transposed(&p);
}
RUN(conv_backward_input) {
    const sl_conv_backward_input_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    const plan p = plan_of(&a->dy, &a->w, &a->dx, &lists, a->attrs.groups);
    run_transposed(&p, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- gradient of the weights: an item is a few channels of x in one group, and up to FILTERS
 * filters ----
 *
 * dw = dy times im2col(x), summed over all windows of all samples. */

enum { WINDOWS = 256, COLUMNS = 64, FILTERS = 64 };

typedef struct {
    sl_window w;
    int64_t groups, channels, filters; /* per group */
    int64_t taps, outs, ins;
    int64_t each, blocks, filter_blocks; /* channels per item; items by channels, filters */
} weight_plan;

static weight_plan weight_plan_of(const sl_conv_backward_weight_args *a) {
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    weight_plan p = {.w = sl_window_of(&lists, a->dw.type.shape.dims + 2, &a->x.type, &a->dy.type)};
    p.groups = a->attrs.groups ? a->attrs.groups : 1;
    p.channels = dim(&a->x.type, 1) / p.groups;
    p.filters = dim(&a->dy.type, 1) / p.groups;
    p.taps = sl_window_taps(&p.w);
    p.outs = sl_window_outs(&p.w);
    p.ins = sl_window_ins(&p.w);
    p.each = least(p.channels, p.taps < COLUMNS ? COLUMNS / p.taps : 1);
    p.blocks = parts_of(p.channels, p.each);
    p.filter_blocks = parts_of(p.filters, FILTERS);
    return p;
}

SPLIT(conv_backward_weight) {
    const sl_conv_backward_weight_args *a = args;
    const weight_plan p = weight_plan_of(a);
    const int64_t cols = p.each * p.taps;
    const int64_t operations = dim(&a->x.type, 0) * p.outs * cols * least(FILTERS, p.filters) / 8;
    return (sl_split){p.groups * p.blocks * p.filter_blocks, grain_of(operations),
                      (size_t)(WINDOWS * cols + WINDOWS) * sizeof(float)};
}

/* im2col of windows [o, o + count) for `channels` channels from x on, one row per tap. */
static void see_rows(const weight_plan *p, const float *x, int64_t channels, int64_t o,
                     int64_t count, float *rows) {
    const int64_t cols = channels * p->taps;
    float *line = rows + WINDOWS * p->each * p->taps;
    for (int64_t c = 0; c < cols; c++) {
        see(&p->w, x + c / p->taps * p->ins, o, count, c % p->taps, line);
        for (int64_t i = 0; i < count; i++) rows[i * cols + c] = line[i];
    }
}

static void weight_f32(const sl_conv_backward_weight_args *a, const weight_plan *p, int64_t item,
                       float *scratch) {
    const int64_t filter = item % p->filter_blocks * FILTERS;
    const int64_t first = item / p->filter_blocks % p->blocks * p->each;
    const int64_t group = item / p->filter_blocks / p->blocks;
    const int64_t channels = least(p->each, p->channels - first), cols = channels * p->taps;
    const int64_t filters = least(FILTERS, p->filters - filter);
    const int64_t m = group * p->filters + filter;
    float *out = (float *)a->dw.data + (m * p->channels + first) * p->taps;
    for (int64_t f = 0; f < filters; f++)
        memset(out + f * p->channels * p->taps, 0, (size_t)cols * sizeof *out);
    for (int64_t n = 0; n < dim(&a->x.type, 0); n++) {
        const float *x =
            (const float *)a->x.data + ((n * p->groups + group) * p->channels + first) * p->ins;
        const float *dy = (const float *)a->dy.data + (n * p->groups * p->filters + m) * p->outs;
        for (int64_t o = 0; o < p->outs; o += WINDOWS) {
            const int64_t count = least(WINDOWS, p->outs - o);
            see_rows(p, x, channels, o, count, scratch);
            gemm_run(&(const gemm){.a = dy + o,
                                   .a_row = p->outs,
                                   .a_col = 1,
                                   .b = scratch,
                                   .b_row = cols,
                                   .c = out,
                                   .c_row = p->channels * p->taps,
                                   .rows = filters,
                                   .cols = cols,
                                   .inner = count,
                                   .add = true,
                                   .apart = true});
        }
    }
}

static void weight_at(const sl_conv_backward_weight_args *a, const weight_plan *p, int64_t at) {
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t k = at % p->taps, m = at / p->taps / p->channels;
    const int64_t c = m / p->filters * p->channels + at / p->taps % p->channels;
    double sum = 0;
    for (int64_t no = 0; no < dim(&a->x.type, 0) * p->outs; no++) {
        const int64_t n = no / p->outs, place = sl_window_place(&p->w, no % p->outs, k);
        if (place < 0) continue;
        sum +=
            real_at(dtype, a->x.data, (n * p->groups * p->channels + c) * p->ins + place) *
            real_at(dtype, a->dy.data, (n * p->groups * p->filters + m) * p->outs + no % p->outs);
    }
    put_real(dtype, a->dw.data, at, sum);
}

RUN(conv_backward_weight) {
    const sl_conv_backward_weight_args *a = args;
    const weight_plan p = weight_plan_of(a);
    for (int64_t item = begin; item < end; item++) {
        if (a->x.type.dtype == SL_DTYPE_f32) {
            weight_f32(a, &p, item, worker->scratch);
            continue;
        }
        const int64_t filter = item % p.filter_blocks * FILTERS;
        const int64_t first = item / p.filter_blocks % p.blocks * p.each;
        const int64_t m = item / p.filter_blocks / p.blocks * p.filters + filter;
        for (int64_t f = 0; f < least(FILTERS, p.filters - filter); f++)
            for (int64_t i = 0; i < least(p.each, p.channels - first) * p.taps; i++)
                weight_at(a, &p, ((m + f) * p.channels + first) * p.taps + i);
    }
    return SL_OK;
}
