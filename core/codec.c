#include "core/codec.h"
#include "base/sizes.h"
#include <math.h>

enum { MATRIX_ALIGN = 64, Q4_GROUP_BYTES = 256, Q8_GROUP_BYTES = 512 };

sl_panel_layout sl_panel_layout_of(sl_dtype dtype, int64_t rows, int64_t cols) {
    sl_panel_layout l = {
        .panels = (rows + SL_PANEL_ROWS - 1) / SL_PANEL_ROWS,
        .groups = (cols + SL_GROUP_COLS - 1) / SL_GROUP_COLS,
    };
    l.supers = (l.groups + SL_SUPER_GROUPS - 1) / SL_SUPER_GROUPS;
    const bool q4 = dtype == SL_DTYPE_q4;
    l.header_bytes =
        q4 ? sl_round_up((uint64_t)l.panels * (uint64_t)l.supers * 2 * sizeof(float), MATRIX_ALIGN)
           : 0;
    l.group_bytes = q4 ? Q4_GROUP_BYTES : Q8_GROUP_BYTES;
    l.block_bytes = SL_BLOCK_PARAMS + SL_BLOCK_GROUPS * l.group_bytes;
    l.panel_bytes = (uint64_t)((l.groups + SL_BLOCK_GROUPS - 1) / SL_BLOCK_GROUPS) * l.block_bytes;
    l.matrix_bytes = l.header_bytes + (uint64_t)l.panels * l.panel_bytes;
    return l;
}

static void decode_row_q4(const uint8_t *matrix, int64_t rows, int64_t cols, int64_t row,
                          float *out) {
    const sl_panel_layout l = sl_panel_layout_of(SL_DTYPE_q4, rows, cols);
    const int64_t panel = row / SL_PANEL_ROWS, lane = row % SL_PANEL_ROWS;
    const float *headers = (const float *)(const void *)matrix + panel * l.supers * 2;
    const uint8_t *base = matrix + l.header_bytes + (uint64_t)panel * l.panel_bytes;
    for (int64_t c = 0; c < cols; c++) {
        const int64_t group = c / SL_GROUP_COLS, in_group = c % SL_GROUP_COLS;
        const uint8_t *codes = base + sl_group_codes(&l, group);
        const uint8_t *params = base + sl_group_params(&l, group);
        const uint8_t byte = codes[(in_group / 8) * 64 + lane * 4 + in_group % 4];
        const uint8_t q = in_group % 8 < 4 ? byte & 15 : byte >> 4;
        const float *header = headers + group / SL_SUPER_GROUPS * 2;
        const float scale = header[0] * (float)params[lane];
        const float minimum = header[1] * (float)params[SL_PANEL_ROWS + lane];
        out[c] = scale * (float)q - minimum;
    }
}

static void decode_row_q8(const uint8_t *matrix, int64_t rows, int64_t cols, int64_t row,
                          float *out) {
    const sl_panel_layout l = sl_panel_layout_of(SL_DTYPE_q8, rows, cols);
    const int64_t panel = row / SL_PANEL_ROWS, lane = row % SL_PANEL_ROWS;
    const uint8_t *base = matrix + (uint64_t)panel * l.panel_bytes;
    for (int64_t c = 0; c < cols; c++) {
        const int64_t group = c / SL_GROUP_COLS, in_group = c % SL_GROUP_COLS;
        uint16_t scale;
        memcpy(&scale, base + sl_group_params(&l, group) + lane * 2, sizeof scale);
        const int8_t q = (int8_t)base[sl_group_codes(&l, group) +
                                      (uint64_t)((in_group / 4) * 64 + lane * 4 + in_group % 4)];
        out[c] = sl_f32_from_f16(scale) * (float)q;
    }
}

void sl_decode_row(sl_dtype dtype, const void *matrix, int64_t rows, int64_t cols, int64_t row,
                   float *out) {
    const uint8_t *bytes = matrix;
    if (dtype == SL_DTYPE_q4) {
        decode_row_q4(bytes, rows, cols, row, out);
        return;
    }
    if (dtype == SL_DTYPE_q8) {
        decode_row_q8(bytes, rows, cols, row, out);
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
    case SL_DTYPE_q4:
    case SL_DTYPE_q8:
    case SL_DTYPE_COUNT:
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
    case SL_DTYPE_q4:
    case SL_DTYPE_q8:
    case SL_DTYPE_COUNT:
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
