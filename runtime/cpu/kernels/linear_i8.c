/* linear_i8.c - Rows of 8-bit activations against panels (both laid out in core/codec.h).
 *
 * Per group of 32 columns, with q the codes of weights and a those of activations:
 *
 *   y += scale_a (scale_w sum(q a) - minimum_w sum(a))
 *
 * The sums are integers, so exact; the rest is one chain over the groups in order.  A pair of token
 * and output therefore has the same bits however many tokens there are, and however outputs are
 * divided.  A lane is a row of the weights: nothing is added across lanes.
 *
 * A panel is walked alone, from end to end, for all tokens: one stream from memory, asked for a
 * little ahead, runs as fast as memory can be read. */
#include "runtime/cpu/kernels/rows.h"

enum {
    VECTORS = SL_PANEL_ROWS / LANES,
    TILE = LANES == 16 ? 8 : 4, /* tokens that share the unpacking of weights; more would spill */
    WORD_BYTES = SL_PANEL_ROWS * 4,
    Q4_BYTES = 4 * WORD_BYTES,
    Q8_BYTES = 8 * WORD_BYTES,
    AHEAD_BYTES = 1024,
    AHEAD_TOKENS = 2, /* with more, computing leaves the hardware time enough to read ahead */
    LINE = 64
};

/* One panel, one vector of its rows, and the tokens of a tile. */
typedef struct {
    const uint8_t *blocks;
    const float *headers; /* {d, m} per super-group; q4 only */
    sl_rows8 x;
} tile;

INLINE int32_t word_of(const int8_t *codes) {
    int32_t word;
    memcpy(&word, codes, sizeof word);
    return word;
}

/* Kept in a register: the compiler would load it once more for every use. */
INLINE vu load_once(const uint8_t *p) {
    vu word = vload_u32(p);
#if defined(__AVX512F__)
    __asm__("" : "+v"(word));
#elif defined(__SSE2__)
    __asm__("" : "+x"(word));
#endif
    return word;
}

INLINE void read_ahead(const uint8_t *from, const int bytes) {
    for (int i = 0; i < bytes; i += LINE)
        __builtin_prefetch((const void *)((uintptr_t)from + AHEAD_BYTES + (uintptr_t)i), 0, 2);
}

/* Adds group g to y; bytes of codes, v and tokens are constants. */
typedef void group_fn(const tile *t, int64_t g, const int v, const int tokens, vf *y);

INLINE const uint8_t *params_of(const tile *t, int64_t g, const int bytes) {
    return t->blocks + g / SL_BLOCK_GROUPS * (SL_BLOCK_PARAMS + SL_BLOCK_GROUPS * bytes) +
           g % SL_BLOCK_GROUPS * SL_GROUP_PARAMS;
}
INLINE const uint8_t *codes_of(const tile *t, int64_t g, const int bytes) {
    return t->blocks + g / SL_BLOCK_GROUPS * (SL_BLOCK_PARAMS + SL_BLOCK_GROUPS * bytes) +
           SL_BLOCK_PARAMS + g % SL_BLOCK_GROUPS * bytes;
}

INLINE void add_q4(const tile *t, int64_t g, const int v, const int tokens, vf *y) {
    const uint8_t *codes = codes_of(t, g, Q4_BYTES), *params = params_of(t, g, Q4_BYTES);
    const int8_t *x = t->x.codes + g * SL_GROUP_COLS;
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    vi dots[TILE] = {0};
    if (v == 0 && tokens <= AHEAD_TOKENS) read_ahead(params, SL_BLOCK_PARAMS / 2 + Q4_BYTES);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const vu word = load_once(codes + j * WORD_BYTES + v * LANES * 4);
        const vu low = word & 0x0f0f0f0f, high = word >> 4 & 0x0f0f0f0f;
#pragma GCC unroll 8
        for (int i = 0; i < tokens; i++) {
            dots[i] = vdot_u4(dots[i], low, word_of(x + i * stride + 8 * j));
            dots[i] = vdot_u4(dots[i], high, word_of(x + i * stride + 8 * j + 4));
        }
    }
    const float *header = t->headers + g / SL_SUPER_GROUPS * 2;
    const vf scale = vsplat(header[0]) * vload_u8(params + v * LANES);
    const vf minimum = vsplat(-header[1]) * vload_u8(params + SL_PANEL_ROWS + v * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++) {
        const int64_t at = i * t->x.groups + g;
        const vf inner = vfma(minimum, vsplat(t->x.sums[at]), scale * vfrom_i32(dots[i]));
        y[i] = vfma(vsplat(t->x.scales[at]), inner, y[i]);
    }
}

/* Signed codes are made unsigned where the dot product wants that, which adds 128 sum(a). */
INLINE void add_q8(const tile *t, int64_t g, const int v, const int tokens, vf *y) {
    const uint8_t *codes = codes_of(t, g, Q8_BYTES), *params = params_of(t, g, Q8_BYTES);
    const int8_t *x = t->x.codes + g * SL_GROUP_COLS;
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    vi dots[TILE] = {0};
    if (v == 0 && tokens <= AHEAD_TOKENS) read_ahead(params, SL_BLOCK_PARAMS / 2 + Q8_BYTES);
#if defined(__AVX512F__)
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++)
        dots[i] = vround_i32(vsplat(t->x.sums[i * t->x.groups + g] * -128));
#endif
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const vu word = load_once(codes + j * WORD_BYTES + v * LANES * 4);
#pragma GCC unroll 8
        for (int i = 0; i < tokens; i++) {
            const int32_t a = word_of(x + i * stride + 4 * j);
#if defined(__AVX512F__)
            dots[i] = vdot_u8(dots[i], word ^ 0x80808080, a);
#else
            dots[i] = vdot_s8(dots[i], word, a);
#endif
        }
    }
    const vf scale = vload_f16(params + v * LANES * 2);
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++) {
        const vf inner = scale * vfrom_i32(dots[i]);
        y[i] = vfma(vsplat(t->x.scales[i * t->x.groups + g]), inner, y[i]);
    }
}

/* Tokens from `token` on of one panel. */
INLINE void run_tile(const sl_linear_job *job, tile t, int64_t panel, int64_t token,
                     const int tokens, group_fn *add) {
    t.x = sl_rows8_from(&job->x8, token);
#pragma GCC unroll 1
    for (int v = 0; v < VECTORS; v++) {
        vf y[TILE];
        for (int i = 0; i < tokens; i++) y[i] = vzero();
        for (int64_t g = 0; g < t.x.groups; g++) add(&t, g, v, tokens, y);
        const int64_t row = panel * SL_PANEL_ROWS + v * LANES, left = job->rows - row;
        float *out = job->out + token * job->out_stride + (row - job->first);
        for (int i = 0; left > 0 && i < tokens; i++)
            vstore_n(out + i * job->out_stride, y[i], left < LANES ? left : LANES);
    }
}

INLINE void run_panels(const sl_linear_job *job, int64_t begin, int64_t end, group_fn *add) {
    const sl_panel_layout l = sl_panel_layout_of(job->dtype, job->rows, job->cols);
    const uint8_t *matrix = job->weights;
    read_ahead(matrix + l.header_bytes + (uint64_t)begin * l.panel_bytes - AHEAD_BYTES,
               AHEAD_BYTES);
    for (int64_t p = begin; p < end; p++) {
        const tile t = {.blocks = matrix + l.header_bytes + (uint64_t)p * l.panel_bytes,
                        .headers = (const float *)(const void *)matrix + p * l.supers * 2};
        int64_t token = 0;
        for (; token + TILE <= job->tokens; token += TILE) run_tile(job, t, p, token, TILE, add);
        for (; TILE > 4 && token + 4 <= job->tokens; token += 4) run_tile(job, t, p, token, 4, add);
        for (; token + 2 <= job->tokens; token += 2) run_tile(job, t, p, token, 2, add);
        if (token < job->tokens) run_tile(job, t, p, token, 1, add);
    }
}

void SL_KERNEL(sl_linear_part_i8)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    (void)scratch;
    if (job->dtype == SL_DTYPE_q4)
        run_panels(job, begin, end, add_q4);
    else
        run_panels(job, begin, end, add_q8);
}
