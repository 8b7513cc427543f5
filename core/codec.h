/* codec.h - How element types are laid out in memory, and decoding them.
 *
 * Panel types (q4, q8) store a matrix of R rows and K columns as ceil(R/16) panels of 16 rows and
 * ceil(K/32) groups of 32 columns; missing rows and columns are coded as zero weights.  Within a
 * group, lane l (row 16p+l) owns the 32-bit words l, l+16, l+32, ... so that one 64-byte load
 * gives every row its next columns.
 *
 * Two groups make a block: 64 bytes of parameters, 32 for each group, then the codes of one and of
 * the other.  A panel is its blocks, one after another, so that it is read as a single stream: on
 * its own that runs at the speed of memory, where parameters apart from codes do not.
 *
 *   q4: before the panels a plane of headers, one {f32 d, f32 m} per panel and super-group of 8
 *       groups, rounded up to 64 bytes.  Parameters: 16 scale codes s, 16 minimum codes n (bytes).
 *       Codes: 256 bytes of nibbles: word j (0..3) of a lane holds columns 8j..8j+7, byte b: low
 *       nibble column 8j+b, high nibble column 8j+4+b.  w = d*s*q - m*n, q in 0..15.
 *   q8: parameters: 16 f16 scales.  Codes: 512 bytes: word j (0..7) of a lane holds columns
 *       4j..4j+3.  w = scale*q, q in -127..127.
 *
 * Every matrix starts on a 64-byte boundary.
 *
 * Rows of activations (a8) are four planes without gaps: the codes, signed bytes, K rounded up to
 * whole groups per row; then per row and group an f32 scale; an f32 that holds the sum of the
 * group's codes; and one for the sum of its first half.  x = scale*code, code in -127..127.
 * Without padding in its rows the bytes do not depend on how dims before the last are divided. */
#ifndef SL_CORE_CODEC_H
#define SL_CORE_CODEC_H
#include "core/type.h"
#include <string.h>

enum {
    SL_PANEL_ROWS = 16,
    SL_GROUP_COLS = 32,
    SL_BLOCK_GROUPS = 2,
    SL_SUPER_GROUPS = 8,
    SL_A8_TOP = 127,
    SL_GROUP_PARAMS = 32, /* bytes */
    SL_BLOCK_PARAMS = SL_BLOCK_GROUPS * SL_GROUP_PARAMS
};

typedef struct {
    int64_t panels, groups, supers; /* panels per matrix; groups and super-groups per panel */
    uint64_t header_bytes;          /* plane before the first panel */
    uint64_t group_bytes;           /* the codes of a group */
    uint64_t block_bytes;
    uint64_t panel_bytes;
    uint64_t matrix_bytes;
} sl_panel_layout;
sl_panel_layout sl_panel_layout_of(sl_dtype dtype, int64_t rows, int64_t cols);

/* Where in a panel a group has its parameters and its codes. */
static inline uint64_t sl_group_params(const sl_panel_layout *l, int64_t group) {
    return (uint64_t)(group / SL_BLOCK_GROUPS) * l->block_bytes +
           (uint64_t)(group % SL_BLOCK_GROUPS) * SL_GROUP_PARAMS;
}
static inline uint64_t sl_group_codes(const sl_panel_layout *l, int64_t group) {
    return (uint64_t)(group / SL_BLOCK_GROUPS) * l->block_bytes + SL_BLOCK_PARAMS +
           (uint64_t)(group % SL_BLOCK_GROUPS) * l->group_bytes;
}

/* Planes of a8, as offsets in bytes. */
typedef struct {
    int64_t rows, groups; /* groups per row */
    uint64_t scales, sums, halves, bytes;
} sl_rows_layout;
sl_rows_layout sl_rows_layout_of(const sl_type *type);

/* Rows of f32, cols wide, coded as a8: scale = largest / 127, codes rounded to nearest even.  A
 * group with a value that is not finite gets the scale NaN. */
void sl_quantise_rows(const sl_type *type, const float *x, void *out);

/* Decodes row `row` of the matrix (rows x cols, any float, panel or integer type) to cols floats.
 */
void sl_decode_row(sl_dtype dtype, const void *matrix, int64_t rows, int64_t cols, int64_t row,
                   float *out);

/* A tensor of plain elements or of a8, as doubles. */
void sl_decode_tensor(const sl_type *type, const void *data, double *out);
/* Converts count plain (non-panel) elements to or from double. */
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
uint16_t sl_f16_from_f32(float value); /* round to nearest even */
#endif
