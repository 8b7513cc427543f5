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
 * What is computed at once is a tile of panels and tokens, whose sums stay in registers.  For one
 * or two tokens that is one panel: a single stream from memory, asked for a little ahead, runs as
 * fast as memory can be read.  With more tokens it is two panels where there are registers for
 * them: an activation is then broadcast once for two products, or reading activations would take as
 * long as multiplying.  Eight dot products of a group go with three other multiplications, so that
 * no tile can do more than 8/11 of what the unit for dot products could; two panels by six tokens
 * come within a few percent of it. */
#include "runtime/cpu/kernels/panel_params.h"
#include "runtime/cpu/kernels/rows.h"

enum {
    PANELS = LANES == 16 ? 2 : 1,
    TILE = LANES == 16 ? 6 : 4, /* tokens; more would spill */
    FEW_TOKENS = 2,
    WORD_BYTES = SL_PANEL_ROWS * 4,
    LOW_BYTES = 4 * WORD_BYTES,
    BLOCK_BYTES = 256 << 10 /* of activations that all panels pass by: they and what is read ahead
                               stay in the second level of cache */
};

/* Constants where a tile is computed. */
typedef struct {
    int panels, tokens;
} tile_shape;

typedef struct {
    panel p[PANELS];
    sl_rows8 x;
    bool ahead;        /* nobody has asked for these panels' successors yet */
    int64_t successor; /* bytes to the panels that are next */
    int32_t starts[2][TILE][SL_SUPER_GROUPS]; /* of dot products or of their halves, by group */
} tile;

/* The sums of a tile. */
typedef vf tile_sums[PANELS][TILE];
typedef vi tile_dots[PANELS][TILE];

#define EACH_PANEL(K, SHAPE) _Pragma("GCC unroll 2") for (int K = 0; K < (SHAPE).panels; K++)
#define EACH_TOKEN(I, SHAPE) _Pragma("GCC unroll 8") for (int I = 0; I < (SHAPE).tokens; I++)

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

/* How a type is computed: `start` before the first group of a super-group, then `add` adds vector v
 * (a constant) of group g to y. */
typedef void start_fn(tile *t, int64_t g, const tile_shape shape);
typedef void add_fn(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y);

/* Asks for the weights that will be wanted after a while; where group g's activations begin. */
INLINE const int8_t *start_group(const tile *t, panel_form form, int64_t g, const int v,
                                 const tile_shape shape) {
    if (v == 0 && t->ahead) {
        const int64_t bytes = shape.tokens <= FEW_TOKENS ? AHEAD_BYTES : t->successor;
        EACH_PANEL (k, shape) read_ahead(&t->p[k], form, g, bytes);
    }
    return t->x.codes + g * SL_GROUP_COLS;
}

/* The dot products start from a table, or from zero. */
INLINE void start_dots(const tile *t, int64_t g, const int half, const tile_shape shape,
                       tile_dots dots) {
    EACH_TOKEN (i, shape)
        EACH_PANEL (k, shape) dots[k][i] = (vi){0} + t->starts[half][i][g % SL_SUPER_GROUPS];
}

/* Column word j of group g, of all panels. */
INLINE const uint8_t *words_of(const tile *t, panel_form form, int64_t g, const int v, int k,
                               int j) {
    return codes_of(&t->p[k], form, g) + v * LANES * 4 + j * WORD_BYTES;
}

INLINE void start_nothing(tile *t, int64_t g, const tile_shape shape) {
    (void)t, (void)g, (void)shape;
}

/* Dot products of group g start at -bias sum(a), exact. */
INLINE void start_biased(tile *t, int64_t g, const tile_shape shape, const float bias) {
    const int64_t left = t->x.groups - g, count = left < SL_SUPER_GROUPS ? left : SL_SUPER_GROUPS;
    for (int i = 0; i < shape.tokens; i++) {
        const float *sums = t->x.sums + i * t->x.groups + g;
        for (int64_t c = 0; c < count; c++) t->starts[0][i][c] = (int32_t)(-bias * sums[c]);
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

/* ---- codes of 4 bits ---- */

INLINE void dot_nibbles(const tile *t, int64_t g, const int v, const tile_shape shape,
                        panel_form form, tile_dots dots) {
    const int8_t *x = start_group(t, form, g, v, shape);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
#pragma GCC unroll 4
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
            EACH_PANEL (k, shape) dots[k][i] = vdot_u4(dots[k][i], low[k], even);
            EACH_PANEL (k, shape) dots[k][i] = vdot_u4(dots[k][i], high[k], odd);
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

/* The minimum is 8 scales. */
INLINE void start_q4_0(tile *t, int64_t g, const tile_shape shape) {
    start_biased(t, g, shape, 8);
}
INLINE void add_q4_0(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y) {
    tile_dots dots;
    start_dots(t, g, 0, shape, dots);
    dot_nibbles(t, g, v, shape, form_q4_0, dots);
    vf scales[PANELS], minimum;
    EACH_PANEL (k, shape) params_q4_0(&t->p[k], g, v, &scales[k], &minimum);
    add_scaled(t, g, shape, dots, scales, y);
}

/* ---- signed bytes ---- */

/* Made unsigned where the dot product wants that, which adds 128 sum(a). */
INLINE void start_q8(tile *t, int64_t g, const tile_shape shape) {
    if (VDOT_UNSIGNED) start_biased(t, g, shape, 128);
}
INLINE void add_q8(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y) {
    const int8_t *x = start_group(t, form_q8, g, v, shape);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
    tile_dots dots = {0};
    if (VDOT_UNSIGNED) start_dots(t, g, 0, shape, dots);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        vu words[PANELS];
        EACH_PANEL (k, shape) {
            words[k] = load_once(words_of(t, form_q8, g, v, k, j));
            if (VDOT_UNSIGNED) words[k] ^= 0x80808080;
        }
        EACH_TOKEN (i, shape) {
            const int32_t a = word_of(x + i * stride + 4 * j);
            EACH_PANEL (k, shape)
                dots[k][i] = VDOT_UNSIGNED ? vdot_u8(dots[k][i], words[k], a)
                                           : vdot_s8(dots[k][i], words[k], a);
        }
    }
    vf scales[PANELS];
    EACH_PANEL (k, shape) scales[k] = scale_q8(&t->p[k], g, v, 0);
    add_scaled(t, g, shape, dots, scales, y);
}

/* ---- codes of 6 bits, a scale for each half ---- */

/* Codes stand for 32 less. */
INLINE void start_q6_k(tile *t, int64_t g, const tile_shape shape) {
    const int64_t left = t->x.groups - g, count = left < SL_SUPER_GROUPS ? left : SL_SUPER_GROUPS;
    for (int i = 0; i < shape.tokens; i++) {
        const int64_t at = i * t->x.groups + g;
        for (int64_t c = 0; c < count; c++) {
            const float half = t->x.halves[at + c], rest = t->x.sums[at + c] - half;
            t->starts[0][i][c] = (int32_t)(-32 * half);
            t->starts[1][i][c] = (int32_t)(-32 * rest);
        }
    }
}

/* Columns 4 word and the next three, 0..63. */
INLINE vu word_q6_k(const uint8_t *codes, const int word) {
    const vu low = load_once(codes + word / 2 * WORD_BYTES);
    const vu high = load_once(codes + LOW_BYTES + word / 4 * WORD_BYTES);
    const int shift = 2 * (word % 4);
    const vu top = shift < 4 ? high << (4 - shift) : high >> (shift - 4);
    return ((word % 2 ? low >> 4 : low) & 0x0f0f0f0f) | (top & 0x30303030);
}

/* A half is done before the next is begun: there are no registers for the dot products of both. */
INLINE void add_q6_k(const tile *t, int64_t g, const int v, const tile_shape shape, tile_sums y) {
    const int8_t *x = start_group(t, form_q6_k, g, v, shape);
    const int64_t stride = t->x.groups * SL_GROUP_COLS;
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        tile_dots dots;
        start_dots(t, g, half, shape, dots);
#pragma GCC unroll 4
        for (int j = 4 * half; j < 4 * half + 4; j++) {
            vu words[PANELS];
            EACH_PANEL (k, shape) words[k] = word_q6_k(words_of(t, form_q6_k, g, v, k, 0), j);
            EACH_TOKEN (i, shape) {
                const int32_t a = word_of(x + i * stride + 4 * j);
                EACH_PANEL (k, shape) dots[k][i] = vdot_u8(dots[k][i], words[k], a);
            }
        }
        vf scales[PANELS];
        EACH_PANEL (k, shape) scales[k] = scale_q6_k(&t->p[k], g, v, half);
        add_scaled(t, g, shape, dots, scales, y);
    }
}

/* ---- panels ---- */

/* Panels that are worked on together, and some of a job's tokens. */
typedef struct {
    const sl_linear_job *job;
    panel p[PANELS];
    int64_t panel_bytes, first, tokens;
} block;

/* The tile of a block's tokens from `token` on. */
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
#pragma GCC unroll 1
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

/* One panel. */
INLINE void run_single(const block *b, start_fn *start, add_fn *add) {
    const int64_t end = b->first + b->tokens;
    int64_t token = b->first;
    if (PANELS == 1)
        for (; token + TILE <= end; token += TILE)
            run_tile(b, token, (tile_shape){1, TILE}, start, add);
    for (; token + 2 <= end; token += 2) run_tile(b, token, (tile_shape){1, 2}, start, add);
    if (token < end) run_tile(b, token, (tile_shape){1, 1}, start, add);
}

/* Tiles of nearly the same size, as small ones are slower. */
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

/* Tokens whose activations stay in cache while panels pass; whole tiles, blocks of nearly one size.
 */
static int64_t block_tokens(const sl_linear_job *job) {
    const int64_t fit = BLOCK_BYTES / (job->x8.groups * SL_GROUP_COLS) / TILE * TILE;
    const int64_t most = fit > TILE ? fit : TILE, blocks = (job->tokens + most - 1) / most;
    const int64_t size = blocks > 0 ? (job->tokens + blocks - 1) / blocks : most;
    return (size + TILE - 1) / TILE * TILE;
}

typedef void block_fn(const block *b);

/* Pairs of panels [begin, end). */
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

/* Functions of their own: together they would leave the compiler too few registers for addresses.
 */
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
TYPE(q6_k, start_q6_k)
TYPE(q8, start_q8)

void SL_KERNEL(sl_linear_part_i8)(const sl_linear_job *job, int64_t begin, int64_t end,
                                  void *scratch) {
    (void)scratch;
    switch (job->dtype) {
    case SL_DTYPE_q4:
        run_panels(job, begin, end, single_q4, pair_q4);
        break;
    case SL_DTYPE_q4_k:
        run_panels(job, begin, end, single_q4_k, pair_q4_k);
        break;
    case SL_DTYPE_q4_0:
        run_panels(job, begin, end, single_q4_0, pair_q4_0);
        break;
    case SL_DTYPE_q4_m:
        run_panels(job, begin, end, single_q4_m, pair_q4_m);
        break;
    case SL_DTYPE_q6_k:
        run_panels(job, begin, end, single_q6_k, pair_q6_k);
        break;
    default:
        run_panels(job, begin, end, single_q8, pair_q8);
    }
}
