/* gguf_blocks.h - Blocks of GGUF: a group of 32 columns at a time as panels have it, without loss,
 * and the weights that they stand for. */
#ifndef SL_CORE_GGUF_BLOCKS_H
#define SL_CORE_GGUF_BLOCKS_H
#include "core/codec.h"
#include "core/packings.h"

/* A row's part of a group: codes, one in each byte, and the parameters that the type has for it, in
 * their order: one or two of 1, 2 or 4 bytes each, and zeros.
 * Types of a scale and a bias for a block (q4_m, q6_m, q8_m) take those of its first group. */
typedef struct {
    uint8_t codes[SL_GROUP_COLS];
    uint8_t params[8];
} sl_group_row;

typedef struct {
    const char *name;
    sl_dtype dtype;      /* of the panels that hold it; f32 where none does */
    int64_t cols, bytes; /* of a block */
    /* Group `part` of a block, *out being zero; NULL where no panel type holds it. */
    void (*group)(const uint8_t *block, int64_t part, sl_group_row *out);
    /* Both 16-bit floats above a super-group, of types that have them. */
    void (*super)(const uint8_t *block, uint16_t out[2]);
} sl_gguf_layout;
extern const sl_gguf_layout sl_gguf_layouts[SL_GGUF_COUNT];
/* By its name, in lower case; NULL when no type has it. */
const sl_gguf_layout *sl_gguf_layout_find(const char *name);

/* count blocks, one after another, as floats; an NVFP4 tensor's own scale is left out. */
void sl_gguf_decode(const sl_gguf_layout *layout, const void *blocks, int64_t count, float *out);
#endif
