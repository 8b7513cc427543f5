/* gguf_types.c - The element types of GGUF: their block sizes, and the types that they are
 * converted to.  Unsupported types have a size too, so that their tensors can be skipped. */
#include "engine/formats/gguf.h"
#include "engine/formats/gguf_blocks.h"
#include "engine/formats/repack.h"
#include <string.h>

/* Expands Q5_0 to Q8_0: an f16 scale and codes -16 to 15, stored as the fifth bits and the
 * nibbles. */
static void expand_q5_0(const uint8_t *block, uint8_t *out) {
    sl_group_row row;
    sl_gguf_layouts[SL_GGUF_Q5_0].group(block, 0, &row);
    memcpy(out, row.params, 2);
    memcpy(out + 2, row.codes, sizeof row.codes);
}

/* A converter to panels of a type. */
#define FORM_OF(NAME, TEXT, DTYPE, BLOCK_COLS, BLOCK_BYTES, BLOCK)                                 \
    static void convert_##NAME(const sl_raw_matrix *raw, void *out) {                              \
        const sl_repack_source source = {.dtype = SL_DTYPE_##DTYPE,                                \
                                         .rows = raw->rows,                                        \
                                         .cols = raw->cols,                                        \
                                         .data = raw->parts[0],                                    \
                                         .row_bytes =                                              \
                                             (size_t)raw->cols / (BLOCK_COLS) * (BLOCK_BYTES),     \
                                         .block = (BLOCK)};                                        \
        sl_repack_panels(&source, 0,                                                               \
                         sl_panel_layout_of(SL_DTYPE_##DTYPE, raw->rows, raw->cols).panels, out);  \
    }                                                                                              \
    static const sl_tensor_form form_##NAME = {TEXT, convert_##NAME};
static const sl_repack_block q5_0 = {22, expand_q5_0};
FORM_OF(q8_0, "Q8_0", q8, 32, 34, NULL)
FORM_OF(q5_0, "Q5_0", q8, 32, 22, &q5_0)
FORM_OF(q4_0, "Q4_0", q4_0, 32, 18, NULL)
FORM_OF(q4_k, "Q4_K", q4_k, 256, 144, NULL)
FORM_OF(q6_k, "Q6_K", q6_k, 256, 210, NULL)
#undef FORM_OF

/* A converter that goes group by group (groups.h). */
#define GROUPS_OF(NAME, KIND)                                                                      \
    static void convert_##NAME(const sl_raw_matrix *raw, void *out) {                              \
        const sl_gguf_matrix matrix = {SL_GGUF_##KIND, raw->rows, raw->cols, raw->parts[0], 1};    \
        sl_gguf_repack(&matrix, out);                                                              \
    }                                                                                              \
    static const sl_tensor_form form_##NAME = {#KIND, convert_##NAME};
GROUPS_OF(q4_1, Q4_1)
GROUPS_OF(q5_1, Q5_1)
GROUPS_OF(q8_1, Q8_1)
GROUPS_OF(q2_k, Q2_K)
GROUPS_OF(q3_k, Q3_K)
GROUPS_OF(q5_k, Q5_K)
GROUPS_OF(iq4_nl, IQ4_NL)
GROUPS_OF(iq4_xs, IQ4_XS)
GROUPS_OF(mxfp4, MXFP4)
GROUPS_OF(nvfp4, NVFP4)
GROUPS_OF(tq1_0, TQ1_0)
GROUPS_OF(tq2_0, TQ2_0)
#undef GROUPS_OF

static void convert_q8_k(const sl_raw_matrix *raw, void *out) {
    const sl_gguf_layout *layout = &sl_gguf_layouts[SL_GGUF_Q8_K];
    sl_gguf_decode(layout, raw->parts[0], raw->rows * (raw->cols / layout->cols), out);
}
static const sl_tensor_form form_q8_k = {"Q8_K", convert_q8_k};

#define PLAIN(dtype)      true, SL_DTYPE_##dtype, NULL
#define FORM(dtype, form) true, SL_DTYPE_##dtype, &form_##form
#define UNKNOWN           false, SL_DTYPE_f32, NULL
static const sl_gguf_type types[] = {
    [0] = {"F32", 1, 4, PLAIN(f32)},
    [1] = {"F16", 1, 2, PLAIN(f16)},
    [2] = {"Q4_0", 32, 18, FORM(q4_0, q4_0)},
    [3] = {"Q4_1", 32, 20, FORM(q4_f, q4_1)},
    [6] = {"Q5_0", 32, 22, FORM(q8, q5_0)},
    [7] = {"Q5_1", 32, 24, FORM(q8_f, q5_1)},
    [8] = {"Q8_0", 32, 34, FORM(q8, q8_0)},
    [9] = {"Q8_1", 32, 36, FORM(q8, q8_1)},
    [10] = {"Q2_K", 256, 84, FORM(q2_k, q2_k)},
    [11] = {"Q3_K", 256, 110, FORM(q3_k, q3_k)},
    [12] = {"Q4_K", 256, 144, FORM(q4_k, q4_k)},
    [13] = {"Q5_K", 256, 176, FORM(q5_k, q5_k)},
    [14] = {"Q6_K", 256, 210, FORM(q6_k, q6_k)},
    [15] = {"Q8_K", 256, 292, FORM(f32, q8_k)},
    [16] = {"IQ2_XXS", 256, 66, UNKNOWN},
    [17] = {"IQ2_XS", 256, 74, UNKNOWN},
    [18] = {"IQ3_XXS", 256, 98, UNKNOWN},
    [19] = {"IQ1_S", 256, 50, UNKNOWN},
    [20] = {"IQ4_NL", 32, 18, FORM(iq4_nl, iq4_nl)},
    [21] = {"IQ3_S", 256, 110, UNKNOWN},
    [22] = {"IQ2_S", 256, 82, UNKNOWN},
    [23] = {"IQ4_XS", 256, 136, FORM(iq4_xs, iq4_xs)},
    [24] = {"I8", 1, 1, UNKNOWN},
    [25] = {"I16", 1, 2, UNKNOWN},
    [26] = {"I32", 1, 4, UNKNOWN},
    [27] = {"I64", 1, 8, UNKNOWN},
    [28] = {"F64", 1, 8, UNKNOWN},
    [29] = {"IQ1_M", 256, 56, UNKNOWN},
    [30] = {"BF16", 1, 2, PLAIN(bf16)},
    [34] = {"TQ1_0", 256, 54, FORM(q4_0, tq1_0)},
    [35] = {"TQ2_0", 256, 66, FORM(q4_0, tq2_0)},
    [39] = {"MXFP4", 32, 17, FORM(mxfp4, mxfp4)},
    [40] = {"NVFP4", 64, 36, FORM(nvfp4, nvfp4)},
};
#undef PLAIN
#undef FORM
#undef UNKNOWN

const sl_gguf_type *sl_gguf_type_find(uint32_t id) {
    return id < sizeof types / sizeof types[0] && types[id].name ? &types[id] : NULL;
}

const char *sl_gguf_types_known(char *text, size_t capacity) {
    size_t length = 0;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].known) length = sl_gguf_list(text, capacity, length, types[i].name);
    return text;
}
