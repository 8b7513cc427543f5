#include "core/codec.h"
#include "base/sizes.h"
#include "core/kv.h"
#include <float.h>
#include <math.h>

enum { MATRIX_ALIGN = 64, LANES = SL_PANEL_ROWS, WORD_BYTES = LANES * 4 };

const int8_t sl_iq4_table[SL_TABLE_ENTRIES] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
const int8_t sl_fp4_table[SL_TABLE_ENTRIES] = {0, 1,  2,  3,  4,  6,  8,  12,
                                               0, -1, -2, -3, -4, -6, -8, -12};

/* Bytes of each panel type. */
typedef struct {
    uint64_t plane, super, params, codes;
} panel_shape;
static const panel_shape shapes[SL_DTYPE_COUNT] = {
#define PANEL(NAME, PLANE, SUPER, PARAMS, CODES) [SL_DTYPE_##NAME] = {PLANE, SUPER, PARAMS, CODES},
#include "core/panels.def"
};

sl_panel_layout sl_panel_layout_of(sl_dtype dtype, int64_t rows, int64_t cols) {
    const panel_shape shape = shapes[dtype];
    sl_panel_layout l = {
        .panels = (rows + SL_PANEL_ROWS - 1) / SL_PANEL_ROWS,
        .groups = (cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS,
        .super_bytes = shape.super,
        .param_bytes = shape.params,
        .group_bytes = shape.codes,
        .block_bytes = SL_BLOCK_GROUPS * (shape.params + shape.codes),
    };
    l.supers = (l.groups + SL_SUPER_GROUPS - 1) / SL_SUPER_GROUPS;
    const uint64_t panels = (uint64_t)l.panels, supers = (uint64_t)l.supers;
    const uint64_t blocks = (uint64_t)((l.groups + SL_BLOCK_GROUPS - 1) / SL_BLOCK_GROUPS);
    l.header_bytes = sl_round_up(panels * supers * shape.plane, MATRIX_ALIGN);
    l.panel_bytes = supers * l.super_bytes + blocks * l.block_bytes;
    l.matrix_bytes = l.header_bytes + panels * l.panel_bytes;
    return l;
}

/* One lane (row) of a panel. */
typedef struct {
    const sl_panel_layout *layout;
    const float *headers; /* only q4 and nvfp4 */
    const uint8_t *panel;
    int64_t lane;
} panel_lane;

/* w = scale[h] * (q - offset) - minimum[h] for the columns of half h. */
typedef struct {
    float scale[2], minimum[2];
    int offset;
} lane_group;

static uint16_t half_at(const uint8_t *array, int64_t lane) {
    uint16_t bits;
    memcpy(&bits, array + lane * 2, sizeof bits);
    return bits;
}
static float f16_at(const uint8_t *array, int64_t lane) {
    return sl_f32_from_f16(half_at(array, lane));
}
static float bf16_at(const uint8_t *array, int64_t lane) {
    return sl_f32_from_bf16(half_at(array, lane));
}
static float f32_at(const uint8_t *array, int64_t lane) {
    float value;
    memcpy(&value, array + lane * 4, sizeof value);
    return value;
}

static lane_group group_of_one(float scale, float minimum) {
    return (lane_group){{scale, scale}, {minimum, minimum}, 0};
}

/* Types with parameters per super-group. */
static lane_group under_super(sl_dtype dtype, const panel_lane *p, int64_t g) {
    const uint8_t *own = p->panel + sl_group_params(p->layout, g) + p->lane;
    const uint8_t *above = p->panel + sl_super_params(p->layout, g / SL_SUPER_GROUPS);
    const uint8_t first = own[0], second = own[LANES];
    const float d = f16_at(above, p->lane), m = f16_at(above + 32, p->lane);
    switch (dtype) {
    case SL_DTYPE_q2_k:
        return (lane_group){{d * (float)(first & 15), d * (float)(second & 15)},
                            {m * (float)(first >> 4), m * (float)(second >> 4)},
                            0};
    case SL_DTYPE_q3_k:
    case SL_DTYPE_q6_k:
        return (lane_group){.scale = {d * (float)(int8_t)first, d * (float)(int8_t)second},
                            .offset = dtype == SL_DTYPE_q3_k ? 4 : 32};
    case SL_DTYPE_iq4_xs:
        return group_of_one(d * (float)(int8_t)first, 0);
    default:
        return group_of_one(d * (float)first, m * (float)second);
    }
}

static lane_group lane_group_of(sl_dtype dtype, const panel_lane *p, int64_t g) {
    const int64_t lane = p->lane;
    const uint8_t *group = p->panel + sl_group_params(p->layout, g);
    const uint8_t *block = p->panel + sl_block_at(p->layout, g);
    const float *header = p->headers + g / SL_SUPER_GROUPS * 2;
    if (p->layout->super_bytes) return under_super(dtype, p, g);
    switch (dtype) {
    case SL_DTYPE_q4:
        return group_of_one(header[0] * (float)group[lane], header[1] * (float)group[LANES + lane]);
    case SL_DTYPE_nvfp4:
        return (lane_group){.scale = {header[0] * (0.5f * sl_f32_from_e4m3(group[lane])),
                                      header[0] * (0.5f * sl_f32_from_e4m3(group[LANES + lane]))}};
    case SL_DTYPE_q4_0:
        return (lane_group){.scale = {f16_at(group, lane), f16_at(group, lane)}, .offset = 8};
    case SL_DTYPE_q4_m:
    case SL_DTYPE_q6_m:
    case SL_DTYPE_q8_m:
        return group_of_one(bf16_at(block, lane), -bf16_at(block + 32, lane));
    case SL_DTYPE_mxfp4:
        return group_of_one(bf16_at(group, lane), 0);
    case SL_DTYPE_q4_f:
    case SL_DTYPE_q8_f:
        return group_of_one(f32_at(group, lane), -f32_at(group + 64, lane));
    case SL_DTYPE_f8:
        return group_of_one(f32_at(group, lane), 0);
    default:
        return group_of_one(f16_at(group, lane), 0);
    }
}

/* ---- the code of one column of a lane in a group ---- */

typedef struct {
    const uint8_t *codes; /* the lane's first word */
    int64_t column;
} code_place;

static int byte_code(code_place at) {
    return at.codes[at.column / 4 * WORD_BYTES + at.column % 4];
}
static int nibble_code(code_place at) {
    return at.codes[at.column / 8 * WORD_BYTES + at.column % 4] >> (at.column % 8 < 4 ? 0 : 4) & 15;
}
/* pair_code and bit_code: the plane begins `words` words further on. */
static int pair_code(code_place at, int64_t words) {
    const int64_t byte = (words + at.column / 16) * WORD_BYTES + at.column % 4;
    return at.codes[byte] >> 2 * (at.column / 4 % 4) & 3;
}
static int bit_code(code_place at, int64_t words) {
    return at.codes[words * WORD_BYTES + at.column % 4] >> at.column / 4 & 1;
}

/* The value of a code. */
static float code_value(sl_dtype dtype, code_place at) {
    switch (dtype) {
    case SL_DTYPE_q8:
        return (float)(int8_t)byte_code(at);
    case SL_DTYPE_q8_m:
    case SL_DTYPE_q8_f:
        return (float)byte_code(at);
    case SL_DTYPE_f8:
        return sl_f32_from_e4m3((uint8_t)byte_code(at));
    case SL_DTYPE_q6_k:
    case SL_DTYPE_q6_m:
        return (float)(nibble_code(at) | pair_code(at, 4) << 4);
    case SL_DTYPE_q5_k:
        return (float)(nibble_code(at) | bit_code(at, 4) << 4);
    case SL_DTYPE_q3_k:
        return (float)(pair_code(at, 0) | bit_code(at, 2) << 2);
    case SL_DTYPE_q2_k:
        return (float)pair_code(at, 0);
    case SL_DTYPE_iq4_nl:
    case SL_DTYPE_iq4_xs:
        return (float)sl_iq4_table[nibble_code(at)];
    case SL_DTYPE_mxfp4:
    case SL_DTYPE_nvfp4:
        return (float)sl_fp4_table[nibble_code(at)];
    default:
        return (float)nibble_code(at);
    }
}

static void decode_panel_row(sl_dtype dtype, const uint8_t *matrix, const sl_panel_layout *l,
                             int64_t row, float *out, int64_t cols) {
    const int64_t panel = row / SL_PANEL_ROWS;
    const panel_lane p = {l, (const float *)(const void *)matrix + panel * l->supers * 2,
                          matrix + l->header_bytes + (uint64_t)panel * l->panel_bytes,
                          row % SL_PANEL_ROWS};
    for (int64_t g = 0; g < l->groups; g++) {
        const lane_group params = lane_group_of(dtype, &p, g);
        const uint8_t *codes = p.panel + sl_group_codes(l, g) + p.lane * 4;
        const int64_t left = cols - g * SL_GROUP_COLS;
        for (int64_t c = 0; c < (left < SL_GROUP_COLS ? left : SL_GROUP_COLS); c++) {
            const float q = code_value(dtype, (code_place){codes, c}) - (float)params.offset;
            out[g * SL_GROUP_COLS + c] = params.scale[c / 16] * q - params.minimum[c / 16];
        }
    }
}

void sl_decode_row(sl_dtype dtype, const void *matrix, int64_t rows, int64_t cols, int64_t row,
                   float *out) {
    const uint8_t *bytes = matrix;
    if (sl_dtype_infos[dtype].kind == SL_KIND_PANEL) {
        const sl_panel_layout layout = sl_panel_layout_of(dtype, rows, cols);
        decode_panel_row(dtype, bytes, &layout, row, out, cols);
        return;
    }
    bytes += (uint64_t)(row * cols) * sl_dtype_infos[dtype].bytes;
    for (int64_t c = 0; c < cols; c++) {
        double value = 0;
        sl_decode_f64(dtype, bytes + (uint64_t)c * sl_dtype_infos[dtype].bytes, 1, &value);
        out[c] = (float)value;
    }
}

sl_rows_layout sl_rows_layout_of(const sl_type *type) {
    const int64_t cols = type->shape.dims[type->shape.rank - 1];
    sl_rows_layout l = {.rows = sl_type_elements(type) / cols,
                        .groups = (cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS};
    const uint64_t groups = (uint64_t)(l.rows * l.groups);
    const uint64_t plane = groups * sizeof(float);
    l.scales = groups * SL_GROUP_COLS;
    l.sums = l.scales + plane;
    l.halves = l.sums + plane;
    l.bytes = l.halves + plane;
    return l;
}

/* Quantises n values of a group to codes; the remaining codes are zero.  Returns the scale. */
static float quantise_group(const float *x, int64_t n, int8_t *codes) {
    float most = 0;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        finite &= isfinite(x[i]) != 0;
    }
    const float inverse = SL_A8_TOP / most;
    memset(codes, 0, SL_GROUP_COLS);
    if (!finite) return NAN;
    if (!(inverse <= FLT_MAX)) return 0; /* zeros, or too small to be represented */
    for (int64_t i = 0; i < n; i++) {
        const float scaled = x[i] * inverse;
        codes[i] = (int8_t)nearbyintf(scaled);
    }
    return most / SL_A8_TOP;
}

void sl_quantise_rows(const sl_type *type, const float *x, void *out) {
    const sl_rows_layout l = sl_rows_layout_of(type);
    const int64_t cols = type->shape.dims[type->shape.rank - 1];
    char *base = out;
    for (int64_t g = 0; g < l.rows * l.groups; g++) {
        const int64_t from = g % l.groups * SL_GROUP_COLS, left = cols - from;
        int8_t *codes = (int8_t *)base + g * SL_GROUP_COLS;
        const float scale = quantise_group(x + g / l.groups * cols + from,
                                           left < SL_GROUP_COLS ? left : SL_GROUP_COLS, codes);
        int sums[2] = {0, 0};
        for (int i = 0; i < SL_GROUP_COLS; i++) sums[i >= SL_GROUP_COLS / 2] += codes[i];
        ((float *)(void *)(base + l.scales))[g] = scale;
        ((float *)(void *)(base + l.sums))[g] = (float)(sums[0] + sums[1]);
        ((float *)(void *)(base + l.halves))[g] = (float)sums[0];
    }
}

void sl_decode_tensor(const sl_type *type, const void *data, double *out) {
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_CACHE) {
        sl_kv_decode(type, data, out);
        return;
    }
    if (sl_dtype_infos[type->dtype].kind != SL_KIND_ROWS) {
        sl_decode_f64(type->dtype, data, sl_type_elements(type), out);
        return;
    }
    const sl_rows_layout l = sl_rows_layout_of(type);
    const int64_t cols = type->shape.dims[type->shape.rank - 1];
    const char *base = data;
    for (int64_t i = 0; i < l.rows * cols; i++) {
        const int64_t at = i / cols * l.groups * SL_GROUP_COLS + i % cols;
        const float scale = ((const float *)(const void *)(base + l.scales))[at / SL_GROUP_COLS];
        out[i] = (double)(scale * (float)((const int8_t *)base)[at]);
    }
}

#define DECODE(TYPE, EXPR)                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                          \
        TYPE v;                                                                                    \
        memcpy(&v, (const char *)data + (size_t)i * sizeof v, sizeof v);                           \
        out[i] = (double)(EXPR);                                                                   \
    }                                                                                              \
    break

void sl_decode_f64(sl_dtype dtype, const void *data, int64_t count, double *out) {
    switch (dtype) {
    case SL_DTYPE_f32:
        DECODE(float, v);
    case SL_DTYPE_f16:
        DECODE(uint16_t, sl_f32_from_f16(v));
    case SL_DTYPE_bf16:
        DECODE(uint16_t, sl_f32_from_bf16(v));
    case SL_DTYPE_i32:
        DECODE(int32_t, v);
    case SL_DTYPE_u8:
    case SL_DTYPE_bool:
        DECODE(uint8_t, v);
    case SL_DTYPE_i8:
        DECODE(int8_t, v);
    case SL_DTYPE_i16:
        DECODE(int16_t, v);
    case SL_DTYPE_u16:
        DECODE(uint16_t, v);
    case SL_DTYPE_u32:
        DECODE(uint32_t, v);
    case SL_DTYPE_f64:
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
        memcpy(out, data, (size_t)count * sizeof *out);
        break;
    case SL_DTYPE_c64:
        sl_decode_f64(SL_DTYPE_f32, data, 2 * count, out);
        break;
    default: /* panels are decoded by row */
        break;
    }
}

#define ENCODE(TYPE, EXPR)                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                          \
        const double d = values[i];                                                                \
        const TYPE v = (TYPE)(EXPR);                                                               \
        memcpy((char *)out + (size_t)i * sizeof v, &v, sizeof v);                                  \
    }                                                                                              \
    break

void sl_encode_f64(sl_dtype dtype, const double *values, int64_t count, void *out) {
    switch (dtype) {
    case SL_DTYPE_f32:
        ENCODE(float, d);
    case SL_DTYPE_f16:
        ENCODE(uint16_t, sl_f16_from_f32((float)d));
    case SL_DTYPE_bf16:
        ENCODE(uint16_t, sl_bf16_from_f32((float)d));
    case SL_DTYPE_i32:
        ENCODE(int32_t, d);
    case SL_DTYPE_u8:
        ENCODE(uint8_t, d);
    case SL_DTYPE_bool:
        ENCODE(uint8_t, d != 0);
    case SL_DTYPE_i8:
        ENCODE(int8_t, d);
    case SL_DTYPE_i16:
        ENCODE(int16_t, d);
    case SL_DTYPE_u16:
        ENCODE(uint16_t, d);
    case SL_DTYPE_u32:
        ENCODE(uint32_t, d);
    case SL_DTYPE_f64:
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
        memcpy(out, values, (size_t)count * sizeof *values);
        break;
    case SL_DTYPE_c64:
        sl_encode_f64(SL_DTYPE_f32, values, 2 * count, out);
        break;
    default:
        break;
    }
}

uint16_t sl_bf16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) return (uint16_t)((bits >> 16) | 0x40);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float sl_f32_from_f16(uint16_t bits) {
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    if (exponent == 0) {
        const float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    const uint32_t wide =
        sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* With the bits moved into the fields of an f16, the value is 2^8 too small, also for
 * subnormals. */
float sl_f32_from_e4m3(uint8_t bits) {
    const uint32_t magnitude = bits & 0x7f;
    if (magnitude == 0x7f) return NAN;
    return sl_f32_from_f16((uint16_t)((bits & 0x80) << 8 | magnitude << 7)) * 0x1p8f;
}

uint16_t sl_f16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
    const float magnitude = fabsf(value);
    if (isnan(value)) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x1p-14f) /* subnormal: multiples of 2^-24; nearbyint rounds to even */
        return (uint16_t)(sign | (uint16_t)nearbyintf(magnitude * 0x1p24f));
    const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + ((bits >> 13) & 1);
    return (uint16_t)(sign | (uint16_t)((rounded >> 13) - (112 << 10)));
}
