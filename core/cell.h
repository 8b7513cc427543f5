/* cell.h - The cells of recurrent layers (core/rnn.h): from the sums of one unit to its
 * state. Shared by the evaluator and the kernels of every device. */
#ifndef SL_CORE_CELL_H
#define SL_CORE_CELL_H
#include "core/everywhere.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { SL_RNN_GATES = 1, SL_GRU_GATES = 3, SL_LSTM_GATES = 4 };

/* FUNCTION(name, alpha, beta, expression in x): alpha and beta are the defaults. */
#define SL_CELL_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(sigmoid, 0, 0, 1 / (1 + exp(-x)))                                                     \
    FUNCTION(tanh, 0, 0, tanh(x))                                                                  \
    FUNCTION(relu, 0, 0, x < 0 ? 0 : x)                                                            \
    FUNCTION(affine, 1, 0, alpha *x + beta)                                                        \
    FUNCTION(leaky_relu, 0.01, 0, x < 0 ? alpha * x : x)                                           \
    FUNCTION(thresholded_relu, 1, 0, x < alpha ? 0 : x)                                            \
    FUNCTION(scaled_tanh, 1, 1, alpha *tanh(beta *x))                                              \
    FUNCTION(hard_sigmoid, 0.2, 0.5, fmin(fmax(alpha *x + beta, 0.0), 1.0))                        \
    FUNCTION(elu, 1, 0, x < 0 ? alpha * expm1(x) : x)                                              \
    FUNCTION(softsign, 0, 0, x / (1 + fabs(x)))                                                    \
    FUNCTION(softplus, 0, 0, fmax(x, 0.0) + log1p(exp(-fabs(x))))

enum {
#define FUNCTION(NAME, ...) SL_CELL_##NAME,
    SL_CELL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* An activation function of a cell. */
typedef struct {
    int32_t function;
    double alpha, beta;
} sl_activation;

typedef struct {
    uint32_t gates;
    int64_t hidden;
    sl_activation f, g, h; /* for gates, for candidates, for the cell state */
    double clip;           /* 0: none */
    bool variant;
} sl_cell;

SL_EVERYWHERE double sl_cell_apply(const sl_activation *a, double x) {
    const double alpha = a->alpha, beta = a->beta;
    switch (a->function) {
#define FUNCTION(NAME, ALPHA, BETA, ...)                                                           \
    case SL_CELL_##NAME:                                                                           \
        return __VA_ARGS__;
        SL_CELL_FUNCTIONS(FUNCTION)
#undef FUNCTION
    default:
        return x;
    }
}
SL_EVERYWHERE double sl_cell_clipped(const sl_cell *cell, double x) {
    return cell->clip > 0 ? fmin(fmax(x, -cell->clip), cell->clip) : x;
}
/* The activation of a gate, and of the state of rnn. */
SL_EVERYWHERE double sl_cell_gate(const sl_cell *cell, double sum) {
    return sl_cell_apply(&cell->f, sl_cell_clipped(cell, sum));
}
SL_EVERYWHERE double sl_cell_candidate(const sl_cell *cell, double sum) {
    return sl_cell_apply(&cell->g, sl_cell_clipped(cell, sum));
}

/* The state after one time step, from the gate z and the sum of the candidate. */
SL_EVERYWHERE double sl_gru_unit(const sl_cell *cell, double z, double sum, double hidden) {
    return (1 - z) * sl_cell_candidate(cell, sum) + z * hidden;
}
/* The same for lstm, from the sums of i, o, f, c; peepholes of i, o, f, or NULL. */
SL_EVERYWHERE double sl_lstm_unit(const sl_cell *cell, const double *sums, const double *peepholes,
                                  double *content) {
    const double before = *content;
    double in = sums[0], out = sums[1], forget = sums[2];
    if (peepholes) in += peepholes[0] * before, forget += peepholes[2] * before;
    in = sl_cell_gate(cell, in);
    forget = cell->variant ? 1 - in : sl_cell_gate(cell, forget);
    *content = forget * before + in * sl_cell_candidate(cell, sums[3]);
    if (peepholes) out += peepholes[1] * *content;
    return sl_cell_gate(cell, out) * sl_cell_apply(&cell->h, *content);
}
#endif
