/* repack.h - Lossless conversion of GGUF and MLX weights to panels (layouts in core/codec.h). */
#ifndef SL_ENGINE_FORMATS_REPACK_H
#define SL_ENGINE_FORMATS_REPACK_H
#include "core/codec.h"

/* A block format that is expanded losslessly to the type's own block format, one block at a
 * time. */
typedef struct {
    size_t bytes; /* of a block, which has as many columns as the type's own */
    void (*expand)(const uint8_t *block, uint8_t *out);
} sl_repack_block;

/* A matrix as stored in a file, row by row.  The panel type determines the format:
 *
 *   q4_k, q4_0, q6_k, q8    blocks of GGUF's Q4_K, Q4_0, Q6_K, Q8_0
 *   q4_m                    MLX, 4 bits in groups of 64: words of eight columns, the first in the
 *                           lowest bits; separate rows of bf16 scales and biases */
typedef struct {
    sl_dtype dtype;
    int64_t rows, cols; /* cols: whole blocks (32 or 256), 64 for q4_m */
    const void *data;
    size_t row_bytes;             /* row stride of data */
    const void *scales, *biases;  /* q4_m only */
    size_t scale_row_bytes;       /* row stride of both */
    const sl_repack_block *block; /* NULL: the type's own format */
} sl_repack_source;

/* Bytes of one row; 0 if cols are not whole blocks or the type does not occur in files. */
size_t sl_repack_row_bytes(sl_dtype dtype, int64_t cols);

/* Fails if the source cannot be repacked; name is that of the tensor. */
SL_CHECKED sl_status sl_repack_check(const sl_repack_source *source, const char *name,
                                     sl_error *err);
/* Writes panels [first, first + count) of the matrix that starts at `matrix`, all of their bytes.
 * The source must have been checked. */
void sl_repack_panels(const sl_repack_source *source, int64_t first, int64_t count, void *matrix);
#endif
