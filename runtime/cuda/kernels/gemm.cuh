/* gemm.cuh - A tile of products of panels with rows of a8, by int8 tensor cores.
 *
 * A block of four warps takes 8 panels (128 rows) by 64 tokens; a warp two panels by all tokens.  A
 * panel's words are what a lane needs of matrix a: with r = lane / 4 and c = lane % 4 the columns
 * 8c to 8c+3 stand in the place of 4c to 4c+3, and 8c+4 to 8c+7 in that of 16+4c and on, in both
 * matrices.  Of each group the sum of products is a whole number, which is then scaled and added.
 * Weights and tokens come in stages of four groups, three of them in flight. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_CUH
#define SL_RUNTIME_CUDA_KERNELS_GEMM_CUH
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/gemm.h"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/panel.cuh"

enum {
    GEMM_THREADS = SL_GEMM_WARPS * WARP,
    GEMM_PANELS = SL_GEMM_PANELS,
    GEMM_ROWS = GEMM_PANELS * 16,
    GEMM_TOKENS = SL_GEMM_TOKENS,
    GEMM_GROUPS = SL_GEMM_GROUPS,
    GEMM_STAGES = SL_GEMM_STAGES,
    GEMM_SPANS = GEMM_TOKENS / 8 /* of 8 tokens */
};

template <class TYPE> struct gemm_stage {
    enum { BLOCK_BYTES = 64 + 2 * TYPE::GROUP_BYTES, PANEL_BYTES = GEMM_GROUPS / 2 * BLOCK_BYTES };
    uint8_t blocks[GEMM_PANELS][PANEL_BYTES];
    uint8_t above[GEMM_PANELS][64];
    int8_t codes[GEMM_TOKENS][SL_GEMM_PITCH];
    float scales[GEMM_GROUPS][SL_GEMM_PARAM_PITCH];
    float sums[GEMM_GROUPS][SL_GEMM_PARAM_PITCH];
    float halves[GEMM_GROUPS][SL_GEMM_PARAM_PITCH];
};

/* The weights of a tile: a panel's blocks, and its place in a plane of headers. */
struct gemm_panel {
    const uint8_t *data, *at;
    int panel, reserved;
};

template <class TYPE> struct gemm_shared {
    gemm_stage<TYPE> stages[GEMM_STAGES];
    params rows[GEMM_GROUPS][TYPE::HALVES + 1][GEMM_ROWS];
    gemm_panel panels[GEMM_PANELS];
    int tokens[GEMM_TOKENS]; /* rows of x; -1: none */
};

/* What a lane has of the results: of the warp's panel m, span n: rows r and r + 8 of tokens 2c and
 * 2c + 1, like d in mma.cuh. */
struct gemm_sums {
    float y[2][GEMM_SPANS][4];
};

/* ---- stages ---- */

template <class TYPE>
DEVICE void stage_panels(gemm_shared<TYPE> *s, gemm_stage<TYPE> *to, const sl_cuda_panels &w,
                         int group) {
    typedef gemm_stage<TYPE> stage;
    enum { PIECES = stage::PANEL_BYTES / 16 };
    const int there = min((w.groups - group + 1) / 2, GEMM_GROUPS / 2) * stage::BLOCK_BYTES / 16;
    for (int panel = warp_id(); panel < GEMM_PANELS; panel += SL_GEMM_WARPS) {
        const uint8_t *at = s->panels[panel].at;
        SL_IN_GLOBAL(at);
        const uint8_t *from = at + block_offset(w, group);
#pragma unroll
        for (int i = 0; i < (PIECES + WARP - 1) / WARP; i++) {
            const int piece = i * WARP + lane_id();
            if (piece < there) copy_async<16>(to->blocks[panel] + 16 * piece, from + 16 * piece);
        }
        if (TYPE::ABOVE_BYTES == 0) continue;
        sl_cuda_panels own = w;
        own.data = s->panels[panel].data;
        const uint8_t *above = TYPE::above(own, s->panels[panel].panel, at, group);
        if (TYPE::ABOVE_BYTES == 8 && lane_id() == 0) copy_async<8>(to->above[panel], above);
        if (TYPE::ABOVE_BYTES == 64 && lane_id() < 4)
            copy_async<16>(to->above[panel] + 16 * lane_id(), above + 16 * lane_id());
    }
}

template <class TYPE>
DEVICE void stage_tokens(gemm_shared<TYPE> *s, gemm_stage<TYPE> *to, const sl_cuda_rows8 &x,
                         int group) {
    const int there = min(x.groups - group, (int)GEMM_GROUPS);
    const int thread = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < GEMM_TOKENS * GEMM_GROUPS * 2 / GEMM_THREADS; i++) {
        const int token = (i * GEMM_THREADS + thread) / 8, piece = thread % 8;
        const int row = s->tokens[token];
        if (row >= 0 && piece / 2 < there)
            copy_async<16>(to->codes[token] + 16 * piece,
                           x.codes + ((int64_t)row * x.groups + group) * 32 + 16 * piece);
    }
#pragma unroll
    for (int i = 0; i < GEMM_TOKENS * GEMM_GROUPS / GEMM_THREADS; i++) {
        const int token = (i * GEMM_THREADS + thread) / GEMM_GROUPS, g = thread % GEMM_GROUPS;
        const int row = s->tokens[token];
        if (row < 0 || g >= there) continue;
        const int64_t at = (int64_t)row * x.groups + group + g;
        copy_async<4>(&to->scales[g][token], x.scales + at);
        if (TYPE::MINIMUM) copy_async<4>(&to->sums[g][token], x.sums + at);
        if (TYPE::HALVES) copy_async<4>(&to->halves[g][token], x.halves + at);
    }
}

/* Scales and minima of the rows, a thread for each row. */
template <class TYPE>
DEVICE void stage_params(gemm_shared<TYPE> *s, const gemm_stage<TYPE> *from) {
    const int panel = (int)threadIdx.x / 16, row = (int)threadIdx.x % 16;
#pragma unroll
    for (int g = 0; g < GEMM_GROUPS; g++)
#pragma unroll
        for (int half = 0; half <= TYPE::HALVES; half++)
            s->rows[g][half][threadIdx.x] =
                TYPE::of(from->blocks[panel] + g / 2 * gemm_stage<TYPE>::BLOCK_BYTES, g % 2,
                         from->above[panel], row, half);
}

/* ---- products ---- */

/* The sum of products is added to 3 * 2^22 as integers, which as a float is 12582912 + itself. */
DEVICE void gemm_whole(float (&whole)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    int d[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};
    mma_s8(d, a, b);
#pragma unroll
    for (int i = 0; i < 4; i++) whole[i] = __int_as_float(d[i]) - 12582912.0f;
}

/* y += scale of the token * (scale of the row * whole - minimum of the row * sum); `sums` come
 * multiplied with the token's scale. */
template <class TYPE>
DEVICE void gemm_add(float (&y)[4], const float (&whole)[4], const params (&rows)[2],
                     float2 scales, float2 sums) {
    y[0] += whole[0] * (rows[0].scale * scales.x);
    y[1] += whole[1] * (rows[0].scale * scales.y);
    y[2] += whole[2] * (rows[1].scale * scales.x);
    y[3] += whole[3] * (rows[1].scale * scales.y);
    if (!TYPE::MINIMUM) return;
    y[0] -= rows[0].minimum * sums.x;
    y[1] -= rows[0].minimum * sums.y;
    y[2] -= rows[1].minimum * sums.x;
    y[3] -= rows[1].minimum * sums.y;
}

/* What a lane has of a panel's group. */
template <class TYPE> struct gemm_weights {
    unsigned a[4];
    params rows[TYPE::HALVES + 1][2];
};
template <class TYPE>
DEVICE gemm_weights<TYPE> gemm_load(const gemm_shared<TYPE> *s, const gemm_stage<TYPE> *from,
                                    int panel, int g) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const uint8_t *codes = from->blocks[panel] + g / 2 * gemm_stage<TYPE>::BLOCK_BYTES + 64 +
                           g % 2 * TYPE::GROUP_BYTES;
    const uint2 low = TYPE::codes(codes, r, c), high = TYPE::codes(codes, r + 8, c);
    gemm_weights<TYPE> w = {{low.x, high.x, low.y, high.y}, {}};
#pragma unroll
    for (int half = 0; half <= TYPE::HALVES; half++)
#pragma unroll
        for (int i = 0; i < 2; i++) w.rows[half][i] = s->rows[g][half][panel * 16 + r + 8 * i];
    return w;
}

template <class TYPE>
DEVICE void gemm_span(float (&y)[4], const gemm_weights<TYPE> &w, const unsigned (&b)[2],
                      float2 scales, const float2 (&sums)[2]) {
    float whole[4];
    if (!TYPE::HALVES) {
        gemm_whole(whole, w.a, b);
        gemm_add<TYPE>(y, whole, w.rows[0], scales, sums[0]);
        return;
    }
    const bool first = lane_id() % 4 < 2; /* columns 0 to 15 */
#pragma unroll
    for (int half = 0; half <= TYPE::HALVES; half++) {
        const unsigned keep = first == (half == 0) ? ~0u : 0u;
        const unsigned a[4] = {w.a[0] & keep, w.a[1] & keep, w.a[2] & keep, w.a[3] & keep};
        gemm_whole(whole, a, b);
        gemm_add<TYPE>(y, whole, w.rows[half], scales, sums[half]);
    }
}

DEVICE float2 times(float2 x, float2 y) {
    return make_float2(x.x * y.x, x.y * y.y);
}

/* One group of the warp's two panels by the first `tokens` tokens. */
template <class TYPE>
DEVICE void gemm_group(gemm_sums *sums, const gemm_shared<TYPE> *s, const gemm_stage<TYPE> *from,
                       int g, int tokens) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    gemm_weights<TYPE> w[2];
#pragma unroll
    for (int m = 0; m < 2; m++) w[m] = gemm_load<TYPE>(s, from, 2 * warp_id() + m, g);
#pragma unroll
    for (int n = 0; n < GEMM_SPANS; n++) {
        if (8 * n >= tokens) break;
        const uint2 codes = *(const uint2 *)(from->codes[8 * n + r] + 32 * g + 8 * c);
        const unsigned b[2] = {codes.x, codes.y};
        const float2 scales = *(const float2 *)&from->scales[g][8 * n + 2 * c];
        float2 added[2] = {};
        if (TYPE::MINIMUM) added[0] = times(scales, *(const float2 *)&from->sums[g][8 * n + 2 * c]);
        if (TYPE::HALVES) {
            const float2 all = added[0];
            added[0] = times(scales, *(const float2 *)&from->halves[g][8 * n + 2 * c]);
            added[1] = make_float2(all.x - added[0].x, all.y - added[0].y);
        }
#pragma unroll
        for (int m = 0; m < 2; m++) gemm_span<TYPE>(sums->y[m][n], w[m], b, scales, added);
    }
}

/* The whole tile: s->panels and s->tokens are set by any threads of the block; w says how the
 * matrices are laid out.  Ends with a barrier, after which shared memory is free. */
template <class TYPE>
DEVICE void gemm_tile(gemm_shared<TYPE> *s, const sl_cuda_panels &w, const sl_cuda_rows8 &x,
                      int tokens, gemm_sums *out) {
    static_assert(sizeof(gemm_shared<TYPE>) ==
                      SL_GEMM_SHARED_BYTES(TYPE::GROUP_BYTES, TYPE::HALVES),
                  "as plans have it");
    static_assert(GEMM_STAGES == 3, "one is used, two are on their way");
    *out = {};
    __syncthreads();
    for (int i = 0; i < GEMM_STAGES - 1; i++) {
        if (i * GEMM_GROUPS < w.groups) {
            stage_panels<TYPE>(s, &s->stages[i], w, i * GEMM_GROUPS);
            stage_tokens<TYPE>(s, &s->stages[i], x, i * GEMM_GROUPS);
        }
        copy_commit();
    }
    int now = 0;
    for (int group = 0; group < w.groups; group += GEMM_GROUPS) {
        const int ahead = group + (GEMM_STAGES - 1) * GEMM_GROUPS;
        const gemm_stage<TYPE> *from = &s->stages[now];
        gemm_stage<TYPE> *to = &s->stages[now == 0 ? GEMM_STAGES - 1 : now - 1];
        copy_wait<GEMM_STAGES - 2>();
        __syncthreads(); /* this stage is there; the one before is no longer read */
        if (ahead < w.groups) {
            stage_panels<TYPE>(s, to, w, ahead);
            stage_tokens<TYPE>(s, to, x, ahead);
        }
        copy_commit();
        stage_params<TYPE>(s, from);
        __syncthreads();
        const int end = min(w.groups - group, (int)GEMM_GROUPS);
#pragma unroll 1
        for (int g = 0; g < end; g++) gemm_group<TYPE>(out, s, from, g, tokens);
        now = now == GEMM_STAGES - 1 ? 0 : now + 1;
    }
    copy_wait<0>();
    __syncthreads();
}

/* Gives all results that are there to write(token of the tile, row of the matrix, value). */
template <class WRITE>
DEVICE void gemm_write(const gemm_sums &sums, int tokens, int rows, WRITE write) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const int first = ((int)blockIdx.x * GEMM_PANELS + 2 * warp_id()) * 16 + r;
#pragma unroll
    for (int n = 0; n < GEMM_SPANS; n++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int token = 8 * n + 2 * c + i % 2, row = first + 8 * (i / 2);
            if (token < tokens && row < rows) write(token, row, sums.y[i / 4][n][i % 4]);
        }
}
#endif
