/* convolution_depthwise.h - Depthwise convolutions with common kernel sizes: 3x3, 5x5 or 7x7,
 * stride 1 or 2.
 *
 * Input rows are copied with their padding, so that the loops need no border cases, and split by
 * phase of the stride, so that neighbouring windows read adjacent floats.  Several output rows are
 * computed at a time and share each load of an input row. */
#ifndef SL_RUNTIME_CPU_CONVOLUTION_DEPTHWISE_H
#define SL_RUNTIME_CPU_CONVOLUTION_DEPTHWISE_H
#include "runtime/cpu/kernels/activate.h"
#include "runtime/cpu/kernels/convolution_im2col.h"

/* The input rows copied at a time should stay in the L1 cache. */
enum { DEPTHWISE_FLOATS = 4096, DEPTHWISE_ROWS = 4 };

typedef struct {
    int64_t stride, side;  /* stride of both axes; kernel size per axis */
    int64_t slot;          /* floats of one phase of a padded row */
    int64_t rows, columns; /* output rows computed at a time; output columns */
} depthwise;

static int64_t depthwise_lines(const depthwise *d, int64_t rows) {
    return (rows - 1) * d->stride + d->side;
}

/* The parameters for a window; stride 0 if it is not one of the supported kernels. */
static depthwise depthwise_of(const sl_window *w) {
    depthwise d = {.stride = w->stride[2], .side = w->kernel[2], .columns = w->out[2]};
    const bool flat = w->in[0] == 1 && w->out[0] == 1 && w->kernel[0] == 1;
    const bool square = w->kernel[1] == d.side && (d.side == 3 || d.side == 5 || d.side == 7);
    const bool close = w->dilation[1] == 1 && w->dilation[2] == 1 && w->before[2] >= 0;
    if (!flat || !square || !close || d.stride > 2 || w->stride[1] != d.stride)
        return (depthwise){0};
    d.slot = (parts_of(w->out[2], LANES) + parts_of(d.side - 1, LANES)) * LANES;
    d.rows = DEPTHWISE_FLOATS / (d.slot * d.stride) / d.stride / DEPTHWISE_ROWS * DEPTHWISE_ROWS;
    if (d.rows < DEPTHWISE_ROWS) d.rows = DEPTHWISE_ROWS;
    d.rows = least(d.rows, w->out[1]);
    return d;
}
static size_t depthwise_floats(const depthwise *d) {
    return (size_t)(depthwise_lines(d, d->rows) * d->stride * d->slot);
}

/* Zeroes all lines.  depthwise_lay never writes nonzero values to the padding, so one call serves
 * all planes of the same shape. */
static void depthwise_clear(const depthwise *d, float *lines) {
    memset(lines, 0, depthwise_floats(d) * sizeof *lines);
}

/* Splits a row into its even and odd phase: column j becomes element (j + before) / 2 of phase (j +
 * before) % 2. */
INLINE void depthwise_deal(const float *row, int64_t length, int64_t before, int64_t slot,
                           float *line) {
    float *even = line + before % 2 * slot + before / 2;
    float *odd = line + (before + 1) % 2 * slot + (before + 1) / 2;
    for (int64_t k = 0; k < length; k += 2 * LANES) {
        const int64_t n = least(2 * LANES, length - k), first = least(n, LANES);
        const vf a = vload_n(row + k, first), b = vload_n(row + k + first, n - first);
        vstore_n(even + k / 2, evens(a, b), (n + 1) / 2);
        vstore_n(odd + k / 2, odds(a, b), n / 2);
    }
}

/* Lays out the input rows that `rows` output rows from oy on need. */
static void depthwise_lay(const depthwise *d, const sl_window *w, const float *x, int64_t oy,
                          int64_t rows, float *line) {
    const int64_t floats = d->stride * d->slot, length = w->in[2];
    for (int64_t i = 0; i < depthwise_lines(d, rows); i++, line += floats) {
        const int64_t y = oy * d->stride - w->before[1] + i;
        const float *row = x + y * length;
        float *to = line + w->before[2];
        if (y < 0 || y >= w->in[1]) {
            if (d->rows < w->out[1]) memset(line, 0, (size_t)floats * sizeof *line);
        } else if (d->stride == 2) {
            depthwise_deal(row, length, w->before[2], d->slot, line);
        } else {
            FOR_VECTORS(k, count, length, vstore_n(to + k, vload_n(row + k, count), count););
        }
    }
}

/* The input, weights, bias and activation of one plane. */
typedef struct {
    const float *x, *weights;
    float bias;
    uint32_t act;
} depthwise_filter;

/* Computes `rows` output rows.  rows, side and stride are compile-time constants. */
INLINE void depthwise_rows(const depthwise *d, const float *lines, const depthwise_filter *f,
                           float *out, const int rows, const int side, const int stride) {
    vf factors[49];
    for (int k = 0; k < side * side; k++) factors[k] = vsplat(f->weights[k]);
    const vf bias = vsplat(f->bias);
    for (int64_t at = 0; at < d->columns; at += LANES) {
        vf sums[DEPTHWISE_ROWS];
        for (int r = 0; r < rows; r++) sums[r] = bias;
        UNROLL(16)
        for (int i = 0; i < (rows - 1) * stride + side; i++) {
            UNROLL(8)
            for (int k = 0; k < side; k++) {
                const float *line = lines + (i * stride + k % stride) * d->slot;
                const vf seen = vload(line + at + k / stride);
                UNROLL(4)
                for (int r = 0; r < rows; r++) {
                    const int tap = i - r * stride;
                    if (tap < 0 || tap >= side) continue;
                    sums[r] = vfma(seen, factors[tap * side + k], sums[r]);
                }
            }
        }
        const int64_t n = least(LANES, d->columns - at);
        for (int r = 0; r < rows; r++) vstore_n(out + r * d->columns + at, sums[r], n);
    }
}

#define DEPTHWISE(NAME, SIDE, STRIDE)                                                              \
    static void NAME(const depthwise *d, const float *lines, const depthwise_filter *f,            \
                     int64_t rows, float *out) {                                                   \
        const int64_t step = STRIDE * STRIDE * d->slot;                                            \
        int64_t r = 0;                                                                             \
        for (; r + DEPTHWISE_ROWS <= rows; r += DEPTHWISE_ROWS)                                    \
            depthwise_rows(d, lines + r * step, f, out + r * d->columns, DEPTHWISE_ROWS, SIDE,     \
                           STRIDE);                                                                \
        for (; r < rows; r++)                                                                      \
            depthwise_rows(d, lines + r * step, f, out + r * d->columns, 1, SIDE, STRIDE);         \
    }
DEPTHWISE(depthwise_3_1, 3, 1)
DEPTHWISE(depthwise_3_2, 3, 2)
DEPTHWISE(depthwise_5_1, 5, 1)
DEPTHWISE(depthwise_5_2, 5, 2)
DEPTHWISE(depthwise_7_1, 7, 1)
DEPTHWISE(depthwise_7_2, 7, 2)
#undef DEPTHWISE

static void depthwise_plane(const depthwise *d, const sl_window *w, const depthwise_filter *f,
                            float *out, float *scratch) {
    typedef void rows_fn(const depthwise *, const float *, const depthwise_filter *, int64_t,
                         float *);
    static rows_fn *const all[3][2] = {{depthwise_3_1, depthwise_3_2},
                                       {depthwise_5_1, depthwise_5_2},
                                       {depthwise_7_1, depthwise_7_2}};
    for (int64_t oy = 0; oy < w->out[1]; oy += d->rows) {
        const int64_t rows = least(d->rows, w->out[1] - oy);
        depthwise_lay(d, w, f->x, oy, rows, scratch);
        all[d->side / 2 - 1][d->stride - 1](d, scratch, f, rows, out + oy * d->columns);
        activate_f32(out + oy * d->columns, rows * d->columns, f->act);
    }
}
#endif
