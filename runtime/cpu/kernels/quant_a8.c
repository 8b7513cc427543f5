/* quant_a8.c - int8 quantisation of activations: an item is a row. */
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/rows.h"

/* `scratch`: a row of scratch, for ops whose f32 result is not an output. */
static sl_split split_rows(const sl_type *x, int64_t operations, bool scratch) {
    return (sl_split){rows_of(x), grain_of(last_dim(x) * operations),
                      scratch ? (size_t)last_dim(x) * sizeof(float) : 0};
}

SPLIT(quantise) {
    return split_rows(&((const sl_quantise_args *)args)->x.type, 1, false);
}
RUN(quantise) {
    const sl_quantise_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const rows8_out out = rows8_made(&a->out);
    for (int64_t row = begin; row < end; row++)
        rows8_row((const float *)a->x.data + row * n, n, &out, row);
    return SL_OK;
}

SPLIT(sigmoid_gate_quantise) {
    return split_rows(&((const sl_sigmoid_gate_quantise_args *)args)->x.type, 5, true);
}
RUN(sigmoid_gate_quantise) {
    const sl_sigmoid_gate_quantise_args *a = args;
    const int64_t n = last_dim(&a->x.type);
    const rows8_out codes = rows8_made(&a->codes);
    float *gated = worker->scratch;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)a->x.data + row * n;
        const float *gate = (const float *)a->gate.data + row * n;
        FOR_VECTORS(i, count, n, {
            const vf v = vsigmoid_gate(vload_n(x + i, count), vload_n(gate + i, count));
            vstore_n(gated + i, v, count);
        });
        rows8_row(gated, n, &codes, row);
    }
    return SL_OK;
}
