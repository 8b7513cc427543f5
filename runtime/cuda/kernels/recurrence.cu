/* recurrence.cu - Linear recurrences with an explicit state: one warp computes all time steps of a
 * row of the state. */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/recurrence.h"
#include "runtime/cuda/kernels/strides.cuh"

#define EACH_LANE(I, SIZE) for (int64_t I = lane_id(); I < (SIZE); I += WARP)

/* Element i of a row's state.  States are [.., size, width]: the elements of a row are `width`
 * apart; or, with width 1, [.., size]. */
DEVICE int64_t state_at(const sl_recurrence &r, int64_t row, int64_t width, int64_t i) {
    const int64_t outer = quotient(row, width);
    return (outer * r.size + i) * width + row - outer * width;
}
DEVICE double *start_row(const sl_recurrence &r, int64_t row, int64_t width) {
    double *own = r.memory + row * r.size;
    EACH_LANE(i, r.size)
    own[i] = r.before ? load_real(r.type, r.before, state_at(r, row, width, i)) : 0;
    return own;
}
DEVICE void end_row(const sl_recurrence &r, int64_t row, int64_t width, const double *own) {
    EACH_LANE(i, r.size)
    store_number(r.type, r.after, state_at(r, row, width, i), number_of(own[i]));
}

SL_CUDA_KERNEL(sl_selective_scan, sl_scanned) {
    const sl_recurrence &r = a.r;
    const int64_t row = thread_number() / WARP, batch = quotient(row, a.width);
    if (row >= r.rows) return;
    const int64_t channel = row - batch * a.width;
    double *own = start_row(r, row, 1);
    for (int64_t token = batch * r.steps; token < (batch + 1) * r.steps; token++) {
        const int64_t at = token * a.width + channel;
        const double delta = load_real(r.type, a.delta, at), x = load_real(r.type, a.x, at);
        double sum = 0;
        EACH_LANE(i, r.size) {
            const double rate = load_real(r.type, a.rates, channel * r.size + i);
            const double change = delta * load_real(r.type, a.b, token * r.size + i) * x;
            own[i] = exp(delta * rate) * own[i] + change;
            sum += load_real(r.type, a.c, token * r.size + i) * own[i];
        }
        sum = warp_sum(sum);
        if (lane_id() == 0) store_number(r.type, r.out, at, number_of(sum));
    }
    end_row(r, row, 1, own);
}

SL_CUDA_KERNEL(sl_gated_delta_net, sl_delta_netted) {
    const sl_recurrence &r = a.r;
    const int64_t row = thread_number() / WARP, item = quotient(row, a.width);
    if (row >= r.rows) return;
    const int64_t column = row - item * a.width, batch = item / a.heads, head = item % a.heads;
    const int64_t key_head = head / (a.heads / a.key_heads);
    double *own = start_row(r, row, a.width);
    for (int64_t token = batch * r.steps; token < (batch + 1) * r.steps; token++) {
        const int64_t at = token * a.heads + head, key = (token * a.key_heads + key_head) * r.size;
        const double decay = exp(load_real(r.type, a.decay, at));
        double found = 0, sum = 0;
        EACH_LANE(i, r.size) {
            own[i] *= decay;
            found += own[i] * load_real(r.type, a.k, key + i);
        }
        const double missing = load_real(r.type, a.v, at * a.width + column) - warp_sum(found);
        const double change = load_real(r.type, a.beta, at) * missing;
        EACH_LANE(i, r.size) {
            own[i] += load_real(r.type, a.k, key + i) * change;
            sum += own[i] * load_real(r.type, a.q, key + i);
        }
        sum = a.scale * warp_sum(sum);
        if (lane_id() == 0) store_number(r.type, r.out, at * a.width + column, number_of(sum));
    }
    end_row(r, row, a.width, own);
}
