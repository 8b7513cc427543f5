#include "core/schemes.h"
#include <stdio.h>

static const sl_scheme schemes[] = {
    {"int8_block", SL_SCHEME_INT8, 1, false, NULL, 0},
    {"int8_block_asym", SL_SCHEME_INT8_ASYM, 2, false, NULL, 0},
    {"int4_block", SL_SCHEME_INT4, 1, true, NULL, 0},
    {"int4_block_asym", SL_SCHEME_INT4_ASYM, 2, true, NULL, 0},
    {"fp8_e4m3", SL_SCHEME_E4M3, 1, false, NULL, 0},
    {"fp8_e5m2", SL_SCHEME_E5M2, 1, false, NULL, 0},
    {"nvfp4", SL_SCHEME_NVFP4, 2, true, NULL, 0},
    {"mlx_2", SL_SCHEME_MLX, 2, false, NULL, 2},
    {"mlx_3", SL_SCHEME_MLX, 2, false, NULL, 3},
    {"mlx_4", SL_SCHEME_MLX, 2, false, NULL, 4},
    {"mlx_5", SL_SCHEME_MLX, 2, false, NULL, 5},
    {"mlx_6", SL_SCHEME_MLX, 2, false, NULL, 6},
    {"mlx_8", SL_SCHEME_MLX, 2, false, NULL, 8},
};
enum { SCHEMES = sizeof schemes / sizeof schemes[0] };
static const char prefix[] = "gguf_";

bool sl_scheme_find(const char *text, sl_scheme *out) {
    for (int i = 0; i < SCHEMES; i++)
        if (strcmp(schemes[i].name, text) == 0) {
            *out = schemes[i];
            return true;
        }
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) return false;
    const sl_gguf_layout *layout = sl_gguf_layout_find(text + sizeof prefix - 1);
    if (layout) *out = (sl_scheme){layout->name, SL_SCHEME_GGUF, 0, false, layout, 0};
    return layout != NULL;
}

const char *sl_schemes_known(char *text, size_t capacity) {
    size_t at = 0;
    for (int i = 0; i < SCHEMES + SL_GGUF_COUNT && at < capacity; i++)
        at += (size_t)snprintf(text + at, capacity - at, "%s%s%s", i ? ", " : "",
                               i < SCHEMES ? "" : prefix,
                               i < SCHEMES ? schemes[i].name : sl_gguf_layouts[i - SCHEMES].name);
    return text;
}

/* Blocks run along K, so a part is decoded by columns. */
static void decode_gguf(const sl_packed *p, const sl_packed_part *part, float *out,
                        int64_t stride) {
    const sl_gguf_layout *l = p->scheme.gguf;
    float row[SL_PACKED_STEP];
    for (int64_t n = 0; n < part->cols; n++) {
        const int64_t block = (part->col + n) * (p->inner / l->cols) + part->k / l->cols;
        sl_gguf_decode(l, (const uint8_t *)p->w + block * l->bytes, part->ks / l->cols, row);
        for (int64_t k = 0; k < part->ks; k++) out[k * stride + n] = row[k];
    }
}

/* The value of the code at (k, n). */
static float code_at(const sl_packed *p, int64_t k, int64_t n) {
    const uint8_t *row =
        (const uint8_t *)p->w + k * (p->scheme.nibbles ? (p->cols + 1) / 2 : p->cols);
    const int byte = row[p->scheme.nibbles ? n / 2 : n], nibble = byte >> n % 2 * 4 & 15;
    switch (p->scheme.kind) {
    case SL_SCHEME_INT4:
        return (float)(nibble >= 8 ? nibble - 16 : nibble);
    case SL_SCHEME_INT4_ASYM:
        return (float)nibble;
    case SL_SCHEME_NVFP4:
        return 0.5f * (float)sl_fp4_table[nibble];
    case SL_SCHEME_E4M3:
        return sl_f32_from_e4m3((uint8_t)byte);
    case SL_SCHEME_E5M2: /* the upper half of an f16 */
        return sl_f32_from_f16((uint16_t)(byte << 8));
    default:
        return (float)(p->w_signed ? (int8_t)byte : byte);
    }
}

/* Codes are bits of a stream, the lowest first. */
static float mlx_weight(const sl_packed *p, int64_t k, int64_t n) {
    const int64_t bits = p->scheme.bits, bit = k * bits, row_bytes = p->inner * bits / 8;
    const uint8_t *row = (const uint8_t *)p->w + n * row_bytes + bit / 8;
    const int shift = (int)(bit % 8);
    const int high = shift + bits > 8 ? row[1] : 0;
    const int code = (row[0] | high << 8) >> shift & ((1 << bits) - 1);
    const int64_t at = n * (p->inner / p->block) + k / p->block;
    return ((const float *)p->params[0])[at] * (float)code + ((const float *)p->params[1])[at];
}

static float weight_at(const sl_packed *p, int64_t k, int64_t n) {
    if (p->scheme.kind == SL_SCHEME_MLX) return mlx_weight(p, k, n);
    const int64_t at = p->block ? k / p->block * p->cols + n : p->one_scale ? 0 : n;
    const float *scales = p->params[0], *second = p->params[1];
    const float code = code_at(p, k, n);
    if (p->scheme.kind == SL_SCHEME_NVFP4)
        return code * sl_f32_from_e4m3(((const uint8_t *)p->params[0])[at]) * second[0];
    return (p->scheme.params == 2 ? code - second[at] : code) * scales[at];
}

void sl_packed_decode(const sl_packed *p, const sl_packed_part *part, float *out, int64_t stride) {
    if (p->scheme.gguf) {
        decode_gguf(p, part, out, stride);
        return;
    }
    for (int64_t k = 0; k < part->ks; k++)
        for (int64_t n = 0; n < part->cols; n++)
            out[k * stride + n] = weight_at(p, part->k + k, part->col + n);
}
