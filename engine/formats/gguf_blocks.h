/* gguf_blocks.h - Blocks of GGUF as groups of panels, without loss: a row of the table for each
 * type that repack.c does not turn itself. */
#ifndef SL_ENGINE_FORMATS_GGUF_BLOCKS_H
#define SL_ENGINE_FORMATS_GGUF_BLOCKS_H
#include "engine/formats/groups.h"

typedef enum {
    SL_GGUF_Q4_1,
    SL_GGUF_Q5_1,
    SL_GGUF_Q8_1,
    SL_GGUF_Q2_K,
    SL_GGUF_Q3_K,
    SL_GGUF_Q5_K,
    SL_GGUF_IQ4_NL,
    SL_GGUF_IQ4_XS,
    SL_GGUF_MXFP4,
    SL_GGUF_NVFP4,
    SL_GGUF_TQ1_0,
    SL_GGUF_TQ2_0
} sl_gguf_block;

/* Whole blocks a row, rows without gaps, as panels of the type that the table names.  scale: of an
 * NVFP4 matrix, 1 otherwise. */
typedef struct {
    sl_gguf_block kind;
    int64_t rows, cols;
    const void *data;
    float scale;
} sl_gguf_matrix;
sl_dtype sl_gguf_block_dtype(sl_gguf_block kind);
void sl_gguf_repack(const sl_gguf_matrix *matrix, void *out);

/* Q8_K, which no panel type holds, as floats. */
void sl_gguf_decode_q8_k(const void *data, int64_t rows, int64_t cols, float *out);
#endif
