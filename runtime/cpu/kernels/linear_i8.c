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
#include "runtime/cpu/kernels/panel_params.h"
#include "runtime/cpu/kernels/rows.h"

enum {
    TILE = LANES == 16 ? 8 : 4, /* tokens that share the unpacking of weights; more would spill */
    WORD_BYTES = SL_PANEL_ROWS * 4,
    LOW_BYTES = 4 * WORD_BYTES,
    AHEAD_TOKENS = 2 /* with more, computing leaves the hardware time enough to read ahead */
};

/* One panel, and the tokens of a tile. */
typedef struct {
    panel p;
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

/* Adds vector v of group g to y; v and tokens are constants. */
typedef void group_fn(const tile *t, int64_t g, const int v, const int tokens, vf *y);

/* A group's dot products. */
INLINE const int8_t *start_group(const tile *t, panel_form form, int64_t g, const int v,
                                 const int tokens) {
    if (v == 0 && tokens <= AHEAD_TOKENS) read_ahead(&t->p, form, g);
    return t->x.codes + g * SL_GROUP_COLS;
}

/* ---- codes of 4 bits ---- */

INLINE void add_nibbles(const tile *t, int64_t g, const int v, const int tokens, vf *y,
                        panel_form form, panel_params_fn *params) {
    const uint8_t *codes = codes_of(&t->p, form, g) + v * LANES * 4;
    const int8_t *x = start_group(t, form, g, v, tokens);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    vi dots[TILE] = {0};
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const vu word = load_once(codes + j * WORD_BYTES);
        const vu low = word & 0x0f0f0f0f, high = word >> 4 & 0x0f0f0f0f;
#pragma GCC unroll 8
        for (int i = 0; i < tokens; i++) {
            dots[i] = vdot_u4(dots[i], low, word_of(x + i * stride + 8 * j));
            dots[i] = vdot_u4(dots[i], high, word_of(x + i * stride + 8 * j + 4));
        }
    }
    vf scale, minimum;
    params(&t->p, g, v, &scale, &minimum);
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++) {
        const int64_t at = i * t->x.groups + g;
        const vf inner = vfma(-minimum, vsplat(t->x.sums[at]), scale * vfrom_i32(dots[i]));
        y[i] = vfma(vsplat(t->x.scales[at]), inner, y[i]);
    }
}

#define NIBBLES(TYPE)                                                                              \
    INLINE void add_##TYPE(const tile *t, int64_t g, const int v, const int tokens, vf *y) {       \
        add_nibbles(t, g, v, tokens, y, form_##TYPE, params_##TYPE);                               \
    }
NIBBLES(q4)
NIBBLES(q4_k)
NIBBLES(q4_0)
NIBBLES(q4_m)

/* ---- signed bytes ---- */

/* Made unsigned where the dot product wants that, which adds 128 sum(a). */
INLINE void add_q8(const tile *t, int64_t g, const int v, const int tokens, vf *y) {
    const uint8_t *codes = codes_of(&t->p, form_q8, g) + v * LANES * 4;
    const int8_t *x = start_group(t, form_q8, g, v, tokens);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    vi dots[TILE] = {0};
#if defined(__AVX512F__)
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++)
        dots[i] = vround_i32(vsplat(t->x.sums[i * t->x.groups + g] * -128));
#endif
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const vu word = load_once(codes + j * WORD_BYTES);
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
    const vf scale = scale_q8(&t->p, g, v, 0);
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++) {
        const vf inner = scale * vfrom_i32(dots[i]);
        y[i] = vfma(vsplat(t->x.scales[i * t->x.groups + g]), inner, y[i]);
    }
}

/* ---- codes of 6 bits, a scale for each half ---- */

/* Columns 4 word and the next three, 0..63. */
INLINE vu word_q6_k(const uint8_t *codes, const int word) {
    const vu low = load_once(codes + word / 2 * WORD_BYTES);
    const vu high = load_once(codes + LOW_BYTES + word / 4 * WORD_BYTES);
    const int shift = 2 * (word % 4);
    const vu top = shift < 4 ? high << (4 - shift) : high >> (shift - 4);
    return ((word % 2 ? low >> 4 : low) & 0x0f0f0f0f) | (top & 0x30303030);
}

/* sum(q a) of a half less 32 sum(a), which is exact in floats too. */
INLINE void add_q6_k(const tile *t, int64_t g, const int v, const int tokens, vf *y) {
    const uint8_t *codes = codes_of(&t->p, form_q6_k, g) + v * LANES * 4;
    const int8_t *x = start_group(t, form_q6_k, g, v, tokens);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    vi dots[2][TILE] = {0};
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const vu word = word_q6_k(codes, j);
#pragma GCC unroll 8
        for (int i = 0; i < tokens; i++)
            dots[j / 4][i] = vdot_u8(dots[j / 4][i], word, word_of(x + i * stride + 4 * j));
    }
    const vf first = scale_q6_k(&t->p, g, v, 0), second = scale_q6_k(&t->p, g, v, 1);
#pragma GCC unroll 8
    for (int i = 0; i < tokens; i++) {
        const int64_t at = i * t->x.groups + g;
        const float half = t->x.halves[at], rest = t->x.sums[at] - half;
        const vf low = vfrom_i32(dots[0][i]) - vsplat(32 * half);
        const vf high = vfrom_i32(dots[1][i]) - vsplat(32 * rest);
        y[i] = vfma(vsplat(t->x.scales[at]), vfma(second, high, first * low), y[i]);
    }
}

/* ---- panels ---- */

/* Tokens from `token` on of one panel. */
INLINE void run_tile(const sl_linear_job *job, const panel *p, int64_t token, const int tokens,
                     group_fn *add) {
    const tile t = {*p, sl_rows8_from(&job->x8, token)};
#pragma GCC unroll 1
    for (int v = 0; v < PANEL_VECTORS; v++) {
        vf y[TILE];
        for (int i = 0; i < tokens; i++) y[i] = vzero();
        for (int64_t g = 0; g < t.x.groups; g++) add(&t, g, v, tokens, y);
        const int64_t row = p->index * SL_PANEL_ROWS + v * LANES, left = job->rows - row;
        float *out = job->out + token * job->out_stride + (row - job->first);
        for (int i = 0; left > 0 && i < tokens; i++)
            vstore_n(out + i * job->out_stride, y[i], left < LANES ? left : LANES);
    }
}

INLINE void run_panels(const sl_linear_job *job, int64_t begin, int64_t end, group_fn *add) {
    const sl_panel_layout l = sl_panel_layout_of(job->dtype, job->rows, job->cols);
    for (int64_t index = begin; index < end; index++) {
        const panel p = panel_at(job, &l, index);
        int64_t token = 0;
        for (; token + TILE <= job->tokens; token += TILE) run_tile(job, &p, token, TILE, add);
        for (; TILE > 4 && token + 4 <= job->tokens; token += 4) run_tile(job, &p, token, 4, add);
        for (; token + 2 <= job->tokens; token += 2) run_tile(job, &p, token, 2, add);
        if (token < job->tokens) run_tile(job, &p, token, 1, add);
    }
}

void SL_KERNEL(sl_linear_part_i8)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    (void)scratch;
    switch (job->dtype) {
    case SL_DTYPE_q4:
        run_panels(job, begin, end, add_q4);
        break;
    case SL_DTYPE_q4_k:
        run_panels(job, begin, end, add_q4_k);
        break;
    case SL_DTYPE_q4_0:
        run_panels(job, begin, end, add_q4_0);
        break;
    case SL_DTYPE_q4_m:
        run_panels(job, begin, end, add_q4_m);
        break;
    case SL_DTYPE_q6_k:
        run_panels(job, begin, end, add_q6_k);
        break;
    default:
        run_panels(job, begin, end, add_q8);
    }
}
