/* tile.h - One group of a panel as floats, and arithmetic on its lanes that compilers vectorise. */
#ifndef SL_ENGINE_QUANT_TILE_H
#define SL_ENGINE_QUANT_TILE_H
#include "core/codec.h"
#include <math.h>

enum { LANES = SL_PANEL_ROWS, COLS = SL_GROUP_COLS, SUPER = SL_SUPER_GROUPS };

typedef float lanes[LANES];

/* One group of a panel: columns outermost, zero beyond the matrix. */
typedef struct {
    int cols; /* inside the matrix; only these count as error */
    lanes w[COLS];
    lanes low, high, sum, squares;
} tile;

/* Round half to even, for |x| < 2^22, in a form that vectorises everywhere. */
static inline float round_even(float x) {
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* max(x, 0) and a clamp for codes, without comparisons: where floating-point exceptions count,
 * which is the default, gcc keeps those out of vector code.  Exact to 2^-19 for codes. */
static inline float positive(float x) {
    return (x + fabsf(x)) * 0.5f;
}

static inline float clamp(float x, float low, float high) {
    return high - positive(high - low - positive(x - low));
}

/* 0 for scales so small that quotients might overflow. */
static inline float inverse(float x) {
    return x > 0x1p-80f ? 1.0f / x : 0.0f;
}

static inline void tile_load(tile *t, const float *matrix, const int64_t dims[2], int64_t row,
                             int64_t col) {
    *t = (tile){.cols = (int)(dims[1] - col < COLS ? dims[1] - col : COLS)};
    const int rows = (int)(dims[0] - row < LANES ? dims[0] - row : LANES);
    for (int l = 0; l < rows; l++) {
        const float *from = matrix + (row + l) * dims[1] + col;
        for (int c = 0; c < t->cols; c++) t->w[c][l] = from[c];
    }
    memcpy(t->low, t->w[0], sizeof t->low);
    memcpy(t->high, t->w[0], sizeof t->high);
    for (int c = 0; c < t->cols; c++) {
        for (int l = 0; l < LANES; l++) {
            const float w = t->w[c][l];
            t->low[l] = w < t->low[l] ? w : t->low[l];
            t->high[l] = w > t->high[l] ? w : t->high[l];
            t->sum[l] += w;
            t->squares[l] += w * w;
        }
    }
}
#endif
