/* gather.c - Rows are copied as they are, plain ones one by one and those of panels sixteen at a
 * time; where that does not come out even they are decoded.  Nothing is rounded. */
#include "engine/models/gather.h"
#include "core/codec.h"
#include <string.h>

typedef struct {
    const sl_weight_gather *gather;
    sl_dtype dtype; /* of both where rows are moved */
    int64_t from_rows, rows, cols;
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
    const uint64_t first = (uint64_t)from / SL_PANEL_ROWS, last = (uint64_t)to / SL_PANEL_ROWS;
    const uint64_t count = (uint64_t)rows / SL_PANEL_ROWS;
    const uint64_t header = a.header_bytes ? (uint64_t)a.supers * 2 * sizeof(float) : 0;
    memcpy(g->to + last * header, g->from + first * header, count * header);
    memcpy(g->to + b.header_bytes + last * b.panel_bytes,
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

static sl_status turn(const sl_weights *weights, gathering *g, const sl_weight *out,
                      sl_error *err) {
    const uint64_t bytes = sl_type_bytes(&out->type);
    uint8_t *rows = sl_resize(weights->arena.allocator, NULL, 0, bytes, 64), *to = g->to;
    if (!rows) return sl_no_memory(err, out->name, bytes);
    g->to = rows;
    each_run(g, sl_dtype_infos[g->dtype].kind == SL_KIND_PANEL ? decode : move_plain);
    g->to = to;
    transpose(g, rows, sl_dtype_infos[out->type.dtype].bytes);
    sl_release(weights->arena.allocator, rows, bytes, 64);
    return SL_OK;
}

static gathering gathering_of(const sl_weight *weight) {
    const sl_weight_gather *gather = weight->gather;
    const sl_dims *shape = &weight->type.shape;
    gathering g = {.gather = gather,
                   .dtype = weight->entry->type.dtype,
                   .from_rows = (int64_t)gather->groups * gather->stride,
                   .cols = shape->dims[shape->rank - (gather->transposed ? 2 : 1)]};
    for (uint32_t p = 0; p < gather->part_count; p++)
        g.rows += (int64_t)gather->groups * gather->parts[p].length;
    return g;
}

static bool is_panel(const gathering *g) {
    return sl_dtype_infos[g->dtype].kind == SL_KIND_PANEL;
}

sl_status sl_weight_gather_type(sl_weight *weight, sl_error *err) {
    const gathering g = gathering_of(weight);
    SL_TRY(check(weight, &g, err));
    const bool decoded =
        is_panel(&g) && (g.gather->transposed || weight->type.shape.rank > 2 || !is_even(g.gather));
    weight->type.dtype = decoded ? SL_DTYPE_f32 : g.dtype;
    return SL_OK;
}

sl_status sl_weight_gather_rows(sl_weights *weights, sl_weight *weight, const void *from,
                                sl_error *err) {
    gathering g = gathering_of(weight);
    const uint64_t bytes = sl_type_bytes(&weight->type);
    g.from = from;
    g.to = sl_arena_alloc(&weights->arena, bytes, 64);
    if (!g.to) return sl_no_memory(err, weight->name, bytes);
    weight->data = g.to;
    if (g.gather->transposed) return turn(weights, &g, weight, err);
    each_run(&g, !is_panel(&g) ? move_plain : weight->type.dtype != g.dtype ? decode : move_panels);
    return SL_OK;
}

uint64_t sl_weight_gather_bytes(const sl_weight *weight) {
    return weight->gather->transposed ? sl_type_bytes(&weight->type) : 0;
}
