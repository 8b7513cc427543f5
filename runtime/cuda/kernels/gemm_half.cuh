/* gemm_half.cuh - A tile of the product of panels with f16 rows, on tensor cores.
 *
 * Groups have scales of their own, so integer sums would have to be scaled after every 32 columns,
 * which takes longer than multiplying them.  Here weights and activations are scaled first and
 * rounded to f16 (an error of at most 2^-12, where 8-bit codes have 2^-8), and sums stay in the
 * accumulators from the first column to the last.
 *
 * A block of four warps computes 128 tokens (or 32) by 8 panels (128 rows), two panels per warp.
 * As in gemm.cuh, k is permuted in both operands so that a lane's columns are contiguous: columns
 * 8c to 8c+7 of a group go into its two mma steps of 16 columns.  A lane's `b` fragments of a
 * token's group are 16 contiguous bytes.
 *
 * With few tokens the bound is the number of instructions for decoding weights: about 80 per group
 * and warp, 52 of them for decoding. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_CUH
#define SL_RUNTIME_CUDA_KERNELS_GEMM_HALF_CUH
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/mma.cuh"
#include "runtime/cuda/kernels/panel.cuh"

enum {
    HALF_THREADS = SL_HALF_WARPS * WARP,
    HALF_ROWS = SL_HALF_PANELS * 16,
    /* Threads of all blocks that are resident on a multiprocessor; as launch bounds they limit the
     * registers of each. */
    MANY_THREADS = SL_HALF_RESIDENT * HALF_THREADS,
    FEW_THREADS = SL_HALF_FEW_RESIDENT * HALF_THREADS
};

/* TYPE, from here on: a panel type with the shape of a tile; tokens come in spans of 8, the width
 * of an mma. */
template <class T, int TILE_TOKENS, int STAGE_GROUPS, int STAGE_COUNT> struct half_shape : T {
    enum {
        TOKENS = TILE_TOKENS,
        GROUPS = STAGE_GROUPS,
        STAGES = STAGE_COUNT,
        SPANS = TOKENS / 8,
        SHARED_BYTES = SL_HALF_BYTES(TOKENS, GROUPS, STAGES, T::GROUP_BYTES)
    };
};
template <class T>
struct many : half_shape<T, SL_HALF_TOKENS, SL_HALF_GROUPS, SL_HALF_STAGES> {};
template <class T>
struct few : half_shape<T, SL_HALF_FEW_TOKENS, SL_HALF_FEW_GROUPS, SL_HALF_FEW_STAGES> {};

/* A pipeline stage in shared memory; `above` are the parameters of the super-group. */
template <class TYPE> struct half_stage {
    enum { BLOCK_BYTES = 64 + 2 * TYPE::GROUP_BYTES, PANEL_BYTES = TYPE::GROUPS / 2 * BLOCK_BYTES };
    uint8_t blocks[SL_HALF_PANELS][PANEL_BYTES];
    uint8_t above[SL_HALF_PANELS][64];
    /* Per token, group and c = lane % 4 the 16 bytes of a lane.  Odd tokens have each pair of
     * groups swapped (token_place), so that eight lanes read from all banks. */
    uint4 tokens[TYPE::TOKENS][TYPE::GROUPS * 4];
};
DEVICE int token_place(int token, int chunk) {
    return chunk ^ token % 2 * 4;
}

template <class TYPE> struct half_shared {
    half_stage<TYPE> stages[TYPE::STAGES];
    int tokens[TYPE::TOKENS]; /* rows of x; valid rows also for tokens beyond the last */
};

/* A panel of the matrix at `data`; all matrices of a tile have the same layout.  A panel beyond the
 * last is read as the last. */
struct half_panel {
    const uint8_t *data;
    int panel;
};

/* A lane's accumulators: y[m][n] are rows r and r + 8 of the warp's panel m by tokens 2c and 2c + 1
 * of span n, in the order of d in mma.cuh; not yet multiplied by the tokens' factors. */
template <class TYPE> struct half_sums {
    float y[2][TYPE::SPANS][4];
};

/* ---- stages ---- */

/* Where a thread copies 16-byte chunks from in every stage: the warp's panels, and tokens. */
template <class TYPE> struct half_sources {
    enum {
        CHUNKS = TYPE::GROUPS * 4,       /* per token */
        AT_ONCE = HALF_THREADS / CHUNKS, /* tokens that all threads copy at once */
        COPIES = TYPE::TOKENS / AT_ONCE
    };
    const uint8_t *panels[2], *above[2];
    unsigned tokens[COPIES]; /* offsets in chunks */
};
template <class TYPE>
DEVICE half_sources<TYPE> find_sources(const half_shared<TYPE> *s, sl_cuda_panels w,
                                       const half_panel (&panels)[2]) {
    typedef half_sources<TYPE> sources;
    const int thread = (int)threadIdx.x, byte = 16 * lane_id();
    sources f;
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const int panel = min(panels[m].panel, (w.rows - 1) / 16);
        w.data = panels[m].data;
        const uint8_t *at = panel_at(w, panel), *above = TYPE::above(w, panel, at, 0);
        f.panels[m] = at + byte;
        f.above[m] = TYPE::ABOVE_BYTES == 64 ? above + byte : above;
        SL_KEEP_POINTER(f.panels[m]);
        SL_KEEP_POINTER(f.above[m]);
    }
#pragma unroll
    for (int i = 0; i < sources::COPIES; i++) {
        const int row = s->tokens[i * sources::AT_ONCE + thread / sources::CHUNKS];
        f.tokens[i] = (unsigned)row * (unsigned)w.groups * 4 + thread % sources::CHUNKS;
    }
    return f;
}

/* A warp copies its own panels. */
template <class TYPE>
DEVICE void stage_panels(half_stage<TYPE> *to, const half_sources<TYPE> &f,
                         const sl_cuda_panels &w, int group) {
    typedef half_stage<TYPE> stage;
    const int byte = 16 * lane_id();
    const int blocks = min((w.groups - group + 1) / 2, (int)TYPE::GROUPS / 2);
    const int there = blocks * stage::BLOCK_BYTES - byte;
    const uint32_t offset = block_offset(w, group);
    const uint32_t above = (uint32_t)(group / SL_CUDA_SUPER_GROUPS) * TYPE::above_step(w);
    shared_place place = shared_place_of(to->blocks[2 * warp_id()] + byte);
    SL_KEEP_WORD(place);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        const uint8_t *from = f.panels[m] + offset;
        SL_KEEP_POINTER(from);
#pragma unroll
        for (int i = 0; i < stage::PANEL_BYTES; i += 16 * WARP)
            if (i < there) copy_to<16>(place + m * stage::PANEL_BYTES + i, from + i);
    }
    place = shared_place_of(to->above[2 * warp_id()]);
#pragma unroll
    for (int m = 0; m < 2; m++) {
        if (TYPE::ABOVE_BYTES == 8 && byte == 0) copy_to<8>(place + 64 * m, f.above[m] + above);
        if (TYPE::ABOVE_BYTES == 64 && byte < 64)
            copy_to<16>(place + 64 * m + byte, f.above[m] + above);
    }
}

/* All warps copy tokens; groups beyond the last are filled with zeros. */
template <class TYPE>
DEVICE void stage_tokens(half_stage<TYPE> *to, const half_sources<TYPE> &f, const uint4 *x,
                         int groups, int tokens, int group) {
    typedef half_sources<TYPE> sources;
    const int chunk = (int)threadIdx.x % sources::CHUNKS;
    const int first = (int)threadIdx.x / sources::CHUNKS;
    static_assert(sources::AT_ONCE % 2 == 0, "all of a thread's tokens are odd, or none");
    const bool there = group + chunk / 4 < groups;
    shared_place place = shared_place_of(&to->tokens[first][token_place(first, chunk)]);
    SL_KEEP_WORD(place);
#pragma unroll
    for (int i = 0; i < sources::COPIES; i++) {
        if (i * sources::AT_ONCE >= tokens) break;
        const unsigned at = f.tokens[i] + 4 * (unsigned)group;
        copy_some(place + i * sources::AT_ONCE * sizeof to->tokens[0], x + (there ? at : 0), there);
    }
}

/* ---- products ---- */

/* Codes minus MIDDLE as f16 pairs of columns 8c + (0, 2), (1, 3), (4, 6), (5, 7).  A code is put
 * into the low mantissa bits of the f16 1024, whose ulp is 1; then the offset is subtracted. */
template <class TYPE>
DEVICE void centred_codes(unsigned (&out)[4], const uint8_t *codes, int row, int c) {
    if (TYPE::NIBBLES) {
        const unsigned word = load_word(codes, row + 16 * c), next = word >> 8;
        enum : unsigned { LOW = 0x000f000fu, HIGH = 0x00f000f0u };
        const unsigned as_1024 = 0x64006400u;
        const unsigned less_1032 = 0xe408e408u, sixteenth = 0x2c002c00u, less_72 = 0xd480d480u;
        static_assert(!TYPE::NIBBLES || TYPE::MIDDLE == 8, "of nibbles");
        out[0] = add_f16_pair(masked_or<LOW>(word, as_1024), less_1032);
        out[1] = add_f16_pair(masked_or<LOW>(next, as_1024), less_1032);
        out[2] = fma_f16_pair(masked_or<HIGH>(word, as_1024), sixteenth, less_72);
        out[3] = fma_f16_pair(masked_or<HIGH>(next, as_1024), sixteenth, less_72);
        return;
    }
    const uint2 eight = TYPE::codes(codes, row, c);
    const unsigned origin = 0x10001u * (0xe480u + TYPE::MIDDLE); /* -(1024 + 128 + MIDDLE) */
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned four = (i < 2 ? eight.x : eight.y) ^ 0x80808080u;
        out[i] = add_f16_pair(__byte_perm(four, 0x64646464u, i % 2 ? 0x4341 : 0x4240), origin);
    }
}

/* The scale of a row's group, or half group, and the weight of the middle code, as f16.  That
 * weight is mostly small, and so is its rounding error, which all weights of the group share. */
template <class TYPE>
DEVICE unsigned row_params(const half_stage<TYPE> *from, int panel, int g, int row, int half) {
    const float shift = (float)(1 << SL_HALF_SHIFT);
    const uint8_t *block = from->blocks[panel] + g / 2 * half_stage<TYPE>::BLOCK_BYTES;
    const params p = TYPE::of(block, g % 2, from->above[panel], row, half);
    const float middle = TYPE::MINIMUM ? (float)TYPE::MIDDLE * p.scale - p.minimum : 0.0f;
    return f16_pair(shift * p.scale, shift * middle);
}

/* A lane's `a` fragments of one group of a panel, for two mma steps. */
struct half_weights {
    unsigned a[2][4];
};

/* Each lane decodes the parameters of one of the warp's 32 rows; shuffles distribute them. */
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
        const uint8_t *codes = from->blocks[first + panel] +
                               g / 2 * half_stage<TYPE>::BLOCK_BYTES + 64 +
                               g % 2 * TYPE::GROUP_BYTES;
        unsigned pairs[4];
        centred_codes<TYPE>(pairs, codes, row, c);
#pragma unroll
        for (int j = 0; j < 4; j++)
            w[panel].a[j / 2][j % 2 * 2 + i % 2] =
                fma_f16_pair(pairs[j], low_twice(p), high_twice(p));
    }
}

/* Multiplies one group of the warp's two panels with the first SPANS spans. */
template <class TYPE, int SPANS>
DEVICE void half_group(half_sums<TYPE> *sums, const half_stage<TYPE> *from, int g) {
    const int r = lane_id() / 4, c = lane_id() % 4;
    half_weights w[2];
    load_weights<TYPE>(w, from, g);
#pragma unroll
    for (int n = 0; n < SPANS; n++) {
        const uint4 x = from->tokens[8 * n + r][token_place(r, 4 * g + c)];
        const unsigned b[2][2] = {{x.x, x.y}, {x.z, x.w}};
#pragma unroll
        for (int s = 0; s < 2; s++)
#pragma unroll
            for (int m = 0; m < 2; m++) mma_f16(sums->y[m][n], w[m].a[s], b[s]);
    }
}
template <class TYPE, int SPANS>
DEVICE void half_groups(half_sums<TYPE> *sums, const half_stage<TYPE> *from) {
#pragma unroll
    for (int g = 0; g < TYPE::GROUPS; g++) half_group<TYPE, SPANS>(sums, from, g);
}

/* Computes a whole tile, of groups [begin, end).  `panels` are this warp's; w has the layout of the
 * matrices.  Threads of the block have written s->tokens, of which the first `tokens` are used; no
 * barrier is needed before the call.  Ends with a barrier, after which the stages are free. */
template <class TYPE>
DEVICE void half_tile(half_shared<TYPE> *s, const sl_cuda_panels &w, const half_panel (&panels)[2],
                      const uint16_t *x, int tokens, int begin, int end, half_sums<TYPE> *out) {
    static_assert(sizeof(half_shared<TYPE>) == TYPE::SHARED_BYTES, "as plans have it");
    *out = {};
    __syncthreads();
    const half_sources<TYPE> f = find_sources<TYPE>(s, w, panels);
    const auto stage = [&](int to, int group) {
        if (group < end) {
            stage_panels<TYPE>(&s->stages[to], f, w, group);
            stage_tokens<TYPE>(&s->stages[to], f, (const uint4 *)x, w.groups, tokens, group);
        }
        copy_commit();
    };
    for (int i = 0; i < TYPE::STAGES - 1; i++) stage(i, begin + i * TYPE::GROUPS);
    int now = 0;
#pragma unroll 1
    for (int group = begin; group < end; group += TYPE::GROUPS) {
        copy_wait<TYPE::STAGES - 2>();
        __syncthreads(); /* this stage has arrived; nobody reads the previous one any more */
        stage(now == 0 ? TYPE::STAGES - 1 : now - 1, group + (TYPE::STAGES - 1) * TYPE::GROUPS);
        const half_stage<TYPE> *from = &s->stages[now];
        if (group + TYPE::GROUPS > end) {
#pragma unroll 1
            for (int g = 0; group + g < end; g++) half_group<TYPE, TYPE::SPANS>(out, from, g);
        } else if (tokens > TYPE::TOKENS / 2) {
            half_groups<TYPE, TYPE::SPANS>(out, from);
        } else {
            half_groups<TYPE, TYPE::SPANS / 2>(out, from);
        }
        now = now == TYPE::STAGES - 1 ? 0 : now + 1;
    }
    copy_wait<0>();
    __syncthreads();
}

/* Epilogue: calls write(token of the tile, row of the matrix, value) for all results that exist.
 * blockIdx.x is the tile of rows. */
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
