/* gemm_half.cuh - A tile of products of panels with rows of halves, on tensor cores.
 *
 * With groups that have scales of their own, integers would have to be scaled after every 32
 * columns, which takes longer than multiplying them.  Here weights and activations are scaled first
 * and rounded to halves (by 2^-12 at most, where codes of 8 bits are off by 2^-8), and sums stay in
 * the tensor cores' registers from the first column to the last.
 *
 * A block of four warps takes 128 tokens (or 32) by 8 panels (128 rows), of which a warp has two.  A
 * lane reads of a panel what it needs of matrix a, as in gemm.cuh: its columns 8c to 8c+7 stand in
 * the places of two products of 16 columns, in both matrices.  So a token's columns of a group are
 * 16 bytes in a row for each lane. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_CUH
#define SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_CUH
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/panel.cuh"

enum { HALF_THREADS = SL_HALF_WARPS * WARP, HALF_ROWS = SL_HALF_PANELS * 16 };

/* TYPE, from here on: a type of panel, and how many tokens a tile has, in spans of 8, of which STEP
 * are left out together; RESIDENT: tiles on a multiprocessor, which bounds their registers. */
template <class T> struct many : T {
    enum {
        TOKENS = SL_HALF_TOKENS,
        GROUPS = SL_HALF_GROUPS,
        STAGES = SL_HALF_STAGES,
        SPANS = TOKENS / 8,
        STEP = 4,
        SHARED_BYTES = SL_HALF_MANY_BYTES(T::GROUP_BYTES)
    };
};
template <class T> struct few : T {
    enum {
        TOKENS = SL_HALF_FEW_TOKENS,
        GROUPS = SL_HALF_FEW_GROUPS,
        STAGES = SL_HALF_FEW_STAGES,
        SPANS = TOKENS / 8,
        STEP = 1,
        SHARED_BYTES = SL_HALF_FEW_BYTES(T::GROUP_BYTES)
    };
};

template <class TYPE> struct half_stage {
    enum { BLOCK_BYTES = 64 + 2 * TYPE::GROUP_BYTES, PANEL_BYTES = TYPE::GROUPS / 2 * BLOCK_BYTES };
    uint8_t blocks[SL_HALF_PANELS][PANEL_BYTES];
    uint8_t above[SL_HALF_PANELS][64];
    /* Of a token the 16 bytes of each lane and group; those of odd tokens with groups in pairs the
     * other way round, so that eight lanes read from all banks. */
    uint4 tokens[TYPE::TOKENS][TYPE::GROUPS * 4];
};
DEVICE int token_place(int token, int chunk) {
    return chunk ^ token % 2 * 4;
}

template <class TYPE> struct half_shared {
    half_stage<TYPE> stages[TYPE::STAGES];
    int tokens[TYPE::TOKENS]; /* rows of x; -1: none */
};

/* What a warp multiplies: two panels, from their first groups; w says how they are laid out. */
struct half_sources {
    const uint8_t *panels[2], *above[2];
};
template <class TYPE>
DEVICE half_sources half_sources_of(sl_cuda_panels w, const uint8_t *const (&matrices)[2],
                                    const int (&panels)[2]) {
    half_sources f;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const int panel = min(panels[m], (w.rows - 1) / 16);
        w.data = matrices[m];
        f.panels[m] = panel_at(w, panel);
        f.above[m] = TYPE::above(w, panel, f.panels[m], 0);
    }
    return f;
}

/* What a lane has of the results: of the warp's panel m, span n: rows r and r + 8 of tokens 2c and
 * 2c + 1, like d in mma.cuh.  Still to be multiplied with the tokens' factors. */
template <class TYPE> struct half_sums {
    float y[2][TYPE::SPANS][4];
};

/* ---- stages ---- */

/* A warp copies its own panels. */
template <class TYPE>
DEVICE void stage_panels(half_stage<TYPE> *to, const half_sources &f, const sl_cuda_panels &w,
                         int group) {
    typedef half_stage<TYPE> stage;
    const int byte = 16 * lane_id();
    const int blocks = min((w.groups - group + 1) / 2, (int)TYPE::GROUPS / 2);
    const uint32_t offset = block_offset(w, group) + byte;
    const uint32_t above = (uint32_t)(group / SL_CUDA_SUPER_GROUPS) * TYPE::above_step(w);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const int panel = 2 * warp_id() + m;
#pragma unroll
        for (int i = 0; i < stage::PANEL_BYTES; i += 16 * WARP)
            if (i + byte < blocks * stage::BLOCK_BYTES)
                copy_async<16>(to->blocks[panel] + i + byte, f.panels[m] + offset + i);
        if (TYPE::ABOVE_BYTES == 8 && byte == 0)
            copy_async<8>(to->above[panel], f.above[m] + above);
        if (TYPE::ABOVE_BYTES == 64 && byte < 64)
            copy_async<16>(to->above[panel] + byte, f.above[m] + above + byte);
    }
}

/* All of them copy tokens, 16 bytes in turn. */
template <class TYPE>
DEVICE void stage_tokens(half_shared<TYPE> *s, half_stage<TYPE> *to, const uint16_t *x,
                         const sl_cuda_panels &w, int tokens, int group) {
    enum { CHUNKS = TYPE::GROUPS * 4, AT_ONCE = HALF_THREADS / CHUNKS };
    const int chunk = (int)threadIdx.x % CHUNKS, first = (int)threadIdx.x / CHUNKS;
    const uint4 *from = (const uint4 *)x + (int64_t)group * 4 + chunk;
    const bool in_row = group + chunk / 4 < w.groups;
#pragma unroll
    for (int i = 0; i < TYPE::TOKENS; i += AT_ONCE) {
        if (i >= tokens) break;
        const int token = first + i, row = s->tokens[token];
        const bool there = in_row && row >= 0;
        copy_start(&to->tokens[token][token_place(token, chunk)],
                   there ? from + (int64_t)row * w.groups * 4 : (const uint4 *)x, there);
    }
}

/* ---- products ---- */

/* Two of four signed bytes, to which 128 was added, as halves: the last digits of 1024 and more,
 * which is taken away again with the middle of codes; then as weights. */
template <class TYPE>
DEVICE unsigned weight_pair(unsigned four, unsigned which, unsigned scale, unsigned at_middle) {
    const unsigned whole = __byte_perm(four, 0x64646464u, which);
    const unsigned origin = 0x10001u * (0xe480u + TYPE::MIDDLE); /* -(1152 + the middle) */
    return fma_f16_pair(add_f16_pair(whole, origin), scale, at_middle);
}

/* What a lane has of a panel's group: matrix a of two products. */
struct half_weights {
    unsigned a[2][4];
};

/* Scale of a row's group, or half of it, and the weight of the middle code, as halves: this is
 * small, mostly, and so is the error of a whole group when it is rounded. */
template <class TYPE>
DEVICE unsigned row_params(const half_stage<TYPE> *from, int panel, int g, int row, int half) {
    const float shift = (float)(1 << SL_HALF_SHIFT);
    const uint8_t *block = from->blocks[panel] + g / 2 * half_stage<TYPE>::BLOCK_BYTES;
    const params p = TYPE::of(block, g % 2, from->above[panel], row, half);
    const float middle = TYPE::MINIMUM ? (float)TYPE::MIDDLE * p.scale - p.minimum : 0.0f;
    return f16_pair(shift * p.scale, shift * middle);
}

/* Each lane has the parameters of one row of the warp's panels for all. */
template <class TYPE>
DEVICE void load_weights(half_weights (&w)[2], const half_stage<TYPE> *from, int g) {
    const int lane = lane_id(), r = lane / 4, c = lane % 4, first = 2 * warp_id();
    unsigned own[TYPE::HALVES + 1];
#pragma unroll
    for (int half = 0; half <= TYPE::HALVES; half++)
        own[half] = row_params<TYPE>(from, first + lane / 16, g, lane % 16, half);
#pragma unroll
    for (int i = 0; i < 4; i++) { /* two panels, two rows of each */
        const int panel = i / 2, row = r + 8 * (i % 2);
        unsigned p = __shfl_sync(ALL_LANES, own[0], 16 * panel + row);
        if (TYPE::HALVES) {
            const unsigned q = __shfl_sync(ALL_LANES, own[TYPE::HALVES], 16 * panel + row);
            p = c < 2 ? p : q;
        }
        const unsigned scale = __byte_perm(p, 0, 0x1010), at_middle = __byte_perm(p, 0, 0x3232);
        const uint8_t *codes = from->blocks[first + panel] +
                               g / 2 * half_stage<TYPE>::BLOCK_BYTES + 64 +
                               g % 2 * TYPE::GROUP_BYTES;
        const uint2 eight = TYPE::codes(codes, row, c);
#pragma unroll
        for (int s = 0; s < 2; s++) {
            const unsigned four = (s ? eight.y : eight.x) ^ 0x80808080u;
            w[panel].a[s][i % 2] = weight_pair<TYPE>(four, 0x4140, scale, at_middle);
            w[panel].a[s][2 + i % 2] = weight_pair<TYPE>(four, 0x4342, scale, at_middle);
        }
    }
}

/* One group of the warp's two panels by the first `tokens` tokens. */
template <class TYPE>
DEVICE void half_group(half_sums<TYPE> *sums, const half_stage<TYPE> *from, int g, int tokens) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    half_weights w[2];
    load_weights<TYPE>(w, from, g);
#pragma unroll
    for (int n = 0; n < TYPE::SPANS; n++) {
        if (n % TYPE::STEP == 0 && 8 * n >= tokens) break;
        const int token = 8 * n + r;
        const uint4 x = from->tokens[token][token_place(token, 4 * g + c)];
        const unsigned b[2][2] = {{x.x, x.y}, {x.z, x.w}};
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int s = 0; s < 2; s++) mma_f16(sums->y[m][n], w[m].a[s], b[s]);
    }
}

/* The whole tile, of groups [begin, end): this warp's panels by the first `tokens` of s->tokens,
 * which any threads of the block have set.  Ends with a barrier, after which stages are free. */
template <class TYPE>
DEVICE void half_tile(half_shared<TYPE> *s, const sl_cuda_panels &w, const half_sources &f,
                      const uint16_t *x, int tokens, int begin, int end, half_sums<TYPE> *out) {
    static_assert(sizeof(half_shared<TYPE>) == TYPE::SHARED_BYTES, "as plans have it");
    *out = {};
    __syncthreads();
    const auto stage = [&](int to, int group) {
        if (group < end) {
            stage_panels<TYPE>(&s->stages[to], f, w, group);
            stage_tokens<TYPE>(s, &s->stages[to], x, w, tokens, group);
        }
        copy_commit();
    };
    for (int i = 0; i < TYPE::STAGES - 1; i++) stage(i, begin + i * TYPE::GROUPS);
    int now = 0;
#pragma unroll 1
    for (int group = begin; group < end; group += TYPE::GROUPS) {
        copy_wait<TYPE::STAGES - 2>();
        __syncthreads(); /* this stage is there; the one before is no longer read */
        stage(now == 0 ? TYPE::STAGES - 1 : now - 1, group + (TYPE::STAGES - 1) * TYPE::GROUPS);
#pragma unroll
        for (int g = 0; g < TYPE::GROUPS; g++)
            if (group + g < end) half_group<TYPE>(out, &s->stages[now], g, tokens);
        now = now == TYPE::STAGES - 1 ? 0 : now + 1;
    }
    copy_wait<0>();
    __syncthreads();
}

/* Gives all results that are there to write(token of the tile, row of the matrix, value); the tile
 * is the block's first index. */
template <class TYPE, class WRITE>
DEVICE void half_write(const half_sums<TYPE> &sums, int tokens, int rows, WRITE write) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    const int row = (int)blockIdx.x * HALF_ROWS + 32 * warp_id() + r;
#pragma unroll
    for (int n = 0; n < TYPE::SPANS; n++)
#pragma unroll
        for (int i = 0; i < 8; i++) { /* two tokens; two panels, two rows of each */
            const int token = 8 * n + 2 * c + i / 4, at = row + 8 * (i % 4);
            if (token < tokens && at < rows)
                write(token, at, sums.y[i % 4 / 2][n][i % 2 * 2 + i / 4]);
        }
}
#endif
