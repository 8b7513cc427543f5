/* gguf_blocks.h - Lossless conversion of GGUF matrices to panels. */
#ifndef SL_ENGINE_FORMATS_GGUF_BLOCKS_H
#define SL_ENGINE_FORMATS_GGUF_BLOCKS_H
#include "engine/formats/groups.h"

/* Contiguous rows of whole blocks; the panel type is that of sl_gguf_layouts.  scale: of an NVFP4
 * matrix, else 1. */
typedef struct {
    sl_gguf_block kind;
    int64_t rows, cols;
    const void *data;
    float scale;
} sl_gguf_matrix;
void sl_gguf_repack(const sl_gguf_matrix *matrix, void *out);
#endif
