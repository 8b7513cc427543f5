/* gather.c - Rows are copied as they are, plain ones one by one and those of panels sixteen at a
 * time; where that does not come out even they are decoded. */
#include "engine/models/gather.h"
#include "core/codec.h"
#include "engine/quant/quantise.h"
#include <string.h>

typedef struct {
    const sl_weight_gather *gather;
    sl_dtype dtype; /* of both where rows are moved */
    int64_t from_rows, cols;
    int64_t rows; /* of one matrix of the result, which may be a stack of them */
    const uint8_t *from;
    uint8_t *to;
} gathering;

static sl_status check(const sl_weight *weight, const gathering *g, sl_error *err) {
    const sl_tensor_entry *from = weight->entry;
    const sl_dims want = {2, {g->from_rows, g->cols}};
    const sl_dtype_kind kind = sl_dtype_infos[from->type.dtype].kind;
    if (sl_dims_equal(&from->type.shape, &want) && (kind == SL_KIND_FLOAT || kind == SL_KIND_PANEL))
        return SL_OK;
    const sl_type wanted = {SL_DTYPE_f32, want};
    char found_text[SL_TYPE_TEXT], wanted_text[SL_TYPE_TEXT];
    return sl_fail(err, SL_FORMAT,
                   "tensor '%s', of which '%s' is a part, is %s, wanted %s in a float or "
                   "quantised type",
                   from->name, weight->name,
                   sl_type_format(&from->type, found_text, sizeof found_text),
                   strchr(sl_type_format(&wanted, wanted_text, sizeof wanted_text), '['));
}

/* Calls move for every run of rows, in order of where they go. */
static void each_run(const gathering *g,
                     void (*move)(const gathering *g, int64_t from, int64_t to, int64_t rows)) {
    int64_t to = 0;
    for (uint32_t p = 0; p < g->gather->part_count; p++)
        for (uint32_t i = 0; i < g->gather->groups; i++) {
            const int64_t length = g->gather->parts[p].length;
            move(g, (int64_t)i * g->gather->stride + g->gather->parts[p].offset, to, length);
            to += length;
        }
}

static void move_plain(const gathering *g, int64_t from, int64_t to, int64_t rows) {
    const uint64_t bytes = (uint64_t)g->cols * sl_dtype_infos[g->dtype].bytes;
    memcpy(g->to + (uint64_t)to * bytes, g->from + (uint64_t)from * bytes, (uint64_t)rows * bytes);
}

static void move_panels(const gathering *g, int64_t from, int64_t to, int64_t rows) {
    const sl_panel_layout a = sl_panel_layout_of(g->dtype, g->from_rows, g->cols);
    const sl_panel_layout b = sl_panel_layout_of(g->dtype, g->rows, g->cols);
    uint8_t *matrix = g->to + (uint64_t)(to / g->rows) * b.matrix_bytes;
    const uint64_t first = (uint64_t)from / SL_PANEL_ROWS;
    const uint64_t last = (uint64_t)(to % g->rows) / SL_PANEL_ROWS;
    const uint64_t count = (uint64_t)rows / SL_PANEL_ROWS;
    const uint64_t header = a.header_bytes ? (uint64_t)a.supers * 2 * sizeof(float) : 0;
    memcpy(matrix + last * header, g->from + first * header, count * header);
    memcpy(matrix + b.header_bytes + last * b.panel_bytes,
           g->from + a.header_bytes + first * a.panel_bytes, count * a.panel_bytes);
}

static void decode(const gathering *g, int64_t from, int64_t to, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        sl_decode_row(g->dtype, g->from, g->from_rows, g->cols, from + r,
                      (float *)(void *)g->to + (to + r) * g->cols);
}

static bool is_even(const sl_weight_gather *gather) {
    bool even = gather->stride % SL_PANEL_ROWS == 0;
    for (uint32_t p = 0; p < gather->part_count; p++)
        even = even && gather->parts[p].offset % SL_PANEL_ROWS == 0 &&
               gather->parts[p].length % SL_PANEL_ROWS == 0;
    return even;
}

/* [groups, rows, cols] to [groups, cols, rows]. */
static void transpose(const gathering *g, const uint8_t *from, size_t element) {
    const int64_t rows = g->gather->parts[0].length, cols = g->cols;
    for (int64_t i = 0; i < (int64_t)g->gather->groups * rows; i++)
        for (int64_t c = 0; c < cols; c++)
            memcpy(g->to + (size_t)((i / rows * cols + c) * rows + i % rows) * element,
                   from + (size_t)(i * cols + c) * element, element);
}

/* Without loss, in the order of the result. */
static sl_status gather_floats(gathering g, const sl_allocator *allocator, int64_t count,
                               float *out, sl_error *err) {
    const size_t bytes = (size_t)count * sizeof *out;
    float *rows = out;
    if (g.gather->transposed) rows = sl_resize(allocator, NULL, 0, bytes, 64);
    if (!rows) return sl_no_memory(err, g.gather->from, bytes);
    g.to = (uint8_t *)(void *)rows;
    each_run(&g, decode);
    if (rows == out) return SL_OK;
    g.to = (uint8_t *)(void *)out;
    transpose(&g, (const uint8_t *)(void *)rows, sizeof *out);
    sl_release(allocator, rows, bytes, 64);
    return SL_OK;
}

/* Codes a stack of matrices. */
static sl_status code(const sl_type *type, const float *from, uint8_t *to, sl_error *err) {
    const sl_dims *shape = &type->shape;
    const int64_t rows = shape->dims[shape->rank - 2], cols = shape->dims[shape->rank - 1];
    const uint64_t each = sl_panel_layout_of(type->dtype, rows, cols).matrix_bytes;
    for (int64_t m = 0; m < sl_type_elements(type) / (rows * cols); m++)
        SL_TRY(sl_quantise(type->dtype, from + m * rows * cols, rows, cols, to + (uint64_t)m * each,
                           err));
    return SL_OK;
}

static sl_status code_floats(const gathering *g, const sl_weights *weights, const sl_type *type,
                             sl_error *err) {
    const int64_t count = sl_type_elements(type);
    const size_t bytes = (size_t)count * sizeof(float);
    float *floats = sl_resize(weights->arena.allocator, NULL, 0, bytes, 64);
    if (!floats) return sl_no_memory(err, g->gather->from, bytes);
    sl_status status = gather_floats(*g, weights->arena.allocator, count, floats, err);
    if (status == SL_OK) status = code(type, floats, g->to, err);
    sl_release(weights->arena.allocator, floats, bytes, 64);
    return status;
}

/* ---- 8-bit floats whose rows become columns: their files scale square tiles, so that the codes of
 * a new group mostly have one scale and can be moved ---- */

/* Of row and column of an f8 matrix. */
static uint64_t f8_params(const sl_panel_layout *l, int64_t row, int64_t col) {
    return (uint64_t)(row / SL_PANEL_ROWS) * l->panel_bytes + l->header_bytes +
           sl_group_params(l, col / SL_GROUP_COLS) +
           (uint64_t)(row % SL_PANEL_ROWS) * sizeof(float);
}
static uint64_t f8_code(const sl_panel_layout *l, int64_t row, int64_t col) {
    const uint64_t word = (uint64_t)(col % SL_GROUP_COLS) / 4, byte = (uint64_t)col % 4;
    return (uint64_t)(row / SL_PANEL_ROWS) * l->panel_bytes + l->header_bytes +
           sl_group_codes(l, col / SL_GROUP_COLS) +
           (word * SL_PANEL_ROWS + (uint64_t)(row % SL_PANEL_ROWS)) * 4 + byte;
}
static float f8_scale(const sl_panel_layout *l, const uint8_t *matrix, int64_t row, int64_t col) {
    float scale;
    memcpy(&scale, matrix + f8_params(l, row, col), sizeof scale);
    return scale;
}

/* The row that becomes column `to` of group `group`'s matrix. */
static int64_t row_of(const gathering *g, int64_t group, int64_t to) {
    return group * g->gather->stride + g->gather->parts[0].offset + to;
}

static bool scales_agree(const gathering *g) {
    const sl_panel_layout a = sl_panel_layout_of(g->dtype, g->from_rows, g->cols);
    for (int64_t i = 0; i < (int64_t)g->gather->groups * g->rows; i++)
        for (int64_t c = 0; c < g->cols; c += SL_GROUP_COLS) {
            const int64_t group = i / g->rows, to = i % g->rows;
            const int64_t first = row_of(g, group, to / SL_GROUP_COLS * SL_GROUP_COLS);
            if (f8_scale(&a, g->from, row_of(g, group, to), c) != f8_scale(&a, g->from, first, c))
                return false;
        }
    return true;
}

static void turn_f8(const gathering *g, const sl_type *type) {
    const sl_panel_layout a = sl_panel_layout_of(g->dtype, g->from_rows, g->cols);
    const sl_panel_layout b = sl_panel_layout_of(g->dtype, g->cols, g->rows);
    memset(g->to, 0, sl_type_bytes(type));
    for (int64_t i = 0; i < (int64_t)g->gather->groups * g->rows; i++) {
        uint8_t *matrix = g->to + (uint64_t)(i / g->rows) * b.matrix_bytes;
        const int64_t to = i % g->rows, from = row_of(g, i / g->rows, to);
        for (int64_t c = 0; c < g->cols; c++) {
            const float scale = f8_scale(&a, g->from, from, c);
            memcpy(matrix + f8_params(&b, c, to), &scale, sizeof scale);
            matrix[f8_code(&b, c, to)] = g->from[f8_code(&a, from, c)];
        }
    }
}

/* Floats whose rows become columns. */
static sl_status turn(const gathering *g, const sl_weights *weights, const sl_type *type,
                      sl_error *err) {
    const uint64_t bytes = sl_type_bytes(type);
    gathering rows = *g;
    rows.to = sl_resize(weights->arena.allocator, NULL, 0, bytes, 64);
    if (!rows.to) return sl_no_memory(err, g->gather->from, bytes);
    each_run(&rows, move_plain);
    transpose(g, rows.to, sl_dtype_infos[type->dtype].bytes);
    sl_release(weights->arena.allocator, rows.to, bytes, 64);
    return SL_OK;
}

static sl_dtype result_dtype(const gathering *g, const sl_dims *shape) {
    if (sl_dtype_infos[g->dtype].kind != SL_KIND_PANEL) return g->dtype;
    if (!g->gather->transposed) return is_even(g->gather) ? g->dtype : SL_DTYPE_f32;
    if (shape->dims[shape->rank - 1] < SL_GROUP_COLS) return SL_DTYPE_f32;
    return g->dtype == SL_DTYPE_f8 && scales_agree(g) ? SL_DTYPE_f8 : SL_DTYPE_q8;
}

static gathering plan(const sl_weight *weight) {
    const sl_weight_gather *gather = weight->gather;
    const sl_dims *shape = &weight->type.shape;
    const uint32_t rank = shape->rank;
    return (gathering){.gather = gather,
                       .dtype = weight->entry->type.dtype,
                       .from_rows = (int64_t)gather->groups * gather->stride,
                       .rows = shape->dims[rank - (gather->transposed ? 1 : 2)],
                       .cols = shape->dims[rank - (gather->transposed ? 2 : 1)]};
}

static sl_status move(const gathering *g, const sl_weights *weights, const sl_type *type,
                      sl_error *err) {
    const bool turned = sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL && g->gather->transposed;
    if (turned && type->dtype == SL_DTYPE_q8) return code_floats(g, weights, type, err);
    if (turned) {
        turn_f8(g, type);
        return SL_OK;
    }
    if (type->dtype != g->dtype)
        return gather_floats(*g, weights->arena.allocator, sl_type_elements(type),
                             (float *)(void *)g->to, err);
    if (g->gather->transposed) return turn(g, weights, type, err);
    each_run(g, sl_dtype_infos[g->dtype].kind == SL_KIND_PANEL ? move_panels : move_plain);
    return SL_OK;
}

/* Whether the dtype depends on the bytes of the source. */
static bool needs_bytes(const gathering *g) {
    return g->dtype == SL_DTYPE_f8 && g->gather->transposed;
}

sl_status sl_weight_gather_type(const sl_weights *weights, sl_weight *weight, sl_error *err) {
    gathering g = plan(weight);
    const void *bytes = NULL;
    SL_TRY(check(weight, &g, err));
    if (needs_bytes(&g)) SL_TRY(sl_source_load(weights->source, weight->entry, &bytes, err));
    g.from = bytes;
    weight->type.dtype = result_dtype(&g, &weight->type.shape);
    if (bytes) sl_source_unload(weights->source, weight->entry);
    return SL_OK;
}

sl_status sl_weight_gather_rows(sl_weights *weights, sl_weight *weight, const void *from,
                                sl_error *err) {
    gathering g = plan(weight);
    g.from = from;
    g.to = sl_arena_alloc(&weights->arena, sl_type_bytes(&weight->type), 64);
    if (!g.to) return sl_no_memory(err, weight->name, sl_type_bytes(&weight->type));
    weight->data = g.to;
    return move(&g, weights, &weight->type, err);
}

uint64_t sl_weight_gather_bytes(const sl_weight *weight) {
    const sl_dtype from = weight->entry->type.dtype, to = weight->type.dtype;
    const uint64_t floats = (uint64_t)sl_type_elements(&weight->type) * sizeof(float);
    if (!weight->gather->transposed || to == SL_DTYPE_f8) return 0;
    if (sl_dtype_infos[to].kind == SL_KIND_PANEL) return 2 * floats; /* rows, then columns */
    return from == to ? sl_type_bytes(&weight->type) : floats;
}

sl_status sl_weight_gather_floats(const sl_weights *weights, const sl_weight *weight, float *out,
                                  sl_error *err) {
    gathering g = plan(weight);
    const void *data;
    SL_TRY(sl_source_load(weights->source, weight->entry, &data, err));
    g.from = data;
    return gather_floats(g, weights->arena.allocator, sl_type_elements(&weight->type), out, err);
}
