/* mlx_blocks.h - Lossless conversion of matrices quantised by MLX and DeepSeek to panels. */
#ifndef SL_ENGINE_FORMATS_MLX_BLOCKS_H
#define SL_ENGINE_FORMATS_MLX_BLOCKS_H
#include "core/codec.h"

/* affine: w = scale*q + bias, 2, 3, 4, 5, 6 or 8 bits, groups of 32, 64 or 128 columns, scales and
 *         biases f32, f16 or bf16
 * mxfp4:  4-bit floats, groups of 32, a scale is the exponent of a power of two (u8)
 * nvfp4:  4-bit floats, groups of 16, a scale is an 8-bit float (u8)
 * mxfp8:  8-bit floats (e4m3), groups of 32, scales like mxfp4's (u8) */
typedef enum { SL_MLX_AFFINE, SL_MLX_MXFP4, SL_MLX_NVFP4, SL_MLX_MXFP8 } sl_mlx_mode;

typedef struct {
    sl_mlx_mode mode;
    uint32_t bits, group;
    sl_dtype scales; /* dtype of scales and biases */
} sl_mlx_format;

/* The selected rows of the stored ones: first, first + step, ...; all zero: every row. */
typedef struct {
    int64_t first, step;
} sl_taken_rows;

/* A matrix as stored in a file, with contiguous rows.  Codes are a stream of bits, the first column
 * in the lowest bits of the first byte. */
typedef struct {
    sl_mlx_format format;
    int64_t rows, cols; /* rows: the selected ones */
    sl_taken_rows taken;
    const void *codes, *scales;
    const void *biases; /* NULL if there are none */
    float whole_scale;  /* nvfp4: scale of all weights; 0 means 1 */
} sl_mlx_matrix;

/* "affine", "mxfp4", "nvfp4", "mxfp8"; false for another name. */
bool sl_mlx_mode_find(const char *name, sl_mlx_mode *out);
/* The panel type; fails for formats that MLX does not write.  name is that of the tensor. */
SL_CHECKED sl_status sl_mlx_dtype(const sl_mlx_format *format, const char *name, sl_dtype *out,
                                  sl_error *err);
/* Also fails if the columns are not whole groups. */
SL_CHECKED sl_status sl_mlx_check(const sl_mlx_matrix *matrix, const char *name, sl_dtype *out,
                                  sl_error *err);
/* Bytes of a row of codes, and of scales or biases. */
uint64_t sl_mlx_code_bytes(const sl_mlx_format *format, int64_t cols);
uint64_t sl_mlx_scale_bytes(const sl_mlx_format *format, int64_t cols);
/* Converts a checked matrix to panels of its type. */
void sl_mlx_repack(const sl_mlx_matrix *matrix, void *out);

/* 8-bit floats (e4m3), row by row, with a scale per block of block_rows x block_cols (the last
 * blocks may be partial); the scales have ceil(cols / block_cols) columns.  block_cols is a
 * multiple of 32, or all columns.  The panel type is f8; a group that contains NaN becomes all
 * NaN. */
typedef struct {
    int64_t rows, cols, block_rows, block_cols; /* rows: the selected ones */
    sl_taken_rows taken;
    const uint8_t *codes;
    const void *scales;
    sl_dtype scale_type; /* f32, f16, bf16 */
} sl_fp8_matrix;
SL_CHECKED sl_status sl_fp8_check(const sl_fp8_matrix *matrix, const char *name, sl_error *err);
void sl_fp8_repack(const sl_fp8_matrix *matrix, void *out);
#endif
