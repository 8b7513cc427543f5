/* linear.h - Rows of activations against a weight matrix, for the kernels that need it.
 *
 * The arithmetic of one (token, output) pair is the same however many tokens there are and however
 * the outputs are divided. */
#ifndef SL_RUNTIME_CPU_LINEAR_H
#define SL_RUNTIME_CPU_LINEAR_H
#include "core/codec.h"
#include "runtime/cpu/kernel.h"

typedef struct {
    const float *x; /* tokens rows, cols wide, x_stride apart */
    int64_t x_stride, tokens;
    sl_dtype dtype;
    const void *weights; /* [rows, cols] */
    int64_t rows, cols;
    float *out; /* tokens rows, `rows` wide, out_stride apart */
    int64_t out_stride;
} sl_linear_job;

/* Outputs are computed in parts: of DENSE_ROWS rows, or of a panel.  PANEL_PAD floats lie between
 * prepared rows of x. */
enum { DENSE_ROWS = 4, PANEL_PAD = 16 };

/* Scratch for any weight type. */
size_t SL_KERNEL(sl_linear_scratch)(int64_t tokens, int64_t cols);
/* Parts [begin, end) of the output. */
typedef void sl_linear_fn(const sl_linear_job *job, int64_t begin, int64_t end, void *scratch);
sl_linear_fn SL_KERNEL(sl_linear_part_dense);
sl_linear_fn SL_KERNEL(sl_linear_part_q4);
sl_linear_fn SL_KERNEL(sl_linear_part_q8);
/* The whole output.  False when no kernel has that weight type. */
bool SL_KERNEL(sl_linear_whole)(const sl_linear_job *job, void *scratch);
#endif
