/* rnn.c - Recurrent layers. */
#include "core/rnn.h"
#include "compiler/ops/alike.h"
#include <math.h>

#define SAME_HEAD(OP, FIELD)                                                                       \
    _Static_assert(offsetof(sl_##OP##_attrs, clip) == offsetof(sl_recurrent_attrs, clip) &&        \
                       offsetof(sl_##OP##_attrs, FIELD) == offsetof(sl_recurrent_attrs, variant),  \
                   #OP)
SAME_HEAD(rnn, reserved); /* never set */
SAME_HEAD(gru, linear_before_reset);
SAME_HEAD(lstm, input_forget);

/* The input index of each optional operand; 0 if it is absent. */
typedef struct {
    uint32_t bias, lengths, hidden, content, peepholes, count;
} places;

static places places_of(uint32_t extras) {
    places p = {.count = 3};
    if (extras & SL_EXTRA_BIAS) p.bias = p.count++;
    if (extras & SL_EXTRA_LENGTHS) p.lengths = p.count++;
    if (extras & SL_EXTRA_HIDDEN) p.hidden = p.count++;
    if (extras & SL_EXTRA_CELL) p.content = p.count++;
    if (extras & SL_EXTRA_PEEPHOLES) p.peepholes = p.count++;
    return p;
}

/* ---- type inference ---- */

static sl_status check_operand(const sl_infer_args *a, uint32_t input, const char *name,
                               sl_dims wanted, const char *as, sl_error *err) {
    if (!input) return SL_OK;
    SL_TRY(sl_check_class(a, input, name, SL_FLOATS, err));
    if (a->in[input].dtype != a->in[0].dtype)
        return sl_fail(err, SL_INVALID, "%s: the elements of %s are %s, must be %s as those of x",
                       a->label, name, sl_dtype_infos[a->in[input].dtype].name,
                       sl_dtype_infos[a->in[0].dtype].name);
    return sl_check_shape(a, input, name, &wanted, as, err);
}

static sl_status check_lengths(const sl_infer_args *a, uint32_t input, sl_error *err) {
    if (!input) return SL_OK;
    const sl_dims wanted = sl_dims_of(a->in[0].shape.dims[1]);
    SL_TRY(sl_check_class(a, input, "lengths", SL_PLAIN, err));
    if (a->in[input].dtype != SL_DTYPE_i32 && a->in[input].dtype != SL_DTYPE_i64)
        return sl_fail(err, SL_INVALID, "%s: the elements of lengths are %s, must be i32 or i64",
                       a->label, sl_dtype_infos[a->in[input].dtype].name);
    return sl_check_shape(a, input, "lengths", &wanted, "one for each sequence of x", err);
}

static sl_status check_attrs(const sl_infer_args *a, uint32_t gates, uint32_t *directions,
                             sl_error *err) {
    const sl_recurrent_attrs *attrs = a->attrs;
    bool reverse;
    sl_cell cell;
    SL_TRY(
        sl_check_attr(a->label, "extras", attrs->extras, 0, gates == SL_LSTM_GATES ? 31 : 7, err));
    if (gates != SL_RNN_GATES)
        SL_TRY(sl_check_attr(a->label,
                             gates == SL_GRU_GATES ? "linear_before_reset" : "input_forget",
                             attrs->variant, 0, 1, err));
    if (!(attrs->clip >= 0) || isinf(attrs->clip))
        return sl_fail(err, SL_INVALID, "%s: clip is %g, must be positive, or 0 for none", a->label,
                       (double)attrs->clip);
    *directions = sl_directions(attrs->direction, &reverse);
    if (!*directions)
        return sl_fail(err, SL_INVALID,
                       "%s: direction is '%s', must be forward, reverse or bidirectional", a->label,
                       attrs->direction);
    for (uint32_t d = 0; d < *directions; d++)
        if (!sl_cell_make(attrs, gates, 1, d, &cell))
            return sl_fail(err, SL_INVALID,
                           "%s: activations are '%s' with %u alphas and %u betas, must name one "
                           "known function per gate, each with one number or none",
                           a->label, attrs->activations, attrs->alphas.count, attrs->betas.count);
    return SL_OK;
}

static sl_status infer_layer(const sl_infer_args *a, uint32_t gates, sl_error *err) {
    static const char *const names[] = {"x", "w", "r"};
    const sl_recurrent_attrs *attrs = a->attrs;
    uint32_t directions = 0;
    SL_TRY(check_attrs(a, gates, &directions, err));
    SL_TRY(sl_check_alike(a, 3, names, SL_FLOATS, err));
    for (uint32_t i = 0; i < 3; i++) SL_TRY(sl_check_rank(a, i, names[i], 3, 3, err));
    const int64_t *x = a->in[0].shape.dims, hidden = a->in[2].shape.dims[2];
    const int64_t d = directions;
    int64_t rows;
    if (__builtin_mul_overflow(hidden, 2 * (int64_t)gates, &rows))
        return sl_fail(err, SL_INVALID, "%s: too many gates", a->label);
    rows /= 2;
    const sl_dims w = {3, {d, rows, x[2]}}, r = {3, {d, rows, hidden}};
    const sl_dims state = {3, {d, x[1], hidden}};
    SL_TRY(sl_check_shape(a, 2, "r", &r, "gates of the width of its last dim", err));
    SL_TRY(sl_check_shape(a, 1, "w", &w, "as r and x say", err));
    const places p = places_of(attrs->extras);
    if (a->in_count != p.count)
        return sl_fail(err, SL_INVALID, "%s: %u operands follow r, extras %u wants %u", a->label,
                       a->in_count - 3, attrs->extras, p.count - 3);
    SL_TRY(check_operand(a, p.bias, "bias", (sl_dims){2, {d, 2 * rows}}, "two for each gate", err));
    SL_TRY(check_lengths(a, p.lengths, err));
    SL_TRY(check_operand(a, p.hidden, "initial_h", state, "a state for each sequence", err));
    SL_TRY(check_operand(a, p.content, "initial_c", state, "a state for each sequence", err));
    SL_TRY(check_operand(a, p.peepholes, "peepholes", (sl_dims){2, {d, 3 * hidden}},
                         "three for each element of a state", err));
    a->out[0] = (sl_type){a->in[0].dtype, {4, {x[0], d, x[1], hidden}}};
    a->out[1] = (sl_type){a->in[0].dtype, state};
    if (gates == SL_LSTM_GATES) a->out[2] = a->out[1];
    return SL_OK;
}

/* ---- evaluation ---- */

/* One direction of one sequence. */
typedef struct {
    const sl_eval_args *a;
    sl_cell cell;
    places p;
    const double *in[8]; /* NULL if absent */
    int64_t steps, batch, inputs, direction, sequence;
    double *sums, *hidden, *content, *reset;
} layer;

static double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Gate row `row`: products with x and with the hidden state, each plus its bias. */
static double from_input(const layer *l, int64_t row, const double *x) {
    const int64_t rows = l->cell.gates * l->cell.hidden, at = l->direction * rows + row;
    const double bias = l->p.bias ? l->in[l->p.bias][l->direction * 2 * rows + row] : 0;
    return dot(l->in[1] + at * l->inputs, x, l->inputs) + bias;
}
static double from_state(const layer *l, int64_t row, const double *state) {
    const int64_t rows = l->cell.gates * l->cell.hidden, at = l->direction * rows + row;
    const double bias = l->p.bias ? l->in[l->p.bias][(l->direction * 2 + 1) * rows + row] : 0;
    return dot(l->in[2] + at * l->cell.hidden, state, l->cell.hidden) + bias;
}

static void gru_step(layer *l, const double *x) {
    const int64_t n = l->cell.hidden;
    sl_gru_gates(&l->cell, l->sums);
    for (int64_t i = 0; i < n; i++) l->reset[i] = l->sums[n + i] * l->hidden[i];
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = 2 * n + i;
        l->sums[row] = from_input(l, row, x) + (l->cell.variant
                                                    ? l->sums[n + i] * from_state(l, row, l->hidden)
                                                    : from_state(l, row, l->reset));
    }
    sl_gru_step(&l->cell, l->sums, l->sums + 2 * n, l->hidden);
}

static void step(layer *l, const double *x) {
    const int64_t n = l->cell.hidden;
    const uint32_t early = l->cell.gates == SL_GRU_GATES ? 2 : l->cell.gates;
    for (int64_t row = 0; row < early * n; row++)
        l->sums[row] = from_input(l, row, x) + from_state(l, row, l->hidden);
    const double *peepholes = l->p.peepholes ? l->in[l->p.peepholes] + l->direction * 3 * n : NULL;
    if (l->cell.gates == SL_GRU_GATES)
        gru_step(l, x);
    else if (l->cell.gates == SL_LSTM_GATES)
        sl_lstm_step(&l->cell, l->sums, peepholes, l->hidden, l->content);
    else
        sl_rnn_step(&l->cell, l->sums, l->hidden);
}

static sl_status run_sequence(layer *l, bool reverse, sl_error *err) {
    const sl_eval_args *a = l->a;
    const int64_t n = l->cell.hidden, state = (l->direction * l->batch + l->sequence) * n;
    const int64_t directions = sl_eval_dim(a, 1, 0);
    int64_t length = l->steps;
    if (l->p.lengths) {
        const sl_eval_tensor *lengths = &a->in[l->p.lengths];
        length = sl_slot_integer(lengths->type.dtype, &l->in[l->p.lengths][l->sequence]);
        if (length < 0 || length > l->steps)
            return sl_fail(err, SL_INVALID, "%s: lengths[%lld] is %lld, must be 0 to %lld",
                           a->label, (long long)l->sequence, (long long)length,
                           (long long)l->steps);
    }
    for (int64_t i = 0; i < n; i++) {
        l->hidden[i] = l->p.hidden ? l->in[l->p.hidden][state + i] : 0;
        l->content[i] = l->p.content ? l->in[l->p.content][state + i] : 0;
    }
    for (int64_t s = 0; s < l->steps; s++) {
        const int64_t t = reverse && s < length ? length - 1 - s : s;
        double *y = a->out[0].data + ((t * directions + l->direction) * l->batch + l->sequence) * n;
        if (s < length) step(l, l->in[0] + (t * l->batch + l->sequence) * l->inputs);
        for (int64_t i = 0; i < n; i++) y[i] = s < length ? l->hidden[i] : 0;
    }
    for (int64_t i = 0; i < n; i++) {
        a->out[1].data[state + i] = l->hidden[i];
        if (l->cell.gates == SL_LSTM_GATES) a->out[2].data[state + i] = l->content[i];
    }
    return SL_OK;
}

static sl_status eval_layer(const sl_eval_args *a, uint32_t gates, sl_error *err) {
    const sl_recurrent_attrs *attrs = a->attrs;
    layer l = {.a = a,
               .p = places_of(attrs->extras),
               .steps = sl_eval_dim(a, 0, 0),
               .batch = sl_eval_dim(a, 0, 1),
               .inputs = sl_eval_dim(a, 0, 2)};
    const int64_t hidden = sl_eval_dim(a, 2, 2);
    bool reverse;
    SL_TRY(sl_eval_inputs(a, a->in_count, l.in, err));
    SL_TRY(sl_eval_scratch(a, gates * hidden, &l.sums, err));
    SL_TRY(sl_eval_scratch(a, hidden, &l.hidden, err));
    SL_TRY(sl_eval_scratch(a, hidden, &l.content, err));
    SL_TRY(sl_eval_scratch(a, hidden, &l.reset, err));
    for (l.direction = 0; l.direction < sl_directions(attrs->direction, &reverse); l.direction++) {
        if (!sl_cell_make(attrs, gates, hidden, (uint32_t)l.direction, &l.cell))
            return sl_fail(err, SL_INVALID, "%s: unknown activations", a->label);
        for (l.sequence = 0; l.sequence < l.batch; l.sequence++)
            SL_TRY(run_sequence(&l, reverse || l.direction == 1, err));
    }
    return SL_OK;
}

#define LAYER(NAME, GATES)                                                                         \
    sl_status sl_infer_##NAME(const sl_infer_args *a, sl_error *err) {                             \
        return infer_layer(a, GATES, err);                                                         \
    }                                                                                              \
    sl_status sl_eval_##NAME(const sl_eval_args *a, sl_error *err) {                               \
        return eval_layer(a, GATES, err);                                                          \
    }
LAYER(rnn, SL_RNN_GATES)
LAYER(gru, SL_GRU_GATES)
LAYER(lstm, SL_LSTM_GATES)
