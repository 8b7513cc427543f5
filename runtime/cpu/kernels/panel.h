/* panel.h - What products with panel weights share: everything but the codes.
 *
 * A lane is a row of the weights.  A panel's codes are decoded once for several tokens. */
#ifndef SL_RUNTIME_CPU_PANEL_H
#define SL_RUNTIME_CPU_PANEL_H
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/vec.h"

/* A panel's 16 rows fill this many vectors. */
enum { PANEL_VECTORS = SL_PANEL_ROWS / LANES };

/* How many tokens share one decoding of the weights: what the registers hold. */
enum { PANEL_TOKENS = LANES == 16 ? 8 : 4 };

/* Rows of x whose width is a whole number of groups. */
typedef struct {
    const float *x;
    int64_t stride, groups;
    const float *sums; /* of each group: [tokens, groups] */
} panel_rows;

/* Copies rows only when their last group is short. */
static inline panel_rows panel_rows_make(const sl_linear_job *job, float *scratch) {
    const int64_t groups = (job->cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS;
    const int64_t width = groups * SL_GROUP_COLS;
    float *sums = scratch, *padded = scratch + job->tokens * groups;
    panel_rows rows = {job->x, job->x_stride, groups, sums};
    if (width != job->cols) {
        rows.x = padded;
        rows.stride = width;
        for (int64_t t = 0; t < job->tokens; t++) {
            float *to = padded + t * width;
            memcpy(to, job->x + t * job->x_stride, (size_t)job->cols * sizeof *to);
            memset(to + job->cols, 0, (size_t)(width - job->cols) * sizeof *to);
        }
    }
    for (int64_t i = 0; i < job->tokens * groups; i++) {
        const float *group = rows.x + i / groups * rows.stride + i % groups * SL_GROUP_COLS;
        sums[i] = vtotal(group, SL_GROUP_COLS);
    }
    return rows;
}

typedef struct {
    int64_t index;
    const float *headers; /* {d, m} per super-group; q4 only */
    const uint8_t *scales, *codes;
} panel;

static inline panel panel_at(const sl_linear_job *job, const sl_panel_layout *l, int64_t index) {
    const uint8_t *matrix = job->weights;
    const uint8_t *base = matrix + l->header_bytes + (uint64_t)index * l->panel_bytes;
    return (panel){index, (const float *)(const void *)matrix + index * l->supers * 2, base,
                   base + l->scale_bytes};
}

/* Adds group g, as far as vector v of the panel goes, to y[token][v] of the first `tokens` rows. */
typedef void panel_group_fn(const panel *p, const panel_rows *rows, int64_t g, const int v,
                            const int tokens, vf (*y)[PANEL_VECTORS]);

/* Stores what there is of a panel's outputs for one token. */
INLINE void panel_store(const sl_linear_job *job, int64_t index, int64_t token, const vf *y) {
    float *to = job->out + token * job->out_stride + index * SL_PANEL_ROWS;
    for (int64_t v = 0; v < PANEL_VECTORS; v++) {
        const int64_t left = job->rows - index * SL_PANEL_ROWS - v * LANES;
        if (left > 0) vstore_n(to + v * LANES, y[v], left < LANES ? left : LANES);
    }
}

/* One panel for the tokens [token, token + tokens); tokens is constant. */
INLINE void panel_tile(const sl_linear_job *job, const panel *p, const panel_rows *rows,
                       int64_t token, const int tokens, panel_group_fn *add_group) {
    const panel_rows from = {rows->x + token * rows->stride, rows->stride, rows->groups,
                             rows->sums + token * rows->groups};
    vf y[PANEL_TOKENS][PANEL_VECTORS];
    for (int t = 0; t < tokens; t++)
        for (int v = 0; v < PANEL_VECTORS; v++) y[t][v] = vzero();
    for (int64_t g = 0; g < rows->groups; g++)
        for (int v = 0; v < PANEL_VECTORS; v++) add_group(p, &from, g, v, tokens, y);
    for (int t = 0; t < tokens; t++) panel_store(job, p->index, token + t, y[t]);
}

/* Panels [begin, end) for all tokens. */
INLINE void panel_product(const sl_linear_job *job, int64_t begin, int64_t end, void *scratch,
                          panel_group_fn *add_group) {
    const sl_panel_layout layout = sl_panel_layout_of(job->dtype, job->rows, job->cols);
    const panel_rows rows = panel_rows_make(job, scratch);
    for (int64_t index = begin; index < end; index++) {
        const panel p = panel_at(job, &layout, index);
        int64_t t = 0;
        for (; t + PANEL_TOKENS <= job->tokens; t += PANEL_TOKENS)
            panel_tile(job, &p, &rows, t, PANEL_TOKENS, add_group);
        for (; t + 2 <= job->tokens; t += 2) panel_tile(job, &p, &rows, t, 2, add_group);
        for (; t < job->tokens; t++) panel_tile(job, &p, &rows, t, 1, add_group);
    }
}
#endif
