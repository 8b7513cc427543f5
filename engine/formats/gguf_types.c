/* gguf_types.c - The element types of GGUF: what each takes, and what it becomes here.  A type that
 * is not known has a size, so that the file can be read around it. */
#include "core/codec.h"
#include "engine/formats/gguf.h"
#include <string.h>

enum { Q8_GROUP_BYTES = 512 };

/* A block of 32 columns with an f16 scale at its start, as 32 signed codes.  The product with the
 * scale is the weight, so that q8 holds it without loss. */
typedef void codes_of_block(const uint8_t *block, int8_t *out);

static void codes_q8_0(const uint8_t *block, int8_t *out) {
    memcpy(out, block + 2, SL_GROUP_COLS);
}

static void codes_q5_0(const uint8_t *block, int8_t *out) {
    const uint8_t *high = block + 2, *low = block + 6;
    for (int i = 0; i < SL_GROUP_COLS; i++) {
        const int nibble = i < 16 ? low[i] & 15 : low[i - 16] >> 4;
        out[i] = (int8_t)((nibble | ((high[i / 8] >> (i % 8)) & 1) << 4) - 16);
    }
}

static void put_group(const uint8_t *block, codes_of_block *codes_of, uint8_t *scales,
                      uint8_t *codes) {
    int8_t group[SL_GROUP_COLS];
    memcpy(scales, block, 2);
    codes_of(block, group);
    for (int word = 0; word < SL_GROUP_COLS / 4; word++)
        memcpy(codes + (size_t)word * 4 * SL_PANEL_ROWS, group + (size_t)word * 4, 4);
}

static void to_q8(const uint8_t *raw, int64_t rows, int64_t cols, uint8_t *out,
                  uint32_t block_bytes, codes_of_block *codes_of) {
    const sl_panel_layout l = sl_panel_layout_of(SL_DTYPE_q8, rows, cols);
    if (rows % SL_PANEL_ROWS)
        memset(out + (uint64_t)(l.panels - 1) * l.panel_bytes, 0, l.panel_bytes);
    for (int64_t row = 0; row < rows; row++) {
        const uint64_t lane = (uint64_t)(row % SL_PANEL_ROWS);
        uint8_t *panel = out + (uint64_t)(row / SL_PANEL_ROWS) * l.panel_bytes;
        for (int64_t g = 0; g < l.groups; g++)
            put_group(raw + (uint64_t)(row * l.groups + g) * block_bytes, codes_of,
                      panel + (uint64_t)g * 2 * SL_PANEL_ROWS + lane * 2,
                      panel + l.scale_bytes + (uint64_t)g * Q8_GROUP_BYTES + lane * 4);
    }
}

static void q8_0_to_q8(const void *raw, int64_t rows, int64_t cols, void *out) {
    to_q8(raw, rows, cols, out, 34, codes_q8_0);
}
static void q5_0_to_q8(const void *raw, int64_t rows, int64_t cols, void *out) {
    to_q8(raw, rows, cols, out, 22, codes_q5_0);
}

static const sl_tensor_form q8_0 = {"Q8_0", q8_0_to_q8}, q5_0 = {"Q5_0", q5_0_to_q8};

#define PLAIN(dtype)      true, SL_DTYPE_##dtype, NULL
#define FORM(dtype, form) true, SL_DTYPE_##dtype, &(form)
#define UNKNOWN           false, SL_DTYPE_f32, NULL
static const sl_gguf_type types[] = {
    [0] = {"F32", 1, 4, PLAIN(f32)},        [1] = {"F16", 1, 2, PLAIN(f16)},
    [2] = {"Q4_0", 32, 18, UNKNOWN},        [3] = {"Q4_1", 32, 20, UNKNOWN},
    [6] = {"Q5_0", 32, 22, FORM(q8, q5_0)}, [7] = {"Q5_1", 32, 24, UNKNOWN},
    [8] = {"Q8_0", 32, 34, FORM(q8, q8_0)}, [9] = {"Q8_1", 32, 36, UNKNOWN},
    [10] = {"Q2_K", 256, 84, UNKNOWN},      [11] = {"Q3_K", 256, 110, UNKNOWN},
    [12] = {"Q4_K", 256, 144, UNKNOWN},     [13] = {"Q5_K", 256, 176, UNKNOWN},
    [14] = {"Q6_K", 256, 210, UNKNOWN},     [15] = {"Q8_K", 256, 292, UNKNOWN},
    [16] = {"IQ2_XXS", 256, 66, UNKNOWN},   [17] = {"IQ2_XS", 256, 74, UNKNOWN},
    [18] = {"IQ3_XXS", 256, 98, UNKNOWN},   [19] = {"IQ1_S", 256, 50, UNKNOWN},
    [20] = {"IQ4_NL", 32, 18, UNKNOWN},     [21] = {"IQ3_S", 256, 110, UNKNOWN},
    [22] = {"IQ2_S", 256, 82, UNKNOWN},     [23] = {"IQ4_XS", 256, 136, UNKNOWN},
    [24] = {"I8", 1, 1, UNKNOWN},           [25] = {"I16", 1, 2, UNKNOWN},
    [26] = {"I32", 1, 4, UNKNOWN},          [27] = {"I64", 1, 8, UNKNOWN},
    [28] = {"F64", 1, 8, UNKNOWN},          [29] = {"IQ1_M", 256, 56, UNKNOWN},
    [30] = {"BF16", 1, 2, PLAIN(bf16)},     [34] = {"TQ1_0", 256, 54, UNKNOWN},
    [35] = {"TQ2_0", 256, 66, UNKNOWN},     [39] = {"MXFP4", 32, 17, UNKNOWN},
    [40] = {"NVFP4", 64, 36, UNKNOWN},
};
#undef PLAIN
#undef FORM
#undef UNKNOWN

const sl_gguf_type *sl_gguf_type_find(uint32_t id) {
    return id < sizeof types / sizeof types[0] && types[id].name ? &types[id] : NULL;
}

const char *sl_gguf_types_known(void) {
    return "F32, F16, BF16, Q8_0, Q5_0";
}
