/* panel.h - The common part of products of f32 activations with panels: everything except decoding
 * the codes.
 *
 * A lane is a row of the weights.  The codes of a panel are decoded once for several tokens. */
#ifndef SL_RUNTIME_CPU_PANEL_H
#define SL_RUNTIME_CPU_PANEL_H
#include "runtime/cpu/kernels/panel_params.h"
#include "runtime/cpu/kernels/vmath.h"

/* The sum over a group uses CHAINS independent accumulators, enough to keep the FMA units busy for
 * a single token.  PANEL_TOKENS tokens share the decoded weights; more would not fit in
 * registers. */
enum { CHAINS = 4, PANEL_TOKENS = LANES == 16 ? 4 : 2 };

/* A copy of the rows of x: padded to whole groups, and with a stride that avoids cache set
 * conflicts between the rows. */
typedef struct {
    const float *x;
    int64_t stride, groups;
    const float *sums;   /* [tokens, groups]: sum of each group */
    const float *halves; /* [tokens, groups]: sum of its columns 0..15 */
} panel_rows;

/* Column c of x is multiplied by factors[c % FACTORS] in the copy; the sums are of x itself. */
enum { FACTORS = 8 };

static inline void copy_row(const float *x, int64_t cols, const float *factors, float *to) {
    for (int64_t c = 0; c < cols; c++) to[c] = x[c] * factors[c % FACTORS];
}

static inline panel_rows panel_rows_make(const sl_linear_job *job, const float *factors,
                                         float *scratch) {
    const int64_t groups = (job->cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS;
    const int64_t width = groups * SL_GROUP_COLS, stride = width + PANEL_PAD;
    float *sums = scratch, *halves = sums + job->tokens * groups;
    float *rows = halves + job->tokens * groups;
    for (int64_t t = 0; t < job->tokens; t++) {
        const float *x = job->x + t * job->x_stride;
        for (int64_t g = 0; g < groups; g++) {
            const int64_t left = job->cols - g * SL_GROUP_COLS;
            const int64_t half = SL_GROUP_COLS / 2;
            sums[t * groups + g] =
                vtotal(x + g * SL_GROUP_COLS, left < SL_GROUP_COLS ? left : SL_GROUP_COLS);
            halves[t * groups + g] = vtotal(x + g * SL_GROUP_COLS, left < half ? left : half);
        }
        copy_row(x, job->cols, factors, rows + t * stride);
        memset(rows + t * stride + job->cols, 0, (size_t)(width - job->cols) * sizeof *rows);
    }
    return (panel_rows){rows, stride, groups, sums, halves};
}

INLINE void zero_chains(vf (*dots)[CHAINS], const int tokens) {
    for (int t = 0; t < tokens; t++)
        for (int i = 0; i < CHAINS; i++) dots[t][i] = vzero();
}
INLINE vf add_chains(const vf dots[CHAINS]) {
    return (dots[0] + dots[1]) + (dots[2] + dots[3]);
}

/* Vector v of group g of a panel, for the first `tokens` rows; v and tokens are compile-time
 * constants. */
typedef struct {
    const panel *p;
    const panel_rows *rows;
    int64_t g;
    int v, tokens;
} panel_group;
/* Adds its products to y[token][v]. */
typedef void panel_group_fn(const panel_group *at, vf (*y)[PANEL_VECTORS]);

/* Stores a panel's outputs for one token, as far as the matrix has rows. */
INLINE void panel_store(const sl_linear_job *job, int64_t index, int64_t token, const vf *y) {
    float *to = job->out + token * job->out_stride + (index * SL_PANEL_ROWS - job->first);
    for (int64_t v = 0; v < PANEL_VECTORS; v++) {
        const int64_t left = job->rows - index * SL_PANEL_ROWS - v * LANES;
        if (left > 0) vstore_n(to + v * LANES, y[v], left < LANES ? left : LANES);
    }
}

/* One panel for tokens [token, token + tokens); tokens is a compile-time constant. */
INLINE void panel_tile(const sl_linear_job *job, const panel *p, const panel_rows *rows,
                       int64_t token, const int tokens, panel_group_fn *add_group) {
    const panel_rows from = {rows->x + token * rows->stride, rows->stride, rows->groups,
                             rows->sums + token * rows->groups,
                             rows->halves + token * rows->groups};
    vf y[PANEL_TOKENS][PANEL_VECTORS];
    for (int t = 0; t < tokens; t++)
        for (int v = 0; v < PANEL_VECTORS; v++) y[t][v] = vzero();
    for (int64_t g = 0; g < rows->groups; g++)
        for (int v = 0; v < PANEL_VECTORS; v++) {
            const panel_group at = {p, &from, g, v, tokens};
            add_group(&at, y);
            /* Keeps the compiler from holding columns of x in registers for the next vector; it
             * would spill. */
            if (PANEL_VECTORS > 1) __asm__ volatile("" ::: "memory");
        }
    for (int t = 0; t < tokens; t++) panel_store(job, p->index, token + t, y[t]);
}

/* Panels [begin, end) for all tokens. */
INLINE void panel_product(const sl_linear_job *job, int64_t begin, int64_t end, void *scratch,
                          const float *factors, panel_group_fn *add_group) {
    const sl_panel_layout layout = sl_panel_layout_of(job->dtype, job->rows, job->cols);
    const panel_rows rows = panel_rows_make(job, factors, scratch);
    for (int64_t index = begin; index < end; index++) {
        const panel p = panel_at(job, &layout, index);
        int64_t t = 0;
        for (; t + PANEL_TOKENS <= job->tokens; t += PANEL_TOKENS)
            panel_tile(job, &p, &rows, t, PANEL_TOKENS, add_group);
        for (; t < job->tokens; t++) panel_tile(job, &p, &rows, t, 1, add_group);
    }
}
#endif
