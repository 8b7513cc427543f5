/* gemm_half.cu - Products of very many rows of a8 with panels, as halves on tensor cores.
 *
 * With groups that have scales of their own, integers would have to be scaled after every 32
 * columns, which takes longer than multiplying them.  Here weights and activations are scaled first
 * and rounded to halves (by 2^-12 at most, where codes of 8 bits are off by 2^-8), and sums stay in
 * the tensor cores' registers from the first column to the last.
 *
 * A block of four warps takes 128 tokens by 8 panels (128 rows), of which a warp has two.  A lane
 * reads of a panel what it needs of matrix a, as in gemm.cuh: its columns 8c to 8c+7 stand in the
 * places of two products of 16 columns, in both matrices.  So a token's columns of a group are 16
 * bytes in a row for each lane. */
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/panel.cuh"

enum { HALF_THREADS = SL_HALF_WARPS * WARP };

/* ---- tokens ---- */

/* A block is a token. */
SL_CUDA_KERNEL(sl_rows_to_halves, sl_to_halves) {
    const int64_t row = (int64_t)blockIdx.x * a.x.groups;
    float largest = 0;
    for (int g = (int)threadIdx.x; g < a.x.groups; g += (int)blockDim.x)
        largest = fmaxf(largest, fabsf(a.x.scales[row + g]));
    largest = block_max(largest);
    /* 127 times the largest scale is below 2^15 then; of 0, infinity and NaN as they are. */
    const int exponent = (int)(__float_as_uint(largest) >> 23) - 127;
    const bool ordinary = exponent > -100 && exponent < 128;
    const int shift = ordinary ? exponent - 7 : 0;
    const float by = __uint_as_float((unsigned)(127 - shift) << 23);
    if (threadIdx.x == 0)
        a.factors[blockIdx.x] = __uint_as_float((unsigned)(127 + shift - SL_HALF_SHIFT) << 23);
    for (int i = (int)threadIdx.x; i < a.x.groups * 4; i += (int)blockDim.x) {
        const float scale = a.x.scales[row + i / 4] * by;
        const uint2 codes = ((const uint2 *)(a.x.codes + row * 32))[i];
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const unsigned four = j < 2 ? codes.x : codes.y;
            const int low = (int8_t)(four >> 16 * (j % 2)),
                      high = (int8_t)(four >> (16 * (j % 2) + 8));
            words[j] = f16_pair(scale * (float)low, scale * (float)high);
        }
        ((uint4 *)(a.halves + row * 32))[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* ---- stages ---- */

template <class TYPE> struct half_stage {
    enum { BLOCK_BYTES = 64 + SL_HALF_GROUPS * TYPE::GROUP_BYTES };
    uint8_t blocks[SL_HALF_PANELS][BLOCK_BYTES];
    uint8_t above[SL_HALF_PANELS][64];
    /* Of a token the 16 bytes of each lane and group; those of odd tokens with the groups the other
     * way round, so that eight lanes read from all banks. */
    uint4 tokens[SL_HALF_TOKENS][SL_HALF_GROUPS * 4];
};
DEVICE int token_place(int token, int chunk) {
    return chunk ^ token % 2 * 4;
}

/* A warp copies panels of its own, and of tokens 16 bytes in turn. */
enum { OWN_PANELS = SL_HALF_PANELS / SL_HALF_WARPS };
struct half_sources {
    const uint8_t *panels[OWN_PANELS], *above[OWN_PANELS];
};

template <class TYPE>
DEVICE void stage_half(half_stage<TYPE> *to, const sl_gemm_halves &a, const half_sources &f,
                       int first, int group) {
    typedef half_stage<TYPE> stage;
    const int thread = (int)threadIdx.x, lane = lane_id();
    const uint32_t offset = block_offset(a.w, group) + 16 * lane;
    const uint32_t over = (uint32_t)(group / SL_CUDA_SUPER_GROUPS) * TYPE::above_step(a.w);
#pragma unroll
    for (int m = 0; m < OWN_PANELS; m++) {
        const int panel = warp_id() * OWN_PANELS + m;
#pragma unroll
        for (int i = 0; i < stage::BLOCK_BYTES; i += 16 * WARP)
            if (i + 16 * lane < stage::BLOCK_BYTES)
                copy_async<16>(to->blocks[panel] + i + 16 * lane, f.panels[m] + offset + i);
        if (TYPE::ABOVE_BYTES == 8 && lane == 0) copy_async<8>(to->above[panel], f.above[m] + over);
        if (TYPE::ABOVE_BYTES == 64 && lane < 4)
            copy_async<16>(to->above[panel] + 16 * lane, f.above[m] + over + 16 * lane);
    }
    const int chunk = thread % 8;
    const uint4 *x = (const uint4 *)a.x + (int64_t)group * 4 + chunk;
    const bool in_group = group + chunk / 4 < a.w.groups;
#pragma unroll
    for (int i = 0; i < SL_HALF_TOKENS * 8 / HALF_THREADS; i++) {
        const int token = thread / 8 + i * (HALF_THREADS / 8);
        const bool there = in_group && first + token < a.tokens;
        copy_start(&to->tokens[token][token_place(token, chunk)],
                   there ? x + (int64_t)(first + token) * a.w.groups * 4 : (const uint4 *)a.x,
                   there);
    }
}

/* ---- products ---- */

/* Of a word of signed bytes, 128 added to each, byte i: as the last digits of a float. */
DEVICE float byte_of(unsigned four, int i) {
    return __uint_as_float(__byte_perm(four, 0x4b000000u, 0x7540u + (unsigned)i)) - 8388736.0f;
}
/* Two of them as weights, a pair of halves. */
DEVICE unsigned weight_pair(unsigned four, int first, params w) {
    return f16_pair(w.scale * byte_of(four, first) - w.minimum,
                    w.scale * byte_of(four, first + 1) - w.minimum);
}

/* What a lane has of a panel's group: matrix a of two products. */
struct half_weights {
    unsigned a[2][4];
};
template <class TYPE>
DEVICE half_weights load_weights(const half_stage<TYPE> *from, int panel, int g) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const uint8_t *block = from->blocks[panel], *codes = block + 64 + g * TYPE::GROUP_BYTES;
    half_weights w;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        params p = TYPE::of(block, g, from->above[panel], r + 8 * i, TYPE::HALVES ? c / 2 : 0);
        const uint2 eight = TYPE::codes(codes, r + 8 * i, c);
        p.scale *= (float)(1 << SL_HALF_SHIFT);
        p.minimum *= TYPE::MINIMUM ? (float)(1 << SL_HALF_SHIFT) : 0.0f;
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const unsigned four = (s ? eight.y : eight.x) ^ 0x80808080u;
            w.a[s][i] = weight_pair(four, 0, p);
            w.a[s][2 + i] = weight_pair(four, 2, p);
        }
    }
    return w;
}

enum { WARP_TOKENS = SL_HALF_TOKENS * 4 / SL_HALF_WARPS, HALF_SPANS = WARP_TOKENS / 8 };
struct half_sums {
    float y[2][HALF_SPANS][4];
};

template <class TYPE>
DEVICE void half_group(half_sums *sums, const half_stage<TYPE> *from, int panel, int first, int g) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    half_weights w[2];
#pragma unroll
    for (int m = 0; m < 2; m++) w[m] = load_weights<TYPE>(from, panel + m, g);
#pragma unroll
    for (int n = 0; n < HALF_SPANS; n++) {
        const int token = first + 8 * n + r;
        const uint4 x = from->tokens[token][token_place(token, 4 * g + c)];
        const unsigned b[2][2] = {{x.x, x.y}, {x.z, x.w}};
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int s = 0; s < 2; s++) mma_f16(sums->y[m][n], w[m].a[s], b[s]);
    }
}

/* Blocks are (rows, tokens, parts of the columns). */
template <class TYPE> DEVICE void gemm_halves(const sl_gemm_halves &a) {
    static_assert(sizeof(half_stage<TYPE>) == SL_HALF_STAGE_BYTES(TYPE::GROUP_BYTES),
                  "as plans have it");
    SL_DYNAMIC_SHARED(half_stage<TYPE>, stages);
    const int first = (int)blockIdx.y * SL_HALF_TOKENS;
    half_sources f;
#pragma unroll
    for (int m = 0; m < OWN_PANELS; m++) {
        const int panel = (int)blockIdx.x * SL_HALF_PANELS + warp_id() * OWN_PANELS + m;
        const int there = min(panel, (a.w.rows - 1) / 16);
        f.panels[m] = panel_at(a.w, there);
        f.above[m] = TYPE::above(a.w, there, f.panels[m], 0);
    }
    const int begin = (int)blockIdx.z * a.part_groups;
    const int end = min(begin + a.part_groups, a.w.groups);
    half_sums sums = {};
    for (int i = 0; i < SL_HALF_STAGES - 1; i++) {
        const int group = begin + i * SL_HALF_GROUPS;
        if (group < end) stage_half<TYPE>(&stages[i], a, f, first, group);
        copy_commit();
    }
    int now = 0;
#pragma unroll 1
    for (int group = begin; group < end; group += SL_HALF_GROUPS) {
        copy_wait<SL_HALF_STAGES - 2>();
        __syncthreads(); /* this stage is there; the one before is no longer read */
        const int ahead = group + (SL_HALF_STAGES - 1) * SL_HALF_GROUPS;
        if (ahead < end)
            stage_half<TYPE>(&stages[now == 0 ? SL_HALF_STAGES - 1 : now - 1], a, f, first, ahead);
        copy_commit();
#pragma unroll
        for (int g = 0; g < SL_HALF_GROUPS; g++)
            if (group + g < end)
                half_group<TYPE>(&sums, &stages[now], 2 * (warp_id() % 4),
                                 warp_id() / 4 * WARP_TOKENS, g);
        now = now == SL_HALF_STAGES - 1 ? 0 : now + 1;
    }
    const int r = lane_id() / 4, c = lane_id() % 4;
    const int row = ((int)blockIdx.x * SL_HALF_PANELS + 2 * (warp_id() % 4)) * 16 + r;
    const int token = first + warp_id() / 4 * WARP_TOKENS + 2 * c;
    float *out = a.out + blockIdx.z * (a.tokens * a.out_stride);
#pragma unroll
    for (int n = 0; n < HALF_SPANS; n++)
#pragma unroll
        for (int t = 0; t < 2; t++) {
            if (token + 8 * n + t >= a.tokens) continue;
            const float factor = a.factors[token + 8 * n + t];
            float *to = out + (token + 8 * n + t) * a.out_stride;
#pragma unroll
            for (int i = 0; i < 4; i++) /* two panels, two rows of each */
                if (row + 8 * i < a.w.rows)
                    to[row + 8 * i] = factor * sums.y[i / 2][n][i % 2 * 2 + t];
        }
}

/* Two blocks are on a multiprocessor, which bounds registers. */
#define GEMM_HALVES(TYPE, ...)                                                                     \
    SL_CUDA_KERNEL(sl_gemm_halves_##TYPE, sl_gemm_halves, 2 * HALF_THREADS) {                      \
        gemm_halves<type_##TYPE>(a);                                                               \
    }
SL_PANEL_TYPES(GEMM_HALVES)
