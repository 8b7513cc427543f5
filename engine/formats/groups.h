/* groups.h - Conversion of weights of any format to panels (layouts in core/codec.h), one row of a
 * group of 32 columns at a time. */
#ifndef SL_ENGINE_FORMATS_GROUPS_H
#define SL_ENGINE_FORMATS_GROUPS_H
#include "core/gguf_blocks.h"

/* A stored matrix; `from` is private to its reader. */
typedef struct sl_group_source sl_group_source;
struct sl_group_source {
    sl_dtype dtype;
    int64_t rows, cols;
    const void *from;
    /* Reads row `row` of group `group`; columns beyond the matrix stay zero.  *out must be zeroed.
     */
    void (*group)(const void *from, int64_t row, int64_t group, sl_group_row *out);
    /* The two 16-bit floats of a super-group, for types that have them. */
    void (*super)(const void *from, int64_t row, int64_t super, uint16_t out[2]);
    float scale; /* nvfp4: scale of the whole matrix */
};

/* Writes panels [first, first + count) of the matrix, all of their bytes. */
void sl_groups_repack(const sl_group_source *source, int64_t first, int64_t count, void *matrix);
/* Writes all panels. */
void sl_groups_repack_all(const sl_group_source *source, void *matrix);
#endif
