/* groups.h - Weights of any file as panels (layouts in core/codec.h), a group of 32 columns of a
 * row at a time: what a file has to say of a group, and where in a panel that goes. */
#ifndef SL_ENGINE_FORMATS_GROUPS_H
#define SL_ENGINE_FORMATS_GROUPS_H
#include "core/gguf_blocks.h"

/* A matrix in a file; what is read from is `from`'s own business. */
typedef struct sl_group_source sl_group_source;
struct sl_group_source {
    sl_dtype dtype;
    int64_t rows, cols;
    const void *from;
    /* Row `row` of group `group`, the columns there are; *out is zero. */
    void (*group)(const void *from, int64_t row, int64_t group, sl_group_row *out);
    /* Both 16-bit floats above a super-group, of types that have them. */
    void (*super)(const void *from, int64_t row, int64_t super, uint16_t out[2]);
    float scale; /* nvfp4: of the whole matrix */
};

/* Writes panels [first, first + count) of the matrix, all of their bytes. */
void sl_groups_repack(const sl_group_source *source, int64_t first, int64_t count, void *matrix);
/* All of them. */
void sl_groups_repack_all(const sl_group_source *source, void *matrix);
#endif
