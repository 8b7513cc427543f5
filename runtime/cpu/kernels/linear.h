/* linear.h - Products of activation rows with a weight matrix, shared by several kernels.
 *
 * A (token, output) pair gives the same bits for any number of tokens and any division of the
 * outputs among threads. */
#ifndef SL_RUNTIME_CPU_LINEAR_H
#define SL_RUNTIME_CPU_LINEAR_H
#include "core/codec.h"
#include "runtime/cpu/kernel.h"

/* Rows of int8 activations (a8, core/codec.h).  The codes of a row are padded to whole groups;
 * scales, sums and halves have one entry per group. */
typedef struct {
    const int8_t *codes;
    const float *scales, *sums, *halves;
    int64_t groups;
} sl_rows8;

typedef struct {
    const float *x; /* [tokens, cols], rows x_stride apart; NULL: the activations are in x8 */
    int64_t x_stride, tokens;
    sl_rows8 x8;
    sl_dtype dtype;
    const void *weights; /* [rows, cols] */
    int64_t rows, cols;
    float *out; /* [tokens, rows], rows out_stride apart; column 0 is output `first` */
    int64_t out_stride, first;
} sl_linear_job;

/* Outputs are computed in parts: DENSE_ROWS rows, one panel, or two panels if the activations are
 * a8.  PANEL_PAD floats separate the copied rows of x. */
enum { DENSE_ROWS = 4, PANEL_PAD = 16, PAIR_ROWS = 2 * SL_PANEL_ROWS };

/* Scratch bytes that suffice for any weight type. */
size_t SL_KERNEL(sl_linear_scratch)(sl_dtype x, int64_t tokens, int64_t cols);
/* Computes parts [begin, end) of the output. */
typedef void sl_linear_fn(const sl_linear_job *job, int64_t begin, int64_t end, void *scratch);
sl_linear_fn SL_KERNEL(sl_linear_part_dense);
#define PANEL(NAME, ...) sl_linear_fn SL_KERNEL(sl_linear_part_##NAME);
#include "core/panels.def"
sl_linear_fn SL_KERNEL(sl_linear_part_i8); /* any panel type, a8 activations */
/* The kernel for an activation type (f32 or a8) and a weight type; run is NULL if there is none. */
typedef struct {
    sl_linear_fn *run;
    int64_t rows; /* outputs per part */
} sl_linear_product;
sl_linear_product SL_KERNEL(sl_linear_product_of)(sl_dtype x, sl_dtype w);

static inline sl_rows8 sl_rows8_of(const sl_cview *x) {
    const sl_rows_layout l = sl_rows_layout_of(&x->type);
    const char *base = x->data;
    return (sl_rows8){(const int8_t *)base, (const float *)(const void *)(base + l.scales),
                      (const float *)(const void *)(base + l.sums),
                      (const float *)(const void *)(base + l.halves), l.groups};
}
/* x from row `row` on. */
static inline sl_rows8 sl_rows8_from(const sl_rows8 *x, int64_t row) {
    const int64_t groups = row * x->groups;
    return (sl_rows8){x->codes + groups * SL_GROUP_COLS, x->scales + groups, x->sums + groups,
                      x->halves + groups, x->groups};
}
/* The job out = x w^T, out f32[tokens, rows]. */
static inline sl_linear_job sl_linear_job_of(const sl_cview *x, const sl_cview *w,
                                             const sl_view *out) {
    const int64_t rows = w->type.shape.dims[0], cols = x->type.shape.dims[1];
    const bool coded = x->type.dtype == SL_DTYPE_a8;
    return (sl_linear_job){.x = coded ? NULL : x->data,
                           .x8 = coded ? sl_rows8_of(x) : (sl_rows8){0},
                           .x_stride = cols,
                           .tokens = x->type.shape.dims[0],
                           .dtype = w->type.dtype,
                           .weights = w->data,
                           .rows = rows,
                           .cols = cols,
                           .out = out->data,
                           .out_stride = rows};
}
/* Computes the whole output.  Returns false if no kernel supports the weight type. */
bool SL_KERNEL(sl_linear_whole)(const sl_linear_job *job, void *scratch);
#endif
