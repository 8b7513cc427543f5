/* noise.c - Sums of a few uniform numbers are close enough to a normal distribution, and cost a few
 * instructions for all codes of a word. */
#include "engine/quant/noise.h"
#include <math.h>

enum { LANES = SL_PANEL_ROWS, BAND_ROWS = SL_PANEL_ROWS, SCALE_LOW = 128, SCALE_SPREAD = 127 };

static const uint64_t GAMMA = 0x9e3779b97f4a7c15u;

/* A bijection that leaves nothing of the order of its arguments. */
static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
static inline uint64_t word_of(uint64_t seed, uint64_t index) {
    return mix(seed + (index + 1) * GAMMA);
}

double sl_noise_uniform(uint64_t seed, uint64_t index) {
    return (double)(word_of(seed, index) >> 11) * 0x1p-53;
}

/* Four uniform numbers of 16 bits: the sum has mean 2 (2^16 - 1) and variance (2^32 - 1) / 3. */
float sl_noise_normal(uint64_t seed, uint64_t index) {
    const uint64_t w = word_of(seed, index);
    const int32_t sum =
        (int32_t)((w & 0xffff) + (w >> 16 & 0xffff) + (w >> 32 & 0xffff) + (w >> 48));
    return (float)(sum - 131070) * (1.7320508f / 65536);
}

/* Nibbles 0..15 with mean 7.5 and variance 10.75: two of 0..7 and one of 0..1. */
static inline uint64_t nibbles_of(uint64_t x, uint64_t y) {
    const uint64_t sevens = 0x7777777777777777u, ones = 0x1111111111111111u;
    return (x & sevens) + (y & sevens) + (x >> 3 & ones);
}
static const float NIBBLE_MEAN = 7.5f, NIBBLE_DEVIATION = 3.2787193f;

/* Bytes -127..127 with mean 0 and variance 2730.5: two of 0..127, less 127. */
static inline uint64_t bytes_of(uint64_t x, uint64_t y) {
    const uint64_t low = 0x7f7f7f7f7f7f7f7fu;
    return ((x & low) + (y & low) + 0x0101010101010101u) ^ 0x8080808080808080u;
}
static const float BYTE_DEVIATION = 52.254186f;

/* Scale codes are uniform in SCALE_LOW..SCALE_LOW + SCALE_SPREAD. */
static float scale_rms(void) {
    const float mean = SCALE_LOW + SCALE_SPREAD / 2.0f;
    const float variance = ((SCALE_SPREAD + 1.0f) * (SCALE_SPREAD + 1.0f) - 1) / 12;
    return sqrtf(mean * mean + variance);
}

sl_noise sl_noise_make(sl_type type, uint64_t seed, float deviation) {
    const int64_t rows = type.shape.dims[0], cols = type.shape.dims[1];
    sl_noise noise = {.type = type, .seed = mix(seed), .deviation = deviation};
    noise.bands = (rows + BAND_ROWS - 1) / BAND_ROWS;
    if (sl_dtype_infos[type.dtype].kind == SL_KIND_PANEL) {
        noise.panel = sl_panel_layout_of(type.dtype, rows, cols);
        noise.head_bytes = noise.panel.header_bytes;
        noise.band_bytes = noise.panel.panel_bytes;
    } else {
        noise.band_bytes = (uint64_t)cols * BAND_ROWS * sizeof(uint16_t);
    }
    return noise;
}

void sl_noise_head(const sl_noise *noise, void *out) {
    const float d = noise->deviation / (scale_rms() * NIBBLE_DEVIATION);
    const float header[2] = {d, NIBBLE_MEAN * d};
    const int64_t count = noise->panel.panels * noise->panel.supers;
    memset(out, 0, noise->head_bytes);
    for (int64_t i = 0; i < count && noise->head_bytes; i++)
        memcpy((uint8_t *)out + (uint64_t)i * sizeof header, header, sizeof header);
}

static void fill_codes(const sl_noise *noise, uint64_t seed, uint64_t bytes, uint8_t *out) {
    const bool q4 = noise->type.dtype == SL_DTYPE_q4;
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++) {
        const uint64_t x = word_of(seed, 2 * i), y = word_of(seed, 2 * i + 1);
        const uint64_t codes = q4 ? nibbles_of(x, y) : bytes_of(x, y);
        memcpy(out + i * sizeof codes, &codes, sizeof codes);
    }
}

/* The 32 bytes of scales of one group; rows that are missing have none and so weigh nothing.  With
 * equal codes of scale and minimum the weights of a q4 lane centre on zero. */
static void fill_scales(const sl_noise *noise, uint64_t seed, int64_t rows, uint8_t *out) {
    for (int64_t l = 0; l < rows; l++) {
        const uint8_t code = (uint8_t)(SCALE_LOW + (word_of(seed, (uint64_t)l) >> 57));
        const float relative = (float)code / scale_rms();
        const uint16_t half = sl_f16_from_f32(noise->deviation / BYTE_DEVIATION * relative);
        if (noise->type.dtype == SL_DTYPE_q4)
            out[l] = out[LANES + l] = code;
        else
            memcpy(out + l * 2, &half, sizeof half);
    }
}

static void fill_panel(const sl_noise *noise, int64_t rows, uint64_t seed, uint8_t *out) {
    const sl_panel_layout *l = &noise->panel;
    memset(out, 0, l->panel_bytes);
    for (int64_t g = 0; g < l->groups; g++) {
        const uint64_t own = mix(seed + (uint64_t)g);
        fill_scales(noise, own, rows, out + sl_group_params(l, g));
        fill_codes(noise, ~own, l->group_bytes, out + sl_group_codes(l, g));
    }
}

static void fill_floats(const sl_noise *noise, int64_t rows, uint64_t seed, uint8_t *out) {
    const uint64_t count = (uint64_t)(rows * noise->type.shape.dims[1]);
    for (uint64_t i = 0; i < count; i++) {
        const uint16_t value = sl_bf16_from_f32(sl_noise_normal(seed, i) * noise->deviation);
        memcpy(out + i * sizeof value, &value, sizeof value);
    }
}

uint64_t sl_noise_bands(const sl_noise *noise, int64_t first, int64_t count, void *out) {
    uint8_t *to = out;
    for (int64_t band = first; band < first + count; band++) {
        const int64_t left = noise->type.shape.dims[0] - band * BAND_ROWS;
        const int64_t rows = left < BAND_ROWS ? left : BAND_ROWS;
        const uint64_t seed = word_of(noise->seed, (uint64_t)band);
        if (noise->panel.panels)
            fill_panel(noise, rows, seed, to);
        else
            fill_floats(noise, rows, seed, to);
        to += noise->panel.panels ? noise->band_bytes
                                  : (uint64_t)(rows * noise->type.shape.dims[1]) * sizeof(uint16_t);
    }
    return (uint64_t)(to - (uint8_t *)out);
}
