/* gemm.cuh - A tile of the product of panels with rows of a8, by int8 tensor cores.
 *
 * A block of four warps computes 64 tokens by 8 panels (128 rows), two panels per warp; or, if that
 * leaves too few blocks, by 2 panels, of which each warp takes every fourth group.  A panel's words
 * are in the order that a lane needs for matrix a: with r = lane / 4 and c = lane % 4, columns 8c
 * to 8c+3 take the place of 4c to 4c+3, and 8c+4 to 8c+7 that of 16+4c and on, in both matrices.
 * The sum of products of each group is an integer, which is then scaled and added.  Weights and
 * tokens are loaded in stages of four groups, three of them in flight. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_CUH
#define SL_RUNTIME_CUDA_KERNELS_GEMM_CUH
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/gemm.h"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/panel.cuh"
#include <stddef.h>

enum {
    GEMM_THREADS = SL_GEMM_WARPS * WARP,
    GEMM_GROUPS = SL_GEMM_GROUPS,
    GEMM_STAGES = SL_GEMM_STAGES
};

/* Tokens of a tile, and spans of 8 of them. */
enum { TOKENS = SL_GEMM_TOKENS, SPANS = TOKENS / 8 };

/* TYPE, from here on: a type of panel, and how many of them a tile has. */
template <class T> struct wide : T {
    enum { PANELS = SL_GEMM_WIDE };
};
template <class T> struct narrow : T {
    enum { PANELS = SL_GEMM_NARROW };
};
template <class TYPE> DEVICE constexpr bool is_wide() {
    return TYPE::PANELS == (int)SL_GEMM_WIDE;
}
/* The warp's first panel in the tile. */
template <class TYPE> DEVICE int gemm_first_panel() {
    return is_wide<TYPE>() ? 2 * warp_id() : 0;
}

template <class TYPE> struct gemm_stage {
    enum { BLOCK_BYTES = 64 + 2 * TYPE::GROUP_BYTES, PANEL_BYTES = GEMM_GROUPS / 2 * BLOCK_BYTES };
    uint8_t blocks[TYPE::PANELS][PANEL_BYTES];
    uint8_t above[TYPE::PANELS][64];
    int8_t codes[TOKENS][SL_GEMM_PITCH];
    float scales[GEMM_GROUPS][SL_GEMM_PARAM_PITCH];
    float sums[GEMM_GROUPS][SL_GEMM_PARAM_PITCH];
    float halves[GEMM_GROUPS][SL_GEMM_PARAM_PITCH];
};

template <class TYPE> struct gemm_shared {
    gemm_stage<TYPE> stages[GEMM_STAGES];
    params rows[GEMM_GROUPS][TYPE::HALVES + 1][TYPE::PANELS * 16];
    int tokens[TOKENS]; /* rows of x; -1: none */
};

/* A panel of a matrix that lies at `data`, laid out like all of the tile. */
struct gemm_panel {
    const uint8_t *data;
    int panel;
};

/* What a lane has of the results: of the warp's panel m, span n: rows r and r + 8 of tokens 2c and
 * 2c + 1, like d in mma.cuh. */
template <class TYPE> struct gemm_sums {
    float y[2][SPANS][4];
};

/* ---- stages ---- */

/* What a thread copies of every stage: of the warp's panels, and of tokens in turn 16 bytes of
 * codes, and the parameters of a group. */
template <class TYPE> struct gemm_sources {
    enum {
        CODES = TOKENS * GEMM_GROUPS * 2 / GEMM_THREADS,
        PARAMS = TOKENS * GEMM_GROUPS / GEMM_THREADS,
    };
    const uint8_t *panels[2], *above[2];
    unsigned codes[CODES], params[PARAMS]; /* from the first row; NONE: no such token */
};
#define NONE (~0u)

template <class TYPE>
DEVICE void find_sources(gemm_sources<TYPE> *f, const gemm_shared<TYPE> *s, const sl_cuda_panels &w,
                         const gemm_panel (&panels)[2], const sl_cuda_rows8 &x) {
    const unsigned thread = threadIdx.x, groups = (unsigned)x.groups;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const gemm_panel &from = !is_wide<TYPE>() && warp_id() % 2 ? panels[1] : panels[m];
        sl_cuda_panels own = w;
        own.data = from.data;
        f->panels[m] = panel_at(own, from.panel);
        f->above[m] = TYPE::above(own, from.panel, f->panels[m], 0);
        f->panels[m] += 16 * lane_id();
        if (TYPE::ABOVE_BYTES == 64) f->above[m] += 16 * lane_id();
        SL_KEEP_POINTER(f->panels[m]);
        SL_KEEP_POINTER(f->above[m]);
    }
#pragma unroll
    for (int i = 0; i < gemm_sources<TYPE>::CODES; i++) {
        const int row = s->tokens[(i * GEMM_THREADS + thread) / 8];
        f->codes[i] = row < 0 ? NONE : (unsigned)row * groups * 32 + 16 * (thread % 8);
    }
#pragma unroll
    for (int i = 0; i < gemm_sources<TYPE>::PARAMS; i++) {
        const int row = s->tokens[(i * GEMM_THREADS + thread) / GEMM_GROUPS];
        f->params[i] = row < 0 ? NONE : (unsigned)row * groups + thread % GEMM_GROUPS;
    }
}

/* In a wide tile a warp copies its own panels; in a narrow one a block of one of the two. */
template <class TYPE>
DEVICE void stage_panels(gemm_stage<TYPE> *to, const gemm_sources<TYPE> &f, const sl_cuda_panels &w,
                         int group) {
    typedef gemm_stage<TYPE> stage;
    enum { BYTES = is_wide<TYPE>() ? (int)stage::PANEL_BYTES : (int)stage::BLOCK_BYTES };
    const int skipped = is_wide<TYPE>() ? 0 : warp_id() / 2 * BYTES;
    const int blocks = min((w.groups - group + 1) / 2, GEMM_GROUPS / 2);
    const int there = min(blocks * stage::BLOCK_BYTES - skipped, (int)BYTES) - 16 * lane_id();
    const uint32_t offset = block_offset(w, group) + (uint32_t)skipped;
    const uint32_t above = (uint32_t)(group / SL_CUDA_SUPER_GROUPS) * TYPE::above_step(w);
    const int panel = is_wide<TYPE>() ? 2 * warp_id() : warp_id() % 2;
    shared_place place = shared_place_of(to->blocks[panel] + skipped + 16 * lane_id());
    SL_KEEP_WORD(place);
#pragma unroll
    for (int m = 0; m < (is_wide<TYPE>() ? 2 : 1); m++) {
        const uint8_t *from = f.panels[m] + offset;
        SL_KEEP_POINTER(from);
#pragma unroll
        for (int i = 0; i < BYTES; i += 16 * WARP)
            if (i < there) copy_to<16>(place + m * BYTES + i, from + i);
        if (!is_wide<TYPE>() && warp_id() >= 2) continue; /* another warp copies what is above */
        if (TYPE::ABOVE_BYTES == 8 && lane_id() == 0)
            copy_async<8>(to->above[panel + m], f.above[m] + above);
        if (TYPE::ABOVE_BYTES == 64 && lane_id() < 4)
            copy_async<16>(to->above[panel + m] + 16 * lane_id(), f.above[m] + above);
    }
}

template <class TYPE>
DEVICE void stage_tokens(gemm_stage<TYPE> *to, const gemm_sources<TYPE> &f, const sl_cuda_rows8 &x,
                         int group) {
    typedef gemm_stage<TYPE> stage;
    const int thread = (int)threadIdx.x, there = x.groups - group, g = thread % GEMM_GROUPS;
    const int8_t *codes = x.codes + 32 * group;
    SL_KEEP_POINTER(codes);
    shared_place place = shared_place_of(to->codes[thread / 8] + 16 * (thread % 8));
    SL_KEEP_WORD(place);
    if (thread % 8 / 2 < there)
#pragma unroll
        for (int i = 0; i < gemm_sources<TYPE>::CODES; i++)
            if (f.codes[i] != NONE)
                copy_to<16>(place + i * (GEMM_THREADS / 8) * SL_GEMM_PITCH, codes + f.codes[i]);
    if (g >= there) return;
    place = shared_place_of(&to->scales[g][thread / GEMM_GROUPS]);
    SL_KEEP_WORD(place);
    const float *scales = x.scales + group, *sums = x.sums + group, *halves = x.halves + group;
#pragma unroll
    for (int i = 0; i < gemm_sources<TYPE>::PARAMS; i++) {
        const int at = i * (GEMM_THREADS / GEMM_GROUPS) * 4;
        if (f.params[i] == NONE) continue;
        copy_to<4>(place + at, scales + f.params[i]);
        if (TYPE::MINIMUM) copy_to<4>(place + at + sizeof(to->scales), sums + f.params[i]);
        if (TYPE::HALVES) copy_to<4>(place + at + 2 * sizeof(to->scales), halves + f.params[i]);
    }
    static_assert(offsetof(stage, sums) == offsetof(stage, scales) + sizeof(stage::scales) &&
                      offsetof(stage, halves) == offsetof(stage, sums) + sizeof(stage::sums),
                  "one plane after another");
}
#undef NONE

/* Scales and minima of the rows: a thread for each row, or for each row and group. */
template <class TYPE>
DEVICE void stage_params(gemm_shared<TYPE> *s, const gemm_stage<TYPE> *from) {
    enum { ROWS = TYPE::PANELS * 16, STEP = GEMM_THREADS / ROWS };
    const int at = (int)threadIdx.x % ROWS, panel = at / 16, row = at % 16;
#pragma unroll
    for (int i = 0; i < GEMM_GROUPS; i += STEP)
#pragma unroll
        for (int half = 0; half <= TYPE::HALVES; half++) {
            const int g = i + (int)threadIdx.x / ROWS;
            s->rows[g][half][at] =
                TYPE::of(from->blocks[panel] + g / 2 * gemm_stage<TYPE>::BLOCK_BYTES, g % 2,
                         from->above[panel], row, half);
        }
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

/* What a lane has of 8 tokens' group. */
template <class TYPE> struct gemm_tokens {
    unsigned b[2];
    float2 scales, sums[2]; /* sums: of halves where there are scales of halves */
};
template <class TYPE>
DEVICE gemm_tokens<TYPE> gemm_load_tokens(const gemm_stage<TYPE> *from, int g, int first) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const uint2 codes = *(const uint2 *)(from->codes[first + r] + 32 * g + 8 * c);
    gemm_tokens<TYPE> t = {{codes.x, codes.y}, {}, {}};
    t.scales = *(const float2 *)&from->scales[g][first + 2 * c];
    if (TYPE::MINIMUM) t.sums[0] = times(t.scales, *(const float2 *)&from->sums[g][first + 2 * c]);
    if (!TYPE::HALVES) return t;
    const float2 all = t.sums[0];
    t.sums[0] = times(t.scales, *(const float2 *)&from->halves[g][first + 2 * c]);
    t.sums[1] = make_float2(all.x - t.sums[0].x, all.y - t.sums[0].y);
    return t;
}

/* One group of the warp's two panels by the first `tokens` tokens, 16 at a time. */
template <class TYPE>
DEVICE void gemm_group(gemm_sums<TYPE> *sums, const gemm_shared<TYPE> *s,
                       const gemm_stage<TYPE> *from, int g, int tokens) {
    gemm_weights<TYPE> w[2];
#pragma unroll
    for (int m = 0; m < 2; m++) w[m] = gemm_load<TYPE>(s, from, gemm_first_panel<TYPE>() + m, g);
#pragma unroll
    for (int n = 0; n < SPANS; n += 2) {
        if (8 * n >= tokens) break;
        gemm_tokens<TYPE> t[2];
#pragma unroll
        for (int i = 0; i < 2; i++) t[i] = gemm_load_tokens<TYPE>(from, g, 8 * (n + i));
#pragma unroll
        for (int i = 0; i < 4; i++)
            gemm_span<TYPE>(sums->y[i % 2][n + i / 2], w[i % 2], t[i / 2].b, t[i / 2].scales,
                            t[i / 2].sums);
    }
}

template <class TYPE>
DEVICE void gemm_stage_all(gemm_shared<TYPE> *s, int stage, const gemm_sources<TYPE> &f,
                           const sl_cuda_panels &w, const sl_cuda_rows8 &x, int group) {
    if (group < w.groups) {
        stage_panels<TYPE>(&s->stages[stage], f, w, group);
        stage_tokens<TYPE>(&s->stages[stage], f, x, group);
    }
    copy_commit();
}

/* Of a narrow tile: what all warps have of spans 2w and 2w + 1, added up in their order. */
template <class TYPE> DEVICE void gemm_gather(gemm_sums<TYPE> *sums, float *room) {
    float *mine = room + warp_id() * (16 * SPANS / 2) * WARP + lane_id();
#pragma unroll
    for (int i = 0; i < 8 * SPANS; i++)
        mine[i * WARP] = sums->y[i / 4 % 2][i / 8][i % 4];
    __syncthreads();
    const float *from = room + warp_id() * 16 * WARP + lane_id();
#pragma unroll
    for (int i = 0; i < 16; i++) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < SL_GEMM_WARPS; w++) sum += from[(w * 8 * SPANS + i) * WARP];
        sums->y[i / 4 % 2][i / 8][i % 4] = sum;
    }
}

/* The whole tile, from group `first` (of a whole stage) on: this warp's panels; s->tokens is set by
 * any threads of the block; w says how the matrices are laid out, and where groups end.  Ends with
 * a barrier, after which shared memory is free. */
template <class TYPE>
DEVICE void gemm_tile(gemm_shared<TYPE> *s, const sl_cuda_panels &w, const gemm_panel (&panels)[2],
                      const sl_cuda_rows8 &x, int tokens, gemm_sums<TYPE> *out, int first = 0) {
    static_assert(sizeof(gemm_shared<TYPE>) ==
                      SL_GEMM_SHARED_BYTES(TYPE::PANELS, TYPE::GROUP_BYTES, TYPE::HALVES),
                  "as plans have it");
    static_assert(GEMM_STAGES == 3, "one is used, two are on their way");
    *out = {};
    __syncthreads();
    gemm_sources<TYPE> f;
    find_sources<TYPE>(&f, s, w, panels, x);
    for (int i = 0; i < GEMM_STAGES - 1; i++)
        gemm_stage_all<TYPE>(s, i, f, w, x, first + i * GEMM_GROUPS);
    int now = 0;
    for (int group = first; group < w.groups; group += GEMM_GROUPS) {
        const gemm_stage<TYPE> *from = &s->stages[now];
        copy_wait<GEMM_STAGES - 2>();
        __syncthreads(); /* this stage is there; the one before is no longer read */
        gemm_stage_all<TYPE>(s, now == 0 ? GEMM_STAGES - 1 : now - 1, f, w, x,
                             group + (GEMM_STAGES - 1) * GEMM_GROUPS);
        stage_params<TYPE>(s, from);
        __syncthreads();
        const int end = min(w.groups - group, (int)GEMM_GROUPS);
        if (!is_wide<TYPE>() && warp_id() < end)
            gemm_group<TYPE>(out, s, from, warp_id(), tokens);
#pragma unroll 1
        for (int g = 0; is_wide<TYPE>() && g < end; g++)
            gemm_group<TYPE>(out, s, from, g, tokens);
        now = now == GEMM_STAGES - 1 ? 0 : now + 1;
    }
    copy_wait<0>();
    __syncthreads();
}

/* Gives all results that are there to write(token of the tile, row of the matrix, value). */
template <class TYPE, class WRITE>
DEVICE void gemm_write(gemm_shared<TYPE> *s, gemm_sums<TYPE> *sums, int tokens, int rows,
                       WRITE write) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const int first = ((int)blockIdx.x * TYPE::PANELS + gemm_first_panel<TYPE>()) * 16 + r;
    const int skipped = is_wide<TYPE>() ? 0 : 16 * warp_id();
    if (!is_wide<TYPE>()) gemm_gather<TYPE>(sums, (float *)s->stages);
#pragma unroll
    for (int n = 0; n < (is_wide<TYPE>() ? (int)SPANS : 2); n++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int token = skipped + 8 * n + 2 * c + i % 2, row = first + 8 * (i / 2);
            if (token < tokens && row < rows) write(token, row, sums->y[i / 4][n][i % 4]);
        }
}
#endif
