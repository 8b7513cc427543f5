/* rows.h - int8 activations (a8, layout in core/codec.h): reading and quantising rows. */
#ifndef SL_RUNTIME_CPU_ROWS_H
#define SL_RUNTIME_CPU_ROWS_H
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/vint.h"
#include "runtime/cpu/kernels/vmath.h"

/* Output of quantised rows, laid out like sl_rows8. */
typedef struct {
    int8_t *codes;
    float *scales, *sums, *halves;
    int64_t groups;
} rows8_out;

static inline rows8_out rows8_at(void *data, const sl_rows_layout *l) {
    char *base = data;
    return (rows8_out){(int8_t *)base, (float *)(void *)(base + l->scales),
                       (float *)(void *)(base + l->sums), (float *)(void *)(base + l->halves),
                       l->groups};
}
static inline rows8_out rows8_made(const sl_view *view) {
    const sl_rows_layout l = sl_rows_layout_of(&view->type);
    return rows8_at(view->data, &l);
}
static inline sl_rows8 rows8_read(const rows8_out *rows) {
    return (sl_rows8){rows->codes, rows->scales, rows->sums, rows->halves, rows->groups};
}

/* inverse: factor that turns values into codes; scale: the stored scale.  Same as
 * sl_quantise_rows. */
typedef struct {
    float inverse, scale;
} rows8_scale;

INLINE rows8_scale rows8_scale_of(const float *x) {
    vf most = vzero(), wrong = vzero();
    for (int i = 0; i < SL_GROUP_COLS; i += LANES) {
        const vf v = vload(x + i);
        most = vmax((vf)((vu)v & 0x7fffffff), most);
        wrong += v * vzero(); /* zero, or NaN where v is not finite */
    }
    float largest = 0;
    for (int lane = 0; lane < LANES; lane++) largest = most[lane] > largest ? most[lane] : largest;
    const float total = vsum(wrong), inverse = SL_A8_TOP / largest;
    if (total != total) return (rows8_scale){0, NAN};
    if (!(inverse <= FLT_MAX)) return (rows8_scale){0, 0};
    return (rows8_scale){inverse, largest / SL_A8_TOP};
}

/* Quantises 32 values to group `at`, counted over all rows. */
INLINE void rows8_group(const float *x, const rows8_out *out, int64_t at) {
    const rows8_scale s = rows8_scale_of(x);
    int32_t codes[SL_GROUP_COLS];
    /* Unsigned, because codes of a group with NaN are arbitrary and their sum may overflow. */
    uint32_t sums[2] = {0, 0};
    for (int i = 0; i < SL_GROUP_COLS; i += LANES) {
        const vi v = vround_i32(vload(x + i) * vsplat(s.inverse));
        memcpy(codes + i, &v, sizeof v);
    }
    int8_t *to = out->codes + at * SL_GROUP_COLS;
    for (int i = 0; i < SL_GROUP_COLS; i++) to[i] = (int8_t)codes[i];
    for (int i = 0; i < SL_GROUP_COLS / 2; i++) {
        sums[0] += (uint32_t)codes[i];
        sums[1] += (uint32_t)codes[SL_GROUP_COLS / 2 + i];
    }
    out->scales[at] = s.scale;
    out->sums[at] = (float)(int32_t)(sums[0] + sums[1]);
    out->halves[at] = (float)(int32_t)sums[0];
}

/* Quantises groups [first, last) of a row of `cols` columns; x starts at the first of them. */
INLINE void rows8_groups(const float *x, int64_t cols, const rows8_out *out, int64_t row,
                         int64_t first, int64_t last) {
    for (int64_t g = first; g < last; g++) {
        const float *from = x + (g - first) * SL_GROUP_COLS;
        const int64_t left = cols - g * SL_GROUP_COLS;
        float padded[SL_GROUP_COLS] = {0};
        if (left < SL_GROUP_COLS) from = memcpy(padded, from, (size_t)left * sizeof *from);
        rows8_group(from, out, row * out->groups + g);
    }
}
INLINE void rows8_row(const float *x, int64_t cols, const rows8_out *out, int64_t row) {
    rows8_groups(x, cols, out, row, 0, out->groups);
}
#endif
