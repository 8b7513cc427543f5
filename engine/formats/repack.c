/* repack.c - Converts rows of blocks to panels: words of four rows are loaded and transposed, so
 * that the same word of every row is adjacent; then nibbles are moved.  Uses 16-byte vectors, which
 * every machine has. */
#include "engine/formats/repack.h"

enum { LANES = SL_PANEL_ROWS, WORD_BYTES = LANES * 4, LOW_BYTES = 256, SUPER_COLS = 256 };
enum { MLX_COLS = 64 };

typedef uint32_t words __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));

/* A panel being written. */
typedef struct {
    uint8_t *panel;
    sl_panel_layout layout;
} target;

static inline uint8_t *super_of(const target *to, int64_t super) {
    return to->panel + sl_super_params(&to->layout, super);
}
static inline uint8_t *params_of(const target *to, int64_t group) {
    return to->panel + sl_group_params(&to->layout, group);
}
static inline uint8_t *codes_of(const target *to, int64_t group) {
    return to->panel + sl_group_codes(&to->layout, group);
}

/* The current block of each lane's row. */
typedef struct {
    const uint8_t *at[LANES];
    size_t step[LANES]; /* bytes to the next block; 0 for a missing row, which reads zeros */
} lanes;

/* A zero block, as long as the longest GGUF block. */
static const uint8_t zeros[SUPER_COLS];

static lanes lanes_of(const void *data, size_t row_bytes, size_t step, int64_t first,
                      int64_t rows) {
    lanes l;
    for (int64_t i = 0; i < LANES; i++) {
        const bool there = first + i < rows;
        l.at[i] = there ? (const uint8_t *)data + (size_t)(first + i) * row_bytes : zeros;
        l.step[i] = there ? step : 0;
    }
    return l;
}

static inline void advance(lanes *l) {
    for (int64_t i = 0; i < LANES; i++) l->at[i] += l->step[i];
}

/* ---- transposition ---- */

static inline words load_words(const uint8_t *at) {
    words v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline void store_words(uint8_t *at, words v) {
    memcpy(at, &v, sizeof v);
}

/* Transposes: word i of four lanes' 16 bytes goes to out[i]. */
static inline void turn_words(const uint8_t *const *at, int64_t offset, words out[4]) {
    const words a = load_words(at[0] + offset), b = load_words(at[1] + offset);
    const words c = load_words(at[2] + offset), d = load_words(at[3] + offset);
    const words ac = __builtin_shufflevector(a, c, 0, 4, 1, 5);
    const words bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
    const words ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    const words bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(ac, bd, 0, 4, 1, 5);
    out[1] = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
    out[2] = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
    out[3] = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
}

/* Transposes 16 rows of 16 bytes: four rounds that interleave the first half of the rows with the
 * second. */
static inline void turn_bytes(bytes rows[LANES]) {
    for (int round = 0; round < 4; round++) {
        bytes next[LANES];
        for (int64_t i = 0; i < LANES / 2; i++) {
            const bytes a = rows[i], b = rows[i + LANES / 2];
            next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6,
                                                  22, 7, 23);
            next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                      13, 29, 14, 30, 15, 31);
        }
        memcpy(rows, next, sizeof next);
    }
}

/* Stores the 16-bit value at `offset` of every lane. */
static inline void put_halves(const lanes *l, int64_t offset, uint8_t *to) {
    uint16_t halves[LANES];
    for (int64_t i = 0; i < LANES; i++) memcpy(&halves[i], l->at[i] + offset, sizeof halves[i]);
    memcpy(to, halves, sizeof halves);
}

/* 16 bytes of every lane, with 16 columns in the low nibbles and 16 in the high ones, become two
 * words of panel codes each. */
static inline void put_nibbles(const lanes *l, int64_t offset, uint8_t *low, uint8_t *high) {
    for (int64_t i = 0; i < LANES; i += 4) {
        words t[4];
        turn_words(l->at + i, offset, t);
        for (int64_t w = 0; w < 2; w++) {
            const words a = t[2 * w], b = t[2 * w + 1];
            const int64_t to = w * WORD_BYTES + i * 4;
            store_words(low + to, (a & 0x0f0f0f0f) | (b & 0x0f0f0f0f) << 4);
            store_words(high + to, (a >> 4 & 0x0f0f0f0f) | (b & 0xf0f0f0f0));
        }
    }
}

/* ---- blocks of each type ---- */

enum { LONGEST_BYTES = 210, Q4_K_BYTES = 144, Q4_0_BYTES = 18, Q6_K_BYTES = 210, Q8_0_BYTES = 34 };

/* 12 bytes hold eight scales and eight minima of 6 bits: the first four of each in the low bits of
 * the first eight bytes; the last four in the nibbles of the other bytes and the remaining high
 * bits. */
static inline bytes q4_k_scales(const uint8_t *block) {
    uint32_t s[3];
    memcpy(s, block + 4, sizeof s);
    const uint32_t low = 0x3f3f3f3f, nibble = 0x0f0f0f0f, pair = 0x03030303;
    const words all = {s[0] & low, (s[2] & nibble) | (s[0] >> 6 & pair) << 4, s[1] & low,
                       (s[2] >> 4 & nibble) | (s[1] >> 6 & pair) << 4};
    return (bytes)all;
}

static void put_q4_k(const lanes *l, int64_t super, const target *to) {
    const int64_t first = super * SL_SUPER_GROUPS;
    put_halves(l, 0, super_of(to, super));
    put_halves(l, 2, super_of(to, super) + 32);
    bytes params[LANES];
    for (int64_t i = 0; i < LANES; i++) params[i] = q4_k_scales(l->at[i]);
    turn_bytes(params);
    for (int64_t g = 0; g < SL_SUPER_GROUPS; g++) {
        memcpy(params_of(to, first + g), &params[g], LANES);
        memcpy(params_of(to, first + g) + LANES, &params[SL_SUPER_GROUPS + g], LANES);
    }
    for (int64_t c = 0; c < 8; c++) {
        const int64_t group = first + c / 2 * 2, word = c % 2 * 2 * WORD_BYTES;
        put_nibbles(l, 16 + 16 * c, codes_of(to, group) + word, codes_of(to, group + 1) + word);
    }
}

static void put_q4_0(const lanes *l, int64_t group, const target *to) {
    uint8_t *codes = codes_of(to, group);
    put_halves(l, 0, params_of(to, group));
    put_nibbles(l, 2, codes, codes + LOW_BYTES / 2);
}

/* 16 bytes of every lane, each with 2 bits of four groups, become word `word` of these groups' high
 * bits. */
static inline void put_pairs(const lanes *l, int64_t offset, const target *to, int64_t first,
                             int64_t word) {
    for (int64_t i = 0; i < LANES; i += 4) {
        words t[4];
        turn_words(l->at + i, offset, t);
        for (int64_t g = 0; g < 4; g++) {
            const uint32_t from = 2 * (uint32_t)g, pair = 0x03030303;
            const words out = (t[0] >> from & pair) | (t[1] >> from & pair) << 2 |
                              (t[2] >> from & pair) << 4 | (t[3] >> from & pair) << 6;
            store_words(codes_of(to, first + g) + LOW_BYTES + word * WORD_BYTES + i * 4, out);
        }
    }
}

/* A block is two halves of 128 columns (four groups) each: their low bits in 64 bytes, with the
 * first two groups in the low nibbles; their high bits in 32. */
static void put_q6_k(const lanes *l, int64_t super, const target *to) {
    const int64_t above = super * SL_SUPER_GROUPS;
    put_halves(l, 208, super_of(to, super));
    memset(super_of(to, super) + 32, 0, 32);
    bytes params[LANES];
    for (int64_t i = 0; i < LANES; i++) memcpy(&params[i], l->at[i] + 192, LANES);
    turn_bytes(params);
    for (int64_t g = 0; g < SL_SUPER_GROUPS; g++)
        memcpy(params_of(to, above + g), &params[2 * g], to->layout.param_bytes);
    for (int64_t half = 0; half < 2; half++) {
        const int64_t first = above + half * 4;
        for (int64_t c = 0; c < 4; c++) {
            const int64_t group = first + c / 2, word = c % 2 * 2 * WORD_BYTES;
            put_nibbles(l, 64 * half + 16 * c, codes_of(to, group) + word,
                        codes_of(to, group + 2) + word);
        }
        for (int64_t w = 0; w < 2; w++) put_pairs(l, 128 + 32 * half + 16 * w, to, first, w);
    }
}

static void put_q8_0(const lanes *l, int64_t group, const target *to) {
    put_halves(l, 0, params_of(to, group));
    for (int64_t half = 0; half < 2; half++)
        for (int64_t i = 0; i < LANES; i += 4) {
            words t[4];
            turn_words(l->at + i, 2 + 16 * half, t);
            for (int64_t w = 0; w < 4; w++)
                store_words(codes_of(to, group) + (half * 4 + w) * WORD_BYTES + i * 4, t[w]);
        }
}

/* Nibble 4a + 2b + c of a word moves to 4b + 2c + a, which interleaves the upper four columns with
 * the lower ones. */
static inline words interleave_nibbles(words w) {
    const words middle = (w ^ w >> 8) & 0x0000ff00;
    w ^= middle | middle << 8;
    const words inner = (w ^ w >> 4) & 0x00f000f0;
    return w ^ (inner | inner << 4);
}

/* 64 columns. */
static void put_mlx_codes(const lanes *l, uint8_t *codes) {
    for (int64_t group = 0; group < 2; group++)
        for (int64_t i = 0; i < LANES; i += 4) {
            words t[4];
            turn_words(l->at + i, 16 * group, t);
            for (int64_t w = 0; w < 4; w++)
                store_words(codes + group * LOW_BYTES + w * WORD_BYTES + i * 4,
                            interleave_nibbles(t[w]));
        }
}

/* ---- matrices ---- */

/* The block formats of files. */
typedef struct {
    int64_t cols; /* columns of a block */
    size_t bytes; /* of a block */
    void (*put)(const lanes *l, int64_t block, const target *to);
} block_kind;

static block_kind kind_of(sl_dtype dtype) {
    switch (dtype) {
    case SL_DTYPE_q4_k:
        return (block_kind){SUPER_COLS, Q4_K_BYTES, put_q4_k};
    case SL_DTYPE_q4_0:
        return (block_kind){SL_GROUP_COLS, Q4_0_BYTES, put_q4_0};
    case SL_DTYPE_q6_k:
        return (block_kind){SUPER_COLS, Q6_K_BYTES, put_q6_k};
    case SL_DTYPE_q8:
        return (block_kind){SL_GROUP_COLS, Q8_0_BYTES, put_q8_0};
    case SL_DTYPE_q4_m:
        return (block_kind){MLX_COLS, MLX_COLS / 2, NULL};
    default:
        return (block_kind){0, 0, NULL};
    }
}

size_t sl_repack_row_bytes(sl_dtype dtype, int64_t cols) {
    const block_kind kind = kind_of(dtype);
    if (!kind.cols || cols < 1 || cols % kind.cols != 0) return 0;
    return (size_t)(cols / kind.cols) * kind.bytes;
}

sl_status sl_repack_check(const sl_repack_source *source, const char *name, sl_error *err) {
    const sl_type type = sl_type_make(source->dtype, 2, source->rows, source->cols);
    SL_TRY(sl_type_check(&type, name, err));
    const char *dtype = sl_dtype_infos[source->dtype].name;
    const block_kind kind = kind_of(source->dtype);
    if (!kind.cols)
        return sl_fail(err, SL_UNSUPPORTED, "%s: no file format has rows of %s", name, dtype);
    if (source->cols % kind.cols != 0)
        return sl_fail(err, SL_FORMAT, "%s: %lld columns, a multiple of %lld wanted for %s", name,
                       (long long)source->cols, (long long)kind.cols, dtype);
    const size_t least = source->block ? (size_t)(source->cols / kind.cols) * source->block->bytes
                                       : sl_repack_row_bytes(source->dtype, source->cols);
    if (source->row_bytes < least)
        return sl_fail(err, SL_FORMAT, "%s: rows of %zu bytes, at least %zu wanted for %s", name,
                       source->row_bytes, least, dtype);
    const size_t scales = (size_t)(source->cols / MLX_COLS) * 2;
    if (source->dtype == SL_DTYPE_q4_m && source->scale_row_bytes < scales)
        return sl_fail(err, SL_FORMAT, "%s: rows of %zu bytes of scales, at least %zu wanted", name,
                       source->scale_row_bytes, scales);
    return SL_OK;
}

static void put_mlx(const sl_repack_source *s, int64_t row, const target *to) {
    lanes codes = lanes_of(s->data, s->row_bytes, MLX_COLS / 2, row, s->rows);
    lanes scales = lanes_of(s->scales, s->scale_row_bytes, 2, row, s->rows);
    lanes biases = lanes_of(s->biases, s->scale_row_bytes, 2, row, s->rows);
    for (int64_t b = 0; b < s->cols / MLX_COLS; b++) {
        put_halves(&scales, 0, params_of(to, b * SL_BLOCK_GROUPS));
        put_halves(&biases, 0, params_of(to, b * SL_BLOCK_GROUPS + 1));
        put_mlx_codes(&codes, codes_of(to, b * SL_BLOCK_GROUPS));
        advance(&codes), advance(&scales), advance(&biases);
    }
}

/* Zeroes the second group of the last block if there is only one. */
static void put_nothing(const target *to) {
    const int64_t groups = to->layout.groups;
    if (groups % SL_BLOCK_GROUPS == 0) return;
    memset(params_of(to, groups), 0, to->layout.param_bytes);
    memset(codes_of(to, groups), 0, to->layout.group_bytes);
}

/* Expands one block of every lane to the type's own block format. */
static void expand(const lanes *from, const sl_repack_block *block,
                   uint8_t room[LANES][LONGEST_BYTES], lanes *out) {
    for (int i = 0; i < LANES; i++) {
        out->at[i] = from->step[i] ? room[i] : zeros;
        if (from->step[i]) block->expand(from->at[i], room[i]);
    }
}

void sl_repack_panels(const sl_repack_source *s, int64_t first, int64_t count, void *matrix) {
    const block_kind kind = kind_of(s->dtype);
    target to = {.layout = sl_panel_layout_of(s->dtype, s->rows, s->cols)};
    for (int64_t p = first; p < first + count; p++) {
        to.panel = (uint8_t *)matrix + to.layout.header_bytes + (uint64_t)p * to.layout.panel_bytes;
        put_nothing(&to);
        if (!kind.put) {
            put_mlx(s, p * LANES, &to);
            continue;
        }
        const size_t step = s->block ? s->block->bytes : kind.bytes;
        lanes from = lanes_of(s->data, s->row_bytes, step, p * LANES, s->rows), wide = from;
        for (int64_t b = 0; b < s->cols / kind.cols; b++) {
            uint8_t room[LANES][LONGEST_BYTES];
            if (s->block) expand(&from, s->block, room, &wide);
            kind.put(s->block ? &wide : &from, b, &to);
            advance(&from);
        }
    }
}
