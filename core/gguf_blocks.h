/* gguf_blocks.h - The block types of GGUF: lossless conversion to groups of 32 columns as panels
 * store them, and decoding to floats. */
#ifndef SL_CORE_GGUF_BLOCKS_H
#define SL_CORE_GGUF_BLOCKS_H
#include "core/codec.h"
#include "core/packings.h"

/* One row of a group: the codes, one per byte, and the parameters of the type in order (one or two
 * of 1, 2 or 4 bytes each), padded with zeros.  Types with a scale and a bias per block (q4_m,
 * q6_m, q8_m) use those of its first group. */
typedef struct {
    uint8_t codes[SL_GROUP_COLS];
    uint8_t params[8];
} sl_group_row;

typedef struct {
    const char *name;
    sl_dtype dtype;      /* of the panels that represent it; f32 if none can */
    int64_t cols, bytes; /* of a block */
    /* Extracts group `part` of a block; *out must be zeroed.  NULL if no panel type represents it.
     */
    void (*group)(const uint8_t *block, int64_t part, sl_group_row *out);
    /* The two 16-bit floats of a super-group, for types that have them. */
    void (*super)(const uint8_t *block, uint16_t out[2]);
} sl_gguf_layout;
extern const sl_gguf_layout sl_gguf_layouts[SL_GGUF_COUNT];
/* Finds a type by its lower-case name; NULL if there is none. */
const sl_gguf_layout *sl_gguf_layout_find(const char *name);

/* Decodes count consecutive blocks to floats; the separate scale of an NVFP4 tensor is not applied.
 */
void sl_gguf_decode(const sl_gguf_layout *layout, const void *blocks, int64_t count, float *out);
#endif
