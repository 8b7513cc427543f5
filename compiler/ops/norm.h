/* norm.h - layer_norm of one row, for ops that contain it. */
#ifndef SL_COMPILER_OPS_NORM_H
#define SL_COMPILER_OPS_NORM_H
#include <stdint.h>

typedef struct {
    const double *gain, *shift; /* [width] */
    double eps;
    int64_t width;
} sl_row_norm;
void sl_normalise_row(const sl_row_norm *norm, const double *x, double *out);
#endif
