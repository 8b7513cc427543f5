/* conv.c - Convolutions as products of the kernel with what windows see (im2col), a tile of windows
 * at a time; channels that are alone in their group go without.
 *
 * An item is a tile of TILE windows and up to FILTERS filters of one group of one n. */
#include "core/ops.h"
#include "core/window.h"
#include "runtime/cpu/kernels/blocked.h"
#include "runtime/cpu/kernels/element.h"
#include "runtime/cpu/kernels/seen.h"

enum { TILE = 128, FILTERS = 128 };

typedef struct {
    sl_window w;
    int64_t groups, channels, filters; /* of a group: channels, filters */
    int64_t taps, outs, ins, inner;    /* inner: channels * taps */
    int64_t tiles, blocks;             /* of windows, of filters */
    bool plain;                        /* windows are places: one tap, no stride, no padding */
    bool alone;                        /* one channel in a group */
    const float *bias;
} plan;

static plan plan_of(const sl_conv_args *a) {
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    plan p = {.w = sl_window_of(&lists, a->w.type.shape.dims + 2, &a->x.type, &a->out.type)};
    p.groups = a->attrs.groups ? a->attrs.groups : 1;
    p.channels = dim(&a->w.type, 1);
    p.filters = dim(&a->w.type, 0) / p.groups;
    p.taps = sl_window_taps(&p.w);
    p.outs = sl_window_outs(&p.w);
    p.ins = sl_window_ins(&p.w);
    p.inner = p.channels * p.taps;
    p.tiles = parts_of(p.outs, TILE);
    p.blocks = parts_of(p.filters, FILTERS);
    p.plain = p.taps == 1 && p.outs == p.ins;
    for (int i = 0; i < SL_MAX_SPATIAL; i++)
        p.plain = p.plain && p.w.stride[i] == 1 && p.w.before[i] == 0 && p.w.after[i] == 0;
    p.alone = p.channels == 1 && !p.plain;
    if (SL_LIST_COUNT(a->bias)) p.bias = a->bias.items[0].data;
    return p;
}

/* ---- many channels in a group ---- */

static size_t scratch_floats(const plan *p) {
    const int64_t depth = least(p->inner, BLOCK_INNER);
    return (size_t)((p->plain ? 0 : depth * TILE) + FILTERS * TILE);
}

/* Out = bias or 0, where blocks of sums are added. */
static void start(const plan *p, float *out, int64_t filter, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) out[r * p->outs + i] = p->bias ? p->bias[filter + r] : 0;
}

static void run_tile(const sl_conv_args *a, const plan *p, int64_t item, float *scratch) {
    const int64_t tile = item / p->blocks % p->tiles * TILE;
    const int64_t group = item / p->blocks / p->tiles % p->groups;
    const int64_t n = item / p->blocks / p->tiles / p->groups;
    const int64_t filter = group * p->filters + item % p->blocks * FILTERS;
    const int64_t rows = least(FILTERS, (group + 1) * p->filters - filter);
    const int64_t width = least(TILE, p->outs - tile);
    const float *x = (const float *)a->x.data + (n * p->groups + group) * p->channels * p->ins;
    float *out = (float *)a->out.data + (n * p->groups * p->filters + filter) * p->outs + tile;
    float *seen = scratch + FILTERS * TILE;
    start(p, out, filter, rows, width);
    for (int64_t k = 0; k < p->inner; k += BLOCK_INNER) {
        const int64_t depth = least(BLOCK_INNER, p->inner - k);
        for (int64_t i = 0; i < depth && !p->plain; i++)
            see(&p->w, x + (k + i) / p->taps * p->ins, tile, width, (k + i) % p->taps,
                seen + i * width);
        const gemm g = {
            .a = (const float *)a->w.data + filter * p->inner + k,
            .a_row = p->inner,
            .a_col = 1,
            .b = p->plain ? x + k * p->ins + tile : seen,
            .b_row = p->plain ? p->ins : width,
            .c = out,
            .c_row = p->outs,
            .rows = rows,
            .cols = width,
            .inner = depth,
            .add = true,
        };
        if (p->inner <= BLOCK_INNER)
            gemm_run(&g);
        else
            gemm_add_block(&g, scratch);
    }
}

/* ---- a channel alone in its group: an item is a plane of the result ---- */

/* Taps of one output row from rows of the input that are laid out so that neighbouring windows see
 * neighbours: of phase f, elements f, f + stride, ...; `slot` floats each. */
typedef struct {
    int64_t phases, slot; /* slot: windows of a row and what reaches beyond */
} lanes;

static lanes lanes_of(const sl_window *w) {
    const int64_t reach = (w->kernel[2] - 1) * w->dilation[2] / w->stride[2];
    const int64_t used = (w->kernel[2] - 1) * w->dilation[2] + 1;
    return (lanes){least(w->stride[2], used), w->out[2] + reach + 1};
}

static void lay_out(const sl_window *w, const lanes *l, const float *row, float *to) {
    for (int64_t f = 0; f < l->phases; f++)
        see_line(row, w->in[2], f - w->before[2], w->stride[2], l->slot, to + f * l->slot);
}

/* Adds what the kernel_x taps at `weights` see of one laid out row. */
INLINE void add_row(const sl_window *w, const lanes *l, const float *laid, const float *weights,
                    float *out) {
    FOR_VECTORS(i, n, w->out[2], {
        vf sum = vload_n(out + i, n);
        for (int64_t k = 0; k < w->kernel[2]; k++) {
            const int64_t offset = k * w->dilation[2];
            const float *from = laid + offset % w->stride[2] * l->slot + offset / w->stride[2];
            sum = vfma(vload_n(from + i, n), vsplat(weights[k]), sum);
        }
        vstore_n(out + i, sum, n);
    });
}

static void run_plane(const sl_conv_args *a, const plan *p, int64_t item, float *laid) {
    const sl_window *w = &p->w;
    const lanes l = lanes_of(w);
    const int64_t filters = p->groups * p->filters, m = item % filters;
    const float *x =
        (const float *)a->x.data + (item / filters * p->groups + m / p->filters) * p->ins;
    const float *weights = (const float *)a->w.data + m * p->taps;
    float *out = (float *)a->out.data + item * p->outs;
    for (int64_t i = 0; i < p->outs; i++) out[i] = p->bias ? p->bias[m] : 0;
    for (int64_t z = 0; z < w->in[0]; z++)
        for (int64_t y = 0; y < w->in[1]; y++) {
            lay_out(w, &l, x + (z * w->in[1] + y) * w->in[2], laid);
            for (int64_t zy = 0; zy < w->kernel[0] * w->kernel[1]; zy++) {
                const int64_t oz = z + w->before[0] - zy / w->kernel[1] * w->dilation[0];
                const int64_t oy = y + w->before[1] - zy % w->kernel[1] * w->dilation[1];
                if (oz < 0 || oy < 0 || oz % w->stride[0] || oy % w->stride[1]) continue;
                if (oz / w->stride[0] >= w->out[0] || oy / w->stride[1] >= w->out[1]) continue;
                add_row(w, &l, laid, weights + zy * w->kernel[2],
                        out + (oz / w->stride[0] * w->out[1] + oy / w->stride[1]) * w->out[2]);
            }
        }
}

/* ---- other types: an item is a row of windows of one filter ---- */

static void run_any(const sl_conv_args *a, const plan *p, int64_t item) {
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t row = p->w.out[2], filters = p->groups * p->filters;
    const void *bias = SL_LIST_COUNT(a->bias) ? a->bias.items[0].data : NULL;
    for (int64_t i = item * row; i < (item + 1) * row; i++) {
        const int64_t o = i % p->outs, m = i / p->outs % filters, n = i / p->outs / filters;
        double sum = bias && is_real(dtype) ? real_at(dtype, bias, m) : 0;
        uint64_t whole = bias && !is_real(dtype) ? (uint64_t)whole_at(dtype, bias, m) : 0;
        for (int64_t k = 0; k < p->inner; k++) {
            const int64_t place = sl_window_place(&p->w, o, k % p->taps);
            if (place < 0) continue;
            const int64_t c = (n * p->groups + m / p->filters) * p->channels + k / p->taps;
            const int64_t from = c * p->ins + place, weight = m * p->inner + k;
            if (is_real(dtype))
                sum += real_at(dtype, a->x.data, from) * real_at(dtype, a->w.data, weight);
            else
                whole += (uint64_t)whole_at(dtype, a->x.data, from) *
                         (uint64_t)whole_at(dtype, a->w.data, weight);
        }
        if (is_real(dtype))
            put_real(dtype, a->out.data, i, sum);
        else
            put_whole(dtype, a->out.data, i, (int64_t)whole);
    }
}

SPLIT(conv) {
    const sl_conv_args *a = args;
    const plan p = plan_of(a);
    const int64_t n = dim(&a->x.type, 0);
    if (a->x.type.dtype != SL_DTYPE_f32)
        return (sl_split){n * p.groups * p.filters * (p.outs / p.w.out[2]),
                          grain_of(p.inner * p.w.out[2] * 8), 0};
    if (p.alone) {
        const lanes l = lanes_of(&p.w);
        return (sl_split){n * p.groups * p.filters, grain_of(p.outs * p.taps / 8),
                          (size_t)(l.phases * l.slot) * sizeof(float)};
    }
    return (sl_split){n * p.groups * p.tiles * p.blocks,
                      grain_of(least(p.filters, FILTERS) * p.inner * TILE / 16),
                      scratch_floats(&p) * sizeof(float)};
}
RUN(conv) {
    const sl_conv_args *a = args;
    const plan p = plan_of(a);
    for (int64_t item = begin; item < end; item++)
        if (a->x.type.dtype != SL_DTYPE_f32)
            run_any(a, &p, item);
        else if (p.alone)
            run_plane(a, &p, item, worker->scratch);
        else
            run_tile(a, &p, item, worker->scratch);
    return SL_OK;
}
