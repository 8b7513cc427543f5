/* convolution.c - Convolutions by im2col and matrix products, a tile of windows at a time;
 * depthwise convolutions are computed directly.
 *
 * An item is a tile of TILE windows and up to FILTERS filters of one group of one n. */
#include "core/elementwise_math.h"
#include "core/ops.h"
#include "core/window.h"
#include "runtime/cpu/kernels/convolution_depthwise.h"
#include "runtime/cpu/kernels/convolution_im2col.h"
#include "runtime/cpu/kernels/convolution_product.h"
#include "runtime/cpu/kernels/element.h"

enum { TILE = 128, FILTERS = 128, RELU = 1 };

typedef struct {
    sl_window w;
    int64_t groups, channels, filters; /* channels and filters are per group */
    int64_t taps, outs, ins, inner;    /* inner: channels * taps */
    int64_t tiles, blocks;             /* number of tiles of windows, and of blocks of filters */
    bool plain;                        /* 1x1 convolution: one tap, stride 1, no padding */
    bool alone;                        /* one channel per group (depthwise) */
    const float *bias;
    uint32_t act; /* of every finished sum */
} plan;

static plan plan_of(const sl_conv_args *a, uint32_t act) {
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    plan p = {.act = act,
              .w = sl_window_of(&lists, a->w.type.shape.dims + 2, &a->x.type, &a->out.type)};
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

/* ---- lines ---- */

/* The layout of an input row ("line") in scratch: padded, and split by phase of the stride, so that
 * the inputs of one tap for neighbouring windows are adjacent.  Phase f holds elements f, f +
 * stride, ... in `slot` floats. */
typedef struct {
    int64_t phases, slot; /* slot: output columns plus the reach of the taps */
} lanes;

static lanes lanes_of(const sl_window *w, int64_t columns) {
    const int64_t reach = (w->kernel[2] - 1) * w->dilation[2] / w->stride[2];
    const int64_t used = (w->kernel[2] - 1) * w->dilation[2] + 1;
    return (lanes){least(w->stride[2], used), columns + reach + 1};
}

/* Lays out one input row for the windows from column `from` on. */
static void lay_out(const sl_window *w, const lanes *l, const float *row, int64_t from, float *to) {
    for (int64_t f = 0; f < l->phases; f++)
        see_line(row, w->in[2], from * w->stride[2] + f - w->before[2], w->stride[2], l->slot,
                 to + f * l->slot);
}
/* Offset in a line of the input under tap k of the first window. */
static int64_t tap_offset(const sl_window *w, const lanes *l, int64_t k) {
    const int64_t at = k * w->dilation[2];
    if (w->stride[2] == 1) return at;
    return at % w->stride[2] * l->slot + at / w->stride[2];
}

/* ---- several channels per group: im2col and matrix product ---- */

enum { PANELS = (TILE + PANEL - 1) / PANEL };

/* The output rows and columns that a tile of windows covers (one or two axes): `rows` rows from
 * `row`, columns from `column`.  Their inputs in one channel are `lines` lines, the first from
 * input row `top`. */
typedef struct {
    int64_t row, column, rows, columns, top, lines;
    lanes l;
} strip;

static strip strip_of(const sl_window *w, int64_t tile, int64_t width) {
    strip s = {.row = tile / w->out[2], .column = tile % w->out[2]};
    s.rows = (tile + width - 1) / w->out[2] - s.row + 1;
    s.columns = s.rows > 1 ? w->out[2] : width;
    if (s.rows > 1) s.column = 0;
    s.top = s.row * w->stride[1] - w->before[1];
    s.lines = (s.rows - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
    s.l = lanes_of(w, s.columns);
    return s;
}
/* Whether im2col goes through lines; not if most of what would be laid out is never used. */
static bool has_lines(const plan *p) {
    const sl_window *w = &p->w;
    return w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1 && w->stride[1] <= 2 &&
           (w->out[2] <= TILE || w->out[1] == 1);
}
static int64_t most_lines(const sl_window *w) {
    const int64_t rows = least(TILE / w->out[2] + 2, w->out[1]);
    return (rows - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
}

static size_t panel_floats(const plan *p) {
    return (size_t)(least(p->inner, BLOCK_TAPS) * PANELS * PANEL);
}
static size_t scratch_floats(const plan *p) {
    const lanes l = lanes_of(&p->w, least(TILE, p->w.out[2]));
    const size_t lines = (size_t)(most_lines(&p->w) * l.phases * l.slot);
    return panel_floats(p) + (p->plain || !has_lines(p) ? 0 : lines + PANEL);
}

static void store_line(const float *line, int64_t width, int64_t i, int64_t depth, float *panels) {
    for (int64_t at = 0; at < width; at += PANEL)
        for (int64_t v = 0; v < PANEL; v += LANES)
            vstore(panels + at * depth + i * PANEL + v, vload(line + at + v));
}

/* Rows [k, k + depth) of the im2col matrix for windows [tile, tile + width). */
typedef struct {
    int64_t tile, width, k, depth;
} part;

/* 1x1 convolution: the im2col matrix is the input itself, copied into panels. */
static void gather_places(const plan *p, const float *x, const part *t, float *panels) {
    for (int64_t i = 0; i < t->depth; i++) {
        const float *from = x + (t->k + i) * p->ins + t->tile;
        for (int64_t at = 0; at < t->width; at += LANES)
            vstore(panels + at / PANEL * PANEL * t->depth + i * PANEL + at % PANEL,
                   vload_n(from + at, least(LANES, t->width - at)));
    }
}

static void gather(const plan *p, const float *x, const part *t, float *panels) {
    float line[PANELS * PANEL] = {0};
    for (int64_t i = 0; i < t->depth; i++) {
        const int64_t k = t->k + i;
        see(&p->w, x + k / p->taps * p->ins, t->tile, t->width, k % p->taps, line);
        store_line(line, t->width, i, t->depth, panels);
    }
}

/* Copies the inputs of tap (ky, kx at `offset` of a line) for all windows of the strip.  Whole
 * vectors are stored: the excess of a row is overwritten by the next one. */
INLINE void copy_strip(const sl_window *w, const strip *s, const float *lines, int64_t ky,
                       int64_t offset, float *to) {
    const int64_t step = w->stride[1] * s->l.phases * s->l.slot;
    const float *from = lines + ky * w->dilation[1] * s->l.phases * s->l.slot + offset;
    for (int64_t r = 0; r < s->rows; r++, from += step, to += s->columns)
        for (int64_t i = 0; i < s->columns; i += LANES) vstore(to + i, vload(from + i));
}

static void lay_strip(const sl_window *w, const strip *s, const float *x, float *lines) {
    const int64_t floats = s->l.phases * s->l.slot;
    for (int64_t i = 0; i < s->lines; i++) {
        const int64_t y = s->top + i;
        if (y < 0 || y >= w->in[1])
            memset(lines + i * floats, 0, (size_t)floats * sizeof *lines);
        else
            lay_out(w, &s->l, x + y * w->in[2], s->column, lines + i * floats);
    }
}

/* Where each panel starts in the lines if every panel lies within one output row; a tap is then
 * copied from the lines directly. */
typedef struct {
    bool straight;
    int64_t starts[PANELS]; /* per panel, relative to the tap in the first line */
} panel_starts;

static panel_starts panel_starts_of(const sl_window *w, const strip *s, int64_t skip) {
    panel_starts p = {s->rows == 1 || s->columns % PANEL == 0, {0}};
    for (int64_t i = 0; i < PANELS; i++) {
        const int64_t at = i * PANEL + skip, row = s->rows == 1 ? 0 : at / s->columns;
        p.starts[i] = row * w->stride[1] * s->l.phases * s->l.slot + at - row * s->columns;
    }
    return p;
}
INLINE void copy_panels(const panel_starts *p, const float *from, int64_t i, const part *t,
                        float *panels) {
    for (int64_t at = 0; at < t->width; at += PANEL)
        for (int64_t v = 0; v < PANEL; v += LANES)
            vstore(panels + at * t->depth + i * PANEL + v, vload(from + p->starts[at / PANEL] + v));
}

/* Like gather, but reads the input through lines. */
static void gather_lines(const plan *p, const float *x, const part *t, float *panels) {
    const strip s = strip_of(&p->w, t->tile, t->width);
    const int64_t skip = t->tile - (s.row * p->w.out[2] + s.column), floats = s.l.phases * s.l.slot;
    const panel_starts starts = panel_starts_of(&p->w, &s, skip);
    float *lines = panels + panel_floats(p), seen[3 * TILE + LANES] = {0};
    int64_t c = t->k / p->taps, kx = t->k % p->w.kernel[2];
    int64_t ky = t->k % p->taps / p->w.kernel[2];
    for (int64_t i = 0; i < t->depth; i++) {
        const int64_t offset = tap_offset(&p->w, &s.l, kx);
        if (i == 0 || (kx == 0 && ky == 0)) lay_strip(&p->w, &s, x + c * p->ins, lines);
        if (starts.straight) {
            copy_panels(&starts, lines + ky * p->w.dilation[1] * floats + offset, i, t, panels);
        } else {
            copy_strip(&p->w, &s, lines, ky, offset, seen);
            store_line(seen + skip, t->width, i, t->depth, panels);
        }
        if (++kx < p->w.kernel[2]) continue;
        kx = 0;
        if (++ky == p->w.kernel[1]) ky = 0, c++;
    }
}

/* Items [begin, end), all of the same tile, so that im2col runs once for all of them. */
static void run_tile(const sl_conv_args *a, const plan *p, int64_t begin, int64_t end,
                     float *panels) {
    const int64_t tile = begin / p->blocks % p->tiles * TILE;
    const int64_t group = begin / p->blocks / p->tiles % p->groups;
    const int64_t n = begin / p->blocks / p->tiles / p->groups;
    const int64_t first = group * p->filters + begin % p->blocks * FILTERS;
    const int64_t last = least(first + (end - begin) * FILTERS, (group + 1) * p->filters);
    const int64_t width = least(TILE, p->outs - tile);
    const float *x = (const float *)a->x.data + (n * p->groups + group) * p->channels * p->ins;
    float *out = (float *)a->out.data + (n * p->groups * p->filters + first) * p->outs + tile;
    for (int64_t k = 0; k < p->inner; k += BLOCK_TAPS) {
        const int64_t depth = least(BLOCK_TAPS, p->inner - k);
        const part t = {tile, width, k, depth};
        if (p->plain)
            gather_places(p, x, &t, panels);
        else if (has_lines(p))
            gather_lines(p, x, &t, panels);
        else
            gather(p, x, &t, panels);
        conv_multiply(&(const conv_product){.w = (const float *)a->w.data + first * p->inner + k,
                                            .w_row = p->inner,
                                            .seen = panels,
                                            .bias = p->bias ? p->bias + first : NULL,
                                            .out = out,
                                            .out_row = p->outs,
                                            .rows = last - first,
                                            .cols = width,
                                            .taps = depth,
                                            .first = k == 0,
                                            .relu = p->act == RELU && k + depth == p->inner});
    }
    for (int64_t r = 0; r < last - first && p->act != RELU; r++)
        activate_f32(out + r * p->outs, width, p->act);
}

/* ---- one channel per group (depthwise): an item is a plane of the output ---- */

/* One tap of an output row: its inputs and its weight. */
typedef struct {
    const float *from;
    float weight;
} tap;

static void sum_taps(const tap *taps, int64_t count, float bias, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 4 * (int64_t)LANES <= n; i += 4 * (int64_t)LANES) {
        vf sums[4] = {vsplat(bias), vsplat(bias), vsplat(bias), vsplat(bias)};
        for (int64_t t = 0; t < count; t++) {
            const vf weight = vsplat(taps[t].weight);
            for (int64_t j = 0; j < 4; j++)
                sums[j] = vfma(vload(taps[t].from + i + j * LANES), weight, sums[j]);
        }
        for (int64_t j = 0; j < 4; j++) vstore(out + i + j * LANES, sums[j]);
    }
    for (; i < n; i += LANES) {
        const int64_t left = least(LANES, n - i);
        vf sum = vsplat(bias);
        for (int64_t t = 0; t < count; t++)
            sum = vfma(vload_n(taps[t].from + i, left), vsplat(taps[t].weight), sum);
        vstore_n(out + i, sum, left);
    }
}

/* All lines of a channel, each of `floats` floats, and the offset of each horizontal tap in a
 * line. */
typedef struct {
    float *lines;
    int64_t floats, *offsets;
} laid;

/* Lists the taps of output row (oz, oy) that are inside the input, in order. */
static int64_t find_taps(const plan *p, const laid *plane, const float *weights, int64_t oz,
                         int64_t oy, tap *taps) {
    const sl_window *w = &p->w;
    int64_t count = 0;
    for (int64_t kz = 0; kz < w->kernel[0]; kz++)
        for (int64_t ky = 0; ky < w->kernel[1]; ky++, weights += w->kernel[2]) {
            const int64_t z = sl_window_at(w, 0, oz, kz), y = sl_window_at(w, 1, oy, ky);
            if (z < 0 || z >= w->in[0] || y < 0 || y >= w->in[1]) continue;
            const float *line = plane->lines + (z * w->in[1] + y) * plane->floats;
            for (int64_t k = 0; k < w->kernel[2]; k++)
                taps[count++] = (tap){line + plane->offsets[k], weights[k]};
        }
    return count;
}

static size_t plane_bytes(const plan *p) {
    const depthwise d = depthwise_of(&p->w);
    if (d.stride) return depthwise_floats(&d) * sizeof(float);
    const lanes l = lanes_of(&p->w, p->w.out[2]);
    return (size_t)p->taps * sizeof(tap) + (size_t)p->w.kernel[2] * sizeof(int64_t) +
           (size_t)(p->w.in[0] * p->w.in[1] * l.phases * l.slot) * sizeof(float);
}

static laid lay_plane(const plan *p, const float *x, tap *taps) {
    const sl_window *w = &p->w;
    const lanes l = lanes_of(w, w->out[2]);
    laid plane = {.floats = l.phases * l.slot, .offsets = (int64_t *)(void *)(taps + p->taps)};
    plane.lines = (float *)(void *)(plane.offsets + w->kernel[2]);
    for (int64_t k = 0; k < w->kernel[2]; k++) plane.offsets[k] = tap_offset(w, &l, k);
    for (int64_t row = 0; row < w->in[0] * w->in[1]; row++)
        lay_out(w, &l, x + row * w->in[2], 0, plane.lines + row * plane.floats);
    return plane;
}

static void run_plane(const sl_conv_args *a, const plan *p, const depthwise *d, int64_t item,
                      void *scratch) {
    const sl_window *w = &p->w;
    const int64_t filters = p->groups * p->filters, m = item % filters;
    const float *x =
        (const float *)a->x.data + (item / filters * p->groups + m / p->filters) * p->ins;
    const float *weights = (const float *)a->w.data + m * p->taps;
    float *out = (float *)a->out.data + item * p->outs;
    const float bias = p->bias ? p->bias[m] : 0;
    if (d->stride) {
        depthwise_plane(d, w, &(const depthwise_filter){x, weights, bias, p->act}, out, scratch);
        return;
    }
    tap *taps = scratch;
    const laid plane = lay_plane(p, x, taps);
    for (int64_t oz = 0; oz < w->out[0]; oz++)
        for (int64_t oy = 0; oy < w->out[1]; oy++, out += w->out[2]) {
            const int64_t count = find_taps(p, &plane, weights, oz, oy, taps);
            sum_taps(taps, count, bias, w->out[2], out);
            activate_f32(out, w->out[2], p->act);
        }
}

/* ---- other types: an item is one output row of one filter ---- */

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
            put_real(dtype, a->out.data, i, sl_activate(sum, p->act));
        else
            put_whole(dtype, a->out.data, i, (int64_t)whole);
    }
}

static sl_split split_of(const sl_conv_args *a) {
    const plan p = plan_of(a, 0);
    const int64_t n = dim(&a->x.type, 0);
    if (a->x.type.dtype != SL_DTYPE_f32)
        return (sl_split){n * p.groups * p.filters * (p.outs / p.w.out[2]),
                          grain_of(p.inner * p.w.out[2] * 8), 0};
    if (p.alone)
        return (sl_split){n * p.groups * p.filters, grain_of(p.outs * p.taps / 8), plane_bytes(&p)};
    return (sl_split){n * p.groups * p.tiles * p.blocks,
                      grain_of(least(p.filters, FILTERS) * p.inner * TILE / 16),
                      scratch_floats(&p) * sizeof(float)};
}

static void run_items(const sl_conv_args *a, const plan *p, int64_t begin, int64_t end,
                      void *scratch) {
    const bool single = a->x.type.dtype == SL_DTYPE_f32, tiles = single && !p->alone;
    const depthwise d = single && p->alone ? depthwise_of(&p->w) : (depthwise){0};
    if (d.stride) depthwise_clear(&d, scratch);
    for (int64_t item = begin; item < end;) {
        const int64_t next = tiles ? least(end, (item / p->blocks + 1) * p->blocks) : item + 1;
        if (tiles)
            run_tile(a, p, item, next, scratch);
        else if (single)
            run_plane(a, p, &d, item, scratch);
        else
            run_any(a, p, item);
        item = next;
    }
}

SPLIT(conv) {
    return split_of(args);
}
RUN(conv) {
    const plan p = plan_of(args, 0);
    run_items(args, &p, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- fused_conv_bias_act: the same, and what is finished is activated ---- */

static sl_conv_args conv_of(const sl_fused_conv_bias_act_args *a) {
    return (sl_conv_args){
        .x = a->x, .w = a->w, .bias = a->bias, .out = a->out, .attrs = SL_CONV_ATTRS(&a->attrs)};
}

SPLIT(fused_conv_bias_act) {
    const sl_conv_args conv = conv_of(args);
    return split_of(&conv);
}
RUN(fused_conv_bias_act) {
    const sl_fused_conv_bias_act_args *a = args;
    const sl_conv_args conv = conv_of(a);
    const plan p = plan_of(&conv, a->attrs.act);
    run_items(&conv, &p, begin, end, worker->scratch);
    return SL_OK;
}
