/* rnn.c - Recurrent layers: an item is one direction of one sequence. */
#include "core/rnn.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/element.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/moments.h"

/* The argument structs of rnn, gru and lstm begin with the same fields. */
typedef sl_lstm_args layer_args;
_Static_assert(offsetof(sl_rnn_args, y_h) == offsetof(layer_args, y_h) &&
                   offsetof(sl_gru_args, y_h) == offsetof(layer_args, y_h),
               "recurrent layers share their operands");

typedef struct {
    const sl_cview *x, *w, *r, *bias, *lengths, *hidden, *content, *peepholes; /* or NULL */
    const sl_view *y, *y_h, *y_c;
    const sl_recurrent_attrs *attrs;
    uint32_t gates, directions;
    bool reverse;
    int64_t steps, batch, inputs, width; /* width: size of the hidden state */
} layer;

static layer layer_of(const layer_args *a, const void *attrs, uint32_t gates) {
    layer l = {.x = &a->x, .w = &a->w, .r = &a->r, .y = &a->y, .y_h = &a->y_h};
    if (gates == SL_LSTM_GATES) l.y_c = &a->y_c;
    l.attrs = attrs;
    l.gates = gates;
    l.directions = sl_directions(l.attrs->direction, &l.reverse);
    l.steps = dim(&a->x.type, 0);
    l.batch = dim(&a->x.type, 1);
    l.inputs = dim(&a->x.type, 2);
    l.width = dim(&a->r.type, 2);
    const sl_cview *next = a->extra.items;
    if (l.attrs->extras & SL_EXTRA_BIAS) l.bias = next++;
    if (l.attrs->extras & SL_EXTRA_LENGTHS) l.lengths = next++;
    if (l.attrs->extras & SL_EXTRA_HIDDEN) l.hidden = next++;
    if (l.attrs->extras & SL_EXTRA_CELL) l.content = next++;
    if (l.attrs->extras & SL_EXTRA_PEEPHOLES) l.peepholes = next++;
    return l;
}

/* Scratch of a step. */
typedef struct {
    double *sums, *hidden, *content, *reset, *x, *peepholes;
} room;

static size_t room_bytes(const layer *l) {
    const int64_t doubles = (l->gates + 6) * l->width + l->inputs;
    return (size_t)doubles * sizeof(double);
}
static room room_of(const layer *l, double *memory) {
    room m = {.sums = memory};
    m.hidden = m.sums + l->gates * l->width;
    m.content = m.hidden + l->width;
    m.reset = m.content + l->width;
    m.peepholes = m.reset + l->width;
    m.x = m.peepholes + 3 * l->width;
    return m;
}

static sl_split split_layer(const layer *l) {
    const int64_t operations = l->steps * l->gates * l->width * (l->width + l->inputs) / 8;
    return (sl_split){l->directions * l->batch, grain_of(operations), room_bytes(l)};
}

/* Row of a matrix times a vector, in doubles: the error of the state may double with every step. */
static double dot(const sl_cview *matrix, int64_t row, const double *vector, int64_t n) {
    double sum = 0;
    int64_t i = 0;
    if (matrix->type.dtype == SL_DTYPE_f32) {
        const float *from = (const float *)matrix->data + row * n;
        vlong acc[2] = {{0}, {0}};
        for (; i + 2 * (int64_t)LANES <= n; i += 2 * (int64_t)LANES)
            for (int64_t j = 0; j < 2; j++) {
                vlong x;
                memcpy(&x, vector + i + j * LANES, sizeof x);
                acc[j] += __builtin_convertvector(vload(from + i + j * LANES), vlong) * x;
            }
        acc[0] += acc[1];
        sum = vlong_total(&acc[0]);
    }
    for (; i < n; i++) sum += real_at(matrix->type.dtype, matrix->data, row * n + i) * vector[i];
    return sum;
}

static double bias_at(const layer *l, int64_t at) {
    return l->bias ? real_at(l->bias->type.dtype, l->bias->data, at) : 0;
}

/* Row `row` of a direction's gates: products with the input and with the hidden state, plus
 * bias. */
static double from_input(const layer *l, int64_t direction, int64_t row, const double *x) {
    const int64_t rows = l->gates * l->width;
    return dot(l->w, direction * rows + row, x, l->inputs) + bias_at(l, direction * 2 * rows + row);
}
static double from_state(const layer *l, int64_t direction, int64_t row, const double *state) {
    const int64_t rows = l->gates * l->width;
    return dot(l->r, direction * rows + row, state, l->width) +
           bias_at(l, (direction * 2 + 1) * rows + row);
}

/* The sums of the candidate state are in the third part. */
static void gru_step(const layer *l, const sl_cell *cell, int64_t direction, const room *m) {
    const int64_t n = l->width;
    double *reset = m->sums + n, *candidates = m->sums + 2 * n;
    sl_gru_gates(cell, m->sums);
    for (int64_t i = 0; i < n; i++) m->reset[i] = reset[i] * m->hidden[i];
    for (int64_t i = 0; i < n; i++)
        candidates[i] += cell->variant ? reset[i] * from_state(l, direction, 2 * n + i, m->hidden)
                                       : from_state(l, direction, 2 * n + i, m->reset);
    sl_gru_step(cell, m->sums, candidates, m->hidden);
}

static void step(const layer *l, const sl_cell *cell, int64_t direction, const room *m) {
    const int64_t n = l->width, early = (l->gates == SL_GRU_GATES ? 2 : l->gates) * n;
    for (int64_t row = 0; row < l->gates * n; row++)
        m->sums[row] = from_input(l, direction, row, m->x);
    for (int64_t row = 0; row < early; row++)
        m->sums[row] += from_state(l, direction, row, m->hidden);
    if (l->gates == SL_GRU_GATES)
        gru_step(l, cell, direction, m);
    else if (l->gates == SL_LSTM_GATES)
        sl_lstm_step(cell, m->sums, l->peepholes ? m->peepholes : NULL, m->hidden, m->content);
    else
        sl_rnn_step(cell, m->sums, m->hidden);
}

static void load(const sl_cview *view, int64_t at, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = view ? real_at(view->type.dtype, view->data, at + i) : 0;
}
static void store(const sl_view *view, int64_t at, int64_t n, const double *from) {
    for (int64_t i = 0; i < n; i++)
        put_real(view->type.dtype, view->data, at + i, from ? from[i] : 0);
}

SL_CHECKED static sl_status run_sequence(const layer *l, int64_t item, const room *m,
                                         sl_error *err) {
    const int64_t direction = item / l->batch, sequence = item % l->batch, n = l->width;
    const bool backwards = l->reverse || direction == 1;
    int64_t length = l->steps;
    sl_cell cell;
    if (!sl_cell_make(l->attrs, l->gates, n, (uint32_t)direction, &cell))
        return sl_fail(err, SL_INVALID, "unknown activations");
    if (l->lengths) {
        length = whole_at(l->lengths->type.dtype, l->lengths->data, sequence);
        SL_TRY(check_index(length, l->steps + 1, "the length", sequence, err));
    }
    load(l->hidden, item * n, n, m->hidden);
    load(l->content, item * n, n, m->content);
    load(l->peepholes, direction * 3 * n, 3 * n, m->peepholes);
    for (int64_t s = 0; s < l->steps; s++) {
        const int64_t t = backwards && s < length ? length - 1 - s : s;
        const int64_t from = (t * l->batch + sequence) * l->inputs;
        if (s < length) {
            load(l->x, from, l->inputs, m->x);
            step(l, &cell, direction, m);
        }
        store(l->y, ((t * l->directions + direction) * l->batch + sequence) * n, n,
              s < length ? m->hidden : NULL);
    }
    store(l->y_h, item * n, n, m->hidden);
    if (l->y_c) store(l->y_c, item * n, n, m->content);
    return SL_OK;
}

#define LAYER(OP, GATES)                                                                           \
    SPLIT(OP) {                                                                                    \
        const layer l = layer_of(args, &((const sl_##OP##_args *)args)->attrs, GATES);             \
        return split_layer(&l);                                                                    \
    }                                                                                              \
    RUN(OP) {                                                                                      \
        const layer l = layer_of(args, &((const sl_##OP##_args *)args)->attrs, GATES);             \
        const room m = room_of(&l, worker->scratch);                                               \
        for (int64_t item = begin; item < end; item++)                                             \
            SL_TRY(run_sequence(&l, item, &m, worker->err));                                       \
        return SL_OK;                                                                              \
    }
LAYER(rnn, SL_RNN_GATES)
LAYER(gru, SL_GRU_GATES)
LAYER(lstm, SL_LSTM_GATES)
