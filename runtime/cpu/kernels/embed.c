/* embed.c - Embedding lookup: copies rows of a table of any type, as f32.  An item is a row.
 *
 * A row of a panel type is one lane of a panel: one 32-bit word of each 64 bytes of codes.  Results
 * are bit-identical to sl_decode_row. */
#include "core/codec.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

SPLIT(embed) {
    const sl_embed_args *a = args;
    return (sl_split){dim(&a->ids.type, 0), grain_of(dim(&a->table.type, 1)), 0};
}

/* One row (lane) of a panel. */
typedef struct {
    sl_panel_layout layout;
    const float *headers; /* q4: {d, m} per super-group */
    const uint8_t *panel;
    int64_t lane;
} panel_row;

static panel_row panel_row_of(const sl_cview *table, int64_t row) {
    const sl_panel_layout l =
        sl_panel_layout_of(table->type.dtype, dim(&table->type, 0), dim(&table->type, 1));
    const int64_t panel = row / SL_PANEL_ROWS;
    const uint8_t *base = (const uint8_t *)table->data + l.header_bytes;
    base += (uint64_t)panel * l.panel_bytes;
    return (panel_row){l, (const float *)table->data + panel * l.supers * 2, base,
                       row % SL_PANEL_ROWS};
}

/* The 32-bit word of this lane in a group's codes. */
static uint32_t word_of(const panel_row *p, int64_t group, int64_t word) {
    uint32_t bits;
    memcpy(&bits,
           p->panel + sl_group_codes(&p->layout, group) + (word * SL_PANEL_ROWS + p->lane) * 4,
           sizeof bits);
    return bits;
}

/* Decodes a vector of columns from c on; the last group of a row is always complete. */
typedef vf panel_columns_fn(const panel_row *p, int64_t c);

INLINE vf columns_q4(const panel_row *p, int64_t c) {
    static const uint32_t shifts[16] = {0, 8, 16, 24, 4, 12, 20, 28, 0, 8, 16, 24, 4, 12, 20, 28};
    const int64_t group = c / SL_GROUP_COLS;
    const uint8_t *codes = p->panel + sl_group_params(&p->layout, group) + p->lane;
    const float *header = p->headers + group / SL_SUPER_GROUPS * 2;
    uint32_t words[LANES] = {0};
    for (int i = 0; i < LANES; i++)
        words[i] = i % 8 ? words[i - 1] : word_of(p, group, (c + i) % SL_GROUP_COLS / 8);
    const vu code = vload_u32(words) >> vload_u32(shifts + c % 8) & 15;
    const vf product = vsplat(header[0] * (float)codes[0]) * vfrom_i32((vi)code);
    return vrounded(product) - vrounded(vsplat(header[1] * (float)codes[16]));
}

INLINE vf columns_q8(const panel_row *p, int64_t c) {
    typedef int8_t bytes __attribute__((vector_size(LANES)));
    uint16_t scale;
    uint32_t words[LANES / 4];
    bytes codes;
    const int64_t group = c / SL_GROUP_COLS;
    memcpy(&scale, p->panel + sl_group_params(&p->layout, group) + p->lane * 2, sizeof scale);
    for (int i = 0; i < LANES / 4; i++) words[i] = word_of(p, group, c % SL_GROUP_COLS / 4 + i);
    memcpy(&codes, words, sizeof codes);
    return vsplat(sl_f32_from_f16(scale)) * vfrom_i32(__builtin_convertvector(codes, vi));
}

INLINE void decode_panel_row(const sl_embed_args *a, int64_t row, float *out,
                             panel_columns_fn *columns) {
    const panel_row p = panel_row_of(&a->table, row);
    FOR_VECTORS(c, count, dim(&a->table.type, 1), vstore_n(out + c, columns(&p, c), count););
}

/* f16 or bf16. */
INLINE void decode_halves(const uint16_t *from, int64_t n, float *out, vf load(const void *p)) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vstore(out + i, load(from + i));
    uint16_t rest[LANES] = {0};
    memcpy(rest, from + i, (size_t)(n - i) * sizeof *from);
    vstore_n(out + i, load(rest), n - i);
}

static void decode_row(const sl_embed_args *a, int64_t row, float *out) {
    const sl_dtype dtype = a->table.type.dtype;
    const int64_t rows = dim(&a->table.type, 0), cols = dim(&a->table.type, 1);
    if (dtype == SL_DTYPE_q4)
        decode_panel_row(a, row, out, columns_q4);
    else if (dtype == SL_DTYPE_q8)
        decode_panel_row(a, row, out, columns_q8);
    else if (dtype == SL_DTYPE_bf16)
        decode_halves((const uint16_t *)a->table.data + row * cols, cols, out, vload_bf16);
    else if (dtype == SL_DTYPE_f16)
        decode_halves((const uint16_t *)a->table.data + row * cols, cols, out, vload_f16);
    else if (dtype == SL_DTYPE_f32)
        memcpy(out, (const float *)a->table.data + row * cols, (size_t)cols * sizeof *out);
    else
        sl_decode_row(dtype, a->table.data, rows, cols, row, out);
}

RUN(embed) {
    const sl_embed_args *a = args;
    const int64_t cols = dim(&a->table.type, 1);
    for (int64_t t = begin; t < end; t++) {
        const int32_t id = ((const int32_t *)a->ids.data)[t];
        SL_TRY(check_index(id, dim(&a->table.type, 0), "embed: id", t, worker->err));
        decode_row(a, id, (float *)a->out.data + t * cols);
    }
    return SL_OK;
}
