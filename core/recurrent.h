/* recurrent.h - Cells of recurrent layers, as ONNX defines them: from sums to states. */
#ifndef SL_CORE_RECURRENT_H
#define SL_CORE_RECURRENT_H
#include "core/attrs.h"
#include "core/cell.h"

/* Which operands follow x, w and r, in this order. */
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

/* 1 or 2 directions; 0 when there is no such word.  reverse: of the first. */
uint32_t sl_directions(const char *text, bool *reverse);
/* The cell of one direction; false when the activations are none that there are, or not as many as
 * there must be. */
bool sl_cell_make(const sl_recurrent_attrs *attrs, uint32_t gates, int64_t hidden,
                  uint32_t direction, sl_cell *out);

/* Sums become states, hidden[h] and cell[h].  Sums lie gate by gate. */
void sl_rnn_step(const sl_cell *cell, const double *sums, double *hidden);
/* iofc; peepholes iof, or NULL. */
void sl_lstm_step(const sl_cell *cell, const double *sums, const double *peepholes, double *hidden,
                  double *content);
/* z and r from their sums, in place; then the state, given the candidates' sums. */
void sl_gru_gates(const sl_cell *cell, double *sums);
void sl_gru_step(const sl_cell *cell, const double *gates, const double *candidates,
                 double *hidden);
#endif
