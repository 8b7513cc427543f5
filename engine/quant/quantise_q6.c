/* quantise_q6.c - Weights as q6_k: 16 columns share a scale, 256 the unit that scales are multiples
 * of.  As in quantise.c lanes are searched together; codes are signed and the scale may be too, so
 * that the largest weight of either sign can take the code -32, of which there is no +32. */
#include "engine/quant/quantise.h"
#include "engine/quant/tile.h"

enum { HALF = COLS / 2, HALVES = 2, LOWEST = -32, HIGHEST = 31, SCALE_TOP = 127 };
/* Codes that the largest weight is tried as, from -30 to -33.5: a little beyond the range, and a
 * little inside of it. */
enum { TRIALS = 8 };

static inline float code_of(float w, float per_scale) {
    return round_even(clamp(w * per_scale, LOWEST, HIGHEST));
}

/* The weight of largest size in each lane, with its sign. */
static void extremes(const tile *t, int half, lanes out) {
    memset(out, 0, sizeof(lanes));
    for (int c = half * HALF; c < (half + 1) * HALF; c++)
        for (int l = 0; l < LANES; l++)
            out[l] = fabsf(t->w[c][l]) > fabsf(out[l]) ? t->w[c][l] : out[l];
}

/* The scale whose codes, with the scale that suits these best, miss least. */
static void search_half(const tile *t, int half, lanes out) {
    lanes extreme, best = {0};
    extremes(t, half, extreme);
    memset(out, 0, sizeof(lanes));
    for (int trial = 0; trial < TRIALS; trial++) {
        lanes per_scale, wq = {0}, q2 = {0};
        for (int l = 0; l < LANES; l++) {
            const float size = inverse(fabsf(extreme[l])) * (30 + 0.5f * (float)trial);
            per_scale[l] = extreme[l] > 0 ? -size : size;
        }
        for (int c = half * HALF; c < (half + 1) * HALF; c++)
            for (int l = 0; l < LANES; l++) {
                const float q = code_of(t->w[c][l], per_scale[l]);
                wq[l] += t->w[c][l] * q;
                q2[l] += q * q;
            }
        for (int l = 0; l < LANES; l++) {
            const float scale = wq[l] * inverse(q2[l]), gain = scale * wq[l];
            out[l] = gain > best[l] ? scale : out[l];
            best[l] = gain > best[l] ? gain : best[l];
        }
    }
}

/* Low bits in nibbles, then two high bits for each column: core/codec.h. */
static void store_code(uint8_t *codes, int64_t lane, int64_t col, unsigned code) {
    uint8_t *low = codes + col / 8 * 64 + lane * 4 + col % 4;
    uint8_t *high = codes + 256 + col / 16 * 64 + lane * 4 + col % 4;
    *low = (uint8_t)(*low | (code & 15) << (col % 8 < 4 ? 0 : 4));
    *high = (uint8_t)(*high | (code >> 4) << col / 4 % 4 * 2);
}

static void store_group(const tile *t, const lanes unit, const lanes scales[HALVES],
                        uint8_t *params, uint8_t *codes) {
    for (int64_t l = 0; l < LANES; l++)
        for (int64_t half = 0; half < HALVES; half++) {
            const float s =
                round_even(clamp(scales[half][l] * inverse(unit[l]), -SCALE_TOP, SCALE_TOP));
            const float scale = unit[l] * s, size = inverse(fabsf(scale));
            params[half * LANES + l] = (uint8_t)(int8_t)s;
            for (int64_t c = half * HALF; c < (half + 1) * HALF; c++)
                store_code(codes, l, c,
                           (unsigned)(code_of(t->w[c][l], scale < 0 ? -size : size) - LOWEST));
        }
}

static void store_super(const tile *tiles, int count, const sl_panel_layout *l, int64_t group,
                        uint8_t *panel) {
    lanes scales[SUPER][HALVES], unit = {0};
    for (int g = 0; g < count; g++)
        for (int half = 0; half < HALVES; half++) {
            search_half(&tiles[g], half, scales[g][half]);
            for (int i = 0; i < LANES; i++)
                unit[i] = fabsf(scales[g][half][i]) > unit[i] ? fabsf(scales[g][half][i]) : unit[i];
        }
    uint8_t *params = panel + sl_super_params(l, group / SUPER);
    for (int64_t i = 0; i < LANES; i++) {
        const uint16_t half = sl_f16_from_f32(unit[i] / SCALE_TOP);
        memcpy(params + i * 2, &half, sizeof half);
        unit[i] = sl_f32_from_f16(half);
    }
    for (int g = 0; g < count; g++)
        store_group(&tiles[g], unit, (const float(*)[LANES])scales[g],
                    panel + sl_group_params(l, group + g), panel + sl_group_codes(l, group + g));
}

void sl_quantise_q6(const float *matrix, const int64_t dims[2], uint8_t *out) {
    const sl_panel_layout l = sl_panel_layout_of(SL_DTYPE_q6_k, dims[0], dims[1]);
    for (int64_t p = 0; p < l.panels; p++)
        for (int64_t group = 0; group < l.groups; group += SUPER) {
            tile tiles[SUPER];
            const int count = (int)(l.groups - group < SUPER ? l.groups - group : SUPER);
            for (int g = 0; g < count; g++)
                tile_load(&tiles[g], matrix, dims, p * LANES, (group + g) * COLS);
            store_super(tiles, count, &l, group, out + (uint64_t)p * l.panel_bytes);
        }
}
