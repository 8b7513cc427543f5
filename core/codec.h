/* codec.h - Memory layouts of element types, and decoding.
 *
 * Panel types store a matrix of R rows and K columns as ceil(R/16) panels of 16 rows and ceil(K/32)
 * groups of 32 columns; rows and columns are padded with zero weights.  Within a group, lane l
 * (row 16p+l) owns the 32-bit words l, l+16, l+32, ... so that one 64-byte load gives every row its
 * next columns.  An array of 16 has one value per lane.
 *
 * Two groups make a block: the parameters of both groups, then the codes of both.  A panel is a
 * sequence of blocks; some types have 64 bytes of further parameters in front of every super-group
 * of 8 groups.  A panel is therefore read as a single stream, which reaches memory bandwidth;
 * parameters stored apart from the codes would not.  core/panels.def has the sizes.
 *
 * Codes q are stored in planes, by the bits of a code:
 *
 *   low 4   four words per lane: word j holds columns 8j..8j+7, byte b: low nibble column 8j+b,
 *           high nibble column 8j+4+b
 *   2       two words per lane: bits 2*(c%4) and the next of byte b of word c/4 belong to column
 *           4c+b
 *   1       one word per lane: bit c of byte b belongs to column 4c+b
 *   8       eight words per lane: word j holds columns 4j..4j+3
 *
 *   q4:     a plane of headers before the panels, one {f32 d, f32 m} per panel and super-group,
 *           rounded up to 64 bytes.  Group: 16 bytes s, 16 bytes n.  w = d*s*q - m*n, 4 bits.
 *   q8:     group: 16 f16 scales.  w = scale*q, 8 bits, signed.
 *
 * The other types represent the weights of other file formats exactly:
 *
 *   q4_k:   (GGUF Q4_K) super-group: 16 f16 d, 16 f16 m.  Group: 16 bytes s, 16 bytes n, both in
 *           0..63.  w = d*s*q - m*n, 4 bits.
 *   q5_k:   (GGUF Q5_K) the same with 5 bits: the low 4, then 1.
 *   q2_k:   (GGUF Q2_K) super-group: 16 f16 d, 16 f16 m.  Group: 16 bytes of columns 0..15, 16 of
 *           columns 16..31; s the low nibble, n the high one.  w = d*s*q - m*n, 2 bits.
 *   q3_k:   (GGUF Q3_K) super-group: 16 f16 d, 32 bytes of zeros.  Group: 16 signed bytes s of
 *           columns 0..15, 16 of columns 16..31.  w = d*s*(q - 4), 3 bits: 2, then the high 1.
 *   q6_k:   (GGUF Q6_K) parameters like q3_k.  w = d*s*(q - 32), 6 bits: the low 4, then 2.
 *   q4_0:   (GGUF Q4_0) group: 16 f16 d.  w = d*(q - 8), 4 bits.
 *   q4_m:   (MLX, to 4 bits) both groups of a block: 16 bf16 scales, 16 bf16 biases.
 *           w = scale*q + bias, 4 bits; q6_m: 6 bits; q8_m: 8 bits, unsigned.
 *   q4_f:   group: 16 f32 scales, 16 f32 biases.  w = scale*q + bias, 4 bits; q8_f: 8, unsigned.
 *
 * 4-bit codes that are indices into a table: sl_iq4_table for IQ4_NL and IQ4_XS, sl_fp4_table for
 * the 4-bit floats, whose entries are twice the value they represent:
 *
 *   iq4_nl: (GGUF IQ4_NL) group: 16 f16 d.  w = d*table[q].
 *   iq4_xs: (GGUF IQ4_XS) super-group: 16 f16 d, 32 bytes of zeros.  Group: 16 signed bytes s, 16
 *           of zeros.  w = d*s*table[q].
 *   mxfp4:  (GGUF MXFP4, MLX mxfp4) group: 16 bf16 scales, half of the files' powers of two.
 *           w = scale*table[q].
 *   nvfp4:  (GGUF NVFP4, MLX nvfp4) a plane of headers like q4's, {f32 d, f32 zero}.  Group: 16
 *           bytes u of columns 0..15, 16 of columns 16..31, floats of 8 bits (e4m3, not negative).
 *           w = d*u/2*table[q].
 *
 *   f8:     group: 16 f32 scales.  w = scale*e4m3(q), 8 bits; no q is NaN.
 *
 * Every matrix starts on a 64-byte boundary.
 *
 * Activations (a8) are four contiguous planes: the codes, signed bytes, with K rounded up to whole
 * groups per row; then per row and group an f32 scale, an f32 with the sum of the group's codes,
 * and an f32 with the sum of its first half.  x = scale*code, code in -127..127.  If K needs no
 * rounding, the bytes do not depend on how the dims before the last are split. */
#ifndef SL_CORE_CODEC_H
#define SL_CORE_CODEC_H
#include "core/type.h"
#include <string.h>

enum {
    SL_PANEL_ROWS = 16,
    SL_GROUP_COLS = 32,
    SL_BLOCK_GROUPS = 2,
    SL_SUPER_GROUPS = 8,
    SL_A8_TOP = 127
};

/* The values of 4-bit codes. */
enum { SL_TABLE_ENTRIES = 16 };
extern const int8_t sl_iq4_table[SL_TABLE_ENTRIES], sl_fp4_table[SL_TABLE_ENTRIES];

typedef struct {
    int64_t panels, groups, supers; /* panels per matrix; groups and super-groups per panel */
    uint64_t header_bytes;          /* plane before the first panel */
    uint64_t super_bytes;           /* parameters in front of a super-group: 0 or 64 */
    uint64_t param_bytes;           /* the parameters of a group */
    uint64_t group_bytes;           /* the codes of a group */
    uint64_t block_bytes;
    uint64_t panel_bytes;
    uint64_t matrix_bytes;
} sl_panel_layout;
sl_panel_layout sl_panel_layout_of(sl_dtype dtype, int64_t rows, int64_t cols);

/* Offsets within a panel: of the parameters of a super-group, and of the parameters and codes of a
 * group. */
static inline uint64_t sl_super_params(const sl_panel_layout *l, int64_t super) {
    return (uint64_t)super * (l->super_bytes + SL_SUPER_GROUPS / SL_BLOCK_GROUPS * l->block_bytes);
}
static inline uint64_t sl_block_at(const sl_panel_layout *l, int64_t group) {
    return (uint64_t)(group / SL_SUPER_GROUPS + 1) * l->super_bytes +
           (uint64_t)(group / SL_BLOCK_GROUPS) * l->block_bytes;
}
static inline uint64_t sl_group_params(const sl_panel_layout *l, int64_t group) {
    return sl_block_at(l, group) + (uint64_t)(group % SL_BLOCK_GROUPS) * l->param_bytes;
}
static inline uint64_t sl_group_codes(const sl_panel_layout *l, int64_t group) {
    return sl_block_at(l, group) + SL_BLOCK_GROUPS * l->param_bytes +
           (uint64_t)(group % SL_BLOCK_GROUPS) * l->group_bytes;
}

/* The planes of a8, as byte offsets. */
typedef struct {
    int64_t rows, groups; /* groups per row */
    uint64_t scales, sums, halves, bytes;
} sl_rows_layout;
sl_rows_layout sl_rows_layout_of(const sl_type *type);

/* Quantises f32 rows to a8: scale = largest / 127, codes rounded to nearest even.  A group with a
 * value that is not finite gets the scale NaN. */
void sl_quantise_rows(const sl_type *type, const float *x, void *out);

/* Decodes row `row` of the matrix (rows x cols, any float, panel or integer type) to cols floats.
 */
void sl_decode_row(sl_dtype dtype, const void *matrix, int64_t rows, int64_t cols, int64_t row,
                   float *out);

/* Decodes a tensor of plain elements, of a8 or of a quantised KV cache to doubles. */
void sl_decode_tensor(const sl_type *type, const void *data, double *out);
/* Converts count plain (non-panel) elements to or from slots of 8 bytes: one double each, two for a
 * complex number.  A 64-bit integer is stored unchanged in its slot, because a double cannot
 * represent all of them. */
void sl_decode_f64(sl_dtype dtype, const void *data, int64_t count, double *out);
void sl_encode_f64(sl_dtype dtype, const double *values, int64_t count, void *out);

static inline float sl_f32_from_bf16(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}
uint16_t sl_bf16_from_f32(float value); /* round to nearest even; NaN stays NaN */
float sl_f32_from_f16(uint16_t bits);
float sl_f32_from_e4m3(uint8_t bits);  /* 0x7f and 0xff are NaN */
uint16_t sl_f16_from_f32(float value); /* round to nearest even */
#endif
