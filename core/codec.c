#include "core/codec.h"
#include "base/sizes.h"
#include <float.h>
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
    case SL_DTYPE_a8:
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
    case SL_DTYPE_a8:
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
