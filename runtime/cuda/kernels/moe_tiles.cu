/* moe_tiles.cu - Many pairs through their experts: one GEMM tile (gemm_half.cuh) per tile of pairs
 * of an expert. */
#include "runtime/cuda/kernels/gemm_half.cuh"
#include "runtime/cuda/kernels/moe.cuh"

/* ---- up: four panels of gate beside the same four of up; the epilogue is swiglu and a8 ---- */

enum { UP_PANELS = SL_HALF_PANELS / 2, UP_ROWS = UP_PANELS * 16, UP_PITCH = UP_ROWS + 4 };

/* Epilogue: swiglu of the lane's accumulators into values[token][row of the tile]; only `left` rows
 * are in the matrix.  The tile's biases begin at `first`. */
template <class TYPE>
DEVICE void put_values(float *values, const half_sums<TYPE> &sums, const int *rows, int tokens,
                       int left, const sl_moe_up &a, int64_t first) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const bool limited = a.act.limit > 0.0f;
    float gate_bias[2] = {0, 0}, up_bias[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int row = warp_id() * 16 + r + 8 * i;
        if (!limited || row >= left) continue;
        gate_bias[i] = a.gate_bias[first + row];
        up_bias[i] = a.up_bias[first + row];
    }
#pragma unroll
    for (int n = 0; n < TYPE::SPANS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int token = 8 * n + 2 * c + i % 2, row = warp_id() * 16 + r + 8 * (i / 2);
            if (token >= tokens) continue;
            const float factor = a.halves.factors[rows[token]];
            const float gate = factor * sums.y[0][n][i], up = factor * sums.y[1][n][i];
            float value = 0.0f;
            if (row < left && limited)
                value = limited_swiglu(a.act, gate + gate_bias[i / 2], up + up_bias[i / 2]);
            else if (row < left)
                value = swiglu(gate, up);
            values[token * UP_PITCH + row] = value;
        }
}

/* One thread quantises 32 contiguous values to a group of a8. */
DEVICE void write_group8(const sl_cuda_rows8_out &out, int64_t at, const float *values) {
    float x[32], largest = 0, wrong = 0;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
        const float4 four = *(const float4 *)(values + i);
        x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
    }
#pragma unroll
    for (int i = 0; i < 32; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
        wrong += x[i] * 0.0f;
    }
    const a8_scale s = a8_scale_of(largest, wrong);
    unsigned words[8];
    int sums[2] = {0, 0};
#pragma unroll
    for (int w = 0; w < 8; w++) {
        words[w] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int code = a8_code(x[4 * w + i], s);
            sums[w / 4] += code;
            words[w] |= ((unsigned)code & 255) << 8 * i;
        }
    }
    uint4 *codes = (uint4 *)(out.codes + 32 * at);
    codes[0] = make_uint4(words[0], words[1], words[2], words[3]);
    codes[1] = make_uint4(words[4], words[5], words[6], words[7]);
    out.scales[at] = s.scale;
    out.sums[at] = (float)(sums[0] + sums[1]);
    out.halves[at] = (float)sums[0];
}

/* gridDim is (row blocks, tiles). */
template <class TYPE> DEVICE void tiles_up(const sl_moe_up &a) {
    SL_DYNAMIC_SHARED(half_shared<TYPE>, s);
    const sl_moe_tile tile = a.tiles[blockIdx.y];
    const int first = (int)blockIdx.x * UP_PANELS, panel = first + warp_id();
    if (!tile.count) return;
    const uint8_t *expert = (const uint8_t *)a.places.table[tile.expert];
    for (int i = (int)threadIdx.x; i < TYPE::TOKENS; i += HALF_THREADS) {
        const int place = tile.first + min(i, tile.count - 1);
        const int pair =
            checked(a.places.fault, SL_FAULT_PAIR, place, a.places.order[place], a.places.pairs);
        s->tokens[i] = pair / a.places.k;
    }
    half_sums<TYPE> sums;
    half_tile<TYPE>(s, a.w, {{expert + a.gate_offset, panel}, {expert + a.up_offset, panel}},
                    a.halves.data, tile.count, 0, a.w.groups, &sums);
    float *values = (float *)s->stages;
    static_assert(TYPE::TOKENS * UP_PITCH * sizeof(float) <= sizeof s->stages, "there is room");
    put_values<TYPE>(values, sums, s->tokens, tile.count, a.w.rows - first * 16, a,
                     (int64_t)tile.expert * a.w.rows + first * 16);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < TYPE::TOKENS * (UP_ROWS / 32); i += HALF_THREADS) {
        const int token = i % TYPE::TOKENS, part = i / TYPE::TOKENS, group = first / 2 + part;
        if (token < tile.count && group < a.mid.groups)
            write_group8(a.mid, (int64_t)(tile.first + token) * a.mid.groups + group,
                         values + token * UP_PITCH + 32 * part);
    }
}

/* ---- down ---- */

template <class TYPE> DEVICE void tiles_down(const sl_moe_down &a) {
    SL_DYNAMIC_SHARED(half_shared<TYPE>, s);
    __shared__ int pairs[TYPE::TOKENS];
    const sl_moe_tile tile = a.tiles[blockIdx.y];
    if (!tile.count) return;
    const uint8_t *matrix = (const uint8_t *)a.places.table[tile.expert] + a.offset;
    const int panel = (int)blockIdx.x * SL_HALF_PANELS + 2 * warp_id();
    for (int i = (int)threadIdx.x; i < TYPE::TOKENS; i += HALF_THREADS) {
        const int place = tile.first + min(i, tile.count - 1);
        pairs[i] =
            checked(a.places.fault, SL_FAULT_PAIR, place, a.places.order[place], a.places.pairs);
        s->tokens[i] = place;
    }
    half_sums<TYPE> sums;
    half_tile<TYPE>(s, a.w, {{matrix, panel}, {matrix, panel + 1}}, a.halves.data, tile.count, 0,
                    a.w.groups, &sums);
    const float *bias = a.bias ? a.bias + (int64_t)tile.expert * a.w.rows : nullptr;
    half_write<TYPE>(sums, tile.count, a.w.rows, [&](int token, int row, float y) {
        y *= a.halves.factors[tile.first + token];
        a.out[(int64_t)pairs[token] * a.w.rows + row] = bias ? y + bias[row] : y;
    });
}

/* Tiles of many tokens and of few. */
#define TILES(TYPE, ...)                                                                           \
    SL_CUDA_KERNEL(sl_moe_many_up_##TYPE, sl_moe_up, MANY_THREADS) {                               \
        tiles_up<many<type_##TYPE>>(a);                                                            \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_moe_many_down_##TYPE, sl_moe_down, MANY_THREADS) {                           \
        tiles_down<many<type_##TYPE>>(a);                                                          \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_moe_few_up_##TYPE, sl_moe_up, FEW_THREADS) {                                 \
        tiles_up<few<type_##TYPE>>(a);                                                             \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_moe_few_down_##TYPE, sl_moe_down, FEW_THREADS) {                             \
        tiles_down<few<type_##TYPE>>(a);                                                           \
    }
SL_PANEL_TYPES(TILES)
