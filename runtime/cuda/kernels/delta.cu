/* delta.cu - The gates of the delta net, and its recurrence row by row. */
#include "runtime/cuda/kernels/delta.cuh"
#include "runtime/cuda/kernels/norm.cuh"

DEVICE float decay_of(float a, float a_log, float dt_bias) {
    const float x = a + dt_bias;
    const float softplus = fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
    return -expf(a_log) * softplus;
}

SL_CUDA_KERNEL(sl_decay_beta, sl_decay) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a.count) return;
    const int head = (int)(i % a.heads);
    a.decay[i] = decay_of(a.a[i], a.a_log[head], a.dt_bias[head]);
    a.beta[i] = sigmoid(a.b[i]);
}

/* A run of consecutive rows of one slot is processed by one block, the block of its first row.  The
 * grid has a block for every row; those of the other rows return at once. */
DEVICE bool first_of_slot(const sl_delta &a, int row) {
    return row == 0 || a.slots[row] != a.slots[row - 1];
}
DEVICE bool last_of_slot(const sl_delta &a, int row) {
    return row + 1 == a.rows || a.slots[row] != a.slots[row + 1];
}

/* ---- any sizes: a block per head, a thread per column of its memory ---- */

SL_CUDA_KERNEL(sl_delta_step_any, sl_delta) {
    const int head = (int)blockIdx.x;
    for (int row = (int)blockIdx.y; first_of_slot(a, (int)blockIdx.y) && row < a.rows; row++) {
        float *memory = delta_memory(a, delta_slot(a, row), head);
        const float *q = delta_key(a, a.q, row, head), *k = delta_key(a, a.k, row, head);
        const int64_t at = delta_value(a, row, head);
        const float beta = a.beta[(int64_t)row * a.heads + head];
        const float keep =
            a.positions[row] == 0 ? 0.0f : expf(a.decay[(int64_t)row * a.heads + head]);
        for (int c = (int)threadIdx.x; c < a.dv; c += (int)blockDim.x) {
            float sum = 0, out = 0;
            for (int r = 0; r < a.dk && keep != 0.0f; r++)
                sum = fmaf(memory[(int64_t)r * a.dv + c], k[r], sum);
            const float change = beta * (a.v[at + c] - keep * sum);
            for (int r = 0; r < a.dk; r++) {
                float *m = memory + (int64_t)r * a.dv + c;
                *m = fmaf(k[r], change, keep != 0.0f ? keep * *m : 0.0f);
                out = fmaf(*m, q[r], out);
            }
            a.out[at + c] = out;
        }
        if (last_of_slot(a, row)) break;
    }
}

/* ---- dk = 128: a block holds 16 columns of a head's memory in registers ----
 *
 * Thread t holds columns 4 (t % 4) to 4 (t % 4) + 3 of rows t / 4, t / 4 + 32 and so on.  One pass
 * over the memory M gives both M^T k and M^T q, since with the change d
 *     out = (keep M + k d^T)^T q = keep M^T q + (k . q) d. */

enum { STEP_THREADS = 128, STEP_ROWS = SL_DELTA_SIZE / (STEP_THREADS / 4), STEP_WARPS = 4 };

/* Sums over the rows of the memory: M^T k and M^T q of four columns, and k . q. */
struct step_sums {
    float4 k, q;
    float kq;
};

DEVICE float sum_of_rows(float x) { /* over lanes with the same columns */
    x += __shfl_xor_sync(ALL_LANES, x, 4);
    x += __shfl_xor_sync(ALL_LANES, x, 8);
    return x + __shfl_xor_sync(ALL_LANES, x, 16);
}
DEVICE float4 sum_of_rows(float4 x) {
    return make_float4(sum_of_rows(x.x), sum_of_rows(x.y), sum_of_rows(x.z), sum_of_rows(x.w));
}

/* Reduction over the block.  No barrier follows the reads of `parts`, so consecutive calls must
 * alternate between two buffers. */
DEVICE step_sums sum_of_block(step_sums sums, step_sums (*parts)[4]) {
    const int columns = (int)threadIdx.x % 4;
    sums.k = sum_of_rows(sums.k);
    sums.q = sum_of_rows(sums.q);
    sums.kq = sum_of_rows(sums.kq);
    if (lane_id() < 4) parts[warp_id()][columns] = sums;
    __syncthreads();
    step_sums all = parts[0][columns];
#pragma unroll
    for (int w = 1; w < STEP_WARPS; w++) {
        add_times(all.k, 1.0f, parts[w][columns].k);
        add_times(all.q, 1.0f, parts[w][columns].q);
        all.kq += parts[w][columns].kq;
    }
    return all;
}

/* A thread's operands of one row. */
struct step_row {
    float key[STEP_ROWS], query[STEP_ROWS], beta, decay;
    float4 v;
    int position;
};
DEVICE step_row row_at(const sl_delta &a, int row, int head, int column) {
    const int first = (int)threadIdx.x / 4;
    const float *q = delta_key(a, a.q, row, head), *k = delta_key(a, a.k, row, head);
    step_row now;
    now.position = a.positions[row];
    now.beta = a.beta[(int64_t)row * a.heads + head];
    now.decay = a.decay[(int64_t)row * a.heads + head];
    now.v = *(const float4 *)(a.v + delta_value(a, row, head) + column);
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) {
        now.key[i] = k[first + i * (STEP_THREADS / 4)];
        now.query[i] = q[first + i * (STEP_THREADS / 4)];
    }
    return now;
}

/* Updates the memory with one row; returns the row's output. */
DEVICE float4 step(float4 (&m)[STEP_ROWS], const step_row &row, step_sums (*parts)[4]) {
    const float keep = expf(row.decay);
    step_sums sums = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0), 0};
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) {
        m[i] = row.position == 0
                   ? make_float4(0, 0, 0, 0)
                   : make_float4(m[i].x * keep, m[i].y * keep, m[i].z * keep, m[i].w * keep);
        add_times(sums.k, row.key[i], m[i]);
        add_times(sums.q, row.query[i], m[i]);
        sums.kq = fmaf(row.key[i], row.query[i], sums.kq);
    }
    sums = sum_of_block(sums, parts);
    const float4 change =
        make_float4(row.beta * (row.v.x - sums.k.x), row.beta * (row.v.y - sums.k.y),
                    row.beta * (row.v.z - sums.k.z), row.beta * (row.v.w - sums.k.w));
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) add_times(m[i], row.key[i], change);
    add_times(sums.q, sums.kq, change);
    return sums.q;
}

SL_CUDA_KERNEL(sl_delta_step, sl_delta, STEP_THREADS) {
    __shared__ step_sums parts[2][STEP_WARPS][4];
    const int head = (int)blockIdx.x / (a.dv / SL_DELTA_STEP_COLUMNS);
    const int part = (int)blockIdx.x % (a.dv / SL_DELTA_STEP_COLUMNS);
    const int column = part * SL_DELTA_STEP_COLUMNS + (int)threadIdx.x % 4 * 4;
    const int first = (int)threadIdx.x / 4;
    int row = (int)blockIdx.y;
    if (!first_of_slot(a, row)) return;
    step_row now = row_at(a, row, head, column);
    float *memory = delta_memory(a, delta_slot(a, row), head) + (int64_t)first * a.dv + column;
    float4 m[STEP_ROWS];
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++)
        m[i] = *(const float4 *)(memory + (int64_t)(i * STEP_THREADS / 4) * a.dv);
    for (bool last = false; !last; row++) {
        last = last_of_slot(a, row);
        const step_row next = last ? now : row_at(a, row + 1, head, column);
        const float4 out = step(m, now, parts[row % 2]);
        if (first == 0) *(float4 *)(a.out + delta_value(a, row, head) + column) = out;
        if (!last) (void)delta_slot(a, row + 1);
        now = next;
    }
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++)
        *(float4 *)(memory + (int64_t)(i * STEP_THREADS / 4) * a.dv) = m[i];
}

/* ---- one row, fused with its norms and gates ---- */

/* The factor by which l2_norm multiplies q or k; every warp computes it. */
DEVICE float l2_inverse(const float *row, float eps, float scale) {
    return scale / sqrtf(warp_sum(squares_of(four(row, lane_id() * 4))) + eps);
}

DEVICE step_row joined_row(const sl_delta_joined &a, int head, int column) {
    const sl_delta &d = a.d;
    const int first = (int)threadIdx.x / 4;
    const float *q = delta_key(d, d.q, 0, head), *k = delta_key(d, d.k, 0, head);
    step_row now;
    now.position = d.positions[0];
    now.v = *(const float4 *)(d.v + delta_value(d, 0, head) + column);
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) {
        now.key[i] = k[first + i * (STEP_THREADS / 4)];
        now.query[i] = q[first + i * (STEP_THREADS / 4)];
    }
    const float x = a.a ? a.a[head] : d.decay[head], y = a.a ? a.b[head] : d.beta[head];
    const float by_k = l2_inverse(k, a.k_eps, a.k_scale);
    const float by_q = l2_inverse(q, a.q_eps, a.q_scale);
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++) {
        now.key[i] *= by_k;
        now.query[i] *= by_q;
    }
    now.decay = a.a ? decay_of(x, a.a_log[head], a.dt_bias[head]) : x;
    now.beta = a.a ? sigmoid(y) : y;
    return now;
}

/* No kernel that may still be running writes the memory, so it is loaded before follow(). */
SL_CUDA_KERNEL_AHEAD(sl_delta_step_joined, sl_delta_joined, STEP_THREADS) {
    __shared__ step_sums parts[STEP_WARPS][4];
    const sl_delta &d = a.d;
    const int blocks = d.dv / SL_DELTA_STEP_COLUMNS, head = (int)blockIdx.x / blocks;
    const int column = (int)blockIdx.x % blocks * SL_DELTA_STEP_COLUMNS + (int)threadIdx.x % 4 * 4;
    const int first = (int)threadIdx.x / 4;
    lead();
    float *memory = delta_memory(d, delta_slot(d, 0), head) + (int64_t)first * d.dv + column;
    float4 m[STEP_ROWS];
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++)
        m[i] = *(const float4 *)(memory + (int64_t)(i * STEP_THREADS / 4) * d.dv);
    follow();
    const step_row now = joined_row(a, head, column);
    const float4 out = step(m, now, parts);
    if (first == 0) *(float4 *)(d.out + delta_value(d, 0, head) + column) = out;
#pragma unroll
    for (int i = 0; i < STEP_ROWS; i++)
        *(float4 *)(memory + (int64_t)(i * STEP_THREADS / 4) * d.dv) = m[i];
}
