#include "core/codec.h"
#include "base/sizes.h"
#include <math.h>

enum { MATRIX_ALIGN = 64, LANES = SL_PANEL_ROWS, WORD_BYTES = LANES * 4, LOW_BYTES = 256 };

/* Bytes per panel of each panel type. */
typedef struct {
    int64_t super_groups;
    uint64_t plane_bytes; /* of a super-group, before the first panel */
    uint64_t super_bytes; /* of a super-group's parameters */
    uint64_t param_bytes; /* of a group's parameters */
    uint64_t group_bytes; /* of a group's codes */
} panel_shape;

static panel_shape shape_of(sl_dtype dtype) {
    switch (dtype) {
    case SL_DTYPE_q4:
        return (panel_shape){SL_SUPER_GROUPS, 2 * sizeof(float), 0, 32, LOW_BYTES};
    case SL_DTYPE_q4_k:
        return (panel_shape){SL_SUPER_GROUPS, 0, 64, 32, LOW_BYTES};
    case SL_DTYPE_q4_0:
        return (panel_shape){SL_SUPER_GROUPS, 0, 0, 32, LOW_BYTES};
    case SL_DTYPE_q6_k:
        return (panel_shape){SL_SUPER_GROUPS, 0, 32, 32, LOW_BYTES + 128};
    case SL_DTYPE_q4_m:
        return (panel_shape){SL_Q4_M_SUPER_GROUPS, 0, 64, 0, LOW_BYTES};
    default:
        return (panel_shape){SL_SUPER_GROUPS, 0, 0, 32, 512};
    }
}

sl_panel_layout sl_panel_layout_of(sl_dtype dtype, int64_t rows, int64_t cols) {
    const panel_shape shape = shape_of(dtype);
    sl_panel_layout l = {
        .panels = (rows + SL_PANEL_ROWS - 1) / SL_PANEL_ROWS,
        .groups = (cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS,
        .group_bytes = shape.group_bytes,
    };
    l.supers = (l.groups + shape.super_groups - 1) / shape.super_groups;
    const uint64_t panels = (uint64_t)l.panels, groups = (uint64_t)l.groups;
    const uint64_t supers = (uint64_t)l.supers;
    l.header_bytes = sl_round_up(panels * supers * shape.plane_bytes, MATRIX_ALIGN);
    l.super_bytes = supers * shape.super_bytes;
    l.scale_bytes = sl_round_up(l.super_bytes + groups * shape.param_bytes, MATRIX_ALIGN);
    l.panel_bytes = l.scale_bytes + groups * l.group_bytes;
    l.matrix_bytes = l.header_bytes + panels * l.panel_bytes;
    return l;
}

/* One lane of one panel. */
typedef struct {
    const float *headers; /* of q4 */
    const uint8_t *supers, *groups, *codes;
    int64_t lane;
} panel_lane;

/* w = scale[h] * (q - offset) - minimum, of the columns of half h. */
typedef struct {
    float scale[2], minimum;
    int offset;
} lane_group;

static uint16_t half_at(const uint8_t *array, int64_t lane) {
    uint16_t bits;
    memcpy(&bits, array + lane * 2, sizeof bits);
    return bits;
}

static lane_group lane_group_of(sl_dtype dtype, const panel_lane *p, int64_t g) {
    const int64_t lane = p->lane, super = g / SL_SUPER_GROUPS;
    const uint8_t *group = p->groups + g * 32;
    float scale, minimum = 0;
    switch (dtype) {
    case SL_DTYPE_q4:
        scale = p->headers[super * 2] * (float)group[lane];
        minimum = p->headers[super * 2 + 1] * (float)group[LANES + lane];
        break;
    case SL_DTYPE_q4_k:
        scale = sl_f32_from_f16(half_at(p->supers + super * 64, lane)) * (float)group[lane];
        minimum = sl_f32_from_f16(half_at(p->supers + super * 64 + 32, lane)) *
                  (float)group[LANES + lane];
        break;
    case SL_DTYPE_q6_k:
        scale = sl_f32_from_f16(half_at(p->supers + super * 32, lane));
        return (lane_group){
            {scale * (float)(int8_t)group[lane], scale * (float)(int8_t)group[LANES + lane]},
            .offset = 32};
    case SL_DTYPE_q4_m:
        group = p->supers + g / SL_Q4_M_SUPER_GROUPS * 64;
        scale = sl_f32_from_bf16(half_at(group, lane));
        minimum = -sl_f32_from_bf16(half_at(group + 32, lane));
        break;
    default:
        scale = sl_f32_from_f16(half_at(group, lane));
        break;
    }
    return (lane_group){{scale, scale}, minimum, dtype == SL_DTYPE_q4_0 ? 8 : 0};
}

/* The code of a column of the group whose codes start at `codes`. */
static int code_of(sl_dtype dtype, const uint8_t *codes, int64_t lane, int64_t column) {
    const int64_t byte = lane * 4 + column % 4;
    if (dtype == SL_DTYPE_q8) return (int8_t)codes[column / 4 * WORD_BYTES + byte];
    const int low = codes[column / 8 * WORD_BYTES + byte] >> (column % 8 < 4 ? 0 : 4) & 15;
    if (dtype != SL_DTYPE_q6_k) return low;
    const int high = codes[LOW_BYTES + column / 16 * WORD_BYTES + byte];
    return low | (high >> 2 * (column / 4 % 4) & 3) << 4;
}

static void decode_panel_row(sl_dtype dtype, const uint8_t *matrix, const sl_panel_layout *l,
                             int64_t row, float *out, int64_t cols) {
    const int64_t panel = row / SL_PANEL_ROWS;
    const uint8_t *base = matrix + l->header_bytes + (uint64_t)panel * l->panel_bytes;
    const panel_lane p = {(const float *)(const void *)matrix + panel * l->supers * 2, base,
                          base + l->super_bytes, base + l->scale_bytes, row % SL_PANEL_ROWS};
    for (int64_t g = 0; g < l->groups; g++) {
        const lane_group params = lane_group_of(dtype, &p, g);
        const uint8_t *codes = p.codes + (uint64_t)g * l->group_bytes;
        const int64_t left = cols - g * SL_GROUP_COLS;
        for (int64_t c = 0; c < (left < SL_GROUP_COLS ? left : SL_GROUP_COLS); c++) {
            const int q = code_of(dtype, codes, p.lane, c) - params.offset;
            out[g * SL_GROUP_COLS + c] = params.scale[c / 16] * (float)q - params.minimum;
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

uint16_t sl_f16_from_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)((bits >> 16) & 0x8000);
    const float magnitude = fabsf(value);
    if (isnan(value)) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x1p-14f) /* subnormal: the step is 2^-24, nearbyint rounds to even */
        return (uint16_t)(sign | (uint16_t)nearbyintf(magnitude * 0x1p24f));
    const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + ((bits >> 13) & 1);
    return (uint16_t)(sign | (uint16_t)((rounded >> 13) - (112 << 10)));
}
