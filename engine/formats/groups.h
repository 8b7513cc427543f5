/* groups.h - Weights of any file as panels (layouts in core/codec.h), a group of 32 columns of a
 * row at a time: what a file has to say of a group, and where in a panel that goes. */
#ifndef SL_ENGINE_FORMATS_GROUPS_H
#define SL_ENGINE_FORMATS_GROUPS_H
#include "core/codec.h"

/* A row's part of a group: codes, one in each byte, and the parameters that the type has for it, in
 * their order: one or two of 1, 2 or 4 bytes each, and zeros.
 * Types of a scale and a bias for a block (q4_m, q6_m, q8_m) take those of its first group. */
typedef struct {
    uint8_t codes[SL_GROUP_COLS];
    uint8_t params[8];
} sl_group_row;

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
