/* rope_apply.cu - RoPE whose angles are operands or follow from the position in a grid; one thread
 * per pair. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/rope_apply.h"
#include "runtime/cuda/kernels/strides.cuh"

SL_CUDA_KERNEL(sl_rope_tables, sl_rope_tabled) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const int64_t row = quotient(i, a.width);
    const number given = load_number(a.position_type, a.positions, row);
    const double position = is_real(a.position_type) ? given.re : (double)given.whole;
    const double angle = position * load_real(a.type, a.frequencies, i - row * a.width);
    store_number(a.type, a.cosines, i, number_of(a.magnitude * cos(angle)));
    store_number(a.type, a.sines, i, number_of(a.magnitude * sin(angle)));
}

DEVICE void turn_pair(const sl_turned &t, int64_t one, int64_t other, double cosine, double sine) {
    const double first = load_real(t.type, t.x, one);
    const double second = load_real(t.type, t.x, other);
    if (t.back) sine = -sine;
    store_number(t.type, t.out, one, number_of(first * cosine - second * sine));
    store_number(t.type, t.out, other, number_of(second * cosine + first * sine));
}

DEVICE int64_t table_row(const sl_rope_applied &a, int64_t row) {
    int64_t at = 0;
    for (int d = (int)a.rank - 1; d >= 0; d--) {
        const int64_t outer = quotient(row, a.dims[d]);
        at += (row - outer * a.dims[d]) * a.steps[d];
        row = outer;
    }
    return at;
}
/* The threads behind a row's pairs copy the dims that are not rotated. */
SL_CUDA_KERNEL(sl_rope_apply, sl_rope_applied) {
    const int64_t i = thread_number();
    if (i >= a.t.count) return;
    const int64_t each = a.width - a.pairs, row = quotient(i, each), own = i - row * each;
    const int64_t start = row * a.width, kept = start + a.pairs + own;
    if (own >= a.pairs) {
        store_number(a.t.type, a.t.out, kept, load_number(a.t.type, a.t.x, kept));
        return;
    }
    const int64_t at = table_row(a, row) * a.columns + own, one = start + own * a.pair;
    turn_pair(a.t, one, one + a.step, load_real(a.t.type, a.cosines, at),
              load_real(a.t.type, a.sines, at));
}

SL_CUDA_KERNEL(sl_axial_rope, sl_axial) {
    const int64_t i = thread_number();
    if (i >= a.t.count) return;
    const int64_t half = a.dims / 2, row = quotient(i, half), pair = i - row * half;
    const int64_t token = row % a.tokens, quarter = a.dims / 4;
    const bool across = pair < quarter;
    const int64_t place = across ? token % a.width : token / a.width % a.height;
    const double power = -4.0 * (double)(across ? pair : pair - quarter) / (double)a.dims;
    const double angle = (double)place * pow(a.theta, power);
    turn_pair(a.t, 2 * i, 2 * i + 1, cos(angle), sin(angle));
}
