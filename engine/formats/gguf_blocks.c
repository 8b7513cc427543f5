/* gguf_blocks.c - Conversion of GGUF blocks (core/gguf_blocks.h) to panels. */
#include "engine/formats/gguf_blocks.h"

static const uint8_t *block_at(const sl_gguf_matrix *m, int64_t row, int64_t index) {
    const sl_gguf_layout *l = &sl_gguf_layouts[m->kind];
    return (const uint8_t *)m->data + (row * (m->cols / l->cols) + index) * l->bytes;
}
static void read_group(const void *from, int64_t row, int64_t group, sl_group_row *out) {
    const sl_gguf_matrix *m = from;
    const sl_gguf_layout *l = &sl_gguf_layouts[m->kind];
    const int64_t parts = l->cols / SL_GROUP_COLS;
    l->group(block_at(m, row, group / parts), group % parts, out);
}
static void read_super(const void *from, int64_t row, int64_t super, uint16_t out[2]) {
    const sl_gguf_matrix *m = from;
    sl_gguf_layouts[m->kind].super(block_at(m, row, super), out);
}

void sl_gguf_repack(const sl_gguf_matrix *matrix, void *out) {
    const sl_group_source s = {.dtype = sl_gguf_layouts[matrix->kind].dtype,
                               .rows = matrix->rows,
                               .cols = matrix->cols,
                               .from = matrix,
                               .group = read_group,
                               .super = read_super,
                               .scale = matrix->scale};
    sl_groups_repack_all(&s, out);
}
