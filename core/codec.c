#include "core/codec.h"
#include "base/sizes.h"
#include "core/kv.h"
#include <float.h>
#include <math.h>

enum {
    MATRIX_ALIGN = 64,
    LANES = SL_PANEL_ROWS,
    WORD_BYTES = LANES * 4,
    LOW_BYTES = 4 * WORD_BYTES,
    HIGH_BYTES = 2 * WORD_BYTES,
    BYTE_BYTES = 8 * WORD_BYTES,
    SUPER_BYTES = 64
};

/* Bytes of each panel type. */
typedef struct {
    uint64_t plane_bytes; /* of a super-group, before the first panel */
    uint64_t super_bytes; /* of a super-group, in front of its blocks */
    uint64_t group_bytes; /* of a group's codes */
} panel_shape;

static panel_shape shape_of(sl_dtype dtype) {
    switch (dtype) {
    case SL_DTYPE_q4:
        return (panel_shape){2 * sizeof(float), 0, LOW_BYTES};
    case SL_DTYPE_q4_k:
        return (panel_shape){0, SUPER_BYTES, LOW_BYTES};
    case SL_DTYPE_q6_k:
        return (panel_shape){0, SUPER_BYTES, LOW_BYTES + HIGH_BYTES};
    case SL_DTYPE_q4_0:
    case SL_DTYPE_q4_m:
        return (panel_shape){0, 0, LOW_BYTES};
    default:
        return (panel_shape){0, 0, BYTE_BYTES};
    }
}

sl_panel_layout sl_panel_layout_of(sl_dtype dtype, int64_t rows, int64_t cols) {
    const panel_shape shape = shape_of(dtype);
    sl_panel_layout l = {
        .panels = (rows + SL_PANEL_ROWS - 1) / SL_PANEL_ROWS,
        .groups = (cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS,
        .super_bytes = shape.super_bytes,
        .group_bytes = shape.group_bytes,
        .block_bytes = SL_BLOCK_PARAMS + SL_BLOCK_GROUPS * shape.group_bytes,
    };
    l.supers = (l.groups + SL_SUPER_GROUPS - 1) / SL_SUPER_GROUPS;
    const uint64_t panels = (uint64_t)l.panels, supers = (uint64_t)l.supers;
    const uint64_t blocks = (uint64_t)((l.groups + SL_BLOCK_GROUPS - 1) / SL_BLOCK_GROUPS);
    l.header_bytes = sl_round_up(panels * supers * shape.plane_bytes, MATRIX_ALIGN);
    l.panel_bytes = supers * l.super_bytes + blocks * l.block_bytes;
    l.matrix_bytes = l.header_bytes + panels * l.panel_bytes;
    return l;
}

/* One lane of one panel. */
typedef struct {
    const sl_panel_layout *layout;
    const float *headers; /* of q4 */
    const uint8_t *panel;
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
    const uint8_t *group = p->panel + sl_group_params(p->layout, g);
    const uint8_t *above = p->panel + sl_super_params(p->layout, super);
    float scale, minimum = 0;
    switch (dtype) {
    case SL_DTYPE_q4:
        scale = p->headers[super * 2] * (float)group[lane];
        minimum = p->headers[super * 2 + 1] * (float)group[LANES + lane];
        break;
    case SL_DTYPE_q4_k:
        scale = sl_f32_from_f16(half_at(above, lane)) * (float)group[lane];
        minimum = sl_f32_from_f16(half_at(above + 32, lane)) * (float)group[LANES + lane];
        break;
    case SL_DTYPE_q6_k:
        scale = sl_f32_from_f16(half_at(above, lane));
        return (lane_group){.scale[0] = scale * (float)(int8_t)group[lane],
                            .scale[1] = scale * (float)(int8_t)group[LANES + lane],
                            .offset = 32};
    case SL_DTYPE_q4_m:
        group = p->panel + sl_block_at(p->layout, g);
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
    const panel_lane p = {l, (const float *)(const void *)matrix + panel * l->supers * 2,
                          matrix + l->header_bytes + (uint64_t)panel * l->panel_bytes,
                          row % SL_PANEL_ROWS};
    for (int64_t g = 0; g < l->groups; g++) {
        const lane_group params = lane_group_of(dtype, &p, g);
        const uint8_t *codes = p.panel + sl_group_codes(l, g);
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

/* Codes of one group of n values; the others are zero.  Returns the scale. */
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
    if (!(inverse <= FLT_MAX)) return 0; /* zeros, or too small to tell from them */
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
