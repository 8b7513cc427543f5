/* rnn.h - Cells of recurrent layers, as ONNX defines them: from sums to states. */
#ifndef SL_CORE_RNN_H
#define SL_CORE_RNN_H
#include "core/attrs.h"
#include "core/cell.h"

/* Bits for the optional operands after x, w and r, in this order. */
enum {
    SL_EXTRA_BIAS = 1,
    SL_EXTRA_LENGTHS = 2,
    SL_EXTRA_HIDDEN = 4,
    SL_EXTRA_CELL = 8,
    SL_EXTRA_PEEPHOLES = 16
};

/* The attributes that all three ops begin with. */
typedef struct {
    uint32_t extras;
    const char *direction, *activations;
    sl_reals alphas, betas;
    float clip;
    uint32_t variant; /* linear_before_reset, input_forget */
} sl_recurrent_attrs;

/* The number of directions, 1 or 2; 0 if the text is invalid.  reverse: of the first direction. */
uint32_t sl_directions(const char *text, bool *reverse);
/* The cell of one direction; false if an activation is unknown or their number is wrong. */
bool sl_cell_make(const sl_recurrent_attrs *attrs, uint32_t gates, int64_t hidden,
                  uint32_t direction, sl_cell *out);

/* Computes the states hidden[h] and content[h] from the sums, which are stored gate by gate. */
void sl_rnn_step(const sl_cell *cell, const double *sums, double *hidden);
/* Sums of i, o, f, c; peepholes of i, o, f, or NULL. */
void sl_lstm_step(const sl_cell *cell, const double *sums, const double *peepholes, double *hidden,
                  double *content);
/* First z and r from their sums, in place; then the state from the sums of the candidates. */
void sl_gru_gates(const sl_cell *cell, double *sums);
void sl_gru_step(const sl_cell *cell, const double *gates, const double *candidates,
                 double *hidden);
#endif
