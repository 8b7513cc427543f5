/* mlx_blocks.c - The parameters and codes of a group in MLX's modes and in blocks of 8-bit
 * floats. */
#include "engine/formats/mlx_blocks.h"
#include "engine/formats/groups.h"
#include <math.h>

static const char *const mode_names[] = {"affine", "mxfp4", "nvfp4", "mxfp8"};
enum { MODES = sizeof mode_names / sizeof mode_names[0] };

bool sl_mlx_mode_find(const char *name, sl_mlx_mode *out) {
    for (int i = 0; i < MODES; i++)
        if (strcmp(name, mode_names[i]) == 0) {
            *out = (sl_mlx_mode)i;
            return true;
        }
    return false;
}

static bool is_float(sl_dtype dtype) {
    return dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_f16 || dtype == SL_DTYPE_bf16;
}

/* The panel type with enough bits and the smallest parameters: bf16 per block if the groups allow
 * it, else f32. */
static sl_dtype affine_dtype(const sl_mlx_format *f) {
    const bool lean = f->scales == SL_DTYPE_bf16 && f->group >= 64;
    if (f->bits <= 4) return lean ? SL_DTYPE_q4_m : SL_DTYPE_q4_f;
    if (!lean) return SL_DTYPE_q8_f;
    return f->bits <= 6 ? SL_DTYPE_q6_m : SL_DTYPE_q8_m;
}

sl_status sl_mlx_dtype(const sl_mlx_format *f, const char *name, sl_dtype *out, sl_error *err) {
    static const sl_dtype floats[] = {[SL_MLX_MXFP4] = SL_DTYPE_mxfp4,
                                      [SL_MLX_NVFP4] = SL_DTYPE_nvfp4,
                                      [SL_MLX_MXFP8] = SL_DTYPE_f8};
    const char *mode = mode_names[f->mode];
    if (f->mode == SL_MLX_AFFINE) {
        if (f->bits < 2 || f->bits > 8 || f->bits == 7)
            return sl_fail(err, SL_UNSUPPORTED,
                           "%s: affine with %u bits, wanted 2, 3, 4, 5, 6 or 8", name, f->bits);
        if (f->group != 32 && f->group != 64 && f->group != 128)
            return sl_fail(err, SL_UNSUPPORTED, "%s: affine in groups of %u, wanted 32, 64 or 128",
                           name, f->group);
        if (!is_float(f->scales))
            return sl_fail(err, SL_UNSUPPORTED,
                           "%s: affine with scales of %s, wanted f32, f16 or bf16", name,
                           sl_dtype_infos[f->scales].name);
        *out = affine_dtype(f);
        return SL_OK;
    }
    const uint32_t bits = f->mode == SL_MLX_MXFP8 ? 8 : 4,
                   group = f->mode == SL_MLX_NVFP4 ? 16 : 32;
    if (f->bits != bits || f->group != group)
        return sl_fail(err, SL_UNSUPPORTED, "%s: %s with %u bits in groups of %u, wanted %u in %u",
                       name, mode, f->bits, f->group, bits, group);
    if (f->scales != SL_DTYPE_u8)
        return sl_fail(err, SL_UNSUPPORTED, "%s: %s with scales of %s, wanted u8", name, mode,
                       sl_dtype_infos[f->scales].name);
    *out = floats[f->mode];
    return SL_OK;
}

sl_status sl_mlx_check(const sl_mlx_matrix *m, const char *name, sl_dtype *out, sl_error *err) {
    SL_TRY(sl_mlx_dtype(&m->format, name, out, err));
    const sl_type type = sl_type_make(*out, 2, m->rows, m->cols);
    SL_TRY(sl_type_check(&type, name, err));
    if (m->cols % (int64_t)m->format.group != 0 || m->cols * (int64_t)m->format.bits % 32 != 0)
        return sl_fail(err, SL_FORMAT, "%s: %lld columns, wanted whole groups of %u", name,
                       (long long)m->cols, m->format.group);
    return SL_OK;
}

uint64_t sl_mlx_code_bytes(const sl_mlx_format *f, int64_t cols) {
    return (uint64_t)cols * f->bits / 8;
}
uint64_t sl_mlx_scale_bytes(const sl_mlx_format *f, int64_t cols) {
    return (uint64_t)cols / f->group * sl_dtype_infos[f->scales].bytes;
}

static int64_t row_in_file(const sl_taken_rows *taken, int64_t row) {
    return taken->first + row * (taken->step ? taken->step : 1);
}

/* ---- affine ---- */

/* Codes of columns [32 group, ...) of a row: 32 codes of `bits` bits are `bits` words. */
static void read_codes(const sl_mlx_matrix *m, int64_t row, int64_t group, uint8_t *out) {
    const uint32_t bits = m->format.bits, mask = (1u << bits) - 1;
    const uint8_t *from = (const uint8_t *)m->codes +
                          (uint64_t)row * sl_mlx_code_bytes(&m->format, m->cols) +
                          (uint64_t)group * SL_GROUP_COLS * bits / 8;
    const int64_t left = m->cols - group * SL_GROUP_COLS;
    const int64_t count = left < SL_GROUP_COLS ? left : SL_GROUP_COLS;
    uint32_t held = 0, rest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (held < bits) {
            rest |= (uint32_t)*from++ << held;
            held += 8;
        }
        out[i] = (uint8_t)(rest & mask);
        rest >>= bits;
        held -= bits;
    }
}

static float scale_at(sl_dtype dtype, const void *scales, uint64_t index) {
    double value = 0;
    const char *from = (const char *)scales + index * sl_dtype_infos[dtype].bytes;
    sl_decode_f64(dtype, from, 1, &value);
    return (float)value;
}

static void affine_group(const void *from, int64_t taken, int64_t group, sl_group_row *out) {
    const sl_mlx_matrix *m = from;
    const int64_t row = row_in_file(&m->taken, taken);
    const sl_mlx_format *f = &m->format;
    const uint64_t per_row = (uint64_t)m->cols / f->group;
    const uint64_t at = (uint64_t)row * per_row + (uint64_t)group * SL_GROUP_COLS / f->group;
    read_codes(m, row, group, out->codes);
    if (f->scales == SL_DTYPE_bf16 && f->group >= 64) {
        memcpy(out->params, (const char *)m->scales + at * 2, 2);
        if (m->biases) memcpy(out->params + 2, (const char *)m->biases + at * 2, 2);
        return;
    }
    const float both[2] = {scale_at(f->scales, m->scales, at),
                           m->biases ? scale_at(f->scales, m->biases, at) : 0};
    memcpy(out->params, both, sizeof both);
}

/* ---- floats ---- */

/* 2^(e - 127 - down). */
static float power_of(uint8_t e, int down) {
    return ldexpf(1, (int)e - 127 - down);
}

static void mxfp4_group(const void *from, int64_t taken, int64_t group, sl_group_row *out) {
    const sl_mlx_matrix *m = from;
    const int64_t row = row_in_file(&m->taken, taken);
    const uint8_t e = ((const uint8_t *)m->scales)[row * (m->cols / 32) + group];
    const uint16_t scale = sl_bf16_from_f32(power_of(e, 1));
    read_codes(m, row, group, out->codes);
    memcpy(out->params, &scale, sizeof scale);
}

static void nvfp4_group(const void *from, int64_t taken, int64_t group, sl_group_row *out) {
    const sl_mlx_matrix *m = from;
    const int64_t row = row_in_file(&m->taken, taken);
    const int64_t per_row = m->cols / 16, at = 2 * group;
    const uint8_t *scales = (const uint8_t *)m->scales + row * per_row + at;
    read_codes(m, row, group, out->codes);
    for (int64_t i = 0; i < 2 && at + i < per_row; i++) out->params[i] = scales[i] & 0x7f;
}

/* A NaN code makes the whole group NaN. */
static void put_e4m3(const uint8_t *codes, int64_t count, float scale, sl_group_row *out) {
    for (int64_t i = 0; i < count; i++) {
        const bool number = (codes[i] & 0x7f) != 0x7f;
        out->codes[i] = number ? codes[i] : 0;
        if (!number) scale = NAN;
    }
    memcpy(out->params, &scale, sizeof scale);
}

static void mxfp8_group(const void *from, int64_t taken, int64_t group, sl_group_row *out) {
    const sl_mlx_matrix *m = from;
    const int64_t row = row_in_file(&m->taken, taken);
    const uint8_t e = ((const uint8_t *)m->scales)[row * (m->cols / 32) + group];
    const uint8_t *codes = (const uint8_t *)m->codes + row * m->cols + group * SL_GROUP_COLS;
    put_e4m3(codes, SL_GROUP_COLS, power_of(e, 0), out);
}

void sl_mlx_repack(const sl_mlx_matrix *matrix, void *out) {
    static void (*const groups[])(const void *, int64_t, int64_t,
                                  sl_group_row *) = {[SL_MLX_AFFINE] = affine_group,
                                                     [SL_MLX_MXFP4] = mxfp4_group,
                                                     [SL_MLX_NVFP4] = nvfp4_group,
                                                     [SL_MLX_MXFP8] = mxfp8_group};
    sl_group_source s = {.rows = matrix->rows,
                         .cols = matrix->cols,
                         .from = matrix,
                         .group = groups[matrix->format.mode],
                         .scale = matrix->whole_scale != 0 ? matrix->whole_scale : 1};
    sl_error err = {0};
    if (sl_mlx_dtype(&matrix->format, "", &s.dtype, &err) == SL_OK) sl_groups_repack_all(&s, out);
}

/* ---- blocks of 8-bit floats ---- */

sl_status sl_fp8_check(const sl_fp8_matrix *m, const char *name, sl_error *err) {
    const sl_type type = sl_type_make(SL_DTYPE_f8, 2, m->rows, m->cols);
    SL_TRY(sl_type_check(&type, name, err));
    if (m->block_rows < 1 || m->block_cols < 1 ||
        (m->block_cols % SL_GROUP_COLS != 0 && m->block_cols < m->cols))
        return sl_fail(
            err, SL_UNSUPPORTED,
            "%s: fp8 scales for blocks of %lld x %lld, wanted columns in multiples of %d", name,
            (long long)m->block_rows, (long long)m->block_cols, SL_GROUP_COLS);
    if (!is_float(m->scale_type))
        return sl_fail(err, SL_UNSUPPORTED, "%s: fp8 scales of %s, wanted f32, f16 or bf16", name,
                       sl_dtype_infos[m->scale_type].name);
    return SL_OK;
}

static void fp8_group(const void *from, int64_t taken, int64_t group, sl_group_row *out) {
    const sl_fp8_matrix *m = from;
    const int64_t row = row_in_file(&m->taken, taken);
    const int64_t column = group * SL_GROUP_COLS, left = m->cols - column;
    const int64_t per_row = (m->cols + m->block_cols - 1) / m->block_cols;
    const int64_t at = row / m->block_rows * per_row + column / m->block_cols;
    put_e4m3(m->codes + row * m->cols + column, left < SL_GROUP_COLS ? left : SL_GROUP_COLS,
             scale_at(m->scale_type, m->scales, (uint64_t)at), out);
}

void sl_fp8_repack(const sl_fp8_matrix *matrix, void *out) {
    const sl_group_source s = {.dtype = SL_DTYPE_f8,
                               .rows = matrix->rows,
                               .cols = matrix->cols,
                               .from = matrix,
                               .group = fp8_group};
    sl_groups_repack_all(&s, out);
}
