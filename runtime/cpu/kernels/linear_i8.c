/* linear_i8.c - int8 activations times panels of quantised weights (layouts in core/codec.h).
 *
 * Per group of 32 columns, with q the codes of weights and a those of activations:
 *
 *   y += scale_a (scale_w sum(q a) - minimum_w sum(a))
 *
 * The sums are integers and exact; the groups are accumulated in f32 in order.  A (token, output)
 * pair therefore gives the same bits for any number of tokens and any division of the outputs.  A
 * lane is a row of the weights: there are no horizontal sums.
 *
 * The accumulators of a tile of panels and tokens stay in registers.  For one or two tokens a tile
 * is one panel: a single stream from memory with a short prefetch distance reaches the memory
 * bandwidth.  For more tokens it is two panels if there are enough registers: each activation is
 * then broadcast once for two products; otherwise loading activations would take as long as
 * multiplying.  A group needs eight dot-product instructions and three other multiplications, so
 * that a tile reaches at most 8/11 of the dot-product throughput; two panels by six tokens come
 * within a few percent of that. */
#include "runtime/cpu/kernels/panel_params.h"
#include "runtime/cpu/kernels/rows.h"

enum {
    PANELS = LANES == 16 ? 2 : 1,
    TILE = LANES == 16 ? 6 : 4, /* tokens of a tile; more would spill registers */
    FEW_TOKENS = 2,
    BLOCK_BYTES = 256 << 10 /* of activations per block of tokens: they and the prefetched weights
                               stay in the L2 cache */
};

/* Compile-time constants of a tile. */
typedef struct {
    int panels, tokens;
} tile_shape;

typedef struct {
    panel p[PANELS];
    sl_rows8 x;
    bool ahead;        /* prefetch the next panels (only the first tile of a block does) */
    int64_t successor; /* bytes from these panels to the next ones */
    int32_t starts[2][TILE][SL_SUPER_GROUPS]; /* initial values of the dot products, per half of a
                                                 group, token and group */
} tile;

/* The accumulators of a tile. */
typedef vf tile_sums[PANELS][TILE];
typedef vi tile_dots[PANELS][TILE];

#define EACH_PANEL(K, SHAPE)                                                                       \
    UNROLL(2)                                                                                      \
    for (int K = 0; K < (SHAPE).panels; K++)
#define EACH_TOKEN(I, SHAPE)                                                                       \
    UNROLL(8)                                                                                      \
    for (int I = 0; I < (SHAPE).tokens; I++)

INLINE int32_t word_of(const int8_t *codes) {
    int32_t word;
    memcpy(&word, codes, sizeof word);
    return word;
}

/* The functions of a weight type: `start` runs before each super-group; `add` adds vector v (a
 * constant) of group g to y. */
typedef void start_fn(tile *t, int64_t g, const tile_shape shape);
typedef void add_fn(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y);

/* Prefetches weights and returns the activations of group g. */
INLINE const int8_t *start_group(const tile *t, panel_form form, int64_t g, const int v,
                                 const tile_shape shape) {
    if (v == 0 && t->ahead) {
        const int64_t bytes = shape.tokens <= FEW_TOKENS ? AHEAD_BYTES : t->successor;
        EACH_PANEL (k, shape) read_ahead(&t->p[k], form, g, bytes);
    }
    return t->x.codes + g * SL_GROUP_COLS;
}

/* Initialises the dot products from t->starts. */
INLINE void start_dots(const tile *t, int64_t g, const int half, const tile_shape shape,
                       tile_dots dots) {
    EACH_TOKEN (i, shape)
        EACH_PANEL (k, shape) dots[k][i] = (vi){0} + t->starts[half][i][g % SL_SUPER_GROUPS];
}

/* Word j (four columns) of group g in panel k. */
INLINE const uint8_t *words_of(const tile *t, panel_form form, int64_t g, const int v, int k,
                               int j) {
    return codes_of(&t->p[k], form, g) + v * LANES * 4 + j * WORD_BYTES;
}

INLINE void start_nothing(tile *t, int64_t g, const tile_shape shape) {
    (void)t, (void)g, (void)shape;
}

/* Sets t->starts to -bias sum(a) for each group, or for each half of it if parts is 2. */
INLINE void start_biased(tile *t, int64_t g, const tile_shape shape, const int parts,
                         const float bias) {
    const int64_t left = t->x.groups - g, count = left < SL_SUPER_GROUPS ? left : SL_SUPER_GROUPS;
    for (int i = 0; i < shape.tokens; i++) {
        const int64_t at = i * t->x.groups + g;
        for (int64_t c = 0; c < count; c++) {
            const float sum = t->x.sums[at + c], half = parts == 2 ? t->x.halves[at + c] : sum;
            t->starts[0][i][c] = (int32_t)(-bias * half);
            if (parts == 2) t->starts[1][i][c] = (int32_t)(-bias * (sum - half));
        }
    }
}

/* y += scale_a (scale_w dot). */
INLINE void add_scaled(const tile *t, int64_t g, const tile_shape shape, tile_dots dots,
                       const vf *scales, tile_sums y) {
    EACH_TOKEN (i, shape) {
        const vf scale = vsplat(t->x.scales[i * t->x.groups + g]);
        EACH_PANEL (k, shape) y[k][i] = vfma(scale, scales[k] * vfrom_i32(dots[k][i]), y[k][i]);
    }
}

/* ---- 4-bit codes ---- */

INLINE void dot_nibbles(const tile *t, int64_t g, const int v, const tile_shape shape,
                        panel_form form, tile_dots dots) {
    const int8_t *x = start_group(t, form, g, v, shape);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        vu low[PANELS], high[PANELS];
        EACH_PANEL (k, shape) {
            const vu word = load_once(words_of(t, form, g, v, k, j));
            low[k] = word & 0x0f0f0f0f;
            high[k] = word >> 4 & 0x0f0f0f0f;
        }
        EACH_TOKEN (i, shape) {
            const int32_t even = word_of(x + i * stride + 8 * j);
            const int32_t odd = word_of(x + i * stride + 8 * j + 4);
            EACH_PANEL (k, shape) dots[k][i] = vdot_u7(dots[k][i], low[k], even);
            EACH_PANEL (k, shape) dots[k][i] = vdot_u7(dots[k][i], high[k], odd);
        }
    }
}

INLINE void add_nibbles(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y,
                        panel_form form, panel_params_fn *params) {
    tile_dots dots = {0};
    dot_nibbles(t, g, v, shape, form, dots);
    vf scales[PANELS] = {{0}}, minima[PANELS] = {{0}};
    EACH_PANEL (k, shape) params(&t->p[k], g, v, &scales[k], &minima[k]);
    EACH_TOKEN (i, shape) {
        const int64_t at = i * t->x.groups + g;
        const vf sum = vsplat(t->x.sums[at]), scale = vsplat(t->x.scales[at]);
        EACH_PANEL (k, shape) {
            const vf inner = vfma(-minima[k], sum, scales[k] * vfrom_i32(dots[k][i]));
            y[k][i] = vfma(scale, inner, y[k][i]);
        }
    }
}
#define NIBBLES(TYPE)                                                                              \
    INLINE void add_##TYPE(const tile *t, int64_t g, const int v, const tile_shape shape,          \
                           tile_sums y) {                                                          \
        add_nibbles(t, g, v, shape, y, form_##TYPE, params_##TYPE);                                \
    }
NIBBLES(q4)
NIBBLES(q4_k)
NIBBLES(q4_m)
NIBBLES(q4_f)

/* The minimum is 8 scale: fold it into the start values. */
INLINE void start_q4_0(tile *t, int64_t g, const tile_shape shape) {
    start_biased(t, g, shape, 1, 8);
}
INLINE void add_q4_0(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y) {
    tile_dots dots;
    start_dots(t, g, 0, shape, dots);
    dot_nibbles(t, g, v, shape, form_q4_0, dots);
    vf scales[PANELS], minimum;
    EACH_PANEL (k, shape) params_q4_0(&t->p[k], g, v, &scales[k], &minimum);
    add_scaled(t, g, shape, dots, scales, y);
}

/* ---- codes that are unpacked to bytes ---- */

/* How the codes of a type are multiplied. */
typedef vi dot_fn(vi acc, vu weights, int32_t activations);
typedef struct {
    panel_form form;
    int parts; /* parts of a group with their own scale: 1 or 2 */
    int bias;  /* subtracted from every byte */
    bool minimum;
    panel_word_fn *word;
    dot_fn *dot;
    panel_bytes_fn *params;
} byte_codes;

typedef struct {
    vf scales[PANELS], minima[PANELS];
} part_params;

/* y += scale_a (scale_w dot - minimum_w sum). */
INLINE void add_less(const tile *t, int64_t g, const tile_shape shape, tile_dots dots,
                     const part_params *p, const int part, tile_sums y) {
    EACH_TOKEN (i, shape) {
        const int64_t at = i * t->x.groups + g;
        const float sum = part == 0   ? t->x.halves[at]
                          : part == 1 ? t->x.sums[at] - t->x.halves[at]
                                      : t->x.sums[at];
        const vf scale = vsplat(t->x.scales[at]);
        EACH_PANEL (k, shape) {
            const vf inner = vfma(-p->minima[k], vsplat(sum), p->scales[k] * vfrom_i32(dots[k][i]));
            y[k][i] = vfma(scale, inner, y[k][i]);
        }
    }
}

/* One part at a time: there are not enough registers for the dot products of both. */
INLINE void add_part(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y,
                     const byte_codes *type, const int part) {
    const int8_t *x = t->x.codes + g * SL_GROUP_COLS;
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    const int words = SL_GROUP_COLS / 4 / type->parts;
    tile_dots dots = {0};
    if (type->bias) start_dots(t, g, part, shape, dots);
    UNROLL(8)
    for (int i = 0; i < words; i++) {
        const int j = part * words + i;
        vu bytes[PANELS];
        EACH_PANEL (k, shape) bytes[k] = type->word(words_of(t, type->form, g, v, k, 0), j);
        EACH_TOKEN (n, shape) {
            const int32_t a = word_of(x + n * stride + 4 * j);
            EACH_PANEL (k, shape) dots[k][n] = type->dot(dots[k][n], bytes[k], a);
        }
    }
    part_params p = {{{0}}, {{0}}};
    EACH_PANEL (k, shape) type->params(&t->p[k], g, v, part, &p.scales[k], &p.minima[k]);
    if (type->minimum)
        add_less(t, g, shape, dots, &p, type->parts == 2 ? part : -1, y);
    else
        add_scaled(t, g, shape, dots, p.scales, y);
}

INLINE void add_bytes(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y,
                      const byte_codes *type) {
    (void)start_group(t, type->form, g, v, shape);
    add_part(t, g, v, shape, y, type, 0);
    if (type->parts == 2) add_part(t, g, v, shape, y, type, 1);
}

/* Signed bytes; converted to unsigned where the dot-product instruction needs it. */
#if VDOT_UNSIGNED
#define SIGNED_BIAS 128
#define SIGNED_DOT  vdot_u8
#define SIGNED_FLIP 0x80808080
#else
#define SIGNED_BIAS 0
#define SIGNED_DOT  vdot_s8
#define SIGNED_FLIP 0
#endif
INLINE vu word_signed(const uint8_t *codes, const int word) {
    return word_bytes(codes, word) ^ SIGNED_FLIP;
}
INLINE vu word_iq4(const uint8_t *codes, const int word) {
    return vlookup(sl_iq4_table, low_bits(codes, word)) ^ SIGNED_FLIP;
}

/* 4-bit floats as integers plus 12, so that all are small and not negative. */
enum { FP4_BIAS = 12 };
static const int8_t fp4_table[SL_TABLE_ENTRIES] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                   12, 11, 10, 9,  8,  6,  4,  0};
INLINE vu word_fp4(const uint8_t *codes, const int word) {
    return vlookup(fp4_table, low_bits(codes, word));
}

#define BYTES(TYPE, PARTS, BIAS, MINIMUM, WORD, DOT)                                               \
    INLINE void start_##TYPE(tile *t, int64_t g, const tile_shape shape) {                         \
        if (BIAS) start_biased(t, g, shape, PARTS, BIAS);                                          \
    }                                                                                              \
    INLINE void add_##TYPE(const tile *t, int64_t g, const int v, const tile_shape shape,          \
                           tile_sums y) {                                                          \
        const byte_codes type = {form_##TYPE, PARTS, BIAS, MINIMUM, WORD, DOT, bytes_##TYPE};      \
        add_bytes(t, g, v, shape, y, &type);                                                       \
    }
BYTES(q8, 1, SIGNED_BIAS, false, word_signed, SIGNED_DOT)
BYTES(q2_k, 2, 0, true, word_2, vdot_u7)
BYTES(q3_k, 2, 4, false, word_3, vdot_u7)
BYTES(q5_k, 1, 0, true, word_5, vdot_u7)
BYTES(q6_k, 2, 32, false, word_6, vdot_u7)
BYTES(iq4_nl, 1, SIGNED_BIAS, false, word_iq4, SIGNED_DOT)
BYTES(iq4_xs, 1, SIGNED_BIAS, false, word_iq4, SIGNED_DOT)
BYTES(mxfp4, 1, FP4_BIAS, false, word_fp4, vdot_u7)
BYTES(nvfp4, 2, FP4_BIAS, false, word_fp4, vdot_u7)
BYTES(q6_m, 1, 0, true, word_6, vdot_u7)
BYTES(q8_m, 1, 0, true, word_bytes, vdot_u8)
BYTES(q8_f, 1, 0, true, word_bytes, vdot_u8)

/* ---- 8-bit floats: products and sums are floats ---- */

INLINE void add_f8(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y) {
    const int8_t *x = start_group(t, form_f8, g, v, shape);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    tile_sums dots = {0};
    for (int c = 0; c < SL_GROUP_COLS; c++) {
        vf w[PANELS];
        EACH_PANEL (k, shape) {
            const vu byte = vload_u32(words_of(t, form_f8, g, v, k, c / 4)) >> 8 * (c % 4);
            w[k] = (vf)((vu)vfrom_e4m3(byte) | (byte & 0x80) << 24);
        }
        EACH_TOKEN (i, shape) {
            const vf a = vsplat((float)x[i * stride + c]);
            EACH_PANEL (k, shape) dots[k][i] = vfma(w[k], a, dots[k][i]);
        }
    }
    vf scales[PANELS], minimum;
    EACH_PANEL (k, shape) bytes_f8(&t->p[k], g, v, 0, &scales[k], &minimum);
    EACH_TOKEN (i, shape) {
        const vf scale = vsplat(t->x.scales[i * t->x.groups + g]);
        EACH_PANEL (k, shape) y[k][i] = vfma(scale, scales[k] * dots[k][i], y[k][i]);
    }
}

/* ---- panels ---- */

/* A panel, or a pair of panels, and a block of tokens. */
typedef struct {
    const sl_linear_job *job;
    panel p[PANELS];
    int64_t panel_bytes, first, tokens;
} block;

/* Computes the tile of the block's tokens from `token` on. */
INLINE void run_tile(const block *b, int64_t token, const tile_shape shape, start_fn *start,
                     add_fn *add) {
    const sl_linear_job *job = b->job;
    tile t;
    EACH_PANEL (k, shape) t.p[k] = b->p[k];
    t.x = sl_rows8_from(&job->x8, token);
    t.ahead = token == b->first;
    t.successor = shape.panels * b->panel_bytes;
    EACH_PANEL (k, shape)
        EACH_TOKEN (i, shape)
            __builtin_prefetch(job->out + (token + i) * job->out_stride +
                                   b->p[k].index * SL_PANEL_ROWS - job->first,
                               1);
    UNROLL(1)
    for (int v = 0; v < PANEL_VECTORS; v++) {
        tile_sums y = {0};
        for (int64_t g = 0; g < t.x.groups; g++) {
            if (g % SL_SUPER_GROUPS == 0) start(&t, g, shape);
            add(&t, g, v, shape, y);
        }
        EACH_PANEL (k, shape) {
            const int64_t row = b->p[k].index * SL_PANEL_ROWS + v * LANES, left = job->rows - row;
            float *out = job->out + token * job->out_stride + (row - job->first);
            if (left <= 0) continue;
            EACH_TOKEN (i, shape)
                vstore_n(out + i * job->out_stride, y[k][i], left < LANES ? left : LANES);
        }
    }
}

/* All tokens of a block, for one panel. */
INLINE void run_single(const block *b, start_fn *start, add_fn *add) {
    const int64_t end = b->first + b->tokens;
    int64_t token = b->first;
    if (PANELS == 1)
        for (; token + TILE <= end; token += TILE)
            run_tile(b, token, (tile_shape){1, TILE}, start, add);
    for (; token + 2 <= end; token += 2) run_tile(b, token, (tile_shape){1, 2}, start, add);
    if (token < end) run_tile(b, token, (tile_shape){1, 1}, start, add);
}

/* All tokens of a block, for a pair of panels.  Tiles have nearly equal sizes, because small tiles
 * are slower. */
INLINE void run_pair(const block *b, start_fn *start, add_fn *add) {
    int64_t done = 0;
    for (int64_t tiles = (b->tokens + TILE - 1) / TILE; tiles > 0; tiles--) {
        const int64_t count = (b->tokens - done + tiles - 1) / tiles, token = b->first + done;
        if (count == TILE)
            run_tile(b, token, (tile_shape){PANELS, TILE}, start, add);
        else if (count == TILE - 1)
            run_tile(b, token, (tile_shape){PANELS, TILE - 1}, start, add);
        else if (count == TILE - 2)
            run_tile(b, token, (tile_shape){PANELS, TILE - 2}, start, add);
        else
            run_tile(b, token, (tile_shape){PANELS, TILE / 2}, start, add);
        done += count;
    }
}

/* Number of tokens whose activations stay in the cache while all panels are read; a multiple of the
 * tile, such that blocks have nearly equal sizes. */
static int64_t block_tokens(const sl_linear_job *job) {
    const int64_t fit = BLOCK_BYTES / (job->x8.groups * SL_GROUP_COLS) / TILE * TILE;
    const int64_t most = fit > TILE ? fit : TILE, blocks = (job->tokens + most - 1) / most;
    const int64_t size = blocks > 0 ? (job->tokens + blocks - 1) / blocks : most;
    return (size + TILE - 1) / TILE * TILE;
}

typedef void block_fn(const block *b);

/* Computes pairs of panels [begin, end). */
static void run_panels(const sl_linear_job *job, int64_t begin, int64_t end, block_fn *single,
                       block_fn *paired) {
    const sl_panel_layout l = sl_panel_layout_of(job->dtype, job->rows, job->cols);
    const int64_t size = block_tokens(job), pair_end = 2 * end;
    block b = {.job = job, .panel_bytes = (int64_t)l.panel_bytes};
    begin *= 2;
    end = pair_end < l.panels ? pair_end : l.panels;
    for (b.first = 0; b.first < job->tokens; b.first += size) {
        const int64_t left = job->tokens - b.first;
        b.tokens = left < size ? left : size;
        for (int64_t index = begin; index < end;) {
            const bool pair = PANELS > 1 && b.tokens > FEW_TOKENS && index + 1 < end;
            b.p[0] = panel_at(job, &l, index++);
            if (pair) b.p[PANELS - 1] = panel_at(job, &l, index++);
            (pair ? paired : single)(&b);
        }
    }
}

/* Not inlined into one function, which would leave the compiler too few registers for addresses. */
#define TYPE(NAME, START)                                                                          \
    __attribute__((noinline)) static void single_##NAME(const block *b) {                          \
        run_single(b, START, add_##NAME);                                                          \
    }                                                                                              \
    __attribute__((noinline)) static void pair_##NAME(const block *b) {                            \
        if (PANELS > 1) run_pair(b, START, add_##NAME);                                            \
    }
TYPE(q4, start_nothing)
TYPE(q4_k, start_nothing)
TYPE(q4_0, start_q4_0)
TYPE(q4_m, start_nothing)
TYPE(q4_f, start_nothing)
TYPE(q8, start_q8)
TYPE(q2_k, start_q2_k)
TYPE(q3_k, start_q3_k)
TYPE(q5_k, start_q5_k)
TYPE(q6_k, start_q6_k)
TYPE(iq4_nl, start_iq4_nl)
TYPE(iq4_xs, start_iq4_xs)
TYPE(mxfp4, start_mxfp4)
TYPE(nvfp4, start_nvfp4)
TYPE(q6_m, start_q6_m)
TYPE(q8_m, start_q8_m)
TYPE(q8_f, start_q8_f)
TYPE(f8, start_nothing)

static const struct {
    block_fn *single, *pair;
} blocks[SL_DTYPE_COUNT] = {
#define PANEL(NAME, ...) [SL_DTYPE_##NAME] = {single_##NAME, pair_##NAME},
#include "core/panels.def"
};

void SL_KERNEL(sl_linear_part_i8)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    (void)scratch;
    run_panels(job, begin, end, blocks[job->dtype].single, blocks[job->dtype].pair);
}
