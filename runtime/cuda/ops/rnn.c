/* rnn.c - Recurrent layers. */
#include "core/rnn.h"
#include "runtime/cuda/kernels/rnn.h"
#include "runtime/cuda/ops/strides.h"
#include <stddef.h>

/* The argument structs of the three layers begin with the same fields. */
_Static_assert(offsetof(sl_rnn_args, y_h) == offsetof(sl_lstm_args, y_h) &&
                   offsetof(sl_gru_args, y_h) == offsetof(sl_lstm_args, y_h),
               "recurrent layers share their operands");

static void take_extras(sl_layered *l, uint32_t extras, const sl_cview *next) {
    if (extras & SL_EXTRA_BIAS) l->bias = next++->data;
    if (extras & SL_EXTRA_LENGTHS) {
        l->length_type = number_of(&next->type);
        l->lengths = next++->data;
    }
    if (extras & SL_EXTRA_HIDDEN) l->hidden = next++->data;
    if (extras & SL_EXTRA_CELL) l->content = next++->data;
    if (extras & SL_EXTRA_PEEPHOLES) l->peepholes = next++->data;
}

static sl_layered layer_of(const sl_lstm_args *a, const sl_recurrent_attrs *attrs, uint32_t gates) {
    bool reverse;
    sl_layered l = {.x = a->x.data,
                    .w = a->w.data,
                    .r = a->r.data,
                    .y = a->y.data,
                    .y_h = a->y_h.data,
                    .steps = dim(&a->x.type, 0),
                    .batch = dim(&a->x.type, 1),
                    .inputs = dim(&a->x.type, 2),
                    .width = dim(&a->r.type, 2),
                    .type = number_of(&a->x.type)};
    l.directions = (int32_t)sl_directions(attrs->direction, &reverse);
    l.reverse = reverse;
    l.rows = gates * l.width;
    if (gates == SL_LSTM_GATES) l.y_c = a->y_c.data;
    take_extras(&l, attrs->extras, a->extra.items);
    return l;
}

static sl_status plan_layer(sl_gpu_planner *planner, const void *args,
                            const sl_recurrent_attrs *attrs, uint32_t gates, sl_error *err) {
    sl_layered l = layer_of(args, attrs, gates);
    const int64_t sequences = l.directions * l.batch, items = l.steps * sequences * l.rows;
    const int64_t room = sequences * (l.rows + SL_LAYER_VECTORS * l.width);
    for (uint32_t d = 0; d < (uint32_t)l.directions; d++)
        if (!sl_cell_make(attrs, gates, l.width, d, &l.cells[d]))
            return sl_fail(err, SL_INVALID, "%s: no such activations", planner->label);
    l.fault = planner->fault;
    l.from_inputs = sl_gpu_scratch(planner, (uint64_t)items * sizeof(double));
    l.room = sl_gpu_scratch(planner, (uint64_t)room * sizeof(double));
    ADD_PLAIN(planner, SL_CUDA_FN(sl_layer_inputs), items * SL_CUDA_WARP, l);
    SL_CUDA_ADD(planner, SL_CUDA_FN(sl_layer_steps), sequences,
                threads_for(l.rows * SL_CUDA_WARP, SL_LAYER_THREADS), l);
    return SL_OK;
}
#define LAYER(OP, GATES)                                                                           \
    PLAN(OP) {                                                                                     \
        return plan_layer(planner, args,                                                           \
                          (const sl_recurrent_attrs *)&((const sl_##OP##_args *)args)->attrs,      \
                          GATES, err);                                                             \
    }
LAYER(rnn, SL_RNN_GATES)
LAYER(gru, SL_GRU_GATES)
LAYER(lstm, SL_LSTM_GATES)
