/* gemm.cuh - A tile of the product of panels with rows of a8, by int8 tensor cores.
 *
 * A block of four warps computes 64 tokens by 8 panels (128 rows), two panels per warp; or, if that
 * leaves too few blocks, by 2 panels, of which each warp takes every fourth group.  A panel's words
 * can be loaded as `a` fragments of an mma, if k is permuted in both operands: with r = lane / 4
 * and c = lane % 4, columns 8c to 8c+3 are k = 4c to 4c+3, and columns 8c+4 to 8c+7 are k = 16+4c
 * to 16+4c+3.  The integer dot products of each group are then scaled and accumulated in f32.
 * Weights and tokens go through a pipeline of three stages of four groups in shared memory. */
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

/* Tokens per tile, in spans of 8, the width of an mma. */
enum { TOKENS = SL_GEMM_TOKENS, SPANS = TOKENS / 8 };

/* TYPE, from here on: a panel type with the number of panels of a tile. */
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

/* A pipeline stage in shared memory; `above` are the parameters of the super-group. */
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
    int tokens[TOKENS]; /* row of x of each token; -1: none */
};

/* A panel of the matrix at `data`; all matrices of a tile have the same layout. */
struct gemm_panel {
    const uint8_t *data;
    int panel;
};

/* A lane's accumulators: y[m][n] are rows r and r + 8 of the warp's panel m by tokens 2c and 2c + 1
 * of span n, in the order of d in mma.cuh. */
template <class TYPE> struct gemm_sums { float y[2][SPANS][4]; };

/* ---- stages ---- */

/* Where a thread copies from in every stage: 16-byte chunks of the warp's panels, and of several
 * tokens 16 bytes of codes and the parameters of a group. */
template <class TYPE> struct gemm_sources {
    enum {
        CODES = TOKENS * GEMM_GROUPS * 2 / GEMM_THREADS,
        PARAMS = TOKENS * GEMM_GROUPS / GEMM_THREADS,
    };
    const uint8_t *panels[2], *above[2];
    unsigned codes[CODES], params[PARAMS]; /* offsets; NONE: no such token */
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

/* In a wide tile a warp copies its own panels; in a narrow one it copies one block (two groups) of
 * one of the two panels. */
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
        if (!is_wide<TYPE>() && warp_id() >= 2) continue; /* warps 0 and 1 copy `above` */
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

/* Decodes the scales and minima of the rows of weights: one thread per row in a wide tile, per row
 * and group in a narrow one. */
template <class TYPE> DEVICE void stage_params(gemm_shared<TYPE> *s, const gemm_stage<TYPE> *from) {
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

/* Integer dot products as floats, without conversions: the accumulators start with the bits of
 * 12582912.0f = 3 * 2^22; its ulp is 1, so adding n to the bits adds n to the float. */
DEVICE void gemm_whole(float (&whole)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    int d[4] = {0x4b400000, 0x4b400000, 0x4b400000, 0x4b400000};
    mma_s8(d, a, b);
#pragma unroll
    for (int i = 0; i < 4; i++) whole[i] = __int_as_float(d[i]) - 12582912.0f;
}

/* y += scale of the token * (scale of the row * whole - minimum of the row * sum); `sums` are
 * already multiplied by the token's scale. */
template <class TYPE>
DEVICE void gemm_add(float (&y)[4], const float (&whole)[4], const params (&rows)[2], float2 scales,
                     float2 sums) {
    y[0] = fmaf(whole[0], rows[0].scale * scales.x, y[0]);
    y[1] = fmaf(whole[1], rows[0].scale * scales.y, y[1]);
    y[2] = fmaf(whole[2], rows[1].scale * scales.x, y[2]);
    y[3] = fmaf(whole[3], rows[1].scale * scales.y, y[3]);
    if (!TYPE::MINIMUM) return;
    y[0] = fmaf(-rows[0].minimum, sums.x, y[0]);
    y[1] = fmaf(-rows[0].minimum, sums.y, y[1]);
    y[2] = fmaf(-rows[1].minimum, sums.x, y[2]);
    y[3] = fmaf(-rows[1].minimum, sums.y, y[3]);
}

/* A lane's `a` fragment of one group of a panel, and the parameters of its two rows. */
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
    const bool first = lane_id() % 4 < 2; /* the lane has columns 0 to 15 */
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

/* A lane's `b` fragment of one group of 8 tokens, and the parameters of two tokens. */
template <class TYPE> struct gemm_tokens {
    unsigned b[2];
    float2 scales, sums[2]; /* sums: per half group if HALVES */
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

/* Multiplies one group of the warp's two panels with the first `tokens` tokens, 16 at a time. */
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

/* In a narrow tile, all warps have partial sums of all spans.  Adds them up through shared memory,
 * in order of the warps; warp w gets spans 2w and 2w + 1. */
template <class TYPE> DEVICE void gemm_gather(gemm_sums<TYPE> *sums, float *room) {
    float *mine = room + warp_id() * (16 * SPANS / 2) * WARP + lane_id();
#pragma unroll
    for (int i = 0; i < 8 * SPANS; i++) mine[i * WARP] = sums->y[i / 4 % 2][i / 8][i % 4];
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

/* Computes a whole tile, from group `first`, a multiple of GEMM_GROUPS, to w.groups.  `panels` are
 * this warp's; w has the layout of the matrices.  Threads of the block have written s->tokens; no
 * barrier is needed before the call.  Ends with a barrier, after which shared memory is free. */
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
        __syncthreads(); /* this stage has arrived; nobody reads the previous one any more */
        gemm_stage_all<TYPE>(s, now == 0 ? GEMM_STAGES - 1 : now - 1, f, w, x,
                             group + (GEMM_STAGES - 1) * GEMM_GROUPS);
        stage_params<TYPE>(s, from);
        __syncthreads();
        const int end = min(w.groups - group, (int)GEMM_GROUPS);
        if (!is_wide<TYPE>() && warp_id() < end) gemm_group<TYPE>(out, s, from, warp_id(), tokens);
#pragma unroll 1
        for (int g = 0; is_wide<TYPE>() && g < end; g++) gemm_group<TYPE>(out, s, from, g, tokens);
        now = now == GEMM_STAGES - 1 ? 0 : now + 1;
    }
    copy_wait<0>();
    __syncthreads();
}

/* Epilogue: calls write(token of the tile, row of the matrix, value) for all results that exist. */
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
