/* rnn.cu - Recurrent layers: the products with the inputs for all time steps at once, then one
 * block computes the time steps of one direction of one sequence. */
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/rnn.h"
#include "runtime/cuda/kernels/strides.cuh"

DEVICE double bias_at(const sl_layered &a, int64_t at) {
    return a.bias ? load_real(a.type, a.bias, at) : 0;
}

/* One warp per row of the gate matrix and token. */
SL_CUDA_KERNEL(sl_layer_inputs, sl_layered) {
    const int64_t item = thread_number() / WARP, place = quotient(item, a.rows);
    const int64_t row = item - place * a.rows, token = place / a.directions;
    const int64_t direction = place % a.directions, weights = (direction * a.rows + row) * a.inputs;
    if (token >= a.steps * a.batch) return;
    double sum = 0;
    for (int64_t i = lane_id(); i < a.inputs; i += WARP)
        sum += load_real(a.type, a.w, weights + i) * load_real(a.type, a.x, token * a.inputs + i);
    sum = warp_sum(sum);
    if (lane_id() == 0) a.from_inputs[item] = sum + bias_at(a, direction * 2 * a.rows + row);
}

/* One direction of one sequence; content: the LSTM cell state. */
struct sequence {
    int64_t direction, number, length;
    double *sums, *hidden, *content, *reset;
};

/* An invalid length raises a fault. */
DEVICE int64_t length_of(const sl_layered &a, int64_t sequence) {
    if (!a.lengths) return a.steps;
    const int64_t given = load_number(a.length_type, a.lengths, sequence).whole, most = INT32_MAX;
    if (given >= 0 && given <= a.steps) return given;
    return checked(a.fault, SL_FAULT_LENGTH, (int)sequence, (int)max(min(given, most), -most - 1),
                   (int)a.steps + 1);
}

DEVICE sequence sequence_of(const sl_layered &a) {
    const int64_t item = blockIdx.x, number = item % a.batch;
    double *room = a.room + item * (a.rows + SL_LAYER_VECTORS * a.width);
    double *hidden = room + a.rows;
    return {item / a.batch, number,           length_of(a, number), room,
            hidden,         hidden + a.width, hidden + 2 * a.width};
}

/* Dot product of row `row` of the recurrent weights with a state, plus bias, by one warp. */
DEVICE double from_state(const sl_layered &a, const sequence &s, int64_t row, const double *state) {
    const int64_t weights = (s.direction * a.rows + row) * a.width;
    double sum = 0;
    for (int64_t i = lane_id(); i < a.width; i += WARP)
        sum += load_real(a.type, a.r, weights + i) * state[i];
    return warp_sum(sum) + bias_at(a, (s.direction * 2 + 1) * a.rows + row);
}

#define EACH_UNIT(I)       for (int64_t I = threadIdx.x; I < a.width; I += blockDim.x)
#define EACH_ROW(I, COUNT) for (int64_t I = warp_id(); I < (COUNT); I += blockDim.x / WARP)

/* Applies the gates, then computes the candidates' pre-activations. */
DEVICE void gru_sums(const sl_layered &a, const sequence &s, const double *inputs) {
    const sl_cell &cell = a.cells[s.direction];
    const int64_t n = a.width;
    EACH_UNIT(i) {
        s.sums[i] = sl_cell_gate(&cell, s.sums[i]);
        s.sums[n + i] = sl_cell_gate(&cell, s.sums[n + i]);
        s.reset[i] = s.sums[n + i] * s.hidden[i];
    }
    __syncthreads();
    EACH_ROW(i, n) {
        const double sum = from_state(a, s, 2 * n + i, cell.variant ? s.hidden : s.reset);
        if (lane_id() == 0)
            s.sums[2 * n + i] = inputs[2 * n + i] + (cell.variant ? s.sums[n + i] * sum : sum);
    }
    __syncthreads();
}

/* The next hidden state of unit i; updates the LSTM cell state. */
DEVICE double next_state(const sl_layered &a, const sequence &s, int64_t i) {
    const sl_cell &cell = a.cells[s.direction];
    const int64_t n = a.width;
    if (cell.gates == SL_RNN_GATES) return sl_cell_gate(&cell, s.sums[i]);
    if (cell.gates == SL_GRU_GATES)
        return sl_gru_unit(&cell, s.sums[i], s.sums[2 * n + i], s.hidden[i]);
    const double own[] = {s.sums[i], s.sums[n + i], s.sums[2 * n + i], s.sums[3 * n + i]};
    double peepholes[3] = {0, 0, 0};
    for (int64_t p = 0; p < 3 && a.peepholes; p++)
        peepholes[p] = load_real(a.type, a.peepholes, (s.direction * 3 + p) * n + i);
    return sl_lstm_unit(&cell, own, a.peepholes ? peepholes : nullptr, &s.content[i]);
}

DEVICE void layer_step(const sl_layered &a, const sequence &s, const double *inputs) {
    const bool gru = a.cells[s.direction].gates == SL_GRU_GATES;
    EACH_ROW(row, gru ? 2 * a.width : a.rows) {
        const double sum = from_state(a, s, row, s.hidden);
        if (lane_id() == 0) s.sums[row] = inputs[row] + sum;
    }
    __syncthreads();
    if (gru) gru_sums(a, s, inputs);
    EACH_UNIT(i) s.hidden[i] = next_state(a, s, i);
    __syncthreads();
}

SL_CUDA_KERNEL(sl_layer_steps, sl_layered, SL_LAYER_THREADS) {
    const sequence s = sequence_of(a);
    const int64_t state = (int64_t)blockIdx.x * a.width;
    EACH_UNIT(i) {
        s.hidden[i] = a.hidden ? load_real(a.type, a.hidden, state + i) : 0;
        s.content[i] = a.content ? load_real(a.type, a.content, state + i) : 0;
    }
    __syncthreads();
    for (int64_t step = 0; step < a.steps; step++) {
        const bool inside = step < s.length, back = a.reverse || s.direction == 1;
        const int64_t t = back && inside ? s.length - 1 - step : step;
        const int64_t token = (t * a.batch + s.number) * a.directions + s.direction;
        const int64_t to = ((t * a.directions + s.direction) * a.batch + s.number) * a.width;
        if (inside) layer_step(a, s, a.from_inputs + token * a.rows);
        EACH_UNIT(i) store_number(a.type, a.y, to + i, number_of(inside ? s.hidden[i] : 0));
    }
    EACH_UNIT(i) {
        store_number(a.type, a.y_h, state + i, number_of(s.hidden[i]));
        if (a.y_c) store_number(a.type, a.y_c, state + i, number_of(s.content[i]));
    }
}
