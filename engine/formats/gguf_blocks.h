/* gguf_blocks.h - Lossless conversion of GGUF matrices to panels. */
#ifndef SL_ENGINE_FORMATS_GGUF_BLOCKS_H
#define SL_ENGINE_FORMATS_GGUF_BLOCKS_H
#include "engine/formats/groups.h"

/* Whole blocks a row, rows without gaps, as panels of the type that sl_gguf_layouts names.  scale:
 * of an NVFP4 matrix, 1 otherwise. */
typedef struct {
    sl_gguf_block kind;
    int64_t rows, cols;
    const void *data;
    float scale;
} sl_gguf_matrix;
void sl_gguf_repack(const sl_gguf_matrix *matrix, void *out);
#endif
