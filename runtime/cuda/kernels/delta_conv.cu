/* delta_conv.cu - The short convolution of the delta net: depthwise, causal, then silu.
 *
 * Row t of a channel depends on its own x and on taps - 1 earlier rows: those of the same sequence
 * in this batch, and before its first row those stored in the slot's window.  A sequence starts
 * where the slot changes or the position is 0, which clears the window. */
#include "runtime/cuda/kernels/delta.cuh"

DEVICE float silu(float x) {
    return x / (1.0f + expf(-x));
}

DEVICE int slot_of(const sl_conv &a, int row) {
    return checked(a.fault, SL_FAULT_SLOT, row, a.slots[row], a.slot_count);
}
DEVICE bool starts(const sl_conv &a, int row) {
    return row == 0 || a.slots[row] != a.slots[row - 1] || a.positions[row] == 0;
}
DEVICE float *window_of(const sl_conv &a, int slot, int channel) {
    return a.window + (int64_t)slot * (a.taps - 1) * a.channels + channel;
}
DEVICE void check_position(const sl_conv &a, int row) {
    (void)checked(a.fault, SL_FAULT_POSITION, row, a.positions[row], INT32_MAX);
}

/* The number of earlier rows of the same sequence in this batch, at most `most`. */
DEVICE int rows_before(const sl_conv &a, int row, int most) {
    int count = 0;
    while (count < most && !starts(a, row - count)) count++;
    return count;
}
/* x `back` rows before `row`: from the batch, which has `before` earlier rows of the sequence, or
 * from the slot's window. */
DEVICE float row_back(const sl_conv &a, int row, int channel, int back, int before) {
    if (back <= before) return a.x[(int64_t)(row - back) * a.channels + channel];
    const int first = row - before;
    if (a.positions[first] == 0) return 0;
    const float *window = window_of(a, slot_of(a, first), channel);
    return window[(int64_t)(a.taps - 1 - (back - before)) * a.channels];
}

/* ---- any number of taps: one thread per element ---- */

SL_CUDA_KERNEL(sl_conv_any, sl_conv) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x), row = (int)blockIdx.y;
    if (channel >= a.channels) return;
    check_position(a, row);
    (void)slot_of(a, row);
    const int before = rows_before(a, row, a.taps - 1);
    float sum = 0;
    for (int back = a.taps - 1; back >= 0; back--)
        sum += a.w[(int64_t)channel * a.taps + a.taps - 1 - back] *
               row_back(a, row, channel, back, before);
    a.out[(int64_t)row * a.channels + channel] = silu(sum);
}

/* Updates the windows after all rows are done; blocks are (channels, slot). */
SL_CUDA_KERNEL(sl_conv_keep, sl_conv) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x), slot = (int)blockIdx.y;
    const int row = rows_of_slot(a.slots, a.rows, slot).y;
    if (row < 0 || channel >= a.channels) return;
    const int before = rows_before(a, row, a.taps - 1);
    float *window = window_of(a, slot, channel);
    for (int back = a.taps - 2; back >= 0; back--) /* oldest first: shifted in place */
        window[(int64_t)(a.taps - 2 - back) * a.channels] =
            row_back(a, row, channel, back, before);
}

/* ---- four taps ---- */

/* The three previous inputs of a channel, oldest first. */
struct history {
    float x[SL_CONV_TAPS - 1];
};
DEVICE float convolve(history &h, float4 w, float x) {
    const float sum = w.x * h.x[0] + w.y * h.x[1] + w.z * h.x[2] + w.w * x;
    h.x[0] = h.x[1];
    h.x[1] = h.x[2];
    h.x[2] = x;
    return silu(sum);
}
DEVICE history window_history(const sl_conv &a, const float *window, int row) {
    history h = {{0, 0, 0}};
    if (a.positions[row] != 0)
        for (int i = 0; i < SL_CONV_TAPS - 1; i++) h.x[i] = window[(int64_t)i * a.channels];
    return h;
}

enum { AHEAD = 8 }; /* loads in flight */
struct some_rows {
    float x[AHEAD];
};
DEVICE some_rows load_rows(const sl_conv &a, int row, int end, int channel) {
    some_rows now;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        now.x[i] = row + i < end ? a.x[(int64_t)(row + i) * a.channels + channel] : 0.0f;
    return now;
}

/* Few rows: one thread per channel, for all rows. */
SL_CUDA_KERNEL(sl_conv_few, sl_conv) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (channel >= a.channels) return;
    const float4 w = ((const float4 *)a.w)[channel];
    float *window = nullptr;
    history h = {{0, 0, 0}};
    for (int r = 0; r < a.rows; r += AHEAD) {
        const some_rows now = load_rows(a, r, a.rows, channel);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int row = r + i;
            if (row >= a.rows) break;
            check_position(a, row);
            const int slot = slot_of(a, row);
            if (starts(a, row)) {
                window = window_of(a, slot, channel);
                h = window_history(a, window, row);
            }
            a.out[(int64_t)row * a.channels + channel] = convolve(h, w, now.x[i]);
            if (row + 1 == a.rows || starts(a, row + 1))
                for (int k = 0; k < SL_CONV_TAPS - 1; k++)
                    window[(int64_t)k * a.channels] = h.x[k];
        }
    }
}

/* Many rows: one thread per channel and tile of rows.  sl_conv_keep is launched afterwards. */
SL_CUDA_KERNEL(sl_conv_tile, sl_conv) {
    const int channel = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const int first = (int)blockIdx.y * SL_CONV_ROWS, rows = min((int)SL_CONV_ROWS, a.rows - first);
    const bool has_row = lane_id() < rows;
    if (has_row) {
        check_position(a, first + lane_id());
        (void)slot_of(a, first + lane_id());
    }
    const unsigned new_ones = __ballot_sync(ALL_LANES, has_row && starts(a, first + lane_id()));
    if (channel >= a.channels) return;
    const float4 w = ((const float4 *)a.w)[channel];
    history h = {{0, 0, 0}};
    if (!(new_ones & 1)) {
        const int before = rows_before(a, first, SL_CONV_TAPS - 1);
        for (int i = 0; i < SL_CONV_TAPS - 1; i++)
            h.x[i] = row_back(a, first, channel, SL_CONV_TAPS - 1 - i, before);
    }
    for (int r = 0; r < rows; r += AHEAD) {
        const some_rows now = load_rows(a, first + r, first + rows, channel);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (r + i >= rows) break;
            const int row = first + r + i;
            if (new_ones >> (r + i) & 1)
                h = window_history(a, window_of(a, slot_of(a, row), channel), row);
            a.out[(int64_t)row * a.channels + channel] = convolve(h, w, now.x[i]);
        }
    }
}
