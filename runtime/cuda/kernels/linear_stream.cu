/* linear_stream.cu - GEMV of one f32 row with a q8 matrix that has far more panels than the device
 * has warps, such as the output head; limited by memory bandwidth.
 *
 * A warp takes panel after panel, in stages of SL_STREAM_BLOCKS blocks that are double-buffered in
 * its own shared memory.  x is quantised to 24-bit integers relative to the largest value of its
 * group, stored as three planes of bytes: dp4a then does four products per instruction, and results
 * have the precision of f32 except for the last bits.  A lane has a row of the panel and every
 * second word of it, which avoids bank conflicts. */
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/panel.cuh"
#include "runtime/cuda/kernels/rows.cuh"

enum {
    BLOCK_BYTES = SL_STREAM_BLOCK_BYTES,
    GROUP_BYTES = type_q8::GROUP_BYTES,
    STAGE_BYTES = SL_STREAM_STAGE_BYTES,
    HALF_WORDS = type_q8::WORDS / 2, /* of a group, per lane */
    PARTS = 3
};

/* A group of x: planes of bytes, the most significant first, each with its even words before the
 * odd ones. */
struct stream_group {
    unsigned words[PARTS][2][HALF_WORDS];
};
struct stream_room {
    stream_group *x;
    float *scales; /* per group */
    uint8_t *stages;
};

/* ---- x ---- */

/* Quantises a group of x, one column per lane. */
DEVICE void put_group(const stream_room &to, int group, float x) {
    const float top = 127.0f * 65536.0f; /* keeps the high byte within 127 */
    const int most = most_of_lanes<WARP>(size_bits(x));
    const float whole = top / __int_as_float(most);
    const bool fits = most < INFINITE_BITS && size_bits(whole) < INFINITE_BITS;
    int code = fits ? __float2int_rn(x * whole) : 0;
    const int lane = lane_id(), word = lane / 4;
#pragma unroll
    for (int p = PARTS - 1; p >= 0; p--) {
        const int byte = (int)(int8_t)code;
        ((int8_t *)&to.x[group].words[p][word % 2][word / 2])[lane % 4] = (int8_t)byte;
        code = (code - byte) >> 8;
    }
    const float scale =
        most < INFINITE_BITS ? __int_as_float(most) / top : __int_as_float(0x7fc00000);
    if (lane == 0) to.scales[group] = fits || most >= INFINITE_BITS ? scale : 0.0f;
}
DEVICE void put_row(const sl_linear_stream &a, const stream_room &to) {
    const int warps = (int)blockDim.x / WARP;
    for (int group = warp_id(); group < a.w.groups; group += warps) {
        const int column = group * SL_CUDA_GROUP_COLS + lane_id();
        put_group(to, group, column < a.w.cols ? a.x[column] : 0.0f);
    }
}

/* ---- stages ---- */

/* A warp's position: a stage of a panel. */
struct stream_place {
    int panel, stage;
};
DEVICE void go_on(const sl_linear_stream &a, stream_place *p) {
    if (++p->stage < a.stages) return;
    p->stage = 0;
    p->panel += (int)(gridDim.x * (blockDim.x / WARP));
}
DEVICE void ask_stage(const sl_linear_stream &a, uint8_t *to, const stream_place &p) {
    if (p.panel < a.panels) {
        const uint32_t before = (uint32_t)p.stage * STAGE_BYTES;
        const uint32_t bytes = min((uint32_t)a.w.panel_bytes - before, (uint32_t)STAGE_BYTES);
        const uint8_t *from = panel_at(a.w, p.panel) + before;
        const shared_place place = shared_place_of(to);
#pragma unroll 4
        for (uint32_t i = 16 * (uint32_t)lane_id(); i < bytes; i += 16 * WARP)
            copy_to<16>(place + i, from + i);
    }
    copy_commit();
}

/* ---- products ---- */

DEVICE float group_sum(const uint8_t *codes, const stream_group &x, int row, int odd) {
    unsigned w[HALF_WORDS];
    int sums[PARTS];
#pragma unroll
    for (int i = 0; i < HALF_WORDS; i++) w[i] = ((const unsigned *)codes)[row + 16 * (2 * i + odd)];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const uint4 own = *(const uint4 *)x.words[p][odd];
        const unsigned words[HALF_WORDS] = {own.x, own.y, own.z, own.w};
        sums[p] = 0;
#pragma unroll
        for (int i = 0; i < HALF_WORDS; i++) sums[p] = __dp4a((int)w[i], (int)words[i], sums[p]);
    }
    return fmaf(65536.0f, (float)sums[0], (float)(256 * sums[1] + sums[2]));
}

DEVICE float stage_sum(const sl_linear_stream &a, const stream_room &r, const uint8_t *stage,
                       int first) {
    const int row = lane_id() % 16, odd = lane_id() / 16;
    const int end = min((int)SL_STREAM_BLOCKS, (a.w.groups + 1) / 2 - first);
    float sum = 0;
#pragma unroll 2
    for (int b = 0; b < end; b++)
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint8_t *block = stage + b * BLOCK_BYTES;
            const int group = 2 * (first + b) + k;
            if (group >= a.w.groups) continue;
            const float scale = load_f16(block + 32 * k, row) * r.scales[group];
            sum = fmaf(scale, group_sum(block + 64 + k * GROUP_BYTES, r.x[group], row, odd), sum);
        }
    return sum;
}

SL_CUDA_KERNEL_AHEAD(sl_linear_stream_q8, sl_linear_stream, SL_STREAM_WARPS *WARP) {
    SL_DYNAMIC_SHARED(uint8_t, shared);
    const int warps = (int)blockDim.x / WARP;
    stream_room r;
    r.stages = shared + warp_id() * 2 * STAGE_BYTES;
    r.x = (stream_group *)(shared + warps * 2 * STAGE_BYTES);
    r.scales = (float *)(r.x + a.w.groups);
    stream_place now = {(int)blockIdx.x * warps + warp_id(), 0}, next = now;
    lead();
    for (int i = 0; i < 2; i++) {
        ask_stage(a, r.stages + i * STAGE_BYTES, next);
        go_on(a, &next);
    }
    follow();
    put_row(a, r);
    __syncthreads();
    float sum = 0;
    for (int turn = 0; now.panel < a.panels; turn ^= 1) {
        uint8_t *stage = r.stages + turn * STAGE_BYTES;
        copy_wait<1>();
        __syncwarp();
        sum += stage_sum(a, r, stage, now.stage * SL_STREAM_BLOCKS);
        __syncwarp();
        ask_stage(a, stage, next);
        go_on(a, &next);
        if (now.stage == a.stages - 1) {
            const int row = now.panel * SL_CUDA_PANEL_ROWS + lane_id();
            sum += __shfl_xor_sync(ALL_LANES, sum, 16);
            if (lane_id() < SL_CUDA_PANEL_ROWS && row < a.w.rows) a.out[row] = sum;
            sum = 0;
        }
        go_on(a, &now);
    }
    copy_wait_all();
}
