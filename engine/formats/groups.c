/* groups.c - The codes of 16 rows, one byte each, are transposed so that words of four columns of
 * all rows are adjacent; then their bits are distributed to the planes of the type. */
#include "engine/formats/groups.h"

enum { LANES = SL_PANEL_ROWS, WORD_BYTES = LANES * 4, WORDS = SL_GROUP_COLS / 4 };

typedef uint32_t words __attribute__((vector_size(16)));

/* The planes and the group parameters of each type. */
typedef struct {
    bool bytes, low, pairs, bits; /* planes of 8, 4, 2 and 1 bits, in this order */
    uint8_t pairs_up, bits_up;    /* position of these bits in a code */
    uint8_t size, count;          /* parameters: bytes of each, and number */
    bool shared;                  /* shared by both groups of a block */
} panel_parts;

static const panel_parts parts[SL_DTYPE_COUNT] = {
    [SL_DTYPE_q8] = {.bytes = true, .size = 2, .count = 1},
    [SL_DTYPE_q4_0] = {.low = true, .size = 2, .count = 1},
    [SL_DTYPE_q2_k] = {.pairs = true, .size = 1, .count = 2},
    [SL_DTYPE_q3_k] = {.pairs = true, .bits = true, .bits_up = 2, .size = 1, .count = 2},
    [SL_DTYPE_q5_k] = {.low = true, .bits = true, .bits_up = 4, .size = 1, .count = 2},
    [SL_DTYPE_iq4_nl] = {.low = true, .size = 2, .count = 1},
    [SL_DTYPE_iq4_xs] = {.low = true, .size = 1, .count = 2},
    [SL_DTYPE_mxfp4] = {.low = true, .size = 2, .count = 1},
    [SL_DTYPE_nvfp4] = {.low = true, .size = 1, .count = 2},
    [SL_DTYPE_q4_m] = {.low = true, .size = 2, .count = 2, .shared = true},
    [SL_DTYPE_q6_m] =
        {.low = true, .pairs = true, .pairs_up = 4, .size = 2, .count = 2, .shared = true},
    [SL_DTYPE_q8_m] = {.bytes = true, .size = 2, .count = 2, .shared = true},
    [SL_DTYPE_q4_f] = {.low = true, .size = 4, .count = 2},
    [SL_DTYPE_q8_f] = {.bytes = true, .size = 4, .count = 2},
    [SL_DTYPE_f8] = {.bytes = true, .size = 4, .count = 1},
};

static void put_params(const panel_parts *p, const sl_group_row *rows, uint8_t *to) {
    for (int64_t i = 0; i < p->count; i++)
        for (int64_t lane = 0; lane < LANES; lane++)
            memcpy(to + (i * LANES + lane) * p->size, rows[lane].params + i * p->size, p->size);
}

/* Transposes four columns of four rows: word w of their codes goes to out[w]. */
static inline void turn(const sl_group_row *rows, words out[WORDS]) {
    for (int64_t half = 0; half < 2; half++) {
        words a, b, c, d;
        memcpy(&a, rows[0].codes + 16 * half, sizeof a);
        memcpy(&b, rows[1].codes + 16 * half, sizeof b);
        memcpy(&c, rows[2].codes + 16 * half, sizeof c);
        memcpy(&d, rows[3].codes + 16 * half, sizeof d);
        const words ac = __builtin_shufflevector(a, c, 0, 4, 1, 5);
        const words bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
        const words ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
        const words bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
        out[4 * half] = __builtin_shufflevector(ac, bd, 0, 4, 1, 5);
        out[4 * half + 1] = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
        out[4 * half + 2] = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
        out[4 * half + 3] = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
    }
}

/* Stores the words of four lanes and returns the start of the next plane. */
static inline uint8_t *store(uint8_t *to, words v) {
    memcpy(to, &v, sizeof v);
    return to + WORD_BYTES;
}
static inline uint8_t *put_low(const words t[WORDS], uint8_t *to) {
    for (int j = 0; j < WORDS; j += 2)
        to = store(to, (t[j] & 0x0f0f0f0f) | (t[j + 1] & 0x0f0f0f0f) << 4);
    return to;
}
static inline uint8_t *put_pairs(const words t[WORDS], uint32_t up, uint8_t *to) {
    for (int j = 0; j < WORDS; j += 4) {
        words all = {0};
        for (uint32_t i = 0; i < 4; i++) all |= (t[(uint32_t)j + i] >> up & 0x03030303) << 2 * i;
        to = store(to, all);
    }
    return to;
}
static inline void put_bits(const words t[WORDS], uint32_t up, uint8_t *to) {
    words all = {0};
    for (uint32_t i = 0; i < WORDS; i++) all |= (t[i] >> up & 0x01010101) << i;
    (void)store(to, all);
}

static void put_codes(const panel_parts *p, const sl_group_row *rows, uint8_t *codes) {
    for (int64_t lane = 0; lane < LANES; lane += 4) {
        words t[WORDS];
        uint8_t *to = codes + lane * 4;
        turn(rows + lane, t);
        for (int i = 0; i < WORDS && p->bytes; i++) to = store(to, t[i]);
        if (p->low) to = put_low(t, to);
        if (p->pairs) to = put_pairs(t, p->pairs_up, to);
        if (p->bits) put_bits(t, p->bits_up, to);
    }
}

/* A panel being written. */
typedef struct {
    const sl_group_source *source;
    const sl_panel_layout *layout;
    uint8_t *start;
    int64_t row; /* first row */
} target;

static void put_super(const target *to, int64_t super) {
    uint16_t halves[2][LANES] = {{0}};
    for (int64_t lane = 0; lane < LANES && to->row + lane < to->source->rows; lane++) {
        uint16_t both[2] = {0, 0};
        to->source->super(to->source->from, to->row + lane, super, both);
        halves[0][lane] = both[0], halves[1][lane] = both[1];
    }
    memcpy(to->start + sl_super_params(to->layout, super), halves, sizeof halves);
}

static void put_group(const target *to, int64_t g) {
    const sl_group_source *s = to->source;
    const panel_parts *p = &parts[s->dtype];
    sl_group_row rows[LANES];
    memset(rows, 0, sizeof rows);
    for (int64_t lane = 0; lane < LANES && to->row + lane < s->rows && g < to->layout->groups;
         lane++)
        s->group(s->from, to->row + lane, g, &rows[lane]);
    if (!p->shared)
        put_params(p, rows, to->start + sl_group_params(to->layout, g));
    else if (g % SL_BLOCK_GROUPS == 0)
        put_params(p, rows, to->start + sl_block_at(to->layout, g));
    put_codes(p, rows, to->start + sl_group_codes(to->layout, g));
}

void sl_groups_repack(const sl_group_source *s, int64_t first, int64_t count, void *matrix) {
    const sl_panel_layout l = sl_panel_layout_of(s->dtype, s->rows, s->cols);
    float *headers = matrix;
    for (int64_t p = first; p < first + count; p++) {
        const target to = {s, &l, (uint8_t *)matrix + l.header_bytes + (uint64_t)p * l.panel_bytes,
                           p * LANES};
        for (int64_t i = 0; i < l.supers; i++) {
            if (l.super_bytes) put_super(&to, i);
            if (!l.header_bytes) continue;
            headers[(p * l.supers + i) * 2] = s->scale;
            headers[(p * l.supers + i) * 2 + 1] = 0;
        }
        for (int64_t g = 0; g < l.groups + l.groups % SL_BLOCK_GROUPS; g++) put_group(&to, g);
    }
    /* Zeroes the padding of the header plane. */
    const uint64_t used = (uint64_t)(l.panels * l.supers) * 2 * sizeof(float);
    if (l.header_bytes && first == 0) memset((char *)matrix + used, 0, l.header_bytes - used);
}

void sl_groups_repack_all(const sl_group_source *source, void *matrix) {
    const int64_t panels = sl_panel_layout_of(source->dtype, source->rows, source->cols).panels;
    sl_groups_repack(source, 0, panels, matrix);
}
